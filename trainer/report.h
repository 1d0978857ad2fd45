/* What a run tells a person in lines of text: progress, what rang, how it ended. */
#ifndef TRAINER_REPORT_H
#define TRAINER_REPORT_H

#include <stddef.h>

#include "shared/core/detector.h"
#include "trainer/checkpoint.h"

enum { REPORT_SIZE = 1024 };

struct report_place {
    int64_t step;
    int32_t epoch, phase, batch;
};

/* First step of a stretch. */
struct report_onset {
    struct report_place at; /* step -1: none */
    int64_t before;         /* newest step out of range before it; -1: none */
};

/* What is told of a run's whole life. */
struct report {
    const char *name, *folder; /* of the run */
    const struct schema *schema;
    enum band worst;
    int64_t newest;                  /* step out of range; -1: none */
    struct report_onset onset;       /* of the stretch going on, or of the last one */
    struct event alarm;              /* first non-finite event, else the newest alarm; step -1 */
    struct report_onset alarm_onset; /* of its stretch */
};

void report_init(struct report *report, const char *name, const char *folder,
                 const struct schema *schema);
/* Takes a judged step and the event that it called for (NULL: none) into the story. */
void report_apply(struct report *report, const struct record *record, const struct verdict *verdict,
                  const struct event *event);

/* An alarm in one line: place, reason, or stage, tensor, counts and hashes, onset and lead. Returns
 * out. */
char *report_alarm(char out[REPORT_SIZE], const struct report *report, const struct event *event);

/* Progress: where the run stands, its loss and speed, and the time left. Returns out. */
struct report_progress {
    const struct record *record;
    int64_t steps; /* of the whole run */
    double steps_per_s;
};
char *report_progress(char out[REPORT_SIZE], const struct report *report,
                      const struct report_progress *progress);

/* How the run ended, in one line: `last` is the newest record, `how` "finished". Returns out. */
char *report_end(char out[REPORT_SIZE], const struct report *report,
                 const struct report_place *last, const char *how, const struct checkpoint *safe);
/* 0 finite, 1 an alarm or a non-finite step. */
int report_exit_code(const struct report *report);

#endif
