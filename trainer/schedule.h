/* The order in which a run sees its data: phases of epochs, each over a subset of the images,
 * shuffled anew every epoch. */
#ifndef TRAINER_SCHEDULE_H
#define TRAINER_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "shared/core/error.h"
#include "shared/core/record.h"

enum { SCHEDULE_PHASES_MAX = 3 };

#define SCHEDULE_HISTORIES(X)                                            \
    X(SABC, "sabc")         /* classes 0-4, then 5-9, then relaxation */ \
    X(SBAC, "sbac")         /* 5-9, then 0-4, then relaxation */         \
    X(SHUFFLED, "shuffled") /* all, then relaxation */

enum schedule_history {
#define X(upper, name) SCHEDULE_##upper,
    SCHEDULE_HISTORIES(X)
#undef X
        SCHEDULE_HISTORY_COUNT
};

struct schedule_options {
    enum schedule_history history;
    int phases;                      /* phases to run: entries of `epochs` */
    int epochs[SCHEDULE_PHASES_MAX]; /* of each phase, 1 or more */
    float lr[SCHEDULE_PHASES_MAX];   /* of each phase */
    uint64_t seed;
};

struct schedule_phase {
    char data[RECORD_PHASE_SIZE]; /* "5-9", "relaxation" */
    bool relaxation;
    int epochs;
    float lr;
    int32_t images;
    int32_t *image; /* (images) indices into the data set in file order, owned */
};

struct schedule {
    uint64_t seed;
    int epochs;         /* of the whole run */
    int32_t images_max; /* of the largest phase */
    int phases;
    struct schedule_phase phase[SCHEDULE_PHASES_MAX];
};

/* Number of phases a history has; names as in the table; -1: no such history. */
int schedule_history_phases(enum schedule_history history);
const char *schedule_history_name(enum schedule_history history);
int schedule_history_find(const char *name);

/* Lays the phases out over labels[0..images). Relaxation takes the first images of every class, as
 * many as the rarest class has. -1: more phases than the history has, or one without images; no
 * memory. */
int schedule_init(struct schedule *schedule, const struct schedule_options *options,
                  const uint8_t *label, int32_t images, struct error *error);
void schedule_free(struct schedule *schedule);

/* Epoch of the run, from 1, that is epoch `of_phase` (from 1) of phase number `phase` (from 0). */
int schedule_epoch(const struct schedule *schedule, int phase, int of_phase);
/* order[0..images of the phase): the images of that epoch in its order. In relaxation the epochs of
 * the phase count, so that both histories of a seed see the same batches. */
void schedule_shuffle(const struct schedule *schedule, int phase, int of_phase, int32_t *order);

#endif
