/* The command line of nantop: one table for parser and help. */
#ifndef TUI_ARGUMENTS_H
#define TUI_ARGUMENTS_H

#include "shared/core/detector.h"
#include "shared/core/error.h"
#include "tui/lens.h"

struct arguments {
    bool help, version;
    bool once, json, follow;
    enum lens_freeze freeze;
    const char *theme;    /* NULL: not said */
    const char *save_dir; /* NULL: the working folder */
    int rows, columns;    /* of --once; 0: not said */
    bool rejudge;         /* some threshold was said */
    struct detector_limits limits;
    char *const *source; /* (sources), of argv: run, endpoint, file or "-" */
    int sources;
};

/* -1: the reason. Texts are argv's. */
int arguments_parse(struct arguments *arguments, int argc, char **argv, struct error *error);
/* Usage, options and keys, as man and README take them. */
void arguments_print_help(void);

#endif
