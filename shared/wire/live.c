/* A source that is a publisher: SUB for what is new, DEALER for what was before. */
#include "shared/wire/source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shared/core/text.h"
#include "shared/store/unpack.h"
#include "shared/wire/endpoint.h"
#include "shared/wire/past.h"

#define MS INT64_C(1000000)

enum {
    SILENT_MS = 4500,   /* two beats, and told within 5 s */
    LOCK_MS = 500,      /* between two looks at the lock */
    RECEIVE_MAX = 2000, /* live messages that wait: beyond it a jump costs a request, no step */
    REQUESTS_MAX = 16,  /* that wait for a publisher to come back */
    WAITING_MAX = 8192, /* messages that wait for the past ... */
    WAITING_BYTES = 32 << 20, /* ... or as many bytes */
    RECONNECT_MS = 100,
    RECONNECT_MS_MOST = 2000,
    HEARTBEAT_MS = 2000,
    HEARTBEAT_TIMEOUT_MS = 10000,
    UNREADABLE_MAX = 16, /* messages, before the first step */
    ROUND = 64           /* live messages between two looks at the clock and the other socket */
};

struct live {
    struct intake *intake;
    struct past past;
    void *sub, *dealer;
    char address[ENDPOINT_SIZE];
    char run_id[RECORD_ID_SIZE]; /* whose lock tells whether it lives; "": nobody's */
    struct message message;
    int64_t lock_ns; /* last look at the lock */
    bool locked;     /* it was held once: else its publisher takes no lock, or is still to come */
    int unreadable;  /* messages so far */
};

static void set_option(void *socket, int option, int value) {
    zmq_setsockopt(socket, option, &value, sizeof value);
}

static void *connect_to(void *context, int type, const char *address) {
    void *socket = zmq_socket(context, type);
    int64_t most = UNPACK_BYTES_MAX;
    if (!socket) return NULL;
    set_option(socket, ZMQ_LINGER, 0);
    set_option(socket, ZMQ_RCVHWM, RECEIVE_MAX);
    set_option(socket, ZMQ_RECONNECT_IVL, RECONNECT_MS);
    set_option(socket, ZMQ_RECONNECT_IVL_MAX, RECONNECT_MS_MOST);
    set_option(socket, ZMQ_IPV6, strchr(address, '[') != NULL);
    zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &most, sizeof most);
    if (strncmp(address, "tcp:", 4) == 0) { /* a line that died is noticed, and dialled again */
        set_option(socket, ZMQ_HEARTBEAT_IVL, HEARTBEAT_MS);
        set_option(socket, ZMQ_HEARTBEAT_TIMEOUT, HEARTBEAT_TIMEOUT_MS);
    }
    if (type == ZMQ_SUB) zmq_setsockopt(socket, ZMQ_SUBSCRIBE, "nantop/", 7);
    if (type == ZMQ_DEALER) set_option(socket, ZMQ_SNDHWM, REQUESTS_MAX);
    if (zmq_connect(socket, address) == 0) return socket;
    int why = errno;
    zmq_close(socket);
    errno = why;
    return NULL;
}

static void live_close(void *source) {
    struct live *live = source;
    message_free(&live->message);
    past_free(&live->past);
    if (live->sub) zmq_close(live->sub);
    if (live->dealer) zmq_close(live->dealer);
    free(live);
}

/* The run of this user whose address it is. */
static void find_run_id(struct live *live, const struct endpoint *endpoint) {
    struct endpoint own;
    const char *id = strrchr(endpoint->live, '/') + 1;
    text_copy(live->run_id, sizeof live->run_id, id);
    char *suffix = strrchr(live->run_id, '.');
    if (suffix) *suffix = '\0';
    bool is_own =
        endpoint_of_run(&own, live->run_id, NULL) == 0 && strcmp(own.live, endpoint->live) == 0;
    if (!is_own) live->run_id[0] = '\0';
    live->locked = is_own && endpoint_alive(live->run_id);
}

void *live_open(void *context, const char *address, struct intake *intake, struct error *error) {
    struct endpoint endpoint;
    if (endpoint_parse(&endpoint, address, error) < 0) return NULL;
    struct live *live = calloc(1, sizeof *live);
    if (!live) {
        error_set(error, "watch %s: no memory", address);
        return NULL;
    }
    live->intake = intake;
    find_run_id(live, &endpoint);
    text_copy(live->address, sizeof live->address, address);
    live->sub = connect_to(context, ZMQ_SUB, endpoint.live);
    live->dealer = connect_to(context, ZMQ_DEALER, endpoint.history);
    past_init(&live->past, intake, live->dealer);
    if (!live->sub || !live->dealer) {
        error_set(error, "watch %s: %s", address, zmq_strerror(errno));
        live_close(live);
        return NULL;
    }
    past_advance(&live->past, intake->options.now_ns);
    return live;
}

static bool has_room(const struct live *live) {
    const struct sequence *sequence = &live->past.sequence;
    return sequence_count(sequence) < WAITING_MAX && sequence->bytes < WAITING_BYTES;
}

static int live_items(void *source, void *items, int max) {
    struct live *live = source;
    zmq_pollitem_t *item = items;
    int count = 0;
    if (count < max) item[count++] = (zmq_pollitem_t){.socket = live->dealer, .events = ZMQ_POLLIN};
    if (count < max && has_room(live))
        item[count++] = (zmq_pollitem_t){.socket = live->sub, .events = ZMQ_POLLIN};
    return count;
}

static void live_want(void *source, int64_t first, int64_t last) {
    struct live *live = source;
    past_want(&live->past, first, last);
}

/* One that cannot be read may be of a schema that we have not heard of. Before the first step a few
 * are let pass: then the publisher's author wants to know. */
static int skip_unreadable(struct live *live, const struct error *why, int64_t now_ns,
                           struct error *error) {
    past_suspect(&live->past, now_ns);
    if (live->intake->run->series.last >= 0 || ++live->unreadable < UNREADABLE_MAX) return 0;
    return error_set(error, "%s: %s", live->address, why->text);
}

static int take_body(struct live *live, const char *kind, int64_t now_ns, struct error *error) {
    const void *body = message_data(&live->message, 1);
    size_t size = message_size(&live->message, 1);
    uint64_t seq, schema_id;
    struct error why;
    int result = 0;
    if (strcmp(kind, "step") == 0) {
        result = past_record(&live->past, body, size, now_ns, &why);
    } else if (strcmp(kind, "event") == 0) {
        result = past_event(&live->past, body, size, now_ns, &why);
    } else if (strcmp(kind, "beat") == 0) {
        result = codec_decode_beat(body, size, &seq, &schema_id, &why);
        if (result == 0) past_beat(&live->past, seq, now_ns);
    }
    return result < 0 ? skip_unreadable(live, &why, now_ns, error) : 0;
}

static int take_message(struct live *live, int64_t now_ns, struct error *error) {
    struct run *run = live->intake->run;
    struct topic topic;
    if (live->message.frames != 2) return 0;
    if (topic_parse(&topic, message_data(&live->message, 0), message_size(&live->message, 0)) < 0)
        return 0;
    if (topic.version != CODEC_MAJOR) {
        return error_set(error, "%s speaks version %d of the protocol, this program version %d",
                         live->address, topic.version, CODEC_MAJOR);
    }
    if (strcmp(topic.kind, "hello") == 0)
        return past_hello(&live->past, &live->message, 1, false, now_ns, error);
    if (!run->known) return 0;
    if (strcmp(topic.run_id, run->hello.run_id) != 0) {
        past_suspect(&live->past, now_ns);
        return 0;
    }
    if (run->link == RUN_SILENT || run->link == RUN_DEAD) past_suspect(&live->past, now_ns);
    enum run_link before = run->link;
    run_apply_heard(run, now_ns);
    if (run->link != before) live->intake->changed = true;
    return take_body(live, topic.kind, now_ns, error);
}

static void set_link(struct live *live, enum run_link link) {
    live->intake->run->link = link;
    live->intake->changed = true;
}

/* Called when nothing is left to be read. */
static void notice_silence(struct live *live, int64_t now_ns) {
    const struct run *run = live->intake->run;
    if (run->link != RUN_CONNECTING && run->link != RUN_LIVE && run->link != RUN_SILENT) return;
    if (run->link == RUN_LIVE && now_ns - run->heard_ns > SILENT_MS * MS)
        set_link(live, RUN_SILENT);
    if (!live->run_id[0] || now_ns - live->lock_ns < LOCK_MS * MS) return;
    live->lock_ns = now_ns;
    if (endpoint_alive(live->run_id))
        live->locked = true;
    else if (live->locked)
        set_link(live, RUN_DEAD);
}

static int live_poll(void *source, const struct turn *turn, struct error *error) {
    struct live *live = source;
    bool more = true;
    while (more) {
        more = message_receive(&live->message, live->dealer);
        if (more && past_reply(&live->past, &live->message, turn->now_ns, error) < 0) return -1;
        for (int i = 0; i < ROUND && has_room(live) && message_receive(&live->message, live->sub);
             i++) {
            more = true;
            if (take_message(live, turn->now_ns, error) < 0) return -1;
        }
        past_advance(&live->past, turn->now_ns);
        if (turn_is_over(turn)) return 0;
    }
    notice_silence(live, turn->now_ns);
    return 0;
}

const struct source live_source = {live_poll, live_items, live_want, live_close};
