#include "shared/store/pack.h"

#include <float.h>
#include <math.h>
#include <string.h>

static int append(void *user, const char *data, size_t size) {
    struct pack *pack = user;
    if (!pack->failed) pack->failed = buffer_append(pack->out, data, size) < 0;
    return pack->failed ? -1 : 0;
}

void pack_init(struct pack *pack, struct buffer *out) {
    out->size = 0;
    pack->out = out;
    pack->failed = false;
    msgpack_packer_init(&pack->packer, pack, append);
}

struct pack_map pack_begin_map(struct pack *pack) {
    struct pack_map map = {.at = pack->out->size};
    msgpack_pack_map(&pack->packer,
                     UINT16_MAX); /* the head with a 16-bit count, which pack_end_map puts right */
    return map;
}

void pack_key(struct pack *pack, struct pack_map *map, const char *key) {
    map->pairs++;
    pack_text(pack, key);
}

void pack_end_map(struct pack *pack, const struct pack_map *map) {
    if (pack->failed) return;
    pack->out->data[map->at + 1] = (char)(map->pairs >> 8);
    pack->out->data[map->at + 2] = (char)(map->pairs & 0xff);
}

void pack_text(struct pack *pack, const char *text) {
    msgpack_pack_str_with_body(&pack->packer, text, strlen(text));
}

void pack_number(struct pack *pack, double value) {
    bool whole =
        fabs(value) < 2147483648.0 && value == trunc(value) && !(value == 0 && signbit(value));
    if (whole) {
        msgpack_pack_int64(&pack->packer, (int64_t)value);
    } else if (!isfinite(value) ||
               (fabs(value) <= (double)FLT_MAX && (double)(float)value == value)) {
        msgpack_pack_float(&pack->packer, (float)value);
    } else {
        msgpack_pack_double(&pack->packer, value);
    }
}

void pack_known(struct pack *pack, double value) {
    if (isnan(value)) {
        msgpack_pack_nil(&pack->packer);
    } else {
        pack_number(pack, value);
    }
}
