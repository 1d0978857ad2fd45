/* How a run is looked at: the live zoom, freezing, the cursor, and that a frozen picture stands. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "tests/help_run.h"
#include "tui/lens.h"

enum { COLUMNS = 40 };
#define SECOND_NS INT64_C(1000000000)

static struct run run;
static struct lens lens;

static int teardown(void **state) {
    (void)state;
    run_free(&run);
    return 0;
}

static void begin(const struct help_story *story) {
    help_run_open(&run, story);
    lens_init(&lens, &run);
    lens_resize(&lens, COLUMNS);
}

/* As far as `last`, ticking at every step by the story's clock. */
static void play(const struct help_story *story, int64_t first, int64_t last,
                 enum lens_freeze freeze) {
    for (int64_t step = first; step <= last; step++) {
        help_run_add(&run, story, step);
        lens_tick(&lens, freeze, (int64_t)((double)step / story->steps_per_s * 1e9));
    }
}

/* While the whole run fits it does; later a column lasts about 2 s; and the picture never moves
 * more often than that. */
static void test_live_picture_moves_seldom(void **state) {
    (void)state;
    static const double PACES[] = {0.3, 4, 47, 700};
    for (size_t i = 0; i < sizeof PACES / sizeof *PACES; i++) {
        struct help_story story = HELP_HEALTHY;
        story.steps_per_s = PACES[i];
        story.steps = (int64_t)(PACES[i] * 120) + 50;
        begin(&story);
        int moves = 0;
        struct lens_window before = {0};
        for (int64_t step = 0; step <= story.steps; step++) {
            play(&story, step, step, LENS_FREEZE_NEVER);
            struct lens_window window = lens_window(&lens);
            int64_t width = INT64_C(1) << window.shift;
            assert_int_equal(window.left % width, 0);
            assert_in_range(step, window.left,
                            window.left + COLUMNS * width - 1); /* the newest is visible */
            if (step < COLUMNS) assert_int_equal(window.shift, 0);
            moves += window.left != before.left || window.shift != before.shift;
            before = window;
        }
        double seconds = (double)story.steps / story.steps_per_s,
               column_s = (double)(INT64_C(1) << before.shift) / story.steps_per_s;
        assert_true(moves <=
                    seconds / 1.4 + 12); /* columns of at least 1.4 s, and one change a doubling */
        if (before.left > 0) assert_true(column_s > 1.4 && column_s < 4);
        run_free(&run);
    }
    run_init(&run, "", 1);
}

static void test_pace_has_hysteresis(void **state) {
    (void)state;
    struct help_story story = HELP_HEALTHY;
    begin(&story);
    play(&story, 0, 20000, LENS_FREEZE_NEVER);
    int shift = lens.shift;
    assert_in_range(shift, 6, 7); /* 47 steps/s: 64 or 128 */
    run.steps_per_s = 47 * 2.5;
    lens_tick(&lens, LENS_FREEZE_NEVER, 0);
    assert_int_equal(lens.shift, shift);
    run.steps_per_s = 47.0 / 2.5;
    lens_tick(&lens, LENS_FREEZE_NEVER, 0);
    assert_int_equal(lens.shift, shift);
    run.steps_per_s = 47 * 6;
    lens_tick(&lens, LENS_FREEZE_NEVER, 0);
    assert_true(lens.shift >= shift + 2);
}

static void test_alarm_freezes_at_onset(void **state) {
    (void)state;
    struct help_story story = HELP_FAILING;
    story.steps = 200;
    begin(&story);
    play(&story, 0, 159, LENS_FREEZE_ALARM);
    assert_false(lens.frozen);
    play(&story, 160, 160, LENS_FREEZE_ALARM);
    assert_true(lens.frozen);
    assert_int_equal(lens.cursor, 160);
    assert_int_equal(lens.frozen_shift, 0);
    assert_in_range(160, lens.left + COLUMNS / 2, lens.left + COLUMNS - 8);
    int64_t left = lens.left;
    play(&story, 161, 200, LENS_FREEZE_ALARM); /* NaN at 166, and on: the bar's affair */
    assert_true(lens.frozen);
    assert_int_equal(lens.left, left);
    assert_int_equal(lens.cursor, 160);
    struct series_column column;
    assert_true(lens_column(&run, METRIC_LOSS, lens_window(&lens), (int)(166 - left), &column));
    assert_int_equal(column.value.marks, SERIES_NAN);
    lens_unfreeze(&lens);
    lens_tick(&lens, LENS_FREEZE_ALARM, 0);
    assert_false(lens.frozen); /* once an alarm */
}

/* The alarm may come long after the onset, and the NaN long after the alarm: the picture has room
 * for all three. */
static void test_late_alarm(void **state) {
    (void)state;
    struct help_story story = HELP_FAILING;
    story.alarm_after = 11;
    story.nonfinite = 177;
    begin(&story);
    play(&story, 0, 170, LENS_FREEZE_ALARM);
    assert_false(lens.frozen);
    play(&story, 171, 180, LENS_FREEZE_ALARM);
    assert_true(lens.frozen);
    assert_int_equal(lens.cursor, 160);
    assert_true(lens.left <= 155 && lens.left + COLUMNS > 177);
}

static void test_freeze_on_nonfinite_and_never(void **state) {
    (void)state;
    begin(&HELP_FAILING);
    play(&HELP_FAILING, 0, 165, LENS_FREEZE_NONFINITE);
    assert_false(lens.frozen);
    play(&HELP_FAILING, 166, 166, LENS_FREEZE_NONFINITE);
    assert_true(lens.frozen);
    assert_int_equal(lens.cursor, 160);
    run_free(&run);
    begin(&HELP_FAILING);
    play(&HELP_FAILING, 0, 166, LENS_FREEZE_NEVER);
    assert_false(lens.frozen);
}

static void test_joined_late(void **state) {
    (void)state;
    help_run_tell(&run, &HELP_FAILING);
    lens_init(&lens, &run);
    lens_resize(&lens, COLUMNS);
    assert_true(lens_tick(&lens, LENS_FREEZE_ALARM, 0));
    assert_int_equal(lens.left + COLUMNS - 1, 166); /* its end is on the right */
    run_free(&run);
    struct help_story healed = HELP_FAILING; /* an alarm of long ago, and it goes on */
    healed.nonfinite = 0;
    help_run_open(&run, &healed);
    for (int64_t step = 0; step <= 400; step++) help_run_add(&run, &healed, step);
    lens_init(&lens, &run);
    lens_resize(&lens, COLUMNS);
    assert_false(lens_tick(&lens, LENS_FREEZE_ALARM, 0));
}

static void copy_picture(struct series_column out[COLUMNS], bool known[COLUMNS]) {
    memset(out, 0, COLUMNS * sizeof *out);
    for (int i = 0; i < COLUMNS; i++) {
        struct series_column column;
        known[i] = lens_column(&run, METRIC_GRAD_NORM, lens_window(&lens), i, &column);
        if (known[i]) out[i] = column;
    }
}

/* Also the column that was half full when it froze, however wide. */
static void frozen_picture_stands(int zoom) {
    struct series_column before[COLUMNS], after[COLUMNS];
    bool known_before[COLUMNS], known_after[COLUMNS];
    begin(&HELP_HEALTHY);
    play(&HELP_HEALTHY, 0, 5003, LENS_FREEZE_ALARM);
    assert_true(lens.shift >= 6);
    lens_freeze(&lens);
    for (int i = 0; i < zoom; i++) lens_zoom(&lens, 1);
    copy_picture(before, known_before);
    play(&HELP_HEALTHY, 5004, 5900, LENS_FREEZE_ALARM);
    copy_picture(after, known_after);
    assert_memory_equal(known_before, known_after, sizeof known_before);
    for (int i = 0; i < COLUMNS; i++) {
        if (!known_before[i]) continue;
        assert_int_equal(before[i].steps, after[i].steps);
        assert_true(before[i].value.max == after[i].value.max &&
                    before[i].value.min == after[i].value.min);
        assert_int_equal(before[i].value.present, after[i].value.present);
    }
    assert_int_equal(lens.cursor, 5003);
    lens_move_to(&lens, run.series.last); /* asked for, it goes on */
    assert_int_equal(lens.cursor, 5900);
    struct lens_window window = lens_window(&lens);
    int column = (int)((5900 - window.left) >> window.shift);
    assert_true(lens_column(&run, METRIC_GRAD_NORM, window, column, &after[0]));
    run_free(&run);
}

static void test_frozen_picture_stands(void **state) {
    (void)state;
    frozen_picture_stands(0);
    frozen_picture_stands(6); /* one column is more than a level of the pyramid has buckets */
    begin(&HELP_HEALTHY);
}

/* The row of the overview shows how the run goes on, whatever the frozen picture is zoomed to. */
static void test_the_overview_never_freezes(void **state) {
    (void)state;
    begin(&HELP_HEALTHY);
    play(&HELP_HEALTHY, 0, 3000, LENS_FREEZE_NEVER);
    struct lens_window live = lens_live_window(&lens, COLUMNS);
    lens_freeze(&lens);
    for (int i = 0; i < 9; i++) lens_zoom(&lens, 1);
    struct lens_window frozen = lens_live_window(&lens, COLUMNS);
    assert_int_equal(frozen.shift, live.shift);
    assert_int_equal(frozen.left, live.left);
}

static void apply_loss(int64_t step, double loss) {
    struct record record;
    assert_int_equal(record_init(&record, 0), 0);
    record.step = step;
    record_set(&record, METRIC_LOSS, loss);
    run_apply_record(&run, &record, 1);
    record_free(&record);
}

/* The series holds floats: where one is not the value, the record tells, or nothing does. */
static void test_value_beyond_a_float(void **state) {
    (void)state;
    static const double VALUES[] = {1e39, 1e-44, 0.5};
    double value;
    bool fetching;
    begin(&HELP_HEALTHY);
    for (int i = 0; i < 3; i++) apply_loss(i, VALUES[i]);
    assert_true(lens_value(&run, METRIC_LOSS, 0, &value, &fetching));
    assert_true(value == 1e39);
    for (int64_t step = 3; run_find_record(&run, 2) != NULL; step++) apply_loss(step, 1);
    for (int i = 0; i < 2; i++) {
        assert_false(lens_value(&run, METRIC_LOSS, i, &value, &fetching));
        assert_true(fetching);
    }
    assert_true(lens_value(&run, METRIC_LOSS, 2, &value, &fetching));
    assert_true(value == 0.5);
}

static void test_cursor(void **state) {
    (void)state;
    begin(&HELP_FAILING);
    play(&HELP_FAILING, 0, 159, LENS_FREEZE_NEVER);
    lens_move(&lens, -1);
    assert_true(lens.frozen);
    assert_int_equal(lens.cursor, 159 - (1 << lens.frozen_shift));
    lens_move(&lens, 1000);
    assert_int_equal(lens.cursor, 159);
    lens_move(&lens, -1000);
    assert_int_equal(lens.cursor, 0);
    assert_int_equal(lens.left, 0);
    lens_unfreeze(&lens);
    play(&HELP_FAILING, 160, 166, LENS_FREEZE_ALARM);
    lens_move(&lens, -1);
    assert_int_equal(lens.cursor, 159);
    lens_move(&lens, 1);
    lens_move(&lens, 1);
    assert_int_equal(lens.cursor, 161);
    assert_true(lens_move_to_event(&lens, 1));
    assert_int_equal(lens.cursor, 166);
    assert_false(lens_move_to_event(&lens, 1));
    assert_true(lens_move_to_event(&lens, -1));
    assert_true(lens_move_to_event(&lens, -1));
    assert_int_equal(lens.cursor, 121); /* the phase */
    struct lens_window window = lens_window(&lens);
    assert_in_range(121, window.left, window.left + COLUMNS - 1);
}

static void test_zoom_keeps_the_cursor_in_place(void **state) {
    (void)state;
    begin(&HELP_HEALTHY);
    play(&HELP_HEALTHY, 0, 3000, LENS_FREEZE_NEVER);
    lens_move(&lens, -7);
    int64_t column = (lens.cursor >> lens.frozen_shift) - (lens.left >> lens.frozen_shift),
            cursor = lens.cursor;
    for (int shift = lens.frozen_shift - 1; shift >= 0; shift--) {
        lens_zoom(&lens, -1);
        assert_int_equal(lens.frozen_shift, shift);
        assert_int_equal(lens.cursor, cursor);
        assert_int_equal((lens.cursor >> shift) - (lens.left >> shift), column);
    }
    lens_zoom(&lens, -1);
    assert_int_equal(lens.frozen_shift, 0);
    for (int i = 0; i < 60; i++) lens_zoom(&lens, 1);
    assert_int_equal(lens.frozen_shift, LENS_SHIFT_MAX);
    assert_int_equal(lens.left, 0);
    lens_unfreeze(&lens);
    int shift = lens_window(&lens).shift;
    lens_zoom(&lens, -1);
    assert_int_equal(lens_window(&lens).shift, shift - 1);
    lens_zoom(&lens, 1);
    assert_int_equal(lens_window(&lens).shift, shift);
}

static void test_resize_keeps_the_cursor_visible(void **state) {
    (void)state;
    begin(&HELP_FAILING);
    play(&HELP_FAILING, 0, 166, LENS_FREEZE_ALARM);
    for (int columns = 500; columns > 0; columns = columns * 2 / 3) {
        lens_resize(&lens, columns);
        struct lens_window window = lens_window(&lens);
        assert_in_range(160, window.left, window.left + columns - 1);
    }
}

static void test_value(void **state) {
    (void)state;
    double value;
    bool fetching;
    begin(&HELP_HEALTHY);
    play(&HELP_HEALTHY, 0, 3000, LENS_FREEZE_NEVER);
    assert_true(lens_value(&run, METRIC_LOSS, 3000, &value, &fetching));
    assert_true(value == run_find_record(&run, 3000)->metric[METRIC_LOSS]);
    assert_true(lens_value(&run, METRIC_LOSS, 1500, &value,
                           &fetching)); /* no record any more, but the series */
    assert_null(run_find_record(&run, 1500));
    assert_false(lens_value(&run, METRIC_LOSS, 100, &value, &fetching));
    assert_true(fetching);
    assert_false(lens_value(&run, METRIC_STEP_MS, 3000, &value, &fetching)); /* not published */
    assert_false(fetching);
}

static void test_empty_run(void **state) {
    (void)state;
    run_init(&run, "somewhere", 64);
    lens_init(&lens, &run);
    lens_resize(&lens, COLUMNS);
    assert_false(lens_tick(&lens, LENS_FREEZE_ALARM, 0));
    lens_freeze(&lens);
    lens_move(&lens, -1);
    lens_zoom(&lens, 1);
    lens_unfreeze(&lens);
    assert_false(lens_move_to_event(&lens, -1));
    assert_false(lens.frozen);
    assert_int_equal(lens_step(&lens), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_live_picture_moves_seldom, teardown),
        cmocka_unit_test_teardown(test_pace_has_hysteresis, teardown),
        cmocka_unit_test_teardown(test_alarm_freezes_at_onset, teardown),
        cmocka_unit_test_teardown(test_late_alarm, teardown),
        cmocka_unit_test_teardown(test_freeze_on_nonfinite_and_never, teardown),
        cmocka_unit_test_teardown(test_joined_late, teardown),
        cmocka_unit_test_teardown(test_frozen_picture_stands, teardown),
        cmocka_unit_test_teardown(test_the_overview_never_freezes, teardown),
        cmocka_unit_test_teardown(test_cursor, teardown),
        cmocka_unit_test_teardown(test_zoom_keeps_the_cursor_in_place, teardown),
        cmocka_unit_test_teardown(test_resize_keeps_the_cursor_visible, teardown),
        cmocka_unit_test_teardown(test_value, teardown),
        cmocka_unit_test_teardown(test_value_beyond_a_float, teardown),
        cmocka_unit_test_teardown(test_empty_run, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
