#include "shared/store/codec.h"

#include <assert.h>
#include <string.h>

#include "shared/store/field.h"

enum { COUNT_BITS = 53 }; /* sums of a few counts do not overflow, and a double holds one exactly */

static const struct field record_field[] = {
    FIELD_REQUIRED(STEP, record, step), FIELD(STEP, record, seq),
    FIELD(U32, record, segment),        FIELD(U64, record, schema_id),
    FIELD(I32, record, epoch),          FIELD(I32, record, phase),
    FIELD(I32, record, batch),          FIELD(I32, record, epochs),
    FIELD(I32, record, batches),        FIELD(TEXT, record, phase_data),
    FIELD(I64, record, wall_ns),        FIELD(I64, record, mono_ns),
    FIELD(REASON, record, reason),      FIELD(TEXT, record, subject),
    FIELD(NUMBER, record, value),       FIELD(NUMBER, record, limit),
    FIELD(NUMBER, record, usual),       FIELD(I32, record, update_ratio_max_tensor),
    FIELD(HASH, record, input_hash),    FIELD(HASH, record, label_hash),
};
enum { RECORD_BAND, RECORD_METRICS, RECORD_LABELS, RECORD_TENSORS, RECORD_MORE };
static const char *const record_more[] = {"band", "metrics", "labels", "tensors"};
static const struct field_table record_table = {"step", record_field, FIELD_COUNT(record_field),
                                                record_more, RECORD_MORE};

/* The statistics of the tensors */

enum stat_type { STAT_NUMBER, STAT_KNOWN, STAT_WHOLE, STAT_INDEX, STAT_BAND };

/* In the order in which a reader needs them. */
static const struct stat {
    const char *key;
    enum stat_type type;
    size_t offset;
} stats[] = {
    {"sum_sq", STAT_NUMBER, offsetof(struct tensor_stat, sum_sq)},
    {"max_abs", STAT_NUMBER, offsetof(struct tensor_stat, max_abs)},
    {"count", STAT_WHOLE, offsetof(struct tensor_stat, count)},
    {"usual", STAT_KNOWN, offsetof(struct tensor_stat, usual)},
    {"band", STAT_BAND, offsetof(struct tensor_stat, band)},
    {"nan", STAT_WHOLE, offsetof(struct tensor_stat, nan)},
    {"pos_inf", STAT_WHOLE, offsetof(struct tensor_stat, pos_inf)},
    {"neg_inf", STAT_WHOLE, offsetof(struct tensor_stat, neg_inf)},
    {"over", STAT_WHOLE, offsetof(struct tensor_stat, over)},
    {"bad_index", STAT_INDEX, offsetof(struct tensor_stat, bad_index)},
};
enum { SUM_SQ, MAX_ABS, COUNT, STATS = FIELD_COUNT(stats) };

static int64_t volume(const struct schema_tensor *tensor) {
    int64_t product = 1;
    for (int d = 0; d < tensor->dims; d++)
        product *= tensor->shape[d]; /* codec_decode_hello saw that it fits */
    return product;
}

/* False for an entry that readers take for granted. */
static bool stat_tells(const struct stat *stat, const struct schema_tensor *tensor,
                       const struct tensor_stat *of) {
    const void *member = (const char *)of + stat->offset;
    switch (stat->type) {
    case STAT_NUMBER:
        return true;
    case STAT_KNOWN:
        return !isnan(*(const double *)member);
    case STAT_WHOLE:
        return *(const int64_t *)member != (stat == &stats[COUNT] ? volume(tensor) : 0);
    case STAT_INDEX:
        return *(const int64_t *)member >= 0;
    case STAT_BAND:
        return of->band != BAND_FINITE;
    }
    return true;
}

static void pack_entry(struct pack *pack, const struct stat *stat, const struct tensor_stat *of) {
    const void *member = (const char *)of + stat->offset;
    if (of->count < 0 || (stat->type == STAT_INDEX && of->bad_index < 0)) {
        msgpack_pack_nil(&pack->packer);
    } else if (stat->type == STAT_NUMBER) {
        pack_number(pack, *(const double *)member);
    } else if (stat->type == STAT_KNOWN) {
        pack_known(pack, *(const double *)member);
    } else if (stat->type == STAT_BAND) {
        msgpack_pack_int(&pack->packer, (int)of->band);
    } else {
        msgpack_pack_int64(&pack->packer, *(const int64_t *)member);
    }
}

static void pack_stat(struct pack *pack, struct pack_map *map, const struct stat *stat,
                      const struct schema *schema, const struct record *record) {
    bool tells = false;
    for (int i = 0; i < record->tensors && !tells; i++) {
        tells = record->tensor[i].count >= 0 &&
                stat_tells(stat, &schema->tensor[i], &record->tensor[i]);
    }
    if (!tells) return;
    pack_key(pack, map, stat->key);
    msgpack_pack_array(&pack->packer, (size_t)record->tensors);
    for (int i = 0; i < record->tensors; i++) pack_entry(pack, stat, &record->tensor[i]);
}

static void pack_tensors(struct pack *pack, struct pack_map *map, const struct schema *schema,
                         const struct record *record) {
    int measured = 0;
    for (int i = 0; i < record->tensors; i++) measured += record->tensor[i].count >= 0;
    if (measured == 0) return;
    pack_key(pack, map, "tensors");
    struct pack_map inner = pack_begin_map(pack);
    for (int i = 0; i < STATS; i++) pack_stat(pack, &inner, &stats[i], schema, record);
    pack_end_map(pack, &inner);
}

static int unpack_entry(struct unpack *unpack, const struct stat *stat, struct tensor_stat *of) {
    void *member = (char *)of + stat->offset;
    if (stat->type == STAT_NUMBER || stat->type == STAT_KNOWN) return unpack_number(unpack, member);
    uint64_t whole;
    uint64_t most = stat->type == STAT_BAND ? BAND_COUNT - 1 : UINT64_C(1) << COUNT_BITS;
    if (unpack_whole(unpack, most, &whole) < 0) return -1;
    if (stat->type == STAT_BAND) {
        of->band = (enum band)whole;
    } else {
        *(int64_t *)member = (int64_t)whole;
    }
    return 0;
}

/* One entry from each array into one tensor, which is not measured unless both of the required ones
 * say so. */
static int unpack_tensor(struct unpack *array, const struct schema_tensor *tensor,
                         struct tensor_stat *of, struct error *error) {
    const struct tensor_stat unmeasured = *of;
    bool measured = true;
    of->count = volume(tensor);
    for (int i = 0; i < STATS; i++) {
        if (!array[i].at) continue;
        if (unpack_nil(&array[i])) {
            measured = measured && i != SUM_SQ && i != MAX_ABS;
        } else if (unpack_entry(&array[i], &stats[i], of) < 0) {
            return error_set(error, "step: an entry of tensors.%s is not what it should be",
                             stats[i].key);
        }
    }
    if (!measured) *of = unmeasured;
    return 0;
}

static int unpack_tensors(struct unpack *unpack, const struct schema *schema, struct record *record,
                          struct error *error) {
    const char *keys[STATS];
    struct unpack array[STATS];
    for (int i = 0; i < STATS; i++) keys[i] = stats[i].key;
    if (unpack_keys(unpack, keys, STATS, array) < 0)
        return error_set(error, "step: tensors is not a map");
    for (int i = 0; i < STATS; i++) {
        size_t count = 0;
        if (!array[i].at && i > MAX_ABS) continue;
        if (!array[i].at) return error_set(error, "step: tensors.%s is missing", keys[i]);
        if (unpack_array(&array[i], SCHEMA_TENSORS_MAX, &count) < 0 ||
            count != (size_t)schema->tensors) {
            return error_set(error,
                             "step: tensors.%s is not an array of one entry for each of the %d "
                             "tensors of the hello",
                             keys[i], schema->tensors);
        }
    }
    for (int i = 0; i < schema->tensors; i++) {
        if (unpack_tensor(array, &schema->tensor[i], &record->tensor[i], error) < 0) return -1;
    }
    return 0;
}

/* The step around them */

static void pack_metrics(struct pack *pack, struct pack_map *map, const struct schema *schema,
                         const struct record *record) {
    pack_key(pack, map, "metrics");
    msgpack_pack_array(&pack->packer, (size_t)__builtin_popcountll(schema->published));
    for (int i = 0; i < schema->metrics; i++) {
        if (!(schema->published >> i & 1)) continue;
        if (record_has(record, i)) {
            pack_number(pack, record->metric[i]);
        } else {
            msgpack_pack_nil(&pack->packer);
        }
    }
}

static void pack_labels(struct pack *pack, struct pack_map *map, const struct record *record) {
    if (record->classes == 0) return;
    pack_key(pack, map, "labels");
    msgpack_pack_array(&pack->packer, (size_t)record->classes);
    for (int i = 0; i < record->classes; i++)
        msgpack_pack_uint32(&pack->packer, record->label_count[i]);
}

int codec_encode_record(struct buffer *out, const struct schema *schema,
                        const struct record *record) {
    assert(record->tensors == 0 || record->tensors == schema->tensors);
    struct record plain = {0};
    record_clear(&plain);
    struct pack pack;
    pack_init(&pack, out);
    struct pack_map map = pack_begin_map(&pack);
    field_pack(&pack, &map, &record_table, record, &plain);
    pack_key(&pack, &map, "band");
    msgpack_pack_int(&pack.packer, (int)record->band);
    pack_metrics(&pack, &map, schema, record);
    pack_labels(&pack, &map, record);
    pack_tensors(&pack, &map, schema, record);
    pack_end_map(&pack, &map);
    return pack.failed ? -1 : 0;
}

static int unpack_metrics(struct unpack *unpack, const struct schema *schema, struct record *record,
                          struct error *error) {
    size_t count, expected = (size_t)__builtin_popcountll(schema->published);
    if (!unpack->at) return error_set(error, "step: metrics is missing");
    if (unpack_array(unpack, SCHEMA_METRICS_MAX, &count) < 0)
        return error_set(error, "step: metrics is not an array");
    if (count != expected)
        return error_set(error, "step: %zu metrics, but the hello has %zu", count, expected);
    for (int i = 0; i < schema->metrics; i++) {
        double value;
        if (!(schema->published >> i & 1) || unpack_nil(unpack)) continue;
        if (unpack_number(unpack, &value) < 0)
            return error_set(error, "step: metric %s is not a number", schema->metric[i]);
        record_set(record, i, value);
    }
    return 0;
}

static int unpack_labels(struct unpack *unpack, struct record *record, struct error *error) {
    size_t count;
    if (unpack_array(unpack, RECORD_CLASSES_MAX, &count) < 0) {
        return error_set(error, "step: labels is not an array of at most %d counts",
                         RECORD_CLASSES_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        uint64_t label_count;
        if (unpack_whole(unpack, UINT32_MAX, &label_count) < 0)
            return error_set(error, "step: a count in labels is none");
        record->label_count[i] = (uint32_t)label_count;
    }
    record->classes = (int32_t)count;
    return 0;
}

/* 1: no band in it. */
static int unpack_record(struct unpack body, const struct schema *schema, struct record *record,
                         struct error *error) {
    struct unpack more[RECORD_MORE];
    record->schema_id = schema->id;
    if (field_unpack_body(body, &record_table, record, more, error) < 0) return -1;
    if (record->schema_id != schema->id) {
        return error_set(error, "step %lld: of another schema than the hello at hand",
                         (long long)record->step);
    }
    if (record->update_ratio_max_tensor >= schema->tensors) {
        return error_set(error, "step: update_ratio_max_tensor is not one of the %d tensors",
                         schema->tensors);
    }
    record->hashed = (record->input_hash | record->label_hash) != 0;
    if (unpack_metrics(&more[RECORD_METRICS], schema, record, error) < 0) return -1;
    if (more[RECORD_LABELS].at && unpack_labels(&more[RECORD_LABELS], record, error) < 0) return -1;
    if (more[RECORD_TENSORS].at && unpack_tensors(&more[RECORD_TENSORS], schema, record, error) < 0)
        return -1;
    uint64_t band;
    if (!more[RECORD_BAND].at) return 1;
    if (unpack_whole(&more[RECORD_BAND], BAND_COUNT - 1, &band) < 0)
        return error_set(error, "step: band is not 0, 1 or 2");
    record->band = (enum band)band;
    return 0;
}

int codec_decode_record(const void *data, size_t size, const struct schema *schema,
                        struct record *record, struct error *error) {
    struct record fresh;
    if (record_init(&fresh, schema->tensors) < 0) return error_set(error, "step: no memory");
    int result = unpack_record(unpack_init(data, size), schema, &fresh, error);
    if (result < 0) {
        record_free(&fresh);
        return -1;
    }
    record_free(record);
    *record = fresh;
    return result;
}
