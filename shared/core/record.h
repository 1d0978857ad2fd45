/* What is published: a record a step, events between them, and the hello that explains both. */
#ifndef CORE_RECORD_H
#define CORE_RECORD_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "shared/core/band.h"
#include "shared/core/schema.h"

enum {
    RECORD_ID_SIZE = 64, /* bytes of a run id: [A-Za-z0-9._-] only, it becomes a file name */
    RECORD_PHASE_SIZE = 32,
    RECORD_CLASSES_MAX = 64,
    RECORD_CONFIG_MAX = 64,
    RECORD_TEXT_SIZE = 256
};

/* Statistics of one tensor in one step. Not measured: count == -1, and nothing else counts. */
struct tensor_stat {
    int64_t count;     /* number of values; -1: not measured */
    double sum_sq;     /* over all values, in double: NaN or Inf when one of them is */
    double max_abs;    /* over the finite values; NAN: there is none */
    double usual;      /* median of its last in-range max_abs; NAN: not known yet */
    int64_t bad_index; /* flat row-major index of the first NaN or Inf; -1: none */
    int64_t nan, pos_inf, neg_inf;
    int64_t over;   /* finite values beyond the range limit */
    enum band band; /* rule `peak` and the range limit on max_abs */
};

/* One optimizer step. Values that are not known: NAN for `limit` and `usual`, -1 for counts, bit
 * clear for a metric. */
struct record {
    uint64_t seq;     /* over all records and events of the run, from 1; 0: not from a publisher */
    uint32_t segment; /* resumes so far */
    uint64_t schema_id;
    int64_t step;                /* 0: the initial state */
    int32_t epoch, phase, batch; /* from 1; 0 in the record of the initial state; -1: not known */
    int32_t epochs, batches;     /* of the run, of this epoch; -1: not known */
    char phase_data[RECORD_PHASE_SIZE]; /* "5-9" */
    int64_t wall_ns, mono_ns;
    uint64_t measured; /* bit per metric slot */
    double metric[SCHEMA_METRICS_MAX];
    int32_t update_ratio_max_tensor; /* index of the parameter tensor; -1: none */
    enum band band;
    enum reason reason;
    char subject[SCHEMA_NAME_SIZE]; /* metric or tensor that the reason is about, "grad_norm",
                                       "logits/activation" */
    double value, limit, usual;     /* of the subject */
    bool hashed;
    uint64_t input_hash, label_hash; /* XXH3 of the raw bytes in batch order */
    int32_t classes;                 /* 0: no histogram */
    uint32_t label_count[RECORD_CLASSES_MAX];
    int32_t tensors;
    struct tensor_stat *tensor; /* (tensors), owned, in schema order */
};

/* `tensors` statistics, all "not measured"; no metric measured. Returns -1 when there is no memory.
 */
int record_init(struct record *record, int tensors);
void record_free(struct record *record);
/* Back to the state after record_init, keeping the memory. */
void record_clear(struct record *record);
/* Copies everything; `to` is initialised, its tensor array grows when needed. Returns -1 when there
 * is no memory. */
int record_copy(struct record *to, const struct record *from);

static inline bool record_has(const struct record *record, int metric) {
    return (record->measured >> metric & 1) != 0;
}

static inline void record_set(struct record *record, int metric, double value) {
    record->metric[metric] = value;
    record->measured |= UINT64_C(1) << metric;
}

#define RECORD_EVENTS(X)                                                                          \
    X(NOTICE, "notice")        /* extreme, nothing rings */                                       \
    X(ALARM, "alarm")          /* once per stretch and severity */                                \
    X(NONFINITE, "non-finite") /* an alarm whose severity is non-finite: tensor, stage, counts */ \
    X(PHASE, "phase")                                                                             \
    X(CHECKPOINT, "checkpoint")                                                                   \
    X(UNRECORDED, "unrecorded") /* seq range that is not in the run file */                       \
    X(GAP, "gap")               /* seq range that the trainer itself had to drop */               \
    X(VERDICT, "verdict")                                                                         \
    X(END, "end")

enum event_kind {
#define X(upper, wire) EVENT_##upper,
    RECORD_EVENTS(X)
#undef X
    EVENT_COUNT
};

struct event {
    uint64_t seq;
    enum event_kind kind;
    int64_t wall_ns;
    int64_t step;
    int32_t epoch, phase, batch; /* -1: not known */
    enum band band;
    enum reason reason;
    char subject[SCHEMA_NAME_SIZE];
    double value, limit, usual;                      /* NAN: not known */
    int32_t tensor;                                  /* first non-finite tensor; -1 */
    enum stage stage;                                /* of that tensor */
    int64_t bad_index, nan, pos_inf, neg_inf, count; /* of that tensor */
    uint64_t input_hash, label_hash;
    int64_t onset;                /* first step of the stretch; -1 */
    int64_t lead;                 /* steps from the onset to the first non-finite step; -1 */
    uint64_t first_seq, last_seq; /* of a range; 0: none */
    char text[RECORD_TEXT_SIZE];  /* path of a checkpoint, data of a phase, how the run ended */
};

/* Everything unknown. */
void event_init(struct event *event, enum event_kind kind);
const char *event_kind_name(enum event_kind kind);
int event_kind_find(const char *name);

struct config_entry {
    char key[32];
    char value[128];
};

struct hello {
    char run_id[RECORD_ID_SIZE];
    char name[RECORD_ID_SIZE];
    char host[64];
    int64_t pid;
    char program[32], version[32];
    int64_t started_ns; /* wall */
    char device[128];   /* "cpu, 2 threads" or the GPU's name */
    char backend[128];  /* "OpenBLAS 0.3.21 SkylakeX" */
    int32_t threads;
    int configs;
    struct config_entry config[RECORD_CONFIG_MAX];
    struct schema schema; /* owned */
};

void hello_init(struct hello *hello);
void hello_free(struct hello *hello);
int hello_copy(struct hello *to, const struct hello *from);
/* NULL: no such key. */
const char *hello_find_config(const struct hello *hello, const char *key);
/* Adds or replaces; silently full after RECORD_CONFIG_MAX. */
void hello_set_config(struct hello *hello, const char *key, const char *value);
/* True for 1..63 characters of [A-Za-z0-9._-], the first no dot. */
bool record_id_valid(const char *id);

#endif
