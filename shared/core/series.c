#include "shared/core/series.h"

#include <assert.h>
#include <float.h>
#include <stdlib.h>
#include <string.h>

static const struct series_value no_value = {.min = FLT_MAX, .max = -FLT_MAX, .last = NAN};

static struct series_value *values_at(const struct series *series, const struct series_level *level,
                                      int64_t slot) {
    return level->value + slot * series->metrics;
}

static int64_t slot_of(const struct series *series, const struct series_level *level,
                       int64_t first) {
    return first / level->width % series->buckets;
}

int series_init(struct series *series, int metrics, int buckets) {
    assert(metrics > 0 && buckets > 0);
    *series = (struct series){.metrics = metrics, .buckets = buckets, .last = -1};
    int64_t width = 1;
    for (int l = 0; l < SERIES_LEVELS; l++, width *= SERIES_FACTOR) {
        struct series_level *level = &series->level[l];
        size_t values = (size_t)buckets * (size_t)metrics;
        level->width = width;
        level->bucket = malloc((size_t)buckets * sizeof *level->bucket);
        level->value = malloc(values * sizeof *level->value);
        if (!level->bucket || !level->value) {
            series_free(series);
            return -1;
        }
        for (int b = 0; b < buckets; b++) level->bucket[b] = (struct series_bucket){.first = -1};
        for (size_t v = 0; v < values; v++) level->value[v] = no_value;
    }
    return 0;
}

void series_free(struct series *series) {
    for (int l = 0; l < SERIES_LEVELS; l++) {
        free(series->level[l].bucket);
        free(series->level[l].value);
    }
    memset(series, 0, sizeof *series);
    series->last = -1;
}

/* The bucket that holds `step`, emptied when the slot held an older one; NULL: a newer one is
 * there. */
static struct series_bucket *open_bucket(struct series *series, struct series_level *level,
                                         int64_t step) {
    int64_t first = step - step % level->width, slot = slot_of(series, level, first);
    struct series_bucket *bucket = &level->bucket[slot];
    if (bucket->first > first) return NULL;
    if (bucket->first < first) {
        *bucket = (struct series_bucket){.first = first};
        struct series_value *value = values_at(series, level, slot);
        for (int m = 0; m < series->metrics; m++) value[m] = no_value;
    }
    return bucket;
}

/* Neither turned into Inf by being large nor into 0 by being small. */
static float to_float(double value) {
    if (fabs(value) > (double)FLT_MAX && !isinf(value)) return value > 0 ? FLT_MAX : -FLT_MAX;
    float narrow = (float)value;
    return narrow == 0 && value != 0 ? (value > 0 ? FLT_TRUE_MIN : -FLT_TRUE_MIN) : narrow;
}

static void add_value(struct series_value *to, double value) {
    to->last = to_float(value);
    to->present++;
    if (isnan(value)) {
        to->marks |= SERIES_NAN;
    } else if (isinf(value)) {
        to->marks |= value > 0 ? SERIES_POS_INF : SERIES_NEG_INF;
    } else {
        if (fabs(value) > (double)FLT_MAX) to->marks |= SERIES_BEYOND;
        to->min = fminf(to->min, to->last);
        to->max = fmaxf(to->max, to->last);
    }
}

static void add_step(struct series *series, struct series_level *level,
                     const struct record *record) {
    struct series_bucket *bucket = open_bucket(series, level, record->step);
    if (!bucket) return;
    bucket->steps++;
    if (record->band > bucket->band) bucket->band = record->band;
    struct series_value *value = values_at(series, level, slot_of(series, level, bucket->first));
    for (int m = 0; m < series->metrics; m++) {
        if (record_has(record, m)) add_value(&value[m], record->metric[m]);
    }
}

int series_apply(struct series *series, const struct record *record) {
    if (record->step <= series->last || record->step >= SERIES_STEP_END) return -1;
    if (series->last < 0) {
        series->first = record->step;
    } else {
        series_apply_gap(series, series->last + 1, record->step - 1);
    }
    series->last = record->step;
    for (int l = 0; l < SERIES_LEVELS; l++) add_step(series, &series->level[l], record);
    return 0;
}

/* Opens every bucket of steps first..last that the ring can hold, however long the jump is: inside
 * its window a level has no holes. */
static void pass(struct series *series, int64_t first, int64_t last, bool missing) {
    if (series->last >= 0 && first <= series->last) first = series->last + 1;
    if (last >= SERIES_STEP_END) last = SERIES_STEP_END - 1;
    if (first < 0 || first > last) return;
    if (series->last < 0) series->first = first;
    series->last = last;
    for (int l = 0; l < SERIES_LEVELS; l++) {
        struct series_level *level = &series->level[l];
        int64_t end = last - last % level->width, reach = (series->buckets - 1) * level->width;
        int64_t step = first < end - reach ? end - reach : first;
        for (int64_t next; step <= last; step = next) {
            struct series_bucket *bucket = open_bucket(series, level, step);
            next = step - step % level->width + level->width;
            if (next > last) next = last + 1;
            if (bucket && missing) bucket->missing += (uint32_t)(next - step);
        }
    }
}

void series_apply_gap(struct series *series, int64_t first, int64_t last) {
    pass(series, first, last, true);
}

void series_apply_skip(struct series *series, int64_t last) {
    if (series->last >= 0) pass(series, series->last + 1, last, false);
}

int series_apply_bucket(struct series *series, int level_index, const struct series_bucket *bucket,
                        const struct series_value *value) {
    if (level_index < 0 || level_index >= SERIES_LEVELS) return -1;
    struct series_level *level = &series->level[level_index];
    int64_t first = bucket->first, known = (int64_t)bucket->steps + bucket->missing;
    if (first < 0 || first >= SERIES_STEP_END || first % level->width != 0) return -1;
    if (known > level->width) return -1;
    struct series_bucket *to = open_bucket(series, level, first);
    if (!to) return 0;
    *to = *bucket;
    struct series_value *to_value = values_at(series, level, slot_of(series, level, first));
    for (int m = 0; m < series->metrics; m++) {
        to_value[m] = value[m];
        float min = value[m].min, max = value[m].max;
        if (isfinite(min) && isfinite(max) && min <= max) continue;
        to_value[m].min = no_value.min;
        to_value[m].max = no_value.max;
    }
    /* A bucket does not say which of its steps it knows: the finer ones have the exact end. */
    int64_t end = first + (known > 0 ? known - 1 : 0);
    if (series->last < 0 || first < series->first) series->first = first;
    if (end > series->last) series->last = end;
    return 0;
}

const struct series_bucket *series_find(const struct series *series, int level_index, int64_t first,
                                        const struct series_value **value) {
    assert(level_index >= 0 && level_index < SERIES_LEVELS);
    const struct series_level *level = &series->level[level_index];
    if (first < 0 || series->buckets == 0) return NULL;
    int64_t slot = slot_of(series, level, first);
    if (level->bucket[slot].first != first) return NULL;
    *value = values_at(series, level, slot);
    return &level->bucket[slot];
}

static uint32_t add_saturated(uint32_t a, uint32_t b) {
    return a > UINT32_MAX - b ? UINT32_MAX : a + b;
}

/* Buckets are merged oldest first. */
static void merge(struct series_column *column, const struct series_bucket *bucket,
                  const struct series_value *value) {
    struct series_value *to = &column->value;
    column->steps = add_saturated(column->steps, bucket->steps);
    column->missing = add_saturated(column->missing, bucket->missing);
    if (bucket->band > column->band) column->band = bucket->band;
    if (value->present == 0) return;
    to->min = fminf(to->min, value->min);
    to->max = fmaxf(to->max, value->max);
    to->last = value->last;
    to->present = add_saturated(to->present, value->present);
    to->marks |= value->marks;
}

/* False: the level does not have every bucket of steps from..to. */
static bool merge_level(const struct series *series, int level, int metric, int64_t from,
                        int64_t to, struct series_column *column) {
    int64_t width = series->level[level].width;
    if (to / width - from / width >= series->buckets) return false;
    *column = (struct series_column){.value = no_value};
    for (int64_t first = from - from % width; first <= to; first += width) {
        const struct series_value *value;
        const struct series_bucket *bucket = series_find(series, level, first, &value);
        if (!bucket) return false;
        merge(column, bucket, &value[metric]);
    }
    return true;
}

bool series_column(const struct series *series, int metric, int64_t first, int64_t width,
                   struct series_column *column) {
    assert(metric >= 0 && metric < series->metrics && width > 0);
    int64_t from = first > series->first ? first : series->first;
    int64_t to = first <= series->last - width ? first + width - 1 : series->last;
    if (series->last < 0 || from > to) return false;
    int fit =
        0; /* coarsest level whose buckets lie inside the column: same result, fewest buckets */
    while (fit + 1 < SERIES_LEVELS && first % series->level[fit + 1].width == 0 &&
           width % series->level[fit + 1].width == 0) {
        fit++;
    }
    for (int i = 0; i < SERIES_LEVELS; i++) {
        int level = i <= fit ? fit - i : i;
        struct series_column merged;
        if (!merge_level(series, level, metric, from, to, &merged)) continue;
        *column = merged;
        column->thinned = level > fit;
        return true;
    }
    return false;
}
