#include "trainer/tracer.h"

#include <math.h>
#include <xxhash.h>

#include "shared/core/text.h"

/* Norm and largest magnitude over a run of tensors in the table. */
struct group {
    int norm, max;    /* metrics; -1: none */
    int first, count; /* tensors */
};

static const struct group GROUP[] = {
    {METRIC_GRAD_NORM, METRIC_GRAD_MAX, MODEL_GRAD, MODEL_PARAMETERS},
    {METRIC_MOMENTUM_NORM, METRIC_MOMENTUM_MAX, MODEL_MOMENTUM, MODEL_PARAMETERS},
    {METRIC_PARAM_NORM, METRIC_PARAM_MAX, MODEL_PARAM, MODEL_PARAMETERS},
    {-1, METRIC_ACT_MAX, MODEL_CONV1, MODEL_LOGITS - MODEL_CONV1},
};

void tracer_describe(struct schema *schema) {
    schema->published |=
        (UINT64_C(1) << METRIC_LOSS_SCALE) - 1; /* without those of a loss scaler */
}

int tracer_init(struct tracer *tracer, const struct schema *schema,
                const struct detector_limits *limits, bool measured) {
    *tracer = (struct tracer){.schema = schema, .measured = measured};
    if (record_init(&tracer->record, schema->tensors) ||
        detector_init(&tracer->detector, limits, schema->tensors) ||
        !(tracer->hash = XXH3_createState())) {
        tracer_free(tracer);
        return -1;
    }
    tracer->measure = (struct model_measure){.range = limits->range, .stat = tracer->record.tensor};
    return 0;
}

void tracer_free(struct tracer *tracer) {
    XXH3_freeState(tracer->hash);
    detector_free(&tracer->detector);
    record_free(&tracer->record);
    *tracer = (struct tracer){0};
}

const struct model_measure *tracer_begin(struct tracer *tracer) {
    record_clear(&tracer->record);
    return tracer->measured ? &tracer->measure : NULL;
}

static double sum_squares(const struct record *record, const struct group *group) {
    double sum = 0;
    for (int i = group->first; i < group->first + group->count; i++)
        sum += record->tensor[i].sum_sq;
    return sum;
}

static double find_max(const struct record *record, const struct group *group) {
    double max = 0;
    for (int i = group->first; i < group->first + group->count; i++) {
        const struct tensor_stat *stat = &record->tensor[i];
        if (stat->nan) return NAN;
        if (stat->pos_inf || stat->neg_inf)
            max = INFINITY;
        else if (stat->max_abs > max)
            max = stat->max_abs;
    }
    return max;
}

static void set_groups(struct record *record) {
    for (size_t i = 0; i < sizeof GROUP / sizeof *GROUP; i++) {
        const struct group *group = &GROUP[i];
        if (record->tensor[group->first].count < 0) continue;
        if (group->norm >= 0) record_set(record, group->norm, sqrt(sum_squares(record, group)));
        record_set(record, group->max, find_max(record, group));
    }
}

/* lr * norm(m after) / norm(w before). */
static void set_update_ratio(struct tracer *tracer, double lr) {
    struct record *record = &tracer->record;
    double before = 0, largest = -1;
    for (int i = 0; i < MODEL_PARAMETERS; i++) {
        double one = tracer->param_sum_sq[i];
        double ratio = lr * sqrt(record->tensor[MODEL_MOMENTUM + i].sum_sq / one);
        before += one;
        if (tracer->schema->tensor[MODEL_PARAM + i].dims < 2 || one == 0 || isnan(largest))
            continue;
        if (ratio > largest || isnan(ratio)) {
            largest = ratio;
            record->update_ratio_max_tensor = MODEL_PARAM + i;
        }
    }
    if (before == 0) return;
    record_set(record, METRIC_UPDATE_RATIO,
               lr * record->metric[METRIC_MOMENTUM_NORM] / sqrt(before));
    if (record->update_ratio_max_tensor >= 0) record_set(record, METRIC_UPDATE_RATIO_MAX, largest);
}

static void hash_batch(struct tracer *tracer, const struct tracer_step *step) {
    struct record *record = &tracer->record;
    const struct dataset *dataset = step->dataset;
    XXH3_64bits_reset(tracer->hash);
    for (int32_t i = 0; i < step->images; i++)
        XXH3_64bits_update(tracer->hash, dataset->image + (size_t)step->image[i] * DATASET_PIXELS,
                           DATASET_PIXELS);
    record->input_hash = XXH3_64bits_digest(tracer->hash);
    XXH3_64bits_reset(tracer->hash);
    record->classes = DATASET_CLASSES;
    for (int32_t i = 0; i < step->images; i++) {
        const uint8_t *label = &dataset->label[step->image[i]];
        XXH3_64bits_update(tracer->hash, label, 1);
        record->label_count[*label]++;
    }
    record->label_hash = XXH3_64bits_digest(tracer->hash);
    record->hashed = true;
}

static void set_outcome(struct record *record, const struct tracer_step *step) {
    record_set(record, METRIC_LOSS, step->outcome[0]);
    record_set(record, METRIC_ACCURACY, step->outcome[1] / step->images);
    record_set(record, METRIC_LR, step->lr);
    record_set(record, METRIC_SAMPLES_PER_S, step->images * 1e9 / (double)step->took_ns);
    record_set(record, METRIC_STEP_MS, (double)step->took_ns / 1e6);
}

struct verdict tracer_judge(struct tracer *tracer, const struct tracer_step *step) {
    struct record *record = &tracer->record;
    record->schema_id = tracer->schema->id;
    record->step = step->step;
    record->epoch = step->epoch;
    record->phase = step->phase;
    record->batch = step->batch;
    record->epochs = step->epochs;
    record->batches = step->batches;
    text_copy(record->phase_data, sizeof record->phase_data, step->phase_data);
    record->wall_ns = step->wall_ns;
    record->mono_ns = step->mono_ns;
    if (tracer->measured) set_groups(record);
    if (step->dataset) {
        hash_batch(tracer, step);
        set_outcome(record, step);
        if (tracer->measured) set_update_ratio(tracer, step->lr);
    }
    return detector_judge(&tracer->detector, tracer->schema, record);
}

void tracer_commit(struct tracer *tracer) {
    for (int i = 0; i < MODEL_PARAMETERS; i++)
        tracer->param_sum_sq[i] = tracer->record.tensor[MODEL_PARAM + i].sum_sq;
}

enum band tracer_state_band(const struct tracer *tracer) {
    enum band worst = BAND_FINITE;
    for (int i = MODEL_MOMENTUM; i < MODEL_TENSORS; i++)
        if (tracer->record.tensor[i].band > worst) worst = tracer->record.tensor[i].band;
    return worst;
}
