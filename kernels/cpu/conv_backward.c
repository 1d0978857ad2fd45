#include <string.h>

#include "kernels/cpu/device.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/patches.h"

/* Max-pooling hands the gradient of a window to one of its four outputs, so three quarters of the gradient at the outputs
 * are zeros. Backward never forms it: it walks through the chosen outputs, and adds to the weights the patch under each,
 * to the input the weights. A task is a group of images; sums over groups are added in their order. */
enum { GROUP = 4, STRIP = 3 * LANES };

struct backward {
    const struct kernels_conv *args;
    struct patches layout;
    int batch, groups, windows;
    float *weight;      /* (out, depth) as patches are laid out */
    float *grad_weight; /* (groups, out, depth) */
    float *grad_bias;   /* (groups, out) */
    float *scratch;     /* of the workers */
    size_t scratch_floats; /* of one */
};

/* Of one worker. */
struct walk {
    float *patches, *grad_patches;
    float *grad; /* (windows) at the chosen outputs of a channel */
    int *offset; /* (windows) of the patches under them */
    int *corner; /* (windows) of the patch under output (0,0) */
};

static size_t walk_floats(const struct backward *backward) {
    size_t floats = 2 * backward->layout.count + 3 * (size_t)backward->windows;
    return (floats + LANES - 1) / LANES * LANES;
}

static struct walk walk_of(const struct backward *backward, int worker) {
    struct walk walk = {.patches = backward->scratch + (size_t)worker * backward->scratch_floats};
    walk.grad_patches = walk.patches + backward->layout.count;
    walk.grad = walk.grad_patches + backward->layout.count;
    walk.offset = (int *)(walk.grad + backward->windows);
    walk.corner = walk.offset + backward->windows;
    return walk;
}

static void fill_corners(const struct patches *layout, int *corner) {
    for (int y = 0, window = 0; y < layout->size; y += 2)
        for (int x = 0; x < layout->size; x += 2, window++)
            corner[window] = y * layout->row + x * layout->column;
}

/* Sums in LANES interleaved parts, then over those. */
static float sum_of(const float *restrict value, int count) {
    float part[LANES] = {0}, sum = 0;
    int i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int l = 0; l < LANES; l++)
            part[l] += value[i + l];
    for (; i < count; i++)
        part[i % LANES] += value[i];
    for (int l = 0; l < LANES; l++)
        sum += part[l];
    return sum;
}

/* Gradient and place of the chosen outputs of one channel of one image; returns the gradient's sum. */
static float find_chosen(const struct backward *backward, size_t channel, struct walk *walk) {
    const struct kernels_conv *args = backward->args;
    const int windows = backward->windows, row = backward->layout.row, column = backward->layout.column;
    const float slope = args->slope;
    const size_t first = channel * (size_t)windows;
    const float *restrict grad = args->d_grad_pooled + first, *restrict pooled = args->d_pooled + first;
    const uint8_t *restrict choice = args->d_choice + first;
    float *restrict chosen = walk->grad;
    int *restrict offset = walk->offset;
    const int *restrict corner = walk->corner;
    for (int w = 0; w < windows; w++) {
        float low = slope * grad[w];
        chosen[w] = pooled[w] > 0 ? grad[w] : low;
        offset[w] = corner[w] + (choice[w] >> 1) * row + (choice[w] & 1) * column;
    }
    return sum_of(walk->grad, windows);
}

/* grad_weight += the patch under each chosen output, times its gradient. `runs` and `width` are constants at each call. */
static inline void add_patches(const struct walk *walk, int windows, const float *restrict patches,
                               const struct patches *layout, float *restrict grad_weight,
                               const int runs, const int width) {
    float sum[3][STRIP];
    const int pitch = layout->run_pitch, run = layout->run;
    const float *restrict grad = walk->grad;
    const int *restrict offset = walk->offset;
    for (int r = 0; r < runs; r++)
        for (int i = 0; i < width; i++)
            sum[r][i] = grad_weight[r * run + i];
    for (int w = 0; w < windows; w++) {
        const float *restrict patch = patches + offset[w];
        for (int r = 0; r < runs; r++)
            for (int i = 0; i < width; i++)
                sum[r][i] = madd(grad[w], patch[r * pitch + i], sum[r][i]);
    }
    for (int r = 0; r < runs; r++)
        for (int i = 0; i < width; i++)
            grad_weight[r * run + i] = sum[r][i];
}

/* The patch under each chosen output += the weights, times its gradient. */
static void add_weights(const struct walk *walk, int windows, float *restrict grad_patches,
                        const struct patches *layout, const float *restrict weight) {
    float strip[3][STRIP];
    const int pitch = layout->run_pitch;
    const float *restrict grad = walk->grad;
    const int *restrict offset = walk->offset;
    for (int r = 0; r < 3; r++)
        for (int i = 0; i < STRIP; i++)
            strip[r][i] = weight[r * layout->run + i];
    for (int w = 0; w < windows; w++) {
        float *restrict patch = grad_patches + offset[w];
        for (int r = 0; r < 3; r++)
            for (int i = 0; i < STRIP; i++)
                patch[r * pitch + i] = madd(grad[w], strip[r][i], patch[r * pitch + i]);
    }
}

static void backward_channel(const struct backward *backward, struct walk *walk, int o,
                             float *grad_weight) {
    const struct patches *layout = &backward->layout;
    const float *weight = backward->weight + o * patches_depth(layout);
    if (layout->thin) {
        add_patches(walk, backward->windows, walk->patches, layout, grad_weight, 1,
                    (9 + LANES - 1) / LANES * LANES);
        return;
    }
    for (int i = 0; i < layout->run; i += STRIP) {
        add_patches(walk, backward->windows, walk->patches + i, layout, grad_weight + i, 3, STRIP);
        if (backward->args->d_grad_input != NULL)
            add_weights(walk, backward->windows, walk->grad_patches + i, layout, weight + i);
    }
}

static void backward_image(const struct backward *backward, struct walk *walk, int group, int k) {
    const struct kernels_conv *args = backward->args;
    const struct patches *layout = &backward->layout;
    size_t image_floats = (size_t)(args->in * args->size * args->size);
    patches_load(layout, walk->patches, args->d_input + (size_t)k * image_floats);
    if (args->d_grad_input != NULL)
        patches_clear(layout, walk->grad_patches);
    for (int o = 0; o < args->out; o++) {
        int sum = group * args->out + o;
        backward->grad_bias[sum] += find_chosen(backward, (size_t)(k * args->out + o), walk);
        backward_channel(backward, walk, o,
                         backward->grad_weight + (size_t)sum * (size_t)patches_depth(layout));
    }
    if (args->d_grad_input != NULL)
        patches_store(layout, args->d_grad_input + (size_t)k * image_floats, walk->grad_patches);
}

static void backward_groups(void *context, int first, int last, int worker) {
    const struct backward *backward = context;
    size_t sums = (size_t)((last - first) * backward->args->out);
    size_t depth = (size_t)patches_depth(&backward->layout);
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
    const int depth = patches_depth(&backward->layout);
    (void)worker;
    for (int o = first; o < last; o++) {
        float *restrict sum = backward->grad_weight + o * depth; /* of group 0 */
        args->d_grad_bias[o] = backward->grad_bias[o];
        for (int group = 1; group < backward->groups; group++) {
            const float *restrict part = backward->grad_weight + (group * args->out + o) * depth;
            args->d_grad_bias[o] += backward->grad_bias[group * args->out + o];
            for (int i = 0; i < depth; i++)
                sum[i] += part[i];
        }
        for (int c = 0; c < args->in; c++)
            for (int tap = 0; tap < 9; tap++)
                args->d_grad_weight[(o * args->in + c) * 9 + tap] =
                    sum[patches_index(&backward->layout, c, tap)];
    }
}

static void pack(const struct backward *backward) {
    const struct kernels_conv *args = backward->args;
    int depth = patches_depth(&backward->layout);
    memset(backward->weight, 0, (size_t)(args->out * depth) * sizeof *backward->weight);
    for (int o = 0; o < args->out; o++)
        for (int c = 0; c < args->in; c++)
            for (int tap = 0; tap < 9; tap++)
                backward->weight[o * depth + patches_index(&backward->layout, c, tap)] =
                    args->d_weight[(o * args->in + c) * 9 + tap];
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
    size_t weights = (size_t)(args->out * patches_depth(&backward.layout));
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
