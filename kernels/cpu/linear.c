#include "kernels/cpu/device.h"

#include <cblas.h>
#include <string.h>

/* A task is so many columns of the input and of the weight. Every product is cut along them, so no
 * task reads or packs what another one does. */
enum { SLICE = 224 };

struct linear {
    const struct kernels_linear *args;
    int batch, slices;
    float *partial; /* forward: (slices, batch, out) */
};

static int slice_width(const struct kernels_linear *args, int slice) {
    int rest = args->in - slice * SLICE;
    return rest < SLICE ? rest : SLICE;
}

static void multiply_slices(void *context, int first, int last, int worker) {
    const struct linear *linear = context;
    const struct kernels_linear *args = linear->args;
    (void)worker;
    for (int s = first; s < last; s++)
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, linear->batch, args->out,
                    slice_width(args, s), 1, args->d_input + s * SLICE, args->in,
                    args->d_weight + s * SLICE, args->in, 0,
                    linear->partial + (size_t)s * (size_t)(linear->batch * args->out), args->out);
}

static void add_slices(void *context, int first, int last, int worker) {
    const struct linear *linear = context;
    const struct kernels_linear *args = linear->args;
    const int out = args->out;
    const float slope = args->act ? args->slope : 1;
    (void)worker;
    for (int k = first; k < last; k++) {
        float *restrict output = args->d_output + k * out;
        memcpy(output, args->d_bias, (size_t)out * sizeof *output);
        for (int s = 0; s < linear->slices; s++) {
            const float *restrict part =
                linear->partial + (size_t)(s * linear->batch + k) * (size_t)out;
            for (int o = 0; o < out; o++) output[o] += part[o];
        }
        for (int o = 0; o < out; o++)
            output[o] = output[o] > 0 ? output[o] : slope * output[o]; /* a NaN stays one */
    }
}

/* Through act, and its sum over the batch. */
static void grad_of_bias(const struct linear *linear) {
    const struct kernels_linear *args = linear->args;
    const int out = args->out;
    const float slope = args->act ? args->slope : 1;
    memset(args->d_grad_bias, 0, (size_t)out * sizeof *args->d_grad_bias);
    for (int k = 0; k < linear->batch; k++) {
        const float *restrict output = args->d_output + k * out;
        float *restrict grad = args->d_grad_output + k * out, *restrict sum = args->d_grad_bias;
        for (int o = 0; o < out; o++) {
            grad[o] = output[o] > 0 ? grad[o] : slope * grad[o];
            sum[o] += grad[o];
        }
    }
}

static void grad_of_slices(void *context, int first, int last, int worker) {
    const struct linear *linear = context;
    const struct kernels_linear *args = linear->args;
    (void)worker;
    for (int s = first; s < last; s++) {
        int column = s * SLICE, width = slice_width(args, s);
        cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, args->out, width, linear->batch, 1,
                    args->d_grad_output, args->out, args->d_input + column, args->in, 0,
                    args->d_grad_weight + column, args->in);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, linear->batch, width, args->out, 1,
                    args->d_grad_output, args->out, args->d_weight + column, args->in, 0,
                    args->d_grad_input + column, args->in);
    }
}

static struct linear prepare(struct kernels_device *device, const struct kernels_linear *args) {
    return (struct linear){
        .args = args, .batch = device->step.batch, .slices = (args->in + SLICE - 1) / SLICE};
}

void linear_forward(struct kernels_device *device, const struct kernels_linear *args) {
    struct linear linear = prepare(device, args);
    size_t count = (size_t)linear.slices * (size_t)(linear.batch * args->out);
    linear.partial = device_scratch(device, count * sizeof(float));
    workers_run(device->workers, multiply_slices, &linear, linear.slices);
    workers_run(device->workers, add_slices, &linear, linear.batch);
}

void linear_backward(struct kernels_device *device, const struct kernels_linear *args) {
    struct linear linear = prepare(device, args);
    grad_of_bias(&linear);
    workers_run(device->workers, grad_of_slices, &linear, linear.slices);
}
