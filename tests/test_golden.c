/* The golden step of every backend against float64: loss, gradient norm, logits, activations,
 * gradients, momentum, weights. */
#include <ctype.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zlib.h>

#include "tests/help_golden.h"

enum { ROWS = 1459, STEPS = 5, THREADS = 3 };

struct row {
    char key[24], what[8];
    double value[GOLDEN_CASES];
};

struct table {
    struct row row[ROWS];
    int variant; /* column in use */
    bool checked[ROWS];
};

static struct table *load_table(void) {
    struct table *table = calloc(1, sizeof *table);
    gzFile file = gzopen("tests/data/golden.tsv.gz", "rb");
    char line[256];
    int rows = 0;
    assert_non_null(table);
    assert_non_null(file);
    while (gzgets(file, line, sizeof line) != NULL) {
        char value[GOLDEN_CASES][32];
        if (line[0] == '#') continue;
        assert_true(rows < ROWS);
        struct row *row = &table->row[rows++];
        assert_int_equal(sscanf(line, "%23s %7s %31s %31s %31s %31s", row->key, row->what, value[0],
                                value[1], value[2], value[3]),
                         6);
        for (int v = 0; v < GOLDEN_CASES; v++) row->value[v] = strtod(value[v], NULL);
    }
    gzclose(file);
    assert_int_equal(rows, ROWS);
    return table;
}

/* NAN: not in the table. */
static double expected(struct table *table, const char *key, const char *what) {
    for (int i = 0; i < ROWS; i++)
        if (strcmp(table->row[i].key, key) == 0 && strcmp(table->row[i].what, what) == 0) {
            table->checked[i] = true;
            return table->row[i].value[table->variant];
        }
    return (double)NAN;
}

static void check(struct table *table, const char *key, const char *what, double value,
                  double limit) {
    double wanted = expected(table, key, what);
    if (!(fabs(value - wanted) <= limit))
        fail_msg("%s %s %s: %.9g, expected %.9g, off by %.2g, limit %.2g",
                 golden_case[table->variant].name, key, what, value, wanted, fabs(value - wanted),
                 limit);
}

static void check_relative(struct table *table, const char *key, double value, double limit) {
    check(table, key, "value", value, limit * expected(table, key, "value"));
}

static void check_tensor(struct table *table, const char *key, const float *value, int count,
                         double limit) {
    double square = 0, sum = 0, largest = 0, l2 = expected(table, key, "l2");
    double scale = expected(table, key, "maxabs");
    for (int i = 0; i < count; i++) {
        square += (double)value[i] * (double)value[i];
        sum += (double)value[i];
        largest = fmax(largest, fabs((double)value[i]));
    }
    check(table, key, "l2", sqrt(square), limit * l2);
    check(table, key, "maxabs", largest, limit * scale);
    check(table, key, "sum", sum, 1e-5 * l2 * sqrt(count));
    for (int i = 0; i < ROWS; i++)
        if (strcmp(table->row[i].key, key) == 0 && isdigit((unsigned char)table->row[i].what[0]))
            check(table, key, table->row[i].what, (double)value[atoi(table->row[i].what)],
                  limit * scale);
}

static void check_device(struct table *table, const char *prefix, const char *name,
                         struct golden_model *model, const float *d_value, int count,
                         double limit) {
    char key[32];
    float *value = malloc((size_t)count * sizeof *value);
    assert_non_null(value);
    model->kernels->download(model->device, value, d_value, (size_t)count * sizeof *value);
    snprintf(key, sizeof key, "%s%s", prefix, name);
    check_tensor(table, key, value, count, limit);
    free(value);
}

static void check_params(struct table *table, struct golden_model *model, const char *prefix,
                         float *const *d_param, double limit) {
    for (int t = 0; t < GOLDEN_PARAMS; t++)
        check_device(table, prefix, golden_param_name[t], model, d_param[t], golden_param_count[t],
                     limit);
}

static void check_activations(struct table *table, struct golden_model *model) {
    static const struct {
        const char *key;
        int number;
    } listed[] = {{"act.conv1.b0", 1},
                  {"act.conv2.b0", 3},
                  {"act.fc1.b0", 5},
                  {"act.fc2.b0", 6},
                  {"logits.b0", 6}};
    for (size_t i = 0; i < sizeof listed / sizeof *listed; i++)
        check_device(table, "", listed[i].key, model, model->d_activation[listed[i].number],
                     GOLDEN_BATCH * golden_activation_count[listed[i].number], 1e-5);
}

static void check_loss(struct table *table, struct golden_model *model, int step) {
    char key[24];
    double outcome[2], square = 0;
    struct tensor_stat stat[GOLDEN_PARAMS];
    const struct kernels_span *grads = model->span + GOLDEN_ACTIVATIONS + GOLDEN_PARAMS;
    model->kernels->download(model->device, outcome, model->loss.d_outcome, sizeof outcome);
    model->kernels->measure(model->device, grads, GOLDEN_PARAMS, stat);
    model->kernels->finish(model->device);
    for (int t = 0; t < GOLDEN_PARAMS; t++) square += stat[t].sum_sq;
    snprintf(key, sizeof key, "loss.b%d", step);
    check_relative(table, key, outcome[0], 1e-5);
    snprintf(key, sizeof key, "gnorm.b%d", step);
    check_relative(table, key, sqrt(square), 5e-5);
}

/* Five steps; the hash of weights and momentum after them. */
static uint64_t train(struct table *table, int threads, int variant) {
    struct golden_model model;
    golden_open(&model, kernels_cpu(), threads, &golden_case[variant]);
    table->variant = variant;
    for (int step = 0; step < STEPS; step++) {
        golden_begin(&model, step, GOLDEN_BATCH);
        golden_compute(&model);
        check_loss(table, &model, step);
        if (step == 0) {
            check_activations(table, &model);
            check_params(table, &model, "grad.", model.d_grad, 5e-5);
        }
        model.kernels->commit(model.device, &model.sgd);
        if (step == 0 || step == 4) {
            check_params(table, &model, step == 0 ? "mom1." : "mom5.", model.d_momentum, 5e-5);
            check_params(table, &model, step == 0 ? "w1." : "w5.", model.d_param,
                         step ? 5e-6 : 1e-6);
        }
    }
    uint64_t hash = golden_hash_params(&model);
    golden_close(&model);
    return hash;
}

/* Once by every number of threads, the first one twice. */
static void train_variant(int variant) {
    struct table *table = load_table();
    uint64_t hash = train(table, 1, variant);
    for (int i = 0; i < ROWS; i++)
        if (!table->checked[i])
            fail_msg("%s %s was not checked", table->row[i].key, table->row[i].what);
    for (int threads = 1; threads <= THREADS; threads++)
        assert_true(train(table, threads, variant) == hash);
    free(table);
}

static void test_leaky_norm(void **state) {
    (void)state;
    train_variant(0);
}
static void test_leaky_x255(void **state) {
    (void)state;
    train_variant(1);
}
static void test_relu_norm(void **state) {
    (void)state;
    train_variant(2);
}
static void test_relu_x255(void **state) {
    (void)state;
    train_variant(3);
}

/* Hashes of the initial weights, and of every batch: pixels, labels, and scaled by the backend. */
static void check_hash(const char *key, uint64_t hash) {
    FILE *file = fopen("tests/data/golden-hashes.tsv", "r");
    char line[128], name[24];
    unsigned long long wanted;
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "%23s %*s %llx", name, &wanted) == 2 && strcmp(name, key) == 0) {
            if (hash != wanted)
                fail_msg("%s: hash %016llx, expected %016llx", key, (unsigned long long)hash,
                         wanted);
            fclose(file);
            return;
        }
    fail_msg("%s: no hash", key);
}

static void test_initial_weights(void **state) {
    uint64_t all = GOLDEN_FNV_START;
    (void)state;
    for (int t = 0; t < GOLDEN_PARAMS; t++) {
        uint64_t hash = GOLDEN_FNV_START;
        for (int i = 0; i < golden_param_count[t]; i++) {
            float weight = golden_weight((uint32_t)t, (uint32_t)i);
            hash = golden_fnv(&weight, sizeof weight, hash);
            all = golden_fnv(&weight, sizeof weight, all);
        }
        check_hash(golden_param_name[t], hash);
    }
    check_hash("all", all);
}

static void check_batch_hash(const char *name, int step, const void *data, size_t size_bytes) {
    char key[24];
    snprintf(key, sizeof key, "%s.b%d", name, step);
    check_hash(key, golden_fnv(data, size_bytes, GOLDEN_FNV_START));
}

static void test_batches(void **state) {
    static float input[GOLDEN_BATCH * GOLDEN_PIXELS];
    static uint8_t images[GOLDEN_IMAGES * GOLDEN_PIXELS], labels[GOLDEN_BATCH];
    struct golden_model model;
    (void)state;
    for (int variant = 0; variant < 2; variant++) {
        golden_open(&model, kernels_cpu(), 2, &golden_case[variant]);
        model.kernels->download(model.device, images, model.d_images, sizeof images);
        for (int step = 0; step < STEPS; step++) {
            golden_begin(&model, step, GOLDEN_BATCH);
            model.kernels->gather(model.device, &model.gather);
            model.kernels->download(model.device, input, model.gather.d_input, sizeof input);
            model.kernels->download(model.device, labels, model.gather.d_batch_labels,
                                    sizeof labels);
            check_batch_hash("pixels", step, images + step * GOLDEN_BATCH * GOLDEN_PIXELS,
                             (size_t)GOLDEN_BATCH * GOLDEN_PIXELS);
            check_batch_hash("labels", step, labels, sizeof labels);
            check_batch_hash(variant == 0 ? "input_norm" : "input_x255", step, input, sizeof input);
        }
        golden_close(&model);
    }
}

static bool same_stat(const struct tensor_stat *left, const struct tensor_stat *right) {
    return left->count == right->count && left->sum_sq == right->sum_sq &&
           left->max_abs == right->max_abs && left->bad_index == right->bad_index &&
           left->nan == right->nan && left->pos_inf == right->pos_inf &&
           left->neg_inf == right->neg_inf && left->over == right->over;
}

/* Two short steps. Asked for in advance or afterwards, the statistics are the same, and the weights
 * do not know whether anybody looked. */
static uint64_t train_measured(int threads, bool measured) {
    struct tensor_stat early[GOLDEN_SPANS], late[GOLDEN_SPANS];
    struct golden_model model;
    golden_open(&model, kernels_cpu(), threads, &golden_case[0]);
    for (int step = 0; step < 2; step++) {
        golden_begin(&model, step, 30);
        if (measured) model.kernels->measure(model.device, model.span, GOLDEN_SPANS, early);
        golden_compute(&model);
        if (measured) model.kernels->measure(model.device, model.span, GOLDEN_SPANS, late);
        model.kernels->finish(model.device);
        for (int i = 0; measured && i < GOLDEN_SPANS; i++)
            assert_true(early[i].count > 0 && early[i].sum_sq > 0 &&
                        same_stat(&early[i], &late[i]));
        model.kernels->commit(model.device, &model.sgd);
    }
    uint64_t hash = golden_hash_params(&model);
    golden_close(&model);
    return hash;
}

static void test_measuring_changes_nothing(void **state) {
    uint64_t hash = train_measured(1, false);
    (void)state;
    for (int threads = 1; threads <= THREADS; threads++)
        assert_true(train_measured(threads, true) == hash);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_initial_weights),
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_leaky_norm),
        cmocka_unit_test(test_leaky_x255),
        cmocka_unit_test(test_relu_norm),
        cmocka_unit_test(test_relu_x255),
        cmocka_unit_test(test_measuring_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
