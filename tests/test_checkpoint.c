/* Which checkpoints are kept, and that what is written is the state. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "shared/store/safetensors.h"
#include "trainer/checkpoint.h"

struct fixture {
    char folder[64];
    struct kernels_device *device;
    struct model model;
    struct model_state state;
    struct checkpoint_list list;
};

static int open_fixture(void **state) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    struct kernels_options options = {.threads = 1, .batch_max = 1};
    struct model_options shape = {.batch_max = 1};
    strcpy(fixture->folder, "/tmp/test_checkpoint.XXXXXX");
    assert_non_null(mkdtemp(fixture->folder));
    assert_int_equal(kernels_cpu()->open(&fixture->device, &options, NULL), 0);
    model_init(&fixture->model, kernels_cpu(), fixture->device, &shape);
    model_state_init(&fixture->state, 1, false);
    checkpoint_list_init(&fixture->list, 2);
    *state = fixture;
    return 0;
}

static int close_fixture(void **state) {
    struct fixture *fixture = *state;
    for (int i = 0; i < fixture->list.files; i++) unlink(fixture->list.file[i].path);
    checkpoint_list_free(&fixture->list);
    model_free(&fixture->model);
    kernels_cpu()->close(fixture->device);
    rmdir(fixture->folder);
    free(fixture);
    return 0;
}

static struct checkpoint describe(const struct fixture *fixture, int64_t step) {
    struct checkpoint checkpoint = {.run_id = "r-1",
                                    .step = step,
                                    .epoch = 2,
                                    .phase = 1,
                                    .seed = 9,
                                    .offset = 640,
                                    .mark = "here"};
    snprintf(checkpoint.path, sizeof checkpoint.path, "%s/step-%08d.safetensors", fixture->folder,
             (int)step);
    return checkpoint;
}

static void save(struct fixture *fixture, int64_t step, bool phase_end, bool safe) {
    struct checkpoint checkpoint = describe(fixture, step);
    checkpoint.kind = phase_end ? CHECKPOINT_PHASE_END : CHECKPOINT_ORDINARY;
    checkpoint.safe = safe;
    assert_int_equal(
        checkpoint_save(&fixture->list, &checkpoint, &fixture->model, &fixture->state, NULL), 0);
}

static void expect_kept(const struct fixture *fixture, const char *steps) {
    char found[128] = "", path[128];
    for (int step = 1; step < 20; step++) {
        snprintf(path, sizeof path, "%s/step-%08d.safetensors", fixture->folder, step);
        if (access(path, F_OK) == 0)
            snprintf(found + strlen(found), sizeof found - strlen(found), " %d", step);
    }
    assert_string_equal(found, steps);
}

static void test_kept(void **state) {
    struct fixture *fixture = *state;
    save(fixture, 1, false, true);
    save(fixture, 2, true, true);
    save(fixture, 3, false, true);
    expect_kept(fixture, " 1 2 3");
    save(fixture, 4, false, true);
    expect_kept(fixture, " 2 3 4"); /* a phase end stays and is not counted */
    save(fixture, 5, false, false);
    save(fixture, 6, false, false);
    expect_kept(fixture, " 2 4 5 6"); /* 4 is the last safe one */
    save(fixture, 7, false, false);
    expect_kept(fixture, " 2 4 6 7");
    assert_int_equal(checkpoint_find_safe(&fixture->list)->step, 4);
    assert_int_equal(checkpoint_find_newest(&fixture->list)->step, 7);
    save(fixture, 8, true, true);
    save(fixture, 9, false, false);
    expect_kept(fixture, " 2 7 8 9");
}

static void test_content(void **state) {
    struct fixture *fixture = *state;
    struct safetensors *file;
    char hash[32];
    save(fixture, 3, false, true);
    assert_int_equal(safetensors_open(&file, checkpoint_find_newest(&fixture->list)->path, NULL),
                     0);
    assert_int_equal(safetensors_count(file), 16);
    const struct safetensors_entry *weight = safetensors_find(file, "conv2.weight");
    const struct safetensors_entry *momentum = safetensors_find(file, "momentum_buffer.fc2.bias");
    assert_int_equal(weight->dims, 4);
    assert_int_equal(weight->shape[1], 32);
    assert_memory_equal(weight->data, fixture->state.param + 288 + 32, weight->size_bytes);
    assert_int_equal(momentum->size_bytes, 10 * sizeof(float));
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)model_state_hash(&fixture->state));
    static const char *const META[][2] = {{"run_id", "r-1"}, {"step", "3"}, {"epoch", "2"},
                                          {"phase", "1"},    {"seed", "9"}, {"offset", "640"},
                                          {"mark", "here"}};
    for (size_t i = 0; i < sizeof META / sizeof *META; i++)
        assert_string_equal(safetensors_find_meta(file, META[i][0]), META[i][1]);
    assert_string_equal(safetensors_find_meta(file, "state_hash"), hash);
    safetensors_close(file);
}

static void test_unwritable(void **state) {
    struct fixture *fixture = *state;
    struct checkpoint checkpoint = describe(fixture, 5);
    struct error error = {""};
    save(fixture, 4, false, true);
    strcpy(checkpoint.path, "/nonexistent/step-00000005.safetensors");
    assert_int_equal(
        checkpoint_save(&fixture->list, &checkpoint, &fixture->model, &fixture->state, &error), -1);
    assert_non_null(strstr(error.text, "/nonexistent"));
    assert_int_equal(checkpoint_find_newest(&fixture->list)->step, 4);
}

static void test_nonfinite(void **state) {
    struct fixture *fixture = *state;
    struct checkpoint checkpoint = describe(fixture, 5);
    fixture->state.momentum[MODEL_VALUES - 1] = INFINITY;
    assert_int_equal(
        checkpoint_save(&fixture->list, &checkpoint, &fixture->model, &fixture->state, NULL), 1);
    expect_kept(fixture, "");
    checkpoint.kind = CHECKPOINT_ONSET;
    assert_int_equal(
        checkpoint_save(&fixture->list, &checkpoint, &fixture->model, &fixture->state, NULL), 0);
    expect_kept(fixture, " 5");
    assert_null(checkpoint_find_newest(&fixture->list)); /* so nothing deletes it */
    unlink(checkpoint.path);
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_fixture, close_fixture)
    const struct CMUnitTest test[] = {CASE(test_kept), CASE(test_content), CASE(test_unwritable),
                                      CASE(test_nonfinite)};
    return cmocka_run_group_tests(test, NULL, NULL);
}
