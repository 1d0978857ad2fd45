/* One line of short facts: where it gets narrow the least important ones are left out whole. */
#ifndef TUI_BAR_H
#define TUI_BAR_H

#include "tui/grid.h"

enum { BAR_ITEMS = 40, BAR_TEXT_SIZE = 128 };

struct bar_item {
    char text[BAR_TEXT_SIZE];
    enum grid_role role;
    int weight; /* 0 goes first */
};

struct bar {
    int items;
    struct bar_item item[BAR_ITEMS];
};

/* Silently full after BAR_ITEMS. */
void bar_add(struct bar *bar, int weight, enum grid_role role, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* From one blank column on; returns the columns used. */
int bar_draw(const struct bar *bar, struct grid *grid, struct grid_rect rect, const char *between);

#endif
