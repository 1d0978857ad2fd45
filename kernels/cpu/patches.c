#include "kernels/cpu/patches.h"

#include <string.h>

#include "kernels/cpu/lanes.h"
#include "kernels/cpu/transpose.h"

struct patches patches_wide(int in, int size) {
    int blocks = round_up(in, LANES) / LANES, row = (size + 2) * LANES;
    int plane = size * size * LANES, pitch = (size + 2) * row;
    return (struct patches){
        .in = in,
        .size = size,
        .blocks = blocks,
        .runs = 3,
        .run = STRIP,
        .depth = blocks * TAPS * LANES,
        .block_pitch = pitch,
        .column = LANES,
        .row = row,
        .plane = plane,
        .count = blocks * pitch + TILE * LANES + plane,
    };
}

struct patches patches_thin(int size) {
    int plane = round_up((size + 2) * (size + 2), LANES);
    return (struct patches){
        .in = 1,
        .size = size,
        .thin = true,
        .blocks = 1,
        .runs = 1,
        .run = TAPS,
        .depth = THIN,
        .column = THIN,
        .row = size * THIN,
        .plane = plane,
        .count = (size * size + TILE) * THIN + plane,
    };
}

/* Of channel c's first tap, and from tap to tap. */
static int first_tap(const struct patches *layout, int c) {
    return layout->thin ? 0 : c / LANES * TAPS * LANES + c % LANES;
}

static int tap_pitch(const struct patches *layout) { return layout->thin ? 1 : LANES; }

void patches_pack(const struct patches *layout, float *packed, int stride, const float *weight) {
    int pitch = tap_pitch(layout) * stride;
    for (int c = 0; c < layout->in; c++) {
        float *first = packed + first_tap(layout, c) * stride;
        for (int tap = 0; tap < TAPS; tap++) first[tap * pitch] = weight[c * TAPS + tap];
    }
}

void patches_unpack(const struct patches *layout, float *weight, const float *packed) {
    int pitch = tap_pitch(layout);
    for (int c = 0; c < layout->in; c++) {
        const float *first = packed + first_tap(layout, c);
        for (int tap = 0; tap < TAPS; tap++) weight[c * TAPS + tap] = first[tap * pitch];
    }
}

void patches_clear(const struct patches *layout, float *patches) {
    memset(patches, 0, (size_t)layout->count * sizeof *patches);
}

static void load_thin(const struct patches *layout, float *patches, const float *image) {
    int size = layout->size, pitch = size + 2;
    float *plane = patches + layout->count - layout->plane;
    for (int y = 0; y < size; y++)
        memcpy(plane + (y + 1) * pitch + 1, image + y * size, (size_t)size * sizeof *plane);
    for (int y = 0; y < size; y++)
        for (int x = 0; x < size; x++) {
            float *patch = patches + y * layout->row + x * layout->column;
            for (int tap = 0; tap < TAPS; tap++)
                patch[tap] = plane[(y + tap / 3) * pitch + x + tap % 3];
        }
}

static int block_channels(const struct patches *layout, int block) {
    int rest = layout->in - block * LANES;
    return rest < LANES ? rest : LANES;
}

void patches_load(const struct patches *layout, float *patches, const float *image) {
    int size = layout->size, positions = size * size;
    float *plane = patches + layout->count - layout->plane;
    if (layout->thin) {
        load_thin(layout, patches, image);
        return;
    }
    for (int block = 0; block < layout->blocks; block++) {
        float *inner = patches + block * layout->block_pitch + layout->row + layout->column;
        transpose(plane, LANES, image + block * LANES * positions, positions,
                  block_channels(layout, block), positions);
        for (int y = 0; y < size; y++)
            memcpy(inner + y * layout->row, plane + y * size * LANES,
                   (size_t)(size * LANES) * sizeof *plane);
    }
}

void patches_store(const struct patches *layout, float *image, float *patches) {
    int size = layout->size, positions = size * size;
    float *plane = patches + layout->count - layout->plane;
    for (int block = 0; block < layout->blocks; block++) {
        const float *inner = patches + block * layout->block_pitch + layout->row + layout->column;
        for (int y = 0; y < size; y++)
            memcpy(plane + y * size * LANES, inner + y * layout->row,
                   (size_t)(size * LANES) * sizeof *plane);
        transpose(image + block * LANES * positions, positions, plane, LANES, positions,
                  block_channels(layout, block));
    }
}
