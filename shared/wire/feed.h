/* A reader's end: one source (a live endpoint, a run file, or JSON lines on a descriptor) applied
 * to one run, without gap or duplicate. SUB first, then hello, pyramid, records; live messages are
 * held until history meets them. */
#ifndef WIRE_FEED_H
#define WIRE_FEED_H

#include "shared/core/detector.h"
#include "shared/core/run.h"
#include "shared/wire/endpoint.h"

struct feed; /* sockets or file of one source, and what is held back */

struct feed_options {
    int columns; /* newest steps wanted one by one at the start; 0: as the publisher thinks best */
    /* NULL: believe the records; else judge again: all records are fetched. Copied. */
    const struct detector_limits *rejudge;
    bool all_records; /* every record passes through `each` (for --json) */
    void (*each)(void *user, const struct run *run, const struct record *record,
                 const struct verdict *verdict); /* NULL */
    void *user;
    int64_t now_ns; /* monotonic */
};

/* `context`: the program's zmq context. The run is the caller's, initialised, and changed only
 * inside feed_poll. */
int feed_open_endpoint(struct feed **out, void *context, const char *address, struct run *run,
                       const struct feed_options *options, struct error *error);
int feed_open_file(struct feed **out, const char *path, struct run *run,
                   const struct feed_options *options, struct error *error);
int feed_open_lines(struct feed **out, int fd, struct run *run, const struct feed_options *options,
                    struct error *error);
void feed_close(struct feed *feed); /* NULL is legal */

/* What to poll for: up to `max` zmq_pollitem_t go to `items` (a void * so that only owners of
 * sockets include zmq.h). Returns how many. */
int feed_items(struct feed *feed, void *items, int max);
/* Takes in what is there, at most about `budget_ns` of time, sends requests, notices silence. Never
 * blocks. Returns 1 when the run changed, 0 when not, -1 when the source is over (end of file, of
 * lines) or cannot go on, with the reason ("" at a clean end). After a clean end it may be called
 * on: feed_want still works. */
int feed_poll(struct feed *feed, int64_t now_ns, int64_t budget_ns, struct error *error);
/* All that the source had when it was opened is in the run, and went through `each`. Never so for
 * lines, which may go on. */
bool feed_caught_up(const struct feed *feed);
/* Asks for the full records of steps first..last; they arrive in the run's ring later. Asking again
 * is cheap. */
void feed_want(struct feed *feed, int64_t first, int64_t last);

#endif
