#include "kernels/cpu/device.h"

struct gather {
    const struct kernels_gather *args;
    const int32_t *order; /* of this batch */
};

static void scale_image(float *input, const uint8_t *image, int pixels, enum kernels_scale scale) {
    if (scale == KERNELS_SCALE_NORMALIZE)
        for (int i = 0; i < pixels; i++) input[i] = ((float)image[i] / 255.0f - 0.1307f) / 0.3081f;
    else
        for (int i = 0; i < pixels; i++) input[i] = (float)image[i] / 255.0f;
}

static void gather_images(void *context, int first, int last, int worker) {
    const struct gather *gather = context;
    const struct kernels_gather *args = gather->args;
    (void)worker;
    for (int k = first; k < last; k++) {
        size_t image = (size_t)gather->order[k], pixels = (size_t)args->pixels;
        scale_image(args->d_input + (size_t)k * pixels, args->d_images + image * pixels,
                    args->pixels, args->scale);
        args->d_batch_labels[k] = args->d_labels[image];
    }
}

void gather_run(struct kernels_device *device, const struct kernels_gather *args) {
    struct gather gather = {args, args->d_order + device->step.offset};
    workers_run(device->workers, gather_images, &gather, device->step.batch);
}
