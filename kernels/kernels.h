/* The operations of a training step behind one C interface. A backend (cpu/ over OpenBLAS; cuda/
 * over cuBLAS in a shared object of its own) fills `struct kernels`; trainer/model.c composes the
 * step from them and knows no backend.
 *
 * Arrays are dense, row-major float32 with PyTorch's layouts; pointers named d_* are memory of the
 * backend, taken by alloc. Operations are queued in order on the backend's one stream; only
 * download and finish wait. Every reduction has a fixed order: the same input, backend, thread
 * count and machine give the same bits. A failed operation is no input error: the backend prints
 * the place and stops. */
#ifndef KERNELS_KERNELS_H
#define KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/core/error.h"
#include "shared/core/record.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { KERNELS_VERSION = 1 };

struct kernels_device; /* a backend's stream, handles, threads and scratch memory */

struct kernels_options {
    int threads;   /* of a CPU backend; 0: one per core */
    int batch_max; /* largest batch of any step: scratch memory is taken for it in open */
};

struct kernels_info {
    char device[128];  /* "cpu, 2 threads" */
    char backend[128]; /* "OpenBLAS 0.3.21 SkylakeX" */
    int threads;
};

/* What changes from step to step. Operations read it from the device, so a captured graph can be
 * replayed. */
struct kernels_step {
    int64_t step;
    int64_t offset; /* of the batch in d_order */
    int batch;      /* images of this step */
    float lr, momentum;
};

/* x/255, or (x/255 - 0.1307)/0.3081, every operation rounded to float32. */
enum kernels_scale { KERNELS_SCALE_255, KERNELS_SCALE_NORMALIZE };

struct kernels_gather {      /* input[k] = scale(image[order[offset + k]]) */
    const uint8_t *d_images; /* (images, pixels) */
    const uint8_t *d_labels; /* (images) */
    const int32_t *d_order;  /* indices of the epoch in its order */
    int pixels;
    enum kernels_scale scale;
    float *d_input;          /* (batch, pixels) */
    uint8_t *d_batch_labels; /* (batch) */
};

/* 3x3 convolution, stride 1, zero padding 1, then act(z) = z > 0 ? z : slope * z (a NaN stays one),
 * then 2x2 max-pool of stride 2, ties to the first in order (0,0) (0,1) (1,0) (1,1); a window that
 * holds a NaN gives NaN. */
struct kernels_conv {
    int in, out, size;                  /* channels, channels, height = width of the input (even) */
    float slope;                        /* >= 0: backward takes the sign of z from the output */
    const float *d_input;               /* (batch, in, size, size) */
    const float *d_weight;              /* (out, in, 3, 3) */
    const float *d_bias;                /* (out) */
    float *d_output;                    /* (batch, out, size, size), after act */
    float *d_pooled;                    /* (batch, out, size/2, size/2) */
    uint8_t *d_choice;                  /* like d_pooled: which of the four was taken, 0..3 */
    const float *d_grad_pooled;         /* backward: like d_pooled */
    float *d_grad_weight, *d_grad_bias; /* backward: overwritten */
    float *d_grad_input;                /* backward: like d_input; NULL: not wanted */
};

/* output = act(input * weight^T + bias); `act` false: identity. */
struct kernels_linear {
    int in, out;
    bool act;
    float slope;
    const float *d_input;  /* (batch, in) */
    const float *d_weight; /* (out, in) */
    const float *d_bias;   /* (out) */
    float *d_output;       /* (batch, out), after act */
    float *d_grad_output;  /* backward: gradient at d_output; becomes the one before act */
    float *d_grad_weight, *d_grad_bias; /* backward: overwritten */
    float *d_grad_input;                /* backward: (batch, in) */
};

struct kernels_loss { /* softmax cross-entropy, natural log, mean over the batch */
    int classes;
    const float *d_logits;   /* (batch, classes) */
    const uint8_t *d_labels; /* (batch) */
    float *d_losses;         /* (batch) */
    float *d_grad_logits;    /* (batch, classes): (softmax - onehot) / batch */
    double *d_outcome;       /* [0] mean loss, [1] images whose largest logit is their label */
};

/* Proposal: next_momentum = momentum * m + grad; next_param = param - lr * next_momentum. Nothing
 * else is written until commit copies both. torch.optim.SGD without dampening, Nesterov and weight
 * decay. */
struct kernels_sgd {
    int64_t count;
    const float *d_grad;
    float *d_param, *d_momentum;
    float *d_next_param, *d_next_momentum;
};

struct kernels_span {
    const float *d_data;
    int64_t count;
    double range; /* |x| beyond it counts as `over` */
};

struct kernels {
    int version;      /* KERNELS_VERSION */
    const char *name; /* "cpu" */

    /* -1: this machine cannot, in one sentence. */
    int (*open)(struct kernels_device **device, const struct kernels_options *options,
                struct error *error);
    void (*close)(struct kernels_device *device); /* NULL is legal */
    void (*describe)(const struct kernels_device *device, struct kernels_info *info);

    void *(*alloc)(struct kernels_device *device, size_t size_bytes); /* zeroed, aligned to 64 */
    void (*release)(struct kernels_device *device, void *d_memory);
    void (*upload)(struct kernels_device *device, void *d_to, const void *from, size_t size_bytes);
    /* Waits for the operations so far. */
    void (*download)(struct kernels_device *device, void *to, const void *d_from,
                     size_t size_bytes);

    /* Begins a step. True: its operations must be issued (always so on a CPU); false: a captured
     * graph of them is replayed by finish. */
    bool (*begin)(struct kernels_device *device, const struct kernels_step *step);
    void (*gather)(struct kernels_device *device, const struct kernels_gather *args);
    void (*conv_forward)(struct kernels_device *device, const struct kernels_conv *args);
    void (*conv_backward)(struct kernels_device *device, const struct kernels_conv *args);
    void (*linear_forward)(struct kernels_device *device, const struct kernels_linear *args);
    void (*linear_backward)(struct kernels_device *device, const struct kernels_linear *args);
    void (*loss)(struct kernels_device *device, const struct kernels_loss *args);
    void (*sgd)(struct kernels_device *device, const struct kernels_sgd *args);
    /* Asks for `spans` arrays to be measured into stat[0..spans): count, sum_sq, max_abs,
     * bad_index, nan, pos_inf, neg_inf, over; `usual` and `band` are left alone. stat is host
     * memory, filled when finish returns, with what the arrays hold then. Asked for before the
     * operation that writes it, and written by no other one, an array is measured while it is in
     * the caches: ask right after begin. */
    void (*measure)(struct kernels_device *device, const struct kernels_span *span, int spans,
                    struct tensor_stat *stat);
    /* Waits for the operations and measurements so far. */
    void (*finish)(struct kernels_device *device);
    /* Takes the proposal over. */
    void (*commit)(struct kernels_device *device, const struct kernels_sgd *args);
};

/* The backend linked into nantrain. */
const struct kernels *kernels_cpu(void);

/* The one symbol that a backend's shared object exports (`--backend FILE`), with this signature. */
#define KERNELS_SYMBOL "kernels_backend"
typedef const struct kernels *kernels_backend_fn(void);

#ifdef __cplusplus
}
#endif

#endif
