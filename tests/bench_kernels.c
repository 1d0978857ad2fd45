/* bench_kernels [THREADS]: images/s and GFLOP/s of every operation and of the whole step at batch 64, without and with the
 * statistics of all tensors. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/help_golden.h"

enum { REPEATS = 60 };

struct operation {
    const char *name;
    void (*run)(struct golden_model *model);
    double mflop; /* of one image, counting every product that a dense evaluation has */
};

static void run_gather(struct golden_model *m) { m->kernels->gather(m->device, &m->gather); }
static void run_conv1(struct golden_model *m) { m->kernels->conv_forward(m->device, &m->conv[0]); }
static void run_conv2(struct golden_model *m) { m->kernels->conv_forward(m->device, &m->conv[1]); }
static void run_fc1(struct golden_model *m) { m->kernels->linear_forward(m->device, &m->linear[0]); }
static void run_fc2(struct golden_model *m) { m->kernels->linear_forward(m->device, &m->linear[1]); }
static void run_loss(struct golden_model *m) { m->kernels->loss(m->device, &m->loss); }
static void back_fc2(struct golden_model *m) { m->kernels->linear_backward(m->device, &m->linear[1]); }
static void back_fc1(struct golden_model *m) { m->kernels->linear_backward(m->device, &m->linear[0]); }
static void back_conv2(struct golden_model *m) { m->kernels->conv_backward(m->device, &m->conv[1]); }
static void back_conv1(struct golden_model *m) { m->kernels->conv_backward(m->device, &m->conv[0]); }
static void run_sgd(struct golden_model *m) { m->kernels->sgd(m->device, &m->sgd); }
static void run_commit(struct golden_model *m) { m->kernels->commit(m->device, &m->sgd); }

/* Activations as long as they are in the caches, the rest when all of it is there. */
static void measure_activations(struct golden_model *m) {
    struct tensor_stat stat[GOLDEN_ACTIVATIONS];
    m->kernels->measure(m->device, m->span, GOLDEN_ACTIVATIONS, stat);
}

static void measure_params(struct golden_model *m) {
    struct tensor_stat stat[3 * GOLDEN_PARAMS];
    m->kernels->measure(m->device, m->span + GOLDEN_ACTIVATIONS, 3 * GOLDEN_PARAMS, stat);
    m->kernels->finish(m->device);
}

static const struct operation operations[] = {
    {"gather", run_gather, 0},
    {"conv1 forward", run_conv1, 0.4516},
    {"conv2 forward", run_conv2, 7.2253},
    {"fc1 forward", run_fc1, 0.8028},
    {"fc2 forward", run_fc2, 0.0026},
    {"loss", run_loss, 0},
    {"measure activations", measure_activations, 0},
    {"fc2 backward", back_fc2, 0.0051},
    {"fc1 backward", back_fc1, 1.6056},
    {"conv2 backward", back_conv2, 14.4507},
    {"conv1 backward", back_conv1, 0.4516},
    {"sgd", run_sgd, 0},
    {"measure the rest", measure_params, 0},
    {"commit", run_commit, 0},
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

static double now_s(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int by_value(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Median and best: on a shared machine they are far apart. */
static void print_line(const char *name, double *time_s, double mflop) {
    qsort(time_s, REPEATS, sizeof *time_s, by_value);
    double median = time_s[REPEATS / 2], best = time_s[0];
    printf("%-18s %8.3f ms %8.0f images/s   best %8.3f ms %8.0f images/s", name, median * 1e3,
           GOLDEN_BATCH / median, best * 1e3, GOLDEN_BATCH / best);
    if (mflop > 0)
        printf(" %6.1f GFLOP/s", mflop * GOLDEN_BATCH / best / 1e3);
    putchar('\n');
}

int main(int argc, char **argv) {
    static double time_s[OPERATIONS + 3][REPEATS];
    double *measure_s = time_s[OPERATIONS], *step_s = time_s[OPERATIONS + 1], mflop = 0;
    double *whole_s = time_s[OPERATIONS + 2];
    struct golden_model model;
    struct kernels_info info;
    golden_open(&model, kernels_cpu(), argc > 1 ? atoi(argv[1]) : 1, &golden_case[0]);
    model.kernels->describe(model.device, &info);
    for (int n = -3; n < REPEATS; n++) { /* some to warm up */
        int r = n < 0 ? 0 : n;
        measure_s[r] = step_s[r] = 0;
        golden_begin(&model, (n + 3) % 5, GOLDEN_BATCH);
        for (int i = 0; i < OPERATIONS; i++) {
            double begun_s = now_s();
            operations[i].run(&model);
            time_s[i][r] = now_s() - begun_s;
            *(strncmp(operations[i].name, "measure", 7) == 0 ? &measure_s[r] : &step_s[r]) +=
                time_s[i][r];
        }
        whole_s[r] = measure_s[r] + step_s[r];
    }
    printf("%s, %s, batch %d, %d steps\n", info.device, info.backend, GOLDEN_BATCH, REPEATS);
    for (int i = 0; i < OPERATIONS; i++) {
        print_line(operations[i].name, time_s[i], operations[i].mflop);
        mflop += operations[i].mflop;
    }
    print_line("measure", measure_s, 0);
    print_line("step", step_s, mflop);
    print_line("step with measure", whole_s, mflop);
    printf("measure: %.1f %% of the step\n", 100 * measure_s[REPEATS / 2] / step_s[REPEATS / 2]);
    golden_close(&model);
    return 0;
}
