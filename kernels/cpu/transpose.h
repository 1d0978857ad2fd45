/* Channels first to channels last and back: the backend computes with channels last, its arrays
 * have them first. */
#ifndef KERNELS_CPU_TRANSPOSE_H
#define KERNELS_CPU_TRANSPOSE_H

/* to[c * to_pitch + r] = from[r * from_pitch + c] */
void transpose(float *to, int to_pitch, const float *from, int from_pitch, int rows, int columns);

#endif
