/* The trainer's end of the wire: a queue that never blocks, and a telemetry thread that owns every
 * socket and the run file. It commits, then publishes, in groups of at most 10 ms; answers history
 * requests; goes on when the run file fails. */
#ifndef WIRE_PUBLISHER_H
#define WIRE_PUBLISHER_H

#include "shared/core/record.h"

enum { PUBLISHER_QUEUE = 4096 };

struct publisher; /* thread, sockets, queue */

struct publisher_options {
    const struct hello *hello; /* copied */
    /* Besides ipc in the user's folder: "tcp://127.0.0.1:5570" (taken: the next free pair). NULL:
     * none. */
    const char *bind;
    bool insecure;        /* allows another address than this machine's own without CURVE */
    const char *run_file; /* path of run.db; NULL: none */
    int64_t run_file_max; /* bytes */
    int queue;            /* records; 0: PUBLISHER_QUEUE */
};

/* Binds, creates the run file, starts the thread (signals blocked in it). */
int publisher_open(struct publisher **out, const struct publisher_options *options,
                   struct error *error);
/* The next free record of the queue, cleared, its seq not yet set; NULL: the queue is full, and
 * this one is dropped: its seq is counted and published as a gap. Never waits, never enters the
 * kernel. One producer thread; no event between begin and submit. */
struct record *publisher_begin(struct publisher *publisher);
/* Hands the record from publisher_begin over. */
void publisher_submit(struct publisher *publisher);
/* Queues an event behind the records so far (copied; seq is set). Never waits; dropped and counted
 * when the queue is full. */
void publisher_event(struct publisher *publisher, const struct event *event);
/* Address to dial for a person: "ipc:///tmp/nantop-0/x" or "tcp://127.0.0.1:5570". */
const char *publisher_address(const struct publisher *publisher);
/* Drains the queue, publishes what is left (say an `end` event first), closes the run file,
 * unbinds; readers that do not read hold it up for a second at most. NULL is legal. */
void publisher_close(struct publisher *publisher);

#endif
