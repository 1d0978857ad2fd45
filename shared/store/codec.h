/* Records, events and hellos as MessagePack maps: what goes over the wire and, as a blob, into the run file. Packed with
 * msgpack-c; decoded by a bounded pull reader of our own into the caller's structs. docs/protocol.md is the description. */
#ifndef STORE_CODEC_H
#define STORE_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include "shared/core/record.h"
#include "shared/core/series.h"

enum { CODEC_MAJOR = 1, CODEC_BYTES_MAX = 16 << 20 };

/* A growing buffer of bytes. Zero it to begin; `size` is reset by every encode. */
struct codec_buffer {
    char *data;
    size_t size, room;
};
void codec_free(struct codec_buffer *buffer);

/* Encoders replace what the buffer holds; -1: no memory. */
int codec_encode_hello(struct codec_buffer *out, const struct hello *hello);
int codec_encode_record(struct codec_buffer *out, const struct schema *schema, const struct record *record);
int codec_encode_event(struct codec_buffer *out, const struct event *event);
int codec_encode_beat(struct codec_buffer *out, uint64_t seq, uint64_t schema_id);

/* Decoders read bytes of an enemy: every size is limited before it is believed, unknown keys are skipped, output changes only
 * on success; -1 with the reason. The decoded hello owns its schema. A record is decoded against the schema of its run:
 * metrics and statistics are arrays in the schema's published order. */
int codec_decode_hello(const void *data, size_t size, struct hello *hello, struct error *error);
int codec_decode_record(const void *data, size_t size, const struct schema *schema, struct record *record, struct error *error);
int codec_decode_event(const void *data, size_t size, struct event *event, struct error *error);
int codec_decode_beat(const void *data, size_t size, uint64_t *seq, uint64_t *schema_id, struct error *error);

/* A run of buckets of one level, oldest first: what answers `pyramid?` and what the `bucket` message and the run file hold. */
struct codec_buckets {
    int level;
    int count, metrics;
    struct series_bucket *bucket;  /* (count) */
    struct series_value *value;    /* (count, metrics) */
};
int codec_encode_buckets(struct codec_buffer *out, const struct schema *schema, const struct codec_buckets *buckets);
/* Takes memory for the arrays; codec_buckets_free gives it back. */
int codec_decode_buckets(const void *data, size_t size, const struct schema *schema, struct codec_buckets *out,
                         struct error *error);
void codec_buckets_free(struct codec_buckets *buckets);

#endif
