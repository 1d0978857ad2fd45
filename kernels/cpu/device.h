/* What every operation of the CPU backend gets: the step, the workers, scratch memory; and the
 * operations themselves.
 *
 * An operation is cut into tasks that do not depend on the number of threads, and sums over tasks
 * are added in the order of the tasks: any number of threads gives the same bits. */
#ifndef KERNELS_CPU_DEVICE_H
#define KERNELS_CPU_DEVICE_H

#include "kernels/cpu/measure.h"
#include "kernels/cpu/workers.h"
#include "kernels/kernels.h"

struct kernels_device {
    int threads, batch_max;
    struct workers *workers;
    struct measure *measure;
    struct kernels_step step; /* the one going on */
    void *scratch;            /* of the operation going on */
    size_t scratch_bytes;
};

/* At least `size_bytes` of undefined content, aligned to 64, until the next call. Grows in the
 * first step only. */
void *device_scratch(struct kernels_device *device, size_t size_bytes);

void gather_run(struct kernels_device *device, const struct kernels_gather *args);
void conv_forward(struct kernels_device *device, const struct kernels_conv *args);
void conv_backward(struct kernels_device *device, const struct kernels_conv *args);
void linear_forward(struct kernels_device *device, const struct kernels_linear *args);
void linear_backward(struct kernels_device *device, const struct kernels_linear *args);
void loss_run(struct kernels_device *device, const struct kernels_loss *args);
void sgd_propose(struct kernels_device *device, const struct kernels_sgd *args);
void sgd_commit(struct kernels_device *device, const struct kernels_sgd *args);

#endif
