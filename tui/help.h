/* The help screen, from the table of the keys, and the line of keys below everything. */
#ifndef TUI_HELP_H
#define TUI_HELP_H

#include "tui/grid.h"

/* Lines of the help for a screen (enum keys_scope). */
int help_lines(unsigned scope);
void help_draw(struct grid *grid, struct grid_rect rect, unsigned scope, int top);
void help_draw_keys(struct grid *grid, struct grid_rect rect, unsigned scope);

#endif
