/* The counter-based random numbers of a run: every value is a function of the seed and its place,
 * so nothing has to be drawn in order and a checkpoint needs no state of a generator.
 * docs/trainer.md has the formulas. */
#ifndef TRAINER_GENERATOR_H
#define TRAINER_GENERATOR_H

#include <stdint.h>

/* Element `index` of parameter tensor number `tensor`: one of 2^24 equidistant values k * 2^-23, k
 * = -2^23 .. 2^23-1, exact in float32. To be scaled by the bound. */
float generator_uniform(uint64_t seed, uint32_t tensor, uint32_t index);

/* order[0..count) becomes a permutation of 0..count-1 for this epoch (numbered from 1). */
void generator_permute(uint64_t seed, uint64_t epoch, int32_t *order, int32_t count);

#endif
