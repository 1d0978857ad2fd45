/* The states around the onset of a stretch: kept from its first step on, written when an alarm
 * rings in it. */
#ifndef TRAINER_ONSET_H
#define TRAINER_ONSET_H

#include "trainer/checkpoint.h"

struct onset {
    const char *folder;        /* outlives it */
    struct checkpoint at[2];   /* before and after the first step */
    struct model_state *state; /* (2) owned */
    bool kept, written;        /* of the stretch going on */
};

/* -1: no memory. */
int onset_init(struct onset *onset, const char *folder);
void onset_free(struct onset *onset);
/* Takes the committed state, described by `before`, and the proposal of the step that begins a
 * stretch. */
void onset_keep(struct onset *onset, const struct model *model, const struct checkpoint *before,
                const struct checkpoint *after);
/* Writes folder/onset-N-before.safetensors and -after, once a stretch. */
int onset_save(struct onset *onset, const struct model *model, struct error *error);

#endif
