#include "kernels/cpu/patches.h"

#include <string.h>

#include "kernels/cpu/lanes.h"

enum { TAPS = 9 };

struct patches patches_wide(int in, int size) {
    int channels = round_up(in, LANES), pitch = (size + 2) * channels;
    return (struct patches){
        .in = in,
        .size = size,
        .channels = channels,
        .runs = 3,
        .run = 3 * channels,
        .run_pitch = pitch,
        .column = channels,
        .row = pitch,
        .count = (size_t)(size + 2) * (size_t)pitch + (size_t)(TILE * channels),
    };
}

struct patches patches_thin(int size) {
    int run = round_up(TAPS, LANES);
    return (struct patches){
        .in = 1,
        .size = size,
        .thin = true,
        .channels = 1,
        .runs = 1,
        .run = run,
        .column = run,
        .row = size * run,
        .count = (size_t)(size * size + TILE) * (size_t)run,
    };
}

int patches_depth(const struct patches *layout) { return layout->runs * layout->run; }

int patches_index(const struct patches *layout, int c, int tap) {
    return tap * layout->channels + c;
}

void patches_clear(const struct patches *layout, float *patches) {
    memset(patches, 0, layout->count * sizeof *patches);
}

static void load_thin(const struct patches *layout, float *patches, const float *image) {
    int size = layout->size;
    for (int tap = 0; tap < TAPS; tap++) {
        int down = tap / 3 - 1, right = tap % 3 - 1;
        for (int y = down < 0; y < size - (down > 0); y++)
            for (int x = right < 0; x < size - (right > 0); x++)
                patches[y * layout->row + x * layout->column + tap] =
                    image[(y + down) * size + x + right];
    }
}

void patches_load(const struct patches *layout, float *patches, const float *image) {
    int size = layout->size;
    if (layout->thin) {
        load_thin(layout, patches, image);
        return;
    }
    for (int y = 0; y < size; y++)
        transpose(patches + (y + 1) * layout->row + layout->column, layout->column,
                  image + y * size, size * size, layout->in, size);
}

void patches_store(const struct patches *layout, float *image, const float *patches) {
    int size = layout->size;
    for (int y = 0; y < size; y++)
        transpose(image + y * size, size * size,
                  patches + (y + 1) * layout->row + layout->column, layout->column, size,
                  layout->in);
}

void transpose(float *to, int to_pitch, const float *from, int from_pitch, int rows, int columns) {
    for (int c = 0; c < columns; c++)
        for (int r = 0; r < rows; r++)
            to[(size_t)c * (size_t)to_pitch + (size_t)r] = from[(size_t)r * (size_t)from_pitch + (size_t)c];
}
