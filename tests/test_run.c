/* One run as a reader knows it: what records, events, gaps and old records make of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shared/core/error.h"
#include "shared/core/run.h"

enum { TENSORS = 3 }; /* logits, conv1.weight as gradient, conv1.weight */

static void add_tensor(struct schema *schema, const char *name, enum role role, enum stage stage) {
    struct schema_tensor tensor = {.role = role, .stage = stage};
    strcpy(tensor.name, name);
    assert_true(schema_add_tensor(schema, &tensor) >= 0);
}

static void begin(struct run *run, const char *run_id) {
    struct hello hello;
    hello_init(&hello);
    strcpy(hello.run_id, run_id);
    schema_add_metric(&hello.schema, "loss");
    add_tensor(&hello.schema, "conv1.weight", ROLE_GRADIENT, STAGE_BACKWARD);
    add_tensor(&hello.schema, "logits", ROLE_LOGITS, STAGE_FORWARD);
    add_tensor(&hello.schema, "conv1.weight", ROLE_PARAMETER, STAGE_STEP);
    schema_seal(&hello.schema);
    struct error error;
    assert_int_equal(run_apply_hello(run, &hello, &error), 0);
    hello_free(&hello);
}

static struct run *open_run(void) {
    struct run *run = malloc(sizeof *run);
    assert_int_equal(run_init(run, "ipc:///tmp/x", 64), 0);
    begin(run, "r1");
    return run;
}

static void close_run(struct run *run) {
    run_free(run);
    free(run);
}

/* A record with this seq, step and band; its loss is the step. */
static int apply(struct run *run, uint64_t seq, int64_t step, enum band band) {
    struct tensor_stat stat[TENSORS] = {{.count = 9}, {.count = 9}, {.count = 9}};
    if (band == BAND_NONFINITE) stat[0].nan = stat[1].pos_inf = 2;
    struct record record = {
        .seq = seq, .step = step, .band = band, .tensors = TENSORS, .tensor = stat};
    record_set(&record, METRIC_LOSS, (double)step);
    return run_apply_record(run, &record, 1000 + step);
}

static void apply_steps(struct run *run, int64_t first, int64_t last, enum band band) {
    for (int64_t step = first; step <= last; step++) {
        assert_int_equal(apply(run, run->seq + 1, step, band), 0);
    }
}

static void apply_event(struct run *run, enum event_kind kind, int64_t step, enum band band,
                        int64_t onset) {
    struct event event;
    event_init(&event, kind);
    event.seq = run->seq + 1;
    event.step = step;
    event.band = band;
    event.onset = onset;
    if (kind == EVENT_NONFINITE) event.tensor = 1;
    if (kind == EVENT_CHECKPOINT) strcpy(event.text, step < 20 ? "early" : "late");
    run_apply_event(run, &event, 1);
}

static void test_nothing_is_known_before_the_hello(void **state) {
    (void)state;
    struct run *run = malloc(sizeof *run);
    assert_int_equal(run_init(run, "ipc:///tmp/x", 64), 0);
    struct series_column column;
    assert_false(series_column(&run->series, METRIC_LOSS, 0, 1, &column));
    assert_int_equal(apply(run, 1, 0, BAND_FINITE), -1);
    assert_null(run_find_record(run, 0));
    assert_null(run_find_event(run, 0));
    assert_int_equal(run_find_event_step(run, 0, 1), -1);
    assert_true(run->link == RUN_CONNECTING && run->onset == -1 && run->safe_step == -1);
    close_run(run);
}

static void test_duplicates_are_counted_and_change_nothing(void **state) {
    (void)state;
    struct run *run = open_run();
    apply_steps(run, 0, 20, BAND_FINITE);
    assert_int_equal(apply(run, 21, 20, BAND_NONFINITE), -1);
    assert_int_equal(apply(run, 3, 2, BAND_NONFINITE), -1);
    assert_true(run->duplicates == 2 && run->worst == BAND_FINITE && run->gap_steps == 0);
    assert_int_equal(run->last_step, 20);
    assert_true(run_find_record(run, 20)->tensor[1].count == 9);
    assert_null(run_find_record(run, 21));
    close_run(run);
}

static void test_only_lost_steps_are_a_gap(void **state) {
    (void)state;
    struct run *run = open_run();
    struct series_column column;
    apply_steps(run, 0, 9, BAND_FINITE);
    assert_int_equal(apply(run, 11, 19, BAND_FINITE), 0); /* publishes every tenth step */
    assert_int_equal(run->gap_steps, 0);
    assert_int_equal(apply(run, 15, 23, BAND_FINITE), 0); /* three records lost */
    assert_int_equal(run->gap_steps, 3);
    assert_true(series_column(&run->series, METRIC_LOSS, 0, 24, &column));
    assert_true(column.missing == 3 && column.steps == 12);
    run_apply_gap(run, 20, 30); /* told by the feed: only what is news counts */
    assert_int_equal(run->gap_steps, 10);
    assert_int_equal(apply(run, 25, 31, BAND_FINITE), 0);
    assert_int_equal(run->gap_steps, 10);
    apply_event(run, EVENT_GAP, -1, BAND_FINITE, -1); /* the trainer's own queue was full */
    assert_int_equal(apply(run, 27, 36, BAND_FINITE), 0);
    assert_int_equal(run->gap_steps, 14);
    apply_event(run, EVENT_PHASE, 36, BAND_FINITE, -1); /* an event between, nothing lost */
    assert_int_equal(apply(run, 29, 38, BAND_FINITE), 0);
    assert_int_equal(run->gap_steps, 14);
    struct event event; /* two records lost before an event that does arrive */
    event_init(&event, EVENT_PHASE);
    event.seq = 32;
    run_apply_event(run, &event, 1);
    assert_int_equal(apply(run, 33, 41, BAND_FINITE), 0);
    assert_int_equal(run->gap_steps, 16);
    assert_int_equal(apply(run, 0, 50, BAND_FINITE), 0); /* no publisher, no seq */
    assert_int_equal(run->gap_steps, 16);
    close_run(run);
}

static void test_records_alone_tell_onset_and_lead(void **state) {
    (void)state;
    struct run *run = open_run();
    apply_steps(run, 0, 39, BAND_FINITE);
    apply_steps(run, 40, 41, BAND_EXTREME);
    apply_steps(run, 42, 51, BAND_FINITE); /* ten: the stretch goes on */
    assert_int_equal(run->onset, 40);
    apply_steps(run, 52, 52, BAND_EXTREME);
    assert_int_equal(run->onset, 40);
    apply_steps(run, 53, 63, BAND_FINITE); /* eleven: it is over */
    assert_true(run->onset == -1 && run->worst == BAND_EXTREME);
    apply_steps(run, 64, 69, BAND_EXTREME);
    apply_steps(run, 70, 71, BAND_NONFINITE);
    assert_true(run->onset == 64 && run->first_nonfinite == 70 && run->lead == 6);
    assert_string_equal(run->first_tensor, "logits"); /* earlier than the gradient before it */
    apply_steps(run, 72, 90, BAND_FINITE);
    apply_steps(run, 91, 91, BAND_EXTREME);
    assert_int_equal(run->onset, 91);
    apply_steps(run, 92, 110, BAND_FINITE);
    assert_true(run->onset == 64 && run->first_nonfinite == 70 && run->worst == BAND_NONFINITE);
    close_run(run);
}

static void test_events_tell_what_lost_records_did_not(void **state) {
    (void)state;
    struct run *run = open_run();
    apply_steps(run, 0, 39, BAND_FINITE);
    apply_event(run, EVENT_ALARM, 44, BAND_EXTREME, 40); /* 40 to 45 never arrive */
    assert_true(run->onset == 40 && run->alarms == 1 && run->alarm_step == 44);
    assert_int_equal(apply(run, run->seq + 7, 46, BAND_EXTREME), 0);
    assert_true(run->onset == 40 && run->gap_steps == 6);
    apply_event(run, EVENT_NONFINITE, 48, BAND_NONFINITE, 40);
    assert_true(run->first_nonfinite == 48 && run->lead == 8 && run->alarms == 2);
    assert_string_equal(run->first_tensor, "logits");
    assert_int_equal(run->worst, BAND_NONFINITE);
    struct event again = *run_find_event(run, 0);
    run_apply_event(run, &again, 1);
    assert_true(run->alarms == 2 && run->events == 2);
    close_run(run);
    run = open_run();
    apply_steps(run, 0, 39, BAND_FINITE);
    apply_event(run, EVENT_NOTICE, 40, BAND_EXTREME, -1);
    assert_int_equal(apply(run, run->seq + 2, 41, BAND_EXTREME), 0);
    assert_int_equal(run->onset, 40);
    apply_event(run, EVENT_ALARM, 60, BAND_EXTREME, 40);
    assert_int_equal(apply(run, run->seq + 20, 62, BAND_EXTREME), 0);
    assert_true(run->onset == 40 && run->alarms == 1);
    close_run(run);
}

/* Joined at step 200: the pyramid first, then the events in order, then what happens. */
static void test_a_late_viewer_knows_the_stretch_going_on(void **state) {
    (void)state;
    for (int going_on = 0; going_on < 2; going_on++) {
        struct run *early = open_run(), *late = open_run();
        apply_steps(early, 0, 99, BAND_FINITE);
        apply_steps(early, 100, 100, BAND_EXTREME);
        apply_event(early, EVENT_ALARM, 100, BAND_EXTREME, 100);
        apply_steps(early, 101, 200, going_on ? BAND_EXTREME : BAND_FINITE);
        for (int l = 0; l < SERIES_LEVELS; l++) {
            for (int b = 0; b < early->series.buckets; b++) {
                const struct series_value *value;
                int64_t first = early->series.level[l].bucket[b].first;
                const struct series_bucket *bucket = series_find(&early->series, l, first, &value);
                if (bucket) assert_int_equal(run_apply_bucket(late, l, bucket, value), 0);
            }
        }
        assert_int_equal(late->worst, BAND_EXTREME);
        run_apply_event(late, run_find_event(early, 0), 1);
        assert_int_equal(late->onset, going_on ? 100 : -1);
        assert_int_equal(apply(late, early->seq + 1, 201, BAND_EXTREME), 0);
        assert_int_equal(late->onset, going_on ? 100 : 201);
        close_run(early);
        close_run(late);
    }
}

static void test_the_safe_checkpoint_lies_before_the_onset(void **state) {
    (void)state;
    struct run *run = open_run();
    apply_steps(run, 0, 10, BAND_FINITE);
    apply_event(run, EVENT_CHECKPOINT, 10, BAND_FINITE, -1);
    assert_int_equal(run->safe_step, 10);
    apply_steps(run, 11, 20, BAND_FINITE);
    apply_event(run, EVENT_CHECKPOINT, 20, BAND_EXTREME, -1); /* a momentum buffer was extreme */
    assert_int_equal(run->safe_step, 10);
    apply_steps(run, 21, 30, BAND_EXTREME);
    apply_event(run, EVENT_CHECKPOINT, 30, BAND_FINITE, -1); /* after the onset */
    assert_int_equal(run->safe_step, 10);
    assert_string_equal(run->safe_path, "early");
    apply_steps(run, 31, 41, BAND_FINITE); /* healed: the newest one is safe after all */
    assert_int_equal(run->safe_step, 30);
    assert_string_equal(run->safe_path, "late");
    apply_event(run, EVENT_NONFINITE, 42, BAND_NONFINITE, 29); /* an onset that is known late */
    assert_int_equal(run->safe_step, 10);
    apply_event(run, EVENT_ALARM, 42, BAND_EXTREME, 5);
    assert_true(run->safe_step == -1 && run->safe_path[0] == '\0');
    close_run(run);
}

static void test_old_records_displace_no_newer_one(void **state) {
    (void)state;
    struct run *run = open_run();
    assert_true(run->records == RUN_RECORDS_MAX && run->details == RUN_RECORDS_MAX / 4);
    apply_steps(run, 0, 3 * RUN_RECORDS_MAX, BAND_FINITE);
    struct tensor_stat stat[TENSORS] = {{.count = 5}, {.count = 5}, {.count = 5}};
    struct record old = {.tensors = TENSORS, .tensor = stat};
    for (old.step = 10; old.step < 10 + run->details; old.step++) run_apply_detail(run, &old);
    apply_steps(run, run->last_step + 1, 4 * RUN_RECORDS_MAX, BAND_FINITE);
    for (int64_t step = 10; step < 10 + run->details; step++) {
        assert_int_equal(run_find_record(run, step)->tensor[2].count, 5);
    }
    for (int64_t step = run->last_step - run->records + 1; step <= run->last_step; step++) {
        assert_int_equal(run_find_record(run, step)->tensor[2].count, 9);
    }
    assert_null(run_find_record(run, run->last_step - run->records));
    assert_null(run_find_record(run, 9));
    assert_null(run_find_record(run, -1));
    assert_null(run_find_record(run, INT64_MAX));
    close_run(run);
}

static void test_steps_a_second_go_by_the_publishers_clock(void **state) {
    (void)state;
    struct run *run = open_run();
    struct record record = {.mono_ns = 0};
    for (record.step = 0; record.step < 1000; record.step++) {
        record.mono_ns = 5000000000 + record.step * (record.step < 500 ? 20000000 : 40000000);
        assert_int_equal(run_apply_record(run, &record, 1), 0);
        if (record.step == 0) assert_true(isnan(run->steps_per_s));
        if (record.step == 499) assert_true(fabs(run->steps_per_s - 50) < 1e-6);
    }
    assert_true(fabs(run->steps_per_s - 25) < 1e-6);
    record.mono_ns = 1; /* another machine's clock */
    assert_int_equal(run_apply_record(run, &record, 1), 0);
    assert_true(isnan(run->steps_per_s));
    close_run(run);
}

static void test_another_run_or_schema_starts_anew(void **state) {
    (void)state;
    struct run *run = open_run();
    apply_steps(run, 0, 5, BAND_NONFINITE);
    apply_event(run, EVENT_NONFINITE, 0, BAND_NONFINITE, 0);
    begin(run, "r1");
    assert_true(run->last_step == 5 && run->series.last == 5);
    run->link = RUN_ENDED;
    begin(run, "r2");
    assert_int_equal(run->link, RUN_CONNECTING);
    assert_true(run->last_step == -1 && run->series.last == -1 && run->worst == BAND_FINITE);
    assert_true(run->onset == -1 && run->events == 0 && run->seq == 0 && run->alarms == 0);
    apply_steps(run, 0, 5, BAND_EXTREME);
    struct hello hello = run->hello;
    hello.schema.id++;
    hello.schema.tensors = 0;
    assert_int_equal(run_apply_hello(run, &hello, NULL), 0);
    assert_true(run->last_step == -1 && run->series.last == -1 && run->worst == BAND_EXTREME);
    apply_steps(run, 6, 7, BAND_FINITE); /* a record with more tensors than the hello named */
    assert_int_equal(run_find_record(run, 7)->tensors, 0);
    close_run(run);
}

static void test_a_large_schema_keeps_few_records(void **state) {
    (void)state;
    struct run *run = malloc(sizeof *run);
    struct hello hello;
    assert_int_equal(run_init(run, "x", 8), 0);
    hello_init(&hello);
    for (int i = 0; i < 5000; i++) add_tensor(&hello.schema, "t", ROLE_PARAMETER, STAGE_STEP);
    schema_seal(&hello.schema);
    assert_int_equal(run_apply_hello(run, &hello, NULL), 0);
    assert_int_equal(run->records, RUN_RECORDS_MIN);
    hello_free(&hello);
    close_run(run);
}

static void test_links_and_events(void **state) {
    (void)state;
    struct run *run = open_run();
    run_apply_heard(run, 77);
    assert_true(run->link == RUN_LIVE && run->heard_ns == 77);
    run->link = RUN_SILENT;
    apply_steps(run, 0, 0, BAND_FINITE);
    assert_int_equal(run->link, RUN_LIVE);
    apply_event(run, EVENT_END, 0, BAND_FINITE, -1);
    run_apply_heard(run, 78);
    assert_int_equal(run->link, RUN_ENDED);
    apply_steps(run, 1, 1, BAND_FINITE); /* resumed */
    assert_int_equal(run->link, RUN_LIVE);
    run->link = RUN_STORED;
    apply_event(run, EVENT_END, 1, BAND_FINITE, -1);
    assert_int_equal(run->link, RUN_STORED);
    for (int64_t step = 2; step < 2 + 2 * RUN_EVENTS; step++) {
        apply_event(run, EVENT_PHASE, step, BAND_FINITE, -1);
    }
    assert_int_equal(run_find_event(run, 0)->step, 1 + 2 * RUN_EVENTS);
    assert_int_equal(run_find_event(run, RUN_EVENTS - 1)->step, 2 + RUN_EVENTS);
    assert_null(run_find_event(run, RUN_EVENTS));
    assert_int_equal(run_find_event_step(run, 300, -1), 299);
    assert_int_equal(run_find_event_step(run, 300, 1), 301);
    assert_int_equal(run_find_event_step(run, 2 + RUN_EVENTS, -1), -1);
    struct event event;
    event_init(&event, EVENT_UNRECORDED);
    event.first_seq = 5, event.last_seq = 9;
    run_apply_event(run, &event, 1);
    assert_int_equal(run->unrecorded, 5);
    event.first_seq = 1, event.last_seq = UINT64_MAX;
    run_apply_event(run, &event, 1);
    assert_int_equal(run->unrecorded, INT64_MAX);
    close_run(run);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_known_before_the_hello),
        cmocka_unit_test(test_duplicates_are_counted_and_change_nothing),
        cmocka_unit_test(test_only_lost_steps_are_a_gap),
        cmocka_unit_test(test_records_alone_tell_onset_and_lead),
        cmocka_unit_test(test_events_tell_what_lost_records_did_not),
        cmocka_unit_test(test_a_late_viewer_knows_the_stretch_going_on),
        cmocka_unit_test(test_the_safe_checkpoint_lies_before_the_onset),
        cmocka_unit_test(test_old_records_displace_no_newer_one),
        cmocka_unit_test(test_steps_a_second_go_by_the_publishers_clock),
        cmocka_unit_test(test_another_run_or_schema_starts_anew),
        cmocka_unit_test(test_a_large_schema_keeps_few_records),
        cmocka_unit_test(test_links_and_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
