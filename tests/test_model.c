/* The composed model: the same as the golden step, and the same bits again, with and without
 * statistics. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/help_golden.h"
#include "trainer/model.h"

enum { BATCH = 12, STEPS = 3 }; /* small, for the sanitizers */

struct fixture {
    struct dataset dataset;
    struct kernels_device *device;
    struct model model;
    struct tensor_stat stat[MODEL_TENSORS];
    double outcome[2];
};

static void open_fixture(struct fixture *fixture, int threads, float slope,
                         enum kernels_scale scale) {
    static struct model_state state;
    static int32_t order[BATCH * STEPS];
    struct kernels_options options = {.threads = threads, .batch_max = BATCH};
    struct model_options shape = {BATCH, slope, scale};
    assert_int_equal(dataset_load(&fixture->dataset, "tests/data/mnist320", NULL), 0);
    assert_int_equal(kernels_cpu()->open(&fixture->device, &options, NULL), 0);
    model_init(&fixture->model, kernels_cpu(), fixture->device, &shape);
    model_set_data(&fixture->model, &fixture->dataset);
    for (int32_t i = 0; i < BATCH * STEPS; i++) order[i] = i;
    model_set_order(&fixture->model, order, BATCH * STEPS);
    model_state_init(&state, 0, true);
    model_set_state(&fixture->model, &state);
}

static void close_fixture(struct fixture *fixture) {
    model_free(&fixture->model);
    kernels_cpu()->close(fixture->device);
    dataset_free(&fixture->dataset);
}

static void run_step(struct fixture *fixture, int number, int batch, bool measured) {
    struct kernels_step step = {number + 1, (int64_t)number * BATCH, batch, 0.05F, 0.9F};
    struct model_measure measure = {1e4, fixture->stat};
    model_step(&fixture->model, &step, measured ? &measure : NULL, fixture->outcome);
}

static float *download(const struct kernels *kernels, struct kernels_device *device,
                       const float *d_data, int count) {
    float *value = malloc((size_t)count * sizeof *value);
    assert_non_null(value);
    kernels->download(device, value, d_data, (size_t)count * sizeof *value);
    return value;
}

/* Every parameter and momentum buffer after some steps, against the step that test_golden.c checks
 * number by number. */
static void test_same_as_golden(void **state) {
    (void)state;
    static struct golden_model golden;
    static struct fixture fixture;
    for (int variant = 0; variant < GOLDEN_CASES; variant++) {
        const struct golden_case *one = &golden_case[variant];
        golden_open(&golden, kernels_cpu(), 2, one);
        open_fixture(&fixture, 2, one->slope, one->scale);
        for (int number = 0; number < STEPS; number++) {
            golden_begin(&golden, number, BATCH);
            golden_compute(&golden);
            golden.kernels->commit(golden.device, &golden.sgd);
            run_step(&fixture, number, BATCH, true);
            model_commit(&fixture.model);
        }
        for (int i = 0; i < 2 * MODEL_PARAMETERS; i++) {
            const float *d_golden = i < 8 ? golden.d_param[i] : golden.d_momentum[i - 8];
            const struct model_tensor *tensor =
                &fixture.model.tensor[i < 8 ? MODEL_PARAM + i : MODEL_MOMENTUM + i - 8];
            float *expected = download(golden.kernels, golden.device, d_golden, (int)tensor->count);
            float *found =
                download(fixture.model.kernels, fixture.device, tensor->d_data, (int)tensor->count);
            assert_memory_equal(found, expected, (size_t)tensor->count * sizeof *found);
            free(expected);
            free(found);
        }
        close_fixture(&fixture);
        golden_close(&golden);
    }
}

static uint64_t train(int threads, bool measured) {
    static struct model_state state;
    struct fixture fixture = {0};
    open_fixture(&fixture, threads, 0.01F, KERNELS_SCALE_NORMALIZE);
    for (int number = 0; number < STEPS; number++) {
        run_step(&fixture, number, number == STEPS - 1 ? 7 : BATCH,
                 measured); /* a short last batch */
        model_commit(&fixture.model);
    }
    model_get_state(&fixture.model, &state);
    close_fixture(&fixture);
    return model_state_hash(&state);
}

static void test_same_bits(void **state) {
    (void)state;
    for (int threads = 1; threads <= 2; threads++) {
        uint64_t hash = train(threads, true);
        assert_true(hash == train(threads, true));
        assert_true(hash == train(threads, false));
    }
}

static void test_uncommitted_step_changes_nothing(void **state) {
    (void)state;
    static struct model_state before, after;
    struct fixture fixture = {0};
    open_fixture(&fixture, 1, 0, KERNELS_SCALE_255);
    run_step(&fixture, 0, BATCH, true);
    model_commit(&fixture.model);
    model_get_state(&fixture.model, &before);
    run_step(&fixture, 1, BATCH, true);
    model_get_state(&fixture.model, &after);
    assert_memory_equal(&before, &after, sizeof before);
    run_step(&fixture, 1, BATCH, true);
    model_commit(&fixture.model);
    model_get_state(&fixture.model, &after);
    assert_true(memcmp(&before, &after, sizeof before) != 0);
    close_fixture(&fixture);
}

static void test_statistics_of_short_batch(void **state) {
    (void)state;
    struct fixture fixture = {0};
    open_fixture(&fixture, 1, 0, KERNELS_SCALE_255);
    run_step(&fixture, 0, 7, true);
    assert_int_equal(fixture.stat[MODEL_INPUT].count, 7 * 784);
    assert_int_equal(fixture.stat[MODEL_CONV2].count, 7 * 64 * 14 * 14);
    assert_int_equal(fixture.stat[MODEL_LOSS].count, 7);
    assert_int_equal(fixture.stat[MODEL_GRAD_LOGITS].count, 70);
    int64_t params = 0;
    for (int i = 0; i < MODEL_PARAMETERS; i++) params += fixture.stat[MODEL_PARAM + i].count;
    assert_int_equal(params, MODEL_VALUES);
    assert_true(fabs(fixture.stat[MODEL_LOSS].max_abs - fixture.outcome[0]) < 1);
    assert_in_range((int)fixture.outcome[1], 0, 7);
    close_fixture(&fixture);
}

static void test_inject(void **state) {
    (void)state;
    struct fixture fixture = {0};
    struct kernels_step step = {1, 0, BATCH, 0.05F, 0.9F};
    struct model_measure measure = {1e4, fixture.stat};
    open_fixture(&fixture, 1, 0, KERNELS_SCALE_255);
    run_step(&fixture, 0, BATCH, true);
    int parameter = model_find_parameter("fc1.weight");
    double before = fixture.stat[model_grad(parameter)].max_abs,
           other = fixture.stat[model_grad(0)].max_abs;
    model_inject(&fixture.model, &step, &measure, parameter, 4);
    assert_true(fixture.stat[model_grad(parameter)].max_abs == 4 * before);
    assert_true(fixture.stat[MODEL_MOMENTUM + parameter].max_abs == 4 * before);
    assert_true(fixture.stat[model_grad(0)].max_abs == other);
    model_inject(&fixture.model, &step, &measure, parameter, NAN);
    assert_int_equal(fixture.stat[MODEL_PARAM + parameter].nan, 401408);
    assert_int_equal(fixture.stat[MODEL_PARAM].nan, 0);
    assert_int_equal(model_find_parameter("fc3.weight"), -1);
    close_fixture(&fixture);
}

static void test_initial_state(void **state) {
    (void)state;
    static struct model_state a, b;
    static struct tensor_stat stat[MODEL_TENSORS];
    struct fixture fixture = {0};
    struct model_measure measure = {1e4, stat};
    model_state_init(&a, 3, false);
    model_state_init(&b, 3, false);
    assert_true(model_state_hash(&a) == model_state_hash(&b));
    model_state_init(&b, 4, false);
    assert_true(model_state_hash(&a) != model_state_hash(&b));
    open_fixture(&fixture, 1, 0, KERNELS_SCALE_255);
    model_set_state(&fixture.model, &a);
    model_measure_state(&fixture.model, &measure);
    static const double FAN_IN[] = {9, 288, 3136, 128};
    for (int i = 0; i < MODEL_PARAMETERS;
         i++) { /* uniform: the largest is near the bound, the variance a third of its square */
        double bound = 1 / sqrt(FAN_IN[i / 2]);
        assert_true(stat[MODEL_PARAM + i].max_abs <= bound &&
                    stat[MODEL_PARAM + i].max_abs > 0.8 * bound);
        assert_true(stat[MODEL_MOMENTUM + i].max_abs == 0);
    }
    double mean_sq = stat[MODEL_PARAM + 4].sum_sq / 401408;
    assert_true(fabs(mean_sq * 3 * 3136 - 1) < 0.02);
    close_fixture(&fixture);
}

static void test_schema(void **state) {
    (void)state;
    struct fixture fixture = {0};
    struct schema schema;
    open_fixture(&fixture, 1, 0, KERNELS_SCALE_255);
    schema_init(&schema);
    assert_int_equal(model_describe(&fixture.model, BATCH, &schema), 0);
    assert_int_equal(schema.tensors, 31);
    assert_true(schema.id != 0);
    for (int i = 1; i < schema.tensors; i++)
        assert_true(schema.tensor[i].stage >= schema.tensor[i - 1].stage);
    const struct schema_tensor *conv2 = &schema.tensor[MODEL_CONV2];
    assert_int_equal(conv2->dims, 4);
    assert_int_equal(conv2->shape[0], BATCH);
    assert_int_equal(conv2->shape[3], 14);
    assert_int_equal(schema_find_tensor(&schema, "fc1.weight", ROLE_GRADIENT), model_grad(4));
    assert_int_equal(schema_find_tensor(&schema, "fc2.bias", ROLE_PARAMETER), MODEL_PARAM + 7);
    assert_int_equal(schema_find_tensor(&schema, "loss", ROLE_LOSS), MODEL_LOSS);
    schema_free(&schema);
    close_fixture(&fixture);
}

int main(void) {
    const struct CMUnitTest test[] = {
        cmocka_unit_test(test_same_as_golden),
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_uncommitted_step_changes_nothing),
        cmocka_unit_test(test_statistics_of_short_batch),
        cmocka_unit_test(test_inject),
        cmocka_unit_test(test_initial_state),
        cmocka_unit_test(test_schema),
    };
    return cmocka_run_group_tests(test, NULL, NULL);
}
