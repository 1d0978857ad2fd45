/* Every operation of the CPU backend against plain loops in double, over sizes with odd tails; what
 * becomes of NaN and Inf; and that neither repetition nor the number of threads changes a bit. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/cpu/workers.h"
#include "tests/help_reference.h"

enum { BATCH_MAX = 64, THREADS_MAX = 3 };
static const int batches[] = {1, 2, 3, 31, 32, 33, 64};
enum { BATCHES = sizeof batches / sizeof *batches };

/* A backend in use; one step of `batch` images has begun. */
struct rig {
    const struct kernels *kernels;
    struct kernels_device *device;
    void *taken[24];
    int takings;
};

static struct rig set_up(int threads, int batch) {
    struct rig rig = {.kernels = kernels_cpu()};
    struct kernels_options options = {threads, BATCH_MAX};
    struct kernels_step step = {1, 0, batch, 0.05f, 0.9f};
    struct error error;
    assert_int_equal(rig.kernels->open(&rig.device, &options, &error), 0);
    assert_true(rig.kernels->begin(rig.device, &step));
    return rig;
}

static void tear_down(struct rig *rig) {
    for (int i = 0; i < rig->takings; i++) rig->kernels->release(rig->device, rig->taken[i]);
    rig->kernels->close(rig->device);
}

static float *put(struct rig *rig, const double *value, int count) {
    float *d_value = reference_upload(rig->kernels, rig->device, value, count);
    assert_true(rig->takings < 24);
    rig->taken[rig->takings++] = d_value;
    return d_value;
}

/* For results, which overwrite what they find. */
static float *put_garbage(struct rig *rig, int count) {
    double *garbage = malloc((size_t)count * sizeof *garbage);
    assert_non_null(garbage);
    for (int i = 0; i < count; i++) garbage[i] = (double)NAN;
    float *d_value = put(rig, garbage, count);
    free(garbage);
    return d_value;
}

static void *take(struct rig *rig, size_t size_bytes) {
    assert_true(rig->takings < 24);
    return rig->taken[rig->takings++] = rig->kernels->alloc(rig->device, size_bytes);
}

static void check(struct rig *rig, const char *what, const float *d_value, const double *expected,
                  int count, double limit) {
    reference_check(rig->kernels, rig->device, what, d_value, expected, count, limit);
}

static float *fetch(struct rig *rig, const float *d_value, int count) {
    float *value = malloc((size_t)count * sizeof *value);
    assert_non_null(value);
    rig->kernels->download(rig->device, value, d_value, (size_t)count * sizeof *value);
    return value;
}

static void test_memory_is_zeroed_and_aligned(void **state) {
    static const size_t sizes[] = {1, 63, 64, 65, 100000, (3 << 20) + 4};
    struct rig rig = set_up(2, 1);
    struct kernels_info info;
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *memory = take(&rig, sizes[i]);
        assert_true((uintptr_t)memory % 64 == 0);
        for (size_t at = 0; at < sizes[i]; at++) assert_int_equal(memory[at], 0);
    }
    rig.kernels->describe(rig.device, &info);
    assert_string_equal(info.device, "cpu, 2 threads");
    assert_int_equal(strncmp(info.backend, "OpenBLAS ", 9), 0);
    assert_int_equal(info.threads, 2);
    tear_down(&rig);
    rig.kernels->close(NULL);
}

static void count_tasks(void *context, int first, int last, int worker) {
    int *done = context;
    assert_true(worker >= 0 && worker < 5);
    for (int task = first; task < last; task++) done[task]++;
}

static void test_every_task_runs_once(void **state) {
    enum { TASKS_MAX = 13, REPEATS = 300 };
    (void)state;
    for (int threads = 1; threads <= 5; threads++) {
        struct error error;
        struct workers *workers = workers_open(threads, &error);
        assert_non_null(workers);
        for (int repeat = 0; repeat < REPEATS; repeat++) {
            int done[TASKS_MAX] = {0}, tasks = repeat % (TASKS_MAX + 1);
            workers_run(workers, count_tasks, done, tasks);
            for (int task = 0; task < TASKS_MAX; task++) assert_int_equal(done[task], task < tasks);
        }
        workers_close(workers);
    }
    workers_close(NULL);
}

static void check_gather(int threads, int batch, enum kernels_scale scale) {
    enum { IMAGES = 70, PIXELS = 19, OFFSET = 5 };
    struct rig rig = set_up(threads, batch);
    struct kernels_step step = {1, OFFSET, batch, 0, 0};
    uint8_t images[IMAGES * PIXELS], labels[IMAGES], batch_labels[BATCH_MAX];
    int32_t order[IMAGES];
    for (int i = 0; i < IMAGES * PIXELS; i++) images[i] = (uint8_t)(i * 7);
    for (int i = 0; i < IMAGES; i++) {
        labels[i] = (uint8_t)(i % 10);
        order[i] = i * 29 % IMAGES;
    }
    struct kernels_gather args = {take(&rig, sizeof images),
                                  take(&rig, sizeof labels),
                                  take(&rig, sizeof order),
                                  PIXELS,
                                  scale,
                                  put(&rig, NULL, batch * PIXELS),
                                  take(&rig, BATCH_MAX)};
    rig.kernels->upload(rig.device, (void *)args.d_images, images, sizeof images);
    rig.kernels->upload(rig.device, (void *)args.d_labels, labels, sizeof labels);
    rig.kernels->upload(rig.device, (void *)args.d_order, order, sizeof order);
    rig.kernels->begin(rig.device, &step);
    rig.kernels->gather(rig.device, &args);
    float *input = fetch(&rig, args.d_input, batch * PIXELS);
    rig.kernels->download(rig.device, batch_labels, args.d_batch_labels, BATCH_MAX);
    for (int k = 0; k < batch; k++) {
        int image = order[OFFSET + k];
        assert_int_equal(batch_labels[k], labels[image]);
        for (int i = 0; i < PIXELS; i++) {
            volatile float value = (float)images[image * PIXELS + i] / 255.0f;
            if (scale == KERNELS_SCALE_NORMALIZE) {
                value = value - 0.1307f;
                value = value / 0.3081f;
            }
            assert_true(input[k * PIXELS + i] == value);
        }
    }
    free(input);
    tear_down(&rig);
}

static void test_gather(void **state) {
    (void)state;
    for (int i = 0; i < BATCHES; i++) {
        check_gather(1 + i % THREADS_MAX, batches[i], KERNELS_SCALE_255);
        check_gather(1 + i % THREADS_MAX, batches[i], KERNELS_SCALE_NORMALIZE);
    }
}

static struct kernels_conv put_conv(struct rig *rig, const struct reference_conv *conv,
                                    bool grad_input) {
    int inputs = conv->batch * conv->in * conv->size * conv->size;
    int outputs = conv->batch * conv->out * conv->size * conv->size;
    int weights = conv->out * conv->in * 9;
    return (struct kernels_conv){.in = conv->in,
                                 .out = conv->out,
                                 .size = conv->size,
                                 .slope = (float)conv->slope,
                                 .d_input = put(rig, conv->input, inputs),
                                 .d_weight = put(rig, conv->weight, weights),
                                 .d_bias = put(rig, conv->bias, conv->out),
                                 .d_output = put_garbage(rig, outputs),
                                 .d_pooled = put_garbage(rig, outputs / 4),
                                 .d_choice = take(rig, (size_t)outputs / 4),
                                 .d_grad_pooled = put(rig, conv->grad_pooled, outputs / 4),
                                 .d_grad_weight = put_garbage(rig, weights),
                                 .d_grad_bias = put_garbage(rig, conv->out),
                                 .d_grad_input = grad_input ? put_garbage(rig, inputs) : NULL};
}

/* The backend's choices are right for its own outputs; the reference takes them over, so that
 * rounding in a near tie does not send the gradient another way. */
static void adopt_choices(struct rig *rig, struct reference_conv *conv,
                          const struct kernels_conv *args) {
    int size = conv->size, half = size / 2, planes = conv->batch * conv->out;
    float *output = fetch(rig, args->d_output, planes * size * size);
    float *pooled = fetch(rig, args->d_pooled, planes * half * half);
    uint8_t *choice = malloc((size_t)(planes * half * half));
    assert_non_null(choice);
    rig->kernels->download(rig->device, choice, args->d_choice, (size_t)(planes * half * half));
    for (int w = 0; w < planes * half * half; w++) {
        const float *corner = output + w / (half * half) * size * size +
                              w % (half * half) / half * 2 * size + w % half * 2;
        assert_in_range(choice[w], 0, 3);
        float chosen = corner[choice[w] / 2 * size + choice[w] % 2];
        assert_true(chosen == pooled[w]);
        for (int j = 0; j < 4; j++)
            assert_true(j < choice[w] ? corner[j / 2 * size + j % 2] < chosen
                                      : corner[j / 2 * size + j % 2] <= chosen);
        conv->choice[w] = choice[w];
        conv->pooled[w] = (double)pooled[w];
    }
    free(choice);
    free(pooled);
    free(output);
}

static void fill_conv(struct reference_conv *conv) {
    int outputs = conv->batch * conv->out * conv->size * conv->size;
    reference_conv_init(conv);
    reference_fill(conv->input, conv->batch * conv->in * conv->size * conv->size, 1, 1);
    reference_fill(conv->weight, conv->out * conv->in * 9, 2, 0.3);
    reference_fill(conv->bias, conv->out, 3, 0.3);
    reference_fill(conv->grad_pooled, outputs / 4, 4, 1);
}

static void check_conv(int threads, struct reference_conv shape, bool grad_input) {
    struct rig rig = set_up(threads, shape.batch);
    struct reference_conv *conv = &shape;
    int inputs = conv->batch * conv->in * conv->size * conv->size;
    int outputs = conv->batch * conv->out * conv->size * conv->size;
    fill_conv(conv);
    struct kernels_conv args = put_conv(&rig, conv, grad_input);
    rig.kernels->conv_forward(rig.device, &args);
    reference_conv_forward(conv);
    check(&rig, "output", args.d_output, conv->output, outputs, 1e-6);
    check(&rig, "pooled", args.d_pooled, conv->pooled, outputs / 4, 1e-6);
    adopt_choices(&rig, conv, &args);
    rig.kernels->conv_backward(rig.device, &args);
    reference_conv_backward(conv);
    check(&rig, "grad weight", args.d_grad_weight, conv->grad_weight, conv->out * conv->in * 9,
          1e-5);
    check(&rig, "grad bias", args.d_grad_bias, conv->grad_bias, conv->out, 1e-5);
    if (grad_input) check(&rig, "grad input", args.d_grad_input, conv->grad_input, inputs, 1e-5);
    tear_down(&rig);
    reference_conv_free(conv);
}

static void test_conv_batches(void **state) {
    (void)state;
    for (int i = 0; i < BATCHES; i++) {
        struct reference_conv wide = {
            .batch = batches[i], .in = 5, .out = 7, .size = 6, .slope = 0.01};
        struct reference_conv thin = {
            .batch = batches[i], .in = 1, .out = 3, .size = 8, .slope = 0};
        check_conv(1 + i % THREADS_MAX, wide, true);
        check_conv(1 + i % THREADS_MAX, thin, false);
    }
}

static void test_conv_shapes(void **state) {
    static const int channels[][2] = {{1, 1}, {2, 33}, {15, 2}, {16, 16}, {17, 31}, {33, 65}};
    static const int sizes[] = {2, 4, 14, 16};
    (void)state;
    for (int c = 0; c < 6; c++)
        for (int s = 0; s < 4; s++) {
            struct reference_conv shape = {
                .batch = 2, .in = channels[c][0], .out = channels[c][1], .size = sizes[s]};
            check_conv(1 + s % THREADS_MAX, shape, s % 2 == 0);
        }
}

/* The layers of SimpleCNN. */
static void test_conv_of_the_model(void **state) {
    (void)state;
    check_conv(2,
               (struct reference_conv){.batch = 5, .in = 1, .out = 32, .size = 28, .slope = 0.01},
               false);
    check_conv(2,
               (struct reference_conv){.batch = 5, .in = 32, .out = 64, .size = 14, .slope = 0.01},
               true);
}

/* Forward with one bad input: the reference, which multiplies and pools in the order of the
 * definition, says where it shows. */
static void check_conv_bad(int in, double slope, double bad) {
    struct reference_conv conv = {.batch = 3, .in = in, .out = 20, .size = 10, .slope = slope};
    struct rig rig = set_up(2, conv.batch);
    int plane = conv.size * conv.size;
    fill_conv(&conv);
    conv.input[(conv.in + in - 1) * plane + 55] = bad; /* last channel of image 1 */
    conv.input[2 * conv.in * plane] = bad;             /* a corner of image 2 */
    struct kernels_conv args = put_conv(&rig, &conv, true);
    rig.kernels->conv_forward(rig.device, &args);
    reference_conv_forward(&conv);
    check(&rig, "output", args.d_output, conv.output, conv.batch * conv.out * plane, 1e-6);
    check(&rig, "pooled", args.d_pooled, conv.pooled, conv.batch * conv.out * plane / 4, 1e-6);
    tear_down(&rig);
    reference_conv_free(&conv);
}

static void test_conv_hides_nothing(void **state) {
    static const double bad[] = {(double)NAN, (double)INFINITY, -(double)INFINITY};
    (void)state;
    for (int b = 0; b < 3; b++)
        for (int in = 1; in <= 18; in += 17) {
            check_conv_bad(in, 0, bad[b]);
            check_conv_bad(in, 0.01, bad[b]);
        }
}

/* A NaN gradient reaches the weights, the bias and the inputs under the chosen output, and no other
 * channel. */
static void test_conv_backward_hides_nothing(void **state) {
    enum { OUT = 6, IN = 18, SIZE = 4, BAD = 4 };
    struct reference_conv conv = {.batch = 2, .in = IN, .out = OUT, .size = SIZE, .slope = 0};
    struct rig rig = set_up(2, conv.batch);
    (void)state;
    fill_conv(&conv);
    conv.grad_pooled[(OUT + BAD) * SIZE * SIZE / 4] = (double)NAN; /* image 1 */
    struct kernels_conv args = put_conv(&rig, &conv, true);
    rig.kernels->conv_forward(rig.device, &args);
    rig.kernels->conv_backward(rig.device, &args);
    float *bias = fetch(&rig, args.d_grad_bias, OUT),
          *weight = fetch(&rig, args.d_grad_weight, OUT * IN * 9);
    float *input = fetch(&rig, args.d_grad_input, 2 * IN * SIZE * SIZE);
    int bad = 0;
    for (int o = 0; o < OUT; o++) {
        assert_int_equal(isnan(bias[o]) != 0, o == BAD);
        for (int i = 0; i < IN * 9; i++)
            assert_true(o == BAD ? i % 9 != 4 || isnan(weight[o * IN * 9 + i])
                                 : isfinite(weight[o * IN * 9 + i]));
    }
    for (int i = 0; i < 2 * IN * SIZE * SIZE; i++) {
        assert_true(i >= IN * SIZE * SIZE || isfinite(input[i]));
        bad += isnan(input[i]) != 0;
    }
    assert_true(bad >= 4 * IN && bad <= 9 * IN);
    free(input);
    free(weight);
    free(bias);
    tear_down(&rig);
    reference_conv_free(&conv);
}

static void check_linear(int threads, struct reference_linear shape) {
    struct rig rig = set_up(threads, shape.batch);
    struct reference_linear *linear = &shape;
    int inputs = linear->batch * linear->in, outputs = linear->batch * linear->out;
    int weights = linear->in * linear->out;
    reference_linear_init(linear);
    reference_fill(linear->input, inputs, 5, 1);
    reference_fill(linear->weight, weights, 6, 0.3);
    reference_fill(linear->bias, linear->out, 7, 0.3);
    reference_fill(linear->grad_output, outputs, 8, 1);
    struct kernels_linear args = {linear->in,
                                  linear->out,
                                  linear->act,
                                  (float)linear->slope,
                                  put(&rig, linear->input, inputs),
                                  put(&rig, linear->weight, weights),
                                  put(&rig, linear->bias, linear->out),
                                  put_garbage(&rig, outputs),
                                  put(&rig, linear->grad_output, outputs),
                                  put_garbage(&rig, weights),
                                  put_garbage(&rig, linear->out),
                                  put_garbage(&rig, inputs)};
    rig.kernels->linear_forward(rig.device, &args);
    reference_linear_forward(linear);
    check(&rig, "output", args.d_output, linear->output, outputs, 2e-6);
    rig.kernels->linear_backward(rig.device, &args);
    reference_linear_backward(linear);
    check(&rig, "grad before act", args.d_grad_output, linear->grad_output, outputs, 1e-6);
    check(&rig, "grad weight", args.d_grad_weight, linear->grad_weight, weights, 1e-5);
    check(&rig, "grad bias", args.d_grad_bias, linear->grad_bias, linear->out, 1e-5);
    check(&rig, "grad input", args.d_grad_input, linear->grad_input, inputs, 1e-5);
    tear_down(&rig);
    reference_linear_free(linear);
}

static void test_linear(void **state) {
    static const int widths[] = {1, 3, 128, 223, 224, 225, 500};
    static const int outs[] = {1, 10, 33, 128};
    (void)state;
    for (int i = 0; i < BATCHES; i++)
        for (int o = 0; o < 4; o++)
            check_linear(1 + (i + o) % THREADS_MAX, (struct reference_linear){.batch = batches[i],
                                                                              .in = widths[i],
                                                                              .out = outs[o],
                                                                              .act = o % 2 == 0,
                                                                              .slope = 0.01});
    check_linear(2, (struct reference_linear){.batch = 64, .in = 3136, .out = 128, .act = true});
}

/* One bad weight shows in its column for every image, one bad input in its row. */
static void test_linear_hides_nothing(void **state) {
    enum { BATCH = 5, IN = 300, OUT = 12 };
    static const double bad[] = {(double)NAN, (double)INFINITY, -(double)INFINITY};
    (void)state;
    for (int b = 0; b < 3; b++) {
        struct reference_linear linear = {.batch = BATCH, .in = IN, .out = OUT, .act = b < 2};
        struct rig rig = set_up(2, BATCH);
        reference_linear_init(&linear);
        reference_fill(linear.input, BATCH * IN, 5, 1);
        reference_fill(linear.weight, OUT * IN, 6, 0.3);
        linear.input[2 * IN + 17] = bad[b];
        linear.weight[7 * IN + 299] = bad[b];
        struct kernels_linear args = {.in = IN,
                                      .out = OUT,
                                      .act = linear.act,
                                      .d_input = put(&rig, linear.input, BATCH * IN),
                                      .d_weight = put(&rig, linear.weight, OUT * IN),
                                      .d_bias = put(&rig, linear.bias, OUT),
                                      .d_output = put_garbage(&rig, BATCH * OUT)};
        rig.kernels->linear_forward(rig.device, &args);
        reference_linear_forward(&linear);
        check(&rig, "output", args.d_output, linear.output, BATCH * OUT, 2e-6);
        tear_down(&rig);
        reference_linear_free(&linear);
    }
}

enum { CLASSES = 10 };

struct loss_result {
    double outcome[2];
    float loss[BATCH_MAX], grad[BATCH_MAX * CLASSES];
};

static struct loss_result run_loss(const double *logits, const uint8_t *labels, int batch) {
    struct loss_result result;
    struct rig rig = set_up(2, batch);
    struct kernels_loss args = {CLASSES,
                                put(&rig, logits, batch * CLASSES),
                                take(&rig, BATCH_MAX),
                                put_garbage(&rig, batch),
                                put_garbage(&rig, batch * CLASSES),
                                take(&rig, 2 * sizeof(double))};
    rig.kernels->upload(rig.device, (void *)args.d_labels, labels, (size_t)batch);
    rig.kernels->loss(rig.device, &args);
    rig.kernels->download(rig.device, result.outcome, args.d_outcome, sizeof result.outcome);
    rig.kernels->download(rig.device, result.loss, args.d_losses, (size_t)batch * sizeof(float));
    rig.kernels->download(rig.device, result.grad, args.d_grad_logits,
                          (size_t)(batch * CLASSES) * sizeof(float));
    tear_down(&rig);
    return result;
}

static void test_loss(void **state) {
    double logits[BATCH_MAX * CLASSES];
    uint8_t labels[BATCH_MAX];
    (void)state;
    reference_fill(logits, BATCH_MAX * CLASSES, 11, 30);
    for (int k = 0; k < BATCH_MAX; k++) labels[k] = (uint8_t)(k * 7 % CLASSES);
    for (int i = 0; i < BATCHES; i++) {
        int batch = batches[i], right = 0;
        struct loss_result result = run_loss(logits, labels, batch);
        for (int k = 0; k < batch; k++) {
            const double *logit = logits + k * CLASSES;
            double loss = reference_loss(logit, labels + k, 1, CLASSES);
            int largest = 0;
            assert_true(fabs((double)result.loss[k] - loss) <= 1e-6 * fmax(loss, 1e-3));
            for (int c = 0; c < CLASSES; c++) {
                uint8_t other = (uint8_t)c;
                double softmax = exp(-reference_loss(logit, &other, 1, CLASSES));
                double grad = (softmax - (c == labels[k])) / batch;
                assert_true(fabs((double)result.grad[k * CLASSES + c] - grad) <= 1e-6 / batch);
                largest = logit[c] > logit[largest] ? c : largest;
            }
            right += largest == labels[k];
        }
        assert_true(fabs(result.outcome[0] - reference_loss(logits, labels, batch, CLASSES)) <=
                    1e-5);
        assert_true(result.outcome[1] == right);
    }
}

static void test_loss_of_extreme_logits(void **state) {
    double logits[2 * CLASSES] = {0};
    uint8_t labels[2] = {1, 0};
    (void)state;
    logits[0] =
        (double)FLT_MAX; /* row 0: the label is -FLT_MAX below another one; row 1: all equal */
    struct loss_result result = run_loss(logits, labels, 2);
    assert_true(result.loss[0] == FLT_MAX);
    assert_true(result.grad[0] == 0.5f && result.grad[1] == -0.5f && result.grad[2] == 0);
    assert_true(fabs((double)result.loss[1] - log(CLASSES)) < 1e-6);
    assert_true(result.outcome[1] == 1); /* the first of equals */
    labels[1] = 4;
    assert_true(run_loss(logits, labels, 2).outcome[1] == 0); /* a later one is not the largest */
}

static void test_loss_hides_nothing(void **state) {
    static const double bad[] = {(double)NAN, (double)INFINITY};
    (void)state;
    for (int b = 0; b < 2; b++)
        for (int at = 0; at < CLASSES; at++)
            for (int label = 0; label < CLASSES; label++) {
                double logits[2 * CLASSES];
                uint8_t labels[2] = {(uint8_t)label, (uint8_t)label};
                reference_fill(logits, 2 * CLASSES, 12, 3);
                logits[CLASSES + at] = bad[b];
                struct loss_result result = run_loss(logits, labels, 2);
                assert_true(isfinite(result.loss[0]) && isnan(result.loss[1]));
                assert_true(isnan(result.outcome[0]));
                for (int c = 0; c < CLASSES; c++)
                    assert_true(isfinite(result.grad[c]) && isnan(result.grad[CLASSES + c]));
                assert_true(result.outcome[1] <= 1 + (b == 1));
            }
}

/* The label at -Inf is an infinite loss, another class there has probability 0: neither is a wrong
 * number. */
static void test_loss_of_minus_infinity(void **state) {
    double logits[2 * CLASSES] = {0};
    uint8_t labels[2] = {3, 4};
    (void)state;
    logits[3] = logits[CLASSES + 3] = -(double)INFINITY;
    struct loss_result result = run_loss(logits, labels, 2);
    assert_true(result.loss[0] == INFINITY && result.outcome[0] == (double)INFINITY);
    assert_true(fabs((double)result.loss[1] - log(CLASSES - 1)) < 1e-6);
    for (int c = 0; c < CLASSES; c++) logits[c] = -(double)INFINITY;
    assert_true(isnan(run_loss(logits, labels, 2).loss[0]));
}

static void check_sgd(int threads, int count) {
    struct rig rig = set_up(threads, 1);
    double *value = malloc(3 * (size_t)count * sizeof *value);
    assert_non_null(value);
    reference_fill(value, 3 * count, 13, 1);
    value[count / 2] = (double)NAN;
    struct kernels_sgd args = {count,
                               put(&rig, value, count),
                               put(&rig, value + count, count),
                               put(&rig, value + 2 * count, count),
                               put_garbage(&rig, count),
                               put_garbage(&rig, count)};
    rig.kernels->sgd(rig.device, &args);
    check(&rig, "param before commit", args.d_param, value + count, count, 0);
    check(&rig, "momentum before commit", args.d_momentum, value + 2 * count, count, 0);
    for (int i = 0; i < count; i++) {
        volatile float product = 0.9f * (float)value[2 * count + i];
        volatile float momentum = product + (float)value[i];
        product = 0.05f * momentum;
        value[2 * count + i] = (double)momentum;
        volatile float param = (float)value[count + i] - product;
        value[count + i] = (double)param;
    }
    check(&rig, "next param", args.d_next_param, value + count, count, 0);
    check(&rig, "next momentum", args.d_next_momentum, value + 2 * count, count, 0);
    rig.kernels->commit(rig.device, &args);
    check(&rig, "param", args.d_param, value + count, count, 0);
    check(&rig, "momentum", args.d_momentum, value + 2 * count, count, 0);
    free(value);
    tear_down(&rig);
}

static void test_sgd(void **state) {
    static const int counts[] = {1, 15, 17, 4095, 4096, 4097, 50001};
    (void)state;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        check_sgd(1 + (int)i % THREADS_MAX, counts[i]);
}

/* As measure.c documents it: this is what another backend must reproduce. */
static double fold(double *sum) {
    for (int half = 32; half > 0; half /= 2)
        for (int i = 0; i < half; i++) sum[i] += sum[i + half];
    return sum[0];
}

static struct tensor_stat measure_plainly(const float *value, int64_t count, double range) {
    struct tensor_stat stat = {.count = count, .max_abs = (double)NAN, .bad_index = -1};
    double total[64] = {0};
    for (int64_t begin = 0; begin < count; begin += 4096) {
        double sum[64] = {0};
        for (int64_t i = begin; i < count && i < begin + 4096; i++)
            sum[(i - begin) % 64] += (double)value[i] * (double)value[i];
        total[begin / 4096 % 64] += fold(sum);
    }
    stat.sum_sq = fold(total);
    for (int64_t i = 0; i < count; i++) {
        double magnitude = fabs((double)value[i]);
        if (isfinite(magnitude)) {
            stat.max_abs =
                isnan(stat.max_abs) || magnitude > stat.max_abs ? magnitude : stat.max_abs;
            stat.over += magnitude > range;
            continue;
        }
        stat.bad_index = stat.bad_index < 0 ? i : stat.bad_index;
        stat.nan += isnan(magnitude) != 0;
        stat.pos_inf += value[i] == INFINITY;
        stat.neg_inf += value[i] == -INFINITY;
    }
    return stat;
}

static bool same_bits(double left, double right) {
    return (isnan(left) && isnan(right)) || memcmp(&left, &right, sizeof left) == 0;
}

static void assert_same_stat(const struct tensor_stat *stat, const struct tensor_stat *expected) {
    assert_true(stat->count == expected->count);
    assert_true(same_bits(stat->sum_sq, expected->sum_sq));
    assert_true(same_bits(stat->max_abs, expected->max_abs));
    assert_true(stat->bad_index == expected->bad_index);
    assert_true(stat->nan == expected->nan && stat->pos_inf == expected->pos_inf);
    assert_true(stat->neg_inf == expected->neg_inf && stat->over == expected->over);
    assert_true(stat->usual == 42 && stat->band == BAND_EXTREME); /* left alone */
}

/* One array, by every number of threads. */
static void check_measure(const float *value, int64_t count, double range) {
    struct tensor_stat expected = measure_plainly(value, count, range);
    for (int threads = 1; threads <= THREADS_MAX; threads++) {
        struct rig rig = set_up(threads, 1);
        struct tensor_stat stat = {.usual = 42, .band = BAND_EXTREME};
        struct kernels_span span = {take(&rig, (size_t)count * sizeof *value), count, range};
        rig.kernels->upload(rig.device, (void *)span.d_data, value, (size_t)count * sizeof *value);
        rig.kernels->measure(rig.device, &span, 1, &stat);
        rig.kernels->finish(rig.device);
        assert_same_stat(&stat, &expected);
        tear_down(&rig);
    }
}

static float *random_floats(int64_t count) {
    double *value = malloc((size_t)(count + 1) * sizeof *value);
    float *floats = malloc((size_t)(count + 1) * sizeof *floats);
    assert_true(value != NULL && floats != NULL);
    reference_fill(value, (int)count, 14, 3);
    for (int64_t i = 0; i < count; i++) floats[i] = (float)value[i];
    free(value);
    return floats;
}

static void test_measure_sizes(void **state) {
    static const int64_t counts[] = {0,    1,    15,   16,   17,    63,     64,    65,
                                     4095, 4096, 4097, 8192, 12345, 401408, 300001};
    (void)state;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        float *value = random_floats(counts[i]);
        check_measure(value, counts[i], 1e4);
        check_measure(value, counts[i], 2.5); /* a sixth is over */
        free(value);
    }
}

static void test_measure_finds_bad_values(void **state) {
    enum { COUNT = 9000 };
    static const int places[] = {0, 1, 63, 64, 4095, 4096, 8191, 8192, 8999};
    static const float bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    (void)state;
    for (int b = 0; b < 4; b++)
        for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
            float *value = random_floats(COUNT);
            value[places[p]] = bad[b];
            check_measure(value, COUNT, 2.9);
            value[8999] = INFINITY;
            value[5000] = -INFINITY;
            check_measure(value, COUNT, 2.9);
            free(value);
        }
}

static void test_measure_extremes(void **state) {
    static const float values[][4] = {{0, -0.0f, 0, -0.0f},
                                      {FLT_TRUE_MIN, -FLT_TRUE_MIN, FLT_MIN / 2, 0},
                                      {FLT_MAX, -FLT_MAX, 1, 0},
                                      {NAN, NAN, NAN, NAN},
                                      {INFINITY, -INFINITY, INFINITY, NAN},
                                      {-1e4f, 1e4f, 10000.001f, -10001.0f}};
    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        for (int count = 0; count <= 4; count++) {
            check_measure(values[i], count, 1e4);
            check_measure(values[i], count, (double)INFINITY);
        }
}

/* Several arrays in one call, the empty one among them. */
static void test_measure_many(void **state) {
    static const int64_t counts[] = {10, 0, 5000, 4096, 1, 70000};
    enum { SPANS = 6 };
    struct rig rig = set_up(2, 1);
    struct kernels_span span[SPANS];
    struct tensor_stat stat[SPANS];
    float *value = random_floats(70000);
    (void)state;
    value[4999] = NAN;
    for (int i = 0; i < SPANS; i++) {
        span[i] = (struct kernels_span){take(&rig, 280000), counts[i], 2.9};
        stat[i] = (struct tensor_stat){.usual = 42, .band = BAND_EXTREME};
        rig.kernels->upload(rig.device, (void *)span[i].d_data, value, 280000);
    }
    rig.kernels->measure(rig.device, span, SPANS, stat);
    rig.kernels->finish(rig.device);
    for (int i = 0; i < SPANS; i++) {
        struct tensor_stat expected = measure_plainly(value, counts[i], 2.9);
        assert_same_stat(&stat[i], &expected);
    }
    free(value);
    tear_down(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_is_zeroed_and_aligned),
        cmocka_unit_test(test_every_task_runs_once),
        cmocka_unit_test(test_gather),
        cmocka_unit_test(test_conv_batches),
        cmocka_unit_test(test_conv_shapes),
        cmocka_unit_test(test_conv_of_the_model),
        cmocka_unit_test(test_conv_hides_nothing),
        cmocka_unit_test(test_conv_backward_hides_nothing),
        cmocka_unit_test(test_linear),
        cmocka_unit_test(test_linear_hides_nothing),
        cmocka_unit_test(test_loss),
        cmocka_unit_test(test_loss_of_extreme_logits),
        cmocka_unit_test(test_loss_hides_nothing),
        cmocka_unit_test(test_loss_of_minus_infinity),
        cmocka_unit_test(test_sgd),
        cmocka_unit_test(test_measure_sizes),
        cmocka_unit_test(test_measure_finds_bad_values),
        cmocka_unit_test(test_measure_extremes),
        cmocka_unit_test(test_measure_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
