/* One run as a reader knows it: pure state, changed only by run_apply_*. Views read it, nothing else. */
#ifndef CORE_RUN_H
#define CORE_RUN_H

#include "shared/core/series.h"

enum { RUN_EVENTS = 256, RUN_RECORDS_MAX = 1024, RUN_RECORDS_BYTES = 4 << 20 };

enum run_link {
    RUN_CONNECTING,  /* nothing heard yet */
    RUN_LIVE,
    RUN_SILENT,      /* alive or not known, but nothing heard for 5 s */
    RUN_DEAD,        /* its lock is free and no `end` was seen */
    RUN_ENDED,       /* said so */
    RUN_STORED       /* read from a file */
};

struct run {
    char source[256];              /* the address dialled, or the file */
    enum run_link link;
    bool known;                    /* hello is valid */
    struct hello hello;
    struct series series;
    uint64_t seq;                  /* newest applied */
    int64_t heard_ns;              /* monotonic, of the reader */
    int64_t gap_steps;             /* steps published but not arrived */
    int64_t duplicates;            /* records refused because they were there already */
    int64_t unrecorded;            /* seqs that are not in the run file */
    enum band worst;               /* in the run's whole life, as far as known */
    int64_t onset;                 /* of the stretch going on, or of the last one that ended non-finite; -1 */
    int64_t lead;                  /* -1 */
    int64_t first_nonfinite;       /* step; -1 */
    int64_t alarm_step;            /* newest alarm; -1 */
    int64_t alarms;                /* so far */
    char first_tensor[SCHEMA_NAME_SIZE]; /* first non-finite tensor, "logits"; "" */
    int64_t safe_step;             /* last safe checkpoint; -1: none */
    char safe_path[RECORD_TEXT_SIZE];
    double steps_per_s;            /* over the last seconds, by the publisher's clock; NAN */
    int records;                   /* capacity of the ring */
    struct record *record;         /* (records) newest full records and those asked for; slot = step % records; seq and step tell */
    int64_t last_step;             /* newest record; -1 */
    int events;                    /* ever applied; the newest RUN_EVENTS are kept */
    struct event event[RUN_EVENTS]; /* ring, slot = number % RUN_EVENTS */
};

int run_init(struct run *run, const char *source, int buckets);
void run_free(struct run *run);

/* Takes a copy of the hello; a new schema starts the series and the ring anew. -1: no memory. */
int run_apply_hello(struct run *run, const struct hello *hello, struct error *error);
/* A record in order of seq: into the ring and the series. One at or before `seq` is refused, counted, -1. */
int run_apply_record(struct run *run, const struct record *record, int64_t now_ns);
/* An old record that was asked for: into the ring only. */
void run_apply_detail(struct run *run, const struct record *record);
void run_apply_event(struct run *run, const struct event *event, int64_t now_ns);
int run_apply_bucket(struct run *run, int level, const struct series_bucket *bucket, const struct series_value *value);
void run_apply_gap(struct run *run, int64_t first_step, int64_t last_step);
/* Anything heard: a beat too. */
void run_apply_heard(struct run *run, int64_t now_ns);

/* NULL: not in memory. */
const struct record *run_find_record(const struct run *run, int64_t step);
/* The n-th newest event, 0 the newest; NULL: not kept. */
const struct event *run_find_event(const struct run *run, int n);
/* Step of the nearest event before (direction -1) or after (+1) `step`; -1: none. */
int64_t run_find_event_step(const struct run *run, int64_t step, int direction);

const char *run_link_name(enum run_link link);

#endif
