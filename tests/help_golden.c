#include "tests/help_golden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const golden_param_name[GOLDEN_PARAMS] = {"conv1.weight", "conv1.bias", "conv2.weight",
                                                      "conv2.bias",   "fc1.weight", "fc1.bias",
                                                      "fc2.weight",   "fc2.bias"};
const int golden_param_count[GOLDEN_PARAMS] = {288, 32, 18432, 64, 401408, 128, 1280, 10};
const int golden_activation_count[GOLDEN_ACTIVATIONS] = {784, 25088, 6272, 12544, 3136, 128, 10};

const struct golden_case golden_case[GOLDEN_CASES] = {
    {"leaky_norm", 0.01f, KERNELS_SCALE_NORMALIZE},
    {"leaky_x255", 0.01f, KERNELS_SCALE_255},
    {"relu_norm", 0, KERNELS_SCALE_NORMALIZE},
    {"relu_x255", 0, KERNELS_SCALE_255}};

/* Every tensor starts on a cache line of its own. */
static size_t padded(int count) { return ((size_t)count + 15) / 16 * 16; }

float golden_weight(uint32_t t, uint32_t i) {
    static const int shift[GOLDEN_PARAMS] = {2, 2, 4, 4, 6, 6, 3, 3};
    uint64_t z =
        ((uint64_t)t << 32 | i) * UINT64_C(0x9E3779B97F4A7C15) + UINT64_C(0x853C49E6748FEA9B);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    z ^= z >> 31;
    int32_t k = (int32_t)(z >> 40) - 8388608;
    return (float)k * (1.0f / 8388608.0f) * (1.0f / (float)(1 << shift[t]));
}

uint64_t golden_fnv(const void *data, size_t size_bytes, uint64_t hash) {
    const unsigned char *byte = data;
    for (size_t i = 0; i < size_bytes; i++) hash = (hash ^ byte[i]) * UINT64_C(0x100000001B3);
    return hash;
}

static void fail(const char *what) {
    fprintf(stderr, "golden: %s\n", what);
    exit(2);
}

/* The content behind an IDX header, in memory of the device. */
static void *load(struct golden_model *model, const char *path, long header, size_t size_bytes) {
    FILE *file = fopen(path, "rb");
    void *content = malloc(size_bytes);
    if (file == NULL || content == NULL || fseek(file, header, SEEK_SET) != 0 ||
        fread(content, 1, size_bytes, file) != size_bytes)
        fail(path);
    fclose(file);
    void *d_content = model->kernels->alloc(model->device, size_bytes);
    model->kernels->upload(model->device, d_content, content, size_bytes);
    free(content);
    return d_content;
}

static float *floats(struct golden_model *model, size_t count) {
    return model->kernels->alloc(model->device, count * sizeof(float));
}

static void take_data(struct golden_model *model) {
    int32_t order[GOLDEN_IMAGES];
    for (int32_t i = 0; i < GOLDEN_IMAGES; i++) order[i] = i;
    model->d_images = load(model, "tests/data/mnist320/train-images-idx3-ubyte", 16,
                           (size_t)GOLDEN_IMAGES * GOLDEN_PIXELS);
    model->d_labels = load(model, "tests/data/mnist320/train-labels-idx1-ubyte", 8, GOLDEN_IMAGES);
    model->d_order = model->kernels->alloc(model->device, sizeof order);
    model->kernels->upload(model->device, model->d_order, order, sizeof order);
}

static void take_params(struct golden_model *model) {
    size_t total = 0, offset = 0;
    for (int t = 0; t < GOLDEN_PARAMS; t++) total += padded(golden_param_count[t]);
    float *d_grad = floats(model, total), *weight = calloc(total, sizeof *weight);
    struct kernels_sgd *sgd = &model->sgd;
    if (weight == NULL) fail("no memory");
    *sgd = (struct kernels_sgd){(int64_t)total,       d_grad,
                                floats(model, total), floats(model, total),
                                floats(model, total), floats(model, total)};
    for (int t = 0; t < GOLDEN_PARAMS; offset += padded(golden_param_count[t]), t++) {
        model->d_param[t] = sgd->d_param + offset;
        model->d_grad[t] = d_grad + offset;
        model->d_momentum[t] = sgd->d_momentum + offset;
        model->d_next_param[t] = sgd->d_next_param + offset;
        model->d_next_momentum[t] = sgd->d_next_momentum + offset;
        for (int i = 0; i < golden_param_count[t]; i++)
            weight[offset + (size_t)i] = golden_weight((uint32_t)t, (uint32_t)i);
    }
    model->kernels->upload(model->device, sgd->d_param, weight, total * sizeof *weight);
    free(weight);
}

/* Layers 0, 1: conv, 2, 3: linear; parameters 2n and 2n + 1 are layer n's. */
static void wire_layers(struct golden_model *model, float slope) {
    float **act = model->d_activation, **param = model->d_param, **grad = model->d_grad;
    float *d_grad_pool1 = floats(model, GOLDEN_BATCH * 6272);
    float *d_grad_pool2 = floats(model, GOLDEN_BATCH * 3136);
    float *d_grad_fc1 = floats(model, GOLDEN_BATCH * 128);
    uint8_t *d_choice1 = model->kernels->alloc(model->device, GOLDEN_BATCH * 6272);
    uint8_t *d_choice2 = model->kernels->alloc(model->device, GOLDEN_BATCH * 3136);
    model->loss = (struct kernels_loss){
        .classes = 10,
        .d_logits = act[6],
        .d_labels = model->gather.d_batch_labels,
        .d_losses = floats(model, GOLDEN_BATCH),
        .d_grad_logits = floats(model, GOLDEN_BATCH * 10),
        .d_outcome = model->kernels->alloc(model->device, 2 * sizeof(double))};
    model->conv[0] =
        (struct kernels_conv){1,      32,     28,        slope,        act[0],  param[0], param[1],
                              act[1], act[2], d_choice1, d_grad_pool1, grad[0], grad[1],  NULL};
    model->conv[1] = (struct kernels_conv){32,           64,       14,      slope,       act[2],
                                           param[2],     param[3], act[3],  act[4],      d_choice2,
                                           d_grad_pool2, grad[2],  grad[3], d_grad_pool1};
    model->linear[0] =
        (struct kernels_linear){3136,     128,    true,       slope,   act[4],  param[4],
                                param[5], act[5], d_grad_fc1, grad[4], grad[5], d_grad_pool2};
    model->linear[1] = (struct kernels_linear){128,      10,      false,
                                               0,        act[5],  param[6],
                                               param[7], act[6],  model->loss.d_grad_logits,
                                               grad[6],  grad[7], d_grad_fc1};
}

static void list_spans(struct golden_model *model) {
    struct kernels_span *span = model->span;
    for (int a = 0; a < GOLDEN_ACTIVATIONS; a++)
        *span++ = (struct kernels_span){model->d_activation[a],
                                        GOLDEN_BATCH * golden_activation_count[a], 1e4};
    float **const arena[] = {model->d_next_param, model->d_grad, model->d_next_momentum};
    for (int n = 0; n < 3; n++)
        for (int t = 0; t < GOLDEN_PARAMS; t++)
            *span++ = (struct kernels_span){arena[n][t], golden_param_count[t], 1e4};
}

void golden_open(struct golden_model *model, const struct kernels *kernels, int threads,
                 const struct golden_case *variant) {
    struct kernels_options options = {threads, GOLDEN_BATCH};
    struct error error;
    memset(model, 0, sizeof *model);
    model->kernels = kernels;
    if (kernels->open(&model->device, &options, &error) != 0) fail(error.text);
    take_data(model);
    take_params(model);
    for (int a = 0; a < GOLDEN_ACTIVATIONS; a++)
        model->d_activation[a] = floats(model, GOLDEN_BATCH * (size_t)golden_activation_count[a]);
    model->gather = (struct kernels_gather){model->d_images,
                                            model->d_labels,
                                            model->d_order,
                                            GOLDEN_PIXELS,
                                            variant->scale,
                                            model->d_activation[0],
                                            kernels->alloc(model->device, GOLDEN_BATCH)};
    wire_layers(model, variant->slope);
    list_spans(model);
}

void golden_close(struct golden_model *model) {
    const struct kernels *kernels = model->kernels;
    void *const taken[] = {model->d_images,
                           model->d_labels,
                           model->d_order,
                           model->gather.d_batch_labels,
                           (void *)model->sgd.d_grad,
                           model->sgd.d_param,
                           model->sgd.d_momentum,
                           model->sgd.d_next_param,
                           model->sgd.d_next_momentum,
                           model->conv[0].d_choice,
                           model->conv[1].d_choice,
                           model->conv[1].d_grad_input,
                           model->linear[0].d_grad_input,
                           model->linear[1].d_grad_input,
                           model->loss.d_losses,
                           model->loss.d_grad_logits,
                           model->loss.d_outcome};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        kernels->release(model->device, taken[i]);
    for (int a = 0; a < GOLDEN_ACTIVATIONS; a++)
        kernels->release(model->device, model->d_activation[a]);
    kernels->close(model->device);
}

void golden_begin(struct golden_model *model, int number, int batch) {
    struct kernels_step step = {number + 1, (int64_t)number * batch, batch, 0.05f, 0.9f};
    model->kernels->begin(model->device, &step);
}

void golden_compute(struct golden_model *model) {
    const struct kernels *kernels = model->kernels;
    struct kernels_device *device = model->device;
    kernels->gather(device, &model->gather);
    for (int n = 0; n < 2; n++) kernels->conv_forward(device, &model->conv[n]);
    for (int n = 0; n < 2; n++) kernels->linear_forward(device, &model->linear[n]);
    kernels->loss(device, &model->loss);
    for (int n = 1; n >= 0; n--) kernels->linear_backward(device, &model->linear[n]);
    for (int n = 1; n >= 0; n--) kernels->conv_backward(device, &model->conv[n]);
    kernels->sgd(device, &model->sgd);
    kernels->finish(device);
}

uint64_t golden_hash_params(struct golden_model *model) {
    size_t size_bytes = (size_t)model->sgd.count * sizeof(float);
    void *content = malloc(size_bytes);
    if (content == NULL) fail("no memory");
    model->kernels->download(model->device, content, model->sgd.d_param, size_bytes);
    uint64_t hash = golden_fnv(content, size_bytes, GOLDEN_FNV_START);
    model->kernels->download(model->device, content, model->sgd.d_momentum, size_bytes);
    hash = golden_fnv(content, size_bytes, hash);
    free(content);
    return hash;
}
