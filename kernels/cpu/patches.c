#include "kernels/cpu/patches.h"

#include <stdint.h>
#include <string.h>

#include "kernels/cpu/lanes.h"

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
        for (int tap = 0; tap < TAPS; tap++)
            first[tap * pitch] = weight[c * TAPS + tap];
    }
}

void patches_unpack(const struct patches *layout, float *weight, const float *packed) {
    int pitch = tap_pitch(layout);
    for (int c = 0; c < layout->in; c++) {
        const float *first = packed + first_tap(layout, c);
        for (int tap = 0; tap < TAPS; tap++)
            weight[c * TAPS + tap] = first[tap * pitch];
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

typedef float vector __attribute__((vector_size(LANES * sizeof(float))));
typedef int32_t indices __attribute__((vector_size(LANES * sizeof(int32_t))));

/* LANES x LANES: every round interleaves row r with row r + LANES / 2, which rotates the bits of row and column by one. */
static void transpose_block(float *to, int to_pitch, const float *from, int from_pitch) {
    vector row[LANES], mixed[LANES];
    indices low, high;
    for (int i = 0; i < LANES; i++) {
        low[i] = i / 2 + i % 2 * LANES;
        high[i] = low[i] + LANES / 2;
    }
    for (int r = 0; r < LANES; r++)
        memcpy(&row[r], from + r * from_pitch, sizeof row[r]);
    for (int round = 1; round < LANES; round *= 2) {
        for (int r = 0; r < LANES / 2; r++) {
            mixed[2 * r] = __builtin_shuffle(row[r], row[r + LANES / 2], low);
            mixed[2 * r + 1] = __builtin_shuffle(row[r], row[r + LANES / 2], high);
        }
        memcpy(row, mixed, sizeof row);
    }
    for (int r = 0; r < LANES; r++)
        memcpy(to + r * to_pitch, &row[r], sizeof row[r]);
}

static void transpose_rest(float *to, int to_pitch, const float *from, int from_pitch, int rows,
                           int columns) {
    for (int c = 0; c < columns; c++)
        for (int r = 0; r < rows; r++)
            to[c * to_pitch + r] = from[r * from_pitch + c];
}

void transpose(float *to, int to_pitch, const float *from, int from_pitch, int rows, int columns) {
    int r = 0, whole = columns / LANES * LANES;
    for (; r + LANES <= rows; r += LANES) {
        for (int c = 0; c < whole; c += LANES)
            transpose_block(to + c * to_pitch + r, to_pitch, from + r * from_pitch + c, from_pitch);
        transpose_rest(to + whole * to_pitch + r, to_pitch, from + r * from_pitch + whole,
                       from_pitch, LANES, columns - whole);
    }
    transpose_rest(to + r, to_pitch, from + r * from_pitch, from_pitch, rows - r, columns);
}
