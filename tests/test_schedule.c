/* The order of the data and the random numbers behind it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "trainer/generator.h"
#include "trainer/schedule.h"

enum { IMAGES = 1000 };

static uint64_t fnv1a(const void *data, size_t size) {
    const uint8_t *byte = data;
    uint64_t hash = UINT64_C(0xCBF29CE484222325);
    for (size_t i = 0; i < size; i++) hash = (hash ^ byte[i]) * UINT64_C(0x100000001B3);
    return hash;
}

/* Computed by an independent program in C and one in Python. */
static void test_permutations(void **state) {
    (void)state;
    static const struct {
        int32_t count;
        uint64_t seed, epoch, hash;
        int32_t first[8];
    } row[] = {
        {5855, 1, 1, UINT64_C(0x513251b3e7655ca4), {1271, 610, 3103, 5364, 2032, 3832, 644, 5560}},
        {5855, 1, 2, UINT64_C(0xa09d83ca342073c0), {116, 38, 2332, 963, 2655, 4915, 2226, 5528}},
        {6145, 1, 3, UINT64_C(0x982e1b4de9e254b5), {1826, 3002, 4051, 4259, 3243, 3301, 1900, 62}},
        {6145, 2, 1, UINT64_C(0x60e53bfe65012669), {4853, 2315, 578, 5719, 5536, 580, 610, 4662}},
        {5855, 2, 3, UINT64_C(0x1054827c3b446778), {816, 4228, 3790, 1294, 3458, 4944, 693, 2452}},
    };
    static int32_t order[6145];
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        generator_permute(row[i].seed, row[i].epoch, order, row[i].count);
        assert_memory_equal(order, row[i].first, sizeof row[i].first);
        assert_true(fnv1a(order, (size_t)row[i].count * sizeof *order) == row[i].hash);
    }
}

/* The golden initial weights: FNV-1a of each tensor's bytes, with power-of-two bounds. */
static void test_weights(void **state) {
    (void)state;
    static const struct {
        uint32_t count;
        float bound;
        uint64_t hash;
    } row[] = {
        {288, 0x1p-2F, UINT64_C(0xf4a0e493628ce5f7)},
        {32, 0x1p-2F, UINT64_C(0xe468206a1e014ec8)},
        {18432, 0x1p-4F, UINT64_C(0xf446a8f0af833923)},
        {64, 0x1p-4F, UINT64_C(0x69d2c82f0a941ae2)},
        {401408, 0x1p-6F, UINT64_C(0xc0bb047c26c2ae07)},
        {128, 0x1p-6F, UINT64_C(0x424529fb20db3527)},
        {1280, 0x1p-3F, UINT64_C(0x45be6dd45731118b)},
        {10, 0x1p-3F, UINT64_C(0x87119116cc7a1732)},
    };
    float *weight = malloc(401408 * sizeof *weight);
    for (uint32_t t = 0; t < 8; t++) {
        for (uint32_t i = 0; i < row[t].count; i++)
            weight[i] = generator_uniform(0, t, i) * row[t].bound;
        assert_true(fnv1a(weight, row[t].count * sizeof *weight) == row[t].hash);
    }
    assert_true(generator_uniform(1, 0, 0) != generator_uniform(0, 0, 0));
    free(weight);
}

/* Class of image i is i % 10, but only every second 7 is kept: 50 of them against 100 of the
 * others. */
static void make_labels(uint8_t label[IMAGES]) {
    for (int i = 0; i < IMAGES; i++) label[i] = (uint8_t)(i % 10 == 7 && i % 20 == 17 ? 6 : i % 10);
}

static struct schedule make_schedule(enum schedule_history history, uint64_t seed) {
    struct schedule schedule;
    struct schedule_options options = {
        history, schedule_history_phases(history), {2, 3, 1}, {0.1F, 0.2F, 0.3F}, seed};
    uint8_t label[IMAGES];
    make_labels(label);
    assert_int_equal(schedule_init(&schedule, &options, label, IMAGES, NULL), 0);
    return schedule;
}

static void expect_classes(const struct schedule_phase *phase, int first, int last) {
    uint8_t label[IMAGES];
    make_labels(label);
    for (int i = 0; i < phase->images; i++) {
        assert_in_range(label[phase->image[i]], first, last);
        assert_true(i == 0 || phase->image[i] > phase->image[i - 1]);
    }
}

static void test_phases(void **state) {
    (void)state;
    struct schedule sabc = make_schedule(SCHEDULE_SABC, 5), sbac = make_schedule(SCHEDULE_SBAC, 5);
    struct schedule all = make_schedule(SCHEDULE_SHUFFLED, 5);
    expect_classes(&sabc.phase[0], 0, 4);
    expect_classes(&sabc.phase[1], 5, 9);
    expect_classes(&sbac.phase[0], 5, 9);
    expect_classes(&sbac.phase[1], 0, 4);
    assert_int_equal(sabc.phase[0].images + sabc.phase[1].images, IMAGES);
    assert_int_equal(all.phase[0].images, IMAGES);
    assert_int_equal(all.images_max, IMAGES);
    assert_int_equal(all.phases, 2);
    assert_int_equal(sabc.epochs, 6);
    assert_int_equal(schedule_epoch(&sabc, 0, 1), 1);
    assert_int_equal(schedule_epoch(&sabc, 1, 1), 3);
    assert_int_equal(schedule_epoch(&sabc, 2, 1), 6);
    assert_string_equal(sbac.phase[0].data, "5-9");
    assert_string_equal(sbac.phase[2].data, "relaxation");
    assert_true(sbac.phase[1].lr == 0.2F);
    schedule_free(&sabc);
    schedule_free(&sbac);
    schedule_free(&all);
}

static void test_relaxation_is_balanced_and_shared(void **state) {
    (void)state;
    struct schedule sabc = make_schedule(SCHEDULE_SABC, 5),
                    shuffled = make_schedule(SCHEDULE_SHUFFLED, 5);
    struct schedule other = make_schedule(SCHEDULE_SABC, 6);
    int32_t a[IMAGES], b[IMAGES], c[IMAGES], count[10] = {0};
    uint8_t label[IMAGES];
    make_labels(label);
    assert_int_equal(sabc.phase[2].images, 500);
    schedule_shuffle(&sabc, 2, 1, a);
    schedule_shuffle(&shuffled, 1, 1, b);
    schedule_shuffle(&other, 2, 1, c);
    assert_memory_equal(a, b, 500 * sizeof *a);
    assert_true(memcmp(a, c, 500 * sizeof *a) != 0);
    for (int i = 0; i < 500; i++) count[label[a[i]]]++;
    for (int class = 0; class < 10; class ++) assert_int_equal(count[class], 50);
    schedule_free(&sabc);
    schedule_free(&shuffled);
    schedule_free(&other);
}

/* Epochs are numbered through the run: position k takes the p[k]-th image of the subset. */
static void test_shuffle_follows_the_epoch(void **state) {
    (void)state;
    struct schedule schedule = make_schedule(SCHEDULE_SBAC, 9);
    int32_t order[IMAGES], place[IMAGES];
    const struct schedule_phase *phase = &schedule.phase[1];
    schedule_shuffle(&schedule, 1, 2, order);
    generator_permute(9, 4, place, phase->images);
    for (int k = 0; k < phase->images; k++) assert_int_equal(order[k], phase->image[place[k]]);
    schedule_free(&schedule);
}

static void test_impossible_plans(void **state) {
    (void)state;
    struct schedule schedule;
    struct schedule_options options = {SCHEDULE_SHUFFLED, 3, {1, 1, 1}, {1, 1, 1}, 0};
    struct error error;
    uint8_t label[4] = {0, 1, 2, 3};
    assert_int_equal(schedule_init(&schedule, &options, label, 4, &error), -1);
    assert_non_null(strstr(error.text, "shuffled has 2"));
    options.history = SCHEDULE_SABC;
    assert_int_equal(schedule_init(&schedule, &options, label, 4, &error), -1);
    assert_non_null(strstr(error.text, "phase 2 (5-9)"));
    options.phases = 1;
    assert_int_equal(schedule_init(&schedule, &options, label, 4, &error), 0);
    schedule_free(&schedule);
    assert_int_equal(schedule_history_find("sbac"), SCHEDULE_SBAC);
    assert_int_equal(schedule_history_find("SBAC?"), -1);
}

int main(void) {
    const struct CMUnitTest test[] = {
        cmocka_unit_test(test_permutations),
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_phases),
        cmocka_unit_test(test_relaxation_is_balanced_and_shared),
        cmocka_unit_test(test_shuffle_follows_the_epoch),
        cmocka_unit_test(test_impossible_plans),
    };
    return cmocka_run_group_tests(test, NULL, NULL);
}
