/* Everything a run consists of: options, data, schedule, model, tracer, publisher, and where it
 * stands. loop.h runs it. */
#ifndef TRAINER_TRAINING_H
#define TRAINER_TRAINING_H

#include <signal.h>

#include "shared/wire/publisher.h"
#include "trainer/checkpoint.h"
#include "trainer/folder.h"
#include "trainer/onset.h"
#include "trainer/options.h"
#include "trainer/report.h"
#include "trainer/tracer.h"

struct training_place {
    int phase, of_phase; /* from 0; epoch of the phase from 1 */
    int32_t offset;      /* images of the epoch before this step */
    int32_t images;      /* of this step */
    struct report_place at;
};

struct training {
    const struct options *options;
    const volatile sig_atomic_t *stop;
    struct folder folder;
    struct dataset dataset;
    struct schedule schedule;
    const struct kernels *kernels;
    struct kernels_device *device;
    struct model model;
    uint64_t initial_hash; /* of the state before the first step */
    int32_t *order;        /* images of the epoch going on */
    struct hello hello;
    struct tracer tracer;
    struct publisher *publisher;
    struct checkpoint_list checkpoints; /* the writer's while it has something to do */
    struct writer *writer;
    struct onset onset;
    struct report report;
    struct training_place place;   /* of the step going on */
    struct training_place written; /* newest step that was committed */
    bool safe;                     /* the committed state is worth resuming from */
    int64_t steps;                 /* of the whole run */
    int64_t started_ns;            /* monotonic, as the next ones: before the first step */
    int64_t mark_ns;               /* what the step going on counts from */
    int64_t due_ns;                /* when it was due, with --pace */
    int64_t saved_ns, told_ns;     /* newest checkpoint, newest line of progress */
    bool terminal;                 /* stderr is one */
};

/* Takes everything, what can be wrong with the input first, what leaves something behind (folder,
 * run file, endpoint) last. `options` and `stop` (set by a signal) outlive it. -1: nothing is held.
 */
int training_open(struct training *training, const struct options *options,
                  const volatile sig_atomic_t *stop, struct error *error);
void training_close(struct training *training);

/* Batches of an epoch of this phase (from 0). */
int32_t training_count_batches(const struct training *training, int phase);

#endif
