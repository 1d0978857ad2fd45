#include "shared/store/codec.h"

#include "shared/store/field.h"

static const struct field event_field[] = {
    FIELD_REQUIRED(EVENT, event, kind),
    FIELD(STEP, event, seq),
    FIELD(I64, event, wall_ns),
    FIELD(STEP, event, step),
    FIELD(I32, event, epoch),
    FIELD(I32, event, phase),
    FIELD(I32, event, batch),
    FIELD(BAND, event, band),
    FIELD(REASON, event, reason),
    FIELD(TEXT, event, subject),
    FIELD(NUMBER, event, value),
    FIELD(NUMBER, event, limit),
    FIELD(NUMBER, event, usual),
    FIELD(I32, event, tensor),
    FIELD(STAGE, event, stage),
    FIELD(STEP, event, bad_index),
    FIELD(STEP, event, nan),
    FIELD(STEP, event, pos_inf),
    FIELD(STEP, event, neg_inf),
    FIELD(STEP, event, count),
    FIELD(HASH, event, input_hash),
    FIELD(HASH, event, label_hash),
    FIELD(STEP, event, onset),
    FIELD(STEP, event, lead),
    FIELD(STEP, event, first_seq),
    FIELD(STEP, event, last_seq),
    FIELD(TEXT, event, text),
};
static const struct field_table event_table = {"event", event_field, FIELD_COUNT(event_field), NULL,
                                               0};

struct beat {
    uint64_t seq, schema_id;
};
static const struct field beat_field[] = {FIELD_REQUIRED(STEP, beat, seq),
                                          FIELD(U64, beat, schema_id)};
static const struct field_table beat_table = {"beat", beat_field, FIELD_COUNT(beat_field), NULL, 0};

static const struct field request_field[] = {
    FIELD(U64, codec_request, id),
    FIELD(I64, codec_request, level),
    FIELD(I64, codec_request, first),
    FIELD(I64, codec_request, last),
};
static const struct field_table request_table = {"request", request_field,
                                                 FIELD_COUNT(request_field), NULL, 0};

static const struct field status_field[] = {
    FIELD(U64, codec_status, id),         FIELD(STEP, codec_status, seq),
    FIELD(U64, codec_status, schema_id),  FIELD(STEP, codec_status, first_step),
    FIELD(STEP, codec_status, last_step), FIELD(I64, codec_status, next),
    FIELD(TEXT, codec_status, text),
};
static const struct field_table status_table = {"status", status_field, FIELD_COUNT(status_field),
                                                NULL, 0};

/* A message that is nothing but its table. */
static int encode_plain(struct buffer *out, const struct field_table *table, const void *object,
                        const void *plain) {
    struct pack pack;
    pack_init(&pack, out);
    struct pack_map map = pack_begin_map(&pack);
    field_pack(&pack, &map, table, object, plain);
    pack_end_map(&pack, &map);
    return pack.failed ? -1 : 0;
}

int codec_encode_event(struct buffer *out, const struct event *event) {
    struct event plain;
    event_init(&plain, event->kind);
    return encode_plain(out, &event_table, event, &plain);
}

int codec_decode_event(const void *data, size_t size, struct event *event, struct error *error) {
    struct event fresh;
    event_init(&fresh, EVENT_NOTICE);
    if (field_unpack_body(unpack_init(data, size), &event_table, &fresh, NULL, error) < 0)
        return -1;
    if (fresh.tensor >= SCHEMA_TENSORS_MAX)
        return error_set(error, "event: tensor is beyond any schema");
    *event = fresh;
    return 0;
}

int codec_encode_beat(struct buffer *out, uint64_t seq, uint64_t schema_id) {
    return encode_plain(out, &beat_table, &(struct beat){seq, schema_id}, &(struct beat){0});
}

int codec_decode_beat(const void *data, size_t size, uint64_t *seq, uint64_t *schema_id,
                      struct error *error) {
    struct beat beat = {0};
    if (field_unpack_body(unpack_init(data, size), &beat_table, &beat, NULL, error) < 0) return -1;
    *seq = beat.seq;
    *schema_id = beat.schema_id;
    return 0;
}

void codec_request_init(struct codec_request *request) {
    *request = (struct codec_request){.level = -1, .first = -1, .last = -1};
}

int codec_encode_request(struct buffer *out, const struct codec_request *request) {
    struct codec_request plain;
    codec_request_init(&plain);
    return encode_plain(out, &request_table, request, &plain);
}

int codec_decode_request(const void *data, size_t size, struct codec_request *request,
                         struct error *error) {
    struct codec_request fresh;
    codec_request_init(&fresh);
    if (size > 0 &&
        field_unpack_body(unpack_init(data, size), &request_table, &fresh, NULL, error) < 0)
        return -1;
    *request = fresh;
    return 0;
}

void codec_status_init(struct codec_status *status) {
    *status = (struct codec_status){.first_step = -1, .last_step = -1, .next = -1};
}

int codec_encode_status(struct buffer *out, const struct codec_status *status) {
    struct codec_status plain;
    codec_status_init(&plain);
    return encode_plain(out, &status_table, status, &plain);
}

int codec_decode_status(const void *data, size_t size, struct codec_status *status,
                        struct error *error) {
    struct codec_status fresh;
    codec_status_init(&fresh);
    if (field_unpack_body(unpack_init(data, size), &status_table, &fresh, NULL, error) < 0)
        return -1;
    *status = fresh;
    return 0;
}
