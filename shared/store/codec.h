/* Records, events and hellos as MessagePack maps: what goes over the wire and, as a blob, into the
 * run file. Packed with msgpack-c; decoded by a bounded pull reader of our own into the caller's
 * structs. docs/protocol.md is the description. */
#ifndef STORE_CODEC_H
#define STORE_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include "shared/core/error.h"
#include "shared/core/record.h"
#include "shared/core/series.h"
#include "shared/store/buffer.h"

enum { CODEC_MAJOR = 1 };

/* Encoders replace what the buffer holds; -1: no memory. */
int codec_encode_hello(struct buffer *out, const struct hello *hello);
int codec_encode_record(struct buffer *out, const struct schema *schema,
                        const struct record *record);
int codec_encode_event(struct buffer *out, const struct event *event);
int codec_encode_beat(struct buffer *out, uint64_t seq, uint64_t schema_id);

/* Decoders read bytes of an enemy: every size is limited before it is believed, unknown keys are
 * skipped, output (initialised by the caller) changes only on success; -1 with the reason. The
 * decoded hello owns its schema; a sealed one is the same to every reader, so its id is computed,
 * not believed. */
int codec_decode_hello(const void *data, size_t size, struct hello *hello, struct error *error);
/* Against the schema of its run: a schema id in the message that is another one's is an error, and
 * a reason to ask for the hello again. Returns 1 when the message has no band: the reader is to
 * judge the record. */
int codec_decode_record(const void *data, size_t size, const struct schema *schema,
                        struct record *record, struct error *error);
/* The event's tensor may lie outside the schema of a run. */
int codec_decode_event(const void *data, size_t size, struct event *event, struct error *error);
int codec_decode_beat(const void *data, size_t size, uint64_t *seq, uint64_t *schema_id,
                      struct error *error);

/* Arguments of a request to the history socket. */
struct codec_request {
    uint64_t id;                /* comes back in the reply */
    int64_t level, first, last; /* -1: left out */
};
void codec_request_init(struct codec_request *request);
int codec_encode_request(struct buffer *out, const struct codec_request *request);
/* No bytes at all are a request without arguments. */
int codec_decode_request(const void *data, size_t size, struct codec_request *request,
                         struct error *error);

/* The first body of every reply. */
struct codec_status {
    uint64_t id;  /* of the request */
    uint64_t seq; /* newest handed out: up to it the reply knows all, after it the live socket */
    uint64_t schema_id;
    int64_t first_step, last_step; /* that can be asked for; -1: none */
    int64_t next;                  /* the answer is cut: where to ask on; -1: it is whole */
    char text[RECORD_TEXT_SIZE];   /* of an `error` reply: why */
};
void codec_status_init(struct codec_status *status);
int codec_encode_status(struct buffer *out, const struct codec_status *status);
int codec_decode_status(const void *data, size_t size, struct codec_status *status,
                        struct error *error);

/* A run of buckets of one level, oldest first: what answers `pyramid?` and what the `bucket`
 * message and the run file hold. */
struct codec_buckets {
    int level;
    int count, metrics;
    struct series_bucket *bucket; /* (count) */
    struct series_value *value;   /* (count, metrics) */
};
int codec_encode_buckets(struct buffer *out, const struct schema *schema,
                         const struct codec_buckets *buckets);
/* Takes memory for the arrays; codec_buckets_free gives it back. */
int codec_decode_buckets(const void *data, size_t size, const struct schema *schema,
                         struct codec_buckets *out, struct error *error);
void codec_buckets_free(struct codec_buckets *buckets);

#endif
