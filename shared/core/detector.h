/* Tells finite from extreme from non-finite, causally: a step is judged by itself and by the
 * in-range past. Nothing non-finite ever enters a state that outlives the step. The rules and where
 * they come from: docs/detector.md. */
#ifndef CORE_DETECTOR_H
#define CORE_DETECTOR_H

#include "shared/core/record.h"

/* Every threshold is an option (--threshold NAME=VALUE) and is recorded with the run. */
#define DETECTOR_THRESHOLDS(X)                                                                  \
    X(update, 0.2)       /* update_ratio beyond it is extreme ... */                            \
    X(update_warmup, 20) /* ... after the first 20 steps of a run */                            \
    X(runaway, 1)        /* update_ratio_max */                                                 \
    X(range, 1e4) /* |activation|, |logit|, grad_norm; never over 1/16 of the type's largest */ \
    X(peak, 3)    /* times its own peak so far ... */                                           \
    X(peak_median, 10) /* ... and times its median over the last 128 in-range values */         \
    X(peak_warmup, 8)  /* from this value on */                                                 \
    X(peak_alarm, 10)  /* times the peak: an alarm at once */                                   \
    X(running, 3)      /* `update` or `peak` in so many steps running: an alarm */              \
    X(stretch_gap, 10) /* finite steps that a stretch may hold between two others */

struct detector_limits {
#define X(name, value) double name;
    DETECTOR_THRESHOLDS(X)
#undef X
};

enum { DETECTOR_WINDOW = 128 };

/* What the peak rule remembers of one series: magnitudes of in-range values as they were measured,
 * since a median is told as `usual`; one beyond the largest float never is in range. */
struct detector_past {
    int64_t seen; /* in-range values so far */
    double peak;
    double ring[DETECTOR_WINDOW];   /* in order of arrival, slot = number % window */
    double sorted[DETECTOR_WINDOW]; /* the same values, ascending */
};

struct detector {
    struct detector_limits limits;
    int running;             /* steps in a row that were extreme by `update` or `peak` */
    int64_t finite_run;      /* finite steps since the last other one */
    int64_t onset;           /* first step of the stretch going on; -1: none */
    int64_t first_nonfinite; /* of that stretch; -1 */
    enum band alarmed;       /* severity that has rung in this stretch */
    struct detector_past loss, grad_norm;
    int tensors;
    struct detector_past *tensor; /* (tensors), owned, max_abs of each */
};

/* What the record does not hold itself. */
struct verdict {
    bool alarm;    /* rings now */
    bool notice;   /* first extreme step of a stretch, nothing rings */
    int64_t onset; /* of the stretch going on; -1: none */
    int64_t lead;  /* known in the first non-finite step of a stretch and after it; -1 */
    int tensor;    /* first non-finite tensor in stage order; -1: none, or a metric only */
};

/* The documented defaults. */
void detector_limits_init(struct detector_limits *limits);
/* Takes "NAME=VALUE"; an unknown name, or a value that is no positive finite number: -1 with the
 * reason. */
int detector_limits_set(struct detector_limits *limits, const char *option, struct error *error);

/* `limits` NULL: defaults. Returns -1 when there is no memory. */
int detector_init(struct detector *detector, const struct detector_limits *limits, int tensors);
void detector_free(struct detector *detector);

/* The earliest tensor in stage order, then schema order, with a NaN or Inf; -1: none. The gradients
 * of a step that the loss scaler skipped do not count. */
int detector_first_nonfinite(const struct schema *schema, const struct record *record);
/* How a tensor is called as the subject of a verdict: "logits", "conv1.weight",
 * "conv1.weight/gradient". Returns out. */
char *detector_subject(const struct schema_tensor *tensor, char out[SCHEMA_NAME_SIZE]);

/* Judges the record: writes band, reason, subject, value, limit and usual of the step and `usual`
 * and `band` of every measured tensor into it, and moves the state on. Steps come in order. */
struct verdict detector_judge(struct detector *detector, const struct schema *schema,
                              struct record *record);
/* The event that the verdict on the record calls for. False: none, `event` stays as it is. */
bool detector_event(const struct schema *schema, const struct record *record,
                    const struct verdict *verdict, struct event *event);

#endif
