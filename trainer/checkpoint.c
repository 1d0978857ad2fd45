#include "trainer/checkpoint.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/core/text.h"
#include "shared/store/safetensors.h"

enum { ENTRIES = 2 * MODEL_PARAMETERS, VALUE_SIZE = 64 };

struct meta_row {
    const char *key;
    char value[VALUE_SIZE];
};

void checkpoint_list_init(struct checkpoint_list *list, int keep_last) {
    *list = (struct checkpoint_list){.keep_last = keep_last};
}

void checkpoint_list_free(struct checkpoint_list *list) {
    free(list->file);
    *list = (struct checkpoint_list){0};
}

static void fill_entries(struct safetensors_entry entry[ENTRIES], const struct model *model,
                         const struct model_state *state) {
    for (int i = 0; i < ENTRIES; i++) {
        bool momentum = i >= MODEL_PARAMETERS;
        int row = momentum ? MODEL_MOMENTUM + i - MODEL_PARAMETERS : MODEL_PARAM + i;
        const struct model_tensor *tensor = &model->tensor[row];
        entry[i] = (struct safetensors_entry){.dtype = "F32", .dims = tensor->dims};
        snprintf(entry[i].name, sizeof entry[i].name, "%s%s", momentum ? "momentum_buffer." : "",
                 tensor->name);
        memcpy(entry[i].shape, tensor->shape, (size_t)tensor->dims * sizeof *tensor->shape);
        entry[i].data = (momentum ? state->momentum : state->param) + tensor->offset;
        entry[i].size_bytes = (size_t)tensor->count * sizeof(float);
    }
}

static int write_file(const struct checkpoint *checkpoint, const struct model *model,
                      const struct model_state *state, struct error *error) {
    struct safetensors_entry entry[ENTRIES];
    struct meta_row row[] = {{"run_id", ""}, {"step", ""},   {"epoch", ""},      {"phase", ""},
                             {"seed", ""},   {"offset", ""}, {"state_hash", ""}, {"mark", ""}};
    enum { ROWS = sizeof row / sizeof *row };
    struct safetensors_meta meta[ROWS];
    text_copy(row[0].value, VALUE_SIZE, checkpoint->run_id);
    snprintf(row[1].value, VALUE_SIZE, "%" PRId64, checkpoint->step);
    snprintf(row[2].value, VALUE_SIZE, "%" PRId32, checkpoint->epoch);
    snprintf(row[3].value, VALUE_SIZE, "%" PRId32, checkpoint->phase);
    snprintf(row[4].value, VALUE_SIZE, "%" PRIu64, checkpoint->seed);
    snprintf(row[5].value, VALUE_SIZE, "%" PRId64, checkpoint->offset);
    snprintf(row[6].value, VALUE_SIZE, "%016" PRIx64, model_state_hash(state));
    text_copy(row[7].value, VALUE_SIZE, checkpoint->mark);
    for (int i = 0; i < ROWS; i++) meta[i] = (struct safetensors_meta){row[i].key, row[i].value};
    fill_entries(entry, model, state);
    struct safetensors_file file = {
        .entries = ENTRIES, .metas = ROWS, .entry = entry, .meta = meta};
    return safetensors_save(checkpoint->path, &file, error);
}

/* Deletes ordinary checkpoints before the newest keep_last of them, but for the last safe one. */
static void prune(struct checkpoint_list *list) {
    const struct checkpoint *safe = checkpoint_find_safe(list);
    int64_t safe_step = safe ? safe->step : -1;
    int ordinary = 0, kept = 0;
    for (int i = 0; i < list->files; i++) ordinary += list->file[i].kind == CHECKPOINT_ORDINARY;
    for (int i = 0; i < list->files; i++) {
        struct checkpoint *file = &list->file[i];
        bool old = file->kind == CHECKPOINT_ORDINARY && ordinary-- > list->keep_last;
        if (old && file->step != safe_step)
            unlink(file->path);
        else
            list->file[kept++] = *file;
    }
    list->files = kept;
}

static bool is_finite(const struct model_state *state) {
    const float *value = (const float *)state;
    for (size_t i = 0; i < sizeof *state / sizeof *value; i++)
        if (!isfinite(value[i])) return false;
    return true;
}

int checkpoint_save(struct checkpoint_list *list, const struct checkpoint *checkpoint,
                    const struct model *model, const struct model_state *state,
                    struct error *error) {
    if (checkpoint->kind == CHECKPOINT_ONSET) return write_file(checkpoint, model, state, error);
    if (!is_finite(state)) return 1;
    void *grown = realloc(list->file, ((size_t)list->files + 1) * sizeof *list->file);
    if (!grown) return error_set(error, "writing %s: no memory", checkpoint->path);
    list->file = grown;
    if (write_file(checkpoint, model, state, error)) return -1;
    list->file[list->files++] = *checkpoint;
    prune(list);
    return 0;
}

const struct checkpoint *checkpoint_find_newest(const struct checkpoint_list *list) {
    return list->files ? &list->file[list->files - 1] : NULL;
}

const struct checkpoint *checkpoint_find_safe(const struct checkpoint_list *list) {
    for (int i = list->files - 1; i >= 0; i--)
        if (list->file[i].safe) return &list->file[i];
    return NULL;
}
