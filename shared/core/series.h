/* The pyramid of a run: per level, x16 a level, the newest buckets of every metric. The flat memory
 * of a viewer, its zoom, and what makes attaching cheap. */
#ifndef CORE_SERIES_H
#define CORE_SERIES_H

#include "shared/core/record.h"

enum { SERIES_FACTOR = 16, SERIES_LEVELS = 6, SERIES_BUCKETS = 2048 };

/* Steps from here on are refused: sums of a step and a width stay far from an overflow. */
#define SERIES_STEP_END (INT64_C(1) << 62)

enum series_mark {
    SERIES_NAN = 1,
    SERIES_POS_INF = 2,
    SERIES_NEG_INF = 4,
    SERIES_BEYOND = 8 /* finite, but larger than a float: stands there as the largest float */
};

struct series_value {
    float min, max;   /* over the finite values; min > max: there is none */
    float last;       /* the last value measured, NaN and Inf too; NAN: none was */
    uint32_t present; /* steps with a value, also a non-finite one */
    uint8_t marks;    /* enum series_mark of any value in the bucket */
};

struct series_bucket {
    int64_t first;    /* first step: a multiple of its width; -1: empty slot */
    uint32_t steps;   /* records in it */
    uint32_t missing; /* steps known to be missing (gaps) */
    enum band band;   /* worst */
};

struct series_level {
    int64_t width;                /* steps a bucket */
    struct series_bucket *bucket; /* (buckets) ring, slot = first / width % buckets */
    struct series_value *value;   /* (buckets, metrics) */
};

struct series {
    int metrics;
    int buckets;         /* a level */
    int64_t first, last; /* steps known of; last -1: nothing yet. After a copied pyramid `first` is
                            that of a bucket: the run may have begun inside it */
    struct series_level level[SERIES_LEVELS];
};

/* All memory is taken and touched here. Returns -1 when there is none. */
int series_init(struct series *series, int metrics, int buckets);
void series_free(struct series *series);

/* Adds a step. Steps come in order; a jump counts the steps between as missing; a step at or before
 * `last`, or out of 0..SERIES_STEP_END - 1, is ignored (-1). */
int series_apply(struct series *series, const struct record *record);
/* Steps first..last are known to be missing. What of them lies at or before `last` is ignored. */
void series_apply_gap(struct series *series, int64_t first, int64_t last);
/* Steps up to `last` were never published (a source that logs every tenth step): not a gap. */
void series_apply_skip(struct series *series, int64_t last);
/* Replaces one bucket of a level (from a publisher's pyramid or a run file); one that is older than
 * the ring reaches is ignored. -1: not aligned, more steps than it is wide, or of no level. */
int series_apply_bucket(struct series *series, int level, const struct series_bucket *bucket,
                        const struct series_value *value);

/* The bucket of this level that begins at `first`; NULL: not (or no longer) there. `*value`: its
 * (metrics) values. Both are good until the next series_apply_*. */
const struct series_bucket *series_find(const struct series *series, int level, int64_t first,
                                        const struct series_value **value);

struct series_column {
    struct series_value value;
    uint32_t steps, missing; /* stop at UINT32_MAX */
    enum band band;
    bool thinned; /* what it shows may be of neighbouring steps */
};

/* What a column shows that covers steps [first, first + width). It is merged from whole buckets;
 * only when none are left that lie inside the column, a coarser level is used, and `thinned` says
 * so. Once its last step is passed a column stays as it is until then. False: nothing known of it.
 */
bool series_column(const struct series *series, int metric, int64_t first, int64_t width,
                   struct series_column *column);

#endif
