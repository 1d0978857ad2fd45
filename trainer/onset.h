/* The states around the onset of a stretch: kept from its first step on, written when an alarm
 * rings in it. */
#ifndef TRAINER_ONSET_H
#define TRAINER_ONSET_H

#include "trainer/writer.h"

enum onset_stage { ONSET_NONE, ONSET_KEPT, ONSET_MISSED };

struct onset {
    const char *folder;
    struct writer *writer;     /* both outlive it */
    struct writer_job *job[2]; /* before and after the first step; NULL: none is held */
    int64_t step;              /* the first one of the stretch going on */
    enum onset_stage stage;    /* of that stretch; none once it was handed to the writer */
};

void onset_init(struct onset *onset, const char *folder, struct writer *writer);
/* Takes the committed state, described by `before` (both of kind CHECKPOINT_ONSET), and the
 * proposal of the step that begins a stretch; misses them while an earlier onset is still being
 * written. */
void onset_keep(struct onset *onset, const struct model *model, const struct checkpoint *before,
                const struct checkpoint *after);
/* Has folder/onset-N-before.safetensors and -after written, once a stretch. -1: they were missed.
 */
int onset_save(struct onset *onset, struct error *error);

#endif
