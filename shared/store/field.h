/* The plain members of a struct as keys of a MessagePack map: one table from which both directions
 * come. A member is left out where it is as in an initialised struct, and then stays so. */
#ifndef STORE_FIELD_H
#define STORE_FIELD_H

#include <stddef.h>

#include "shared/core/error.h"
#include "shared/store/pack.h"
#include "shared/store/unpack.h"

enum field_type {
    FIELD_U32,
    FIELD_U64,
    FIELD_HASH, /* uint64_t; 16 hexadecimal digits where it is text */
    FIELD_I32,  /* not negative on the wire: -1 is left out */
    FIELD_I64,
    FIELD_STEP, /* int64_t or uint64_t, up to 2^53: a step, count or seq */
    FIELD_NUMBER,
    FIELD_TEXT,
    FIELD_BAND, /* enums by name, but the band by number */
    FIELD_REASON,
    FIELD_EVENT,
    FIELD_ROLE,
    FIELD_STAGE,
    FIELD_DTYPE
};

struct field {
    const char *key;
    enum field_type type;
    bool required;
    size_t offset, size;
};

#define FIELD_OF(type_, must, object, member)                          \
    {                                                                  \
#member, FIELD_##type_, must, offsetof(struct object, member), \
            sizeof((struct object *)0)->member                         \
    }
#define FIELD(type_, object, member)          FIELD_OF(type_, false, object, member)
#define FIELD_REQUIRED(type_, object, member) FIELD_OF(type_, true, object, member)

/* The largest step or seq on the wire: exact in a double, and one more never overflows. */
#define FIELD_STEP_MAX (INT64_C(1) << 53)

#define FIELD_COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

struct field_table {
    const char *what; /* "step", for errors */
    const struct field *field;
    int fields;
    const char *const *more; /* keys whose values are not plain */
    int mores;
};

/* True where a member is to be left out. Both point at the member. */
bool field_is_plain(const struct field *field, const void *member, const void *plain);
/* The text of an enum's member: of a band too. */
const char *field_enum_name(enum field_type type, const void *member);

/* `plain`: the same struct as initialised. */
void field_pack(struct pack *pack, struct pack_map *map, const struct field_table *table,
                const void *object, const void *plain);

/* Past one map: the table's keys into the object, and value[i] becomes a reader at more[i], as with
 * unpack_keys. On -1 the object is half written. */
int field_unpack(struct unpack *unpack, const struct field_table *table, void *object,
                 struct unpack *value, struct error *error);
/* Likewise a whole message: not larger than a body may be, and nothing after the map. */
int field_unpack_body(struct unpack body, const struct field_table *table, void *object,
                      struct unpack *value, struct error *error);

#endif
