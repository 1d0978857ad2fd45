#include "tui/spark.h"

#include <float.h>

enum { BLOCK = 0x2580, LINE_CURSOR = 0x2502, LINE_LIMIT = 0x254c, FILL = 0x250a, DOT = 0xb7 };
enum { NONFINITE_MARKS = SERIES_NAN | SERIES_POS_INF | SERIES_NEG_INF };

struct extent {
    double least, least_positive, most;
};

static void extend(struct extent *extent, double value) {
    if (value < extent->least) extent->least = value;
    if (value > extent->most) extent->most = value;
    if (value > 0 && value < extent->least_positive) extent->least_positive = value;
}

/* 1, 2 or 5 times a power of ten, not less than `value`. */
static double round_up(double value) {
    double power = pow(10, floor(log10(value))), digit = value / power;
    return power * (digit <= 1 ? 1 : digit <= 2 ? 2 : digit <= 5 ? 5 : 10);
}

static void scale_linear(struct spark *spark, const struct extent *extent) {
    double low = extent->least, high = extent->most;
    if (low > 0 && low <= high * 0.75) low = 0;
    if (low == high && low > 0) low = 0;
    if (low == high && low < 0) high = 0;
    if (low == high) high = 1;
    double tick = round_up((high - low) / 4);
    spark->low = floor(low / tick + 1e-3) * tick; /* of a float: 14.2f is less than 14.2 */
    spark->high = ceil(high / tick - 1e-3) * tick;
}

static void scale_log(struct spark *spark, const struct extent *extent) {
    spark->log = true;
    spark->low = pow(10, floor(log10(extent->least_positive) + 1e-6));
    spark->high = pow(10, ceil(log10(extent->most) - 1e-6));
    if (spark->low == spark->high) spark->high *= 10;
}

static void find_scale(struct spark *spark) {
    struct extent extent = {DBL_MAX, DBL_MAX, -DBL_MAX};
    for (int i = 0; i < spark->columns; i++) {
        const struct series_value *value = &spark->column[i].value;
        if (!spark->known[i] || value->min > value->max) continue;
        if (i == spark->open && spark->scaled && (double)value->max < extent.most) continue;
        spark->scaled = true;
        extend(&extent, (double)value->max);
    }
    if (!spark->scaled) return;
    bool limited = spark->limit > 0 && extent.most > 0;
    if (limited) extend(&extent, spark->limit);
    if (limited || (extent.most > 0 && extent.most > 1000 * extent.least_positive))
        scale_log(spark, &extent);
    else
        scale_linear(spark, &extent);
}

void spark_load(struct spark *spark, const struct run *run, int metric, struct lens_window window,
                double limit) {
    spark->columns = window.columns < SPARK_COLUMNS_MAX ? window.columns : SPARK_COLUMNS_MAX;
    spark->thinned = spark->scaled = spark->log = false;
    spark->limit = limit;
    spark->cursor = -1;
    int64_t width = INT64_C(1) << window.shift, column = (run->series.last - window.left) / width;
    bool open = run->series.last < window.last && (run->series.last + 1) % width != 0;
    spark->open = open && column >= 0 && column < spark->columns ? (int)column : -1;
    for (int i = 0; i < spark->columns; i++) {
        spark->known[i] = lens_column(run, metric, window, i, &spark->column[i]);
        spark->thinned |= spark->known[i] && spark->column[i].thinned;
    }
    find_scale(spark);
}

/* How many eighths of a row a value fills, 1 at the bottom of the scale. */
static int level_of(const struct spark *spark, double value, int rows) {
    double part = spark->log ? log10(value / spark->low) / log10(spark->high / spark->low)
                             : (value - spark->low) / (spark->high - spark->low);
    double level = 1 + round(part * (rows * 8 - 1));
    return level < 1 ? 1 : level > rows * 8 ? rows * 8 : (int)level;
}

/* One column, ready to be drawn. */
struct shape {
    uint32_t mark; /* 0: none */
    int mark_row;
    uint32_t fill; /* below the mark, when there is no bar */
    int level;     /* eighths; 0: no bar */
    enum grid_role role;
};

/* The worst of several. */
static uint32_t mark_of(unsigned marks) {
    static const struct {
        unsigned bit;
        uint32_t glyph;
    } MARKS[] = {
        {SERIES_NAN, 'N'}, {SERIES_POS_INF, '+'}, {SERIES_NEG_INF, '-'}, {SERIES_BEYOND, '^'}};
    for (int i = 0; i < 4; i++)
        if ((marks & MARKS[i].bit) != 0) return MARKS[i].glyph;
    return 0;
}

static enum grid_role band_role(enum band band, enum grid_role finite) {
    return band == BAND_FINITE ? finite : band == BAND_EXTREME ? GRID_EXTREME : GRID_NONFINITE;
}

static struct shape shape_of(const struct spark *spark, int column, int rows) {
    const struct series_column *at = &spark->column[column];
    struct shape shape = {.role = band_role(at->band, spark->role)};
    if (!spark->known[column]) return shape;
    if (at->value.marks != 0) {
        shape.mark = mark_of(at->value.marks);
        shape.fill = FILL;
        if ((at->value.marks & NONFINITE_MARKS) != 0) shape.role = GRID_NONFINITE;
    } else if (at->value.present == 0) {
        if (at->missing > 0) shape = (struct shape){.mark = ':', .fill = ':', .role = GRID_GAP};
    } else if (spark->log && at->value.max <= 0) {
        shape.mark = '_';
        shape.mark_row = rows - 1;
    } else if (column != spark->open || (double)at->value.max >= spark->low) {
        shape.level = level_of(spark, (double)at->value.max, rows);
        if (at->missing > 0) shape.mark = ':'; /* over the bar, so that both are seen */
        if (at->missing > 0 && shape.level < rows * 8)
            shape.mark_row = rows - 1 - (shape.level + 7) / 8;
        if (shape.mark_row < 0) shape.mark_row = 0;
    }
    return shape;
}

/* What the column itself has in a row; 0: nothing. */
static uint32_t glyph_of(const struct shape *shape, int row, int rows) {
    int eighths = shape->level - 8 * (rows - 1 - row);
    if (shape->mark != 0 && row == shape->mark_row) return shape->mark;
    if (eighths > 0) return (uint32_t)(BLOCK + (eighths < 8 ? eighths : 8));
    return shape->mark != 0 && row > shape->mark_row ? shape->fill : 0;
}

static void draw_column(const struct spark *spark, struct grid *grid, struct grid_rect rect,
                        int column) {
    struct shape shape = shape_of(spark, column, rect.rows);
    bool limited = spark->scaled && spark->limit >= spark->low && spark->limit <= spark->high;
    int limit_row = limited ? rect.rows - (level_of(spark, spark->limit, rect.rows) + 7) / 8 : -1;
    bool cursor = column == spark->cursor;
    for (int row = 0; row < rect.rows; row++) {
        uint32_t glyph = glyph_of(&shape, row, rect.rows);
        bool marked = glyph != 0 && glyph == shape.mark;
        enum grid_role role = marked && glyph == ':' ? GRID_GAP
                              : cursor && !marked    ? GRID_CURSOR
                                                     : shape.role;
        if (glyph == 0 && row == limit_row) glyph = LINE_LIMIT, role = GRID_DIM;
        if (cursor && (glyph == 0 || glyph == FILL || glyph == LINE_LIMIT))
            glyph = LINE_CURSOR, role = GRID_CURSOR;
        if (glyph != 0) grid_put(grid, rect.row + row, rect.column + column, glyph, role);
    }
}

void spark_draw(const struct spark *spark, struct grid *grid, struct grid_rect rect) {
    for (int i = 0; i < spark->columns && i < rect.columns; i++) draw_column(spark, grid, rect, i);
}

void spark_draw_bands(const struct spark *spark, struct grid *grid, struct grid_rect rect) {
    static const uint32_t GLYPH[BAND_COUNT] = {DOT, 'E', 'N'};
    for (int i = 0; i < spark->columns && i < rect.columns; i++) {
        const struct series_column *at = &spark->column[i];
        if (!spark->known[i] || (at->steps == 0 && at->missing == 0)) continue;
        bool gap = at->missing > 0 && at->band == BAND_FINITE;
        enum grid_role role = gap ? GRID_GAP : band_role(at->band, GRID_FINITE);
        grid_put(grid, rect.row, rect.column + i, gap ? ':' : GLYPH[at->band],
                 i == spark->cursor ? GRID_SELECTED : role);
    }
}
