/* The checkpoints of a run: written whole or not at all, and as many kept as were asked for; a
 * phase end and the last safe one are never deleted. */
#ifndef TRAINER_CHECKPOINT_H
#define TRAINER_CHECKPOINT_H

#include <stdbool.h>

#include "shared/core/record.h"
#include "trainer/model.h"

enum { CHECKPOINT_MARK_SIZE = 64 };

enum checkpoint_kind {
    CHECKPOINT_ORDINARY,  /* of an epoch, of the end of a run */
    CHECKPOINT_PHASE_END, /* never deleted */
    CHECKPOINT_ONSET,     /* evidence: in no list, and it may hold a NaN or an Inf */
    CHECKPOINT_KINDS
};

/* What a checkpoint is of, besides the state, and where it lies. */
struct checkpoint {
    enum checkpoint_kind kind;
    const char *run_id; /* outlives it */
    int64_t step;
    int32_t epoch, phase, batch;
    uint64_t seed;  /* seed, epoch and offset are the whole state of the generator */
    int64_t offset; /* images of the epoch that were read */
    bool safe;      /* finite, no tensor of the state extreme, no stretch going on */
    char mark[CHECKPOINT_MARK_SIZE]; /* "phase 1 end", "" */
    char path[RECORD_TEXT_SIZE];
};

struct checkpoint_list {
    int keep_last;
    int files;
    struct checkpoint *file; /* (files) in order of steps, owned */
};

void checkpoint_list_init(struct checkpoint_list *list, int keep_last);
/* Forgets the files; they stay. */
void checkpoint_list_free(struct checkpoint_list *list);

/* Writes the file, then deletes what need not be kept. 1: a NaN or an Inf in the state, which is
 * not worth a file. -1: not written. In both cases nothing was deleted. */
int checkpoint_save(struct checkpoint_list *list, const struct checkpoint *checkpoint,
                    const struct model *model, const struct model_state *state,
                    struct error *error);
/* NULL: none yet. */
const struct checkpoint *checkpoint_find_newest(const struct checkpoint_list *list);
const struct checkpoint *checkpoint_find_safe(const struct checkpoint_list *list);

#endif
