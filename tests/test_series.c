/* The pyramid against a plain list of steps that is summed up anew for every question. */
#include <float.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shared/core/series.h"

enum { METRICS = 2, BUCKETS = 40, STEPS = 20000 };

enum what { UNKNOWN, MEASURED, MISSING, SKIPPED };

struct list { /* what a series was told, step by step */
    enum what what[STEPS];
    bool has[STEPS][METRICS];
    double value[STEPS][METRICS];
    enum band band[STEPS];
    int64_t first, last;
};

static uint32_t next_random(uint32_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 17;
    *seed ^= *seed << 5;
    return *seed;
}

static double random_value(uint32_t *seed) {
    static const double strange[] = {NAN, INFINITY, -INFINITY, 1e300, -1e300, 1e-300, 0, -3};
    uint32_t pick = next_random(seed) % 64;
    if (pick < sizeof strange / sizeof *strange) return strange[pick];
    return (double)next_random(seed) / 1e6 - 1000;
}

static void tell_step(struct series *series, struct list *list, int64_t step, uint32_t *seed) {
    struct record record = {.step = step};
    for (int m = 0; m < METRICS; m++) {
        if (next_random(seed) % 8 == 0) continue;
        list->has[step][m] = true;
        list->value[step][m] = random_value(seed);
        record_set(&record, m, list->value[step][m]);
    }
    if (next_random(seed) % 50 == 0) record.band = (enum band)(next_random(seed) % BAND_COUNT);
    list->band[step] = record.band;
    list->what[step] = MEASURED;
    if (list->last < 0) list->first = step;
    for (int64_t s = list->last + 1; list->last >= 0 && s < step; s++) list->what[s] = MISSING;
    list->last = step;
    assert_int_equal(series_apply(series, &record), 0);
}

static void tell_pass(struct series *series, struct list *list, int64_t last, enum what what) {
    if (what == MISSING) series_apply_gap(series, list->last + 1, last);
    if (what == SKIPPED) series_apply_skip(series, last);
    for (int64_t s = list->last + 1; s <= last; s++) list->what[s] = what;
    list->last = last;
}

/* Steps, jumps, gaps and steps never published, from `start` on to near STEPS. */
static void tell_story(struct series *series, struct list *list, int64_t start, uint32_t seed) {
    memset(list, 0, sizeof *list);
    list->last = -1;
    tell_step(series, list, start, &seed);
    while (list->last < STEPS - 700) {
        uint32_t pick = next_random(&seed) % 1000, far = 1 + next_random(&seed) % 600;
        if (pick < 2) {
            tell_pass(series, list, list->last + far, MISSING);
        } else if (pick < 4) {
            tell_pass(series, list, list->last + far, SKIPPED);
        } else {
            tell_step(series, list, list->last + (pick < 20 ? pick - 2 : 1), &seed);
        }
    }
}

static struct series_column sum_up(const struct list *list, int metric, int64_t first,
                                   int64_t width) {
    struct series_column sum = {.value = {.min = FLT_MAX, .max = -FLT_MAX, .last = NAN}};
    for (int64_t s = first; s < first + width && s < STEPS; s++) {
        sum.missing += list->what[s] == MISSING;
        if (list->what[s] != MEASURED) continue;
        sum.steps++;
        if (list->band[s] > sum.band) sum.band = list->band[s];
        if (!list->has[s][metric]) continue;
        double value = list->value[s][metric], narrow = value;
        sum.value.present++;
        if (isnan(value)) sum.value.marks |= SERIES_NAN;
        if (isinf(value)) sum.value.marks |= value > 0 ? SERIES_POS_INF : SERIES_NEG_INF;
        if (isfinite(value) && fabs(value) > (double)FLT_MAX) {
            sum.value.marks |= SERIES_BEYOND;
            narrow = copysign((double)FLT_MAX, value);
        } else if (value != 0 && (float)value == 0.0F) {
            narrow = copysign((double)FLT_TRUE_MIN, value);
        }
        sum.value.last = (float)narrow;
        if (!isfinite(value)) continue;
        if ((float)narrow < sum.value.min) sum.value.min = (float)narrow;
        if ((float)narrow > sum.value.max) sum.value.max = (float)narrow;
    }
    return sum;
}

static bool same_float(float a, float b) { return isnan(a) ? isnan(b) : a == b; }

static void assert_same(const struct series_column *a, const struct series_column *b) {
    assert_int_equal(a->steps, b->steps);
    assert_int_equal(a->missing, b->missing);
    assert_int_equal(a->band, b->band);
    assert_int_equal(a->value.present, b->value.present);
    assert_int_equal(a->value.marks, b->value.marks);
    assert_true(same_float(a->value.last, b->value.last));
    assert_true(same_float(a->value.min, b->value.min) && same_float(a->value.max, b->value.max));
}

/* Steps from here on are still held by this level. */
static int64_t reach(const struct series *series, int level) {
    int64_t width = series->level[level].width;
    return (series->last / width - series->buckets + 1) * width;
}

static void test_columns_equal_the_steps(void **state) {
    (void)state;
    struct list *list = malloc(sizeof *list);
    static const int64_t widths[] = {1, 2, 3, 16, 24, 48, 256, 512, 4096};
    for (uint32_t seed = 1; seed <= 8; seed++) {
        struct series series;
        assert_int_equal(series_init(&series, METRICS, BUCKETS), 0);
        tell_story(&series, list, seed % 3 * 7, seed * 7919);
        assert_int_equal(series.first, list->first);
        assert_int_equal(series.last, list->last);
        int exact = 0;
        for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
            int fit = 0;
            while (widths[w] % series.level[fit + 1].width == 0) fit++;
            for (int64_t first = 0; first < STEPS; first += widths[w]) {
                struct series_column column, sum = sum_up(list, 1, first, widths[w]);
                bool known = first + widths[w] > list->first && first <= list->last;
                assert_int_equal(series_column(&series, 1, first, widths[w], &column), known);
                if (!known) continue;
                if (first >= reach(&series, fit)) assert_false(column.thinned);
                if (column.thinned) continue;
                assert_same(&column, &sum);
                exact++;
            }
        }
        assert_true(exact > 150);
        series_free(&series);
    }
    free(list);
}

/* What is thinned is the truth about a longer stretch around the column. */
static void test_thinned_columns_are_the_coarser_bucket(void **state) {
    (void)state;
    struct list *list = malloc(sizeof *list);
    struct series series;
    assert_int_equal(series_init(&series, METRICS, BUCKETS), 0);
    tell_story(&series, list, 0, 4711);
    int thinned = 0;
    for (int64_t first = 0; first < list->last; first += 4) {
        struct series_column column;
        assert_true(series_column(&series, 0, first, 4, &column));
        if (!column.thinned) continue;
        int level = 1;
        while (first < reach(&series, level)) level++;
        int64_t width = series.level[level].width;
        struct series_column sum = sum_up(list, 0, first / width * width, width);
        assert_same(&column, &sum);
        thinned++;
    }
    assert_true(thinned > 1000);
    series_free(&series);
    free(list);
}

static void test_an_old_column_never_changes(void **state) {
    (void)state;
    static const int64_t widths[] = {1, 5, 16, 32, 256};
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        struct series series;
        assert_int_equal(series_init(&series, 1, BUCKETS), 0);
        int64_t width = widths[w], columns = 1500 / width + 1;
        struct series_column *seen = calloc((size_t)columns, sizeof *seen);
        bool *known = calloc((size_t)columns, sizeof *known);
        uint32_t seed = 99;
        for (int64_t step = 0; step < 1500; step++) {
            struct record record = {.step = step};
            record_set(&record, 0, random_value(&seed));
            if (next_random(&seed) % 30 == 0) continue; /* missing */
            series_apply(&series, &record);
            for (int64_t c = 0; (c + 1) * width <= series.last + 1; c++) {
                struct series_column column;
                assert_true(series_column(&series, 0, c * width, width, &column));
                if (column.thinned) continue;
                if (known[c]) assert_same(&column, &seen[c]);
                seen[c] = column;
                known[c] = true;
            }
        }
        free(seen);
        free(known);
        series_free(&series);
    }
}

static void apply_loss(struct series *series, int64_t step, double loss, enum band band) {
    struct record record = {.step = step, .band = band};
    record_set(&record, METRIC_LOSS, loss);
    series_apply(series, &record);
}

static void test_a_jump_is_as_long_as_the_rings(void **state) {
    (void)state;
    struct series series;
    struct series_column column;
    const int64_t far = INT64_C(1000000000000000);
    assert_int_equal(series_init(&series, METRIC_COUNT, SERIES_BUCKETS), 0);
    apply_loss(&series, 0, 1, BAND_FINITE);
    for (int64_t i = 1; i <= 50; i++) apply_loss(&series, i * far, 2, BAND_FINITE);
    assert_int_equal(series.last, 50 * far);
    assert_true(series_column(&series, METRIC_LOSS, 50 * far - 1, 1, &column));
    assert_true(column.missing == 1 && column.steps == 0 && !column.thinned);
    int64_t wide = series.level[SERIES_LEVELS - 1].width;
    assert_true(series_column(&series, METRIC_LOSS, 50 * far / wide * wide - wide, wide, &column));
    assert_int_equal(column.missing, wide);
    assert_false(series_column(&series, METRIC_LOSS, 0, 1, &column));
    assert_false(
        series_column(&series, METRIC_LOSS, 0, INT64_MAX, &column)); /* no ring is that long */
    apply_loss(&series, INT64_MAX, 2, BAND_FINITE);
    series_apply_gap(&series, 0, INT64_MAX);
    assert_int_equal(series.last, SERIES_STEP_END - 1);
    series_free(&series);
}

static void test_steps_that_do_not_follow_are_refused(void **state) {
    (void)state;
    struct series series;
    struct series_column column;
    assert_int_equal(series_init(&series, METRIC_COUNT, 8), 0);
    assert_false(series_column(&series, METRIC_LOSS, 0, 1, &column));
    struct record record = {.step = -1};
    assert_int_equal(series_apply(&series, &record), -1);
    record.step = SERIES_STEP_END;
    assert_int_equal(series_apply(&series, &record), -1);
    apply_loss(&series, 5, 1, BAND_FINITE);
    record.step = 5;
    assert_int_equal(series_apply(&series, &record), -1);
    series_apply_gap(&series, 2, 5); /* heard already */
    assert_true(series_column(&series, METRIC_LOSS, 0, 16, &column));
    assert_true(column.steps == 1 && column.missing == 0);
    assert_false(series_column(&series, METRIC_LOSS, 0, 5, &column));
    assert_false(series_column(&series, METRIC_LOSS, 6, 5, &column));
    assert_false(series_column(&series, METRIC_LOSS, -5, 5, &column));
    series_free(&series);
}

static void copy_levels(struct series *to, const struct series *from) {
    for (int l = SERIES_LEVELS - 1; l >= 0; l--) {
        for (int b = 0; b < from->buckets; b++) {
            const struct series_value *value;
            int64_t first = from->level[l].bucket[b].first;
            const struct series_bucket *bucket = series_find(from, l, first, &value);
            if (bucket) assert_int_equal(series_apply_bucket(to, l, bucket, value), 0);
        }
    }
}

/* A viewer that attaches in the middle sees what one that was there from the start sees. */
static void test_a_copied_pyramid_goes_on(void **state) {
    (void)state;
    struct list *list = malloc(sizeof *list);
    for (uint32_t seed = 1; seed <= 4; seed++) {
        struct series original, copy;
        assert_int_equal(series_init(&original, METRICS, BUCKETS), 0);
        assert_int_equal(series_init(&copy, METRICS, BUCKETS), 0);
        tell_story(&original, list, 0, seed * 31337);
        copy_levels(&copy, &original);
        for (int more = 0; more < 2; more++) {
            assert_int_equal(copy.first, original.first);
            assert_int_equal(copy.last, original.last);
            for (int64_t width = 1; width < STEPS; width *= 2) {
                for (int64_t first = 0; first < list->last; first += width) {
                    struct series_column a, b;
                    assert_true(series_column(&original, 0, first, width, &a));
                    assert_true(series_column(&copy, 0, first, width, &b));
                    assert_same(&a, &b);
                    assert_int_equal(a.thinned, b.thinned);
                }
            }
            for (int64_t step = list->last + 2; step < list->last + 300; step++) {
                apply_loss(&original, step, (double)step, BAND_FINITE);
                apply_loss(&copy, step, (double)step, BAND_FINITE);
            }
        }
        series_free(&original);
        series_free(&copy);
    }
    free(list);
}

static void test_buckets_of_an_enemy(void **state) {
    (void)state;
    struct series series;
    struct series_column column;
    struct series_value value[METRICS] = {{.min = NAN, .max = INFINITY, .last = NAN, .present = 1},
                                          {.min = 2, .max = 1, .present = 1}};
    assert_int_equal(series_init(&series, METRICS, 8), 0);
    static const struct {
        int level;
        struct series_bucket bucket;
    } refused[] = {
        {-1, {.first = 0}},
        {SERIES_LEVELS, {.first = 0}},
        {1, {.first = 17}},
        {0, {.first = -1}},
        {0, {.first = INT64_MAX}},
        {0, {.first = 0, .steps = 2}},
        {1, {.first = 16, .steps = 16, .missing = 1}},
        {2, {.first = 0, .steps = UINT32_MAX, .missing = UINT32_MAX}},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        assert_int_equal(series_apply_bucket(&series, refused[i].level, &refused[i].bucket, value),
                         -1);
    }
    assert_int_equal(series.last, -1);
    struct series_bucket bucket = {.first = 32, .steps = 16};
    assert_int_equal(series_apply_bucket(&series, 1, &bucket, value), 0);
    assert_true(series.first == 32 && series.last == 47);
    for (int m = 0; m < METRICS; m++) {
        assert_true(series_column(&series, m, 32, 16, &column));
        assert_true(column.value.min > column.value.max && isfinite(column.value.min));
    }
    assert_true(series_column(&series, 0, 40, 1, &column) && column.thinned);
    bucket.first = 32 + 8 * 16;
    assert_int_equal(series_apply_bucket(&series, 1, &bucket, value), 0);
    bucket.first = 32; /* the ring is past it */
    assert_int_equal(series_apply_bucket(&series, 1, &bucket, value), 0);
    const struct series_value *found;
    assert_null(series_find(&series, 1, 32, &found));
    assert_non_null(series_find(&series, 1, 32 + 8 * 16, &found));
    series_free(&series);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_columns_equal_the_steps),
        cmocka_unit_test(test_thinned_columns_are_the_coarser_bucket),
        cmocka_unit_test(test_an_old_column_never_changes),
        cmocka_unit_test(test_a_jump_is_as_long_as_the_rings),
        cmocka_unit_test(test_steps_that_do_not_follow_are_refused),
        cmocka_unit_test(test_a_copied_pyramid_goes_on),
        cmocka_unit_test(test_buckets_of_an_enemy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
