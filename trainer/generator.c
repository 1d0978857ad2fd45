#include "trainer/generator.h"

/* Odd constants of splitmix64 and PCG: one stride per counter, modulo 2^64. */
#define STRIDE_INDEX   UINT64_C(0x9E3779B97F4A7C15)
#define STRIDE_SEED    UINT64_C(0xD1342543DE82EF95)
#define STRIDE_EPOCH   UINT64_C(0xAF251AF3B0F025B5)
#define OFFSET_WEIGHTS UINT64_C(0x853C49E6748FEA9B)

static uint64_t mix64(uint64_t z) {
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

float generator_uniform(uint64_t seed, uint32_t tensor, uint32_t index) {
    uint64_t counter = (uint64_t)tensor << 32 | index;
    uint64_t z = mix64(counter * STRIDE_INDEX + OFFSET_WEIGHTS + seed * STRIDE_SEED);
    return (float)((int32_t)(z >> 40) - (1 << 23)) * 0x1p-23f;
}

void generator_permute(uint64_t seed, uint64_t epoch, int32_t *order, int32_t count) {
    uint64_t offset = seed * STRIDE_SEED + epoch * STRIDE_EPOCH;
    for (int32_t i = 0; i < count; i++) order[i] = i;
    for (int32_t i = count - 1; i > 0; i--) { /* Fisher-Yates */
        uint64_t high = mix64((uint64_t)i * STRIDE_INDEX + offset) >> 32;
        int32_t j = (int32_t)(high * (uint64_t)(i + 1) >> 32), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
}
