/* SimpleCNN composed from a backend's operations, with the golden initial weights and the first 320
 * images of MNIST: what the tests and the bench of every backend run. */
#ifndef TESTS_HELP_GOLDEN_H
#define TESTS_HELP_GOLDEN_H

#include "kernels/kernels.h"

enum {
    GOLDEN_IMAGES = 320,
    GOLDEN_PIXELS = 784,
    GOLDEN_BATCH = 64,
    GOLDEN_PARAMS = 8,
    GOLDEN_ACTIVATIONS = 7, /* input, conv1, pool1, conv2, pool2, fc1, logits */
    GOLDEN_SPANS = GOLDEN_ACTIVATIONS + 3 * GOLDEN_PARAMS
};

struct golden_model {
    const struct kernels *kernels;
    struct kernels_device *device;
    uint8_t *d_images, *d_labels;
    int32_t *d_order;
    float *d_activation[GOLDEN_ACTIVATIONS];
    float *d_param[GOLDEN_PARAMS], *d_grad[GOLDEN_PARAMS], *d_momentum[GOLDEN_PARAMS];
    float *d_next_param[GOLDEN_PARAMS], *d_next_momentum[GOLDEN_PARAMS];
    struct kernels_gather gather;
    struct kernels_conv conv[2];
    struct kernels_linear linear[2];
    struct kernels_loss loss;
    struct kernels_sgd sgd; /* all parameters at once */
    struct kernels_span
        span[GOLDEN_SPANS]; /* of a full batch: activations, next params, grads, next momentum */
};

extern const char *const golden_param_name[GOLDEN_PARAMS];
extern const int golden_param_count[GOLDEN_PARAMS];
extern const int golden_activation_count[GOLDEN_ACTIVATIONS]; /* of one image */

/* Element i of tensor t. */
float golden_weight(uint32_t t, uint32_t i);
/* 64-bit FNV-1a of the bytes; goes on from `hash`. */
uint64_t golden_fnv(const void *data, size_t size_bytes, uint64_t hash);
#define GOLDEN_FNV_START UINT64_C(0xCBF29CE484222325)

struct golden_case {
    const char *name;
    float slope;
    enum kernels_scale scale;
};
enum { GOLDEN_CASES = 4 };
extern const struct golden_case golden_case[GOLDEN_CASES]; /* columns of tests/data/golden.tsv.gz */

/* Exits when something is missing: only tests and benches call it. */
void golden_open(struct golden_model *model, const struct kernels *kernels, int threads,
                 const struct golden_case *variant);
void golden_close(struct golden_model *model);
/* Begins step `number` of 0..: images number * batch and so on in file order; lr 0.05, momentum
 * 0.9. */
void golden_begin(struct golden_model *model, int number, int batch);
/* Its operations up to the proposal, without the commit. */
void golden_compute(struct golden_model *model);
/* Of weights and momentum. */
uint64_t golden_hash_params(struct golden_model *model);

#endif
