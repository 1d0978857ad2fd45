/* Vectors of LANES floats, as wide as the processor's registers. Arithmetic on them is GCC's vector
 * extension, so this is all that depends on the processor. */
#ifndef KERNELS_CPU_LANES_H
#define KERNELS_CPU_LANES_H

#include <stdint.h>
#include <string.h>

#if defined(__FMA__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
enum { LANES = 16 };
#elif defined(__AVX__)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif

/* Neighbouring outputs that a convolution computes at once, by TILE_WIDTH channels: sums in 14 of
 * 32 registers, or in 10 of 16. */
enum { TILE = LANES == 16 ? 7 : 5, TILE_WIDTH = 2 * LANES };
/* The 3x3 window; three neighbouring positions of a block of LANES channels; a whole window of one
 * channel, padded. */
enum { TAPS = 9, STRIP = 3 * LANES, THIN = (TAPS + LANES - 1) / LANES * LANES };
enum { LINE = 16 }; /* floats of a cache line, the unit of fetching */

/* For the innermost loops: a sanitizer would make them 100 times slower, and they touch scratch
 * memory of one block only, where it sees nothing. */
#define UNCHECKED __attribute__((no_sanitize("address", "undefined", "thread")))

typedef float vector __attribute__((vector_size(LANES * sizeof(float))));
typedef int32_t integers
    __attribute__((vector_size(LANES * sizeof(int32_t)))); /* a comparison: -1 or 0 */

UNCHECKED static inline vector vector_load(const float *from) {
    vector value;
    memcpy(&value, from, sizeof value);
    return value;
}

UNCHECKED static inline void vector_store(float *to, vector value) {
    memcpy(to, &value, sizeof value);
}

UNCHECKED static inline vector vector_fill(float value) { return value - (vector){0}; }

/* a * b + c, in one rounding where the processor can; the compiler may not fuse it by itself
 * (-ffp-contract=off). */
UNCHECKED static inline vector vector_madd(vector a, vector b, vector c) {
#if defined(__AVX512F__)
    return _mm512_fmadd_ps(a, b, c);
#elif defined(__FMA__)
    return _mm256_fmadd_ps(a, b, c);
#else
    return a * b + c;
#endif
}

/* Lane by lane, a where `take` is -1, b where it is 0. */
static inline vector vector_select(integers take, vector a, vector b) {
    return (vector)((take & (integers)a) | (~take & (integers)b));
}

static inline int round_up(int value, int step) { return (value + step - 1) / step * step; }

#endif
