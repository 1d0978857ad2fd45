/* Feeds that read run files and lines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "shared/store/runfile.h"
#include "tests/help_wire.h"

#define UNTIL(viewer, condition) HELP_WIRE_UNTIL(viewer, condition, (void)0)

static char folder[64];

static int enter(void **state) {
    (void)state;
    help_wire_enter(folder, sizeof folder);
    return 0;
}

static int leave(void **state) {
    (void)state;
    help_wire_leave(folder);
    return 0;
}

/* A step whose gradient norm is not the usual 2. */
static void put_odd_step(struct publisher *publisher, int64_t step, double grad_norm) {
    struct record *record = publisher_begin(publisher);
    assert_non_null(record);
    help_wire_fill(record, step);
    record_set(record, METRIC_GRAD_NORM, grad_norm);
    publisher_submit(publisher);
}

static void test_file(void **state) {
    (void)state;
    char path[96];
    snprintf(path, sizeof path, "%s/run.db", folder);
    struct publisher *publisher =
        help_wire_publish((struct publisher_options){.run_file = path}, "file", 3);
    for (int64_t step = 0; step < 3000; step++) {
        help_wire_put_step(publisher, step);
        if (step == 1000) help_wire_put_event(publisher, EVENT_ALARM, step, "");
    }
    struct viewer viewer;
    struct error error;
    int64_t first, last = -1;
    uint64_t seq;
    while (last < 2999) { /* written, with the trainer still there */
        struct runfile *file;
        if (runfile_open(&file, path, &error) < 0) fail_msg("%s", error.text);
        runfile_load_range(file, &first, &last, &seq, &error);
        runfile_close(file);
    }
    help_wire_watch(&viewer, path, (struct feed_options){0});
    UNTIL(&viewer, viewer.run.series.last == 2999);
    assert_int_equal(viewer.run.link, RUN_STORED);
    help_wire_put_step(publisher, 3000);
    UNTIL(&viewer, viewer.run.series.last == 3000);
    help_wire_put_step(publisher, 3001);
    help_wire_put_event(publisher, EVENT_END, 3001, "");
    publisher_close(publisher);
    while (viewer.result >= 0) help_wire_look(&viewer);
    assert_string_equal(viewer.error.text, "");
    assert_int_equal(viewer.run.series.last, 3001);
    assert_int_equal(viewer.seen, 3002);
    assert_int_equal(viewer.alarms, 1);
    assert_int_equal(viewer.run.alarm_step, 1000);
    assert_int_equal(viewer.run.gap_steps, 0);
    assert_int_equal(viewer.run.link, RUN_STORED);
    assert_null(run_find_record(&viewer.run, 5));
    feed_want(viewer.feed, 5, 20);
    help_wire_look(&viewer);
    assert_int_equal(viewer.result, 1);
    assert_non_null(run_find_record(&viewer.run, 20));
    assert_true(run_find_record(&viewer.run, 5)->tensor[2].max_abs == 5.3);
    help_wire_look(&viewer);
    assert_int_equal(viewer.result, -1);
    help_wire_close(&viewer);
}

/* The publisher believed its steps to be finite; by the reader's own thresholds one is not. */
static void test_rejudge(void **state) {
    (void)state;
    char path[96];
    struct detector_limits limits;
    snprintf(path, sizeof path, "%s/run.db", folder);
    struct publisher *publisher =
        help_wire_publish((struct publisher_options){.run_file = path}, "rejudge", 3);
    for (int64_t step = 0; step < 1000; step++) {
        put_odd_step(publisher, step, step == 500 ? 600 : 2);
        if (step == 100) help_wire_put_event(publisher, EVENT_ALARM, step, "");
    }
    detector_limits_init(&limits);
    assert_int_equal(detector_limits_set(&limits, "range=500", NULL), 0);
    char address[128];
    snprintf(address, sizeof address, "ipc://%s/rejudge", folder);
    for (int i = 0; i < 3; i++) {
        struct viewer viewer;
        if (i == 2) publisher_close(publisher);
        help_wire_watch(&viewer, i == 1 ? address : path,
                        (struct feed_options){.rejudge = &limits});
        UNTIL(&viewer, viewer.run.series.last == 999 && viewer.seen == 1000);
        assert_int_equal(viewer.run.alarms, 1);
        assert_int_equal(viewer.run.alarm_step, 500);
        assert_int_equal(viewer.alarms, 1);
        assert_int_equal(viewer.run.worst, BAND_EXTREME);
        assert_int_equal(run_find_event(&viewer.run, 0)->reason, REASON_RANGE);
        help_wire_close(&viewer);
    }
}

static void test_no_run_file(void **state) {
    (void)state;
    struct run run;
    struct feed *feed = NULL;
    struct error error = {""};
    struct feed_options options = {0};
    char path[96];
    snprintf(path, sizeof path, "%s/not.db", folder);
    run_init(&run, path, SERIES_BUCKETS);
    assert_int_equal(feed_open_file(&feed, path, &run, &options, &error), -1);
    assert_non_null(strstr(error.text, path));
    FILE *file = fopen(path, "w");
    fputs("this is no run file", file);
    fclose(file);
    error.text[0] = '\0';
    assert_int_equal(feed_open_file(&feed, path, &run, &options, &error), -1);
    assert_non_null(strstr(error.text, path));
    assert_int_equal(feed_open_endpoint(&feed, NULL, "nonsense", &run, &options, &error), -1);
    feed_close(NULL);
    run_free(&run);
}

static void test_lines(void **state) {
    (void)state;
    int ends[2];
    struct viewer viewer;
    assert_int_equal(pipe(ends), 0);
    help_wire_watch_lines(&viewer, ends[0]);
    help_wire_look(&viewer);
    assert_int_equal(viewer.result, 0);
    for (int step = 1; step <= 2000; step++) {
        char line[128];
        int size = snprintf(line, sizeof line, "{\"step\": %d, \"loss\": %g%s}\n", step, 1.0 / step,
                            step > 1000 ? ", \"entropy\": 0.5" : "");
        assert_int_equal(write(ends[1], line, (size_t)size / 2), size / 2);
        help_wire_look(&viewer);
        assert_int_equal(write(ends[1], line + size / 2, (size_t)(size - size / 2)),
                         size - size / 2);
        help_wire_look(&viewer);
    }
    assert_int_equal(viewer.seen, 2000);
    int entropy = schema_find_metric(&viewer.run.hello.schema, "entropy");
    struct series_column column;
    assert_true(entropy >= METRIC_COUNT);
    assert_true(series_column(&viewer.run.series, METRIC_LOSS, 1900, 1,
                              &column)); /* kept while the schema grew */
    assert_true(series_column(&viewer.run.series, METRIC_LOSS, 256, 256, &column));
    assert_int_equal(column.steps, 256);
    assert_true(column.value.max == (float)(1.0 / 256));
    assert_true(series_column(&viewer.run.series, entropy, 768, 256, &column));
    assert_int_equal(column.value.present, 1023 - 1000);
    assert_non_null(run_find_record(&viewer.run, 1000));
    assert_int_equal(viewer.run.series.first, 1);
    assert_int_equal(viewer.run.gap_steps, 0);

    const char *last = "\r\n\n{\"loss\": NaN}\n{\"step\": 2002, \"loss\": \"inf\", \"entropy\": 1}";
    assert_int_equal(write(ends[1], last, strlen(last)), strlen(last));
    help_wire_look(&viewer);
    assert_int_equal(viewer.seen, 2001);
    assert_int_equal(viewer.last_step, 2001);
    assert_int_equal(viewer.worst, BAND_NONFINITE);
    assert_int_equal(viewer.alarms, 1);
    assert_int_equal(viewer.run.first_nonfinite, 2001);
    close(ends[1]);
    while (viewer.result >= 0) help_wire_look(&viewer);
    assert_string_equal(viewer.error.text, "");
    assert_int_equal(viewer.last_step, 2002);
    assert_int_equal(viewer.alarms, 1);
    assert_int_equal(viewer.run.link, RUN_ENDED);
    help_wire_close(&viewer);
    close(ends[0]);
}

static void refuse_lines(const char *text, size_t size, const char *reason) {
    FILE *file = tmpfile();
    struct viewer viewer;
    fwrite(text, 1, size, file);
    fflush(file);
    rewind(file);
    help_wire_watch_lines(&viewer, fileno(file));
    while (viewer.result >= 0) help_wire_look(&viewer);
    if (!strstr(viewer.error.text, reason)) fail_msg("%s", viewer.error.text);
    help_wire_close(&viewer);
    fclose(file);
}

static void test_lines_refused(void **state) {
    (void)state;
    static char large[(1 << 20) + 2];
    refuse_lines("{\"step\": 1, \"loss\": 2}\nepoch 3\n", 31, "-, line 2: ");
    memset(large, ' ', sizeof large);
    refuse_lines(large, sizeof large, "line 1: longer than 1048576 bytes");
    large[0] = '{';
    large[(1 << 20) - 1] = '}'; /* as long as it may be */
    large[1 << 20] = '\n';
    refuse_lines(large, sizeof large, "");
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_file, enter, leave),
        cmocka_unit_test_setup_teardown(test_rejudge, enter, leave),
        cmocka_unit_test_setup_teardown(test_no_run_file, enter, leave),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_lines_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
