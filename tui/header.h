/* The two lines on top of one run: what and where it is, and how it is doing. */
#ifndef TUI_HEADER_H
#define TUI_HEADER_H

#include <stddef.h>

#include "tui/grid.h"
#include "tui/lens.h"

struct header_facts {
    int64_t now_ns; /* monotonic */
    int runs;       /* that are watched */
};

void header_draw(struct grid *grid, struct grid_rect rect, const struct lens *lens,
                 const struct header_facts *facts);
/* Band, reason or first non-finite tensor, onset, lead, last safe checkpoint: of the newest step,
 * frozen or not. */
void header_draw_bar(struct grid *grid, struct grid_rect rect, const struct lens *lens);
/* Band of the newest step; BAND_FINITE while there is none. */
enum band header_band(const struct run *run);
/* What the link says, "silent 12 s". */
enum grid_role header_link(char *out, size_t size, const struct run *run, int64_t now_ns);

#endif
