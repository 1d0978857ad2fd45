/* The rules one by one, at their limits, and what garbage does to them. */
#include <float.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shared/core/detector.h"
#include "shared/core/error.h"

enum { LOGITS, CONV, CONV_GRAD, CONV_WEIGHT, HALF, TENSORS };

struct bench {
    struct schema schema;
    struct detector detector;
    struct record record; /* of the next step */
    struct verdict verdict;
};

static void add_tensor(struct schema *schema, const char *name, enum role role, enum stage stage) {
    struct schema_tensor tensor = {.role = role, .stage = stage};
    strcpy(tensor.name, name);
    assert_true(schema_add_tensor(schema, &tensor) >= 0);
}

static struct bench open_bench(void) {
    struct bench bench;
    schema_init(&bench.schema);
    add_tensor(&bench.schema, "logits", ROLE_LOGITS, STAGE_LOSS); /* a later stage than conv1's */
    add_tensor(&bench.schema, "conv1", ROLE_ACTIVATION, STAGE_FORWARD);
    add_tensor(&bench.schema, "conv1.weight", ROLE_GRADIENT, STAGE_BACKWARD);
    add_tensor(&bench.schema, "conv1.weight", ROLE_PARAMETER, STAGE_STEP);
    add_tensor(&bench.schema, "half", ROLE_ACTIVATION, STAGE_STEP);
    bench.schema.tensor[HALF].dtype = DTYPE_F16;
    assert_int_equal(detector_init(&bench.detector, NULL, TENSORS), 0);
    assert_int_equal(record_init(&bench.record, TENSORS), 0);
    bench.record.step = 1;
    return bench;
}

static void close_bench(struct bench *bench) {
    detector_free(&bench->detector);
    record_free(&bench->record);
    schema_free(&bench->schema);
}

static void measure(struct bench *bench, int tensor, double max_abs) {
    bench->record.tensor[tensor].count = 10;
    bench->record.tensor[tensor].nan = isnan(max_abs) ? 1 : 0;
    bench->record.tensor[tensor].pos_inf = isinf(max_abs) ? 1 : 0;
    bench->record.tensor[tensor].max_abs = isfinite(max_abs) ? max_abs : NAN;
}

/* Judges what was set, and makes room for the next step. The band, reason and subject stay to be
 * read. */
static enum band judge(struct bench *bench) {
    struct record *record = &bench->record;
    int64_t step = record->step;
    bench->verdict = detector_judge(&bench->detector, &bench->schema, record);
    record->step = step + 1;
    record->measured = 0;
    for (int i = 0; i < record->tensors; i++) record->tensor[i].count = -1;
    return record->band;
}

static enum band judge_metric(struct bench *bench, int metric, double value) {
    record_set(&bench->record, metric, value);
    return judge(bench);
}

static void judge_many(struct bench *bench, int steps, double loss) {
    for (int i = 0; i < steps; i++) {
        assert_int_equal(judge_metric(bench, METRIC_LOSS, loss), BAND_FINITE);
    }
}

static void assert_cause(const struct bench *bench, enum reason reason, const char *subject,
                         double limit) {
    assert_int_equal(bench->record.reason, reason);
    assert_string_equal(bench->record.subject, subject);
    assert_true(isnan(limit) ? isnan(bench->record.limit)
                             : fabs(bench->record.limit - limit) < 1e-9);
}

static void test_thresholds_are_options(void **state) {
    (void)state;
    struct detector_limits limits;
    struct error error;
    detector_limits_init(&limits);
    assert_true(limits.update == 0.2 && limits.range == 1e4 && limits.stretch_gap == 10);
    assert_int_equal(detector_limits_set(&limits, "peak_median=2.5e1", &error), 0);
    assert_true(limits.peak_median == 25 && limits.peak == 3);
    static const char *const wrong[] = {"peak",     "pea=3",      "peaks=3", "=3",
                                        "peak=",    "peak=0",     "peak=-1", "peak=nan",
                                        "peak=inf", "peak=1e999", "peak=3x", ""};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        error.text[0] = '\0';
        assert_int_equal(detector_limits_set(&limits, wrong[i], &error), -1);
        assert_true(strlen(error.text) > 0);
    }
    assert_true(limits.peak == 3);
}

static void test_update_rings_at_the_third_step_running(void **state) {
    (void)state;
    struct bench b = open_bench();
    for (int step = 1; step <= 20; step++) {
        assert_int_equal(judge_metric(&b, METRIC_UPDATE_RATIO, 0.9), BAND_FINITE);
    }
    assert_int_equal(judge_metric(&b, METRIC_UPDATE_RATIO, 0.2), BAND_FINITE);
    assert_int_equal(judge_metric(&b, METRIC_UPDATE_RATIO, 0.21), BAND_EXTREME);
    assert_cause(&b, REASON_UPDATE, "update_ratio", 0.2);
    assert_true(b.verdict.notice && !b.verdict.alarm && b.verdict.onset == 22);
    assert_int_equal(judge_metric(&b, METRIC_UPDATE_RATIO, 0.21), BAND_EXTREME);
    assert_true(!b.verdict.notice && !b.verdict.alarm);
    assert_int_equal(judge_metric(&b, METRIC_UPDATE_RATIO, 0.21), BAND_EXTREME);
    assert_true(!b.verdict.notice && b.verdict.alarm && b.verdict.onset == 22 &&
                b.verdict.lead == -1);
    assert_int_equal(judge_metric(&b, METRIC_UPDATE_RATIO, 0.21), BAND_EXTREME);
    assert_true(!b.verdict.alarm);
    close_bench(&b);
    b = open_bench();
    judge_many(&b, 20, 1);
    for (int i = 0; i < 15; i++) { /* often, but never three running */
        judge_metric(&b, METRIC_UPDATE_RATIO, i % 3 == 2 ? 0.1 : 0.3);
        assert_true(!b.verdict.alarm && b.verdict.onset == 21);
    }
    close_bench(&b);
}

static void test_runaway_rings_in_the_first_step(void **state) {
    (void)state;
    struct bench b = open_bench();
    b.record.update_ratio_max_tensor = CONV_WEIGHT;
    assert_int_equal(judge_metric(&b, METRIC_UPDATE_RATIO_MAX, 1), BAND_FINITE);
    assert_int_equal(judge_metric(&b, METRIC_UPDATE_RATIO_MAX, 1.61), BAND_EXTREME);
    assert_cause(&b, REASON_RUNAWAY, "conv1.weight", 1);
    assert_true(b.verdict.alarm && !b.verdict.notice && b.record.value == 1.61);
    b.record.update_ratio_max_tensor = -1;
    judge_metric(&b, METRIC_UPDATE_RATIO_MAX, 2);
    assert_cause(&b, REASON_RUNAWAY, "update_ratio_max", 1);
    close_bench(&b);
}

static void test_range_knows_the_type(void **state) {
    (void)state;
    struct bench b = open_bench();
    measure(&b, LOGITS, 1e4);
    measure(&b, CONV, 5000);
    measure(&b, HALF, 4094);
    assert_int_equal(judge(&b), BAND_FINITE);
    measure(&b, HALF, 4095);
    assert_int_equal(judge(&b), BAND_EXTREME);
    assert_cause(&b, REASON_RANGE, "half", 4094);
    assert_true(b.verdict.alarm && b.record.value == 4095 && b.record.usual == 4094);
    measure(&b, LOGITS, 2e4);
    measure(&b, CONV, 10001);
    measure(&b, HALF, 1e9);
    judge(&b);
    assert_cause(&b, REASON_RANGE, "conv1", 1e4); /* the earliest stage */
    judge_metric(&b, METRIC_ACT_MAX, -10001);
    assert_cause(&b, REASON_RANGE, "act_max", 1e4);
    judge_metric(&b, METRIC_GRAD_NORM, 1e39);
    assert_cause(&b, REASON_RANGE, "grad_norm", 1e4);
    assert_int_equal(judge_metric(&b, METRIC_LOSS, 1e5), BAND_FINITE);
    measure(&b, CONV_WEIGHT, 1e5); /* colours its tensor, no more */
    assert_int_equal(judge(&b), BAND_FINITE);
    assert_int_equal(b.record.tensor[CONV_WEIGHT].band, BAND_EXTREME);
    close_bench(&b);
}

static void test_peak_looks_at_peak_and_median(void **state) {
    (void)state;
    struct bench b = open_bench();
    judge_many(&b, 1, 5);
    judge_many(&b, 6, 1);
    judge_many(&b, 1, 15); /* three times the peak, but not more */
    struct bench c = open_bench();
    judge_many(&c, 1, 5);
    judge_many(&c, 5, 1);
    judge_many(&c, 1, 15.1); /* the seventh value is taken as it comes */
    close_bench(&c);
    c = open_bench();
    judge_many(&c, 1, 5);
    judge_many(&c, 6, 1);
    assert_int_equal(judge_metric(&c, METRIC_LOSS, 15.1), BAND_EXTREME);
    assert_cause(&c, REASON_PEAK, "loss", 15);
    assert_true(c.record.usual == 1 && c.record.value == 15.1 && c.verdict.notice &&
                !c.verdict.alarm);
    assert_int_equal(judge_metric(&c, METRIC_LOSS, 50.1), BAND_EXTREME); /* ten times the peak */
    assert_true(c.verdict.alarm && !c.verdict.notice);
    assert_cause(&c, REASON_PEAK, "loss", 15); /* the extreme ones were not learnt */
    close_bench(&c);
    c = open_bench();
    judge_many(&c, 20, 2);
    judge_many(&c, 1, 19); /* over 3 x the peak, under 10 x the median */
    close_bench(&c);
    close_bench(&b);
}

static void test_a_phase_change_within_its_past_is_silent(void **state) {
    (void)state;
    struct bench b = open_bench();
    for (int step = 0; step < 2000; step++) {
        double loss =
            2.3 * exp(-(step % 1000) / 100.0) + 1e-3; /* four decades down, and up at once */
        record_set(&b.record, METRIC_GRAD_NORM, loss * (step % 7 + 1));
        judge_metric(&b, METRIC_LOSS, loss);
        assert_true(b.record.band == BAND_FINITE && !b.verdict.alarm && !b.verdict.notice);
    }
    close_bench(&b);
}

static void test_a_series_of_zeros_or_below_is_no_peak(void **state) {
    (void)state;
    struct bench b = open_bench();
    judge_many(&b, 300, 0);
    judge_many(&b, 1, 1e-3); /* nothing to compare with */
    close_bench(&b);
    b = open_bench();
    judge_many(&b, 100, -5); /* some losses are negative */
    judge_many(&b, 10, 5);
    assert_int_equal(judge_metric(&b, METRIC_LOSS, -500), BAND_EXTREME);
    close_bench(&b);
}

static void test_any_metric_or_tensor_can_be_nonfinite(void **state) {
    (void)state;
    struct bench b = open_bench();
    int own = schema_add_metric(&b.schema, "temperature");
    assert_int_equal(judge_metric(&b, own, -INFINITY), BAND_NONFINITE);
    assert_cause(&b, REASON_NONFINITE, "temperature", NAN);
    assert_true(b.verdict.alarm && b.verdict.tensor == -1 && b.verdict.lead == 0 &&
                b.verdict.onset == 1);
    measure(&b, LOGITS, NAN);
    measure(&b, CONV_GRAD, INFINITY);
    record_set(&b.record, METRIC_LOSS, NAN);
    assert_int_equal(judge(&b), BAND_NONFINITE);
    assert_cause(&b, REASON_NONFINITE, "logits", NAN);
    assert_true(isnan(b.record.value) && b.verdict.tensor == LOGITS && !b.verdict.alarm);
    measure(&b, LOGITS, NAN);
    measure(&b, CONV, INFINITY); /* later in the schema, earlier in the step */
    judge(&b);
    assert_true(b.verdict.tensor == CONV && b.record.value == INFINITY);
    measure(&b, CONV_GRAD, INFINITY);
    judge(&b);
    assert_cause(&b, REASON_NONFINITE, "conv1.weight/gradient", NAN);
    close_bench(&b);
}

static void test_a_skipped_steps_gradient_is_only_extreme(void **state) {
    (void)state;
    struct bench b = open_bench();
    for (int i = 0; i < 10; i++) judge_metric(&b, METRIC_GRAD_NORM, 1);
    for (int i = 0; i < 5; i++) { /* a scaler on its way down */
        measure(&b, CONV, 1);
        measure(&b, CONV_GRAD, INFINITY);
        record_set(&b.record, METRIC_GRAD_NORM, INFINITY);
        record_set(&b.record, METRIC_UPDATE_RATIO_MAX, INFINITY);
        assert_int_equal(judge_metric(&b, METRIC_STEP_SKIPPED, 1), BAND_EXTREME);
        assert_cause(&b, REASON_NONFINITE, "conv1.weight/gradient", NAN);
        assert_true(!b.verdict.alarm && b.verdict.notice == (i == 0) && b.verdict.tensor == -1);
    }
    measure(&b, CONV, NAN);
    measure(&b, CONV_GRAD, INFINITY);
    assert_int_equal(judge_metric(&b, METRIC_STEP_SKIPPED, 1), BAND_NONFINITE);
    assert_true(b.verdict.alarm && b.verdict.tensor == CONV);
    record_set(&b.record, METRIC_STEP_SKIPPED, 1);
    assert_int_equal(judge_metric(&b, METRIC_LOSS, NAN), BAND_NONFINITE);
    record_set(&b.record, METRIC_STEP_SKIPPED, 0);
    assert_int_equal(judge_metric(&b, METRIC_GRAD_NORM, NAN), BAND_NONFINITE);
    close_bench(&b);
}

/* Every reason at once; each round takes the first away. */
static void test_the_order_of_reasons(void **state) {
    (void)state;
    static const enum reason order[] = {REASON_NONFINITE, REASON_RUNAWAY, REASON_RANGE,
                                        REASON_PEAK,      REASON_UPDATE,  REASON_PEAK};
    for (int round = 0; round < 6; round++) {
        struct bench b = open_bench();
        judge_many(&b, 30, 1);
        if (round < 1) record_set(&b.record, METRIC_ACCURACY, NAN);
        if (round < 2) record_set(&b.record, METRIC_UPDATE_RATIO_MAX, 2);
        if (round < 3) measure(&b, CONV, 2e4);
        record_set(&b.record, METRIC_LOSS, round < 4 ? 11 : 10.0001);
        if (round >= 4) b.detector.limits.peak_alarm = 100;
        if (round < 5) record_set(&b.record, METRIC_UPDATE_RATIO, 0.3);
        judge(&b);
        assert_int_equal(b.record.reason, order[round]);
        assert_int_equal(b.verdict.alarm, round < 4);
        close_bench(&b);
    }
}

static void test_a_stretch_ends_after_ten_finite_steps(void **state) {
    (void)state;
    struct bench b = open_bench();
    judge_many(&b, 9, 1);
    judge_metric(&b, METRIC_UPDATE_RATIO_MAX, 2);
    assert_true(b.verdict.alarm && b.verdict.onset == 10);
    judge_many(&b, 10, 1);
    assert_int_equal(b.verdict.onset, 10);
    judge_metric(&b, METRIC_UPDATE_RATIO_MAX, 2); /* 21 */
    assert_true(!b.verdict.alarm && b.verdict.onset == 10);
    judge_metric(&b, METRIC_LOSS, NAN);
    assert_true(b.verdict.alarm && b.verdict.lead == 12); /* a higher severity rings */
    judge_metric(&b, METRIC_LOSS, NAN);
    judge_metric(&b, METRIC_UPDATE_RATIO_MAX, 2);
    assert_true(!b.verdict.alarm && b.verdict.lead == 12);
    judge_many(&b, 11, 1);
    assert_true(b.verdict.onset == -1 && b.verdict.lead == -1);
    judge_metric(&b, METRIC_UPDATE_RATIO_MAX, 2); /* 36: another stretch rings anew */
    assert_true(b.verdict.alarm && b.verdict.onset == 36 && b.verdict.lead == -1);
    close_bench(&b);
}

static void test_works_on_after_nan_as_the_first_value(void **state) {
    (void)state;
    static const double garbage[] = {NAN, INFINITY, -INFINITY, 1e300};
    for (size_t g = 0; g < sizeof garbage / sizeof *garbage; g++) {
        struct bench b = open_bench();
        for (int i = 0; i < 3; i++) {
            record_set(&b.record, METRIC_GRAD_NORM, garbage[g]);
            measure(&b, CONV, garbage[g]);
            judge_metric(&b, METRIC_LOSS, garbage[g]);
        }
        judge_many(&b, 20, 1);
        assert_int_equal(judge_metric(&b, METRIC_LOSS, 10.5), BAND_EXTREME);
        assert_true(b.record.reason == REASON_PEAK && b.record.usual == 1 && b.verdict.alarm);
        close_bench(&b);
    }
}

static void test_a_source_may_measure_little(void **state) {
    (void)state;
    struct schema schema;
    struct detector detector;
    struct record record;
    schema_init(&schema);
    assert_int_equal(detector_init(&detector, NULL, 0), 0);
    assert_int_equal(record_init(&record, 2), 0); /* more tensors than were announced */
    record.tensor[0].count = 3;
    record.tensor[0].nan = 3;
    for (record.step = 0; record.step < 50; record.step++) {
        struct verdict verdict = detector_judge(&detector, &schema, &record);
        assert_true(record.band == BAND_FINITE && verdict.onset == -1);
    }
    record_free(&record);
    detector_free(&detector);
    schema_free(&schema);
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of_newest(const double *entered, int count) {
    double newest[DETECTOR_WINDOW];
    int used = count < DETECTOR_WINDOW ? count : DETECTOR_WINDOW;
    if (used == 0) return NAN;
    memcpy(newest, entered + count - used, (size_t)used * sizeof *newest);
    qsort(newest, (size_t)used, sizeof *newest, by_size);
    return (newest[(used - 1) / 2] + newest[used / 2]) / 2;
}

static void assert_finite_past(const struct detector_past *past) {
    assert_true(isfinite(past->peak));
    for (int i = 0; i < DETECTOR_WINDOW; i++) {
        assert_true(isfinite(past->ring[i]) && isfinite(past->sorted[i]));
    }
}

/* What is told as usual is what was measured: no float can hold 2.3. */
static void test_usual_is_as_measured(void **state) {
    (void)state;
    struct bench b = open_bench();
    for (int i = 0; i < 3; i++) {
        record_set(&b.record, METRIC_LOSS, 2.3);
        measure(&b, CONV, 0.1);
        judge(&b);
    }
    record_set(&b.record, METRIC_LOSS, (double)NAN);
    judge(&b);
    assert_true(b.record.usual == 2.3);
    assert_true(b.detector.tensor[CONV].peak == 0.1);
    close_bench(&b);
}

/* A publisher that sums up but does not count. */
static void test_uncounted_is_nonfinite_too(void **state) {
    (void)state;
    struct bench b = open_bench();
    b.record.tensor[CONV].count = 10;
    b.record.tensor[CONV].sum_sq = NAN;
    assert_int_equal(judge(&b), BAND_NONFINITE);
    assert_true(isnan(b.record.value) && b.verdict.tensor == CONV);
    b.record.tensor[CONV].sum_sq = b.record.tensor[CONV].max_abs = INFINITY;
    b.record.tensor[CONV].count = 10;
    assert_int_equal(judge(&b), BAND_NONFINITE);
    assert_true(isinf(b.record.value) && b.record.value > 0);
    close_bench(&b);
}

/* A tensor against a plain list of what may enter: band and usual at every step, whatever comes. */
static void test_tensor_bands_equal_a_plain_computation(void **state) {
    (void)state;
    enum { STEPS = 3000 };
    static const double strange[] = {NAN, INFINITY, 0, 1e300, 9999, 10001, 1e-40};
    double *entered = malloc(STEPS * sizeof *entered), peak = 0;
    struct bench b = open_bench();
    uint32_t random = 12345;
    int count = 0, seen[BAND_COUNT] = {0};
    for (int step = 0; step < STEPS; step++) {
        random = random * 1664525 + 1013904223;
        uint32_t pick = random >> 24;
        double value =
            pick < 7 ? strange[pick] : (double)(float)ldexp(random >> 8 & 1023, (int)(pick % 5));
        if (step < 200) value /= 1024;
        value = (double)(float)value < 1e38 ? (double)(float)value : value;
        double usual = median_of_newest(entered, count);
        bool past = count + 1 >= 8 && peak > 0 && value > 3 * peak && value > 10 * usual;
        enum band band = !isfinite(value)      ? BAND_NONFINITE
                         : value > 1e4 || past ? BAND_EXTREME
                                               : BAND_FINITE;
        measure(&b, CONV_WEIGHT, value);
        judge(&b);
        const struct tensor_stat *stat = &b.record.tensor[CONV_WEIGHT];
        assert_int_equal(stat->band, band);
        assert_true(isnan(usual) ? isnan(stat->usual) : stat->usual == usual);
        seen[band]++;
        if (band != BAND_FINITE) continue;
        entered[count++] = value;
        if (value > peak) peak = value;
    }
    assert_true(seen[BAND_FINITE] > 2000 && seen[BAND_EXTREME] > 10 && seen[BAND_NONFINITE] > 10);
    assert_finite_past(&b.detector.tensor[CONV_WEIGHT]);
    assert_finite_past(&b.detector.loss);
    close_bench(&b);
    free(entered);
}

static void test_the_finite_part_of_a_bad_tensor_is_not_learnt(void **state) {
    (void)state;
    struct bench b = open_bench();
    for (int i = 0; i < 20; i++) {
        measure(&b, CONV, i % 2 ? NAN : 1);
        if (i % 2) b.record.tensor[CONV].max_abs = 9000;
        judge(&b);
    }
    measure(&b, CONV, 1);
    judge(&b);
    assert_true(b.record.tensor[CONV].usual == 1 && b.detector.tensor[CONV].peak == 1);
    close_bench(&b);
}

static void test_subjects(void **state) {
    (void)state;
    struct bench b = open_bench();
    char subject[SCHEMA_NAME_SIZE];
    struct schema_tensor *tensor = &b.schema.tensor[CONV_WEIGHT];
    assert_string_equal(detector_subject(tensor, subject), "conv1.weight");
    tensor->role = ROLE_MOMENTUM_BUFFER;
    assert_string_equal(detector_subject(tensor, subject), "conv1.weight/momentum_buffer");
    memset(tensor->name, 'x', SCHEMA_NAME_SIZE - 1);
    assert_int_equal(strlen(detector_subject(tensor, subject)), SCHEMA_NAME_SIZE - 1);
    close_bench(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_usual_is_as_measured),
        cmocka_unit_test(test_uncounted_is_nonfinite_too),
        cmocka_unit_test(test_thresholds_are_options),
        cmocka_unit_test(test_update_rings_at_the_third_step_running),
        cmocka_unit_test(test_runaway_rings_in_the_first_step),
        cmocka_unit_test(test_range_knows_the_type),
        cmocka_unit_test(test_peak_looks_at_peak_and_median),
        cmocka_unit_test(test_a_phase_change_within_its_past_is_silent),
        cmocka_unit_test(test_a_series_of_zeros_or_below_is_no_peak),
        cmocka_unit_test(test_any_metric_or_tensor_can_be_nonfinite),
        cmocka_unit_test(test_a_skipped_steps_gradient_is_only_extreme),
        cmocka_unit_test(test_the_order_of_reasons),
        cmocka_unit_test(test_a_stretch_ends_after_ten_finite_steps),
        cmocka_unit_test(test_works_on_after_nan_as_the_first_value),
        cmocka_unit_test(test_a_source_may_measure_little),
        cmocka_unit_test(test_tensor_bands_equal_a_plain_computation),
        cmocka_unit_test(test_the_finite_part_of_a_bad_tensor_is_not_learnt),
        cmocka_unit_test(test_subjects),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
