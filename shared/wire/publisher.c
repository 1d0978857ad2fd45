#include "shared/wire/publisher.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "shared/core/error.h"
#include "shared/core/text.h"
#include "shared/wire/endpoint.h"
#include "shared/wire/telemetry.h"

enum {
    PORT_TRIES = 64,
    LINGER_MS = 1000, /* a reader that is gone does not hold up the end of a training */
    LIVE_BYTES =
        1536
        << 10, /* that wait for one reader: they are shared among readers that wait for the same */
    LIVE_MESSAGES = 1000,
    REPLIES = 8, /* that wait for one reader: twice what it may ask for at a time */
    REQUEST_BYTES = 4096
};

struct publisher {
    struct telemetry telemetry;
    struct endpoint_lock *lock;
    char address[ENDPOINT_SIZE];
    void *context;
    pthread_t thread;
    bool running;
    atomic_bool stop;
};

static int64_t read_clock(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static struct telemetry_time read_time(void) {
    return (struct telemetry_time){read_clock(CLOCK_MONOTONIC), read_clock(CLOCK_REALTIME)};
}

static void *run_telemetry(void *of) {
    struct publisher *publisher = of;
    zmq_pollitem_t requests = {.socket = publisher->telemetry.router, .events = ZMQ_POLLIN};
    bool more = false;
    telemetry_greet(&publisher->telemetry);
    while (!atomic_load(&publisher->stop)) {
        zmq_poll(&requests, 1, more ? 0 : TELEMETRY_ROUND_MS);
        more = telemetry_round(&publisher->telemetry, read_time());
    }
    telemetry_finish(&publisher->telemetry, read_time());
    return NULL;
}

static void set_option(void *socket, int option, int value) {
    zmq_setsockopt(socket, option, &value, sizeof value);
}

/* About what a record of this schema takes on the wire. */
static int record_bytes(const struct schema *schema) { return 512 + 40 * schema->tensors; }

static int open_sockets(struct publisher *publisher, const struct hello *hello,
                        struct error *error) {
    publisher->context = zmq_ctx_new();
    void *live = publisher->context ? zmq_socket(publisher->context, ZMQ_PUB) : NULL;
    void *router = publisher->context ? zmq_socket(publisher->context, ZMQ_ROUTER) : NULL;
    publisher->telemetry.live = live;
    publisher->telemetry.router = router;
    if (!live || !router)
        return error_set(error, "open the sockets of %s: %s", hello->run_id, zmq_strerror(errno));
    int fitting = LIVE_BYTES / record_bytes(&hello->schema);
    set_option(live, ZMQ_SNDHWM,
               fitting < 2               ? 2
               : fitting > LIVE_MESSAGES ? LIVE_MESSAGES
                                         : fitting);
    set_option(router, ZMQ_SNDHWM, REPLIES);
    set_option(router, ZMQ_RCVHWM, TELEMETRY_REQUESTS);
    int64_t most = REQUEST_BYTES;
    zmq_setsockopt(live, ZMQ_MAXMSGSIZE, &most, sizeof most);
    zmq_setsockopt(router, ZMQ_MAXMSGSIZE, &most, sizeof most);
    for (int i = 0; i < 2; i++) {
        void *socket = i ? router : live;
        set_option(socket, ZMQ_LINGER, LINGER_MS);
        set_option(socket, ZMQ_TCP_KEEPALIVE, 1);
    }
    return 0;
}

/* Both or none; 0, or -1 with errno. */
static int bind_pair(struct telemetry *telemetry, const struct endpoint *endpoint) {
    int v6 = strchr(endpoint->history, '[') != NULL;
    set_option(telemetry->router, ZMQ_IPV6, v6);
    set_option(telemetry->live, ZMQ_IPV6, v6);
    if (zmq_bind(telemetry->router, endpoint->history) < 0) return -1;
    if (zmq_bind(telemetry->live, endpoint->live) == 0) return 0;
    int why = errno;
    zmq_unbind(telemetry->router, endpoint->history);
    errno = why;
    return -1;
}

static int bind_ipc(struct publisher *publisher, const char *run_id, struct error *error) {
    struct endpoint endpoint;
    if (endpoint_claim(&publisher->lock, &endpoint, run_id, error) < 0) return -1;
    if (bind_pair(&publisher->telemetry, &endpoint) < 0) {
        return error_set(error, "bind %s: %s", endpoint.history, zmq_strerror(errno));
    }
    text_copy(publisher->address, sizeof publisher->address, endpoint.history);
    *strstr(publisher->address, ".ctl") = '\0';
    return 0;
}

/* The pair named, or the next one that is free. */
static int bind_tcp(struct publisher *publisher, const struct publisher_options *options,
                    struct error *error) {
    struct endpoint endpoint;
    char next[ENDPOINT_SIZE];
    if (strncmp(options->bind, "ipc:", 4) == 0) /* would take another run's place unseen */
        return error_set(error, "bind %s: not a tcp address", options->bind);
    text_copy(next, sizeof next, options->bind);
    for (int i = 0; i < PORT_TRIES; i++) {
        if (endpoint_parse(&endpoint, next, error) < 0) return -1;
        if (!options->insecure && !endpoint_is_local(&endpoint)) {
            return error_set(error,
                             "bind %s: other machines could read this run there without a key; "
                             "bind 127.0.0.1 and come "
                             "through ssh -L, or say --insecure",
                             options->bind);
        }
        if (bind_pair(&publisher->telemetry, &endpoint) == 0) {
            text_copy(publisher->address, sizeof publisher->address, endpoint.history);
            return 0;
        }
        if (errno != EADDRINUSE) break;
        const char *colon = strrchr(endpoint.live, ':');
        snprintf(next, sizeof next, "%.*s:%d", (int)(colon - endpoint.live), endpoint.live,
                 atoi(colon + 1) + 1);
    }
    return error_set(error, "bind %s: %s", options->bind, zmq_strerror(errno));
}

static int start_thread(struct publisher *publisher, struct error *error) {
    int failed = pthread_create(&publisher->thread, NULL, run_telemetry, publisher);
    publisher->running = failed == 0;
    return failed ? error_set(error, "start the telemetry thread: %s", strerror(failed)) : 0;
}

static int open_all(struct publisher *publisher, const struct publisher_options *options,
                    struct error *error) {
    const struct hello *hello = options->hello;
    struct telemetry *telemetry = &publisher->telemetry;
    int items = options->queue > 0 ? options->queue : PUBLISHER_QUEUE;
    if (!record_id_valid(hello->run_id)) {
        return error_set(error,
                         "publish run %s: a run id is 63 letters, digits, '.', '_' and '-' at most",
                         hello->run_id);
    }
    if (telemetry_init(telemetry, hello, items, options->run_file) < 0) {
        return error_set(error, "publish run %s: no memory", hello->run_id);
    }
    if (open_sockets(publisher, hello, error) < 0 || bind_ipc(publisher, hello->run_id, error) < 0)
        return -1;
    if (options->bind && bind_tcp(publisher, options, error) < 0) return -1;
    if (recorder_open(&telemetry->recorder, options->run_file, hello, options->run_file_max,
                      error) < 0)
        return -1;
    return start_thread(publisher, error);
}

int publisher_open(struct publisher **out, const struct publisher_options *options,
                   struct error *error) {
    struct publisher *publisher = calloc(1, sizeof *publisher);
    if (!publisher) return error_set(error, "publish run %s: no memory", options->hello->run_id);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all,
                    &before); /* which the threads inherit: no signal is for them */
    int failed = open_all(publisher, options, error);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed < 0) {
        publisher_close(publisher);
        return -1;
    }
    *out = publisher;
    return 0;
}

struct record *publisher_begin(struct publisher *publisher) {
    return queue_begin(&publisher->telemetry.queue);
}

void publisher_submit(struct publisher *publisher) { queue_submit(&publisher->telemetry.queue); }

void publisher_event(struct publisher *publisher, const struct event *event) {
    queue_event(&publisher->telemetry.queue, event);
}

const char *publisher_address(const struct publisher *publisher) { return publisher->address; }

void publisher_close(struct publisher *publisher) {
    if (!publisher) return;
    if (publisher->running) {
        atomic_store(&publisher->stop, true);
        pthread_join(publisher->thread, NULL);
    }
    if (publisher->telemetry.live) zmq_close(publisher->telemetry.live);
    if (publisher->telemetry.router) zmq_close(publisher->telemetry.router);
    telemetry_free(&publisher->telemetry);
    if (publisher->context) zmq_ctx_term(publisher->context);
    endpoint_release(publisher->lock);
    free(publisher);
}
