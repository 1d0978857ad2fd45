#include "kernels/cpu/device.h"

#include <string.h>

/* A task is BLOCK parameters; the five arrays of HOT tasks fit into the second cache. */
enum { BLOCK = 4096, HOT = 8 };

struct sgd {
    const struct kernels_sgd *args;
    struct measure *measure;
    float lr, momentum;
};

static int blocks(const struct kernels_sgd *args) {
    return (int)((args->count + BLOCK - 1) / BLOCK);
}

static int64_t block_end(const struct kernels_sgd *args, int block) {
    int64_t end = (int64_t)block * BLOCK;
    return end < args->count ? end : args->count;
}

static void propose_range(const struct sgd *sgd, int64_t begin, int64_t end) {
    const struct kernels_sgd *args = sgd->args;
    const float *restrict grad = args->d_grad, *restrict param = args->d_param,
                          *restrict velocity = args->d_momentum;
    float *restrict next_param = args->d_next_param, *restrict next = args->d_next_momentum;
    const float lr = sgd->lr, momentum = sgd->momentum;
    for (int64_t i = begin; i < end; i++) {
        float m = momentum * velocity[i] + grad[i];
        next[i] = m;
        next_param[i] = param[i] - lr * m;
    }
}

static void propose(void *context, int first, int last, int worker) {
    const struct sgd *sgd = context;
    const struct kernels_sgd *args = sgd->args;
    const int64_t begin = (int64_t)first * BLOCK;
    (void)worker;
    for (int block = first; block < last; block += HOT) {
        int64_t end = block_end(args, block + HOT < last ? block + HOT : last);
        propose_range(sgd, (int64_t)block * BLOCK, end);
        measure_ready(sgd->measure, args->d_grad + begin, args->d_grad + end);
        measure_ready(sgd->measure, args->d_next_momentum + begin, args->d_next_momentum + end);
        measure_ready(sgd->measure, args->d_next_param + begin, args->d_next_param + end);
    }
}

static void commit(void *context, int first, int last, int worker) {
    const struct kernels_sgd *args = context;
    int64_t begin = (int64_t)first * BLOCK;
    size_t size_bytes = (size_t)(block_end(args, last) - begin) * sizeof(float);
    (void)worker;
    memcpy(args->d_param + begin, args->d_next_param + begin, size_bytes);
    memcpy(args->d_momentum + begin, args->d_next_momentum + begin, size_bytes);
}

void sgd_propose(struct kernels_device *device, const struct kernels_sgd *args) {
    struct sgd sgd = {args, device->measure, device->step.lr, device->step.momentum};
    workers_run(device->workers, propose, &sgd, blocks(args));
}

void sgd_commit(struct kernels_device *device, const struct kernels_sgd *args) {
    workers_run(device->workers, commit, (void *)args, blocks(args));
}
