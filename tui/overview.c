#include "tui/overview.h"

#include <inttypes.h>
#include <stdio.h>

#include "shared/core/text.h"
#include "tui/bar.h"
#include "tui/fields.h"
#include "tui/header.h"
#include "tui/phrase.h"
#include "tui/spark.h"

struct row {
    const struct lens *lens;
    const struct run *run;
    int64_t now_ns;
};

static const struct row *of(const void *row) { return row; }

static void say_name(char *out, size_t size, const void *row, enum grid_role *role) {
    const struct run *run = of(row)->run;
    *role = GRID_TITLE;
    text_copy(out, size, run->known ? run->hello.name : run->source);
}

static void say_config(char *out, size_t size, const void *row, enum grid_role *role) {
    (void)role;
    const char *history = hello_find_config(&of(row)->run->hello, "history");
    const char *seed = hello_find_config(&of(row)->run->hello, "seed");
    snprintf(out, size, "%s %s", history ? history : "-", seed ? seed : "-");
}

static void say_place(char *out, size_t size, const void *row, enum grid_role *role) {
    (void)role;
    int64_t step = of(row)->lens->number_step;
    text_copy(out, size, "-");
    if (step >= 0) phrase_place_brief(out, size, of(row)->run, step, 0);
}

static void say_loss(char *out, size_t size, const void *row, enum grid_role *role) {
    double value;
    bool fetching;
    text_copy(out, size, "-");
    if (!lens_value(of(row)->run, METRIC_LOSS, of(row)->lens->number_step, &value, &fetching))
        return;
    if (!isfinite(value)) *role = GRID_NONFINITE;
    phrase_number(out, size, value);
}

static void say_band(char *out, size_t size, const void *row, enum grid_role *role) {
    const struct run *run = of(row)->run;
    enum band band = header_band(run);
    *role = phrase_band_role(run->alarms > 0 && run->worst > band ? run->worst : band);
    text_copy(out, size,
              run->series.last < 0  ? "-"
              : band == BAND_FINITE ? "finite"
                                    : phrase_band(band));
}

static void say_onset(char *out, size_t size, const void *row, enum grid_role *role) {
    (void)role;
    text_copy(out, size, "-");
    if (of(row)->run->onset >= 0)
        phrase_place_brief(out, size, of(row)->run, of(row)->run->onset, 0);
}

static void say_lead(char *out, size_t size, const void *row, enum grid_role *role) {
    (void)role;
    text_copy(out, size, "-");
    if (of(row)->run->lead >= 0) snprintf(out, size, "%" PRId64, of(row)->run->lead);
}

static void say_link(char *out, size_t size, const void *row, enum grid_role *role) {
    *role = header_link(out, size, of(row)->run, of(row)->now_ns);
}

static const struct field FIELDS[] = {
    {"run", 10, 20, true, 9, say_name},   {"config", 9, 12, true, 0, say_config},
    {"at", 8, 9, true, 5, say_place},     {"loss", 7, 8, false, 6, say_loss},
    {"grad_norm", 9, 200, true, 4, NULL}, {"band", 10, 10, true, 8, say_band},
    {"onset", 7, 9, true, 3, say_onset},  {"lead", 4, 4, false, 2, say_lead},
    {"link", 7, 12, true, 7, say_link},
};
enum { FIELD_COUNT = sizeof FIELDS / sizeof *FIELDS, FIELD_SPARK = 4 };

void overview_sort(const struct lens *lens, int count, int *order) {
    int used = 0;
    for (int alarmed = 1; alarmed >= 0; alarmed--)
        for (int i = 0; i < count; i++)
            if ((lens[i].run->alarms > 0) == alarmed) order[used++] = i;
}

static void draw_spark(struct grid *grid, struct grid_rect line, const struct lens *lens) {
    struct spark spark;
    spark_load(&spark, lens->run, METRIC_GRAD_NORM, lens_live_window(lens, line.columns),
               (double)NAN);
    spark.role = GRID_PANEL2;
    spark_draw(&spark, grid, line);
}

static void draw_run(struct grid *grid, struct grid_rect line, const struct fields *fields,
                     const struct row *row) {
    fields_draw(fields, grid, line, row);
    int width = fields->width[FIELD_SPARK];
    struct grid_rect spark = {line.row, line.column + fields->start[FIELD_SPARK], 1, width};
    if (width > 0 && row->run->series.last >= 0) draw_spark(grid, spark, row->lens);
}

static void draw_summary(struct grid *grid, struct grid_rect line,
                         const struct overview *overview) {
    int alarmed = 0, live = 0;
    for (int i = 0; i < overview->count; i++) {
        alarmed += overview->lens[i].run->alarms > 0;
        live += overview->lens[i].run->link == RUN_LIVE;
    }
    struct bar bar = {0};
    bar_add(&bar, 0, GRID_TITLE, "nantop");
    bar_add(&bar, 3, GRID_TEXT, "%d runs", overview->count);
    bar_add(&bar, 2, GRID_TEXT, "%d live", live);
    if (alarmed > 0) bar_add(&bar, 4, GRID_NONFINITE, "%d alarmed", alarmed);
    bar_draw(&bar, grid, line, "  ");
}

void overview_draw(struct grid *grid, struct grid_rect rect, const struct overview *overview) {
    int order[OVERVIEW_RUNS_MAX], selected = 0, shown = rect.rows - 2;
    struct grid_rect line = {rect.row, rect.column, 1, rect.columns};
    struct fields fields;
    draw_summary(grid, line, overview);
    fields_init(&fields, FIELDS, FIELD_COUNT, rect.columns);
    line.row++;
    if (rect.rows > 1) fields_draw(&fields, grid, line, NULL);
    overview_sort(overview->lens, overview->count, order);
    for (int i = 0; i < overview->count; i++)
        if (order[i] == overview->selected) selected = i;
    int top = selected < shown ? 0 : selected - shown + 1;
    for (int i = top; i < overview->count && i < top + shown; i++) {
        const struct lens *lens = &overview->lens[order[i]];
        struct row row = {lens, lens->run, overview->now_ns};
        line.row++;
        draw_run(grid, line, &fields, &row);
        if (i == selected) grid_put(grid, line.row, line.column, 0x25b8, GRID_CURSOR);
    }
}
