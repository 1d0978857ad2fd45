/* Statistics of arrays, in an order that any backend can repeat to the bit:
 *
 * An array is cut into chunks of CHUNK values. Value i of a chunk is squared and added, in double,
 * to sum i % SUMS of the chunk's SUMS, in ascending order of i; a float squared is exact in double,
 * so it does not matter whether the addition is fused. Then the upper half of the sums is added to
 * the lower, 32 to 32, 16 to 16, ..., 1 to 1. Chunk n's sum is added likewise to sum n % SUMS of
 * the array's SUMS, and these are folded the same way. */
#include "kernels/cpu/measure.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/lanes.h"

enum { CHUNK = 4096, SUMS = 64, WIDTH = 8 };

static const uint32_t INFINITE_BITS = 0x7f800000; /* magnitude of Inf; beyond it lie the NaNs */

/* A task. */
struct chunk {
    const float *data;
    double range;
    bool done;
    struct tensor_stat stat; /* sum_sq, max_abs, counts; bad_index within the chunk */
};

struct request {
    struct kernels_span span;
    struct tensor_stat *stat;
    int chunk; /* its first */
};

struct measure {
    struct request *request;
    struct chunk *chunk;
    int requests, requests_max, chunks, chunks_max;
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
        for (int i = 0; i < half; i++) sum[i] += sum[i + half];
    return isnan(sum[0]) ? (double)NAN : sum[0]; /* which NaN it is depends on the processor */
}

/* The sum of squares; the magnitude bits of the largest in *largest. The arrays are larger than the
 * caches, and fetching the `next` chunk meanwhile makes this twice as fast. */
static double add_chunk(const float *restrict data, int count, const float *next,
                        uint32_t *largest) {
    double sum[SUMS] = {0};
    uint32_t max[SUMS] = {0};
    int i = 0;
    for (; i + SUMS <= count; i += SUMS) {
        for (int l = 0; l < SUMS; l += LINE) __builtin_prefetch(next + i + l);
        for (int j = 0; j < SUMS; j += WIDTH)
            for (int l = j; l < j + WIDTH; l++) sum[l] = add_square(sum[l], data[i + l]);
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
    for (int l = 0; l < SUMS; l++) *largest = max[l] > *largest ? max[l] : *largest;
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
        const float *next = chunk + 1 < chunks + last ? chunk[1].data : chunk->data;
        uint32_t largest;
        float max;
        if (chunk->done) continue;
        chunk->stat.sum_sq = add_chunk(chunk->data, (int)chunk->stat.count, next, &largest);
        memcpy(&max, &largest, sizeof max);
        if (largest < INFINITE_BITS && (double)max <= chunk->range)
            chunk->stat.max_abs = (double)max;
        else
            count_chunk(chunk);
        chunk->done = true;
    }
}

static int chunks_of(const struct kernels_span *span) {
    return (int)((span->count + CHUNK - 1) / CHUNK);
}

static void cut(const struct kernels_span *span, struct chunk *chunk) {
    for (int64_t begin = 0; begin < span->count; begin += CHUNK, chunk++) {
        int64_t rest = span->count - begin;
        *chunk = (struct chunk){.data = span->d_data + begin, .range = span->range};
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

struct measure *measure_open(void) {
    return calloc(1, sizeof(struct measure));
}

void measure_close(struct measure *measure) {
    if (measure == NULL) return;
    free(measure->request);
    free(measure->chunk);
    free(measure);
}

/* Room for `wanted`; grows in the first step only. */
static void *reserve(void *array, int wanted, int *max, size_t size_bytes) {
    if (wanted <= *max) return array;
    *max = 2 * wanted;
    array = realloc(array, (size_t)*max * size_bytes);
    if (array == NULL) {
        fprintf(stderr, "cpu: no memory for the statistics of %d chunks\n", wanted);
        abort();
    }
    return array;
}

void measure_request(struct measure *measure, const struct kernels_span *span, int spans,
                     struct tensor_stat *stat) {
    measure->request = reserve(measure->request, measure->requests + spans, &measure->requests_max,
                               sizeof *measure->request);
    for (int i = 0; i < spans; i++) {
        int chunks = measure->chunks + chunks_of(&span[i]);
        measure->chunk =
            reserve(measure->chunk, chunks, &measure->chunks_max, sizeof *measure->chunk);
        cut(&span[i], measure->chunk + measure->chunks);
        measure->request[measure->requests++] =
            (struct request){.span = span[i], .stat = &stat[i], .chunk = measure->chunks};
        measure->chunks = chunks;
    }
}

/* Where `place` lies in the span: 0..count. */
static int64_t offset_in(const struct kernels_span *span, const float *place) {
    int64_t offset = ((intptr_t)place - (intptr_t)span->d_data) / (int64_t)sizeof(float);
    return offset < 0 ? 0 : offset < span->count ? offset : span->count;
}

void measure_ready(struct measure *measure, const float *begin, const float *end) {
    for (int i = 0; i < measure->requests; i++) {
        const struct kernels_span *span = &measure->request[i].span;
        int64_t from = offset_in(span, begin), to = offset_in(span, end);
        int first = (int)((from + CHUNK - 1) / CHUNK);
        int last = to == span->count ? chunks_of(span) : (int)(to / CHUNK);
        if (from < to && first < last)
            measure_chunks(measure->chunk + measure->request[i].chunk, first, last, 0);
    }
}

void measure_finish(struct measure *measure, struct workers *workers) {
    workers_run(workers, measure_chunks, measure->chunk, measure->chunks);
    for (int i = 0; i < measure->requests; i++) {
        const struct request *request = &measure->request[i];
        join(measure->chunk + request->chunk, &request->span, request->stat);
    }
    measure->requests = measure->chunks = 0;
}
