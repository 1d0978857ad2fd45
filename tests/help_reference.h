/* The operations of a training step as plain loops in double, to compare backends with; and memory
 * of a backend. */
#ifndef TESTS_HELP_REFERENCE_H
#define TESTS_HELP_REFERENCE_H

#include "kernels/kernels.h"

/* Arrays in host memory, double, with the layouts of kernels.h. */
struct reference_conv {
    int batch, in, out, size;
    double slope;
    double *input, *weight, *bias;
    double *output, *pooled;
    int *choice;
    double *grad_pooled, *grad_weight, *grad_bias, *grad_input;
};

struct reference_linear {
    int batch, in, out;
    bool act;
    double slope;
    double *input, *weight, *bias, *output;
    double *grad_output, *grad_weight, *grad_bias, *grad_input;
};

void reference_conv_init(struct reference_conv *conv);
void reference_conv_free(struct reference_conv *conv);
void reference_conv_forward(struct reference_conv *conv);
void reference_conv_backward(struct reference_conv *conv);

void reference_linear_init(struct reference_linear *linear);
void reference_linear_free(struct reference_linear *linear);
void reference_linear_forward(struct reference_linear *linear);
/* grad_output becomes the one before act. */
void reference_linear_backward(struct reference_linear *linear);

/* Mean loss of (batch, classes) logits. */
double reference_loss(const double *logits, const uint8_t *labels, int batch, int classes);

/* Between -scale and scale, the same for the same seed, and floats exactly. */
void reference_fill(double *value, int count, uint32_t seed, double scale);

/* An array of the backend that holds `value`, rounded to float; NULL: zeros. */
float *reference_upload(const struct kernels *kernels, struct kernels_device *device,
                        const double *value, int count);
/* Fails unless every value is within limit * (largest expected magnitude), and NaN exactly where
 * one is expected. */
void reference_check(const struct kernels *kernels, struct kernels_device *device, const char *what,
                     const float *d_value, const double *expected, int count, double limit);

#endif
