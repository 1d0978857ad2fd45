/* What the modes of the program share: options, the watched runs, and how they end. */
#ifndef TUI_PROGRAM_H
#define TUI_PROGRAM_H

#include "tui/arguments.h"
#include "tui/view.h"
#include "tui/watch.h"

#define PROGRAM_MS INT64_C(1000000) /* ns */
enum {
    PROGRAM_UNREADABLE = 2, /* exit codes; also wrong usage */
    PROGRAM_NOTHING = 3,
    PROGRAM_PICTURE_MS = 10000, /* as long as a source may take to answer */
    PROGRAM_SETTLE_MS = 1500    /* and a record that was asked for */
};

struct program {
    struct arguments arguments;
    struct watch_list list;
    bool utf8;
    /* Waits for the sources (or not) and two descriptors (-1: none); `ready`: which of those can be
     * read. */
    void (*wait)(const struct watch_list *list, bool sources, const int fd[2], bool ready[2],
                 int64_t timeout_ms);
};

int64_t program_now_ns(void); /* monotonic */
/* One line on stderr. Returns `code`. */
int program_complain(const struct error *error, int code);
/* What went wrong with the sources, a line each. */
void program_complain_about_sources(const struct program *program);
/* Opens what the command line names. 0, or the exit code, said. */
int program_open(struct program *program);
/* A view of all runs so far. */
void program_view(const struct program *program, struct view *view);
/* Asks for the records that the open run's picture lacks. True when none is awaited. */
bool program_ask(struct program *program, const struct view *view);

#endif
