/* What the telemetry thread does, round by round: takes from the queue, gives out seqs, commits to
 * the run file, then publishes; answers requests; says that it lives. */
#ifndef WIRE_TELEMETRY_H
#define WIRE_TELEMETRY_H

#include "shared/wire/history.h"
#include "shared/wire/queue.h"
#include "shared/wire/recorder.h"

enum {
    TELEMETRY_ROUND_MS = 10,
    TELEMETRY_GROUP = 256,           /* messages committed together, about ... */
    TELEMETRY_GROUP_BYTES = 1 << 20, /* ... or as many bytes */
    TELEMETRY_GROUP_MOST = 320,
    TELEMETRY_REQUESTS = 16, /* answered a round, at most */
    TELEMETRY_BEAT_MS = 2000,
    TELEMETRY_BUCKET_MS = 100
};

struct telemetry_time {
    int64_t mono_ns, wall_ns;
};

struct telemetry {
    struct hello hello; /* owned */
    struct queue queue;
    struct history history;
    struct recorder recorder;
    void *live, *router;        /* sockets: PUB, ROUTER */
    uint64_t seq;               /* newest given out */
    int64_t last_step;          /* newest published; -1 */
    int64_t bucket_step;        /* newest that a bucket message told of; -1 */
    int64_t beat_ns, bucket_ns; /* of the last ones, monotonic; 0: none yet */
    struct buffer body;
    uint64_t group_first; /* seq */
    int staged;
    size_t staged_bytes;
    struct {
        const char *kind;
        zmq_msg_t body;
    } group[TELEMETRY_GROUP_MOST]; /* (staged) to be published */
};

/* Everything but recorder and sockets, which the caller opens. -1: no memory. */
int telemetry_init(struct telemetry *telemetry, const struct hello *hello, int queue,
                   const char *run_file);
/* Closes the recorder, too; not the sockets. */
void telemetry_free(struct telemetry *telemetry);

/* Sends the hello, for those who listen already. */
void telemetry_greet(struct telemetry *telemetry);
/* One round: requests, a group from the queue, beat and bucket when they are due. True: the queue
 * holds more. */
bool telemetry_round(struct telemetry *telemetry, struct telemetry_time now);
/* All that is left, after the producer's last call. */
void telemetry_finish(struct telemetry *telemetry, struct telemetry_time now);

#endif
