/* What the tracer makes of measured statistics: metrics, hashes, the update ratio, the event of a
 * verdict. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <xxhash.h>

#include "trainer/tracer.h"

enum { IMAGES = 4 };

struct fixture {
    struct kernels_device *device;
    struct model model;
    struct schema schema;
    struct tracer tracer;
    struct dataset dataset;
    uint8_t image[IMAGES * DATASET_PIXELS], label[IMAGES];
    int32_t order[3];
};

static int open_fixture(void **state) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    struct kernels_options options = {.threads = 1, .batch_max = IMAGES};
    struct model_options shape = {.batch_max = IMAGES};
    struct detector_limits limits;
    assert_int_equal(kernels_cpu()->open(&fixture->device, &options, NULL), 0);
    model_init(&fixture->model, kernels_cpu(), fixture->device, &shape);
    schema_init(&fixture->schema);
    tracer_describe(&fixture->schema);
    assert_int_equal(model_describe(&fixture->model, IMAGES, &fixture->schema), 0);
    detector_limits_init(&limits);
    assert_int_equal(tracer_init(&fixture->tracer, &fixture->schema, &limits, true), 0);
    for (size_t i = 0; i < sizeof fixture->image; i++)
        fixture->image[i] = (uint8_t)(i * 13 + i / 784);
    memcpy(fixture->label, "\3\1\3\7", IMAGES);
    memcpy(fixture->order, (int32_t[]){2, 0, 3}, sizeof fixture->order);
    fixture->dataset =
        (struct dataset){.images = IMAGES, .image = fixture->image, .label = fixture->label};
    *state = fixture;
    return 0;
}

static int close_fixture(void **state) {
    struct fixture *fixture = *state;
    tracer_free(&fixture->tracer);
    schema_free(&fixture->schema);
    model_free(&fixture->model);
    kernels_cpu()->close(fixture->device);
    free(fixture);
    return 0;
}

/* As if every tensor held one value. */
static void set_all(struct fixture *fixture, double param, double momentum, double grad) {
    struct tensor_stat *stat = fixture->tracer.record.tensor;
    for (int i = 0; i < MODEL_TENSORS; i++) {
        double value = i >= MODEL_PARAM      ? param
                       : i >= MODEL_MOMENTUM ? momentum
                       : i >= MODEL_GRAD     ? grad
                                             : 0.5;
        stat[i] = (struct tensor_stat){
            .count = 1, .sum_sq = value * value, .max_abs = value, .usual = NAN, .bad_index = -1};
    }
}

static void set_bad(struct fixture *fixture, int tensor, bool nan) {
    struct tensor_stat *stat = &fixture->tracer.record.tensor[tensor];
    stat->count = 640;
    stat->sum_sq = nan ? NAN : INFINITY;
    stat->nan = nan ? 320 : 0;
    stat->neg_inf = nan ? 0 : 2;
    stat->bad_index = 11;
}

static struct tracer_step make_step(const struct fixture *fixture, int64_t step) {
    return (struct tracer_step){.step = step,
                                .epoch = 3,
                                .phase = 2,
                                .batch = 21,
                                .epochs = 4,
                                .batches = 97,
                                .phase_data = "0-4",
                                .dataset = &fixture->dataset,
                                .image = fixture->order,
                                .images = 3,
                                .lr = 0.1,
                                .outcome = {1.5, 2},
                                .took_ns = 6000000,
                                .wall_ns = 7,
                                .mono_ns = 8};
}

static struct verdict begin_with_initial(struct fixture *fixture) {
    struct tracer_step initial = {.epochs = 4, .batches = -1, .phase_data = ""};
    tracer_begin(&fixture->tracer);
    set_all(fixture, 2, 0, 0);
    for (int i = 0; i < MODEL_MOMENTUM; i++) fixture->tracer.record.tensor[i].count = -1;
    struct verdict verdict = tracer_judge(&fixture->tracer, &initial);
    tracer_commit(&fixture->tracer);
    return verdict;
}

static void expect_metric(const struct fixture *fixture, int metric, double expected) {
    const struct record *record = &fixture->tracer.record;
    assert_true(record_has(record, metric));
    double found = record->metric[metric];
    if (isnan(expected) ? !isnan(found)
                        : !(found == expected || fabs(found - expected) <= 1e-12 * fabs(expected)))
        fail_msg("%s: %g instead of %g", fixture->schema.metric[metric], found, expected);
}

static void test_initial_state(void **state) {
    struct fixture *fixture = *state;
    struct verdict verdict = begin_with_initial(fixture);
    const struct record *record = &fixture->tracer.record;
    assert_false(verdict.alarm || verdict.notice);
    assert_int_equal(record->step, 0);
    assert_int_equal(record->epoch, 0);
    assert_false(record->hashed);
    assert_true(record->schema_id == fixture->schema.id);
    expect_metric(fixture, METRIC_PARAM_NORM, 2 * sqrt(8));
    expect_metric(fixture, METRIC_MOMENTUM_MAX, 0);
    static const int UNKNOWN[] = {METRIC_LOSS,    METRIC_LR,           METRIC_GRAD_NORM,
                                  METRIC_ACT_MAX, METRIC_UPDATE_RATIO, METRIC_STEP_MS};
    for (size_t i = 0; i < sizeof UNKNOWN / sizeof *UNKNOWN; i++)
        assert_false(record_has(record, UNKNOWN[i]));
}

static void test_metrics(void **state) {
    struct fixture *fixture = *state;
    struct tracer_step step = make_step(fixture, 1);
    begin_with_initial(fixture);
    tracer_begin(&fixture->tracer);
    set_all(fixture, 5, 3, 4);
    fixture->tracer.record.tensor[MODEL_MOMENTUM + 3].sum_sq =
        1e4; /* conv2.bias: one dimension, in no maximum */
    fixture->tracer.record.tensor[MODEL_MOMENTUM + 6].sum_sq = 16; /* fc2.weight */
    fixture->tracer.record.tensor[MODEL_CONV2].max_abs = 17;
    fixture->tracer.record.tensor[MODEL_LOGITS].max_abs = 99;      /* no activation */
    fixture->tracer.record.tensor[MODEL_GRAD_LOGITS].max_abs = 98; /* no parameter's gradient */
    tracer_judge(&fixture->tracer, &step);
    expect_metric(fixture, METRIC_LOSS, 1.5);
    expect_metric(fixture, METRIC_ACCURACY, 2.0 / 3);
    expect_metric(fixture, METRIC_LR, 0.1);
    expect_metric(fixture, METRIC_GRAD_NORM, 4 * sqrt(8));
    expect_metric(fixture, METRIC_GRAD_MAX, 4);
    expect_metric(fixture, METRIC_PARAM_NORM, 5 * sqrt(8)); /* after the step */
    expect_metric(fixture, METRIC_PARAM_MAX, 5);
    expect_metric(fixture, METRIC_ACT_MAX, 17);
    expect_metric(fixture, METRIC_UPDATE_RATIO,
                  0.1 * sqrt(6 * 9 + 1e4 + 16) / (2 * sqrt(8))); /* w before the step */
    expect_metric(fixture, METRIC_UPDATE_RATIO_MAX, 0.1 * 4 / 2);
    assert_int_equal(fixture->tracer.record.update_ratio_max_tensor, MODEL_PARAM + 6);
    expect_metric(fixture, METRIC_STEP_MS, 6);
    expect_metric(fixture, METRIC_SAMPLES_PER_S, 500);
    assert_int_equal(fixture->tracer.record.batches, 97);
    assert_string_equal(fixture->tracer.record.phase_data, "0-4");
}

static void test_before_is_what_was_committed(void **state) {
    struct fixture *fixture = *state;
    struct tracer_step first = make_step(fixture, 1), second = make_step(fixture, 2),
                       third = make_step(fixture, 3);
    begin_with_initial(fixture);
    tracer_begin(&fixture->tracer);
    set_all(fixture, 4, 1, 1);
    tracer_judge(&fixture->tracer, &first);
    tracer_commit(&fixture->tracer);
    tracer_begin(&fixture->tracer);
    set_all(fixture, 1000, 1, 1);
    tracer_judge(&fixture->tracer, &second);
    expect_metric(fixture, METRIC_UPDATE_RATIO, 0.1 / 4);
    tracer_begin(&fixture->tracer); /* the second was not written */
    set_all(fixture, 6, 2, 1);
    tracer_judge(&fixture->tracer, &third);
    expect_metric(fixture, METRIC_UPDATE_RATIO, 0.1 * 2 / 4);
}

static void test_nonfinite_metrics(void **state) {
    struct fixture *fixture = *state;
    struct tracer_step step = make_step(fixture, 1);
    begin_with_initial(fixture);
    tracer_begin(&fixture->tracer);
    set_all(fixture, 2, 1, 1);
    set_bad(fixture, MODEL_GRAD + 2, true);
    set_bad(fixture, MODEL_MOMENTUM + 4, false); /* fc1.weight */
    set_bad(fixture, MODEL_CONV1, false);
    tracer_judge(&fixture->tracer, &step);
    expect_metric(fixture, METRIC_GRAD_NORM, NAN);
    expect_metric(fixture, METRIC_GRAD_MAX, NAN);
    expect_metric(fixture, METRIC_MOMENTUM_NORM, INFINITY);
    expect_metric(fixture, METRIC_MOMENTUM_MAX, INFINITY);
    expect_metric(fixture, METRIC_ACT_MAX, INFINITY);
    expect_metric(fixture, METRIC_UPDATE_RATIO, INFINITY);
    expect_metric(fixture, METRIC_UPDATE_RATIO_MAX, INFINITY);
    expect_metric(fixture, METRIC_PARAM_MAX, 2);
    assert_int_equal(fixture->tracer.record.update_ratio_max_tensor, MODEL_PARAM + 4);
    assert_int_equal(fixture->tracer.record.band, BAND_NONFINITE);
    assert_int_equal(tracer_state_band(&fixture->tracer), BAND_NONFINITE);
}

static void test_batch(void **state) {
    struct fixture *fixture = *state;
    struct tracer_step step = make_step(fixture, 1);
    uint8_t image[3 * DATASET_PIXELS], label[3];
    begin_with_initial(fixture);
    tracer_begin(&fixture->tracer);
    set_all(fixture, 2, 1, 1);
    tracer_judge(&fixture->tracer, &step);
    for (int i = 0; i < 3; i++) {
        memcpy(image + i * DATASET_PIXELS, fixture->image + fixture->order[i] * DATASET_PIXELS,
               DATASET_PIXELS);
        label[i] = fixture->label[fixture->order[i]];
    }
    const struct record *record = &fixture->tracer.record;
    assert_true(record->hashed);
    assert_true(record->input_hash == XXH3_64bits(image, sizeof image));
    assert_true(record->label_hash == XXH3_64bits(label, sizeof label));
    assert_int_equal(record->classes, 10);
    assert_int_equal(record->label_count[3], 2);
    assert_int_equal(record->label_count[7], 1);
    assert_int_equal(record->label_count[1], 0);
}

static void test_event(void **state) {
    struct fixture *fixture = *state;
    struct tracer_step step = make_step(fixture, 1);
    struct event event;
    begin_with_initial(fixture);
    tracer_begin(&fixture->tracer);
    set_all(fixture, 2, 1, 1);
    set_bad(fixture, MODEL_LOGITS, true);
    set_bad(fixture, MODEL_GRAD, true);
    struct verdict verdict = tracer_judge(&fixture->tracer, &step);
    assert_true(detector_event(&fixture->schema, &fixture->tracer.record, &verdict, &event));
    assert_int_equal(event.kind, EVENT_NONFINITE);
    assert_int_equal(event.tensor, MODEL_LOGITS);
    assert_int_equal(event.stage, STAGE_FORWARD);
    assert_int_equal(event.nan, 320);
    assert_int_equal(event.count, 640);
    assert_int_equal(event.bad_index, 11);
    assert_int_equal(event.onset, 1);
    assert_int_equal(event.lead, 0);
    assert_int_equal(event.batch, 21);
    assert_true(event.input_hash == fixture->tracer.record.input_hash);
    verdict = (struct verdict){.onset = -1, .lead = -1, .tensor = -1};
    assert_false(detector_event(&fixture->schema, &fixture->tracer.record, &verdict, &event));
}

static void test_without_statistics(void **state) {
    struct fixture *fixture = *state;
    struct tracer_step step = make_step(fixture, 1);
    struct detector_limits limits;
    tracer_free(&fixture->tracer);
    detector_limits_init(&limits);
    assert_int_equal(tracer_init(&fixture->tracer, &fixture->schema, &limits, false), 0);
    assert_null(tracer_begin(&fixture->tracer));
    tracer_judge(&fixture->tracer, &step);
    expect_metric(fixture, METRIC_LOSS, 1.5);
    assert_false(record_has(&fixture->tracer.record, METRIC_GRAD_NORM));
    assert_false(record_has(&fixture->tracer.record, METRIC_UPDATE_RATIO));
    tracer_begin(&fixture->tracer);
    step.step = 2;
    step.outcome[0] = NAN;
    struct verdict verdict = tracer_judge(&fixture->tracer, &step);
    assert_true(verdict.alarm);
    assert_int_equal(fixture->tracer.record.band, BAND_NONFINITE);
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_fixture, close_fixture)
    const struct CMUnitTest test[] = {
        CASE(test_initial_state),     CASE(test_metrics), CASE(test_before_is_what_was_committed),
        CASE(test_nonfinite_metrics), CASE(test_batch),   CASE(test_event),
        CASE(test_without_statistics)};
    return cmocka_run_group_tests(test, NULL, NULL);
}
