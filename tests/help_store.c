#include "tests/help_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/core/text.h"

static void add_tensor(struct schema *schema, const char *name, enum role role, enum stage stage,
                       struct schema_tensor shape) {
    text_copy(shape.name, sizeof shape.name, name);
    shape.role = role;
    shape.stage = stage;
    schema_add_tensor(schema, &shape);
}

void help_hello(struct hello *hello) {
    static const struct {
        const char *name;
        struct schema_tensor shape;
    } parameters[] = {
        {"conv1.weight", {.dims = 4, .shape = {32, 1, 3, 3}}},
        {"conv1.bias", {.dims = 1, .shape = {32}}},
        {"conv2.weight", {.dims = 4, .shape = {64, 32, 3, 3}}},
        {"conv2.bias", {.dims = 1, .shape = {64}}},
        {"fc1.weight", {.dims = 2, .shape = {128, 3136}}},
        {"fc1.bias", {.dims = 1, .shape = {128}}},
        {"fc2.weight", {.dims = 2, .shape = {10, 128}}},
        {"fc2.bias", {.dims = 1, .shape = {10}}},
    };
    hello_init(hello);
    strcpy(hello->run_id, "restart-norm_lr0.05_so4_SBAC_202");
    strcpy(hello->name, "SBAC 202");
    strcpy(hello->host, "trainer.example");
    strcpy(hello->program, "nantrain");
    strcpy(hello->version, "0.1");
    strcpy(hello->device, "cpu, 2 threads");
    strcpy(hello->backend, "OpenBLAS 0.3.21 SkylakeX");
    hello->pid = 4711;
    hello->threads = 2;
    hello->started_ns = INT64_C(1700000000123456789);
    hello_set_config(hello, "lr", "0.05,0.15");
    hello_set_config(hello, "history", "sbac");
    struct schema *schema = &hello->schema;
    for (int i = 0; i < METRIC_COUNT; i++) {
        if (i != METRIC_LOSS_SCALE && i != METRIC_STEP_SKIPPED)
            schema_add_metric(schema, schema->metric[i]);
    }
    schema_add_metric(schema, "temperature");
    add_tensor(schema, "input", ROLE_INPUT, STAGE_INPUT,
               (struct schema_tensor){.dims = 4, .shape = {64, 1, 28, 28}});
    add_tensor(schema, "conv1", ROLE_ACTIVATION, STAGE_FORWARD,
               (struct schema_tensor){.dims = 4, .shape = {64, 32, 28, 28}});
    add_tensor(schema, "conv2", ROLE_ACTIVATION, STAGE_FORWARD,
               (struct schema_tensor){.dims = 4, .shape = {64, 64, 14, 14}});
    add_tensor(schema, "fc1", ROLE_ACTIVATION, STAGE_FORWARD,
               (struct schema_tensor){.dims = 2, .shape = {64, 128}});
    add_tensor(schema, "logits", ROLE_LOGITS, STAGE_FORWARD,
               (struct schema_tensor){.dims = 2, .shape = {64, 10}});
    add_tensor(schema, "loss", ROLE_LOSS, STAGE_LOSS,
               (struct schema_tensor){.dims = 1, .shape = {64}});
    add_tensor(schema, "logits", ROLE_GRADIENT, STAGE_LOSS,
               (struct schema_tensor){.dims = 2, .shape = {64, 10}});
    for (int role = ROLE_PARAMETER; role <= ROLE_MOMENTUM_BUFFER; role++) {
        enum stage stage = role == ROLE_GRADIENT ? STAGE_BACKWARD : STAGE_STEP;
        for (int i = 0; i < 8; i++)
            add_tensor(schema, parameters[i].name, (enum role)role, stage, parameters[i].shape);
    }
    schema_seal(schema);
}

/* As irregular as a measured value, the same on every machine. */
static double noise(int64_t step, int64_t which) {
    uint64_t x = (uint64_t)step * UINT64_C(0x9E3779B97F4A7C15) +
                 (uint64_t)which * UINT64_C(0xBF58476D1CE4E5B9);
    x ^= x >> 29;
    x *= UINT64_C(0x94D049BB133111EB);
    return (double)(x >> 11) * 0x1p-53 + 0x1p-20;
}

void help_record(struct record *record, const struct schema *schema, int64_t step) {
    record_clear(record);
    record->seq = (uint64_t)step + 1;
    record->schema_id = schema->id;
    record->step = step;
    record->epoch = 11;
    record->phase = 2;
    record->batch = (int32_t)(step % 479) + 1;
    record->epochs = 22;
    record->batches = 479;
    strcpy(record->phase_data, "5-9");
    record->wall_ns = INT64_C(1700000000000000000) + step * 21234567;
    record->mono_ns = INT64_C(98765432109876) + step * 21234567;
    for (int i = 0; i < schema->metrics; i++) {
        if (schema->published >> i & 1) record_set(record, i, 3 * noise(step, i));
    }
    record->update_ratio_max_tensor = 19;
    record->hashed = true;
    record->input_hash = UINT64_C(0xdeadbeefcafe0001) ^ (uint64_t)step;
    record->label_hash = UINT64_C(0x0123456789abcdef) ^ (uint64_t)step;
    record->classes = 10;
    for (int i = 5; i < 10; i++) record->label_count[i] = i == 9 ? 12 : 13;
    for (int i = 0; i < record->tensors; i++) {
        int64_t count = 1;
        for (int d = 0; d < schema->tensor[i].dims; d++) count *= schema->tensor[i].shape[d];
        record->tensor[i] = (struct tensor_stat){
            .count = count,
            .sum_sq = 1000 * noise(step, 100 + i),
            .max_abs = (double)(float)noise(step, 200 + i),
            .usual = (double)(float)noise(7, 200 + i),
            .bad_index = -1,
        };
    }
}

void help_buckets(struct codec_buckets *buckets, const struct schema *schema, int level,
                  int count) {
    size_t values = (size_t)count * (size_t)schema->metrics;
    *buckets = (struct codec_buckets){.level = level,
                                      .count = count,
                                      .metrics = schema->metrics,
                                      .bucket = calloc((size_t)count, sizeof *buckets->bucket),
                                      .value = calloc(values, sizeof *buckets->value)};
    uint32_t width = 1U << (4 * level);
    for (int i = 0; i < count; i++) {
        buckets->bucket[i] = (struct series_bucket){.first = (int64_t)i * width, .steps = width};
        for (int slot = 0; slot < schema->metrics; slot++) {
            struct series_value *value = &buckets->value[i * schema->metrics + slot];
            float last = (float)noise(i, slot);
            *value = (struct series_value){.min = INFINITY, .max = -INFINITY, .last = NAN};
            if (!(schema->published >> slot & 1)) continue;
            *value = (struct series_value){.min = level ? last / 2 : last,
                                           .max = level ? last * 2 : last,
                                           .last = last,
                                           .present = width};
        }
    }
}
