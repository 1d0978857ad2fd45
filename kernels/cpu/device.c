#include "kernels/cpu/device.h"

#include <assert.h>
#include <cblas.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/cpu/lanes.h"

enum { ALIGNMENT = 64, HUGE_PAGE = 2 << 20 };

/* Large blocks lie on huge pages where the system gives them: a step walks through 25 MB. */
static void *take(size_t size_bytes) {
    size_t alignment = size_bytes < HUGE_PAGE / 2 ? ALIGNMENT : HUGE_PAGE;
    size_t rounded = (size_bytes + alignment - 1) / alignment * alignment;
    void *memory = aligned_alloc(alignment, rounded > 0 ? rounded : alignment);
    if (memory == NULL) {
        fprintf(stderr, "cpu: no memory for %zu bytes\n", size_bytes);
        abort();
    }
    if (alignment == HUGE_PAGE) madvise(memory, rounded, MADV_HUGEPAGE);
    return memory;
}

void *device_scratch(struct kernels_device *device, size_t size_bytes) {
    if (size_bytes > device->scratch_bytes) {
        free(device->scratch);
        device->scratch = take(size_bytes);
        device->scratch_bytes = size_bytes;
    }
    return device->scratch;
}

static void device_close(struct kernels_device *device) {
    if (device == NULL) return;
    workers_close(device->workers);
    measure_close(device->measure);
    free(device->scratch);
    free(device);
}

/* One per core that this process may use. */
static int default_threads(void) {
    cpu_set_t cores;
    return sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

static int device_open(struct kernels_device **device, const struct kernels_options *options,
                       struct error *error) {
    struct kernels_device *opened = calloc(1, sizeof *opened);
    if (opened == NULL) return error_set(error, "opening the cpu backend: no memory");
    opened->threads = options->threads > 0 ? options->threads : default_threads();
    opened->batch_max = options->batch_max;
    opened->measure = measure_open();
    if (opened->measure == NULL)
        error_set(error, "opening the cpu backend: no memory");
    else
        opened->workers = workers_open(opened->threads, error);
    if (opened->workers == NULL) {
        device_close(opened);
        return -1;
    }
    openblas_set_num_threads(1); /* the tasks are the parallelism */
    *device = opened;
    return 0;
}

static void device_describe(const struct kernels_device *device, struct kernels_info *info) {
    char version[32] = "?";
    sscanf(openblas_get_config(), "OpenBLAS %31s", version);
    snprintf(info->device, sizeof info->device, "cpu, %d thread%s", device->threads,
             device->threads == 1 ? "" : "s");
    snprintf(info->backend, sizeof info->backend, "OpenBLAS %s %s, %d lanes", version,
             openblas_get_corename(), LANES);
    info->threads = device->threads;
}

static void *device_alloc(struct kernels_device *device, size_t size_bytes) {
    (void)device;
    return memset(take(size_bytes), 0, size_bytes);
}

static void device_release(struct kernels_device *device, void *d_memory) {
    (void)device;
    free(d_memory);
}

static void device_upload(struct kernels_device *device, void *d_to, const void *from,
                          size_t size_bytes) {
    (void)device;
    memcpy(d_to, from, size_bytes);
}

static void device_download(struct kernels_device *device, void *to, const void *d_from,
                            size_t size_bytes) {
    (void)device;
    memcpy(to, d_from, size_bytes);
}

static bool device_begin(struct kernels_device *device, const struct kernels_step *step) {
    assert(step->batch > 0 && step->batch <= device->batch_max);
    device->step = *step;
    return true;
}

static void device_measure(struct kernels_device *device, const struct kernels_span *span,
                           int spans, struct tensor_stat *stat) {
    measure_request(device->measure, span, spans, stat);
}

static void device_finish(struct kernels_device *device) {
    measure_finish(device->measure, device->workers);
}

const struct kernels *kernels_cpu(void) {
    static const struct kernels kernels = {
        .version = KERNELS_VERSION,
        .name = "cpu",
        .open = device_open,
        .close = device_close,
        .describe = device_describe,
        .alloc = device_alloc,
        .release = device_release,
        .upload = device_upload,
        .download = device_download,
        .begin = device_begin,
        .gather = gather_run,
        .conv_forward = conv_forward,
        .conv_backward = conv_backward,
        .linear_forward = linear_forward,
        .linear_backward = linear_backward,
        .loss = loss_run,
        .sgd = sgd_propose,
        .measure = device_measure,
        .finish = device_finish,
        .commit = sgd_commit,
    };
    return &kernels;
}
