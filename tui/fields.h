/* Lines of a table as a list of fields: where it gets narrow the least important are left out,
 * where it is wide they grow. */
#ifndef TUI_FIELDS_H
#define TUI_FIELDS_H

#include <stdbool.h>
#include <stddef.h>

#include "tui/grid.h"

enum { FIELDS_MAX = 16, FIELDS_TEXT_SIZE = 128 };

struct field {
    const char *title;
    int width, most; /* columns it has at least, and at most */
    bool left;       /* aligned */
    int weight;      /* 0 is left out first; the first field never */
    /* Writes what the field says of a row, and may change the role; NULL: somebody else draws
     * there. */
    void (*say)(char *out, size_t size, const void *row, enum grid_role *role);
};

struct fields {
    const struct field *field; /* (count) */
    int count;
    int start[FIELDS_MAX]; /* column, from the left of the line */
    int width[FIELDS_MAX]; /* 0: left out */
};

void fields_init(struct fields *fields, const struct field *field, int count, int columns);
/* `row` NULL: the titles. */
void fields_draw(const struct fields *fields, struct grid *grid, struct grid_rect line,
                 const void *row);

#endif
