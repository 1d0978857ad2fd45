/* Several runs, a row each; those that alarmed stand on top. It never freezes. */
#ifndef TUI_OVERVIEW_H
#define TUI_OVERVIEW_H

#include "tui/grid.h"
#include "tui/lens.h"

enum { OVERVIEW_RUNS_MAX = 256 };

struct overview {
    const struct lens *lens; /* (count) */
    int count;
    int selected; /* index of a lens */
    int64_t now_ns;
};

/* Indices of the lenses in the order of the rows; `order` has room for all. */
void overview_sort(const struct lens *lens, int count, int *order);
/* Scrolled so that the selected row is visible. */
void overview_draw(struct grid *grid, struct grid_rect rect, const struct overview *overview);

#endif
