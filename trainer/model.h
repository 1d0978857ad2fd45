/* The CNN that is trained, 421,642 parameters, composed from a backend's operations:
 * conv1 1->32, act, pool; conv2 32->64, act, pool; fc1 3136->128, act; fc2 128->10; softmax
 * cross-entropy; SGD with momentum. One table of tensors names everything that is measured, saved
 * and published. */
#ifndef TRAINER_MODEL_H
#define TRAINER_MODEL_H

#include "kernels/kernels.h"
#include "shared/core/record.h"
#include "trainer/dataset.h"

enum {
    MODEL_PARAMETERS = 8,  /* tensors */
    MODEL_VALUES = 421642, /* in all of them */
    MODEL_MEMORIES = 32,

    /* Places in the table, which is in the order of the step's stages. */
    MODEL_INPUT = 0,
    MODEL_CONV1, /* activations, after act and before pool */
    MODEL_CONV2,
    MODEL_FC1,
    MODEL_LOGITS,
    MODEL_LOSS, /* of each image */
    MODEL_GRAD_LOGITS,
    MODEL_GRAD, /* of the parameters, as backward makes them: the last one first */
    MODEL_MOMENTUM = MODEL_GRAD + MODEL_PARAMETERS,
    MODEL_PARAM = MODEL_MOMENTUM + MODEL_PARAMETERS,
    MODEL_TENSORS = MODEL_PARAM + MODEL_PARAMETERS
};

/* Place of a parameter's gradient in the table. */
static inline int model_grad(int parameter) {
    return MODEL_GRAD + MODEL_PARAMETERS - 1 - parameter;
}

struct model_tensor {
    const char *name; /* "conv1.weight" */
    enum role role;
    enum stage stage;
    int dims; /* without the batch */
    int64_t shape[4];
    bool per_image; /* (batch, shape), and count is of one image */
    int64_t count;
    int64_t offset; /* of a parameter, gradient or momentum buffer in its arena, in values */
    float *d_data;  /* what is measured: of parameters and momentum the proposal */
};

struct model_options {
    int batch_max;
    float slope; /* of act below zero; 0: relu */
    enum kernels_scale scale;
};

/* Parameters and momentum in host memory, in the order of the table. */
struct model_state {
    float param[MODEL_VALUES], momentum[MODEL_VALUES];
};

struct model {
    const struct kernels *kernels;
    struct kernels_device *device;
    struct model_tensor tensor[MODEL_TENSORS];
    struct kernels_gather gather;
    struct kernels_conv conv[2];
    struct kernels_linear linear[2];
    struct kernels_loss loss;
    struct kernels_sgd sgd;
    struct kernels_span span[MODEL_TENSORS]; /* of the step going on */
    void *d_memory[MODEL_MEMORIES];          /* all that was taken */
    int memories;
};

/* Takes all memory of the device; the weights are zero until model_set_state. The device outlives
 * the model. */
void model_init(struct model *model, const struct kernels *kernels, struct kernels_device *device,
                const struct model_options *options);
/* A model that is all zero is legal. */
void model_free(struct model *model);

/* Adds the table to a schema, shapes with the full batch, and seals it. -1: no memory. */
int model_describe(const struct model *model, int batch, struct schema *schema);
/* Number of the parameter (0..7) with this name; -1: absent. */
int model_find_parameter(const char *name);

/* Initial parameters of a seed, momentum zero; docs/trainer.md has the formula. `golden`: the
 * bounds of the test fixtures. */
void model_state_init(struct model_state *state, uint64_t seed, bool golden);
/* XXH3 over all parameter and momentum bytes in table order. */
uint64_t model_state_hash(const struct model_state *state);
/* The committed state, and what the step just made proposes. */
void model_get_state(const struct model *model, struct model_state *state);
void model_get_proposal(const struct model *model, struct model_state *state);
void model_set_state(struct model *model, const struct model_state *state);

/* Images and labels of the run, then the order of each epoch. */
void model_set_data(struct model *model, const struct dataset *dataset);
void model_set_order(struct model *model, const int32_t *order, int32_t count);

/* One step up to the proposal; nothing is written before model_commit. stat[0..MODEL_TENSORS) as
 * the table, `over` counted beyond `range`; NULL: nothing is measured. outcome[0] mean loss, [1]
 * images whose largest logit is their label. */
struct model_measure {
    double range;
    struct tensor_stat *stat;
};
void model_step(struct model *model, const struct kernels_step *step,
                const struct model_measure *measure, double outcome[2]);
/* Multiplies a gradient of the step just made and makes its proposal and statistics again. */
void model_inject(struct model *model, const struct kernels_step *step,
                  const struct model_measure *measure, int parameter, float factor);
/* Measures the state after model_set_state: stat[MODEL_MOMENTUM..MODEL_TENSORS). */
void model_measure_state(struct model *model, const struct model_measure *measure);
void model_commit(struct model *model);

#endif
