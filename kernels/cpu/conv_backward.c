#include <string.h>

#include "kernels/cpu/device.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/patches.h"

/* Max-pooling hands the gradient of a window to one of its four outputs, so three quarters of the
 * gradient at the outputs are zeros. Backward never forms it: it walks through the chosen outputs,
 * and adds to the weights the patch under each, to the input the weights. A task is a group of
 * images; sums over groups are added in their order. */
enum { GROUP = 4 };

struct backward {
    const struct kernels_conv *args;
    struct patches layout;
    int batch, groups, windows;
    float *weight;         /* (out, depth) as patches are laid out */
    float *grad_weight;    /* (groups, out, depth) */
    float *grad_bias;      /* (groups, out) */
    float *scratch;        /* of the workers */
    size_t scratch_floats; /* of one */
};

/* Of one worker. */
struct walk {
    float *patches, *grad_patches;
    float *grad; /* (out, windows) at the chosen outputs */
    int *offset; /* (out, windows) of the patches under them */
    int *corner; /* (windows) of the patch under output (0,0) */
};

static size_t walk_floats(const struct backward *backward) {
    int chosen = backward->args->out * backward->windows;
    return (size_t)round_up(2 * backward->layout.count + 2 * chosen + backward->windows, LANES);
}

static struct walk walk_of(const struct backward *backward, int worker) {
    struct walk walk = {.patches = backward->scratch + (size_t)worker * backward->scratch_floats};
    walk.grad_patches = walk.patches + backward->layout.count;
    walk.grad = walk.grad_patches + backward->layout.count;
    walk.offset = (int *)walk.grad + backward->args->out * backward->windows;
    walk.corner = walk.offset + backward->args->out * backward->windows;
    return walk;
}

static void fill_corners(const struct patches *layout, int *corner) {
    for (int y = 0, window = 0; y < layout->size; y += 2)
        for (int x = 0; x < layout->size; x += 2, window++)
            corner[window] = y * layout->row + x * layout->column;
}

/* LANES interleaved sums, the upper half added to the lower until one is left. */
static float sum_of(const float *value, int count) {
    vector sum = {0};
    int i = 0;
    for (; i + LANES <= count; i += LANES) sum += vector_load(value + i);
    for (int l = 0; i < count; i++, l++) sum[l] += value[i];
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++) sum[l] += sum[l + half];
    return sum[0];
}

/* The gradient at the chosen output of each window, before act. */
static void pass_act(float *restrict chosen, const float *restrict grad,
                     const float *restrict pooled, float slope, int windows) {
    for (int w = 0; w < windows; w++) {
        float low = slope * grad[w];
        chosen[w] = pooled[w] > 0 ? grad[w] : low;
    }
}

/* The place of the patch under it. */
static void find_patches(int *restrict offset, const int *restrict corner,
                         const uint8_t *restrict choice, const struct patches *layout,
                         int windows) {
    const int row = layout->row, column = layout->column;
    for (int w = 0; w < windows; w++)
        offset[w] = corner[w] + (choice[w] >> 1) * row + (choice[w] & 1) * column;
}

static void find_chosen(const struct backward *backward, struct walk *walk, int group, int k) {
    const struct kernels_conv *args = backward->args;
    const int windows = backward->windows;
    size_t first = (size_t)(k * args->out) * (size_t)windows;
    pass_act(walk->grad, args->d_grad_pooled + first, args->d_pooled + first, args->slope,
             args->out * windows);
    for (int o = 0; o < args->out; o++) {
        find_patches(walk->offset + o * windows, walk->corner,
                     args->d_choice + first + (size_t)(o * windows), &backward->layout, windows);
        backward->grad_bias[group * args->out + o] += sum_of(walk->grad + o * windows, windows);
    }
}

/* grad_weight += the patch under each chosen output, times its gradient; of one block. */
UNCHECKED static void add_patches(float *grad_weight, const float *patches, int row,
                                  const float *grad, const int *offset, int windows) {
    vector sum[9];
#pragma GCC unroll 9
    for (int i = 0; i < 9; i++) sum[i] = vector_load(grad_weight + i * LANES);
    for (int w = 0; w < windows; w++) {
        const float *patch = patches + offset[w];
        vector value = vector_fill(grad[w]);
#pragma GCC unroll 9
        for (int i = 0; i < 9; i++)
            sum[i] = vector_madd(value, vector_load(patch + i / 3 * row + i % 3 * LANES), sum[i]);
    }
#pragma GCC unroll 9
    for (int i = 0; i < 9; i++) vector_store(grad_weight + i * LANES, sum[i]);
}

/* Likewise; four windows at a time, for a sum must wait for the one before. */
UNCHECKED static void add_thin_patches(float *grad_weight, const float *patches, const float *grad,
                                       const int *offset, int windows) {
    for (int i = 0; i < THIN; i += LANES) {
        vector sum[4] = {{0}};
        int w = 0;
        for (; w + 4 <= windows; w += 4)
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++)
                sum[j] = vector_madd(vector_fill(grad[w + j]),
                                     vector_load(patches + offset[w + j] + i), sum[j]);
        for (; w < windows; w++)
            sum[0] =
                vector_madd(vector_fill(grad[w]), vector_load(patches + offset[w] + i), sum[0]);
        vector_store(grad_weight + i,
                     vector_load(grad_weight + i) + ((sum[0] + sum[1]) + (sum[2] + sum[3])));
    }
}

/* The patch under each chosen output += the weights, times its gradient; of one block. */
UNCHECKED static void add_weights(float *grad_patches, int row, const float *weight,
                                  const float *grad, const int *offset, int windows) {
    vector strip[9];
#pragma GCC unroll 9
    for (int i = 0; i < 9; i++) strip[i] = vector_load(weight + i * LANES);
    for (int half = 0; half < 2; half++) /* neighbours overlap: one would wait for the other */
        for (int w = half; w < windows; w += 2) {
            float *patch = grad_patches + offset[w];
            vector value = vector_fill(grad[w]);
#pragma GCC unroll 9
            for (int i = 0; i < 9; i++) {
                float *place = patch + i / 3 * row + i % 3 * LANES;
                vector_store(place, vector_madd(value, strip[i], vector_load(place)));
            }
        }
}

/* One block of channels after the other: it stays in the first cache. */
static void walk_blocks(const struct backward *backward, const struct walk *walk,
                        float *grad_weight) {
    const struct patches *layout = &backward->layout;
    const int depth = layout->depth, windows = backward->windows;
    for (int block = 0; block < layout->blocks; block++)
        for (int o = 0; o < backward->args->out; o++)
            add_patches(grad_weight + o * depth + block * 3 * STRIP,
                        walk->patches + block * layout->block_pitch, layout->row,
                        walk->grad + o * windows, walk->offset + o * windows, windows);
    if (backward->args->d_grad_input == NULL) return;
    for (int block = 0; block < layout->blocks; block++)
        for (int o = 0; o < backward->args->out; o++)
            add_weights(walk->grad_patches + block * layout->block_pitch, layout->row,
                        backward->weight + o * depth + block * 3 * STRIP, walk->grad + o * windows,
                        walk->offset + o * windows, windows);
}

static void backward_image(const struct backward *backward, struct walk *walk, int group, int k) {
    const struct kernels_conv *args = backward->args;
    const struct patches *layout = &backward->layout;
    const int depth = layout->depth, windows = backward->windows;
    float *grad_weight = backward->grad_weight + (size_t)(group * args->out) * (size_t)depth;
    size_t image = (size_t)k * (size_t)(args->in * args->size * args->size);
    find_chosen(backward, walk, group, k);
    patches_load(layout, walk->patches, args->d_input + image);
    if (layout->thin) {
        for (int o = 0; o < args->out; o++)
            add_thin_patches(grad_weight + o * depth, walk->patches, walk->grad + o * windows,
                             walk->offset + o * windows, windows);
        return;
    }
    patches_clear(layout, walk->grad_patches);
    walk_blocks(backward, walk, grad_weight);
    if (args->d_grad_input != NULL)
        patches_store(layout, args->d_grad_input + image, walk->grad_patches);
}

static void backward_groups(void *context, int first, int last, int worker) {
    const struct backward *backward = context;
    size_t sums = (size_t)((last - first) * backward->args->out);
    size_t depth = (size_t)backward->layout.depth;
    size_t begin = (size_t)(first * backward->args->out);
    struct walk walk = walk_of(backward, worker);
    memset(backward->grad_weight + begin * depth, 0, sums * depth * sizeof(float));
    memset(backward->grad_bias + begin, 0, sums * sizeof(float));
    patches_clear(&backward->layout, walk.patches);
    fill_corners(&backward->layout, walk.corner);
    for (int group = first; group < last; group++)
        for (int k = group * GROUP; k < (group + 1) * GROUP && k < backward->batch; k++)
            backward_image(backward, &walk, group, k);
}

/* For a task that is an output channel. */
static void add_groups(void *context, int first, int last, int worker) {
    const struct backward *backward = context;
    const struct kernels_conv *args = backward->args;
    const int depth = backward->layout.depth;
    (void)worker;
    for (int o = first; o < last; o++) {
        float *restrict sum = backward->grad_weight + o * depth; /* of group 0 */
        args->d_grad_bias[o] = backward->grad_bias[o];
        for (int group = 1; group < backward->groups; group++) {
            const float *restrict part = backward->grad_weight + (group * args->out + o) * depth;
            args->d_grad_bias[o] += backward->grad_bias[group * args->out + o];
            for (int i = 0; i < depth; i++) sum[i] += part[i];
        }
        patches_unpack(&backward->layout, args->d_grad_weight + o * args->in * TAPS, sum);
    }
}

static void pack(const struct backward *backward) {
    const struct kernels_conv *args = backward->args;
    int depth = backward->layout.depth;
    memset(backward->weight, 0, (size_t)(args->out * depth) * sizeof *backward->weight);
    for (int o = 0; o < args->out; o++)
        patches_pack(&backward->layout, backward->weight + o * depth, 1,
                     args->d_weight + o * args->in * TAPS);
}

void conv_backward(struct kernels_device *device, const struct kernels_conv *args) {
    struct backward backward = {
        .args = args,
        .batch = device->step.batch,
        .groups = (device->step.batch + GROUP - 1) / GROUP,
        .windows = args->size * args->size / 4,
    };
    bool thin = args->in == 1 && args->d_grad_input == NULL;
    backward.layout = thin ? patches_thin(args->size) : patches_wide(args->in, args->size);
    backward.scratch_floats = walk_floats(&backward);
    size_t weights = (size_t)(args->out * backward.layout.depth);
    size_t biases = (size_t)round_up(backward.groups * args->out, LANES);
    size_t groups = (size_t)backward.groups, threads = (size_t)device->threads;
    size_t floats = (1 + groups) * weights + biases + threads * backward.scratch_floats;
    backward.weight = device_scratch(device, floats * sizeof(float));
    backward.grad_weight = backward.weight + weights;
    backward.grad_bias = backward.grad_weight + groups * weights;
    backward.scratch = backward.grad_bias + biases;
    pack(&backward);
    workers_run(device->workers, backward_groups, &backward, backward.groups);
    workers_run(device->workers, add_groups, &backward, args->out);
}
