/* bench_kernels [THREADS]: images/s and GFLOP/s of every operation and of the whole step at batch
 * 64, without and with the statistics of all tensors. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tests/help_golden.h"

enum { REPEATS = 100 };

struct operation {
    const char *name;
    void (*run)(struct golden_model *model);
    double mflop; /* of one image, counting every product that a dense evaluation has */
};

static void run_gather(struct golden_model *m) { m->kernels->gather(m->device, &m->gather); }
static void run_conv1(struct golden_model *m) { m->kernels->conv_forward(m->device, &m->conv[0]); }
static void run_conv2(struct golden_model *m) { m->kernels->conv_forward(m->device, &m->conv[1]); }
static void run_fc1(struct golden_model *m) {
    m->kernels->linear_forward(m->device, &m->linear[0]);
}
static void run_fc2(struct golden_model *m) {
    m->kernels->linear_forward(m->device, &m->linear[1]);
}
static void run_loss(struct golden_model *m) { m->kernels->loss(m->device, &m->loss); }
static void back_fc2(struct golden_model *m) {
    m->kernels->linear_backward(m->device, &m->linear[1]);
}
static void back_fc1(struct golden_model *m) {
    m->kernels->linear_backward(m->device, &m->linear[0]);
}
static void back_conv2(struct golden_model *m) {
    m->kernels->conv_backward(m->device, &m->conv[1]);
}
static void back_conv1(struct golden_model *m) {
    m->kernels->conv_backward(m->device, &m->conv[0]);
}
static void run_sgd(struct golden_model *m) { m->kernels->sgd(m->device, &m->sgd); }
static void finish(struct golden_model *m) { m->kernels->finish(m->device); }
static void run_commit(struct golden_model *m) { m->kernels->commit(m->device, &m->sgd); }

static const struct operation operations[] = {
    {"gather", run_gather, 0},
    {"conv1 forward", run_conv1, 0.4516},
    {"conv2 forward", run_conv2, 7.2253},
    {"fc1 forward", run_fc1, 0.8028},
    {"fc2 forward", run_fc2, 0.0026},
    {"loss", run_loss, 0},
    {"fc2 backward", back_fc2, 0.0051},
    {"fc1 backward", back_fc1, 1.6056},
    {"conv2 backward", back_conv2, 14.4507},
    {"conv1 backward", back_conv1, 0.4516},
    {"sgd", run_sgd, 0},
    {"finish", finish, 0},
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
    if (mflop > 0) printf(" %6.1f GFLOP/s", mflop * GOLDEN_BATCH / best / 1e3);
    putchar('\n');
}

/* Every operation of one step; measuring or not. */
static void time_step(struct golden_model *model, int number, bool measuring, double *spent_s) {
    struct tensor_stat stat[GOLDEN_SPANS];
    golden_begin(model, number, GOLDEN_BATCH);
    double begun_s = now_s(), last_s = begun_s;
    if (measuring) model->kernels->measure(model->device, model->span, GOLDEN_SPANS, stat);
    for (int i = 0; i < OPERATIONS; i++) {
        operations[i].run(model);
        double now = now_s();
        spent_s[i] = now - last_s;
        last_s = now;
    }
    spent_s[OPERATIONS] = last_s - begun_s;
}

int main(int argc, char **argv) {
    static double spent_s[2][OPERATIONS + 1][REPEATS];
    struct golden_model model;
    struct kernels_info info;
    double mflop = 0, ratio[REPEATS];
    golden_open(&model, kernels_cpu(), argc > 1 ? atoi(argv[1]) : 1, &golden_case[0]);
    model.kernels->describe(model.device, &info);
    for (int n = -2; n < 2 * REPEATS; n++) { /* two to warm up */
        double one_s[OPERATIONS + 1];
        time_step(&model, (n + 2) % 5, n & 1, one_s);
        for (int i = 0; n >= 0 && i <= OPERATIONS; i++) spent_s[n & 1][i][n / 2] = one_s[i];
    }
    for (int r = 0; r < REPEATS; r++)
        ratio[r] = spent_s[1][OPERATIONS][r] / spent_s[0][OPERATIONS][r];
    printf("%s, %s, batch %d, %d steps\n", info.device, info.backend, GOLDEN_BATCH, REPEATS);
    for (int i = 0; i < OPERATIONS; i++) {
        print_line(operations[i].name, spent_s[0][i], operations[i].mflop);
        mflop += operations[i].mflop;
    }
    print_line("step", spent_s[0][OPERATIONS], mflop);
    print_line("step, measured", spent_s[1][OPERATIONS], mflop);
    qsort(ratio, REPEATS, sizeof *ratio, by_value);
    printf("measuring costs %.1f %% (budget 5 %%; median of neighbouring steps)\n",
           100 * (ratio[REPEATS / 2] - 1));
    golden_close(&model);
    return 0;
}
