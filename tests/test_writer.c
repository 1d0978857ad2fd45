/* The thread that writes checkpoints, on a disk that hangs: every save waits for a gate that the
 * test opens. */
#include <math.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "shared/store/safetensors.h"
#include "trainer/onset.h"
#include "trainer/schedule.h"

struct fixture {
    char folder[64];
    struct kernels_device *device;
    struct model model;
    struct checkpoint_list list;
    struct writer *writer;
};

static sem_t gate, entered; /* a save may go on; one has begun */
static int signals;         /* that could reach the thread in the last save */

static int save_through_gate(struct checkpoint_list *list, const struct checkpoint *checkpoint,
                             const struct model *model, const struct model_state *state,
                             struct error *error) {
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    signals = !sigismember(&blocked, SIGINT) + !sigismember(&blocked, SIGTERM);
    sem_post(&entered);
    sem_wait(&gate);
    return checkpoint_save(list, checkpoint, model, state, error);
}

static void open_gate(int saves) {
    while (saves--) sem_post(&gate);
}

static int open_fixture(void **state) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    struct kernels_options options = {.threads = 1, .batch_max = 1};
    struct model_options shape = {.batch_max = 1};
    struct writer_options writer = {
        .list = &fixture->list, .model = &fixture->model, .save = save_through_gate};
    sem_init(&gate, 0, 0);
    sem_init(&entered, 0, 0);
    strcpy(fixture->folder, "/tmp/test_writer.XXXXXX");
    assert_non_null(mkdtemp(fixture->folder));
    assert_int_equal(kernels_cpu()->open(&fixture->device, &options, NULL), 0);
    model_init(&fixture->model, kernels_cpu(), fixture->device, &shape);
    checkpoint_list_init(&fixture->list, 2);
    assert_int_equal(writer_open(&fixture->writer, &writer, NULL), 0);
    *state = fixture;
    return 0;
}

static void make_path(const struct fixture *fixture, int step, char path[RECORD_TEXT_SIZE]) {
    snprintf(path, RECORD_TEXT_SIZE, "%s/step-%08d.safetensors", fixture->folder, step);
}

static bool is_there(const struct fixture *fixture, int step) {
    char path[RECORD_TEXT_SIZE];
    make_path(fixture, step, path);
    return access(path, F_OK) == 0;
}

static int close_fixture(void **state) {
    struct fixture *fixture = *state;
    char path[RECORD_TEXT_SIZE];
    open_gate(20); /* after a test that failed something may still wait */
    writer_close(fixture->writer);
    for (int step = 1; step < 20; step++) {
        make_path(fixture, step, path);
        unlink(path);
    }
    assert_int_equal(rmdir(fixture->folder), 0); /* nothing else lies in it */
    checkpoint_list_free(&fixture->list);
    model_free(&fixture->model);
    kernels_cpu()->close(fixture->device);
    sem_destroy(&gate);
    sem_destroy(&entered);
    free(fixture);
    return 0;
}

/* A state whose first weight is the step. False: refused. */
static bool submit(const struct fixture *fixture, enum checkpoint_kind kind, int step) {
    struct writer_job *job = writer_begin(fixture->writer, kind);
    if (!job) return false;
    job->checkpoint = (struct checkpoint){.kind = kind, .run_id = "r-1", .step = step};
    make_path(fixture, step, job->checkpoint.path);
    memset(&job->state, 0, sizeof job->state);
    job->state.param[0] = (float)step;
    writer_submit(fixture->writer, job);
    return true;
}

static void expect_done(const struct fixture *fixture, int step, int result) {
    const struct writer_job *job = writer_wait(fixture->writer);
    assert_non_null(job);
    assert_int_equal(job->checkpoint.step, step);
    assert_int_equal(job->result, result);
    assert_int_equal(is_there(fixture, step), result == 0);
}

/* Would hang for good if anything waited. */
static void test_nothing_waits_for_the_disk(void **state) {
    struct fixture *fixture = *state;
    assert_null(writer_wait(fixture->writer));
    assert_true(submit(fixture, CHECKPOINT_ORDINARY, 1));
    sem_wait(&entered);
    assert_null(writer_take(fixture->writer));
    assert_false(is_there(fixture, 1));
    open_gate(1);
    expect_done(fixture, 1, 0);
    assert_null(writer_take(fixture->writer));
    assert_null(writer_wait(fixture->writer));
    assert_int_equal(signals, 0);
}

static void test_a_phase_end_is_never_refused(void **state) {
    struct fixture *fixture = *state;
    assert_true(submit(fixture, CHECKPOINT_ORDINARY, 1));
    assert_false(submit(fixture, CHECKPOINT_ORDINARY, 2));
    assert_true(submit(fixture, CHECKPOINT_ONSET, 3));
    assert_true(submit(fixture, CHECKPOINT_ONSET, 4));
    assert_false(submit(fixture, CHECKPOINT_ONSET, 5));
    for (int i = 0; i < SCHEDULE_PHASES_MAX; i++)
        assert_true(submit(fixture, CHECKPOINT_PHASE_END, 6 + i));
    open_gate(3 + SCHEDULE_PHASES_MAX);
    expect_done(fixture, 1, 0);
    assert_true(submit(fixture, CHECKPOINT_ORDINARY, 10)); /* its slot is free again */
    open_gate(1);
    static const int STEP[] = {3, 4, 6, 7, 8, 10};
    for (size_t i = 0; i < sizeof STEP / sizeof *STEP; i++) expect_done(fixture, STEP[i], 0);
    assert_null(writer_wait(fixture->writer));
    assert_int_equal(fixture->list.files, 5); /* without the onset's */
}

/* The file holds what was submitted, though the slot was handed over long before. */
static void test_close_writes_what_is_left(void **state) {
    struct fixture *fixture = *state;
    struct safetensors *file;
    char path[RECORD_TEXT_SIZE];
    submit(fixture, CHECKPOINT_ORDINARY, 1);
    submit(fixture, CHECKPOINT_PHASE_END, 2);
    open_gate(2);
    writer_close(fixture->writer);
    fixture->writer = NULL;
    for (int step = 1; step <= 2; step++) {
        float value;
        make_path(fixture, step, path);
        assert_int_equal(safetensors_open(&file, path, NULL), 0);
        memcpy(&value, safetensors_find(file, "conv1.weight")->data, sizeof value);
        assert_true(value == (float)step);
        safetensors_close(file);
    }
}

static void test_what_became_of_it(void **state) {
    struct fixture *fixture = *state;
    struct writer_job *job = writer_begin(fixture->writer, CHECKPOINT_ORDINARY);
    const struct writer_job *done;
    open_gate(3);
    job->checkpoint.run_id = "r-1";
    strcpy(job->checkpoint.path, "/nonexistent/step-1.safetensors");
    memset(&job->state, 0, sizeof job->state);
    writer_submit(fixture->writer, job);
    done = writer_wait(fixture->writer);
    assert_int_equal(done->result, -1);
    assert_non_null(strstr(done->error.text, "/nonexistent/step-1.safetensors"));
    job = writer_begin(fixture->writer, CHECKPOINT_ORDINARY);
    make_path(fixture, 2, job->checkpoint.path);
    job->checkpoint.step = 2;
    job->checkpoint.run_id = "r-1";
    job->state.param[7] = NAN;
    writer_submit(fixture->writer, job);
    expect_done(fixture, 2, 1);
    submit(fixture, CHECKPOINT_ORDINARY, 3);
    expect_done(fixture, 3, 0);
    assert_int_equal(fixture->list.files, 1);
}

static void keep_onset(const struct fixture *fixture, struct onset *onset, int step) {
    struct checkpoint before = {.kind = CHECKPOINT_ONSET, .run_id = "r-1", .step = step - 1};
    struct checkpoint after = {.kind = CHECKPOINT_ONSET, .run_id = "r-1", .step = step};
    onset_keep(onset, &fixture->model, &before, &after);
}

static void take_onset(const struct fixture *fixture, int step) {
    static const char *const WHICH[] = {"before", "after"};
    for (int i = 0; i < 2; i++) {
        char path[RECORD_TEXT_SIZE];
        const struct writer_job *job = writer_wait(fixture->writer);
        snprintf(path, sizeof path, "%s/onset-%08d-%s.safetensors", fixture->folder, step,
                 WHICH[i]);
        assert_int_equal(job->result, 0);
        assert_string_equal(job->checkpoint.path, path);
        assert_int_equal(job->checkpoint.step, step - 1 + i);
        assert_int_equal(unlink(path), 0);
    }
    assert_null(writer_wait(fixture->writer));
}

static void test_onsets(void **state) {
    struct fixture *fixture = *state;
    struct onset onset;
    struct error error = {""};
    onset_init(&onset, fixture->folder, fixture->writer);
    assert_int_equal(onset_save(&onset, NULL), 0); /* nothing was kept */
    keep_onset(fixture, &onset, 3);                /* of a stretch without an alarm */
    keep_onset(fixture, &onset, 30);
    assert_int_equal(onset_save(&onset, NULL), 0);
    assert_int_equal(onset_save(&onset, NULL), 0); /* once a stretch */
    keep_onset(fixture, &onset, 60);               /* while the disk hangs */
    assert_int_equal(onset_save(&onset, &error), -1);
    assert_non_null(strstr(error.text, "step 60"));
    assert_int_equal(onset_save(&onset, NULL), 0); /* said once */
    open_gate(2);
    take_onset(fixture, 30);
    keep_onset(fixture, &onset, 90);
    assert_int_equal(onset_save(&onset, NULL), 0);
    open_gate(2);
    take_onset(fixture, 90);
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_fixture, close_fixture)
    const struct CMUnitTest test[] = {
        CASE(test_nothing_waits_for_the_disk), CASE(test_a_phase_end_is_never_refused),
        CASE(test_close_writes_what_is_left), CASE(test_what_became_of_it), CASE(test_onsets)};
    return cmocka_run_group_tests(test, NULL, NULL);
}
