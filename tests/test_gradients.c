/* The gradients of every layer against central differences of its forward pass in double. The
 * scalar that is differentiated is the sum of the outputs, each times a fixed random weight: that
 * weight is the gradient handed to the layer. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/help_reference.h"

enum { THREADS = 2, SAMPLES = 60 };
static const double STEP = 1e-6, LIMIT = 2e-6;

static struct kernels_device *open_device(const struct kernels *kernels, int batch) {
    struct kernels_device *device;
    struct error error;
    struct kernels_options options = {THREADS, batch};
    struct kernels_step step = {1, 0, batch, 0, 0};
    assert_int_equal(kernels->open(&device, &options, &error), 0);
    kernels->begin(device, &step);
    return device;
}

/* What is differentiated: `value` of the layer's context at its present parameters. */
struct scalar {
    double (*value)(void *context);
    void *context;
};

/* Replaces gradients by differences: at most SAMPLES of them, evenly spread, the others stay as
 * they are. */
static void differentiate(const struct scalar *scalar, double *parameter, double *grad, int count) {
    int stride = count / SAMPLES + 1;
    for (int i = 0; i < count; i += stride) {
        double kept = parameter[i];
        parameter[i] = kept + STEP;
        double above = scalar->value(scalar->context);
        parameter[i] = kept - STEP;
        double below = scalar->value(scalar->context);
        parameter[i] = kept;
        grad[i] = (above - below) / (2 * STEP);
    }
}

/* Our float gradient in double; differences overwrite a sample of it, and the rest compares with
 * itself. */
static void check_differences(const struct kernels *kernels, struct kernels_device *device,
                              const char *what, const struct scalar *scalar, double *parameter,
                              const float *d_grad, int count) {
    float *grad = malloc((size_t)count * sizeof *grad);
    double *expected = malloc((size_t)count * sizeof *expected);
    assert_true(grad != NULL && expected != NULL);
    kernels->download(device, grad, d_grad, (size_t)count * sizeof *grad);
    for (int i = 0; i < count; i++) expected[i] = (double)grad[i];
    differentiate(scalar, parameter, expected, count);
    reference_check(kernels, device, what, d_grad, expected, count, LIMIT);
    free(expected);
    free(grad);
}

static double dot(const double *left, const double *right, int count) {
    double sum = 0;
    for (int i = 0; i < count; i++) sum += left[i] * right[i];
    return sum;
}

static double conv_value(void *context) {
    struct reference_conv *conv = context;
    reference_conv_forward(conv);
    return dot(conv->pooled, conv->grad_pooled,
               conv->batch * conv->out * conv->size * conv->size / 4);
}

static void check_conv(struct reference_conv shape, bool grad_input) {
    const struct kernels *kernels = kernels_cpu();
    struct kernels_device *device = open_device(kernels, shape.batch);
    struct reference_conv *conv = &shape;
    struct scalar scalar = {conv_value, conv};
    int inputs = conv->batch * conv->in * conv->size * conv->size,
        weights = conv->out * conv->in * 9;
    int outputs = conv->batch * conv->out * conv->size * conv->size;
    reference_conv_init(conv);
    reference_fill(conv->input, inputs, 1, 1);
    reference_fill(conv->weight, weights, 2, 0.3);
    reference_fill(conv->bias, conv->out, 3, 0.3);
    reference_fill(conv->grad_pooled, outputs / 4, 4, 1);
    struct kernels_conv args = {
        .in = conv->in,
        .out = conv->out,
        .size = conv->size,
        .slope = (float)conv->slope,
        .d_input = reference_upload(kernels, device, conv->input, inputs),
        .d_weight = reference_upload(kernels, device, conv->weight, weights),
        .d_bias = reference_upload(kernels, device, conv->bias, conv->out),
        .d_output = reference_upload(kernels, device, NULL, outputs),
        .d_pooled = reference_upload(kernels, device, NULL, outputs / 4),
        .d_choice = kernels->alloc(device, (size_t)outputs / 4),
        .d_grad_pooled = reference_upload(kernels, device, conv->grad_pooled, outputs / 4),
        .d_grad_weight = reference_upload(kernels, device, NULL, weights),
        .d_grad_bias = reference_upload(kernels, device, NULL, conv->out),
        .d_grad_input = grad_input ? reference_upload(kernels, device, NULL, inputs) : NULL};
    kernels->conv_forward(device, &args);
    kernels->conv_backward(device, &args);
    kernels->finish(device);
    check_differences(kernels, device, "conv weight", &scalar, conv->weight, args.d_grad_weight,
                      weights);
    check_differences(kernels, device, "conv bias", &scalar, conv->bias, args.d_grad_bias,
                      conv->out);
    if (grad_input)
        check_differences(kernels, device, "conv input", &scalar, conv->input, args.d_grad_input,
                          inputs);
    void *const taken[] = {
        (void *)args.d_input, (void *)args.d_weight, (void *)args.d_bias,        args.d_output,
        args.d_pooled,        args.d_choice,         (void *)args.d_grad_pooled, args.d_grad_weight,
        args.d_grad_bias,     args.d_grad_input};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) kernels->release(device, taken[i]);
    reference_conv_free(conv);
    kernels->close(device);
}

static const double LEAKY = (double)0.01f;

static void test_conv(void **state) {
    (void)state;
    check_conv((struct reference_conv){.batch = 2, .in = 3, .out = 5, .size = 6, .slope = LEAKY},
               true);
    check_conv((struct reference_conv){.batch = 1, .in = 33, .out = 3, .size = 4, .slope = 0},
               true);
    check_conv((struct reference_conv){.batch = 3, .in = 17, .out = 34, .size = 2, .slope = 0},
               true);
    check_conv((struct reference_conv){.batch = 1, .in = 1, .out = 2, .size = 8, .slope = LEAKY},
               true);
}

/* The first layer of a network, for which a backend may go another way. */
static void test_conv_of_one_channel(void **state) {
    (void)state;
    check_conv((struct reference_conv){.batch = 3, .in = 1, .out = 4, .size = 6, .slope = LEAKY},
               false);
    check_conv((struct reference_conv){.batch = 1, .in = 1, .out = 33, .size = 2, .slope = 0},
               false);
}

static double linear_value(void *context) {
    struct reference_linear *linear = context;
    reference_linear_forward(linear);
    return dot(linear->output, linear->grad_output, linear->batch * linear->out);
}

static void check_linear(struct reference_linear shape) {
    const struct kernels *kernels = kernels_cpu();
    struct kernels_device *device = open_device(kernels, shape.batch);
    struct reference_linear *linear = &shape;
    struct scalar scalar = {linear_value, linear};
    int inputs = linear->batch * linear->in, outputs = linear->batch * linear->out;
    int weights = linear->in * linear->out;
    reference_linear_init(linear);
    reference_fill(linear->input, inputs, 5, 1);
    reference_fill(linear->weight, weights, 6, 0.3);
    reference_fill(linear->bias, linear->out, 7, 0.3);
    reference_fill(linear->grad_output, outputs, 8, 1);
    struct kernels_linear args = {
        .in = linear->in,
        .out = linear->out,
        .act = linear->act,
        .slope = (float)linear->slope,
        .d_input = reference_upload(kernels, device, linear->input, inputs),
        .d_weight = reference_upload(kernels, device, linear->weight, weights),
        .d_bias = reference_upload(kernels, device, linear->bias, linear->out),
        .d_output = reference_upload(kernels, device, NULL, outputs),
        .d_grad_output = reference_upload(kernels, device, linear->grad_output, outputs),
        .d_grad_weight = reference_upload(kernels, device, NULL, weights),
        .d_grad_bias = reference_upload(kernels, device, NULL, linear->out),
        .d_grad_input = reference_upload(kernels, device, NULL, inputs)};
    kernels->linear_forward(device, &args);
    kernels->linear_backward(device, &args);
    kernels->finish(device);
    check_differences(kernels, device, "linear weight", &scalar, linear->weight, args.d_grad_weight,
                      weights);
    check_differences(kernels, device, "linear bias", &scalar, linear->bias, args.d_grad_bias,
                      linear->out);
    check_differences(kernels, device, "linear input", &scalar, linear->input, args.d_grad_input,
                      inputs);
    void *const taken[] = {(void *)args.d_input, (void *)args.d_weight, (void *)args.d_bias,
                           args.d_output,        args.d_grad_output,    args.d_grad_weight,
                           args.d_grad_bias,     args.d_grad_input};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) kernels->release(device, taken[i]);
    reference_linear_free(linear);
    kernels->close(device);
}

static void test_linear(void **state) {
    (void)state;
    check_linear(
        (struct reference_linear){.batch = 3, .in = 20, .out = 7, .act = true, .slope = LEAKY});
    check_linear(
        (struct reference_linear){.batch = 2, .in = 300, .out = 3, .act = true, .slope = 0});
    check_linear((struct reference_linear){.batch = 5, .in = 9, .out = 10, .act = false});
}

enum { BATCH = 4, CLASSES = 10 };

struct loss {
    double logits[BATCH * CLASSES];
    uint8_t labels[BATCH];
};

static double loss_value(void *context) {
    struct loss *loss = context;
    return reference_loss(loss->logits, loss->labels, BATCH, CLASSES);
}

static void test_loss(void **state) {
    const struct kernels *kernels = kernels_cpu();
    struct kernels_device *device = open_device(kernels, BATCH);
    struct loss loss = {.labels = {3, 0, 9, 3}};
    struct scalar scalar = {loss_value, &loss};
    double outcome[2];
    (void)state;
    reference_fill(loss.logits, BATCH * CLASSES, 9, 5);
    float *d_logits = reference_upload(kernels, device, loss.logits, BATCH * CLASSES);
    float *d_grad = reference_upload(kernels, device, NULL, BATCH * CLASSES);
    float *d_losses = reference_upload(kernels, device, NULL, BATCH);
    uint8_t *d_labels = kernels->alloc(device, BATCH);
    double *d_outcome = kernels->alloc(device, sizeof outcome);
    kernels->upload(device, d_labels, loss.labels, BATCH);
    struct kernels_loss args = {CLASSES, d_logits, d_labels, d_losses, d_grad, d_outcome};
    kernels->loss(device, &args);
    kernels->download(device, outcome, d_outcome, sizeof outcome);
    assert_true(fabs(outcome[0] - loss_value(&loss)) <= 1e-6 * outcome[0]);
    check_differences(kernels, device, "logits", &scalar, loss.logits, d_grad, BATCH * CLASSES);
    kernels->release(device, d_logits);
    kernels->release(device, d_grad);
    kernels->release(device, d_losses);
    kernels->release(device, d_labels);
    kernels->release(device, d_outcome);
    kernels->close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conv),
        cmocka_unit_test(test_conv_of_one_channel),
        cmocka_unit_test(test_linear),
        cmocka_unit_test(test_loss),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
