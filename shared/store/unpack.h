/* A bounded pull reader of MessagePack: it allocates nothing, does not recurse, and never believes
 * a size that the bytes at hand cannot hold. Every function returns 0, or -1 when the next value is
 * not what was asked for; a reader is then spent. */
#ifndef STORE_UNPACK_H
#define STORE_UNPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { UNPACK_BYTES_MAX = 16 << 20 }; /* of one message */

struct unpack {
    const unsigned char *at, *end; /* at NULL: there is no value here */
};

struct unpack unpack_init(const void *data, size_t size);

/* Past one value of any type and depth, in time linear in its bytes. */
int unpack_skip(struct unpack *unpack);
/* True when the next value is nil, which is taken. */
bool unpack_nil(struct unpack *unpack);
/* A whole number 0..most. */
int unpack_whole(struct unpack *unpack, uint64_t most, uint64_t *value);
/* Any integer, float or boolean. */
int unpack_number(struct unpack *unpack, double *value);
/* UTF-8 without NUL that fits into `size` bytes with its terminator. */
int unpack_text(struct unpack *unpack, char *out, size_t size);
/* Likewise, but cut at the end of a character where it does not fit. */
int unpack_text_cut(struct unpack *unpack, char *out, size_t size);
/* The head of an array of at most `most` values, or of a map of key and value pairs. */
int unpack_array(struct unpack *unpack, size_t most, size_t *count);
int unpack_map(struct unpack *unpack, size_t *pairs);
/* Past a whole map; value[i] becomes a reader at the value of keys[i], at NULL where that is absent
 * or nil. */
int unpack_keys(struct unpack *unpack, const char *const *keys, int count, struct unpack *value);

#endif
