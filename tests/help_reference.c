#include "tests/help_reference.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static double *doubles(int count) {
    double *value = calloc((size_t)count, sizeof *value);
    assert_non_null(value);
    return value;
}

static double act(double z, double slope) { return z > 0 ? z : slope * z; }

void reference_conv_init(struct reference_conv *conv) {
    int inputs = conv->batch * conv->in * conv->size * conv->size;
    int outputs = conv->batch * conv->out * conv->size * conv->size;
    conv->input = doubles(inputs);
    conv->weight = doubles(conv->out * conv->in * 9);
    conv->bias = doubles(conv->out);
    conv->output = doubles(outputs);
    conv->pooled = doubles(outputs / 4);
    conv->choice = calloc((size_t)outputs / 4, sizeof *conv->choice);
    conv->grad_pooled = doubles(outputs / 4);
    conv->grad_weight = doubles(conv->out * conv->in * 9);
    conv->grad_bias = doubles(conv->out);
    conv->grad_input = doubles(inputs);
}

void reference_conv_free(struct reference_conv *conv) {
    free(conv->input);
    free(conv->weight);
    free(conv->bias);
    free(conv->output);
    free(conv->pooled);
    free(conv->choice);
    free(conv->grad_pooled);
    free(conv->grad_weight);
    free(conv->grad_bias);
    free(conv->grad_input);
}

/* Calls for each input under output (y, x) of the 3x3 window: its index in the plane and the
 * window's tap. */
#define FOR_TAPS(size, y, x, tap, place)                                           \
    for (int tap = 0, place; tap < 9; tap++)                                       \
        if (place = ((y) + tap / 3 - 1) * (size) + (x) + tap % 3 - 1,              \
            (y) + tap / 3 >= 1 && (y) + tap / 3 <= (size) && (x) + tap % 3 >= 1 && \
                (x) + tap % 3 <= (size))

static double convolve(const struct reference_conv *conv, int k, int o, int y, int x) {
    int plane = conv->size * conv->size;
    double z = conv->bias[o];
    for (int c = 0; c < conv->in; c++) {
        FOR_TAPS(conv->size, y, x, tap, place)
        z += conv->weight[(o * conv->in + c) * 9 + tap] *
             conv->input[(k * conv->in + c) * plane + place];
    }
    return z;
}

static void pool(struct reference_conv *conv, int image_channel) {
    int size = conv->size, half = size / 2;
    const double *output = conv->output + image_channel * size * size;
    for (int w = 0; w < half * half; w++) {
        double best = 0;
        int which = -1;
        for (int j = 0; j < 4; j++) {
            double value = output[(w / half * 2 + j / 2) * size + w % half * 2 + j % 2];
            if (which < 0 || value > best || isnan(value)) {
                best = value;
                which = j;
            }
        }
        conv->pooled[image_channel * half * half + w] = best;
        conv->choice[image_channel * half * half + w] = which;
    }
}

void reference_conv_forward(struct reference_conv *conv) {
    int size = conv->size;
    for (int n = 0; n < conv->batch * conv->out; n++) {
        for (int p = 0; p < size * size; p++)
            conv->output[n * size * size + p] =
                act(convolve(conv, n / conv->out, n % conv->out, p / size, p % size), conv->slope);
        pool(conv, n);
    }
}

static void backward_window(struct reference_conv *conv, int n, int w) {
    int size = conv->size, half = size / 2, window = n * half * half + w;
    int k = n / conv->out, o = n % conv->out, plane = size * size;
    int y = w / half * 2 + conv->choice[window] / 2, x = w % half * 2 + conv->choice[window] % 2;
    double grad = conv->grad_pooled[window] * (conv->pooled[window] > 0 ? 1 : conv->slope);
    conv->grad_bias[o] += grad;
    for (int c = 0; c < conv->in; c++) {
        FOR_TAPS(size, y, x, tap, place) {
            int weight = (o * conv->in + c) * 9 + tap, input = (k * conv->in + c) * plane + place;
            conv->grad_weight[weight] += grad * conv->input[input];
            conv->grad_input[input] += grad * conv->weight[weight];
        }
    }
}

void reference_conv_backward(struct reference_conv *conv) {
    int windows = conv->size * conv->size / 4;
    for (int n = 0; n < conv->batch * conv->out; n++)
        for (int w = 0; w < windows; w++) backward_window(conv, n, w);
}

void reference_linear_init(struct reference_linear *linear) {
    linear->input = doubles(linear->batch * linear->in);
    linear->weight = doubles(linear->out * linear->in);
    linear->bias = doubles(linear->out);
    linear->output = doubles(linear->batch * linear->out);
    linear->grad_output = doubles(linear->batch * linear->out);
    linear->grad_weight = doubles(linear->out * linear->in);
    linear->grad_bias = doubles(linear->out);
    linear->grad_input = doubles(linear->batch * linear->in);
}

void reference_linear_free(struct reference_linear *linear) {
    free(linear->input);
    free(linear->weight);
    free(linear->bias);
    free(linear->output);
    free(linear->grad_output);
    free(linear->grad_weight);
    free(linear->grad_bias);
    free(linear->grad_input);
}

void reference_linear_forward(struct reference_linear *linear) {
    for (int n = 0; n < linear->batch * linear->out; n++) {
        const double *input = linear->input + n / linear->out * linear->in;
        const double *weight = linear->weight + n % linear->out * linear->in;
        double z = linear->bias[n % linear->out];
        for (int i = 0; i < linear->in; i++) z += input[i] * weight[i];
        linear->output[n] = linear->act ? act(z, linear->slope) : z;
    }
}

void reference_linear_backward(struct reference_linear *linear) {
    for (int n = 0; n < linear->batch * linear->out; n++) {
        int k = n / linear->out, o = n % linear->out;
        if (linear->act && !(linear->output[n] > 0)) linear->grad_output[n] *= linear->slope;
        linear->grad_bias[o] += linear->grad_output[n];
        for (int i = 0; i < linear->in; i++) {
            linear->grad_weight[o * linear->in + i] +=
                linear->grad_output[n] * linear->input[k * linear->in + i];
            linear->grad_input[k * linear->in + i] +=
                linear->grad_output[n] * linear->weight[o * linear->in + i];
        }
    }
}

double reference_loss(const double *logits, const uint8_t *labels, int batch, int classes) {
    double total = 0;
    for (int k = 0; k < batch; k++) {
        const double *logit = logits + k * classes;
        double sum = 0;
        for (int c = 0; c < classes; c++) sum += exp(logit[c] - logit[labels[k]]);
        total += log(sum);
    }
    return total / batch;
}

void reference_fill(double *value, int count, uint32_t seed, double scale) {
    uint32_t state = seed * 2654435761u + 12345;
    for (int i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        value[i] = (double)(float)(((double)(state >> 8) / 8388608.0 - 1) * scale);
    }
}

float *reference_upload(const struct kernels *kernels, struct kernels_device *device,
                        const double *value, int count) {
    size_t size_bytes = (size_t)count * sizeof(float);
    float *d_value = kernels->alloc(device, size_bytes), *content = malloc(size_bytes);
    assert_non_null(content);
    for (int i = 0; value != NULL && i < count; i++) content[i] = (float)value[i];
    if (value != NULL) kernels->upload(device, d_value, content, size_bytes);
    free(content);
    return d_value;
}

void reference_check(const struct kernels *kernels, struct kernels_device *device, const char *what,
                     const float *d_value, const double *expected, int count, double limit) {
    size_t size_bytes = (size_t)count * sizeof(float);
    float *value = malloc(size_bytes);
    double scale = 0;
    assert_non_null(value);
    kernels->download(device, value, d_value, size_bytes);
    for (int i = 0; i < count; i++)
        if (isfinite(expected[i])) scale = fmax(scale, fabs(expected[i]));
    for (int i = 0; i < count; i++) {
        double got = (double)value[i];
        bool same = isfinite(expected[i]) ? fabs(got - expected[i]) <= limit * scale
                    : isnan(expected[i])  ? isnan(got) != 0
                                          : got == expected[i];
        if (!same)
            fail_msg("%s %d of %d: %.9g, expected %.9g (largest %.3g)", what, i, count, got,
                     expected[i], scale);
    }
    free(value);
}
