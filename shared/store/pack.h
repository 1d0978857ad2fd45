/* Writing MessagePack with msgpack-c into a buffer; no memory is remembered until the end. */
#ifndef STORE_PACK_H
#define STORE_PACK_H

#include <msgpack.h>
#include <stdbool.h>

#include "shared/store/buffer.h"

struct pack {
    msgpack_packer packer; /* for everything that has no shorthand below */
    struct buffer *out;
    bool failed; /* no memory: the buffer is not whole */
};

/* Empties `out`, which is kept until the last call. */
void pack_init(struct pack *pack, struct buffer *out);

/* A map whose size is known at its end: key, value, key, value, ... between begin and end. */
struct pack_map {
    size_t at; /* of its head in the buffer */
    unsigned pairs;
};
struct pack_map pack_begin_map(struct pack *pack);
void pack_key(struct pack *pack, struct pack_map *map, const char *key);
void pack_end_map(struct pack *pack, const struct pack_map *map);

void pack_text(struct pack *pack, const char *text);
/* In the shortest form that holds it exactly. */
void pack_number(struct pack *pack, double value);
/* nil for a NaN. */
void pack_known(struct pack *pack, double value);

#endif
