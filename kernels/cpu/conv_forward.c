#include <string.h>

#include "kernels/cpu/device.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/patches.h"
#include "kernels/cpu/transpose.h"

/* A task is an image. Channels come in blocks of TILE_WIDTH, and lie last until they are written
 * out. */
struct forward {
    const struct kernels_conv *args;
    struct measure *measure;
    struct patches layout;
    int blocks;
    float *weight;         /* (blocks, depth, TILE_WIDTH) */
    float *bias;           /* (blocks, TILE_WIDTH) */
    float *scratch;        /* of the workers */
    size_t scratch_floats; /* of one */
};

/* Of one worker. */
struct plane {
    float *patches;
    float *output; /* (size * size + TILE, TILE_WIDTH) */
    float *pooled; /* (windows, TILE_WIDTH) */
    float *choice; /* like pooled */
    float *turned; /* (TILE_WIDTH, windows) the choices of a channel together */
};

/* Up to TILE_WIDTH output channels of an image. */
struct block {
    int number, channels;
    size_t first; /* channel, counted over all images */
};

static size_t plane_floats(const struct patches *layout) {
    int positions = layout->size * layout->size;
    size_t rows = (size_t)(positions + TILE + 3 * (positions / 4));
    return (size_t)layout->count + rows * TILE_WIDTH;
}

static struct plane plane_of(const struct forward *forward, int worker) {
    const struct patches *layout = &forward->layout;
    int positions = layout->size * layout->size;
    struct plane plane = {.patches = forward->scratch + (size_t)worker * forward->scratch_floats};
    plane.output = plane.patches + layout->count;
    plane.pooled = plane.output + (positions + TILE) * TILE_WIDTH;
    plane.choice = plane.pooled + positions / 4 * TILE_WIDTH;
    plane.turned = plane.choice + positions / 4 * TILE_WIDTH;
    return plane;
}

/* Padding channels get zeros. */
static void pack(struct forward *forward) {
    const struct kernels_conv *args = forward->args;
    int depth = forward->layout.depth;
    memset(forward->weight, 0,
           (size_t)(forward->blocks * (depth + 1) * TILE_WIDTH) * sizeof *forward->weight);
    for (int o = 0; o < args->out; o++)
        patches_pack(&forward->layout,
                     forward->weight + o / TILE_WIDTH * depth * TILE_WIDTH + o % TILE_WIDTH,
                     TILE_WIDTH, args->d_weight + o * args->in * TAPS);
    memcpy(forward->bias, args->d_bias, (size_t)args->out * sizeof *forward->bias);
}

/* output += a run of each patch of a tile, times the weights: TILE neighbouring outputs by
 * TILE_WIDTH channels. Apart from the caller, so that the compiler keeps `sum`, and nothing else,
 * in registers. */
UNCHECKED __attribute__((noinline)) static void add_run(float *output, const float *patch,
                                                        int column, const float *weight, int run) {
    vector sum[TILE][2] = {{{0}}};
    for (int i = 0; i < run; i++, weight += TILE_WIDTH) {
        vector left = vector_load(weight), right = vector_load(weight + LANES);
#pragma GCC unroll 7
        for (int t = 0; t < TILE; t++) {
            vector value = vector_fill(patch[t * column + i]);
            sum[t][0] = vector_madd(value, left, sum[t][0]);
            sum[t][1] = vector_madd(value, right, sum[t][1]);
        }
    }
#pragma GCC unroll 7
    for (int t = 0; t < TILE; t++, output += TILE_WIDTH) {
        vector_store(output, vector_load(output) + sum[t][0]);
        vector_store(output + LANES, vector_load(output + LANES) + sum[t][1]);
    }
}

/* One row of one block of channels. Adding up run by run halves the rounding error of one long sum.
 */
static void run_row(const struct forward *forward, const struct block *block, const float *patches,
                    float *output) {
    const struct patches *layout = &forward->layout;
    const float *weight = forward->weight + block->number * layout->depth * TILE_WIDTH;
    const float *bias = forward->bias + block->number * TILE_WIDTH, slope = forward->args->slope;
    for (int x = 0; x < layout->size; x++)
        memcpy(output + x * TILE_WIDTH, bias, TILE_WIDTH * sizeof *output);
    for (int part = 0; part < layout->blocks * layout->runs; part++) {
        const float *first =
            patches + part / layout->runs * layout->block_pitch + part % layout->runs * layout->row;
        for (int x = 0; x < layout->size; x += TILE)
            add_run(output + x * TILE_WIDTH, first + x * layout->column, layout->column,
                    weight + part * layout->run * TILE_WIDTH, layout->run);
    }
    for (int i = 0; i < layout->size * TILE_WIDTH; i += LANES) {
        vector z = vector_load(output + i);
        vector_store(output + i, vector_select(z > 0, z, slope * z)); /* a NaN stays one */
    }
}

/* The cache lines of output row y, which will be written soon. */
static void fetch_row(const struct forward *forward, const struct block *block, int y) {
    int size = forward->args->size;
    const float *row =
        forward->args->d_output + (block->first * (size_t)size + (size_t)y) * (size_t)size;
    for (int o = 0; o < block->channels; o++)
        for (int x = 0; x < size; x += LINE) __builtin_prefetch(row + o * size * size + x, 1);
}

/* A tile over the end of a row is overwritten by the next row, over the last row's end lies slack.
 */
static void run_plane(const struct forward *forward, const struct block *block,
                      const struct plane *plane) {
    const struct patches *layout = &forward->layout;
    for (int y = 0; y < layout->size; y++) {
        fetch_row(forward, block, y);
        run_row(forward, block, plane->patches + y * layout->row,
                plane->output + y * layout->size * TILE_WIDTH);
    }
}

/* One window, LANES channels. */
static void pool_window(const float *output, int pitch, float *pooled, float *choice) {
    vector best = vector_load(output);
    integers which = {0};
    for (int k = 1; k < 4; k++) {
        vector value = vector_load(output + k / 2 * pitch + k % 2 * TILE_WIDTH);
        integers take =
            (value > best) | (value != value); /* a NaN is taken, and nothing beats it */
        best = vector_select(take, value, best);
        which = (take & k) | (~take & which);
    }
    vector_store(pooled, best);
    vector_store(choice, __builtin_convertvector(which, vector));
}

static void pool_plane(int size, const struct plane *plane) {
    int pitch = size * TILE_WIDTH, window = 0;
    for (int y = 0; y < size; y += 2)
        for (int x = 0; x < pitch; x += 2 * TILE_WIDTH)
            for (int half = 0; half < TILE_WIDTH; half += LANES, window += LANES)
                pool_window(plane->output + y * pitch + x + half, pitch, plane->pooled + window,
                            plane->choice + window);
}

static void write_plane(const struct forward *forward, const struct block *block,
                        const struct plane *plane) {
    const struct kernels_conv *args = forward->args;
    const int positions = args->size * args->size, windows = positions / 4;
    const int channels = block->channels;
    transpose(args->d_output + block->first * (size_t)positions, positions, plane->output,
              TILE_WIDTH, positions, channels);
    transpose(args->d_pooled + block->first * (size_t)windows, windows, plane->pooled, TILE_WIDTH,
              windows, channels);
    transpose(plane->turned, windows, plane->choice, TILE_WIDTH, windows, channels);
    uint8_t *choice = args->d_choice + block->first * (size_t)windows;
    for (int i = 0; i < channels * windows; i++) choice[i] = (uint8_t)plane->turned[i];
}

/* The outputs of these images. */
static void measure_images(const struct forward *forward, int first, int last) {
    const struct kernels_conv *args = forward->args;
    size_t outputs = (size_t)(args->out * args->size * args->size), pooled = outputs / 4;
    measure_ready(forward->measure, args->d_output + (size_t)first * outputs,
                  args->d_output + (size_t)last * outputs);
    measure_ready(forward->measure, args->d_pooled + (size_t)first * pooled,
                  args->d_pooled + (size_t)last * pooled);
}

static void forward_images(void *context, int first, int last, int worker) {
    const struct forward *forward = context;
    const struct kernels_conv *args = forward->args;
    struct plane plane = plane_of(forward, worker);
    size_t image_floats = (size_t)(args->in * args->size * args->size);
    patches_clear(&forward->layout, plane.patches);
    for (int k = first; k < last; k++) {
        patches_load(&forward->layout, plane.patches, args->d_input + (size_t)k * image_floats);
        for (int number = 0; number < forward->blocks; number++) {
            int channel = number * TILE_WIDTH, rest = args->out - channel;
            struct block block = {.number = number,
                                  .channels = rest < TILE_WIDTH ? rest : TILE_WIDTH,
                                  .first = (size_t)(k * args->out + channel)};
            run_plane(forward, &block, &plane);
            pool_plane(args->size, &plane);
            write_plane(forward, &block, &plane);
        }
        measure_images(forward, first, k + 1);
    }
}

void conv_forward(struct kernels_device *device, const struct kernels_conv *args) {
    struct forward forward = {.args = args,
                              .measure = device->measure,
                              .blocks = (args->out + TILE_WIDTH - 1) / TILE_WIDTH};
    forward.layout = args->in == 1 ? patches_thin(args->size) : patches_wide(args->in, args->size);
    forward.scratch_floats = plane_floats(&forward.layout);
    size_t weights = (size_t)(forward.blocks * forward.layout.depth * TILE_WIDTH);
    size_t biases = (size_t)(forward.blocks * TILE_WIDTH);
    size_t planes = (size_t)device->threads * forward.scratch_floats;
    forward.weight = device_scratch(device, (weights + biases + planes) * sizeof(float));
    forward.bias = forward.weight + weights;
    forward.scratch = forward.bias + biases;
    pack(&forward);
    workers_run(device->workers, forward_images, &forward, device->step.batch);
}
