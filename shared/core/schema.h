/* What a run measures: the names of its metrics, and its tensors with role, stage and shape. */
#ifndef CORE_SCHEMA_H
#define CORE_SCHEMA_H

#include <stdbool.h>
#include <stdint.h>

struct error;

enum {
    SCHEMA_NAME_SIZE = 96,   /* bytes of a tensor name with its terminator */
    SCHEMA_METRIC_SIZE = 32, /* bytes of a metric name with its terminator */
    SCHEMA_METRICS_MAX = 64, /* the standard ones and a publisher's own */
    SCHEMA_TENSORS_MAX = 65536,
    SCHEMA_DIMS_MAX = 8
};

/* The standard metrics keep their slot in every schema, published or not; a publisher's own follow
 * from METRIC_COUNT. */
#define SCHEMA_METRICS(X)                 \
    X(LOSS, loss)                         \
    X(ACCURACY, accuracy)                 \
    X(LR, lr)                             \
    X(GRAD_NORM, grad_norm)               \
    X(GRAD_MAX, grad_max)                 \
    X(PARAM_NORM, param_norm)             \
    X(PARAM_MAX, param_max)               \
    X(MOMENTUM_NORM, momentum_norm)       \
    X(MOMENTUM_MAX, momentum_max)         \
    X(ACT_MAX, act_max)                   \
    X(UPDATE_RATIO, update_ratio)         \
    X(UPDATE_RATIO_MAX, update_ratio_max) \
    X(SAMPLES_PER_S, samples_per_s)       \
    X(STEP_MS, step_ms)                   \
    X(LOSS_SCALE, loss_scale)             \
    X(STEP_SKIPPED, step_skipped)

enum metric {
#define X(upper, lower) METRIC_##upper,
    SCHEMA_METRICS(X)
#undef X
    METRIC_COUNT
};

/* Wire name and the short name of the tensor table. */
#define SCHEMA_ROLES(X)                          \
    X(INPUT, "input", "input")                   \
    X(ACTIVATION, "activation", "act")           \
    X(LOGITS, "logits", "logits")                \
    X(LOSS, "loss", "loss")                      \
    X(PARAMETER, "parameter", "param")           \
    X(GRADIENT, "gradient", "grad")              \
    X(MOMENTUM_BUFFER, "momentum_buffer", "mom") \
    X(EXP_AVG, "exp_avg", "avg")                 \
    X(EXP_AVG_SQ, "exp_avg_sq", "avg_sq")

enum role {
#define X(upper, wire, brief) ROLE_##upper,
    SCHEMA_ROLES(X)
#undef X
    ROLE_COUNT
};

#define SCHEMA_STAGES(X)    \
    X(INPUT, "input")       \
    X(FORWARD, "forward")   \
    X(LOSS, "loss")         \
    X(BACKWARD, "backward") \
    X(STEP, "step")

enum stage { /* in the order in which they happen */
#define X(upper, wire) STAGE_##upper,
    SCHEMA_STAGES(X)
#undef X
    STAGE_COUNT
};

/* Name and largest finite value; the range rule stays a factor 16 below it. */
#define SCHEMA_DTYPES(X)           \
    X(F32, 3.4028234663852886e38)  \
    X(F64, 1.7976931348623157e308) \
    X(F16, 65504.0)                \
    X(BF16, 3.3895313892515355e38)

enum dtype {
#define X(upper, largest) DTYPE_##upper,
    SCHEMA_DTYPES(X)
#undef X
    DTYPE_COUNT
};

struct schema_tensor {
    char name[SCHEMA_NAME_SIZE]; /* "conv1.weight" */
    enum role role;
    enum stage stage; /* where in the step it is measured */
    enum dtype dtype;
    int dims; /* 0..SCHEMA_DIMS_MAX */
    int64_t shape[SCHEMA_DIMS_MAX];
};

struct schema {
    uint64_t id; /* hash of everything below; 0: empty */
    int metrics; /* slots in use: METRIC_COUNT + the publisher's own */
    char metric[SCHEMA_METRICS_MAX][SCHEMA_METRIC_SIZE]; /* name of every slot */
    uint64_t published;                                  /* bit per slot: this publisher sends it */
    int tensors;
    struct schema_tensor *tensor; /* (tensors), owned */
};

/* The standard metrics in their slots, none published, no tensors. */
void schema_init(struct schema *schema);
void schema_free(struct schema *schema);
int schema_copy(struct schema *to, const struct schema *from);

/* Marks a standard metric as published, or appends an own one. Returns the slot, -1 when the table
 * is full. */
int schema_add_metric(struct schema *schema, const char *name);
/* Copies the tensor to the end. Returns its index; -1: too many. */
int schema_add_tensor(struct schema *schema, const struct schema_tensor *tensor);
/* Computes `id` (FNV-1a 64 over names, roles, stages, types and shapes). To be called after the
 * last addition. */
void schema_seal(struct schema *schema);

/* Slot of a metric name; -1: absent. */
int schema_find_metric(const struct schema *schema, const char *name);
/* Index of the tensor with this name and role; -1: absent. */
int schema_find_tensor(const struct schema *schema, const char *name, enum role role);

const char *schema_role_name(enum role role);
const char *schema_role_brief(enum role role);
int schema_role_find(const char *name); /* by wire name; -1 */
const char *schema_stage_name(enum stage stage);
int schema_stage_find(const char *name);
const char *schema_dtype_name(enum dtype dtype);
int schema_dtype_find(const char *name);
double schema_dtype_max(enum dtype dtype);

#endif
