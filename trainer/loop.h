/* The loop over phases, epochs and steps: trains, judges each step before it is written, publishes,
 * saves, tells. */
#ifndef TRAINER_LOOP_H
#define TRAINER_LOOP_H

#include "trainer/training.h"

/* Trains until the schedule ends, a step stops it, or *training->stop is set. What a person wants
 * to know goes to stdout and stderr; the last line of stdout is the report. Returns the exit code:
 * 0 finite, 1 an alarm or a non-finite step. */
int loop_run(struct training *training);

#endif
