/* Statistics of arrays, in an order that any backend can repeat to the bit:
 *
 * An array is cut into chunks of CHUNK values. Value i of a chunk is squared and added, in double, to sum i % SUMS of the
 * chunk's SUMS, in ascending order of i; a float squared is exact in double, so it does not matter whether the addition is
 * fused. Then the upper half of the sums is added to the lower, 32 to 32, 16 to 16, ..., 1 to 1. Chunk n's sum is added
 * likewise to sum n % SUMS of the array's SUMS, and these are folded the same way. */
#include "kernels/cpu/device.h"

#include <math.h>
#include <string.h>

enum { CHUNK = 4096, SUMS = 64, WIDTH = 8, LINE = 16 };

static const uint32_t INFINITE_BITS = 0x7f800000; /* magnitude of Inf; beyond it lie the NaNs */

/* A task. */
struct chunk {
    const float *data;
    double range;
    struct tensor_stat stat; /* sum_sq, max_abs, counts; bad_index within the chunk */
};

static uint32_t magnitude_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits & 0x7fffffff;
}

static double add_square(double sum, float value) {
#ifdef FP_FAST_FMA
    return fma((double)value, (double)value, sum);
#else
    return sum + (double)value * (double)value;
#endif
}

static double fold(double *sum) {
    for (int half = SUMS / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            sum[i] += sum[i + half];
    return isnan(sum[0]) ? (double)NAN : sum[0]; /* which NaN it is depends on the processor */
}

/* The sum of squares; the magnitude bits of the largest in *largest. The arrays are larger than the caches, and fetching the
 * `next` chunk meanwhile makes this twice as fast. */
static double add_chunk(const float *restrict data, int count, const float *next,
                        uint32_t *largest) {
    double sum[SUMS] = {0};
    uint32_t max[SUMS] = {0};
    int i = 0;
    for (; i + SUMS <= count; i += SUMS) {
        for (int l = 0; l < SUMS; l += LINE)
            __builtin_prefetch(next + i + l);
        for (int j = 0; j < SUMS; j += WIDTH)
            for (int l = j; l < j + WIDTH; l++)
                sum[l] = add_square(sum[l], data[i + l]);
        for (int l = 0; l < SUMS; l++) {
            uint32_t bits = magnitude_bits(data[i + l]);
            max[l] = bits > max[l] ? bits : max[l];
        }
    }
    for (int l = 0; i < count; i++, l++) {
        uint32_t bits = magnitude_bits(data[i]);
        sum[l] = add_square(sum[l], data[i]);
        max[l] = bits > max[l] ? bits : max[l];
    }
    *largest = 0;
    for (int l = 0; l < SUMS; l++)
        *largest = max[l] > *largest ? max[l] : *largest;
    return fold(sum);
}

/* For the few chunks that hold a value that is not finite, or out of range. */
static void count_chunk(struct chunk *chunk) {
    struct tensor_stat *stat = &chunk->stat;
    for (int i = 0; i < (int)stat->count; i++) {
        double magnitude = fabs((double)chunk->data[i]);
        if (isfinite(magnitude)) {
            stat->over += magnitude > chunk->range;
            stat->max_abs = fmax(stat->max_abs, magnitude);
            continue;
        }
        stat->nan += isnan(magnitude) != 0;
        stat->pos_inf += chunk->data[i] > 0;
        stat->neg_inf += chunk->data[i] < 0;
        stat->bad_index = stat->bad_index < 0 ? i : stat->bad_index;
    }
}

static void measure_chunks(void *context, int first, int last, int worker) {
    struct chunk *chunks = context;
    (void)worker;
    for (struct chunk *chunk = chunks + first; chunk < chunks + last; chunk++) {
        uint32_t largest;
        float max;
        const float *next = chunk + 1 < chunks + last ? chunk[1].data : chunk->data;
        chunk->stat.sum_sq = add_chunk(chunk->data, (int)chunk->stat.count, next, &largest);
        memcpy(&max, &largest, sizeof max);
        if (largest < INFINITE_BITS && (double)max <= chunk->range)
            chunk->stat.max_abs = (double)max;
        else
            count_chunk(chunk);
    }
}

static int chunks_of(const struct kernels_span *span) {
    return (int)((span->count + CHUNK - 1) / CHUNK);
}

static void cut(const struct kernels_span *span, struct chunk *chunk) {
    for (int64_t begin = 0; begin < span->count; begin += CHUNK, chunk++) {
        int64_t rest = span->count - begin;
        chunk->data = span->d_data + begin;
        chunk->range = span->range;
        chunk->stat = (struct tensor_stat){
            .count = rest < CHUNK ? rest : CHUNK, .max_abs = (double)NAN, .bad_index = -1};
    }
}

static void join(const struct chunk *chunk, const struct kernels_span *span,
                 struct tensor_stat *stat) {
    double sum[SUMS] = {0};
    stat->count = span->count;
    stat->max_abs = (double)NAN;
    stat->bad_index = -1;
    stat->nan = stat->pos_inf = stat->neg_inf = stat->over = 0;
    for (int n = 0; n < chunks_of(span); n++) {
        const struct tensor_stat *part = &chunk[n].stat;
        sum[n % SUMS] += part->sum_sq;
        stat->max_abs = fmax(stat->max_abs, part->max_abs); /* of the two that is no NaN */
        if (stat->bad_index < 0 && part->bad_index >= 0)
            stat->bad_index = (int64_t)n * CHUNK + part->bad_index;
        stat->nan += part->nan;
        stat->pos_inf += part->pos_inf;
        stat->neg_inf += part->neg_inf;
        stat->over += part->over;
    }
    stat->sum_sq = fold(sum);
}

void measure_run(struct kernels_device *device, const struct kernels_span *span, int spans,
                 struct tensor_stat *stat) {
    int chunks = 0;
    for (int i = 0; i < spans; i++)
        chunks += chunks_of(&span[i]);
    struct chunk *chunk = device_scratch(device, (size_t)chunks * sizeof *chunk);
    for (int i = 0, n = 0; i < spans; n += chunks_of(&span[i]), i++)
        cut(&span[i], chunk + n);
    workers_run(device->workers, measure_chunks, chunk, chunks);
    for (int i = 0, n = 0; i < spans; n += chunks_of(&span[i]), i++)
        join(chunk + n, &span[i], &stat[i]);
}
