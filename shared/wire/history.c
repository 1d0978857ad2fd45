#include "shared/wire/history.h"

#include <stdlib.h>
#include <string.h>

#include "shared/core/error.h"
#include "shared/core/text.h"

enum { FRAME_IDENTITY, FRAME_KIND, FRAME_RUN, FRAME_ARGUMENTS, REQUEST_FRAMES };

int history_init(struct history *history, const struct hello *hello, const char *run_file) {
    memset(history, 0, sizeof *history);
    history->hello = hello;
    history->path = run_file ? strdup(run_file) : NULL;
    history->first_step = -1;
    int metrics = hello->schema.metrics;
    history->bucket = calloc(HISTORY_BUCKETS, sizeof *history->bucket);
    history->value = calloc((size_t)HISTORY_BUCKETS * (size_t)metrics, sizeof *history->value);
    if (!history->bucket || !history->value || (run_file && !history->path) ||
        codec_encode_hello(&history->hello_body, hello) < 0 ||
        series_init(&history->series, metrics, SERIES_BUCKETS) < 0 ||
        backlog_init(&history->records, HISTORY_RECORDS, HISTORY_RECORD_BYTES) < 0 ||
        backlog_init(&history->events, HISTORY_EVENTS, HISTORY_EVENT_BYTES) < 0) {
        history_free(history);
        return -1;
    }
    return 0;
}

void history_free(struct history *history) {
    runfile_close(history->file);
    free(history->path);
    series_free(&history->series);
    backlog_free(&history->records);
    backlog_free(&history->events);
    free(history->bucket);
    free(history->value);
    buffer_free(&history->hello_body);
    buffer_free(&history->body);
    message_free(&history->request);
    message_free(&history->reply);
    memset(history, 0, sizeof *history);
}

void history_add_record(struct history *history, const struct record *record,
                        const struct buffer *body) {
    if (record->step <= history->series.last)
        history->records.first = history->records.end; /* a resumed run */
    if (history->first_step < 0) history->first_step = record->step;
    if (!history->lost) series_apply_skip(&history->series, record->step - 1);
    series_apply(&history->series, record);
    history->lost = false;
    history->seq = record->seq;
    struct backlog_entry entry = {.seq = record->seq, .step = record->step, .size = body->size};
    backlog_add(&history->records, &entry, body->data);
}

void history_add_event(struct history *history, const struct event *event,
                       const struct buffer *body) {
    if (event->kind == EVENT_GAP) history->lost = true;
    history->seq = event->seq;
    struct backlog_entry entry = {.seq = event->seq, .size = body->size};
    backlog_add(&history->events, &entry, body->data);
}

const struct buffer *history_buckets(struct history *history, int level, int64_t first,
                                     int64_t last, int64_t *next) {
    const struct series *series = &history->series;
    int64_t width = series->level[level].width;
    int64_t newest = series->last - series->last % width,
            oldest = newest - (series->buckets - 1) * width;
    int metrics = series->metrics;
    struct codec_buckets all = {
        .level = level, .metrics = metrics, .bucket = history->bucket, .value = history->value};
    *next = -1;
    if (series->last < 0) return NULL;
    if (first < oldest) first = oldest;
    if (first < 0) first = 0;
    if (last > newest) last = newest;
    for (first -= first % width; first <= last; first += width) {
        const struct series_value *value;
        const struct series_bucket *bucket = series_find(series, level, first, &value);
        if (!bucket) continue;
        if (all.count == HISTORY_BUCKETS) {
            *next = first;
            break;
        }
        all.bucket[all.count] = *bucket;
        memcpy(all.value + (size_t)all.count++ * (size_t)metrics, value,
               (size_t)metrics * sizeof *value);
    }
    if (all.count == 0 || codec_encode_buckets(&history->body, &history->hello->schema, &all) < 0)
        return NULL;
    return &history->body;
}

/* The bodies of a reply stand in reply.frame[] before its head is known. */
static void add_body(struct history *history, const struct buffer *body) {
    if (body) message_add(&history->reply, body->data, body->size);
}

static void answer_hello(struct history *history, const struct codec_request *request,
                         struct codec_status *status) {
    (void)request;
    (void)status;
    add_body(history, &history->hello_body);
}

static void answer_status(struct history *history, const struct codec_request *request,
                          struct codec_status *status) {
    (void)history;
    (void)request;
    (void)status;
}

static void answer_pyramid(struct history *history, const struct codec_request *request,
                           struct codec_status *status) {
    if (request->level >= SERIES_LEVELS) return;
    if (request->level >= 0) {
        int64_t last = request->last < 0 ? INT64_MAX : request->last;
        add_body(history, history_buckets(history, (int)request->level, request->first, last,
                                          &status->next));
        return;
    }
    int64_t last = history->series.last;
    for (int i = 0; i < SERIES_LEVELS; i++) {
        int64_t width = history->series.level[i].width, count = HISTORY_BUCKETS, next;
        if (i == 0 && request->first < 0) count = HISTORY_BUCKETS_FINE;
        if (i == 0 && request->first > last - count)
            count = request->first < last ? last - request->first + 1 : 1;
        add_body(history, history_buckets(history, i, last - last % width - (count - 1) * width,
                                          INT64_MAX, &next));
    }
}

/* A reply in the making: bodies up to its limits, and where to go on. */
struct cut {
    struct history *history;
    int64_t at, last; /* steps still to be answered */
    size_t bytes;
    bool full;    /* the limits are reached */
    bool thinned; /* the step `at` is no longer kept in full */
};

static bool cut_add(struct cut *cut, const void *data, size_t size) {
    struct message *reply = &cut->history->reply;
    bool first = reply->frames == 0; /* a record larger than the limit goes alone */
    cut->full = reply->frames >= HISTORY_REPLY_STEPS ||
                (!first && cut->bytes + size > HISTORY_REPLY_BYTES) ||
                message_add(reply, data, size) < 0;
    if (!cut->full) cut->bytes += size;
    return !cut->full;
}

static int add_blob(void *user, int64_t step, const void *blob, size_t size) {
    struct cut *cut = user;
    cut->at = step;
    cut->thinned = !blob;
    if (!blob || !cut_add(cut, blob, size)) return 1;
    cut->at = step + 1;
    return 0;
}

static int add_thinned(void *user, const struct record *record) {
    struct cut *cut = user;
    struct history *history = cut->history;
    if (codec_encode_record(&history->body, &history->hello->schema, record) < 0) return 1;
    return cut_add(cut, history->body.data, history->body.size) ? 0 : 1;
}

/* From the run file, up to `last`. */
static void add_stored(struct cut *cut, int64_t last) {
    struct history *history = cut->history;
    struct error error;
    if (!history->file &&
        (!history->path || runfile_open(&history->file, history->path, &error) < 0)) {
        cut->at = last + 1;
        return;
    }
    while (cut->at <= last && !cut->full) {
        cut->thinned = false;
        if (runfile_each_blob(history->file, cut->at, last, add_blob, cut, &error) < 0) break;
        if (cut->full) return;
        if (!cut->thinned) break;
        runfile_each_step(history->file, cut->at, cut->at, add_thinned, cut, &error);
        if (!cut->full) cut->at++;
    }
    if (!cut->full) cut->at = last + 1;
}

static void answer_steps(struct history *history, const struct codec_request *request,
                         struct codec_status *status) {
    struct backlog *records = &history->records;
    struct cut cut = {.history = history,
                      .at = request->first < 0 ? 0 : request->first,
                      .last = history->series.last};
    if (request->last >= 0 && request->last < cut.last) cut.last = request->last;
    const void *data;
    int64_t kept = records->first < records->end
                       ? backlog_read(records, records->first, &data)->step
                       : INT64_MAX;
    if (cut.at < kept) add_stored(&cut, kept <= cut.last ? kept - 1 : cut.last);
    for (uint64_t i = backlog_find(records, 0, cut.at); i < records->end && !cut.full; i++) {
        const struct backlog_entry *entry = backlog_read(records, i, &data);
        cut.at = entry->step;
        if (entry->step > cut.last || !cut_add(&cut, data, entry->size)) break;
    }
    if (cut.full) status->next = cut.at;
}

static void answer_events(struct history *history, const struct codec_request *request,
                          struct codec_status *status) {
    const struct backlog *events = &history->events;
    uint64_t last = request->last < 0 ? UINT64_MAX : (uint64_t)request->last;
    struct cut cut = {.history = history};
    const void *data;
    for (uint64_t i = backlog_find(events, request->first < 0 ? 0 : (uint64_t)request->first, 0);
         i < events->end; i++) {
        const struct backlog_entry *entry = backlog_read(events, i, &data);
        if (entry->seq > last) break;
        if (cut_add(&cut, data, entry->size)) continue;
        status->next = (int64_t)entry->seq;
        break;
    }
}

static const struct answer {
    const char *request, *reply;
    void (*fill)(struct history *history, const struct codec_request *request,
                 struct codec_status *status);
} answers[] = {
    {"hello?", "hello", answer_hello},       {"status?", "status", answer_status},
    {"pyramid?", "pyramid", answer_pyramid}, {"steps?", "steps", answer_steps},
    {"events?", "events", answer_events},
};

static int64_t oldest_step(const struct history *history) {
    const struct backlog *records = &history->records;
    const void *data;
    if (history->path || records->first == records->end) return history->first_step;
    return backlog_read(records, records->first, &data)->step;
}

static void send_reply(struct history *history, void *router, const char *kind,
                       const struct codec_status *status) {
    struct message *bodies = &history->reply, whole = {.frames = 0};
    int events;
    size_t size = sizeof events;
    zmq_getsockopt(router, ZMQ_EVENTS, &events,
                   &size); /* hears what was read meanwhile: else a quick reader seems full */
    if (codec_encode_status(&history->body, status) < 0) return;
    message_add(&whole, message_data(&history->request, FRAME_IDENTITY),
                message_size(&history->request, FRAME_IDENTITY));
    message_add(&whole, kind, strlen(kind));
    message_add(&whole, history->hello->run_id, strlen(history->hello->run_id));
    message_add(&whole, history->body.data, history->body.size);
    for (int i = 0; i < bodies->frames && whole.frames < MESSAGE_FRAMES; i++) {
        zmq_msg_init(&whole.frame[whole.frames]);
        zmq_msg_move(&whole.frame[whole.frames++], &bodies->frame[i]);
    }
    message_send(&whole, router);
}

/* Which answer; NULL with the reason in status->text. */
static const struct answer *understand(const struct history *history,
                                       struct codec_request *arguments, char *why) {
    const struct message *request = &history->request;
    struct error error;
    const void *data =
        request->frames > FRAME_ARGUMENTS ? message_data(request, FRAME_ARGUMENTS) : NULL;
    codec_request_init(arguments);
    if (codec_decode_request(data, message_size(request, FRAME_ARGUMENTS), arguments, &error) < 0) {
        text_copy(why, RECORD_TEXT_SIZE, error.text);
        return NULL;
    }
    if (!message_is(request, FRAME_RUN, history->hello->run_id) &&
        !message_is(request, FRAME_RUN, "")) {
        text_copy(why, RECORD_TEXT_SIZE, "another run lives here");
        return NULL;
    }
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        if (message_is(request, FRAME_KIND, answers[i].request)) return &answers[i];
    }
    text_copy(why, RECORD_TEXT_SIZE, "no such request");
    return NULL;
}

bool history_answer(struct history *history, void *router) {
    struct codec_request arguments;
    struct codec_status status;
    if (!message_receive(&history->request, router)) return false;
    if (history->request.frames < FRAME_ARGUMENTS || history->request.frames > REQUEST_FRAMES)
        return true;
    codec_status_init(&status);
    message_free(&history->reply);
    const struct answer *answer = understand(history, &arguments, status.text);
    status.id = arguments.id;
    status.seq = history->seq;
    status.schema_id = history->hello->schema.id;
    status.first_step = oldest_step(history);
    status.last_step = history->series.last;
    if (answer) answer->fill(history, &arguments, &status);
    send_reply(history, router, answer ? answer->reply : "error", &status);
    return true;
}
