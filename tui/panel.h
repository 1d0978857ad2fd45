/* The panels of one run's metrics with name, value and scale, and the health strip under them. */
#ifndef TUI_PANEL_H
#define TUI_PANEL_H

#include "tui/layout.h"
#include "tui/lens.h"

/* The metrics that this run publishes, in the order of their importance. Returns how many. */
int panel_list(const struct run *run, int metric[LAYOUT_PANELS_MAX]);
/* The detector's limit on a metric, which its panel shows as a line; NAN: none. */
double panel_limit(const struct lens *lens, int metric);
void panel_draw(struct grid *grid, const struct layout *layout, int panel, int metric,
                const struct lens *lens);
/* The bands, column for column, and what a column is. */
void panel_draw_health(struct grid *grid, const struct layout *layout, const struct lens *lens);

#endif
