#include "trainer/onset.h"

#include <inttypes.h>
#include <stdio.h>

void onset_init(struct onset *onset, const char *folder, struct writer *writer) {
    *onset = (struct onset){.folder = folder, .writer = writer};
}

static void describe(const struct onset *onset, int which, const struct checkpoint *checkpoint) {
    static const char *const WHICH[] = {"before", "after"};
    struct checkpoint *kept = &onset->job[which]->checkpoint;
    *kept = *checkpoint;
    snprintf(kept->path, sizeof kept->path, "%s/onset-%08" PRId64 "-%s.safetensors", onset->folder,
             onset->step, WHICH[which]);
}

void onset_keep(struct onset *onset, const struct model *model, const struct checkpoint *before,
                const struct checkpoint *after) {
    for (int i = 0; i < 2; i++)
        if (!onset->job[i]) onset->job[i] = writer_begin(onset->writer, CHECKPOINT_ONSET);
    onset->step = after->step;
    onset->stage = onset->job[0] && onset->job[1] ? ONSET_KEPT : ONSET_MISSED;
    if (onset->stage == ONSET_MISSED) return;
    describe(onset, 0, before);
    describe(onset, 1, after);
    model_get_state(model, &onset->job[0]->state);
    model_get_proposal(model, &onset->job[1]->state);
}

int onset_save(struct onset *onset, struct error *error) {
    enum onset_stage stage = onset->stage;
    onset->stage = ONSET_NONE;
    if (stage == ONSET_MISSED)
        return error_set(error,
                         "the states around the onset at step %" PRId64
                         " are lost: the disk was still busy with those of the onset before it",
                         onset->step);
    for (int i = 0; i < 2 && stage == ONSET_KEPT; i++) {
        writer_submit(onset->writer, onset->job[i]);
        onset->job[i] = NULL;
    }
    return 0;
}
