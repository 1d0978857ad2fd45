/* The detector on 33 recorded runs: the figures that docs/detector.md promises. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zlib.h>

#include "shared/core/detector.h"

#define TRACES "tests/data/traces.tsv.gz"

enum { RUNS_MAX = 64, ALARMS_MAX = 8 };

static const int columns[] = {METRIC_LOSS, METRIC_GRAD_NORM, METRIC_UPDATE_RATIO,
                              METRIC_UPDATE_RATIO_MAX, METRIC_ACT_MAX};

struct alarm {
    int64_t step, onset;
    enum band band;
    enum reason reason;
};

struct trace {
    char name[64];
    double momentum;
    int64_t steps, failing; /* first non-finite step as recorded, from 1; 0: never */
    int64_t extreme, peaks; /* steps judged so */
    int64_t nonfinite;      /* first step judged so; 0: none */
    int64_t lead;           /* as the verdict tells it in that step */
    int alarms;
    struct alarm alarm[ALARMS_MAX];
};

struct traces {
    int count;
    struct trace trace[RUNS_MAX];
};

static void read_step(const char *line, struct record *record) {
    for (size_t c = 0; c < sizeof columns / sizeof *columns; c++) {
        char *end;
        double value = strtod(line, &end);
        if (end != line) record_set(record, columns[c], value);
        line = strchr(line, '\t');
        if (!line) return;
        line++;
    }
}

static void judge(struct trace *trace, struct detector *detector, const struct schema *schema,
                  const char *line) {
    struct record record;
    assert_int_equal(record_init(&record, 0), 0);
    record.step = ++trace->steps;
    read_step(line, &record);
    struct verdict verdict = detector_judge(detector, schema, &record);
    if (record.band == BAND_EXTREME) trace->extreme++;
    if (record.reason == REASON_PEAK) trace->peaks++;
    if (record.band == BAND_NONFINITE && !trace->nonfinite) {
        trace->nonfinite = record.step;
        trace->lead = verdict.lead;
    }
    if (verdict.alarm) {
        assert_true(trace->alarms < ALARMS_MAX);
        trace->alarm[trace->alarms++] =
            (struct alarm){record.step, verdict.onset, record.band, record.reason};
    }
}

static int load(void **state) {
    struct traces *traces = calloc(1, sizeof *traces);
    struct trace *trace = NULL;
    struct schema schema;
    struct detector detector = {.tensors = 0};
    char line[256];
    schema_init(&schema);
    gzFile file = gzopen(TRACES, "rb");
    if (!file || !traces) return -1;
    while (gzgets(file, line, sizeof line)) {
        if (line[0] != '#') {
            judge(trace, &detector, &schema, line);
            continue;
        }
        trace = &traces->trace[traces->count++];
        long row;
        if (sscanf(line, "# %63s %lf %ld", trace->name, &trace->momentum, &row) != 3) return -1;
        trace->failing = row + 1;
        detector_free(&detector);
        detector_init(&detector, NULL, 0);
    }
    gzclose(file);
    detector_free(&detector);
    *state = traces;
    return 0;
}

static int unload(void **state) {
    free(*state);
    return 0;
}

static const struct trace *find(const struct traces *traces, const char *name) {
    for (int i = 0; i < traces->count; i++) {
        if (strcmp(traces->trace[i].name, name) == 0) return &traces->trace[i];
    }
    fail_msg("no trace %s", name);
    return NULL;
}

/* The alarm of the stretch that ends non-finite: 0 when there is none ahead. */
static int64_t alarmed_ahead(const struct trace *trace) {
    for (int i = 0; i < trace->alarms; i++) {
        const struct alarm *alarm = &trace->alarm[i];
        bool same = alarm->onset == trace->nonfinite - trace->lead;
        if (same && alarm->band == BAND_EXTREME) return trace->failing - alarm->step;
    }
    return 0;
}

static int by_size(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void test_failing_runs_are_alarmed_ahead(void **state) {
    const struct traces *traces = *state;
    int64_t ahead[RUNS_MAX];
    int failing = 0;
    for (int i = 0; i < traces->count; i++) {
        const struct trace *trace = &traces->trace[i];
        assert_int_equal(trace->nonfinite, trace->failing);
        if (trace->failing && trace->momentum > 0) ahead[failing++] = alarmed_ahead(trace);
    }
    qsort(ahead, (size_t)failing, sizeof *ahead, by_size);
    assert_true(traces->count == 33 && failing == 11);
    assert_true(ahead[0] == 5 && ahead[failing / 2] == 7 && ahead[failing - 1] == 11);
}

static void test_healthy_runs_ring_nothing(void **state) {
    const struct traces *traces = *state;
    int64_t steps = 0, extreme = 0, peaks = 0, alarms = 0;
    for (int i = 0; i < traces->count; i++) {
        const struct trace *trace = &traces->trace[i];
        if (trace->failing) continue;
        steps += trace->steps;
        extreme += trace->extreme;
        peaks += trace->peaks;
        alarms += trace->alarms;
    }
    assert_true(steps == 23547 && alarms == 0 && extreme == 10 && peaks == 10);
}

static void test_the_story(void **state) {
    const struct trace *trace = find(*state, "restart-norm_lr0.05_so4_SBAC_202");
    assert_int_equal(trace->alarms, 2);
    assert_true(trace->alarm[0].step == 40 && trace->alarm[0].reason == REASON_RUNAWAY);
    assert_true(trace->alarm[1].step == 46 && trace->alarm[1].reason == REASON_NONFINITE);
    assert_true(trace->alarm[1].onset == 40 && trace->lead == 6);
}

static void test_without_momentum_an_alarm_comes_before_the_nan(void **state) {
    static const char *const names[] = {"norm_lr0.5_m0_n10000_e4_SABC_101",
                                        "norm_lr0.5_m0_n10000_e4_SBAC_101"};
    for (int i = 0; i < 2; i++) assert_true(alarmed_ahead(find(*state, names[i])) >= 3);
}

/* Three updates running heal; the runaway 14 steps later is another stretch with an alarm of its
 * own. */
static void test_a_new_stretch_rings_again(void **state) {
    const struct trace *trace = find(*state, "norm_lr0.08_n10000_e4_SBAC_202");
    assert_int_equal(trace->alarms, 3);
    assert_true(trace->alarm[0].step == 23 && trace->alarm[0].onset == 21);
    assert_true(trace->alarm[1].step == 37 && trace->alarm[1].onset == 37);
    assert_true(trace->alarm[2].step == 42 && trace->alarm[2].band == BAND_NONFINITE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_failing_runs_are_alarmed_ahead),
        cmocka_unit_test(test_healthy_runs_ring_nothing),
        cmocka_unit_test(test_the_story),
        cmocka_unit_test(test_without_momentum_an_alarm_comes_before_the_nan),
        cmocka_unit_test(test_a_new_stretch_rings_again),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
