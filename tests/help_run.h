/* Builds a run as a reader would know it from a small script: the story of a run that leaves its
 * range, without sockets. */
#ifndef TESTS_HELP_RUN_H
#define TESTS_HELP_RUN_H

#include "shared/core/run.h"

struct help_story {
    const char *name, *history, *seed;
    int64_t steps;            /* 1..steps; step 0 is the initial state */
    int64_t phase2;           /* first step of phase 2; 0: never */
    int64_t onset, nonfinite; /* 0: never */
    int64_t alarm_after;      /* steps from the onset to the alarm */
    int64_t gap, gap_steps;   /* steps gap .. gap + gap_steps - 1 never arrive; 0: none */
    double steps_per_s;
    int epoch_steps;
};

/* The sketch of the display: leaves its range at batch 40 of phase 2, NaN in the logits at
 * batch 46. */
extern const struct help_story HELP_FAILING;
extern const struct help_story HELP_HEALTHY;

/* An empty run that knows its hello: the tensors of the small network, 13 metrics. */
void help_run_open(struct run *run, const struct help_story *story);
/* The record of one step and the events that go with it. */
void help_run_add(struct run *run, const struct help_story *story, int64_t step);
/* Both, all of it; link stored. */
void help_run_tell(struct run *run, const struct help_story *story);

#endif
