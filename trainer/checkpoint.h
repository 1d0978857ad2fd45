/* The checkpoints of a run: written whole or not at all, and as many kept as were asked for; a
 * phase end and the last safe one are never deleted. */
#ifndef TRAINER_CHECKPOINT_H
#define TRAINER_CHECKPOINT_H

#include <stdbool.h>

#include "shared/core/record.h"
#include "trainer/model.h"

enum { CHECKPOINT_MARK_SIZE = 64 };

/* What a checkpoint is of, besides the state. */
struct checkpoint {
    const char *run_id;
    int64_t step;
    int32_t epoch, phase;
    uint64_t seed;  /* seed, epoch and offset are the whole state of the generator */
    int64_t offset; /* images of the epoch that were read */
    bool phase_end;
    bool safe; /* finite, no tensor of the state extreme, no stretch going on */
    char mark[CHECKPOINT_MARK_SIZE]; /* "phase 1 end", "" */
};

struct checkpoint_file {
    int64_t step;
    bool phase_end, safe;
    char path[RECORD_TEXT_SIZE];
};

struct checkpoint_list {
    const char *folder; /* outlives the list */
    int keep_last;
    int files;
    struct checkpoint_file *file; /* (files) in order of steps, owned */
};

void checkpoint_list_init(struct checkpoint_list *list, const char *folder, int keep_last);
/* Forgets the files; they stay. */
void checkpoint_list_free(struct checkpoint_list *list);

/* Writes one file that no list keeps. */
int checkpoint_write(const char *path, const struct checkpoint *checkpoint,
                     const struct model *model, const struct model_state *state,
                     struct error *error);
/* Writes folder/step-N.safetensors, then deletes what need not be kept. -1: not written; nothing
 * was deleted. */
int checkpoint_save(struct checkpoint_list *list, const struct checkpoint *checkpoint,
                    const struct model *model, const struct model_state *state,
                    struct error *error);
/* NULL: none yet. */
const struct checkpoint_file *checkpoint_find_newest(const struct checkpoint_list *list);
const struct checkpoint_file *checkpoint_find_safe(const struct checkpoint_list *list);

#endif
