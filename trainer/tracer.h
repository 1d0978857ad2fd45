/* Makes the record of a step from what the model measured, judges it before anything is committed.
 */
#ifndef TRAINER_TRACER_H
#define TRAINER_TRACER_H

#include "shared/core/detector.h"
#include "trainer/dataset.h"
#include "trainer/model.h"

struct tracer {
    const struct schema *schema; /* of model_describe; outlives the tracer */
    struct detector detector;
    struct record record;         /* of the step going on; its statistics are measured in place */
    struct model_measure measure; /* points there */
    bool measured;                /* false: statistics are off */
    double param_sum_sq[MODEL_PARAMETERS]; /* of the committed parameters */
    struct XXH3_state_s *hash;             /* owned */
};

/* Where the step stands, what it read and how it went. */
struct tracer_step {
    int64_t step;
    int32_t epoch, phase, batch;
    int32_t epochs, batches;
    const char *phase_data;
    const struct dataset *dataset; /* NULL: the initial state, nothing was read */
    const int32_t *image;          /* (images) indices of the batch in its order */
    int32_t images;
    double lr;
    double outcome[2]; /* of model_step */
    int64_t took_ns;
    int64_t wall_ns, mono_ns;
};

/* Marks the metrics that a tracer fills as published. */
void tracer_describe(struct schema *schema);
/* `limits` of the detector, `measured` false: only loss, accuracy and times are known. -1: no
 * memory. */
int tracer_init(struct tracer *tracer, const struct schema *schema,
                const struct detector_limits *limits, bool measured);
void tracer_free(struct tracer *tracer);

/* What model_step and model_measure_state shall measure into; NULL: nothing. The record is cleared.
 */
const struct model_measure *tracer_begin(struct tracer *tracer);
/* Completes the record of the statistics just measured and judges it. */
struct verdict tracer_judge(struct tracer *tracer, const struct tracer_step *step);
/* The proposal of the record was committed: its parameters are those before the next step. */
void tracer_commit(struct tracer *tracer);

/* Worst band of a parameter or momentum buffer in the record; finite when they were not measured.
 */
enum band tracer_state_band(const struct tracer *tracer);

#endif
