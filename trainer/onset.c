#include "trainer/onset.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

int onset_init(struct onset *onset, const char *folder) {
    *onset = (struct onset){.folder = folder, .state = malloc(2 * sizeof *onset->state)};
    return onset->state ? 0 : -1;
}

void onset_free(struct onset *onset) {
    free(onset->state);
    *onset = (struct onset){0};
}

void onset_keep(struct onset *onset, const struct model *model, const struct checkpoint *before,
                const struct checkpoint *after) {
    model_get_state(model, &onset->state[0]);
    model_get_proposal(model, &onset->state[1]);
    onset->at[0] = *before;
    onset->at[1] = *after;
    onset->kept = true;
    onset->written = false;
}

int onset_save(struct onset *onset, const struct model *model, struct error *error) {
    static const char *const WHICH[] = {"before", "after"};
    if (!onset->kept || onset->written) return 0;
    onset->written = true;
    for (int i = 0; i < 2; i++) {
        char path[RECORD_TEXT_SIZE + 64];
        snprintf(path, sizeof path, "%s/onset-%08" PRId64 "-%s.safetensors", onset->folder,
                 onset->at[1].step, WHICH[i]);
        if (checkpoint_write(path, &onset->at[i], model, &onset->state[i], error)) return -1;
    }
    return 0;
}
