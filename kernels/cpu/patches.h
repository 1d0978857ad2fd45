/* An image with its channels last, in blocks of LANES, and a border of zeros: the input under a 3x3
 * window is then a few runs of neighbouring floats, and a convolution reads it in place, without a
 * matrix of all windows (im2col).
 *
 * wide: (blocks, size + 2, size + 2, LANES); a patch is 3 runs of STRIP in each block.
 * thin: for one channel. The patches themselves, (size, size, THIN), each one run of 9 padded to
 * THIN. */
#ifndef KERNELS_CPU_PATCHES_H
#define KERNELS_CPU_PATCHES_H

#include <stdbool.h>
#include <stddef.h>

struct patches {
    int in, size; /* of the image: channels, height = width */
    bool thin;
    int blocks;
    int runs, run;   /* of a patch in a block, and floats of a run */
    int depth;       /* floats of a patch with its padding; weights are laid out like one */
    int block_pitch; /* floats from a block to the next one */
    int column,
        row;   /* floats from a patch to its right and lower neighbour; row: also from run to run */
    int plane; /* floats at the end, room for load and store */
    int count; /* floats in all, with slack for a tile past the last patch; a multiple of LANES */
};

/* Of images (in, size, size) and (1, size, size). */
struct patches patches_wide(int in, int size);
struct patches patches_thin(int size);
/* The weights of an output channel, (in, 3, 3), laid out like a patch with `stride` from float to
 * float; and back. */
void patches_pack(const struct patches *layout, float *packed, int stride, const float *weight);
void patches_unpack(const struct patches *layout, float *weight, const float *packed);
/* Zeros, as load expects outside of the image. */
void patches_clear(const struct patches *layout, float *patches);
/* `image`: (in, size, size). */
void patches_load(const struct patches *layout, float *patches, const float *image);
/* The inverse of load; wide only. */
void patches_store(const struct patches *layout, float *image, float *patches);

#endif
