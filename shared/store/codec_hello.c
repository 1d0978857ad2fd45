#include "shared/store/codec.h"

#include <string.h>

#include "shared/core/text.h"
#include "shared/store/field.h"
#include "shared/store/json.h"

static const struct field hello_field[] = {
    FIELD_REQUIRED(TEXT, hello, run_id),
    FIELD(TEXT, hello, name),
    FIELD(TEXT, hello, host),
    FIELD(I64, hello, pid),
    FIELD(TEXT, hello, program),
    FIELD(TEXT, hello, version),
    FIELD(I64, hello, started_ns),
    FIELD(TEXT, hello, device),
    FIELD(TEXT, hello, backend),
    FIELD(I32, hello, threads),
};
enum { HELLO_CONFIG, HELLO_SCHEMA, HELLO_SCHEMA_ID, HELLO_MORE };
static const char *const hello_more[HELLO_MORE] = {"config", "schema", "schema_id"};
static const struct field_table hello_table = {"hello", hello_field, FIELD_COUNT(hello_field),
                                               hello_more, HELLO_MORE};

enum { SCHEMA_METRICS_KEY, SCHEMA_TENSORS_KEY, SCHEMA_MORE };
static const char *const schema_more[SCHEMA_MORE] = {"metrics", "tensors"};
static const struct field_table schema_table = {"hello: schema", NULL, 0, schema_more, SCHEMA_MORE};

static const struct field tensor_field[] = {
    FIELD_REQUIRED(TEXT, schema_tensor, name),
    FIELD_REQUIRED(ROLE, schema_tensor, role),
    FIELD(STAGE, schema_tensor, stage),
    FIELD(DTYPE, schema_tensor, dtype),
};
static const char *const tensor_more[] = {"shape"};
static const struct field_table tensor_table = {"hello: tensor", tensor_field,
                                                FIELD_COUNT(tensor_field), tensor_more, 1};

static enum stage usual_stage(enum role role) {
    static const enum stage stages[ROLE_COUNT] = {
        [ROLE_INPUT] = STAGE_INPUT,          [ROLE_ACTIVATION] = STAGE_FORWARD,
        [ROLE_LOGITS] = STAGE_FORWARD,       [ROLE_LOSS] = STAGE_LOSS,
        [ROLE_PARAMETER] = STAGE_STEP,       [ROLE_GRADIENT] = STAGE_BACKWARD,
        [ROLE_MOMENTUM_BUFFER] = STAGE_STEP, [ROLE_EXP_AVG] = STAGE_STEP,
        [ROLE_EXP_AVG_SQ] = STAGE_STEP,
    };
    return stages[role];
}

static void pack_tensor(struct pack *pack, const struct schema_tensor *tensor) {
    struct schema_tensor plain = {.stage = usual_stage(tensor->role), .dtype = DTYPE_F32};
    struct pack_map map = pack_begin_map(pack);
    field_pack(pack, &map, &tensor_table, tensor, &plain);
    pack_key(pack, &map, "shape");
    msgpack_pack_array(&pack->packer, (size_t)tensor->dims);
    for (int d = 0; d < tensor->dims; d++) msgpack_pack_int64(&pack->packer, tensor->shape[d]);
    pack_end_map(pack, &map);
}

static void pack_schema(struct pack *pack, const struct schema *schema) {
    struct pack_map map = pack_begin_map(pack);
    pack_key(pack, &map, "metrics");
    msgpack_pack_array(&pack->packer, (size_t)__builtin_popcountll(schema->published));
    for (int i = 0; i < schema->metrics; i++) {
        if (schema->published >> i & 1) pack_text(pack, schema->metric[i]);
    }
    if (schema->tensors > 0) {
        pack_key(pack, &map, "tensors");
        msgpack_pack_array(&pack->packer, (size_t)schema->tensors);
        for (int i = 0; i < schema->tensors; i++) pack_tensor(pack, &schema->tensor[i]);
    }
    pack_end_map(pack, &map);
}

static void pack_config(struct pack *pack, const struct hello *hello) {
    struct pack_map map = pack_begin_map(pack);
    for (int i = 0; i < hello->configs; i++) {
        pack_key(pack, &map, hello->config[i].key);
        pack_text(pack, hello->config[i].value);
    }
    pack_end_map(pack, &map);
}

int codec_encode_hello(struct buffer *out, const struct hello *hello) {
    struct hello plain;
    hello_init(&plain);
    struct pack pack;
    pack_init(&pack, out);
    struct pack_map map = pack_begin_map(&pack);
    pack_key(&pack, &map, "protocol");
    msgpack_pack_int(&pack.packer, CODEC_MAJOR);
    field_pack(&pack, &map, &hello_table, hello, &plain);
    if (hello->configs > 0) {
        pack_key(&pack, &map, "config");
        pack_config(&pack, hello);
    }
    pack_key(&pack, &map, "schema");
    pack_schema(&pack, &hello->schema);
    pack_key(&pack, &map, "schema_id");
    msgpack_pack_uint64(&pack.packer, hello->schema.id);
    pack_end_map(&pack, &map);
    return pack.failed ? -1 : 0;
}

static int unpack_metrics(struct unpack *unpack, struct schema *schema, struct error *error) {
    size_t count;
    if (!unpack->at) return error_set(error, "hello: schema.metrics is missing");
    if (unpack_array(unpack, SCHEMA_METRICS_MAX, &count) < 0) {
        return error_set(error, "hello: schema.metrics is not an array of at most %d names",
                         SCHEMA_METRICS_MAX);
    }
    for (int last = -1; count > 0; count--) {
        char name[SCHEMA_METRIC_SIZE];
        if (unpack_text(unpack, name, sizeof name) < 0 || name[0] == '\0') {
            return error_set(error,
                             "hello: a name in schema.metrics is not UTF-8 text of 1 to %d bytes",
                             SCHEMA_METRIC_SIZE - 1);
        }
        int slot = schema_add_metric(schema, name);
        if (slot < 0) return error_set(error, "hello: more than %d metrics", SCHEMA_METRICS_MAX);
        if (slot <= last) {
            return error_set(error,
                             "hello: metric %s comes twice, or out of order: the standard ones "
                             "first, in their order",
                             name);
        }
        last = slot;
    }
    return 0;
}

static int unpack_shape(struct unpack *unpack, struct schema_tensor *tensor, struct error *error) {
    size_t dims;
    if (!unpack->at || unpack_array(unpack, SCHEMA_DIMS_MAX, &dims) < 0) {
        return error_set(error, "hello: the shape of tensor %s is not an array of at most %d sizes",
                         tensor->name, SCHEMA_DIMS_MAX);
    }
    uint64_t room = FIELD_STEP_MAX;
    for (size_t d = 0; d < dims; d++) {
        uint64_t size;
        if (unpack_whole(unpack, room, &size) < 0) {
            return error_set(error, "hello: the shape of tensor %s is not of this world",
                             tensor->name);
        }
        tensor->shape[d] = (int64_t)size;
        if (size > 0) room /= size;
    }
    tensor->dims = (int)dims;
    return 0;
}

static int unpack_tensors(struct unpack *unpack, struct schema *schema, struct error *error) {
    size_t count;
    if (unpack_array(unpack, SCHEMA_TENSORS_MAX, &count) < 0) {
        return error_set(error, "hello: schema.tensors is not an array of at most %d maps",
                         SCHEMA_TENSORS_MAX);
    }
    for (; count > 0; count--) {
        struct schema_tensor tensor = {.stage = STAGE_COUNT, .dtype = DTYPE_F32};
        struct unpack shape;
        if (field_unpack(unpack, &tensor_table, &tensor, &shape, error) < 0) return -1;
        if (unpack_shape(&shape, &tensor, error) < 0) return -1;
        if (tensor.stage == STAGE_COUNT) tensor.stage = usual_stage(tensor.role);
        if (schema_add_tensor(schema, &tensor) < 0)
            return error_set(error, "hello: no memory for its tensors");
    }
    return 0;
}

static int unpack_schema(struct unpack *unpack, struct schema *schema, struct error *error) {
    struct unpack more[SCHEMA_MORE];
    if (!unpack->at) return error_set(error, "hello: schema is missing");
    if (field_unpack(unpack, &schema_table, schema, more, error) < 0) return -1;
    if (unpack_metrics(&more[SCHEMA_METRICS_KEY], schema, error) < 0) return -1;
    if (more[SCHEMA_TENSORS_KEY].at && unpack_tensors(&more[SCHEMA_TENSORS_KEY], schema, error) < 0)
        return -1;
    schema_seal(schema);
    return 0;
}

/* Text as it is, cut; a number or boolean as a person would write it. */
static int unpack_setting(struct unpack *unpack, char *out, size_t size) {
    struct unpack again = *unpack;
    if (unpack_text_cut(unpack, out, size) == 0) return 0;
    *unpack = again;
    double number;
    if (unpack_number(unpack, &number) < 0) return -1;
    json_number(out, size, number);
    return 0;
}

static int unpack_config(struct unpack *unpack, struct hello *hello, struct error *error) {
    size_t pairs;
    if (unpack_map(unpack, &pairs) < 0) return error_set(error, "hello: config is not a map");
    for (; pairs > 0; pairs--) {
        struct config_entry entry;
        if (unpack_text(unpack, entry.key, sizeof entry.key) < 0) {
            return error_set(error, "hello: a key of config is not UTF-8 text of at most %zu bytes",
                             sizeof entry.key - 1);
        }
        if (unpack_nil(unpack)) continue;
        if (unpack_setting(unpack, entry.value, sizeof entry.value) < 0) {
            return error_set(error, "hello: config.%s is neither text nor a number", entry.key);
        }
        hello_set_config(hello, entry.key, entry.value);
    }
    return 0;
}

/* Before anything else, since in another version anything else may mean something else. */
static int check_protocol(struct unpack body, struct error *error) {
    static const char *const key[] = {"protocol"};
    struct unpack protocol;
    uint64_t major = CODEC_MAJOR;
    if (unpack_keys(&body, key, 1, &protocol) < 0)
        return error_set(error, "hello: not a MessagePack map, or cut short");
    if (protocol.at && unpack_whole(&protocol, UINT64_MAX, &major) < 0) {
        return error_set(error, "hello: protocol is not a whole number");
    }
    if (major != CODEC_MAJOR) {
        return error_set(error,
                         "hello: its protocol is version %llu, this program speaks version %d",
                         (unsigned long long)major, CODEC_MAJOR);
    }
    return 0;
}

static int unpack_hello(struct unpack body, struct hello *hello, struct error *error) {
    struct unpack more[HELLO_MORE];
    if (check_protocol(body, error) < 0) return -1;
    if (field_unpack_body(body, &hello_table, hello, more, error) < 0) return -1;
    if (!record_id_valid(hello->run_id))
        return error_set(error, "hello: '%s' is not a run id", hello->run_id);
    if (hello->name[0] == '\0') text_copy(hello->name, sizeof hello->name, hello->run_id);
    if (more[HELLO_CONFIG].at && unpack_config(&more[HELLO_CONFIG], hello, error) < 0) return -1;
    if (unpack_schema(&more[HELLO_SCHEMA], &hello->schema, error) < 0) return -1;
    uint64_t id = hello->schema.id;
    if (more[HELLO_SCHEMA_ID].at &&
        (unpack_whole(&more[HELLO_SCHEMA_ID], UINT64_MAX, &id) < 0 || id != hello->schema.id)) {
        return error_set(error, "hello: its schema_id is not that of its schema");
    }
    return 0;
}

int codec_decode_hello(const void *data, size_t size, struct hello *hello, struct error *error) {
    struct hello fresh;
    hello_init(&fresh);
    if (unpack_hello(unpack_init(data, size), &fresh, error) < 0) {
        hello_free(&fresh);
        return -1;
    }
    hello_free(hello);
    *hello = fresh;
    return 0;
}
