/* The screens as text: layout at every size, golden text, marks, keys through the whole view. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/core/text.h"
#include "tests/help_run.h"
#include "tests/help_vterm.h"
#include "tui/help.h"
#include "tui/layout.h"
#include "tui/panel.h"
#include "tui/spark.h"
#include "tui/table.h"
#include "tui/view.h"

#define NOW_NS INT64_C(60000000000)

static struct run runs[3];
static struct view view;
static struct grid grid;

static char *draw(int rows, int columns) {
    view_resize(&view, rows, columns);
    view_tick(&view, NOW_NS);
    assert_int_equal(grid_resize(&grid, rows, columns), 0);
    view_draw(&view, &grid);
    return grid_to_text(&grid, false);
}

static void open_view(const struct help_story *const *stories, int count, enum lens_freeze freeze) {
    view_init(&view, freeze, "waiting");
    for (int i = 0; i < count; i++) {
        help_run_tell(&runs[i], stories[i]);
        assert_int_equal(view_add(&view, &runs[i]), i);
    }
}

static void close_view(int count) {
    for (int i = 0; i < count; i++) run_free(&runs[i]);
    grid_free(&grid);
}

static bool overlap(struct grid_rect a, struct grid_rect b) {
    if (a.rows == 0 || b.rows == 0) return false;
    return a.row < b.row + b.rows && b.row < a.row + a.rows && a.column < b.column + b.columns &&
           b.column < a.column + a.columns;
}

/* All rectangles lie inside, none on another, and data fits into its panel, at every size up to
 * 500x200. */
static void test_layout_at_every_size(void **state) {
    (void)state;
    static const int WISHES[][2] = {{0, 0}, {1, 0}, {13, 29}, {LAYOUT_PANELS_MAX, 65536}};
    for (int rows = 1; rows <= 200; rows++) {
        for (int columns = 1; columns <= 500; columns++) {
            for (size_t w = 0; w < sizeof WISHES / sizeof *WISHES; w++) {
                struct layout layout;
                layout_init(&layout,
                            &(struct layout_wish){rows, columns, WISHES[w][0], WISHES[w][1]});
                struct grid_rect all[LAYOUT_PANELS_MAX + 5] = {
                    layout.header, layout.bar, layout.health, layout.table, layout.events};
                int count = 5 + layout.panels;
                memcpy(all + 5, layout.panel, (size_t)layout.panels * sizeof *all);
                for (int i = 0; i < count; i++) {
                    struct grid_rect rect = all[i];
                    if (rect.rows == 0) continue;
                    if (rect.row < 0 || rect.column < 0 || rect.rows < 1 || rect.columns < 1 ||
                        rect.row + rect.rows > rows || rect.column + rect.columns > columns)
                        fail_msg("%dx%d: rectangle %d is not inside", rows, columns, i);
                    for (int other = 0; other < i; other++)
                        if (overlap(rect, all[other]))
                            fail_msg("%dx%d: %d on %d", rows, columns, i, other);
                    if (i >= 5 &&
                        (rect.rows < 2 || layout.gutter + layout.data_columns > rect.columns))
                        fail_msg("%dx%d: the data of panel %d has no room", rows, columns, i - 5);
                }
                if (layout.data_columns < 1) fail_msg("%dx%d: no column", rows, columns);
            }
        }
    }
}

static void fill(struct grid *all, uint32_t glyph) {
    for (int i = 0; i < all->rows * all->columns; i++)
        all->cell[i] = (struct grid_cell){{glyph, 0}, GRID_GAP};
}

static void assert_only_inside(struct grid_rect rect, const char *part) {
    for (int i = 0; i < grid.rows * grid.columns; i++) {
        int row = i / grid.columns, column = i % grid.columns;
        bool inside = row >= rect.row && row < rect.row + rect.rows && column >= rect.column &&
                      column < rect.column + rect.columns;
        if (!inside && grid.cell[i].glyph[0] != '#')
            fail_msg("%dx%d: %s writes at %d,%d", grid.rows, grid.columns, part, row, column);
    }
}

/* Each part writes into its own rectangle only. */
static void test_parts_stay_inside(void **state) {
    (void)state;
    const struct help_story *const STORIES[] = {&HELP_FAILING};
    open_view(STORIES, 1, LENS_FREEZE_ALARM);
    for (int rows = 1; rows < 64; rows += rows < 16 ? 1 : 7) {
        for (int columns = 1; columns < 240; columns += columns < 30 ? 1 : 13) {
            int metric[LAYOUT_PANELS_MAX];
            struct layout layout;
            free(draw(rows, columns));
            const struct lens *lens = view_open_lens(&view);
            int panels = panel_list(lens->run, metric);
            layout_init(&layout, &(struct layout_wish){rows, columns, panels,
                                                       lens->run->hello.schema.tensors});
            for (int i = 0; i < layout.panels; i++) {
                fill(&grid, '#');
                panel_draw(&grid, &layout, i, metric[i], lens);
                assert_only_inside(layout.panel[i], "panel");
            }
            fill(&grid, '#');
            if (layout.health.rows > 0) panel_draw_health(&grid, &layout, lens);
            assert_only_inside(layout.health, "health");
            fill(&grid, '#');
            if (layout.table.rows > 0) table_draw(&grid, layout.table, lens);
            assert_only_inside(layout.table, "table");
            fill(&grid, '#');
            if (layout.events.rows > 0) table_draw_events(&grid, layout.events, lens->run);
            assert_only_inside(layout.events, "events");
        }
    }
    close_view(1);
}

/* 1x1 to 500x200: run, overview, help, status line. */
static void test_every_size_draws(void **state) {
    (void)state;
    static const int ROWS[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,   11,
                               12, 15, 16, 23, 24, 25, 40, 61, 120, 200};
    static const int COLUMNS[] = {1,  2,  3,  5,  7,  8,  9,  12,  20,  23,  24,  25,  39,
                                  40, 59, 60, 61, 79, 80, 81, 149, 150, 151, 230, 333, 500};
    const struct help_story *const STORIES[] = {&HELP_FAILING, &HELP_HEALTHY};
    for (int count = 0; count <= 2; count++) {
        open_view(STORIES, count, LENS_FREEZE_ALARM);
        for (size_t r = 0; r < sizeof ROWS / sizeof *ROWS; r++) {
            for (size_t c = 0; c < sizeof COLUMNS / sizeof *COLUMNS; c++) {
                view.help = false;
                view.status[0] = '\0';
                free(draw(ROWS[r], COLUMNS[c]));
                view_say(&view, "a status line that is longer than the screen is wide", NOW_NS);
                free(draw(ROWS[r], COLUMNS[c]));
                view.help = true;
                free(draw(ROWS[r], COLUMNS[c]));
            }
        }
        close_view(count);
    }
}

static void test_golden_text(void **state) {
    (void)state;
    static const struct help_story *const FAILING[] = {&HELP_FAILING, &HELP_HEALTHY},
                                          *const HEALTHY[] = {&HELP_HEALTHY};
    static const struct {
        const char *name;
        const struct help_story *const *stories;
        int count, rows, columns;
        enum lens_freeze freeze;
        uint32_t key;
    } CASES[] = {
        {"text-frozen-80x24", FAILING, 1, 24, 80, LENS_FREEZE_ALARM, 0},
        {"text-frozen-120x40", FAILING, 1, 40, 120, LENS_FREEZE_ALARM, 0},
        {"text-frozen-200x60", FAILING, 1, 60, 200, LENS_FREEZE_ALARM, 0},
        {"text-frozen-40x12", FAILING, 1, 12, 40, LENS_FREEZE_ALARM, 0},
        {"text-live-80x24", FAILING, 1, 24, 80, LENS_FREEZE_NEVER, 0},
        {"text-healthy-80x24", HEALTHY, 1, 24, 80, LENS_FREEZE_ALARM, 0},
        {"text-overview-80x24", FAILING, 2, 24, 80, LENS_FREEZE_ALARM, 0},
        {"text-overview-120x40", FAILING, 2, 40, 120, LENS_FREEZE_ALARM, 0},
        {"text-overview-40x12", FAILING, 2, 12, 40, LENS_FREEZE_ALARM, 0},
        {"text-help-80x24", FAILING, 1, 24, 80, LENS_FREEZE_ALARM, '?'},
        {"text-waiting-80x24", FAILING, 0, 24, 80, LENS_FREEZE_ALARM, 0},
    };
    bool same = true;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        open_view(CASES[i].stories, CASES[i].count, CASES[i].freeze);
        free(draw(CASES[i].rows, CASES[i].columns));
        if (CASES[i].key != 0) view_key(&view, CASES[i].key, NOW_NS);
        char *text = draw(CASES[i].rows, CASES[i].columns);
        same &= help_golden(CASES[i].name, text);
        free(text);
        close_view(CASES[i].count);
    }
    assert_true(same);
}

/* A run of one metric with exactly these values from step 0 on. */
static void open_values(struct run *run, const double *values, int count) {
    struct hello hello;
    hello_init(&hello);
    text_copy(hello.run_id, sizeof hello.run_id, "values");
    schema_add_metric(&hello.schema, "loss");
    schema_seal(&hello.schema);
    assert_int_equal(run_init(run, "", 64), 0);
    assert_int_equal(run_apply_hello(run, &hello, NULL), 0);
    struct record record;
    assert_int_equal(record_init(&record, 0), 0);
    for (int i = 0; i < count; i++) {
        record_clear(&record);
        record.step = i;
        record.band = isfinite(values[i]) ? BAND_FINITE : BAND_NONFINITE;
        if (values[i] >= 0 || values[i] < 0 || isnan(values[i]))
            record_set(&record, METRIC_LOSS, values[i]);
        run_apply_record(run, &record, 1);
    }
    record_free(&record);
    hello_free(&hello);
}

static char *spark_text(const struct run *run, int columns, int rows, struct spark *spark) {
    struct lens_window window = {0, INT64_MAX, 0, columns};
    assert_int_equal(grid_resize(&grid, rows, columns), 0);
    spark_load(spark, run, METRIC_LOSS, window, (double)NAN);
    spark_draw(spark, &grid, (struct grid_rect){0, 0, rows, columns});
    return grid_to_text(&grid, false);
}

/* NaN, +Inf, -Inf, beyond a float, <= 0 under log, a gap: six marks, none of them a height. */
static void test_marks_differ(void **state) {
    (void)state;
    const double values[] = {1,     10, 1e5, (double)NAN, (double)INFINITY, -(double)INFINITY,
                             1e200, 0,  -3,  1e5};
    struct spark spark;
    open_values(&runs[0], values, 10);
    run_apply_gap(&runs[0], 10, 10);
    char *text = spark_text(&runs[0], 12, 2, &spark);
    assert_true(spark.log);
    assert_string_equal(text, "   N+-^   :\n▁▁▃┊┊┊┊__▃:\n");
    free(text);
    close_view(1);
}

static void test_scales(void **state) {
    (void)state;
    static const struct {
        double values[3], low, high;
        bool log;
    } CASES[] = {
        {{0.1, 0.5, 2.3}, 0, 3, false},        {{1, 1, 1000}, 0, 1000, false},
        {{1, 1, 1001}, 1, 1e4, true},          {{0, 0, 0}, 0, 1, false},
        {{0.05, 0.05, 0.05}, 0, 0.06, false},  {{-2, 0, 2}, -2, 2, false},
        {{14.2, 14.3, 14.9}, 14.2, 15, false}, {{1e-9, 1e-3, 1}, 1e-9, 1, true},
        {{-5, -5, -5}, -6, 0, false},          {{0, 1e-4, 1}, 1e-4, 1, true},
        {{100, 100, 1e6}, 100, 1e6, true},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct spark spark;
        open_values(&runs[0], CASES[i].values, 3);
        free(spark_text(&runs[0], 3, 1, &spark));
        if (spark.log != CASES[i].log ||
            fabs(spark.low - CASES[i].low) > 1e-6 * fabs(CASES[i].low) + 1e-12 ||
            fabs(spark.high - CASES[i].high) > 1e-6 * fabs(CASES[i].high))
            fail_msg("case %zu: %s %g .. %g", i, spark.log ? "log" : "linear", spark.low,
                     spark.high);
        close_view(1);
    }
}

/* A bar stands where its value is: within half of an eighth of a row. */
static void test_heights(void **state) {
    (void)state;
    double values[64];
    for (int i = 0; i < 64; i++) values[i] = i;
    struct spark spark;
    open_values(&runs[0], values, 64);
    free(spark_text(&runs[0], 64, 4, &spark));
    for (int i = 0; i < 64; i++) {
        int eighths = 0;
        for (int row = 0; row < 4; row++) {
            uint32_t glyph = grid.cell[row * 64 + i].glyph[0];
            if (glyph >= 0x2581 && glyph <= 0x2588) eighths += (int)(glyph - 0x2580);
        }
        assert_true(fabs((eighths - 1) - (values[i] - spark.low) / (spark.high - spark.low) * 31) <=
                    0.5 + 1e-9);
    }
    close_view(1);
}

static void test_not_measured_is_blank(void **state) {
    (void)state;
    struct spark spark;
    const double values[] = {1, 2, 3};
    open_values(&runs[0], values, 3);
    struct record record;
    assert_int_equal(record_init(&record, 0), 0);
    record.step = 3;
    run_apply_record(&runs[0], &record, 1); /* a step without a loss: neither 0 nor a gap */
    record_free(&record);
    char *text = spark_text(&runs[0], 4, 1, &spark);
    assert_string_equal(text, "▃▆█\n");
    free(text);
    close_view(1);
}

static void test_worst_tensors_come_first(void **state) {
    (void)state;
    int order[64], few[3];
    help_run_tell(&runs[0], &HELP_FAILING);
    const struct record *record = run_find_record(&runs[0], 166);
    int count = table_sort(&runs[0], record, order, 64);
    assert_int_equal(count, runs[0].hello.schema.tensors);
    assert_string_equal(runs[0].hello.schema.tensor[order[0]].name, "logits");
    for (int i = 1; i < count; i++)
        assert_true(record->tensor[order[i - 1]].band >= record->tensor[order[i]].band);
    assert_int_equal(table_sort(&runs[0], record, few, 3), 3);
    assert_memory_equal(few, order, sizeof few);
    record = run_find_record(
        &runs[0], 150); /* all in range: in the order of the schema, however they waver */
    count = table_sort(&runs[0], record, order, 64);
    for (int i = 1; i < count; i++) assert_true(order[i - 1] < order[i]);
    record = run_find_record(&runs[0], 0); /* only parameters are measured at the start */
    assert_int_equal(table_sort(&runs[0], record, order, 64), 8);
    run_free(&runs[0]);
}

static void press(uint32_t code) { assert_int_equal(view_key(&view, code, NOW_NS), VIEW_NOTHING); }

static bool shows(const char *what) {
    char *text = draw(24, 80);
    bool found = strstr(text, what) != NULL;
    if (!found) printf("%s is not in\n%s", what, text);
    free(text);
    return found;
}

static void test_keys_through_the_view(void **state) {
    (void)state;
    const struct help_story *const STORIES[] = {&HELP_HEALTHY, &HELP_FAILING};
    open_view(STORIES, 2, LENS_FREEZE_ALARM);
    assert_true(shows("2 runs"));
    assert_null(view_open_lens(&view));
    press(KEYS_UP); /* the alarmed one stands on top */
    press('\r');
    assert_ptr_equal(view_open_lens(&view)->run, &runs[1]);
    assert_true(shows("FROZEN +6"));
    assert_true(shows("batch 40/60"));
    assert_true(shows("input 57fcf15e, label be360d37"));
    press(KEYS_RIGHT);
    assert_true(shows("batch 41/60"));
    press(']');
    assert_true(shows("batch 46/60"));
    assert_true(shows("logits          logits NON-FINITE        -     nan       -  320"));
    press(']');
    assert_true(shows("no event after this step"));
    press(KEYS_HOME);
    assert_true(shows("step 0"));
    press('f');
    assert_true(shows("space freeze"));
    press('?');
    assert_true(shows("freeze; the run goes on"));
    press(27);
    assert_true(shows("space freeze"));
    press(KEYS_DOWN);
    assert_int_equal(view.lens[1].table_top, 1);
    press(KEYS_PAGE_UP);
    assert_int_equal(view.lens[1].table_top, 0);
    press(27);
    assert_true(shows("2 runs"));
    assert_int_equal(view_key(&view, 's', NOW_NS), VIEW_SAVE);
    assert_int_equal(view_key(&view, 't', NOW_NS), VIEW_THEME);
    assert_int_equal(view_key(&view, 'q', NOW_NS), VIEW_QUIT);
    press('z');
    close_view(2);
}

static void test_enter_while_waiting(void **state) {
    (void)state;
    open_view(NULL, 0, LENS_FREEZE_ALARM);
    free(draw(24, 80));
    press('\r');
    help_run_tell(&runs[0], &HELP_HEALTHY);
    view_add(&view, &runs[0]);
    assert_non_null(view_open_lens(&view)); /* the only run is opened, as without the key */
    close_view(1);
}

static void test_the_table_scrolls_to_its_end(void **state) {
    (void)state;
    open_view((const struct help_story *const[]){&HELP_FAILING}, 1, LENS_FREEZE_ALARM);
    free(draw(24, 80));
    for (int i = 0; i < 9; i++) press(KEYS_PAGE_DOWN);
    char *end = draw(24, 80);
    press(KEYS_DOWN);
    char *still = draw(24, 80);
    assert_string_equal(still, end);
    press(KEYS_UP);
    char *above = draw(24, 80);
    assert_string_not_equal(above, end);
    free(end), free(still), free(above);
    close_view(1);
}

static void test_a_long_place_is_whole(void **state) {
    (void)state;
    struct event event;
    help_run_open(&runs[0], &HELP_HEALTHY);
    event_init(&event, EVENT_PHASE);
    event.seq = 1;
    event.step = 1234567890;
    run_apply_event(&runs[0], &event, 1);
    assert_int_equal(grid_resize(&grid, 1, 60), 0);
    table_draw_events(&grid, (struct grid_rect){0, 0, 1, 60}, &runs[0]);
    char *text = grid_to_text(&grid, false);
    assert_non_null(strstr(text, " s1234567890 phase"));
    free(text);
    close_view(1);
}

/* Drawing reads: the same view twice is the same, and nothing of it changed. */
static void test_drawing_changes_nothing(void **state) {
    (void)state;
    static struct view before;
    const struct help_story *const STORIES[] = {&HELP_FAILING, &HELP_HEALTHY};
    open_view(STORIES, 2, LENS_FREEZE_ALARM);
    free(draw(24, 80));
    for (int i = 0; i < 2; i++) {
        before = view;
        view_draw(&view, &grid);
        assert_memory_equal(&before, &view, sizeof view);
        press('\r');
    }
    close_view(2);
}

static void test_wanted_records(void **state) {
    (void)state;
    int64_t first, last;
    struct help_story story = HELP_FAILING;
    open_view(NULL, 0, LENS_FREEZE_ALARM);
    assert_false(view_wants(&view, &first, &last));
    help_run_tell(&runs[0], &story);
    view_add(&view, &runs[0]);
    free(draw(24, 80));
    assert_true(view_wants(&view, &first, &last)); /* frozen */
    assert_in_range(160, first, last);
    assert_true(last <= 166 && last - first < runs[0].details);
    press(' ');
    assert_false(view_wants(&view, &first, &last));
    close_view(1);
}

static char *top_line(int rows, int columns) {
    char *text = draw(rows, columns);
    text[strcspn(text, "\n")] = '\0';
    return text;
}

/* Name, state and who judged are said before the place, that before host and step. */
static void test_the_top_line_keeps_its_state(void **state) {
    (void)state;
    static const char *const WORDS[] = {"a-name-of-a-run-that-is-long-2026", "stored",
                                        "judged here", "gaps 3"};
    struct detector_limits limits;
    struct help_story story = HELP_HEALTHY;
    detector_limits_init(&limits);
    story.name = WORDS[0];
    story.gap = 100;
    story.gap_steps = 3;
    view_init(&view, LENS_FREEZE_ALARM, "");
    view.judged = &limits;
    help_run_tell(&runs[0], &story);
    view_add(&view, &runs[0]);
    char *line = top_line(24, 80);
    for (int i = 0; i < 4; i++) assert_non_null(strstr(line, WORDS[i]));
    assert_null(strstr(line, "samples/s"));
    free(line);
    line = top_line(3, 10);
    assert_string_equal(line, " a-name-o…");
    free(line);
    close_view(1);
}

/* What a killed trainer left behind looks like no run that ended. */
static void test_a_stored_run_without_an_end_died(void **state) {
    (void)state;
    struct event event;
    open_view((const struct help_story *const[]){&HELP_HEALTHY}, 1, LENS_FREEZE_ALARM);
    event_init(&event, EVENT_END);
    event.seq = runs[0].seq + 1;
    runs[0].link = RUN_STORED;
    run_apply_death(&runs[0]);
    assert_int_equal(runs[0].link, RUN_DEAD);
    char *line = top_line(24, 120);
    assert_non_null(strstr(line, "died  at step 300, no end"));
    free(line);
    line = top_line(24, 80);
    assert_non_null(strstr(line, " died"));
    free(line);
    runs[0].link = RUN_STORED;
    run_apply_event(&runs[0], &event, 1);
    run_apply_death(&runs[0]);
    assert_int_equal(runs[0].link, RUN_STORED);
    close_view(1);
}

static void test_rows_in_range_stay_in_order(void **state) {
    (void)state;
    int order[64];
    help_run_tell(&runs[0], &HELP_HEALTHY);
    struct record *record = &runs[0].record[150 % runs[0].records];
    assert_int_equal(record->step, 150);
    record->tensor[record->tensors - 2].max_abs = 40 * record->tensor[record->tensors - 2].usual;
    int count = table_sort(&runs[0], record, order, 64);
    for (int i = 1; i < count; i++) assert_true(order[i - 1] < order[i]);
    record->tensor[record->tensors - 2].band = BAND_EXTREME;
    table_sort(&runs[0], record, order, 64);
    assert_int_equal(order[0], record->tensors - 2);
    run_free(&runs[0]);
}

/* No time is known: it is not midnight. The counts of an event are never cut. */
static void test_events_tell_the_truth(void **state) {
    (void)state;
    struct event event;
    help_run_open(&runs[0], &HELP_HEALTHY);
    event_init(&event, EVENT_NONFINITE);
    event.seq = 1;
    event.step = 7;
    text_copy(event.subject, sizeof event.subject, "conv2");
    event.nan = 379229;
    event.pos_inf = 102152;
    event.neg_inf = 321435;
    event.count = 802816;
    run_apply_event(&runs[0], &event, 1);
    static const char WHOLE[] =
        " --:--:-- s7       NON-FINITE conv2 379229 NaN 102152 +Inf 321435 -Inf of 802816\n";
    for (int columns = 1; columns <= 90; columns++) {
        assert_int_equal(grid_resize(&grid, 1, columns), 0);
        table_draw_events(&grid, (struct grid_rect){0, 0, 1, columns}, &runs[0]);
        char *text = grid_to_text(&grid, false), *cut = strstr(text, "…");
        size_t same = cut != NULL ? (size_t)(cut - text) : strlen(text) - 1;
        assert_memory_equal(text, WHOLE, same);
        if (columns >= (int)strlen(WHOLE) - 1) assert_string_equal(text, WHOLE);
        bool digit = WHOLE[same] >= '0' && WHOLE[same] <= '9';
        assert_false(digit && same > 0 && WHOLE[same - 1] >= '0' && WHOLE[same - 1] <= '9');
        free(text);
    }
    close_view(1);
}

static void test_hostile_names(void **state) {
    (void)state;
    struct help_story story = HELP_FAILING;
    story.name = "x\033]0;owned\a\033[2J";
    open_view((const struct help_story *const[]){&story}, 1, LENS_FREEZE_ALARM);
    char *text = draw(24, 80);
    for (const char *at = text; *at != '\0'; at++)
        assert_true(*at == '\n' || (unsigned char)*at >= 0x20);
    assert_non_null(strstr(text, "x\\x1b]0;owned"));
    free(text);
    close_view(1);
}

int main(void) {
    setenv("TZ", "UTC", 1);
    if (setlocale(LC_CTYPE, "C.UTF-8") == NULL) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout_at_every_size),
        cmocka_unit_test(test_parts_stay_inside),
        cmocka_unit_test(test_every_size_draws),
        cmocka_unit_test(test_golden_text),
        cmocka_unit_test(test_marks_differ),
        cmocka_unit_test(test_scales),
        cmocka_unit_test(test_heights),
        cmocka_unit_test(test_not_measured_is_blank),
        cmocka_unit_test(test_worst_tensors_come_first),
        cmocka_unit_test(test_keys_through_the_view),
        cmocka_unit_test(test_enter_while_waiting),
        cmocka_unit_test(test_the_table_scrolls_to_its_end),
        cmocka_unit_test(test_a_long_place_is_whole),
        cmocka_unit_test(test_drawing_changes_nothing),
        cmocka_unit_test(test_wanted_records),
        cmocka_unit_test(test_the_top_line_keeps_its_state),
        cmocka_unit_test(test_a_stored_run_without_an_end_died),
        cmocka_unit_test(test_rows_in_range_stay_in_order),
        cmocka_unit_test(test_events_tell_the_truth),
        cmocka_unit_test(test_hostile_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
