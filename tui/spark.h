/* A metric over steps as bars of eight heights a row, and the marks for what has no height: N NaN,
 * + +Inf, - -Inf, : missing, ^ larger than a float, _ zero or less under log. A bar is the largest
 * value of its column. */
#ifndef TUI_SPARK_H
#define TUI_SPARK_H

#include "tui/grid.h"
#include "tui/lens.h"

enum { SPARK_COLUMNS_MAX = 512 };

struct spark {
    int columns;
    bool known[SPARK_COLUMNS_MAX];
    struct series_column column[SPARK_COLUMNS_MAX];
    bool thinned; /* some column may show neighbouring steps */
    bool scaled;  /* some column has a finite value */
    bool log;     /* then low and high are powers of ten */
    double low, high;
    double limit;        /* drawn as a line; NAN: none */
    int open;            /* column that is not full yet; -1: none */
    int cursor;          /* column; -1: none */
    enum grid_role role; /* of columns that are finite */
};

/* Takes the columns of a metric and finds their scale: log10 beyond 3 decades or with a limit (NAN:
 * none), else linear; the bounds are round, so that they seldom change. The open column, whose
 * largest value is still to come, does not pull the scale down: while it is below it, it is not
 * drawn. */
void spark_load(struct spark *spark, const struct run *run, int metric, struct lens_window window,
                double limit);
void spark_draw(const struct spark *spark, struct grid *grid, struct grid_rect rect);
/* One character a column: N, E, : (missing), the dot of finite, blank (nothing known); `spark` of
 * any metric. */
void spark_draw_bands(const struct spark *spark, struct grid *grid, struct grid_rect rect);

#endif
