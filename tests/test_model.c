/* The composed model against the golden step (tests/data/golden.tsv.gz: float64 references of five
 * steps for both activations and both input scalings), and what a run relies on: the same bits
 * again, with and without statistics. */
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

#include "trainer/model.h"

enum { BATCH = 64, STEPS = 5, VARIANTS = 4, ROWS_MAX = 2000, SNAPSHOTS_MAX = 64 };

struct fixture {
    struct dataset dataset;
    struct kernels_device *device;
    struct model model;
    struct tensor_stat stat[MODEL_TENSORS];
    double outcome[2];
};

static void open_fixture(struct fixture *fixture, int threads, bool leaky,
                         enum kernels_scale scale) {
    static struct model_state state;
    static int32_t order[BATCH * STEPS];
    struct kernels_options options = {.threads = threads, .batch_max = BATCH};
    struct model_options shape = {BATCH, leaky ? 0.01F : 0, scale};
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

struct row {
    char key[32], what[16];
    double value[VARIANTS];
};

struct snapshot {
    char key[32];
    int64_t count;
    double tolerance; /* of the largest reference */
    float *value;
};

struct golden {
    int rows, snapshots;
    struct row row[ROWS_MAX];
    struct snapshot snapshot[SNAPSHOTS_MAX];
};

static void load_rows(struct golden *golden) {
    char line[256];
    gzFile file = gzopen("tests/data/golden.tsv.gz", "rb");
    assert_non_null(file);
    while (gzgets(file, line, sizeof line)) {
        struct row *row = &golden->row[golden->rows];
        if (*line == '#') continue;
        assert_true(golden->rows < ROWS_MAX);
        assert_int_equal(sscanf(line, "%31s %15s %la %la %la %la", row->key, row->what,
                                &row->value[0], &row->value[1], &row->value[2], &row->value[3]),
                         6);
        golden->rows++;
    }
    gzclose(file);
    assert_true(golden->rows > 1400);
}

__attribute__((format(printf, 4, 5))) static struct snapshot *add(struct golden *golden,
                                                                  int64_t count, double tolerance,
                                                                  const char *format, ...) {
    assert_true(golden->snapshots < SNAPSHOTS_MAX);
    struct snapshot *snapshot = &golden->snapshot[golden->snapshots++];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(snapshot->key, sizeof snapshot->key, format, arguments);
    va_end(arguments);
    snapshot->count = count;
    snapshot->tolerance = tolerance;
    snapshot->value = malloc((size_t)count * sizeof(float));
    return snapshot;
}

static void take(struct fixture *fixture, const struct snapshot *snapshot, const float *d_data) {
    fixture->model.kernels->download(fixture->device, snapshot->value, d_data,
                                     (size_t)snapshot->count * sizeof(float));
}

/* How far a step's parameters and momentum may be off. In step 2 of leaky-relu and x/255 the two
 * largest of a pooling window are 1.6e-8 apart at 0.13, one rounding: a sum in another order hands
 * the gradient to the other one, and by step 5 momentum is off by 1.8e-4. */
struct limits {
    int step;
    double param, momentum;
};

static void take_state(struct golden *golden, struct fixture *fixture, struct limits limits) {
    for (int i = 0; i < MODEL_PARAMETERS; i++) {
        const struct model_tensor *param = &fixture->model.tensor[MODEL_PARAM + i];
        const struct model_tensor *momentum = &fixture->model.tensor[MODEL_MOMENTUM + i];
        take(fixture, add(golden, param->count, limits.param, "w%d.%s", limits.step, param->name),
             param->d_data);
        take(fixture,
             add(golden, param->count, limits.momentum, "mom%d.%s", limits.step, param->name),
             momentum->d_data);
    }
}

static void take_first_step(struct golden *golden, struct fixture *fixture) {
    static const char *const KEY[] = {"act.conv1.b0", "act.conv2.b0", "act.fc1.b0", "logits.b0"};
    const struct model_tensor *tensor = fixture->model.tensor;
    for (int i = 0; i < 4; i++)
        take(fixture, add(golden, tensor[MODEL_CONV1 + i].count * BATCH, 1e-5, "%s", KEY[i]),
             tensor[MODEL_CONV1 + i].d_data);
    for (int i = 0; i < MODEL_PARAMETERS; i++) {
        const struct model_tensor *grad = &tensor[model_grad(i)];
        take(fixture, add(golden, grad->count, 5e-5, "grad.%s", grad->name), grad->d_data);
    }
    take_state(golden, fixture, (struct limits){1, 1e-6, 5e-5});
}

static void take_outcome(struct golden *golden, const struct fixture *fixture, int number) {
    double sum_sq = 0;
    for (int i = 0; i < MODEL_PARAMETERS; i++) sum_sq += fixture->stat[MODEL_GRAD + i].sum_sq;
    *add(golden, 1, 1e-5, "loss.b%d", number)->value = (float)fixture->outcome[0];
    *add(golden, 1, 5e-5, "gnorm.b%d", number)->value = (float)sqrt(sum_sq);
}

static const struct snapshot *find_snapshot(const struct golden *golden, const char *key) {
    for (int i = 0; i < golden->snapshots; i++)
        if (strcmp(golden->snapshot[i].key, key) == 0) return &golden->snapshot[i];
    return NULL;
}

static double find_reference(const struct golden *golden, const char *key, const char *what,
                             int variant) {
    for (int i = 0; i < golden->rows; i++)
        if (strcmp(golden->row[i].key, key) == 0 && strcmp(golden->row[i].what, what) == 0)
            return golden->row[i].value[variant];
    fail_msg("no row %s %s", key, what);
    return NAN;
}

static double reduce(const struct snapshot *snapshot, const char *what) {
    double sum = 0, sum_sq = 0, max = 0;
    if (strcmp(what, "value") == 0) return *snapshot->value;
    if (*what >= '0' && *what <= '9') return snapshot->value[atoi(what)];
    for (int64_t i = 0; i < snapshot->count; i++) {
        double value = snapshot->value[i];
        sum += value;
        sum_sq += value * value;
        max = fmax(max, fabs(value));
    }
    return *what == 's' ? sum : *what == 'l' ? sqrt(sum_sq) : max;
}

static void compare(const struct golden *golden, const struct row *row, int variant) {
    const struct snapshot *snapshot = find_snapshot(golden, row->key);
    if (!snapshot) { /* the logits once more, under the name of their layer */
        assert_string_equal(row->key, "act.fc2.b0");
        return;
    }
    double expected = row->value[variant], scale = fabs(expected);
    if (*row->what >= '0' && *row->what <= '9')
        scale = find_reference(golden, row->key, "maxabs", variant);
    double limit = snapshot->tolerance * scale;
    if (*row->what == 's') /* sums cancel */
        limit =
            1e-5 * sqrt((double)snapshot->count) * find_reference(golden, row->key, "l2", variant);
    double found = reduce(snapshot, row->what);
    if (!(fabs(found - expected) <= limit))
        fail_msg("variant %d, %s %s: %.9g instead of %.9g", variant, row->key, row->what, found,
                 expected);
}

static void test_golden(void **state) {
    (void)state;
    static struct golden golden;
    static struct fixture fixture;
    for (int variant = 0; variant < VARIANTS; variant++) {
        memset(&golden, 0, sizeof golden);
        load_rows(&golden);
        open_fixture(&fixture, 2, variant < 2,
                     variant % 2 ? KERNELS_SCALE_255 : KERNELS_SCALE_NORMALIZE);
        for (int number = 0; number < STEPS; number++) {
            run_step(&fixture, number, BATCH, true);
            take_outcome(&golden, &fixture, number);
            if (number == 0) take_first_step(&golden, &fixture);
            model_commit(&fixture.model);
        }
        take_state(&golden, &fixture, (struct limits){STEPS, 1e-5, 3e-4});
        for (int i = 0; i < golden.rows; i++) compare(&golden, &golden.row[i], variant);
        for (int i = 0; i < golden.snapshots; i++) free(golden.snapshot[i].value);
        close_fixture(&fixture);
    }
}

static uint64_t train(int threads, bool measured) {
    static struct model_state state;
    struct fixture fixture = {0};
    open_fixture(&fixture, threads, true, KERNELS_SCALE_NORMALIZE);
    for (int number = 0; number < STEPS; number++) {
        run_step(&fixture, number, number == 4 ? 7 : BATCH, measured); /* a short last batch */
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
    open_fixture(&fixture, 1, false, KERNELS_SCALE_255);
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
    open_fixture(&fixture, 1, false, KERNELS_SCALE_255);
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
    open_fixture(&fixture, 1, false, KERNELS_SCALE_255);
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
    open_fixture(&fixture, 1, false, KERNELS_SCALE_255);
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
    open_fixture(&fixture, 1, false, KERNELS_SCALE_255);
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
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_uncommitted_step_changes_nothing),
        cmocka_unit_test(test_statistics_of_short_batch),
        cmocka_unit_test(test_inject),
        cmocka_unit_test(test_initial_state),
        cmocka_unit_test(test_schema),
    };
    return cmocka_run_group_tests(test, NULL, NULL);
}
