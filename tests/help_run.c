#include "tests/help_run.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "shared/core/text.h"

const struct help_story HELP_FAILING = {.name = "sbac-202",
                                        .history = "SBAC",
                                        .seed = "202",
                                        .steps = 166,
                                        .phase2 = 121,
                                        .onset = 160,
                                        .nonfinite = 166,
                                        .steps_per_s = 4,
                                        .epoch_steps = 60};
const struct help_story HELP_HEALTHY = {.name = "sabc-101",
                                        .history = "SABC",
                                        .seed = "101",
                                        .steps = 300,
                                        .phase2 = 121,
                                        .steps_per_s = 47,
                                        .epoch_steps = 60};

#define START_NS INT64_C(1790000000000000000)

static const struct {
    const char *name;
    int64_t shape[4];
    int dims;
} ACTIVATIONS[] = {{"conv1", {64, 32, 28, 28}, 4},
                   {"conv2", {64, 64, 14, 14}, 4},
                   {"fc1", {64, 128}, 2}},
  PARAMETERS[] = {{"conv1.weight", {32, 1, 3, 3}, 4},  {"conv1.bias", {32}, 1},
                  {"conv2.weight", {64, 32, 3, 3}, 4}, {"conv2.bias", {64}, 1},
                  {"fc1.weight", {128, 3136}, 2},      {"fc1.bias", {128}, 1},
                  {"fc2.weight", {10, 128}, 2},        {"fc2.bias", {10}, 1}};

static void add_tensor(struct schema *schema, const char *name, enum role role, enum stage stage,
                       const int64_t *shape, int dims) {
    struct schema_tensor tensor = {.role = role, .stage = stage, .dtype = DTYPE_F32, .dims = dims};
    text_copy(tensor.name, sizeof tensor.name, name);
    memcpy(tensor.shape, shape, (size_t)dims * sizeof *shape);
    schema_add_tensor(schema, &tensor);
}

static void make_schema(struct schema *schema) {
    static const char *const METRICS[] = {"loss",         "accuracy",      "lr",
                                          "grad_norm",    "grad_max",      "param_norm",
                                          "param_max",    "momentum_norm", "momentum_max",
                                          "act_max",      "update_ratio",  "update_ratio_max",
                                          "samples_per_s"};
    static const enum role ROLES[] = {ROLE_PARAMETER, ROLE_GRADIENT, ROLE_MOMENTUM_BUFFER};
    static const enum stage STAGES[] = {STAGE_STEP, STAGE_BACKWARD, STAGE_STEP};
    for (size_t i = 0; i < sizeof METRICS / sizeof *METRICS; i++)
        schema_add_metric(schema, METRICS[i]);
    add_tensor(schema, "input", ROLE_INPUT, STAGE_INPUT, (const int64_t[]){64, 1, 28, 28}, 4);
    for (size_t i = 0; i < 3; i++)
        add_tensor(schema, ACTIVATIONS[i].name, ROLE_ACTIVATION, STAGE_FORWARD,
                   ACTIVATIONS[i].shape, ACTIVATIONS[i].dims);
    add_tensor(schema, "logits", ROLE_LOGITS, STAGE_FORWARD, (const int64_t[]){64, 10}, 2);
    for (size_t r = 0; r < 3; r++)
        for (size_t i = 0; i < 8; i++)
            add_tensor(schema, PARAMETERS[i].name, ROLES[r], STAGES[r], PARAMETERS[i].shape,
                       PARAMETERS[i].dims);
    schema_seal(schema);
}

void help_run_open(struct run *run, const struct help_story *story) {
    struct hello hello;
    hello_init(&hello);
    snprintf(hello.run_id, sizeof hello.run_id, "%s-id", story->name);
    text_copy(hello.name, sizeof hello.name, story->name);
    text_copy(hello.host, sizeof hello.host, "gpu7");
    text_copy(hello.device, sizeof hello.device, "cpu, 2 threads");
    hello_set_config(&hello, "history", story->history);
    hello_set_config(&hello, "seed", story->seed);
    hello_set_config(&hello, "threshold.update", "0.2");
    make_schema(&hello.schema);
    int failed = run_init(run, "ipc:///tmp/nantop-0/sbac-202", SERIES_BUCKETS) |
                 run_apply_hello(run, &hello, NULL);
    assert(failed == 0);
    (void)failed;
    hello_free(&hello);
}

/* 0.5 .. 1.5, the same everywhere. */
static double noise(int64_t step, int slot) {
    uint64_t x = (uint64_t)step * 2654435761u + (uint64_t)slot * 40503u + 12345u;
    x ^= x >> 13;
    x *= UINT64_C(0x9e3779b97f4a7c15);
    return 0.5 + (double)(x >> 40) / (double)(1 << 24);
}

static void set_metrics(struct record *record, const struct help_story *story) {
    int64_t step = record->step;
    double grown = story->onset > 0 && step >= story->onset
                       ? pow(10, 0.2 + 2.4 * (double)(step - story->onset))
                       : 1;
    double switched =
        story->phase2 > 0 && step >= story->phase2 && step < story->phase2 + 8 ? 20 : 1;
    bool dead = story->nonfinite > 0 && step >= story->nonfinite;
    double fall = exp(-(double)step / 50);
    record_set(record, METRIC_LR, step >= story->phase2 && story->phase2 > 0 ? 0.15 : 0.05);
    record_set(record, METRIC_PARAM_NORM, 14.2 + 0.01 * (double)step);
    record_set(record, METRIC_PARAM_MAX, 0.41 + 0.001 * (double)step);
    if (step == 0) return;
    record_set(record, METRIC_LOSS,
               dead
                   ? (double)NAN
                   : (2.3 * fall + 0.04 * noise(step, 1)) * switched * (grown > 1 ? grown * 9 : 1));
    record_set(record, METRIC_ACCURACY, dead ? 0.1 : 1 - 0.9 * fall);
    record_set(record, METRIC_GRAD_NORM,
               dead ? (double)NAN
                    : (0.6 * fall + 0.3) * noise(step, 2) * switched *
                          (grown > 1 ? grown * 500 : 1));
    record_set(record, METRIC_GRAD_MAX, dead ? (double)NAN : 0.1 * noise(step, 3) * grown);
    record_set(record, METRIC_MOMENTUM_NORM, dead ? (double)NAN : 2.1 * noise(step, 4) * grown);
    record_set(record, METRIC_MOMENTUM_MAX,
               dead ? (double)NAN : 0.3 * noise(step, 5) * switched * (grown > 1 ? grown * 40 : 1));
    record_set(record, METRIC_ACT_MAX, dead ? 1.07e36 : 4.2 * noise(step, 6) * grown);
    record_set(record, METRIC_UPDATE_RATIO,
               dead ? (double)INFINITY
                    : 0.002 * noise(step, 7) * (grown > 1 ? 350 * sqrt(grown) : 1));
    record_set(record, METRIC_UPDATE_RATIO_MAX,
               dead ? (double)INFINITY
                    : 0.006 * noise(step, 8) * (grown > 1 ? 270 * sqrt(grown) : 1));
    record_set(record, METRIC_SAMPLES_PER_S, 64 * story->steps_per_s);
}

static void set_tensors(struct record *record, const struct schema *schema,
                        const struct help_story *story) {
    for (int i = 0; i < schema->tensors; i++) {
        const struct schema_tensor *about = &schema->tensor[i];
        struct tensor_stat *stat = &record->tensor[i];
        bool state = about->role == ROLE_PARAMETER;
        if (record->step == 0 && !state) continue;
        bool grows =
            about->role != ROLE_INPUT && !state && (i % 3 != 0 || about->role == ROLE_ACTIVATION);
        double usual = 0.05 * (1 + i % 7) * (state ? 8 : 1),
               scale = state ? 1 : noise(record->step, 20 + i);
        int64_t since = story->onset > 0 ? record->step - story->onset - i % 2 : -1;
        stat->count = 1;
        for (int d = 0; d < about->dims; d++) stat->count *= about->shape[d];
        stat->usual = usual;
        stat->max_abs = usual * scale;
        if (grows && since >= 0) {
            stat->max_abs = usual * 30 * pow(10, 2.2 * (double)since + i % 4);
            stat->band = BAND_EXTREME;
        }
        stat->sum_sq = stat->max_abs * stat->max_abs * sqrt((double)stat->count);
    }
    if (story->nonfinite == 0 || record->step < story->nonfinite) return;
    int logits = schema_find_tensor(schema, "logits", ROLE_LOGITS);
    struct tensor_stat *stat = &record->tensor[logits];
    stat->nan = 320;
    stat->bad_index = 40;
    stat->sum_sq = stat->max_abs = (double)NAN;
    stat->band = BAND_NONFINITE;
}

static void place_event(struct event *event, const struct record *record) {
    event->wall_ns = record->wall_ns;
    event->step = record->step;
    event->epoch = record->epoch;
    event->phase = record->phase;
    event->batch = record->batch;
    event->band = record->band;
    event->reason = record->reason;
    event->value = record->value;
    event->limit = record->limit;
    text_copy(event->subject, sizeof event->subject, record->subject);
}

static void add_event(struct run *run, const struct record *record, struct event *event) {
    place_event(event, record);
    event->seq = run->seq + 1;
    run_apply_event(run, event, record->mono_ns);
}

static void add_events(struct run *run, const struct help_story *story,
                       const struct record *record) {
    struct event event;
    if (record->step == story->phase2 && record->step > 0) {
        event_init(&event, EVENT_PHASE);
        text_copy(event.text, sizeof event.text, "0-4");
        add_event(run, record, &event);
    }
    if (record->step % story->epoch_steps == 0 && record->step > 0) {
        event_init(&event, EVENT_CHECKPOINT);
        snprintf(event.text, sizeof event.text, "runs/%s/step-%lld.safetensors", story->name,
                 (long long)record->step);
        add_event(run, record, &event);
    }
    if (story->onset > 0 && record->step == story->onset + story->alarm_after) {
        event_init(&event, EVENT_ALARM);
        event.onset = story->onset;
        add_event(run, record, &event);
    }
    if (record->step != story->nonfinite || record->step == 0) return;
    event_init(&event, EVENT_NONFINITE);
    event.onset = story->onset;
    event.lead = story->nonfinite - story->onset;
    event.tensor = schema_find_tensor(&run->hello.schema, "logits", ROLE_LOGITS);
    event.stage = STAGE_FORWARD;
    event.nan = 320;
    event.count = 640;
    event.bad_index = 40;
    event.input_hash = record->input_hash;
    event.label_hash = record->label_hash;
    add_event(run, record, &event);
}

static void set_band(struct record *record, const struct help_story *story) {
    if (story->onset == 0 || record->step < story->onset) return;
    bool dead = story->nonfinite > 0 && record->step >= story->nonfinite;
    record->band = dead ? BAND_NONFINITE : BAND_EXTREME;
    record->reason = dead ? REASON_NONFINITE : REASON_RUNAWAY;
    text_copy(record->subject, sizeof record->subject, dead ? "logits" : "fc2.weight");
    record->value = dead ? (double)NAN : record->metric[METRIC_UPDATE_RATIO_MAX];
    record->limit = dead ? (double)NAN : 1;
}

void help_run_add(struct run *run, const struct help_story *story, int64_t step) {
    if (story->gap > 0 && step >= story->gap && step < story->gap + story->gap_steps) return;
    struct record record;
    int failed = record_init(&record, run->hello.schema.tensors);
    assert(failed == 0);
    (void)failed;
    int64_t index = step - 1, since = (int64_t)((double)step / story->steps_per_s * 1e9);
    bool second = story->phase2 > 0 && step >= story->phase2;
    record.hashed = true;
    record.input_hash = UINT64_C(0x57fcf15e00000000) + (uint64_t)step;
    record.label_hash = UINT64_C(0xbe360d3700000000) + (uint64_t)step;
    record.seq = run->seq + 1;
    if (story->gap > 0 && step == story->gap + story->gap_steps)
        record.seq += (uint64_t)story->gap_steps;
    record.step = step;
    record.epoch = step == 0 ? 0 : (int32_t)(index / story->epoch_steps + 1);
    record.batch = step == 0 ? 0 : (int32_t)(index % story->epoch_steps + 1);
    record.phase = step == 0 ? 0 : second ? 2 : 1;
    record.epochs = 22;
    record.batches = story->epoch_steps;
    text_copy(record.phase_data, sizeof record.phase_data, second ? "0-4" : "5-9");
    record.wall_ns = START_NS + since;
    record.mono_ns = INT64_C(1000000000) + since;
    set_metrics(&record, story);
    set_tensors(&record, &run->hello.schema, story);
    record.update_ratio_max_tensor =
        schema_find_tensor(&run->hello.schema, "fc2.weight", ROLE_PARAMETER);
    set_band(&record, story);
    run_apply_record(run, &record, record.mono_ns);
    add_events(run, story, &record);
    record_free(&record);
}

void help_run_tell(struct run *run, const struct help_story *story) {
    help_run_open(run, story);
    for (int64_t step = 0; step <= story->steps; step++) help_run_add(run, story, step);
    run->link = RUN_STORED;
}
