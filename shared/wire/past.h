/* How a reader learns what was before: the pyramid when it joins, events and steps where something
 * is missing, full records that somebody looks at. It knows what to ask, and what the answers mean;
 * the sockets are live.c's. */
#ifndef WIRE_PAST_H
#define WIRE_PAST_H

#include "shared/wire/asks.h"
#include "shared/wire/intake.h"
#include "shared/wire/sequence.h"

enum past_phase {
    PAST_MEETING,  /* no hello yet, or it is not known whether there is a history */
    PAST_JOINING,  /* the pyramid is asked for */
    PAST_EVENTS,   /* after the pyramid: the events before it are asked for; live messages wait */
    PAST_CATCHING, /* events, then steps are asked for that are missing before what waits */
    PAST_FOLLOWING /* nothing is missing */
};

struct past {
    struct intake *intake;
    struct asks asks;
    struct sequence sequence;
    enum past_phase phase;
    bool answers;         /* there is a history socket */
    int64_t last_step;    /* newest that the publisher says it has; -1: it did not say */
    uint64_t told;        /* events up to this seq were asked for with the pyramid before */
    uint64_t events_seq;  /* all events up to this seq have come */
    int64_t met_ns;       /* first hello of the run; monotonic */
    int64_t suspected_ns; /* when it was last asked whether this is still the same run */
    int64_t first_wanted, last_wanted; /* steps that are looked at; first > last: none */
    int64_t first_denied, last_denied; /* steps that could not be had in full; -1: none */
    struct record record;              /* to decode into */
};

void past_init(struct past *past, struct intake *intake, void *dealer);
void past_free(struct past *past);

/* Takes a hello; `answer`: it came from the history socket. -1: it cannot be read and no other came
 * before, or no memory. */
int past_hello(struct past *past, const struct message *message, int frame, bool answer,
               int64_t now_ns, struct error *error);
/* A live record or event: applied when it is the next, else kept back. -1: it cannot be read. */
int past_record(struct past *past, const void *body, size_t size, int64_t now_ns,
                struct error *error);
int past_event(struct past *past, const void *body, size_t size, int64_t now_ns,
               struct error *error);
/* Everything up to this seq was published. */
void past_beat(struct past *past, uint64_t seq, int64_t now_ns);
/* A message of the history socket. */
int past_reply(struct past *past, const struct message *message, int64_t now_ns,
               struct error *error);
/* Is this still the run that we know? Asks, but not often. */
void past_suspect(struct past *past, int64_t now_ns);
/* These steps are looked at now. */
void past_want(struct past *past, int64_t first, int64_t last);
/* Sends what is due. */
void past_advance(struct past *past, int64_t now_ns);

#endif
