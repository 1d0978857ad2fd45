/* Loops over LANES consecutive floats become one vector instruction. Kernels are plain C around
 * that width. */
#ifndef KERNELS_CPU_LANES_H
#define KERNELS_CPU_LANES_H

#include <math.h>

#if defined(__AVX512F__)
enum { LANES = 16 };
#elif defined(__AVX__)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif

/* Neighbouring outputs that a convolution computes at once, by TILE_WIDTH channels: 14 of 16 or 32
 * vector registers. */
enum { TILE = 7, TILE_WIDTH = 2 * LANES };
enum { LINE = 16 }; /* floats of a cache line, the unit of fetching */
/* The 3x3 window; three neighbouring positions of a block of LANES channels; a whole window of one
 * channel, padded. */
enum { TAPS = 9, STRIP = 3 * LANES, THIN = (TAPS + LANES - 1) / LANES * LANES };

/* For the innermost loops: a sanitizer would make them 100 times slower, and they touch scratch
 * memory of one block only, where it sees nothing. */
#define UNCHECKED __attribute__((no_sanitize("address", "undefined", "thread")))

/* a * b + c, in one rounding where the processor has the instruction: fmaf without it is a slow
 * call. */
UNCHECKED static inline float madd(float a, float b, float c) {
#ifdef FP_FAST_FMAF
    return fmaf(a, b, c);
#else
    return a * b + c;
#endif
}

static inline int round_up(int value, int step) { return (value + step - 1) / step * step; }

#endif
