/* What every source does with what it reads: judges the records that need it, applies them to the
 * run, passes them on. */
#ifndef WIRE_INTAKE_H
#define WIRE_INTAKE_H

#include "shared/wire/feed.h"

struct intake {
    struct run *run; /* the caller's */
    struct feed_options options;
    struct detector_limits limits; /* to judge by */
    struct detector detector;
    bool judging; /* the detector is there */
    struct record
        waiting; /* applied; goes to options.each when its events, which follow it, are known */
    bool waits;
    int64_t waits_since_ns;
    struct verdict verdict; /* of it */
    bool behind;            /* the source knows of more that comes before anything new */
    bool caught_up;         /* what the source had when it was opened has come, ... */
    int64_t caught_step;    /* ... up to here; -1: it had none */
    bool changed;           /* the run, since this was last cleared */
};

void intake_init(struct intake *intake, struct run *run, const struct feed_options *options);
void intake_free(struct intake *intake);

/* Are all records wanted, from the first to the last? */
bool intake_wants_all(const struct intake *intake);
/* Another run or schema also starts the detector anew. -1: no memory. */
int intake_hello(struct intake *intake, const struct hello *hello, struct error *error);
/* In order; `judge`: the record comes without a band. It is judged in place. */
void intake_record(struct intake *intake, struct record *record, bool judge, int64_t now_ns);
void intake_event(struct intake *intake, const struct event *event, int64_t now_ns);
/* Nothing more is there at present; `over`: nor will there be. */
void intake_rest(struct intake *intake, int64_t now_ns, bool over);
/* All that the source had has come. */
void intake_catch_up(struct intake *intake);
/* Empties the run: what comes now is another one at the same address. -1: no memory. */
int intake_restart(struct intake *intake, struct error *error);

#endif
