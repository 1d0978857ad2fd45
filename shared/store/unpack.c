#include "shared/store/unpack.h"

#include <string.h>

#include "shared/core/text.h"

enum kind {
    KIND_NIL,
    KIND_BOOL,
    KIND_WHOLE,
    KIND_NEGATIVE,
    KIND_REAL,
    KIND_TEXT,
    KIND_BYTES,
    KIND_ARRAY,
    KIND_MAP
};

struct item {
    enum kind kind;
    uint64_t whole; /* an integer in two's complement; size of text, bytes, array; pairs of a map */
    double real;
    const unsigned char *data; /* of text and bytes */
};

struct unpack unpack_init(const void *data, size_t size) {
    const unsigned char *at = data;
    return (struct unpack){.at = at, .end = at ? at + size : at};
}

static size_t left(const struct unpack *unpack) { return (size_t)(unpack->end - unpack->at); }

static int take_big_endian(struct unpack *unpack, size_t size, uint64_t *value) {
    if (left(unpack) < size) return -1;
    *value = 0;
    for (size_t i = 0; i < size; i++) *value = *value << 8 | *unpack->at++;
    return 0;
}

static int take_whole(struct unpack *unpack, size_t size, struct item *item) {
    item->kind = KIND_WHOLE;
    return take_big_endian(unpack, size, &item->whole);
}

static int take_signed(struct unpack *unpack, size_t size, struct item *item) {
    if (take_big_endian(unpack, size, &item->whole) < 0) return -1;
    uint64_t sign = UINT64_C(1) << (8 * size - 1);
    item->whole = (item->whole ^ sign) - sign;
    item->kind = item->whole >> 63 ? KIND_NEGATIVE : KIND_WHOLE;
    return 0;
}

static int take_real(struct unpack *unpack, size_t size, struct item *item) {
    uint64_t bits;
    if (take_big_endian(unpack, size, &bits) < 0) return -1;
    item->kind = KIND_REAL;
    if (size == 8) {
        memcpy(&item->real, &bits, sizeof item->real);
    } else {
        uint32_t half = (uint32_t)bits;
        float real;
        memcpy(&real, &half, sizeof real);
        item->real = (double)real;
    }
    return 0;
}

/* Text and bytes are there in full, or it is an error; `extra` is the type byte of an extension. */
static int take_bytes(struct unpack *unpack, enum kind kind, uint64_t size, size_t extra,
                      struct item *item) {
    if (left(unpack) < extra || left(unpack) - extra < size) return -1;
    *item = (struct item){.kind = kind, .whole = size, .data = unpack->at + extra};
    unpack->at += extra + size;
    return 0;
}

/* An element takes a byte at least, so a count beyond the bytes at hand is a lie. */
static int take_container(struct unpack *unpack, enum kind kind, uint64_t count,
                          struct item *item) {
    if (count > left(unpack) / (kind == KIND_MAP ? 2 : 1)) return -1;
    *item = (struct item){.kind = kind, .whole = count};
    return 0;
}

static int take_sized(struct unpack *unpack, unsigned head, struct item *item) {
    static const struct {
        unsigned char kind, size_bytes, extra;
    } heads[] = {
        [0xc4 - 0xc4] = {KIND_BYTES, 1, 0},
        {KIND_BYTES, 2, 0},
        {KIND_BYTES, 4, 0},
        [0xc7 - 0xc4] = {KIND_BYTES, 1, 1},
        {KIND_BYTES, 2, 1},
        {KIND_BYTES, 4, 1},
        [0xd9 - 0xc4] = {KIND_TEXT, 1, 0},
        {KIND_TEXT, 2, 0},
        {KIND_TEXT, 4, 0},
        [0xdc - 0xc4] = {KIND_ARRAY, 2, 0},
        {KIND_ARRAY, 4, 0},
        [0xde - 0xc4] = {KIND_MAP, 2, 0},
        {KIND_MAP, 4, 0},
    };
    enum kind kind = heads[head - 0xc4].kind;
    uint64_t size;
    if (take_big_endian(unpack, heads[head - 0xc4].size_bytes, &size) < 0) return -1;
    if (kind == KIND_ARRAY || kind == KIND_MAP) return take_container(unpack, kind, size, item);
    return take_bytes(unpack, kind, size, heads[head - 0xc4].extra, item);
}

static int take(struct unpack *unpack, struct item *item) {
    *item = (struct item){.kind = KIND_NIL};
    if (left(unpack) == 0) return -1;
    unsigned head = *unpack->at++;
    if (head < 0x80) {
        item->kind = KIND_WHOLE;
        item->whole = head;
        return 0;
    }
    if (head < 0x90) return take_container(unpack, KIND_MAP, head & 15, item);
    if (head < 0xa0) return take_container(unpack, KIND_ARRAY, head & 15, item);
    if (head < 0xc0) return take_bytes(unpack, KIND_TEXT, head & 31, 0, item);
    if (head >= 0xe0) {
        item->kind = KIND_NEGATIVE;
        item->whole = (uint64_t)(int64_t)(signed char)head;
        return 0;
    }
    switch (head) {
    case 0xc0:
        return 0;
    case 0xc1:
        return -1;
    case 0xc2:
    case 0xc3:
        item->kind = KIND_BOOL;
        item->whole = head & 1;
        return 0;
    case 0xca:
        return take_real(unpack, 4, item);
    case 0xcb:
        return take_real(unpack, 8, item);
    case 0xcc:
    case 0xcd:
    case 0xce:
    case 0xcf:
        return take_whole(unpack, (size_t)1 << (head - 0xcc), item);
    case 0xd0:
    case 0xd1:
    case 0xd2:
    case 0xd3:
        return take_signed(unpack, (size_t)1 << (head - 0xd0), item);
    case 0xd4:
    case 0xd5:
    case 0xd6:
    case 0xd7:
    case 0xd8:
        return take_bytes(unpack, KIND_BYTES, UINT64_C(1) << (head - 0xd4), 1, item);
    default:
        return take_sized(unpack, head, item);
    }
}

/* Bytes of a value that is neither text, bytes nor a container; 0: it is one of them. Most of a
 * message is such values, and unpack_keys goes over all of them before anything is read. */
static size_t scalar_size(unsigned head) {
    static const unsigned char sizes[32] = {
        [0x00] = 1, [0x02] = 1, [0x03] = 1, [0x0a] = 5, [0x0b] = 9, [0x0c] = 2, [0x0d] = 3,
        [0x0e] = 5, [0x0f] = 9, [0x10] = 2, [0x11] = 3, [0x12] = 5, [0x13] = 9,
    };
    if (head < 0x80 || head >= 0xe0) return 1;
    return head < 0xc0 ? 0 : sizes[head - 0xc0];
}

int unpack_skip(struct unpack *unpack) {
    for (uint64_t pending = 1; pending > 0; pending--) {
        if (pending > left(unpack)) return -1;
        size_t size = scalar_size(*unpack->at);
        if (size > left(unpack)) return -1;
        unpack->at += size;
        if (size > 0) continue;
        struct item item;
        if (take(unpack, &item) < 0) return -1;
        if (item.kind == KIND_ARRAY) pending += item.whole;
        if (item.kind == KIND_MAP) pending += 2 * item.whole;
    }
    return 0;
}

bool unpack_nil(struct unpack *unpack) {
    bool nil = left(unpack) > 0 && *unpack->at == 0xc0;
    unpack->at += nil;
    return nil;
}

int unpack_whole(struct unpack *unpack, uint64_t most, uint64_t *value) {
    struct item item;
    if (take(unpack, &item) < 0 || item.kind != KIND_WHOLE || item.whole > most) return -1;
    *value = item.whole;
    return 0;
}

int unpack_number(struct unpack *unpack, double *value) {
    struct item item;
    if (take(unpack, &item) < 0) return -1;
    switch (item.kind) {
    case KIND_REAL:
        *value = item.real;
        return 0;
    case KIND_BOOL:
    case KIND_WHOLE:
        *value = (double)item.whole;
        return 0;
    case KIND_NEGATIVE:
        *value = (double)(int64_t)item.whole;
        return 0;
    default:
        return -1;
    }
}

static int take_text(struct unpack *unpack, char *out, size_t size, bool cut) {
    struct item item;
    if (take(unpack, &item) < 0 || item.kind != KIND_TEXT) return -1;
    if (!cut && item.whole >= size) return -1;
    size_t used = 0, kept = 0;
    while (used < item.whole) {
        uint32_t point;
        size_t length = text_character(item.data + used, item.whole - used, &point);
        if (length == 0) return -1;
        used += length;
        if (used < size) kept = used;
    }
    memcpy(out, item.data, kept);
    out[kept] = '\0';
    return 0;
}

int unpack_text(struct unpack *unpack, char *out, size_t size) {
    return take_text(unpack, out, size, false);
}
int unpack_text_cut(struct unpack *unpack, char *out, size_t size) {
    return take_text(unpack, out, size, true);
}

int unpack_array(struct unpack *unpack, size_t most, size_t *count) {
    struct item item;
    if (take(unpack, &item) < 0 || item.kind != KIND_ARRAY || item.whole > most) return -1;
    *count = item.whole;
    return 0;
}

int unpack_map(struct unpack *unpack, size_t *pairs) {
    struct item item;
    if (take(unpack, &item) < 0 || item.kind != KIND_MAP) return -1;
    *pairs = item.whole;
    return 0;
}

static int find_key(const struct item *item, const char *const *keys, int count) {
    if (item->kind != KIND_TEXT) return -1;
    for (int i = 0; i < count; i++) {
        if (strlen(keys[i]) == item->whole && memcmp(keys[i], item->data, item->whole) == 0)
            return i;
    }
    return -1;
}

int unpack_keys(struct unpack *unpack, const char *const *keys, int count, struct unpack *value) {
    for (int i = 0; i < count; i++) value[i] = (struct unpack){NULL, NULL};
    size_t pairs;
    if (unpack_map(unpack, &pairs) < 0) return -1;
    while (pairs-- > 0) {
        struct unpack key = *unpack;
        struct item item;
        if (unpack_skip(unpack) < 0 || take(&key, &item) < 0) return -1;
        const unsigned char *begin = unpack->at;
        if (unpack_skip(unpack) < 0) return -1;
        int found = find_key(&item, keys, count);
        if (found >= 0) value[found] = (struct unpack){*begin == 0xc0 ? NULL : begin, unpack->at};
    }
    return 0;
}
