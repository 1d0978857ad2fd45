#include "tui/fields.h"

#include "shared/core/text.h"

/* Leaves out the field of least weight. Returns the columns that become free. */
static int leave_out(struct fields *fields) {
    int least = -1;
    for (int i = 1; i < fields->count; i++)
        if (fields->width[i] > 0 &&
            (least < 0 || fields->field[i].weight < fields->field[least].weight))
            least = i;
    if (least < 0) return 0;
    int freed = fields->width[least] + 1;
    fields->width[least] = 0;
    return freed;
}

void fields_init(struct fields *fields, const struct field *field, int count, int columns) {
    fields->field = field;
    fields->count = count;
    int over = columns - 1, freed = 1;
    for (int i = 0; i < count; i++) over -= (fields->width[i] = field[i].width) + (i > 0);
    for (; over < 0 && freed > 0; over += freed) freed = leave_out(fields);
    for (int i = 0; i < count; i++) {
        if (fields->width[i] == 0 || over <= 0) continue;
        int more = field[i].most - field[i].width;
        if (more > over) more = over;
        fields->width[i] += more;
        over -= more;
    }
    int gap = 1 + (over / count < 3 ? over / count : 3);
    for (int i = 0, at = 1; i < count; i++) {
        fields->start[i] = at;
        if (fields->width[i] > 0) at += fields->width[i] + gap;
    }
}

void fields_draw(const struct fields *fields, struct grid *grid, struct grid_rect line,
                 const void *row) {
    for (int i = 0; i < fields->count; i++) {
        const struct field *field = &fields->field[i];
        char text[FIELDS_TEXT_SIZE];
        enum grid_role role = row == NULL ? GRID_DIM : GRID_TEXT;
        int width = fields->width[i], start = fields->start[i];
        if (start + width > line.columns) width = line.columns - start;
        if (width <= 0) continue;
        if (row == NULL)
            text_copy(text, sizeof text, field->title);
        else if (field->say != NULL)
            field->say(text, sizeof text, row, &role);
        else
            continue;
        int all = grid_columns(text);
        if (!field->left && all < width) start += width - all;
        grid_text(grid, line.row, line.column + start, width, role, text);
    }
}
