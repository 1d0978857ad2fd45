/* Where everything of one run's screen stands, for any size: less below 80x24, more above; nothing
 * overlaps. */
#ifndef TUI_LAYOUT_H
#define TUI_LAYOUT_H

#include "tui/grid.h"

enum {
    LAYOUT_PANELS_MAX = 24,
    LAYOUT_GUTTER = 7,
    LAYOUT_KEYS_FROM = 6 /* rows: then the last one is left to the keys */
};

struct layout_wish {
    int rows, columns;
    int panels;  /* there could be */
    int tensors; /* 0: no table */
};

struct layout { /* a rectangle of 0 rows is not there */
    struct grid_rect header, bar, health, table, events;
    int panels;
    struct grid_rect panel[LAYOUT_PANELS_MAX];
    int gutter;       /* columns left of the data in every panel, for the scale */
    int data_columns; /* the same in every panel and in the health strip */
};

void layout_init(struct layout *layout, const struct layout_wish *wish);

#endif
