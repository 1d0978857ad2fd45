#include "tui/table.h"

#include <stdio.h>
#include <string.h>

#include "shared/core/text.h"
#include "tui/fields.h"
#include "tui/phrase.h"

/* One tensor in one step. */
struct row {
    const struct run *run;
    const struct record *record;
    int tensor;
    const struct schema_tensor *about;
    const struct tensor_stat *stat;
};

static const struct row *of(const void *row) { return row; }

static double times_usual(const struct tensor_stat *stat) {
    return stat->max_abs / stat->usual; /* NaN where either is not known */
}

/* Not finer than a power of two, and not at all in range: else the table would be shuffled at every
 * step. */
static int rank_of(const struct tensor_stat *stat) {
    double times = times_usual(stat);
    int exponent = stat->band != BAND_FINITE && times > 1 && isfinite(times) ? ilogb(times) : 0;
    return (int)stat->band * 4096 + exponent;
}

int table_sort(const struct run *run, const struct record *record, int *order, int max) {
    int count = 0;
    for (int i = 0; i < record->tensors && i < run->hello.schema.tensors; i++) {
        if (record->tensor[i].count < 0) continue;
        int rank = rank_of(&record->tensor[i]), at = count < max ? count : max;
        while (at > 0 && rank_of(&record->tensor[order[at - 1]]) < rank) at--;
        if (at == max) continue;
        int moved = (count < max ? count : max - 1) - at;
        memmove(&order[at + 1], &order[at], (size_t)moved * sizeof *order);
        order[at] = i;
        if (count < max) count++;
    }
    return count;
}

/* The step at which a tensor left its range, going back over the records in memory; `*older`: they
 * end before it. */
static int64_t find_onset(const struct row *row, bool *older) {
    int64_t onset = row->record->step;
    *older = true;
    for (int64_t step = onset - 1; step >= 0 && step >= onset - RUN_STRETCH_GAP - 1; step--) {
        const struct record *record = run_find_record(row->run, step);
        if (record == NULL) return onset;
        const struct tensor_stat *stat =
            row->tensor < record->tensors ? &record->tensor[row->tensor] : NULL;
        if (stat == NULL || stat->count < 0) continue;
        if (stat->band != BAND_FINITE) onset = step;
    }
    *older = false;
    return onset;
}

static void say_name(char *out, size_t size, const void *row, enum grid_role *role) {
    (void)role;
    text_copy(out, size, of(row)->about->name);
}

static void say_role(char *out, size_t size, const void *row, enum grid_role *role) {
    (void)role;
    text_copy(out, size, schema_role_brief(of(row)->about->role));
}

static void say_band(char *out, size_t size, const void *row, enum grid_role *role) {
    enum band band = of(row)->stat->band;
    *role = phrase_band_role(band);
    text_copy(out, size,
              band == BAND_FINITE ? "finite"
                                  : phrase_band(band)); /* capitals are for what matters */
}

static void say_known(char *out, size_t size, double value) {
    if (isnan(value))
        text_copy(out, size, "-");
    else
        phrase_number(out, size, value);
}

static void say_max(char *out, size_t size, const void *row, enum grid_role *role) {
    (void)role;
    say_known(out, size, of(row)->stat->max_abs);
}

static void say_norm(char *out, size_t size, const void *row, enum grid_role *role) {
    double norm = sqrt(of(row)->stat->sum_sq);
    if (!isfinite(norm)) *role = GRID_NONFINITE;
    phrase_number(out, size, norm);
}

static void say_times(char *out, size_t size, const void *row, enum grid_role *role) {
    (void)role;
    say_known(out, size, times_usual(of(row)->stat));
}

static void say_bad(char *out, size_t size, int64_t count, enum grid_role *role) {
    *role = count > 0 ? GRID_NONFINITE : GRID_DIM;
    phrase_count(out, size, count);
}

static void say_nan(char *out, size_t size, const void *row, enum grid_role *role) {
    say_bad(out, size, of(row)->stat->nan, role);
}

static void say_pos_inf(char *out, size_t size, const void *row, enum grid_role *role) {
    say_bad(out, size, of(row)->stat->pos_inf, role);
}

static void say_neg_inf(char *out, size_t size, const void *row, enum grid_role *role) {
    say_bad(out, size, of(row)->stat->neg_inf, role);
}

static void say_onset(char *out, size_t size, const void *row, enum grid_role *role) {
    (void)role;
    bool older;
    text_copy(out, size, "");
    if (of(row)->stat->band == BAND_FINITE) return;
    int64_t onset = find_onset(of(row), &older);
    char place[32];
    phrase_place_brief(place, sizeof place, of(row)->run, onset, of(row)->record->epoch);
    snprintf(out, size, "%s%s", older ? "≤" : "", place);
}

static const struct field FIELDS[] = {
    {"tensor", 13, 24, true, 9, say_name}, {"role", 6, 6, true, 5, say_role},
    {"band", 10, 10, true, 8, say_band},   {"max", 8, 8, false, 7, say_max},
    {"norm", 7, 8, false, 0, say_norm},    {"x usual", 7, 8, false, 6, say_times},
    {"nan", 4, 6, false, 4, say_nan},      {"+inf", 4, 6, false, 2, say_pos_inf},
    {"-inf", 4, 6, false, 1, say_neg_inf}, {"onset", 5, 8, false, 3, say_onset},
};
enum { FIELD_COUNT = sizeof FIELDS / sizeof *FIELDS };

void table_draw(struct grid *grid, struct grid_rect rect, const struct lens *lens) {
    const struct run *run = lens->run;
    int64_t step = lens->frozen ? lens->cursor : lens->table_step;
    const struct record *record = run_find_record(run, step);
    struct grid_rect line = {rect.row, rect.column, 1, rect.columns};
    struct fields fields;
    fields_init(&fields, FIELDS, FIELD_COUNT, rect.columns);
    fields_draw(&fields, grid, line, NULL);
    if (record == NULL) {
        const char *why = lens->frozen ? "fetching the record of this step" : "no record yet";
        if (rect.rows > 1)
            grid_text(grid, rect.row + 1, rect.column + 1, rect.columns - 1, GRID_DIM, why);
        return;
    }
    int order[TABLE_WORST_MAX];
    int count = table_sort(run, record, order, TABLE_WORST_MAX), shown = rect.rows - 1;
    int top = lens->table_top > count - shown ? count - shown : lens->table_top;
    for (int i = top < 0 ? 0 : top; i < count && ++line.row < rect.row + rect.rows; i++) {
        struct row row = {run, record, order[i], &run->hello.schema.tensor[order[i]],
                          &record->tensor[order[i]]};
        fields_draw(&fields, grid, line, &row);
    }
}

static const char *event_title(const struct event *event) {
    return event->kind == EVENT_ALARM       ? "ALARM"
           : event->kind == EVENT_NONFINITE ? "NON-FINITE"
                                            : event_kind_name(event->kind);
}

static enum grid_role event_role(const struct event *event) {
    switch (event->kind) {
    case EVENT_NONFINITE:
        return GRID_NONFINITE;
    case EVENT_ALARM:
        return event->band == BAND_NONFINITE ? GRID_NONFINITE : GRID_EXTREME;
    case EVENT_NOTICE:
        return GRID_EXTREME;
    case EVENT_GAP:
    case EVENT_UNRECORDED:
        return GRID_GAP;
    default:
        return GRID_TITLE;
    }
}

/* At least `width` columns and a blank one. Returns the column behind it. */
static int put_column(struct grid *grid, int row, int at, int end, enum grid_role role,
                      const char *text, int width) {
    int used = grid_text(grid, row, at, end - at, role, text);
    return at + (used > width ? used : width) + 1;
}

void table_draw_events(struct grid *grid, struct grid_rect rect, const struct run *run) {
    for (int n = 0; n < rect.rows; n++) {
        const struct event *event = run_find_event(run, n);
        if (event == NULL) continue;
        int row = rect.row + rect.rows - 1 - n, at = rect.column + 1,
            end = rect.column + rect.columns;
        if (run->events < rect.rows)
            row = rect.row + run->events - 1 - n; /* they begin at the top */
        char text[PHRASE_SIZE];
        at += grid_text(grid, row, at, end - at, GRID_DIM,
                        event->wall_ns > 0 ? text_clock(text, sizeof text, event->wall_ns)
                                           : "--:--:--") +
              1;
        phrase_place_brief(text, sizeof text, run, event->step, 0);
        at = put_column(grid, row, at, end, GRID_TEXT, text, 8);
        at = put_column(grid, row, at, end, event_role(event), event_title(event), 10);
        if (at < end)
            grid_text(grid, row, at, end - at, GRID_TEXT, phrase_event(text, sizeof text, event));
    }
}
