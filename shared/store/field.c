#include "shared/store/field.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "shared/core/record.h"

enum { KEYS_MAX = 48, NAME_SIZE = 32 };

bool field_is_plain(const struct field *field, const void *member, const void *plain) {
    if (field->type == FIELD_TEXT) return strcmp(member, plain) == 0;
    if (field->type == FIELD_NUMBER && isnan(*(const double *)member))
        return isnan(*(const double *)plain);
    return memcmp(member, plain, field->size) == 0;
}

/* Enums are stored in an int or in something of its size: see the assertion in field_unpack. */
static int load_enum(const void *member) {
    int value;
    memcpy(&value, member, sizeof value);
    return value;
}

const char *field_enum_name(enum field_type type, const void *member) {
    int value = load_enum(member);
    switch (type) {
    case FIELD_BAND:
        return band_name((enum band)value);
    case FIELD_REASON:
        return band_reason_name((enum reason)value);
    case FIELD_EVENT:
        return event_kind_name((enum event_kind)value);
    case FIELD_ROLE:
        return schema_role_name((enum role)value);
    case FIELD_STAGE:
        return schema_stage_name((enum stage)value);
    default:
        return schema_dtype_name((enum dtype)value);
    }
}

static int enum_find(enum field_type type, const char *name) {
    switch (type) {
    case FIELD_REASON:
        return band_reason_find(name);
    case FIELD_EVENT:
        return event_kind_find(name);
    case FIELD_ROLE:
        return schema_role_find(name);
    case FIELD_STAGE:
        return schema_stage_find(name);
    default:
        return schema_dtype_find(name);
    }
}

static void pack_member(struct pack *pack, const struct field *field, const void *member) {
    switch (field->type) {
    case FIELD_U32:
        msgpack_pack_uint32(&pack->packer, *(const uint32_t *)member);
        break;
    case FIELD_HASH:
    case FIELD_U64:
        msgpack_pack_uint64(&pack->packer, *(const uint64_t *)member);
        break;
    case FIELD_I32:
        msgpack_pack_int32(&pack->packer, *(const int32_t *)member);
        break;
    case FIELD_I64:
    case FIELD_STEP:
        msgpack_pack_int64(&pack->packer, *(const int64_t *)member);
        break;
    case FIELD_NUMBER:
        pack_number(pack, *(const double *)member);
        break;
    case FIELD_TEXT:
        pack_text(pack, member);
        break;
    case FIELD_BAND:
        msgpack_pack_int(&pack->packer, load_enum(member));
        break;
    default:
        pack_text(pack, field_enum_name(field->type, member));
    }
}

void field_pack(struct pack *pack, struct pack_map *map, const struct field_table *table,
                const void *object, const void *plain) {
    for (int i = 0; i < table->fields; i++) {
        const struct field *field = &table->field[i];
        const void *member = (const char *)object + field->offset;
        if (!field->required && field_is_plain(field, member, (const char *)plain + field->offset))
            continue;
        pack_key(pack, map, field->key);
        pack_member(pack, field, member);
    }
}

static int unpack_enum(struct unpack *unpack, enum field_type type, int *value) {
    char name[NAME_SIZE];
    if (unpack_text(unpack, name, sizeof name) < 0) return -1;
    *value = enum_find(type, name);
    return *value < 0 ? -1 : 0;
}

static int unpack_member(struct unpack *unpack, const struct field *field, void *member) {
    static const uint64_t most[] = {
        [FIELD_U32] = UINT32_MAX,      [FIELD_U64] = UINT64_MAX, [FIELD_HASH] = UINT64_MAX,
        [FIELD_I32] = INT32_MAX,       [FIELD_I64] = INT64_MAX,  [FIELD_STEP] = FIELD_STEP_MAX,
        [FIELD_BAND] = BAND_COUNT - 1,
    };
    if (field->type == FIELD_NUMBER) return unpack_number(unpack, member);
    if (field->type == FIELD_TEXT) return unpack_text(unpack, member, field->size);
    if (field->type > FIELD_BAND) {
        int value;
        if (unpack_enum(unpack, field->type, &value) < 0) return -1;
        memcpy(member, &value, sizeof value);
        return 0;
    }
    uint64_t whole;
    if (unpack_whole(unpack, most[field->type], &whole) < 0) return -1;
    uint32_t narrow = (uint32_t)whole;
    memcpy(member, field->size == sizeof whole ? (const void *)&whole : &narrow, field->size);
    return 0;
}

static const char *expected(enum field_type type) {
    switch (type) {
    case FIELD_NUMBER:
        return "is not a number";
    case FIELD_TEXT:
        return "is not UTF-8 text, or too long";
    case FIELD_BAND:
        return "is not 0, 1 or 2";
    case FIELD_REASON:
    case FIELD_EVENT:
    case FIELD_ROLE:
    case FIELD_STAGE:
    case FIELD_DTYPE:
        return "is not one of the names of this protocol";
    default:
        return "is not a whole number, or out of range";
    }
}

int field_unpack(struct unpack *unpack, const struct field_table *table, void *object,
                 struct unpack *value, struct error *error) {
    static_assert(sizeof(enum band) == sizeof(int) && sizeof(enum role) == sizeof(int),
                  "enums are as large as an int");
    const char *keys[KEYS_MAX];
    struct unpack found[KEYS_MAX];
    assert(table->fields + table->mores <= KEYS_MAX);
    for (int i = 0; i < table->fields; i++) keys[i] = table->field[i].key;
    for (int i = 0; i < table->mores; i++) keys[table->fields + i] = table->more[i];
    if (unpack_keys(unpack, keys, table->fields + table->mores, found) < 0) {
        return error_set(error, "%s: not a MessagePack map, or cut short", table->what);
    }
    for (int i = 0; i < table->fields; i++) {
        const struct field *field = &table->field[i];
        if (!found[i].at) {
            if (field->required)
                return error_set(error, "%s: %s is missing", table->what, field->key);
        } else if (unpack_member(&found[i], field, (char *)object + field->offset) < 0) {
            return error_set(error, "%s: %s %s", table->what, field->key, expected(field->type));
        }
    }
    if (table->mores > 0)
        memcpy(value, found + table->fields, (size_t)table->mores * sizeof *value);
    return 0;
}

int field_unpack_body(struct unpack body, const struct field_table *table, void *object,
                      struct unpack *value, struct error *error) {
    size_t size = (size_t)(body.end - body.at);
    if (size > UNPACK_BYTES_MAX)
        return error_set(error, "%s: %zu bytes are more than a message may have", table->what,
                         size);
    if (field_unpack(&body, table, object, value, error) < 0) return -1;
    if (body.at != body.end)
        return error_set(error, "%s: %td bytes after its end", table->what, body.end - body.at);
    return 0;
}
