#include "kernels/cpu/device.h"

#include <math.h>

/* Nothing here picks between values in a way that could drop a NaN: a NaN or +Inf logit makes the
 * whole row NaN. */
static float loss_of_row(const float *logit, int classes, int label, float *grad, int batch) {
    double largest = (double)logit[0], sum = 0;
    for (int c = 1; c < classes; c++)
        if ((double)logit[c] > largest) largest = (double)logit[c];
    for (int c = 0; c < classes; c++) sum += exp((double)logit[c] - largest);
    for (int c = 0; c < classes; c++) {
        double softmax = exp((double)logit[c] - largest) / sum;
        grad[c] = (float)((softmax - (c == label ? 1 : 0)) / batch);
    }
    return (float)(largest + log(sum) - (double)logit[label]);
}

static bool is_largest(const float *logit, int classes, int label) {
    for (int c = 0; c < classes; c++)
        if (c < label ? !(logit[label] > logit[c]) : !(logit[label] >= logit[c])) return false;
    return true;
}

void loss_run(struct kernels_device *device, const struct kernels_loss *args) {
    int batch = device->step.batch, right = 0;
    double sum = 0;
    for (int k = 0; k < batch; k++) {
        const float *logit = args->d_logits + k * args->classes;
        int label = args->d_labels[k];
        args->d_losses[k] = loss_of_row(logit, args->classes, label,
                                        args->d_grad_logits + k * args->classes, batch);
        sum += (double)args->d_losses[k];
        right += is_largest(logit, args->classes, label);
    }
    args->d_outcome[0] = sum / batch;
    args->d_outcome[1] = right;
}
