/* One run as a reader knows it: pure state, changed only by run_apply_*. Views read it, nothing
 * else. */
#ifndef CORE_RUN_H
#define CORE_RUN_H

#include "shared/core/series.h"

enum {
    RUN_EVENTS = 256,
    RUN_RECORDS_MAX = 1024,
    RUN_RECORDS_MIN = 16,        /* however large a record is */
    RUN_RECORDS_BYTES = 4 << 20, /* of the ring */
    RUN_STRETCH_GAP = 10         /* finite steps that a stretch may hold between two others */
};

enum run_link {
    RUN_CONNECTING, /* nothing heard yet */
    RUN_LIVE,
    RUN_SILENT, /* alive or not known, but nothing heard for 4.5 s */
    RUN_DEAD,   /* its lock is free and no `end` was seen */
    RUN_ENDED,  /* said so */
    RUN_STORED  /* read from a file */
};

struct run {
    char source[256]; /* the address dialled, or the file */
    enum run_link link;
    bool known; /* hello is valid */
    struct hello hello;
    struct series series;
    int buckets;             /* a level of the series */
    uint64_t seq;            /* newest applied, record or event */
    uint64_t record_seq;     /* newest record applied */
    int64_t heard_ns;        /* monotonic, of the reader */
    int64_t gap_steps;       /* steps published but not arrived */
    int64_t duplicates;      /* records refused because they were there already */
    int64_t unrecorded;      /* seqs that are not in the run file */
    enum band worst;         /* in the run's whole life, as far as known */
    int64_t onset;           /* of the stretch going on, else of the last one that ended
                                non-finite; -1 */
    int64_t lead;            /* of the last non-finite stretch, as are the next two; -1 */
    int64_t first_nonfinite; /* step; -1 */
    char first_tensor[SCHEMA_NAME_SIZE]; /* "logits", or the metric when no tensor tells; "" */
    int64_t alarm_step;                  /* newest alarm; -1 */
    int64_t alarms;                      /* so far */
    int64_t safe_step;                   /* last safe checkpoint; -1: none */
    char safe_path[RECORD_TEXT_SIZE];
    bool lost;          /* something published before the next record did not arrive */
    double steps_per_s; /* over the last 2 to 4 s, by the publisher's clock; NAN */
    int64_t rate_step[2], rate_ns[2];
    int records; /* capacity of the ring */
    struct record
        *record; /* (records) slot = step % records; a slot is empty, or seq and step tell */
    int details; /* capacity of the ring of older steps */
    struct record *detail;          /* (details) slot = step % details */
    int64_t last_step;              /* newest record in memory; -1 */
    int events;                     /* ever applied; the newest RUN_EVENTS are kept */
    struct event event[RUN_EVENTS]; /* ring, slot = number % RUN_EVENTS */
};

/* With an empty series of the standard metrics, so that a view may draw it at once. `buckets`: a
 * level of the series. Returns -1 when there is no memory. */
int run_init(struct run *run, const char *source, int buckets);
void run_free(struct run *run);

/* Takes a copy of the hello. A new schema starts the series and the rings anew, another run id
 * everything. -1: no memory, nothing changed. */
int run_apply_hello(struct run *run, const struct hello *hello, struct error *error);
/* A record in order of seq: into the ring and the series. One at or before the newest record's seq
 * is refused, counted, -1; likewise, not counted, one before any hello. Seq 0 (no publisher) is
 * always newer. Steps that a jump leaves out are a gap when the seq says that something was lost. A
 * step at or before the series' last (a resumed run) changes the ring alone. */
int run_apply_record(struct run *run, const struct record *record, int64_t now_ns);
/* An old record that was asked for. A step that the ring of the newest steps still reaches goes
 * there, any other into the ring of details: it displaces no newer step, and newer steps do not
 * displace it, only other details do. So a cursor may stand on `details` neighbouring old steps
 * while the run goes on. */
void run_apply_detail(struct run *run, const struct record *record);
/* One whose seq is kept already is ignored. Old events come in order, and after the pyramid: it
 * tells whether their stretch still goes on. */
void run_apply_event(struct run *run, const struct event *event, int64_t now_ns);
/* An event came that is not to be told: its seq is not missing. */
void run_apply_seq(struct run *run, uint64_t seq);
int run_apply_bucket(struct run *run, int level, const struct series_bucket *bucket,
                     const struct series_value *value);
/* What of it lies at or before the series' last step is not counted. */
void run_apply_gap(struct run *run, int64_t first_step, int64_t last_step);
/* Anything heard: a beat too. */
void run_apply_heard(struct run *run, int64_t now_ns);

/* Its trainer lives no more: it is dead unless it said that it ends. */
void run_apply_death(struct run *run);

/* An `end` came after the newest record. */
bool run_has_ended(const struct run *run);
/* NULL: not in memory. */
const struct record *run_find_record(const struct run *run, int64_t step);
/* The n-th newest event, 0 the newest; NULL: not kept. */
const struct event *run_find_event(const struct run *run, int n);
/* Step of the nearest event before (direction -1) or after (+1) `step`; -1: none. */
int64_t run_find_event_step(const struct run *run, int64_t step, int direction);

const char *run_link_name(enum run_link link);

#endif
