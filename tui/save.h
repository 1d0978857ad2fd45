/* Keeps a screen: its text, and the numbers behind it. */
#ifndef TUI_SAVE_H
#define TUI_SAVE_H

#include "shared/core/error.h"
#include "tui/view.h"

struct save_options {
    const char *folder; /* NULL: the working folder */
    bool ascii;         /* the text without Unicode */
};

/* Writes nantop-RUN-STEP.txt and .csv (of the overview nantop-runs-N), under a temporary name
 * first, never over another file
 * (-2 ... is added). `said`: one line with host and path. -1: nothing is left behind. */
int save_screen(const struct view *view, const struct grid *grid,
                const struct save_options *options, char *said, size_t size, struct error *error);
/* The numbers as CSV: of one run a line a column of the picture, of the overview a line a run.
 * NULL: no memory; the caller frees it. */
char *save_numbers(const struct view *view);

#endif
