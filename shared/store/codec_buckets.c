#include "shared/store/codec.h"

#include <assert.h>
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "shared/store/field.h"

enum {
    BUCKETS_LEVEL,
    BUCKETS_FIRST,
    BUCKETS_STEPS,
    BUCKETS_MISSING,
    BUCKETS_BAND,
    BUCKETS_SCHEMA_ID,
    BUCKETS_METRICS,
    BUCKETS_MORE
};
static const char *const buckets_more[BUCKETS_MORE] = {"level", "first",     "steps",  "missing",
                                                       "band",  "schema_id", "metrics"};
static const struct field_table buckets_table = {"bucket", NULL, 0, buckets_more, BUCKETS_MORE};

enum { METRIC_LAST, METRIC_MIN, METRIC_MAX, METRIC_PRESENT, METRIC_MARKS, METRIC_MORE };
static const char *const metric_more[METRIC_MORE] = {"last", "min", "max", "present", "marks"};
static const struct field_table metric_table = {"bucket: metric", NULL, 0, metric_more,
                                                METRIC_MORE};

enum { MARKS_ALL = SERIES_NAN | SERIES_POS_INF | SERIES_NEG_INF | SERIES_BEYOND };

/* What left out arrays say of a value. */
static struct series_value implied(float last, uint32_t steps) {
    bool finite = isfinite(last);
    return (struct series_value){.min = finite ? last : INFINITY,
                                 .max = finite ? last : -INFINITY,
                                 .last = last,
                                 .present = steps};
}

static struct series_value implied_absent(void) {
    return (struct series_value){.min = INFINITY, .max = -INFINITY, .last = NAN};
}

static const struct series_value *value_at(const struct codec_buckets *buckets, int bucket,
                                           int slot) {
    return &buckets->value[(size_t)bucket * (size_t)buckets->metrics + (size_t)slot];
}

/* Which of a metric's arrays have to be sent. */
static unsigned needed_arrays(const struct codec_buckets *buckets, int slot) {
    unsigned needed = 0;
    for (int i = 0; i < buckets->count; i++) {
        const struct series_value *value = value_at(buckets, i, slot);
        bool absent = value->present == 0;
        struct series_value guess =
            absent ? implied_absent() : implied(value->last, buckets->bucket[i].steps);
        bool none = value->min > value->max && guess.min > guess.max;
        if (!absent) needed |= 1U << METRIC_LAST;
        if (!none && (value->min != guess.min || value->max != guess.max))
            needed |= 1U << METRIC_MIN | 1U << METRIC_MAX;
        if (value->present != guess.present) needed |= 1U << METRIC_PRESENT;
        if (value->marks != 0) needed |= 1U << METRIC_MARKS;
    }
    return needed;
}

static void pack_value(struct pack *pack, int key, const struct series_value *value) {
    switch (key) {
    case METRIC_LAST:
        if (value->present == 0) {
            msgpack_pack_nil(&pack->packer);
        } else {
            pack_number(pack, (double)value->last);
        }
        break;
    case METRIC_MIN:
    case METRIC_MAX:
        pack_known(pack, value->min > value->max
                             ? NAN
                             : (double)(key == METRIC_MIN ? value->min : value->max));
        break;
    case METRIC_PRESENT:
        msgpack_pack_uint32(&pack->packer, value->present);
        break;
    default:
        msgpack_pack_uint8(&pack->packer, value->marks);
    }
}

static void pack_metric(struct pack *pack, const struct codec_buckets *buckets, int slot) {
    unsigned needed = needed_arrays(buckets, slot);
    if (!(needed & 1U << METRIC_LAST)) {
        msgpack_pack_nil(&pack->packer);
        return;
    }
    struct pack_map map = pack_begin_map(pack);
    for (int key = 0; key < METRIC_MORE; key++) {
        if (!(needed >> key & 1)) continue;
        pack_key(pack, &map, metric_more[key]);
        msgpack_pack_array(&pack->packer, (size_t)buckets->count);
        for (int i = 0; i < buckets->count; i++) pack_value(pack, key, value_at(buckets, i, slot));
    }
    pack_end_map(pack, &map);
}

static int64_t bucket_member(const struct series_bucket *bucket, int key) {
    switch (key) {
    case BUCKETS_FIRST:
        return bucket->first;
    case BUCKETS_STEPS:
        return bucket->steps;
    case BUCKETS_MISSING:
        return bucket->missing;
    default:
        return (int64_t)bucket->band;
    }
}

static void pack_members(struct pack *pack, struct pack_map *map,
                         const struct codec_buckets *buckets, int key) {
    bool tells = key == BUCKETS_FIRST || key == BUCKETS_STEPS;
    for (int i = 0; i < buckets->count && !tells; i++)
        tells = bucket_member(&buckets->bucket[i], key) != 0;
    if (!tells) return;
    pack_key(pack, map, buckets_more[key]);
    msgpack_pack_array(&pack->packer, (size_t)buckets->count);
    for (int i = 0; i < buckets->count; i++)
        msgpack_pack_int64(&pack->packer, bucket_member(&buckets->bucket[i], key));
}

int codec_encode_buckets(struct buffer *out, const struct schema *schema,
                         const struct codec_buckets *buckets) {
    assert(buckets->metrics == schema->metrics);
    struct pack pack;
    pack_init(&pack, out);
    struct pack_map map = pack_begin_map(&pack);
    pack_key(&pack, &map, "level");
    msgpack_pack_int(&pack.packer, buckets->level);
    pack_key(&pack, &map, "schema_id");
    msgpack_pack_uint64(&pack.packer, schema->id);
    for (int key = BUCKETS_FIRST; key <= BUCKETS_BAND; key++)
        pack_members(&pack, &map, buckets, key);
    pack_key(&pack, &map, "metrics");
    msgpack_pack_array(&pack.packer, (size_t)__builtin_popcountll(schema->published));
    for (int i = 0; i < schema->metrics; i++) {
        if (schema->published >> i & 1) pack_metric(&pack, buckets, i);
    }
    pack_end_map(&pack, &map);
    return pack.failed ? -1 : 0;
}

static int64_t level_width(int level) {
    return INT64_C(1) << (4 * level);
} /* SERIES_FACTOR to the level */

/* Opens the arrays that are there; each has exactly `count` entries. */
static int open_arrays(struct unpack *array, int arrays, size_t count) {
    for (int i = 0; i < arrays; i++) {
        size_t entries;
        if (array[i].at &&
            (unpack_array(&array[i], SERIES_BUCKETS, &entries) < 0 || entries != count))
            return -1;
    }
    return 0;
}

static int unpack_bucket(struct unpack *array, int level, struct series_bucket *bucket) {
    uint64_t width = (uint64_t)level_width(level), first, steps, missing = 0, band = BAND_FINITE;
    if (unpack_whole(&array[BUCKETS_FIRST], FIELD_STEP_MAX, &first) < 0 || first % width != 0)
        return -1;
    if (unpack_whole(&array[BUCKETS_STEPS], width, &steps) < 0) return -1;
    if (array[BUCKETS_MISSING].at && unpack_whole(&array[BUCKETS_MISSING], width, &missing) < 0)
        return -1;
    if (array[BUCKETS_BAND].at && unpack_whole(&array[BUCKETS_BAND], BAND_COUNT - 1, &band) < 0)
        return -1;
    *bucket =
        (struct series_bucket){(int64_t)first, (uint32_t)steps, (uint32_t)missing, (enum band)band};
    return 0;
}

static int unpack_float(struct unpack *unpack, float *value) {
    double number;
    if (unpack_number(unpack, &number) < 0 || (isfinite(number) && fabs(number) > (double)FLT_MAX))
        return -1;
    *value = (float)number;
    return 0;
}

static int unpack_value(struct unpack *array, uint32_t steps, struct series_value *value) {
    *value = implied_absent();
    if (!unpack_nil(&array[METRIC_LAST])) {
        float last;
        if (unpack_float(&array[METRIC_LAST], &last) < 0) return -1;
        *value = implied(last, steps);
    }
    if (array[METRIC_MIN].at && array[METRIC_MAX].at) {
        bool none = unpack_nil(&array[METRIC_MIN]);
        if (none != unpack_nil(&array[METRIC_MAX])) return -1;
        value->min = INFINITY;
        value->max = -INFINITY;
        if (!none && unpack_float(&array[METRIC_MIN], &value->min) < 0) return -1;
        if (!none && unpack_float(&array[METRIC_MAX], &value->max) < 0) return -1;
        if (!none && !(isfinite(value->min) && isfinite(value->max) && value->min <= value->max))
            return -1;
    }
    uint64_t present = value->present, marks = 0;
    if (array[METRIC_PRESENT].at && unpack_whole(&array[METRIC_PRESENT], steps, &present) < 0)
        return -1;
    if (array[METRIC_MARKS].at && unpack_whole(&array[METRIC_MARKS], MARKS_ALL, &marks) < 0)
        return -1;
    value->present = (uint32_t)present;
    value->marks = (uint8_t)marks;
    return 0;
}

static int unpack_metric(struct unpack *unpack, struct codec_buckets *out, int slot,
                         struct error *error) {
    struct unpack array[METRIC_MORE];
    if (unpack_nil(unpack)) return 0;
    if (field_unpack(unpack, &metric_table, NULL, array, error) < 0) return -1;
    if (!array[METRIC_LAST].at || !array[METRIC_MIN].at != !array[METRIC_MAX].at) {
        return error_set(error, "bucket: a metric without last, or with one of min and max alone");
    }
    if (open_arrays(array, METRIC_MORE, (size_t)out->count) < 0) {
        return error_set(error, "bucket: an array of a metric has not one entry for each bucket");
    }
    for (int i = 0; i < out->count; i++) {
        struct series_value *value = &out->value[(size_t)i * (size_t)out->metrics + (size_t)slot];
        if (unpack_value(array, out->bucket[i].steps, value) < 0)
            return error_set(error, "bucket: a value is not what it should be");
    }
    return 0;
}

static int unpack_metrics(struct unpack *unpack, const struct schema *schema,
                          struct codec_buckets *out, struct error *error) {
    size_t count;
    if (!unpack->at || unpack_array(unpack, SCHEMA_METRICS_MAX, &count) < 0 ||
        count != (size_t)__builtin_popcountll(schema->published)) {
        return error_set(
            error, "bucket: metrics is not an array of one entry for each metric of the hello");
    }
    for (int i = 0; i < schema->metrics; i++) {
        if ((schema->published >> i & 1) && unpack_metric(unpack, out, i, error) < 0) return -1;
    }
    return 0;
}

static int take_memory(struct codec_buckets *out) {
    size_t buckets = (size_t)out->count, values = buckets * (size_t)out->metrics;
    out->bucket = malloc((buckets + 1) * sizeof *out->bucket);
    out->value = malloc((values + 1) * sizeof *out->value);
    if (!out->bucket || !out->value) return -1;
    for (size_t i = 0; i < values; i++) out->value[i] = implied_absent();
    return 0;
}

static int unpack_buckets(struct unpack body, const struct schema *schema,
                          struct codec_buckets *out, struct error *error) {
    struct unpack more[BUCKETS_MORE];
    uint64_t level, id = schema->id;
    if (field_unpack_body(body, &buckets_table, NULL, more, error) < 0) return -1;
    if (!more[BUCKETS_LEVEL].at ||
        unpack_whole(&more[BUCKETS_LEVEL], SERIES_LEVELS - 1, &level) < 0) {
        return error_set(error, "bucket: level is not 0 to %d", SERIES_LEVELS - 1);
    }
    if (more[BUCKETS_SCHEMA_ID].at &&
        (unpack_whole(&more[BUCKETS_SCHEMA_ID], UINT64_MAX, &id) < 0 || id != schema->id)) {
        return error_set(error, "bucket: of another schema than the hello at hand");
    }
    size_t count = 0;
    struct unpack first = more[BUCKETS_FIRST];
    if (!first.at || !more[BUCKETS_STEPS].at || unpack_array(&first, SERIES_BUCKETS, &count) < 0 ||
        open_arrays(&more[BUCKETS_FIRST], BUCKETS_BAND - BUCKETS_FIRST + 1, count) < 0) {
        return error_set(error, "bucket: first and steps are not arrays of equal length up to %d",
                         SERIES_BUCKETS);
    }
    *out = (struct codec_buckets){
        .level = (int)level, .count = (int)count, .metrics = schema->metrics};
    if (take_memory(out) < 0) return error_set(error, "bucket: no memory");
    for (int i = 0; i < out->count; i++) {
        if (unpack_bucket(more, out->level, &out->bucket[i]) < 0 ||
            (i > 0 && out->bucket[i].first <= out->bucket[i - 1].first)) {
            return error_set(error,
                             "bucket: number %d of them is not one of level %d, or out of order", i,
                             out->level);
        }
    }
    return unpack_metrics(&more[BUCKETS_METRICS], schema, out, error);
}

int codec_decode_buckets(const void *data, size_t size, const struct schema *schema,
                         struct codec_buckets *out, struct error *error) {
    struct codec_buckets fresh = {0};
    if (unpack_buckets(unpack_init(data, size), schema, &fresh, error) < 0) {
        codec_buckets_free(&fresh);
        return -1;
    }
    *out = fresh;
    return 0;
}

void codec_buckets_free(struct codec_buckets *buckets) {
    free(buckets->bucket);
    free(buckets->value);
    *buckets = (struct codec_buckets){0};
}
