#include "trainer/schedule.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "shared/core/text.h"
#include "trainer/dataset.h"
#include "trainer/generator.h"

struct domain {
    const char *data;
    int first, last; /* classes */
    bool relaxation;
};

static const struct domain LOW = {"0-4", 0, 4, false};
static const struct domain HIGH = {"5-9", 5, 9, false};
static const struct domain ALL = {"0-9", 0, 9, false};
static const struct domain RELAXATION = {"relaxation", 0, 9, true};

static const struct domain *const DOMAIN[][SCHEDULE_PHASES_MAX] = {
    [SCHEDULE_SABC] = {&LOW, &HIGH, &RELAXATION},
    [SCHEDULE_SBAC] = {&HIGH, &LOW, &RELAXATION},
    [SCHEDULE_SHUFFLED] = {&ALL, &RELAXATION},
};

static const char *const NAME[] = {
#define X(upper, name) name,
    SCHEDULE_HISTORIES(X)
#undef X
};

int schedule_history_phases(enum schedule_history history) {
    int phases = 0;
    while (phases < SCHEDULE_PHASES_MAX && DOMAIN[history][phases]) phases++;
    return phases;
}

const char *schedule_history_name(enum schedule_history history) { return NAME[history]; }

int schedule_history_find(const char *name) {
    for (int i = 0; i < SCHEDULE_HISTORY_COUNT; i++)
        if (strcmp(NAME[i], name) == 0) return i;
    return -1;
}

static int32_t count_rarest(const uint8_t *label, int32_t images) {
    int32_t count[DATASET_CLASSES] = {0}, rarest = INT32_MAX;
    for (int32_t i = 0; i < images; i++) count[label[i]]++;
    for (int class = 0; class < DATASET_CLASSES; class ++)
        if (count[class] < rarest) rarest = count[class];
    return rarest;
}

static int phase_init(struct schedule_phase *phase, const struct domain *domain,
                      const uint8_t *label, int32_t images) {
    int32_t limit = domain->relaxation ? count_rarest(label, images) : INT32_MAX;
    int32_t count[DATASET_CLASSES] = {0};
    phase->image = malloc((size_t)images * sizeof *phase->image);
    if (!phase->image) return -1;
    text_copy(phase->data, sizeof phase->data, domain->data);
    phase->relaxation = domain->relaxation;
    for (int32_t i = 0; i < images; i++) {
        int class = label[i];
        if (class >= domain->first && class <= domain->last && count[class]++ < limit)
            phase->image[phase->images++] = i;
    }
    return 0;
}

int schedule_init(struct schedule *schedule, const struct schedule_options *options,
                  const uint8_t *label, int32_t images, struct error *error) {
    if (options->phases > schedule_history_phases(options->history))
        return error_set(error, "planning the run: %d phases, %s has %d", options->phases,
                         schedule_history_name(options->history),
                         schedule_history_phases(options->history));
    *schedule = (struct schedule){.seed = options->seed, .phases = options->phases};
    for (int i = 0; i < options->phases; i++) {
        struct schedule_phase *phase = &schedule->phase[i];
        phase->epochs = options->epochs[i];
        phase->lr = options->lr[i];
        if (phase_init(phase, DOMAIN[options->history][i], label, images)) {
            schedule_free(schedule);
            return error_set(error, "planning the run: no memory for %d images", images);
        }
        if (phase->images == 0) {
            schedule_free(schedule);
            return error_set(error, "planning the run: no images for phase %d (%s) among %d", i + 1,
                             DOMAIN[options->history][i]->data, images);
        }
        schedule->epochs += phase->epochs;
        if (phase->images > schedule->images_max) schedule->images_max = phase->images;
    }
    return 0;
}

void schedule_free(struct schedule *schedule) {
    for (int i = 0; i < SCHEDULE_PHASES_MAX; i++) free(schedule->phase[i].image);
    *schedule = (struct schedule){0};
}

int schedule_epoch(const struct schedule *schedule, int phase, int of_phase) {
    for (int i = 0; i < phase; i++) of_phase += schedule->phase[i].epochs;
    return of_phase;
}

void schedule_shuffle(const struct schedule *schedule, int phase, int of_phase, int32_t *order) {
    const struct schedule_phase *of = &schedule->phase[phase];
    int epoch = of->relaxation ? of_phase : schedule_epoch(schedule, phase, of_phase);
    generator_permute(schedule->seed, (uint64_t)epoch, order, of->images);
    for (int32_t k = 0; k < of->images; k++) order[k] = of->image[order[k]];
}
