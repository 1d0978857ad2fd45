#include "shared/core/detector.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "shared/core/error.h"
#include "shared/core/text.h"

static const struct {
    const char *name;
    size_t offset;
    double value;
} thresholds[] = {
#define X(name, value) {#name, offsetof(struct detector_limits, name), value},
    DETECTOR_THRESHOLDS(X)
#undef X
};

static double *threshold(struct detector_limits *limits, size_t i) {
    return (double *)(void *)((char *)limits + thresholds[i].offset);
}

void detector_limits_init(struct detector_limits *limits) {
    for (size_t i = 0; i < sizeof thresholds / sizeof *thresholds; i++) {
        *threshold(limits, i) = thresholds[i].value;
    }
}

int detector_limits_set(struct detector_limits *limits, const char *option, struct error *error) {
    const char *equals = strchr(option, '=');
    if (!equals) return error_set(error, "threshold %s: not NAME=VALUE", option);
    size_t length = (size_t)(equals - option);
    for (size_t i = 0; i < sizeof thresholds / sizeof *thresholds; i++) {
        const char *name = thresholds[i].name;
        if (strlen(name) != length || strncmp(name, option, length) != 0) continue;
        char *end;
        double value = strtod(equals + 1, &end);
        if (end == equals + 1 || *end != '\0' || !isfinite(value) || value <= 0) {
            return error_set(error, "threshold %s: not a positive number", option);
        }
        *threshold(limits, i) = value;
        return 0;
    }
    return error_set(error, "threshold %s: no such threshold", option);
}

int detector_init(struct detector *detector, const struct detector_limits *limits, int tensors) {
    *detector = (struct detector){.onset = -1, .first_nonfinite = -1, .tensors = tensors};
    if (limits) {
        detector->limits = *limits;
    } else {
        detector_limits_init(&detector->limits);
    }
    if (tensors == 0) return 0;
    detector->tensor = calloc((size_t)tensors, sizeof *detector->tensor);
    return detector->tensor ? 0 : -1;
}

void detector_free(struct detector *detector) {
    free(detector->tensor);
    memset(detector, 0, sizeof *detector);
}

static int past_count(const struct detector_past *past) {
    return past->seen < DETECTOR_WINDOW ? (int)past->seen : DETECTOR_WINDOW;
}

/* NAN: nothing there yet. */
static double past_median(const struct detector_past *past) {
    int count = past_count(past);
    if (count == 0) return NAN;
    return (past->sorted[(count - 1) / 2] + past->sorted[count / 2]) / 2;
}

/* First place in the sorted values that is not smaller. */
static int past_find(const struct detector_past *past, int count, double size) {
    int low = 0, high = count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (past->sorted[middle] < size) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void past_add(struct detector_past *past, double size) {
    int count = past_count(past);
    double *newest = &past->ring[past->seen % DETECTOR_WINDOW], *sorted = past->sorted;
    if (count == DETECTOR_WINDOW) {
        int oldest = past_find(past, count--, *newest);
        memmove(sorted + oldest, sorted + oldest + 1, (size_t)(count - oldest) * sizeof *sorted);
    }
    int at = past_find(past, count, size);
    memmove(sorted + at + 1, sorted + at, (size_t)(count - at) * sizeof *sorted);
    sorted[at] = *newest = size;
    if (size > past->peak) past->peak = size;
    past->seen++;
}

struct judged {
    bool over;  /* beyond the absolute limit */
    bool peak;  /* beyond its own past ... */
    bool alarm; /* ... so far that it rings at once */
    double value, limit, usual;
};

/* Of a value that is unknown (NAN) or not finite nothing is told, and the past stays as it is. */
static struct judged judge_value(const struct detector *detector, struct detector_past *past,
                                 double value, double range) {
    const struct detector_limits *limits = &detector->limits;
    double size = fabs(value), peak = past->peak, usual = past_median(past);
    struct judged judged = {.value = value, .usual = usual};
    if (!isfinite(value)) return judged;
    bool comparable = (double)past->seen + 1 >= limits->peak_warmup && peak > 0;
    judged.limit = fmax(limits->peak * peak, limits->peak_median * usual);
    judged.over = size > range;
    judged.peak = comparable && size > judged.limit;
    judged.alarm = judged.peak && size > limits->peak_alarm * peak;
    if (!judged.over && !judged.peak && size <= (double)FLT_MAX) past_add(past, size);
    return judged;
}

static double metric_value(const struct record *record, int metric) {
    return record_has(record, metric) ? record->metric[metric] : NAN;
}

static bool is_skipped(const struct record *record) {
    return metric_value(record, METRIC_STEP_SKIPPED) > 0;
}

/* Also where a publisher does not count them. An infinite sum of squares alone may be one that
 * overflowed. */
static bool is_bad(const struct tensor_stat *stat) {
    return stat->count >= 0 && (stat->nan > 0 || stat->pos_inf > 0 || stat->neg_inf > 0 ||
                                isnan(stat->sum_sq) || isinf(stat->max_abs));
}

static int first_bad_tensor(const struct schema *schema, const struct record *record,
                            bool gradients) {
    int first = -1;
    for (int i = 0; i < record->tensors && i < schema->tensors; i++) {
        if (!is_bad(&record->tensor[i])) continue;
        if (!gradients && schema->tensor[i].role == ROLE_GRADIENT) continue;
        if (first < 0 || schema->tensor[i].stage < schema->tensor[first].stage) first = i;
    }
    return first;
}

int detector_first_nonfinite(const struct schema *schema, const struct record *record) {
    return first_bad_tensor(schema, record, !is_skipped(record));
}

/* Made of gradients that the loss scaler found to be too large. */
static bool is_of_gradients(int metric) {
    return metric == METRIC_GRAD_NORM || metric == METRIC_GRAD_MAX ||
           metric == METRIC_UPDATE_RATIO || metric == METRIC_UPDATE_RATIO_MAX;
}

static int first_bad_metric(const struct schema *schema, const struct record *record,
                            bool gradients) {
    for (int m = 0; m < schema->metrics; m++) {
        if (!record_has(record, m) || isfinite(record->metric[m])) continue;
        if (gradients || !is_of_gradients(m)) return m;
    }
    return -1;
}

/* The other roles are told by the name alone. */
static bool shares_its_name(enum role role) {
    return role == ROLE_GRADIENT || role == ROLE_MOMENTUM_BUFFER || role == ROLE_EXP_AVG ||
           role == ROLE_EXP_AVG_SQ;
}

char *detector_subject(const struct schema_tensor *tensor, char out[SCHEMA_NAME_SIZE]) {
    text_copy(out, SCHEMA_NAME_SIZE, tensor->name);
    size_t used = strlen(out);
    if (shares_its_name(tensor->role) && used + 1 < SCHEMA_NAME_SIZE) {
        out[used++] = '/';
        text_copy(out + used, SCHEMA_NAME_SIZE - used, schema_role_name(tensor->role));
    }
    return out;
}

static double range_limit(const struct detector *detector, const struct schema_tensor *tensor) {
    return fmin(detector->limits.range, schema_dtype_max(tensor->dtype) / 16);
}

/* Band and usual of every tensor. Returns the first activation in stage order that is out of range;
 * -1: none. */
static int judge_tensors(struct detector *detector, const struct schema *schema,
                         struct record *record) {
    int first = -1;
    for (int i = 0; i < record->tensors && i < schema->tensors && i < detector->tensors; i++) {
        const struct schema_tensor *tensor = &schema->tensor[i];
        struct tensor_stat *stat = &record->tensor[i];
        if (stat->count < 0) continue;
        double value = is_bad(stat) ? NAN : stat->max_abs;
        struct judged judged =
            judge_value(detector, &detector->tensor[i], value, range_limit(detector, tensor));
        stat->usual = judged.usual;
        stat->band = is_bad(stat)                 ? BAND_NONFINITE
                     : judged.over || judged.peak ? BAND_EXTREME
                                                  : BAND_FINITE;
        bool ranged = tensor->role == ROLE_ACTIVATION || tensor->role == ROLE_LOGITS;
        if (!ranged || !judged.over) continue;
        if (first < 0 || tensor->stage < schema->tensor[first].stage) first = i;
    }
    return first;
}

/* Why a step is not finite: the reason that comes first when several hold. */
struct finding {
    enum reason reason; /* REASON_NONE: it is finite */
    bool alarm;
    int metric, tensor; /* subject: the tensor, else the metric */
    double value, limit, usual;
};

static struct finding of_metric(const struct detector *detector, const struct record *record,
                                enum reason reason, int metric, double limit) {
    const struct detector_past *past = metric == METRIC_LOSS        ? &detector->loss
                                       : metric == METRIC_GRAD_NORM ? &detector->grad_norm
                                                                    : NULL;
    return (struct finding){
        .reason = reason,
        .alarm = true,
        .metric = metric,
        .tensor = -1,
        .limit = limit,
        .value = record->metric[metric],
        .usual = past ? past_median(past) : NAN,
    };
}

static struct finding of_judged(const struct judged *judged, int metric) {
    return (struct finding){
        .reason = REASON_PEAK,
        .alarm = judged->alarm,
        .metric = metric,
        .tensor = -1,
        .value = judged->value,
        .limit = judged->limit,
        .usual = judged->usual,
    };
}

static struct finding of_tensor(const struct record *record, enum reason reason, int tensor,
                                double limit) {
    const struct tensor_stat *stat = &record->tensor[tensor];
    bool is_nan = stat->nan > 0 || isnan(stat->sum_sq);
    bool only_negative = stat->neg_inf > 0 && stat->pos_inf == 0;
    double bad = is_nan ? NAN : only_negative ? -INFINITY : INFINITY;
    return (struct finding){
        .reason = reason,
        .alarm = true,
        .tensor = tensor,
        .limit = limit,
        .usual = stat->usual,
        .value = is_bad(stat) ? bad : stat->max_abs,
    };
}

/* Nothing found: REASON_NONE. `gradients`: theirs count. */
static struct finding find_nonfinite(const struct detector *detector, const struct schema *schema,
                                     const struct record *record, bool gradients) {
    int tensor = first_bad_tensor(schema, record, gradients);
    if (tensor >= 0) return of_tensor(record, REASON_NONFINITE, tensor, NAN);
    int metric = first_bad_metric(schema, record, gradients);
    if (metric >= 0) return of_metric(detector, record, REASON_NONFINITE, metric, NAN);
    return (struct finding){.reason = REASON_NONE};
}

static bool beyond(const struct record *record, int metric, double limit) {
    double value = metric_value(record, metric);
    return isfinite(value) && fabs(value) > limit;
}

/* By `runaway` or `range`: `ranged` is the first activation beyond; -1: none. */
static struct finding find_beyond(const struct detector *detector, const struct schema *schema,
                                  const struct record *record, int ranged) {
    const struct detector_limits *limits = &detector->limits;
    if (beyond(record, METRIC_UPDATE_RATIO_MAX, limits->runaway)) {
        struct finding found =
            of_metric(detector, record, REASON_RUNAWAY, METRIC_UPDATE_RATIO_MAX, limits->runaway);
        int tensor = record->update_ratio_max_tensor;
        if (tensor < schema->tensors) found.tensor = tensor;
        return found;
    }
    if (ranged >= 0) {
        double limit = range_limit(detector, &schema->tensor[ranged]);
        return of_tensor(record, REASON_RANGE, ranged, limit);
    }
    static const int metrics[] = {METRIC_ACT_MAX, METRIC_GRAD_NORM};
    for (int i = 0; i < 2; i++) {
        if (!beyond(record, metrics[i], limits->range)) continue;
        return of_metric(detector, record, REASON_RANGE, metrics[i], limits->range);
    }
    return (struct finding){.reason = REASON_NONE};
}

/* Judges everything, and says what comes first. */
static struct finding find_extreme(struct detector *detector, const struct schema *schema,
                                   struct record *record) {
    const struct detector_limits *limits = &detector->limits;
    int ranged = judge_tensors(detector, schema, record);
    struct judged loss =
        judge_value(detector, &detector->loss, metric_value(record, METRIC_LOSS), INFINITY);
    struct judged grad_norm = judge_value(detector, &detector->grad_norm,
                                          metric_value(record, METRIC_GRAD_NORM), limits->range);
    struct finding found = find_beyond(detector, schema, record, ranged);
    if (found.reason != REASON_NONE) return found;
    if (loss.alarm) return of_judged(&loss, METRIC_LOSS);
    if (grad_norm.alarm) return of_judged(&grad_norm, METRIC_GRAD_NORM);
    bool warm = (double)record->step > limits->update_warmup;
    if (warm && beyond(record, METRIC_UPDATE_RATIO, limits->update)) {
        found = of_metric(detector, record, REASON_UPDATE, METRIC_UPDATE_RATIO, limits->update);
        found.alarm = false;
        return found;
    }
    if (loss.peak) return of_judged(&loss, METRIC_LOSS);
    if (grad_norm.peak) return of_judged(&grad_norm, METRIC_GRAD_NORM);
    found = find_nonfinite(detector, schema, record, true);
    found.alarm = false; /* the scaler's ordinary way to find its scale */
    return found;
}

static void tell(const struct schema *schema, struct record *record, const struct finding *found,
                 enum band band) {
    record->band = band;
    record->reason = found->reason;
    record->subject[0] = '\0';
    record->value = record->limit = record->usual = NAN;
    if (found->reason == REASON_NONE) return;
    record->value = found->value;
    record->limit = found->limit;
    record->usual = found->usual;
    if (found->tensor >= 0) {
        detector_subject(&schema->tensor[found->tensor], record->subject);
    } else {
        text_copy(record->subject, sizeof record->subject, schema->metric[found->metric]);
    }
}

/* Moves the stretch on by one step. */
static struct verdict follow(struct detector *detector, const struct record *record, bool alarm) {
    struct verdict verdict = {.tensor = -1};
    bool finite = record->band == BAND_FINITE;
    detector->finite_run = finite ? detector->finite_run + 1 : 0;
    if ((double)detector->finite_run > detector->limits.stretch_gap) detector->onset = -1;
    if (!finite) {
        if (detector->onset < 0) {
            detector->onset = record->step;
            detector->first_nonfinite = -1;
            detector->alarmed = BAND_FINITE;
        }
        bool first = record->step == detector->onset, worse = record->band > detector->alarmed;
        verdict.alarm = alarm && worse;
        verdict.notice = first && !verdict.alarm;
        if (verdict.alarm) detector->alarmed = record->band;
        if (record->band == BAND_NONFINITE && detector->first_nonfinite < 0) {
            detector->first_nonfinite = record->step;
        }
    }
    bool told = detector->onset >= 0 && detector->first_nonfinite >= 0;
    verdict.onset = detector->onset;
    verdict.lead = told ? detector->first_nonfinite - detector->onset : -1;
    return verdict;
}

struct verdict detector_judge(struct detector *detector, const struct schema *schema,
                              struct record *record) {
    struct finding found = find_extreme(detector, schema, record);
    struct finding nonfinite = find_nonfinite(detector, schema, record, !is_skipped(record));
    bool bad = nonfinite.reason != REASON_NONE;
    if (bad) found = nonfinite;
    bool once_more = found.reason == REASON_UPDATE || found.reason == REASON_PEAK;
    detector->running = once_more ? detector->running + 1 : 0;
    bool alarm = found.alarm || (once_more && detector->running >= detector->limits.running);
    bool extreme = found.reason != REASON_NONE;
    tell(schema, record, &found, bad ? BAND_NONFINITE : extreme ? BAND_EXTREME : BAND_FINITE);
    struct verdict verdict = follow(detector, record, alarm);
    if (bad) verdict.tensor = detector_first_nonfinite(schema, record);
    return verdict;
}

static void tell_tensor(const struct schema *schema, const struct record *record, int tensor,
                        struct event *event) {
    const struct tensor_stat *stat = &record->tensor[tensor];
    event->tensor = tensor;
    event->stage = schema->tensor[tensor].stage;
    event->bad_index = stat->bad_index;
    event->nan = stat->nan;
    event->pos_inf = stat->pos_inf;
    event->neg_inf = stat->neg_inf;
    event->count = stat->count;
}

bool detector_event(const struct schema *schema, const struct record *record,
                    const struct verdict *verdict, struct event *event) {
    if (!verdict->alarm && !verdict->notice) return false;
    bool nonfinite = record->band == BAND_NONFINITE;
    event_init(event, !verdict->alarm ? EVENT_NOTICE : nonfinite ? EVENT_NONFINITE : EVENT_ALARM);
    event->wall_ns = record->wall_ns;
    event->step = record->step;
    event->epoch = record->epoch;
    event->phase = record->phase;
    event->batch = record->batch;
    event->band = record->band;
    event->reason = record->reason;
    text_copy(event->subject, sizeof event->subject, record->subject);
    event->value = record->value;
    event->limit = record->limit;
    event->usual = record->usual;
    event->onset = verdict->onset;
    event->lead = verdict->lead;
    event->input_hash = record->input_hash;
    event->label_hash = record->label_hash;
    if (verdict->tensor >= 0) tell_tensor(schema, record, verdict->tensor, event);
    return true;
}
