/* What a trainer remembers of its run, and answers from it: the pyramid, the newest records and
 * events in memory, older steps from the run file. Requests are bytes of an enemy. */
#ifndef WIRE_HISTORY_H
#define WIRE_HISTORY_H

#include "shared/core/series.h"
#include "shared/store/codec.h"
#include "shared/store/runfile.h"
#include "shared/wire/backlog.h"
#include "shared/wire/message.h"

enum {
    HISTORY_RECORDS = 8192,
    HISTORY_RECORD_BYTES = 8 << 20,
    HISTORY_EVENTS = 4096,
    HISTORY_EVENT_BYTES = 1 << 20,
    HISTORY_BUCKETS_FINE = 512, /* of level 0, in a whole pyramid */
    HISTORY_BUCKETS = 1024,     /* of a level, in one body */
    HISTORY_REPLY_STEPS = 256,
    HISTORY_REPLY_BYTES = 384 << 10
};

struct history {
    const struct hello *hello; /* the caller's */
    char *path;                /* of the run file, owned; NULL: none */
    struct runfile *file;      /* for reading; NULL until an old step is asked for */
    struct series series;
    struct backlog records, events;
    uint64_t seq;                 /* newest handed out */
    int64_t first_step;           /* of the run; -1: none yet */
    bool lost;                    /* something was dropped since the last record */
    struct series_bucket *bucket; /* (HISTORY_BUCKETS) for encoding */
    struct series_value *value;   /* (HISTORY_BUCKETS, metrics) */
    struct buffer hello_body, body;
    struct message request, reply;
};

/* -1: no memory. */
int history_init(struct history *history, const struct hello *hello, const char *run_file);
void history_free(struct history *history);

/* In order of seq; `body` as published. */
void history_add_record(struct history *history, const struct record *record,
                        const struct buffer *body);
void history_add_event(struct history *history, const struct event *event,
                       const struct buffer *body);

/* The buckets of a level that begin at first..last, HISTORY_BUCKETS at most, as a body that is good
 * until the next call; NULL: none, or no memory. `*next`: where the bucket begins that did not fit;
 * -1: all did. */
const struct buffer *history_buckets(struct history *history, int level, int64_t first,
                                     int64_t last, int64_t *next);
/* Takes one request from the ROUTER socket and answers it. False: there is none. */
bool history_answer(struct history *history, void *router);

#endif
