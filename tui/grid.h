/* A rectangle of cells with meanings instead of colours: what views draw into, and what the screen
 * and the savers take. */
#ifndef TUI_GRID_H
#define TUI_GRID_H

#include <stdbool.h>
#include <stdint.h>

/* Everything a cell can mean; only a theme knows colours. Names as in theme files. */
#define GRID_ROLES(X)         \
    X(TEXT, "text")           \
    X(DIM, "dim")             \
    X(TITLE, "title")         \
    X(BORDER, "border")       \
    X(KEY, "key")             \
    X(CURSOR, "cursor")       \
    X(FINITE, "finite")       \
    X(EXTREME, "extreme")     \
    X(NONFINITE, "nonfinite") \
    X(GAP, "gap")             \
    X(FROZEN, "frozen")       \
    X(SELECTED, "selected")   \
    X(PANEL1, "panel1")       \
    X(PANEL2, "panel2")       \
    X(PANEL3, "panel3")       \
    X(PANEL4, "panel4")

enum grid_role {
#define X(upper, lower) GRID_##upper,
    GRID_ROLES(X)
#undef X
        GRID_ROLE_COUNT
};

struct grid_cell {
    uint32_t glyph[2]; /* code point and one combining mark (0: none); 0 in [0]: right half of a
                          wide character */
    uint8_t role;      /* enum grid_role */
};

struct grid {
    int rows, columns;
    int room;               /* cells there is memory for */
    struct grid_cell *cell; /* (rows, columns), owned */
};

struct grid_rect {
    int row, column, rows, columns;
};

/* Any size from 1x1 on, all blank; keeps memory when it shrinks. -1: no memory. */
int grid_resize(struct grid *grid, int rows, int columns);
void grid_free(struct grid *grid);
void grid_clear(struct grid *grid);

/* One cell, a glyph of one column; outside the grid nothing happens. Half of a wide character takes
 * the other half along. */
void grid_put(struct grid *grid, int row, int column, uint32_t glyph, enum grid_role role);
/* UTF-8 text; what takes more than `width` columns ends in an ellipsis, behind a word where one
 * ends, never inside a number (a no-break space holds words together). Control characters as
 * escapes; wide and combining characters keep the columns true. Returns the columns used. */
int grid_text(struct grid *grid, int row, int column, int width, enum grid_role role,
              const char *text);
/* The columns that all of a text takes. */
int grid_columns(const char *text);

/* What stands for a glyph where there is no Unicode: no two marks of a panel become the same. '?'
 * for what has none. */
uint32_t grid_ascii(uint32_t glyph);
/* The grid as UTF-8 lines, or as ASCII, trailing blanks cut, each with a newline. NULL: no memory;
 * the caller frees it. */
char *grid_to_text(const struct grid *grid, bool ascii);

#endif
