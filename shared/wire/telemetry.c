#include "shared/wire/telemetry.h"

#include <string.h>

#include "shared/core/error.h"

#define MS INT64_C(1000000)

int telemetry_init(struct telemetry *telemetry, const struct hello *hello, int queue,
                   const char *run_file) {
    memset(telemetry, 0, sizeof *telemetry);
    telemetry->last_step = telemetry->bucket_step = -1;
    hello_init(&telemetry->hello);
    if (hello_copy(&telemetry->hello, hello) < 0 ||
        queue_init(&telemetry->queue, queue, hello->schema.tensors) < 0 ||
        history_init(&telemetry->history, &telemetry->hello, run_file) < 0) {
        telemetry_free(telemetry);
        return -1;
    }
    return 0;
}

void telemetry_free(struct telemetry *telemetry) {
    history_free(&telemetry->history);
    recorder_close(&telemetry->recorder);
    queue_free(&telemetry->queue);
    hello_free(&telemetry->hello);
    buffer_free(&telemetry->body);
    memset(telemetry, 0, sizeof *telemetry);
}

/* A PUB socket drops what a reader does not take; it never waits. */
static void publish(struct telemetry *telemetry, const char *kind, zmq_msg_t *body) {
    char topic[MESSAGE_TOPIC_SIZE];
    topic_format(topic, telemetry->hello.run_id, kind);
    zmq_send(telemetry->live, topic, strlen(topic), ZMQ_DONTWAIT | ZMQ_SNDMORE);
    if (zmq_msg_send(body, telemetry->live, ZMQ_DONTWAIT) < 0) zmq_msg_close(body);
}

static void publish_body(struct telemetry *telemetry, const char *kind, const struct buffer *body) {
    zmq_msg_t message;
    if (zmq_msg_init_size(&message, body->size) < 0) return;
    memcpy(zmq_msg_data(&message), body->data, body->size);
    publish(telemetry, kind, &message);
}

/* Into the group that is published after its commit. */
static void stage(struct telemetry *telemetry, const char *kind) {
    zmq_msg_t *body = &telemetry->group[telemetry->staged].body;
    telemetry->group[telemetry->staged].kind = kind;
    if (zmq_msg_init_size(body, telemetry->body.size) < 0) return;
    memcpy(zmq_msg_data(body), telemetry->body.data, telemetry->body.size);
    telemetry->staged_bytes += telemetry->body.size;
    telemetry->staged++;
}

static void stage_event(struct telemetry *telemetry, const struct event *event) {
    if (codec_encode_event(&telemetry->body, event) < 0) return;
    recorder_add_event(&telemetry->recorder, event);
    history_add_event(&telemetry->history, event, &telemetry->body);
    stage(telemetry, "event");
}

/* Writes the bucket of the newest step on every level above the steps themselves, where step `next`
 * has left it behind. */
static void record_buckets(struct telemetry *telemetry, int64_t next) {
    const struct series *series = &telemetry->history.series;
    int64_t last = telemetry->last_step;
    for (int level = 1; level < SERIES_LEVELS && last >= 0; level++) {
        int64_t width = series->level[level].width, first = last / width * width;
        const struct series_value *found;
        const struct series_bucket *bucket = series_find(series, level, first, &found);
        if (next < first + width || !bucket) continue;
        struct series_value value[SCHEMA_METRICS_MAX];
        struct series_bucket copy = *bucket;
        memcpy(value, found, (size_t)series->metrics * sizeof *value);
        struct codec_buckets one = {level, 1, series->metrics, &copy, value};
        recorder_add_buckets(&telemetry->recorder, &telemetry->hello.schema, &one);
    }
}

static void stage_record(struct telemetry *telemetry, struct record *record) {
    if (codec_encode_record(&telemetry->body, &telemetry->hello.schema, record) < 0) return;
    struct runfile_step step = {record, telemetry->body.data, telemetry->body.size};
    record_buckets(telemetry, record->step);
    recorder_add_step(&telemetry->recorder, &step);
    history_add_record(&telemetry->history, record, &telemetry->body);
    telemetry->last_step = record->step;
    stage(telemetry, "step");
}

/* What was dropped has used up its seqs. */
static void stage_gap(struct telemetry *telemetry, uint64_t dropped, int64_t wall_ns) {
    struct event gap;
    if (dropped == 0) return;
    event_init(&gap, EVENT_GAP);
    gap.first_seq = telemetry->seq + 1;
    gap.last_seq = telemetry->seq + dropped;
    gap.seq = telemetry->seq += dropped + 1;
    gap.wall_ns = wall_ns;
    gap.step = telemetry->last_step;
    stage_event(telemetry, &gap);
}

static void stage_item(struct telemetry *telemetry, struct queue_item *item) {
    if (item->is_event) {
        item->event.seq = ++telemetry->seq;
        stage_event(telemetry, &item->event);
    } else {
        item->record.seq = ++telemetry->seq;
        item->record.schema_id = telemetry->hello.schema.id;
        stage_record(telemetry, &item->record);
    }
}

static void begin_group(struct telemetry *telemetry, int64_t mono_ns) {
    telemetry->group_first = telemetry->seq + 1;
    recorder_begin(&telemetry->recorder, mono_ns);
}

/* Nothing is published that a killed trainer would not find in its run file. */
static void end_group(struct telemetry *telemetry, int64_t mono_ns) {
    recorder_commit(&telemetry->recorder, telemetry->group_first, telemetry->seq, mono_ns);
    for (int i = 0; i < telemetry->staged; i++) {
        publish(telemetry, telemetry->group[i].kind, &telemetry->group[i].body);
    }
    telemetry->staged = 0;
    telemetry->staged_bytes = 0;
}

/* A record and its events are not parted: readers tell from them whether the step rang. */
static bool fits(const struct telemetry *telemetry, const struct queue_item *item) {
    if (telemetry->staged + 2 > TELEMETRY_GROUP_MOST) return false;
    return item->is_event ||
           (telemetry->staged < TELEMETRY_GROUP && telemetry->staged_bytes < TELEMETRY_GROUP_BYTES);
}

static void take_group(struct telemetry *telemetry, struct telemetry_time now) {
    struct queue_item *item = queue_peek(&telemetry->queue);
    if (!item) return;
    begin_group(telemetry, now.mono_ns);
    while (item && fits(telemetry, item)) {
        stage_gap(telemetry, item->dropped, now.wall_ns);
        stage_item(telemetry, item);
        queue_take(&telemetry->queue);
        item = queue_peek(&telemetry->queue);
    }
    end_group(telemetry, now.mono_ns);
}

static void tell_unrecorded(struct telemetry *telemetry, struct telemetry_time now) {
    struct event event;
    if (!recorder_tell(&telemetry->recorder, &event, telemetry->seq + 1, now.mono_ns)) return;
    event.wall_ns = now.wall_ns;
    event.step = telemetry->last_step;
    begin_group(telemetry, now.mono_ns);
    telemetry->seq++;
    stage_event(telemetry, &event);
    end_group(telemetry, now.mono_ns);
}

static void beat(struct telemetry *telemetry, int64_t mono_ns) {
    if (telemetry->beat_ns && mono_ns - telemetry->beat_ns < TELEMETRY_BEAT_MS * MS) return;
    telemetry->beat_ns = mono_ns;
    if (codec_encode_beat(&telemetry->body, telemetry->seq, telemetry->hello.schema.id) < 0) return;
    publish_body(telemetry, "beat", &telemetry->body);
}

/* Of the finest level on which no bucket is passed over. */
static void publish_bucket(struct telemetry *telemetry, int64_t mono_ns) {
    int64_t since = telemetry->last_step - telemetry->bucket_step, next;
    if (since <= 0 || mono_ns - telemetry->bucket_ns < TELEMETRY_BUCKET_MS * MS) return;
    int level = 0;
    while (level + 1 < SERIES_LEVELS && telemetry->history.series.level[level].width < since)
        level++;
    const struct buffer *body = history_buckets(
        &telemetry->history, level, telemetry->bucket_step + 1, telemetry->last_step, &next);
    if (body) publish_body(telemetry, "bucket", body);
    telemetry->bucket_step = telemetry->last_step;
    telemetry->bucket_ns = mono_ns;
}

void telemetry_greet(struct telemetry *telemetry) {
    publish_body(telemetry, "hello", &telemetry->history.hello_body);
}

bool telemetry_round(struct telemetry *telemetry, struct telemetry_time now) {
    int requests = 0;
    while (requests < TELEMETRY_REQUESTS && history_answer(&telemetry->history, telemetry->router))
        requests++;
    take_group(telemetry, now);
    tell_unrecorded(telemetry, now);
    publish_bucket(telemetry, now.mono_ns);
    beat(telemetry, now.mono_ns);
    return queue_peek(&telemetry->queue) != NULL;
}

void telemetry_finish(struct telemetry *telemetry, struct telemetry_time now) {
    while (telemetry_round(telemetry, now)) continue;
    if (telemetry->queue.dropped > 0) {
        begin_group(telemetry, now.mono_ns);
        stage_gap(telemetry, telemetry->queue.dropped, now.wall_ns);
        end_group(telemetry, now.mono_ns);
    }
    begin_group(telemetry, now.mono_ns);
    record_buckets(telemetry, INT64_MAX); /* those of the end, not full */
    end_group(telemetry, now.mono_ns);
    recorder_finish(&telemetry->recorder);
    tell_unrecorded(telemetry, now);
}
