/* Writes checkpoints in a thread of its own: whoever trains hands a state over and never waits for
 * the disk. Every kind has slots of its own, so that a phase end is never refused: there are as
 * many slots for them as a run has phases. The checkpoint of an epoch is refused while the one
 * before it is being written, an onset record likewise. */
#ifndef TRAINER_WRITER_H
#define TRAINER_WRITER_H

#include "trainer/checkpoint.h"

struct writer; /* the thread, its slots */

/* What is to be written, filled by the caller, and what became of it. */
struct writer_job {
    struct checkpoint checkpoint;
    struct model_state state;
    int result;         /* of the function that saves */
    struct error error; /* where that is -1 */
    bool busy;          /* the writer's own */
};

typedef int writer_save(struct checkpoint_list *list, const struct checkpoint *checkpoint,
                        const struct model *model, const struct model_state *state,
                        struct error *error);

struct writer_options {
    struct checkpoint_list *list; /* the thread's, unless writer_wait said that nothing is left */
    const struct model *model;    /* only its table is read; both outlive the writer */
    writer_save *save;            /* NULL: checkpoint_save */
};

/* Starts the thread; signals are blocked in it. -1: no memory, no thread. */
int writer_open(struct writer **out, const struct writer_options *options, struct error *error);
/* Writes what was submitted first. NULL is legal. */
void writer_close(struct writer *writer);

/* All functions below are for one thread. None but writer_wait waits. */

/* A slot for a job of this kind, which stays checkpoint.kind; the caller's until it is submitted.
 * NULL: all are under way. */
struct writer_job *writer_begin(struct writer *writer, enum checkpoint_kind kind);
void writer_submit(struct writer *writer, struct writer_job *job);
/* The next job that is done, in the order of submission; valid until the next writer_begin. NULL:
 * none. */
const struct writer_job *writer_take(struct writer *writer);
/* The same, once it is done. NULL: nothing submitted is left. */
const struct writer_job *writer_wait(struct writer *writer);

#endif
