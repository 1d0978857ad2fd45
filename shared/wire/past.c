#include "shared/wire/past.h"

#include <string.h>

#include "shared/core/text.h"

#define MS INT64_C(1000000)

enum {
    ANSWER_MS = 1000,   /* a publisher with a history socket answers within this */
    SUSPECT_MS = 500,   /* between two questions */
    TRIES = 6,          /* then there will be no answer */
    JUMP_MAX = 2048,    /* seqs that are asked for one by one */
    DETAILS = 64,       /* newest full records, at once on joining */
    DETAILS_ASKED = 128 /* full records in one request */
};

enum { FRAME_KIND, FRAME_RUN, FRAME_STATUS, FRAME_BODY };

void past_init(struct past *past, struct intake *intake, void *dealer) {
    memset(past, 0, sizeof *past);
    past->intake = intake;
    past->last_step = past->last_wanted = past->first_denied = past->last_denied = -1;
    asks_init(&past->asks, dealer);
}

void past_free(struct past *past) {
    asks_free(&past->asks);
    sequence_free(&past->sequence);
    record_free(&past->record);
    memset(past, 0, sizeof *past);
}

static void start_anew(struct past *past, int64_t now_ns) {
    for (int i = ASK_HELLO + 1; i < ASK_COUNT; i++) past->asks.ask[i].pending = false;
    sequence_free(&past->sequence);
    past->phase = PAST_MEETING;
    past->answers = false;
    past->told = past->events_seq = 0;
    past->first_denied = past->last_denied = -1;
    past->met_ns = now_ns;
    past->first_wanted = 0;
    past->last_wanted = -1;
}

static void ask(struct past *past, enum ask_kind kind, int64_t first, int64_t last,
                int64_t now_ns) {
    struct ask one = {.sent_ns = now_ns, .covered = past->sequence.covered};
    one.request = (struct codec_request){.level = -1, .first = first, .last = last};
    asks_send(&past->asks, kind, &one);
}

void past_suspect(struct past *past, int64_t now_ns) {
    if (asks_pending(&past->asks, ASK_HELLO) || now_ns - past->suspected_ns < SUSPECT_MS * MS)
        return;
    past->suspected_ns = now_ns;
    ask(past, ASK_HELLO, -1, -1, now_ns);
}

static int decode_record(struct past *past, const void *body, size_t size, struct error *error) {
    return codec_decode_record(body, size, &past->intake->run->hello.schema, &past->record, error);
}

/* Applies what waits and is next; asks for what is missing before the rest. */
static void drain(struct past *past, int64_t now_ns) {
    const struct sequence_item *item;
    struct event event;
    while ((item = sequence_next(&past->sequence))) {
        if (item->is_event) {
            if (codec_decode_event(item->body, item->size, &event, NULL) == 0)
                intake_event(past->intake, &event, now_ns);
        } else {
            int judge = decode_record(past, item->body, item->size, NULL);
            if (judge >= 0) intake_record(past->intake, &past->record, judge == 1, now_ns);
        }
        sequence_take(&past->sequence);
    }
}

/* True when the pyramid is asked for anew: so far behind seq `to` it tells as much, sooner. */
static bool rejoin(struct past *past, uint64_t to) {
    if (intake_wants_all(past->intake) || to <= past->sequence.covered + JUMP_MAX) return false;
    past->phase = PAST_JOINING;
    past->told = past->sequence.covered;
    return true;
}

static void catch_up(struct past *past, uint64_t to, int64_t now_ns) {
    if (rejoin(past, to)) return;
    past->phase = PAST_CATCHING;
    ask(past, ASK_EVENTS, (int64_t)past->sequence.covered + 1, -1, now_ns);
}

/* Goes on with what waits, or asks for what is missing before it. */
static void follow(struct past *past, int64_t now_ns) {
    uint64_t waiting;
    past->phase = PAST_FOLLOWING;
    drain(past, now_ns);
    while ((waiting = sequence_waiting(&past->sequence)) != 0) {
        if (past->answers) {
            catch_up(past, waiting, now_ns);
            return;
        }
        sequence_settle(&past->sequence, waiting); /* nobody can tell what was before it */
        drain(past, now_ns);
    }
}

/* Live messages */

int past_hello(struct past *past, const struct message *message, int frame, bool answer,
               int64_t now_ns, struct error *error) {
    struct run *run = past->intake->run;
    struct error why;
    struct hello hello;
    hello_init(&hello);
    if (codec_decode_hello(message_data(message, frame), message_size(message, frame), &hello,
                           &why) < 0) {
        hello_free(&hello);
        return run->known ? 0 : error_set(error, "%s: %s", run->source, why.text);
    }
    bool same = run->known && strcmp(run->hello.run_id, hello.run_id) == 0 &&
                run->hello.schema.id == hello.schema.id;
    if (!same) start_anew(past, now_ns);
    if (answer) past->answers = true;
    int result = intake_hello(past->intake, &hello, error);
    hello_free(&hello);
    text_copy(past->asks.run_id, sizeof past->asks.run_id, run->hello.run_id);
    run_apply_heard(run, now_ns);
    return result;
}

/* What is not the next one waits; what is covered was heard of by an answer first, or comes from
 * another run. */
static bool is_next(struct past *past, const struct sequence_item *head, const void *body,
                    int64_t now_ns) {
    if (past->phase == PAST_FOLLOWING && sequence_pass(&past->sequence, head->from, head->seq))
        return true;
    if (head->seq <= past->sequence.covered) past_suspect(past, now_ns);
    sequence_add(&past->sequence, head, body);
    if (past->phase == PAST_FOLLOWING) follow(past, now_ns);
    return false;
}

int past_record(struct past *past, const void *body, size_t size, int64_t now_ns,
                struct error *error) {
    int judge = decode_record(past, body, size, error);
    if (judge < 0) return -1;
    const struct record *record = &past->record;
    struct sequence_item head = {.seq = record->seq, .from = record->seq, .size = size};
    if (record->seq == 0 || is_next(past, &head, body, now_ns)) {
        intake_record(past->intake, &past->record, judge == 1, now_ns);
    }
    return 0;
}

int past_event(struct past *past, const void *body, size_t size, int64_t now_ns,
               struct error *error) {
    struct event event;
    if (codec_decode_event(body, size, &event, error) < 0) return -1;
    struct sequence_item head = {
        .seq = event.seq, .from = event.seq, .is_event = true, .size = size};
    if (event.kind == EVENT_GAP && event.last_seq + 1 == event.seq && event.first_seq > 0)
        head.from = event.first_seq;
    if (event.seq == 0 || is_next(past, &head, body, now_ns))
        intake_event(past->intake, &event, now_ns);
    return 0;
}

void past_beat(struct past *past, uint64_t seq, int64_t now_ns) {
    if (seq < past->sequence.covered) past_suspect(past, now_ns);
    if (seq > past->sequence.covered && past->phase == PAST_FOLLOWING && past->answers)
        catch_up(past, seq, now_ns);
}

/* Answers */

static void accept_buckets(struct past *past, const struct message *message, int frame) {
    struct run *run = past->intake->run;
    struct codec_buckets buckets;
    if (codec_decode_buckets(message_data(message, frame), message_size(message, frame),
                             &run->hello.schema, &buckets, NULL) < 0) {
        return;
    }
    for (int i = 0; i < buckets.count; i++) {
        const struct series_value *value = buckets.value + (size_t)i * (size_t)buckets.metrics;
        run_apply_bucket(run, buckets.level, &buckets.bucket[i], value);
    }
    codec_buckets_free(&buckets);
    past->intake->changed = true;
}

/* The whole run as of one moment: what is up to it needs no record. */
static void accept_pyramid(struct past *past, const struct message *message,
                           const struct codec_status *status, int64_t now_ns) {
    struct run *run = past->intake->run;
    for (int i = FRAME_BODY; i < message->frames; i++) accept_buckets(past, message, i);
    run->seq = run->record_seq = status->seq;
    past->sequence.covered = past->sequence.settled = status->seq;
    past->phase = PAST_EVENTS;
    ask(past, ASK_EVENTS, (int64_t)past->told + 1, -1, now_ns);
    int64_t first = run->series.last < DETAILS ? 0 : run->series.last - DETAILS + 1;
    if (run->series.last >= 0) ask(past, ASK_DETAIL, first, run->series.last, now_ns);
}

static void accept_event(struct past *past, const void *body, size_t size, int64_t now_ns) {
    struct event event;
    if (codec_decode_event(body, size, &event, NULL) < 0) return;
    struct sequence_item head = {
        .seq = event.seq, .from = event.seq, .is_event = true, .size = size};
    if (event.seq > past->sequence.covered)
        sequence_add(&past->sequence, &head, body);
    else if (past->phase == PAST_EVENTS)
        intake_event(past->intake, &event, now_ns);
}

static void accept_events(struct past *past, const struct message *message,
                          const struct codec_status *status, int64_t now_ns) {
    for (int i = FRAME_BODY; i < message->frames; i++) {
        accept_event(past, message_data(message, i), message_size(message, i), now_ns);
    }
    if (status->next >= 0 && message->frames > FRAME_BODY) {
        ask(past, ASK_EVENTS, status->next, -1, now_ns);
        return;
    }
    past->events_seq = status->seq;
    if (past->phase == PAST_EVENTS)
        follow(past, now_ns);
    else if (!rejoin(past, status->seq))
        ask(past, ASK_STEPS, past->intake->run->series.last + 1, -1, now_ns);
}

static void accept_steps(struct past *past, const struct message *message,
                         const struct codec_status *status, int64_t now_ns) {
    uint64_t last = 0;
    if (rejoin(past, status->seq)) return; /* what was asked for may be gone from there meanwhile */
    for (int i = FRAME_BODY; i < message->frames; i++) {
        const void *body = message_data(message, i);
        size_t size = message_size(message, i);
        if (decode_record(past, body, size, NULL) < 0) continue;
        last = past->record.seq;
        sequence_add(&past->sequence,
                     &(struct sequence_item){.seq = last, .from = last, .size = size}, body);
    }
    if (status->next >= 0 && message->frames > FRAME_BODY) {
        sequence_settle(&past->sequence, last < past->events_seq ? last : past->events_seq);
        drain(past, now_ns);
        ask(past, ASK_STEPS, status->next, -1, now_ns);
        return;
    }
    sequence_settle(&past->sequence, past->events_seq);
    follow(past, now_ns);
}

static void accept_details(struct past *past, const struct message *message,
                           const struct codec_status *status, const struct ask *asked) {
    for (int i = FRAME_BODY; i < message->frames; i++) {
        if (decode_record(past, message_data(message, i), message_size(message, i), NULL) < 0)
            continue;
        run_apply_detail(past->intake->run, &past->record);
        past->intake->changed = true;
    }
    int64_t end = status->next >= 0 ? status->next : asked->request.last + 1;
    for (int64_t step = asked->request.first; step < end && step <= asked->request.last; step++) {
        if (run_find_record(past->intake->run, step)) continue;
        if (past->last_denied != step - 1) past->first_denied = step;
        past->last_denied = step;
    }
}

/* A publisher that does not answer this: what it could have told is lost. */
static void give_up(struct past *past, enum ask_kind kind, int64_t now_ns) {
    past->asks.ask[kind].pending = false;
    if (kind != ASK_PYRAMID && kind != ASK_EVENTS && kind != ASK_STEPS) return;
    past->answers = false;
    follow(past, now_ns);
}

static int refused(struct past *past, enum ask_kind kind, int64_t now_ns) {
    if (kind != ASK_HELLO) past_suspect(past, now_ns);
    give_up(past, kind, now_ns);
    return 0;
}

int past_reply(struct past *past, const struct message *message, int64_t now_ns,
               struct error *error) {
    struct codec_status status;
    if (message->frames <= FRAME_STATUS ||
        codec_decode_status(message_data(message, FRAME_STATUS),
                            message_size(message, FRAME_STATUS), &status, NULL) < 0) {
        return 0;
    }
    int kind = asks_match(&past->asks, status.id);
    if (kind < 0) return 0;
    const struct ask asked = past->asks.ask[kind];
    if (message_is(message, FRAME_KIND, "error")) return refused(past, (enum ask_kind)kind, now_ns);
    if (kind == ASK_HELLO && message->frames > FRAME_BODY &&
        past_hello(past, message, FRAME_BODY, true, now_ns, error) < 0)
        return -1;
    if (status.seq < asked.covered &&
        past->sequence.covered >= asked.covered) { /* it began again, under the same name */
        start_anew(past, now_ns);
        return intake_restart(past->intake, error);
    }
    past->last_step = status.last_step;
    run_apply_heard(past->intake->run, now_ns);
    switch ((enum ask_kind)kind) {
    case ASK_PYRAMID:
        accept_pyramid(past, message, &status, now_ns);
        break;
    case ASK_EVENTS:
        accept_events(past, message, &status, now_ns);
        break;
    case ASK_STEPS:
        accept_steps(past, message, &status, now_ns);
        break;
    case ASK_DETAIL:
        accept_details(past, message, &status, &asked);
        break;
    default:
        break;
    }
    return 0;
}

/* What to do next */

void past_want(struct past *past, int64_t first, int64_t last) {
    const struct run *run = past->intake->run;
    int64_t fitting = first > run->series.last - run->records ? run->records : run->details;
    past->first_wanted = first < 0 ? 0 : first;
    past->last_wanted =
        last < past->first_wanted + fitting ? last : past->first_wanted + fitting - 1;
}

static bool is_wanting(const struct past *past, int64_t step) {
    if (step >= past->first_denied && step <= past->last_denied) return false;
    return !run_find_record(past->intake->run, step);
}

static void ask_details(struct past *past, int64_t now_ns) {
    const struct run *run = past->intake->run;
    if (!past->answers || asks_pending(&past->asks, ASK_DETAIL)) return;
    int64_t first = past->first_wanted,
            last = past->last_wanted < run->series.last ? past->last_wanted : run->series.last;
    while (first <= last && !is_wanting(past, first)) first++;
    if (first > last) return;
    ask(past, ASK_DETAIL, first, last - first < DETAILS_ASKED ? last : first + DETAILS_ASKED - 1,
        now_ns);
}

/* The step from which on the finest buckets are wanted; -1: as the publisher thinks best. */
static int64_t first_column(const struct past *past) {
    int64_t first = past->last_step - past->intake->options.columns + 1;
    return past->intake->options.columns > 0 && first > 0 ? first : -1;
}

void past_advance(struct past *past, int64_t now_ns) {
    const struct run *run = past->intake->run;
    asks_repeat(&past->asks, now_ns);
    for (int i = ASK_PYRAMID; i <= ASK_STEPS && run->link == RUN_LIVE; i++) {
        const struct ask *asked = &past->asks.ask[i];
        if (asked->pending && asked->tries > TRIES) give_up(past, (enum ask_kind)i, now_ns);
    }
    if (!run->known) {
        if (!asks_pending(&past->asks, ASK_HELLO)) ask(past, ASK_HELLO, -1, -1, now_ns);
        return;
    }
    if (past->phase == PAST_MEETING) {
        if (past->answers)
            past->phase = PAST_JOINING;
        else if (now_ns - past->met_ns > ANSWER_MS * MS)
            follow(past, now_ns);
    }
    if (past->phase == PAST_JOINING && !asks_pending(&past->asks, ASK_PYRAMID)) {
        if (intake_wants_all(past->intake))
            catch_up(past, 0, now_ns);
        else
            ask(past, ASK_PYRAMID, first_column(past), -1, now_ns);
    }
    ask_details(past, now_ns);
    past->intake->behind = past->phase != PAST_FOLLOWING;
    if (!past->intake->behind) intake_catch_up(past->intake);
}
