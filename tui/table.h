/* The tensors of one step, worst first, and the events of a run, newest last. */
#ifndef TUI_TABLE_H
#define TUI_TABLE_H

#include "tui/lens.h"
#include "tui/grid.h"

enum { TABLE_WORST_MAX = 512 }; /* as far down as the table can be scrolled */

/* The tensors of a record by band, those out of range then by the power of two of x usual, else
 * as in the schema; the first `max`. Returns how many. */
int table_sort(const struct run *run, const struct record *record, int *order, int max);
void table_draw(struct grid *grid, struct grid_rect rect, const struct lens *lens);
void table_draw_events(struct grid *grid, struct grid_rect rect, const struct run *run);

#endif
