/* The three bands of a step or tensor, and the reasons for leaving the first one. One table for
 * enum, parser and text. */
#ifndef CORE_BAND_H
#define CORE_BAND_H

enum band { BAND_FINITE, BAND_EXTREME, BAND_NONFINITE, BAND_COUNT };

#define BAND_REASONS(X)                                                              \
    X(NONE, "")                                                                      \
    X(UPDATE, "update")   /* update ratio over all parameters beyond its limit */    \
    X(PEAK, "peak")       /* beyond its own past by the two factors */               \
    X(RANGE, "range")     /* beyond the absolute limit of the type */                \
    X(RUNAWAY, "runaway") /* one weight tensor's update is larger than the tensor */ \
    X(NONFINITE, "non-finite")

enum reason {
#define X(name, text) REASON_##name,
    BAND_REASONS(X)
#undef X
    REASON_COUNT
};

/* "finite", "extreme", "non-finite". */
const char *band_name(enum band band);
/* -1 when the text names no band. */
int band_find(const char *text);
const char *band_reason_name(enum reason reason);
int band_reason_find(const char *text);

#endif
