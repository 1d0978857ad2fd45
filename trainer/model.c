#include "trainer/model.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "shared/core/text.h"
#include "trainer/generator.h"

enum { OUT1 = 32, OUT2 = 64, SIZE1 = DATASET_SIDE, SIZE2 = SIZE1 / 2, SIZE3 = SIZE2 / 2 };
enum { FLAT = OUT2 * SIZE3 * SIZE3, HIDDEN = 128, CLASSES = DATASET_CLASSES };

static const struct model_tensor IMAGE_TENSOR[] = {
    [MODEL_INPUT] = {"input", ROLE_INPUT, STAGE_INPUT, 3, {1, SIZE1, SIZE1}},
    [MODEL_CONV1] = {"conv1", ROLE_ACTIVATION, STAGE_FORWARD, 3, {OUT1, SIZE1, SIZE1}},
    [MODEL_CONV2] = {"conv2", ROLE_ACTIVATION, STAGE_FORWARD, 3, {OUT2, SIZE2, SIZE2}},
    [MODEL_FC1] = {"fc1", ROLE_ACTIVATION, STAGE_FORWARD, 1, {HIDDEN}},
    [MODEL_LOGITS] = {"logits", ROLE_LOGITS, STAGE_FORWARD, 1, {CLASSES}},
    [MODEL_LOSS] = {"loss", ROLE_LOSS, STAGE_LOSS, 0, {0}},
    [MODEL_GRAD_LOGITS] = {"logits", ROLE_GRADIENT, STAGE_BACKWARD, 1, {CLASSES}},
};

static const struct parameter {
    const char *name;
    int dims;
    int64_t shape[4];
    int64_t fan_in; /* of its layer */
    float golden_bound;
} PARAMETER[MODEL_PARAMETERS] = {
    {"conv1.weight", 4, {OUT1, 1, 3, 3}, 9, 0x1p-2F},
    {"conv1.bias", 1, {OUT1}, 9, 0x1p-2F},
    {"conv2.weight", 4, {OUT2, OUT1, 3, 3}, OUT1 * 9, 0x1p-4F},
    {"conv2.bias", 1, {OUT2}, OUT1 * 9, 0x1p-4F},
    {"fc1.weight", 2, {HIDDEN, FLAT}, FLAT, 0x1p-6F},
    {"fc1.bias", 1, {HIDDEN}, FLAT, 0x1p-6F},
    {"fc2.weight", 2, {CLASSES, HIDDEN}, HIDDEN, 0x1p-3F},
    {"fc2.bias", 1, {CLASSES}, HIDDEN, 0x1p-3F},
};

static int64_t count_values(const int64_t *shape, int dims) {
    int64_t count = 1;
    for (int i = 0; i < dims; i++) count *= shape[i];
    return count;
}

static void *take(struct model *model, size_t size_bytes) {
    assert(model->memories < MODEL_MEMORIES);
    void *d_memory = model->kernels->alloc(model->device, size_bytes);
    model->d_memory[model->memories++] = d_memory;
    return d_memory;
}

static float *take_floats(struct model *model, int64_t count) {
    return take(model, (size_t)count * sizeof(float));
}

static struct model_tensor lay_out(int parameter, enum role role, float *d_arena) {
    const struct parameter *row = &PARAMETER[parameter];
    struct model_tensor tensor = {
        .name = row->name, .role = role, .dims = row->dims, .d_data = d_arena};
    tensor.stage = role == ROLE_GRADIENT ? STAGE_BACKWARD : STAGE_STEP;
    tensor.count = count_values(row->shape, row->dims);
    for (int i = 0; i < row->dims; i++) tensor.shape[i] = row->shape[i];
    for (int i = 0; i < parameter; i++)
        tensor.offset += count_values(PARAMETER[i].shape, PARAMETER[i].dims);
    tensor.d_data += tensor.offset;
    return tensor;
}

static void take_parameters(struct model *model) {
    float *d_grad = take_floats(model, MODEL_VALUES);
    model->sgd = (struct kernels_sgd){.count = MODEL_VALUES,
                                      .d_grad = d_grad,
                                      .d_param = take_floats(model, MODEL_VALUES),
                                      .d_momentum = take_floats(model, MODEL_VALUES),
                                      .d_next_param = take_floats(model, MODEL_VALUES),
                                      .d_next_momentum = take_floats(model, MODEL_VALUES)};
    for (int i = 0; i < MODEL_PARAMETERS; i++) {
        model->tensor[model_grad(i)] = lay_out(i, ROLE_GRADIENT, d_grad);
        model->tensor[MODEL_MOMENTUM + i] =
            lay_out(i, ROLE_MOMENTUM_BUFFER, model->sgd.d_next_momentum);
        model->tensor[MODEL_PARAM + i] = lay_out(i, ROLE_PARAMETER, model->sgd.d_next_param);
    }
}

static void take_images(struct model *model, int batch_max) {
    for (int i = MODEL_INPUT; i < MODEL_GRAD; i++) {
        struct model_tensor *tensor = &model->tensor[i];
        *tensor = IMAGE_TENSOR[i];
        tensor->per_image = true;
        tensor->count = count_values(tensor->shape, tensor->dims);
        tensor->d_data = take_floats(model, tensor->count * batch_max);
    }
}

/* Weight, bias and their gradients of layer 0..3. */
struct layer {
    const float *d_weight, *d_bias;
    float *d_grad_weight, *d_grad_bias;
};

static struct layer find_layer(const struct model *model, int number) {
    int weight = 2 * number, bias = weight + 1;
    return (struct layer){.d_weight =
                              model->sgd.d_param + model->tensor[MODEL_PARAM + weight].offset,
                          .d_bias = model->sgd.d_param + model->tensor[MODEL_PARAM + bias].offset,
                          .d_grad_weight = model->tensor[model_grad(weight)].d_data,
                          .d_grad_bias = model->tensor[model_grad(bias)].d_data};
}

static void connect_conv(struct model *model, int number, const struct model_options *options) {
    static const struct kernels_conv SHAPE[] = {{.in = 1, .out = OUT1, .size = SIZE1},
                                                {.in = OUT1, .out = OUT2, .size = SIZE2}};
    struct kernels_conv conv = SHAPE[number];
    struct layer layer = find_layer(model, number);
    int64_t pooled = (int64_t)options->batch_max * conv.out * (conv.size / 2) * (conv.size / 2);
    conv.slope = options->slope;
    conv.d_weight = layer.d_weight;
    conv.d_bias = layer.d_bias;
    conv.d_grad_weight = layer.d_grad_weight;
    conv.d_grad_bias = layer.d_grad_bias;
    conv.d_output = model->tensor[MODEL_CONV1 + number].d_data;
    conv.d_pooled = take_floats(model, pooled);
    conv.d_choice = take(model, (size_t)pooled);
    model->conv[number] = conv;
}

static void connect_linear(struct model *model, int number, const struct model_options *options) {
    static const struct kernels_linear SHAPE[] = {{.in = FLAT, .out = HIDDEN, .act = true},
                                                  {.in = HIDDEN, .out = CLASSES}};
    struct kernels_linear linear = SHAPE[number];
    struct layer layer = find_layer(model, 2 + number);
    linear.slope = options->slope;
    linear.d_weight = layer.d_weight;
    linear.d_bias = layer.d_bias;
    linear.d_grad_weight = layer.d_grad_weight;
    linear.d_grad_bias = layer.d_grad_bias;
    linear.d_output = model->tensor[MODEL_FC1 + number].d_data;
    model->linear[number] = linear;
}

/* Each layer reads what the one before it wrote, and hands its gradient back to it. */
static void connect_chain(struct model *model, int64_t batch_max) {
    struct kernels_conv *conv = model->conv;
    struct kernels_linear *linear = model->linear;
    conv[0].d_input = model->tensor[MODEL_INPUT].d_data;
    conv[1].d_input = conv[0].d_pooled;
    linear[0].d_input = conv[1].d_pooled;
    linear[1].d_input = linear[0].d_output;
    linear[1].d_grad_output = model->tensor[MODEL_GRAD_LOGITS].d_data;
    linear[0].d_grad_output = linear[1].d_grad_input = take_floats(model, batch_max * HIDDEN);
    conv[1].d_grad_pooled = linear[0].d_grad_input = take_floats(model, batch_max * FLAT);
    conv[0].d_grad_pooled = conv[1].d_grad_input =
        take_floats(model, batch_max * OUT1 * SIZE2 * SIZE2);
}

void model_init(struct model *model, const struct kernels *kernels, struct kernels_device *device,
                const struct model_options *options) {
    *model = (struct model){.kernels = kernels, .device = device};
    take_parameters(model);
    take_images(model, options->batch_max);
    for (int i = 0; i < 2; i++) {
        connect_conv(model, i, options);
        connect_linear(model, i, options);
    }
    connect_chain(model, options->batch_max);
    uint8_t *d_labels = take(model, (size_t)options->batch_max);
    model->gather = (struct kernels_gather){.pixels = DATASET_PIXELS,
                                            .scale = options->scale,
                                            .d_input = model->tensor[MODEL_INPUT].d_data,
                                            .d_batch_labels = d_labels};
    model->loss = (struct kernels_loss){.classes = CLASSES,
                                        .d_logits = model->tensor[MODEL_LOGITS].d_data,
                                        .d_labels = d_labels,
                                        .d_losses = model->tensor[MODEL_LOSS].d_data,
                                        .d_grad_logits = model->tensor[MODEL_GRAD_LOGITS].d_data,
                                        .d_outcome = take(model, 2 * sizeof(double))};
    for (int i = 0; i < MODEL_TENSORS; i++) model->span[i].d_data = model->tensor[i].d_data;
}

void model_free(struct model *model) {
    for (int i = 0; i < model->memories; i++)
        model->kernels->release(model->device, model->d_memory[i]);
    *model = (struct model){0};
}

int model_describe(const struct model *model, int batch, struct schema *schema) {
    for (int i = 0; i < MODEL_TENSORS; i++) {
        const struct model_tensor *tensor = &model->tensor[i];
        struct schema_tensor added = {
            .role = tensor->role, .stage = tensor->stage, .dtype = DTYPE_F32};
        text_copy(added.name, sizeof added.name, tensor->name);
        if (tensor->per_image) added.shape[added.dims++] = batch;
        for (int k = 0; k < tensor->dims; k++) added.shape[added.dims++] = tensor->shape[k];
        if (schema_add_tensor(schema, &added) < 0) return -1;
    }
    schema_seal(schema);
    return 0;
}

int model_find_parameter(const char *name) {
    for (int i = 0; i < MODEL_PARAMETERS; i++)
        if (strcmp(PARAMETER[i].name, name) == 0) return i;
    return -1;
}

void model_state_init(struct model_state *state, uint64_t seed, bool golden) {
    float *value = state->param;
    for (int i = 0; i < MODEL_PARAMETERS; i++) {
        const struct parameter *row = &PARAMETER[i];
        double bound = golden ? row->golden_bound : 1 / sqrt((double)row->fan_in);
        uint32_t count = (uint32_t)count_values(row->shape, row->dims);
        for (uint32_t k = 0; k < count; k++)
            *value++ = (float)(generator_uniform(seed, (uint32_t)i, k) * bound);
    }
    memset(state->momentum, 0, sizeof state->momentum);
}

uint64_t model_state_hash(const struct model_state *state) {
    return XXH3_64bits(state, sizeof *state);
}

static void download(const struct model *model, struct model_state *state, const float *d_param,
                     const float *d_momentum) {
    const struct kernels *k = model->kernels;
    k->download(model->device, state->param, d_param, sizeof state->param);
    k->download(model->device, state->momentum, d_momentum, sizeof state->momentum);
}

void model_get_state(const struct model *model, struct model_state *state) {
    download(model, state, model->sgd.d_param, model->sgd.d_momentum);
}

void model_get_proposal(const struct model *model, struct model_state *state) {
    download(model, state, model->sgd.d_next_param, model->sgd.d_next_momentum);
}

/* The proposal becomes the same, so that it can be measured as the result of a step is. */
void model_set_state(struct model *model, const struct model_state *state) {
    const struct kernels *k = model->kernels;
    k->upload(model->device, model->sgd.d_param, state->param, sizeof state->param);
    k->upload(model->device, model->sgd.d_momentum, state->momentum, sizeof state->momentum);
    k->upload(model->device, model->sgd.d_next_param, state->param, sizeof state->param);
    k->upload(model->device, model->sgd.d_next_momentum, state->momentum, sizeof state->momentum);
}

static void *take_copy(struct model *model, const void *from, size_t size_bytes) {
    void *d_memory = take(model, size_bytes);
    model->kernels->upload(model->device, d_memory, from, size_bytes);
    return d_memory;
}

void model_set_data(struct model *model, const struct dataset *dataset) {
    size_t images = (size_t)dataset->images;
    model->gather.d_images = take_copy(model, dataset->image, images * DATASET_PIXELS);
    model->gather.d_labels = take_copy(model, dataset->label, images);
    model->gather.d_order = take(model, images * sizeof(int32_t));
}

void model_set_order(struct model *model, const int32_t *order, int32_t count) {
    void *d_order = (void *)model->gather.d_order;
    model->kernels->upload(model->device, d_order, order, (size_t)count * sizeof *order);
}

static void issue_step(struct model *model) {
    const struct kernels *k = model->kernels;
    struct kernels_device *device = model->device;
    k->gather(device, &model->gather);
    for (int i = 0; i < 2; i++) k->conv_forward(device, &model->conv[i]);
    for (int i = 0; i < 2; i++) k->linear_forward(device, &model->linear[i]);
    k->loss(device, &model->loss);
    for (int i = 1; i >= 0; i--) k->linear_backward(device, &model->linear[i]);
    for (int i = 1; i >= 0; i--) k->conv_backward(device, &model->conv[i]);
    k->sgd(device, &model->sgd);
}

static void issue_measure(struct model *model, int batch, const struct model_measure *measure,
                          int first) {
    if (!measure) return;
    for (int i = first; i < MODEL_TENSORS; i++) {
        const struct model_tensor *tensor = &model->tensor[i];
        model->span[i].count = tensor->per_image ? tensor->count * batch : tensor->count;
        model->span[i].range = measure->range;
    }
    model->kernels->measure(model->device, model->span + first, MODEL_TENSORS - first,
                            measure->stat + first);
}

void model_step(struct model *model, const struct kernels_step *step,
                const struct model_measure *measure, double outcome[2]) {
    const struct kernels *k = model->kernels;
    if (k->begin(model->device, step)) {
        issue_measure(model, step->batch, measure, 0); /* first: values are still in the caches */
        issue_step(model);
    }
    k->finish(model->device);
    k->download(model->device, outcome, model->loss.d_outcome, 2 * sizeof *outcome);
}

void model_inject(struct model *model, const struct kernels_step *step,
                  const struct model_measure *measure, int parameter, float factor) {
    const struct model_tensor *grad = &model->tensor[model_grad(parameter)];
    size_t size_bytes = (size_t)grad->count * sizeof(float);
    float *value = malloc(size_bytes);
    assert(value);
    model->kernels->download(model->device, value, grad->d_data, size_bytes);
    for (int64_t i = 0; i < grad->count; i++) value[i] *= factor;
    model->kernels->upload(model->device, grad->d_data, value, size_bytes);
    free(value);
    model->kernels->sgd(model->device, &model->sgd);
    issue_measure(model, step->batch, measure, 0);
    model->kernels->finish(model->device);
}

void model_measure_state(struct model *model, const struct model_measure *measure) {
    issue_measure(model, 0, measure, MODEL_MOMENTUM);
    model->kernels->finish(model->device);
}

void model_commit(struct model *model) { model->kernels->commit(model->device, &model->sgd); }
