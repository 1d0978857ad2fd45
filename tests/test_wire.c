/* Publisher and feed together, over ipc and tcp, some of them in other processes. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include <cmocka.h>

#include "shared/wire/feed.h"
#include "shared/wire/publisher.h"
#include "tests/help_wire.h"

#define UNTIL(viewer, condition) HELP_WIRE_UNTIL(viewer, condition, (void)0)

static char folder[64];

static int enter(void **state) {
    (void)state;
    help_wire_enter(folder, sizeof folder);
    return 0;
}

static int leave(void **state) {
    (void)state;
    help_wire_leave(folder);
    return 0;
}

/* A trainer: publishes step after step from a thread of its own, about `rate` a second. */
struct trainer {
    struct publisher *publisher;
    pthread_t thread;
    int rate;
    atomic_llong step; /* next one */
    atomic_bool stop;
};

static struct publisher *open_publisher(const char *run_id, const char *bind, int tensors) {
    return help_wire_publish((struct publisher_options){.bind = bind}, run_id, tensors);
}

static struct publisher *open_recorded(const char *run_id, int tensors) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s.db", folder, run_id);
    return help_wire_publish((struct publisher_options){.run_file = path}, run_id, tensors);
}

static void *train(void *of) {
    struct trainer *trainer = of;
    while (!atomic_load(&trainer->stop)) {
        int64_t step = atomic_load(&trainer->step);
        help_wire_put_step(trainer->publisher, step);
        if (step % 100 == 0) help_wire_put_event(trainer->publisher, EVENT_CHECKPOINT, step, "x");
        atomic_store(&trainer->step, step + 1);
        if (step % (trainer->rate / 200 + 1) == 0) help_wire_sleep_ms(5);
    }
    return NULL;
}

static void start_training(struct trainer *trainer) {
    assert_int_equal(pthread_create(&trainer->thread, NULL, train, trainer), 0);
}

static void end_training(struct trainer *trainer) {
    atomic_store(&trainer->stop, true);
    pthread_join(trainer->thread, NULL);
}

/* The pyramid knows every step from 0 to `last` once. */
static void assert_whole(const struct run *run, int64_t last) {
    assert_int_equal(run->gap_steps, 0);
    assert_int_equal(run->duplicates, 0);
    assert_true(run->series.last >= last);
    for (int level = 2; level >= 0; level--) {
        const struct series_value *value;
        int64_t width = run->series.level[level].width;
        int64_t reach = width * (level == 0 ? 500 : 1000), first = last > reach ? last - reach : 0;
        for (first -= first % width; first + width <= last; first += width) {
            const struct series_bucket *bucket = series_find(&run->series, level, first, &value);
            assert_non_null(bucket);
            assert_int_equal(bucket->steps, width);
            assert_int_equal(bucket->missing, 0);
            assert_int_equal(value[METRIC_LOSS].present, width);
            assert_true(value[METRIC_LOSS].max == (float)(1.0 / (double)(1 + first)));
        }
    }
}

/* Attached in the middle while records keep coming: the run from step 0, no gap, no duplicate. */
static void attach_late(const char *bind) {
    struct trainer trainer = {.publisher = open_publisher("late", bind, 31), .rate = 2000};
    for (; trainer.step < 6000; trainer.step++) help_wire_put_step(trainer.publisher, trainer.step);
    help_wire_put_event(trainer.publisher, EVENT_CHECKPOINT, 5999, "early");
    start_training(&trainer);
    for (int i = 0; i < 5; i++) {
        struct viewer viewer;
        help_wire_watch(&viewer, publisher_address(trainer.publisher),
                        (struct feed_options){.columns = 600});
        int64_t from = trainer.step;
        UNTIL(&viewer, viewer.run.last_step >= from + 1000);
        assert_whole(&viewer.run, viewer.run.last_step);
        assert_int_equal(viewer.run.link, RUN_LIVE);
        for (int64_t step = viewer.run.last_step - 63; step <= viewer.run.last_step; step++) {
            const struct record *record = run_find_record(&viewer.run, step);
            assert_non_null(record);
            assert_true(record->tensor[30].max_abs == 0.3 + (double)step);
        }
        const struct event *oldest = run_find_event(&viewer.run, viewer.run.events - 1);
        if (viewer.run.events <= RUN_EVENTS) assert_string_equal(oldest->text, "early");
        int64_t events = 1 + (viewer.run.last_step - 6000) / 100 + 1;
        assert_in_range(viewer.run.events, events - 1, events + 1);
        help_wire_close(&viewer);
    }
    end_training(&trainer);
    publisher_close(trainer.publisher);
}

static void test_attach_late_ipc(void **state) {
    (void)state;
    attach_late(NULL);
}

static void test_attach_late_tcp(void **state) {
    (void)state;
    char address[32];
    help_wire_free_address(address);
    attach_late(address);
}

/* All records from the first, in order, although memory does not hold them any more. */
static void test_all_records(void **state) {
    (void)state;
    struct trainer trainer = {.publisher = open_recorded("all", 31), .rate = 1000};
    for (; trainer.step < 12000; trainer.step++) {
        help_wire_put_step(trainer.publisher, trainer.step);
        if (trainer.step % 1000 == 500)
            help_wire_put_event(trainer.publisher, EVENT_ALARM, trainer.step, "");
    }
    start_training(&trainer);
    struct viewer viewer;
    help_wire_watch(&viewer, publisher_address(trainer.publisher),
                    (struct feed_options){.all_records = true});
    int64_t from = trainer.step;
    UNTIL(&viewer, viewer.seen >= from + 500);
    assert_int_equal(viewer.seen, viewer.last_step + 1);
    assert_int_equal(viewer.jumps, 0);
    assert_int_equal(viewer.alarms, 12);
    assert_whole(&viewer.run, viewer.run.last_step);
    help_wire_close(&viewer);
    end_training(&trainer);
    publisher_close(trainer.publisher);
}

/* That all is there is known, not guessed: even while nothing new comes. */
static void test_caught_up(void **state) {
    (void)state;
    enum { STEPS = 3000 };
    struct publisher *publisher = open_recorded("quiet", 3);
    for (int64_t step = 0; step < STEPS; step++) help_wire_put_step(publisher, step);
    struct viewer first, second;
    help_wire_watch(&first, publisher_address(publisher), (struct feed_options){0});
    assert_false(feed_caught_up(first.feed));
    UNTIL(&first, first.run.series.last == STEPS - 1);
    help_wire_watch(&second, publisher_address(publisher),
                    (struct feed_options){.all_records = true});
    UNTIL(&second, feed_caught_up(second.feed));
    assert_int_equal(second.seen, STEPS);
    help_wire_close(&first);
    help_wire_close(&second);
    publisher_close(publisher);
}

/* Asks for these steps, too. */
static bool has_all(struct viewer *viewer, int64_t first, int64_t last) {
    feed_want(viewer->feed, first, last);
    while (first <= last && run_find_record(&viewer->run, first)) first++;
    return first > last;
}

/* Old steps in full, from memory and from the run file, only when they are looked at. */
static void test_details(void **state) {
    (void)state;
    struct publisher *publisher = open_recorded("details", 31);
    for (int64_t step = 0; step < 9000; step++) help_wire_put_step(publisher, step);
    struct viewer viewer;
    help_wire_watch(&viewer, publisher_address(publisher), (struct feed_options){0});
    UNTIL(&viewer, viewer.run.last_step == 8999 && run_find_record(&viewer.run, 8999 - 63));
    assert_null(run_find_record(&viewer.run, 100));
    const int64_t wanted[] = {100, 4000, 8500, 0};
    for (int i = 0; i < 4; i++) {
        UNTIL(&viewer, has_all(&viewer, wanted[i], wanted[i] + 150));
        for (int64_t step = wanted[i]; step <= wanted[i] + 150; step++) {
            const struct record *record = run_find_record(&viewer.run, step);
            if (!record) fail_msg("step %lld", (long long)step);
            assert_true(record->tensor[30].max_abs == 0.3 + (double)step);
        }
    }
    feed_want(viewer.feed, 8990, 20000);
    for (int i = 0; i < 5; i++) help_wire_look(&viewer);
    assert_int_equal(viewer.run.gap_steps, 0);
    help_wire_close(&viewer);
    publisher_close(publisher);
}

/* What the trainer dropped is a gap for the reader, counted to the step. */
static void test_drops_are_gaps(void **state) {
    (void)state;
    struct hello hello;
    struct publisher *publisher;
    struct viewer viewer;
    help_wire_hello(&hello, "drops", 0);
    struct publisher_options options = {.hello = &hello, .queue = 16};
    assert_int_equal(publisher_open(&publisher, &options, NULL), 0);
    help_wire_watch(&viewer, publisher_address(publisher), (struct feed_options){0});
    help_wire_put_step(publisher, 0);
    UNTIL(&viewer, viewer.run.series.last == 0);
    int64_t dropped = 0, step = 1;
    for (; dropped < 50; step++) {
        struct record *record = publisher_begin(publisher);
        if (!record)
            dropped++;
        else {
            help_wire_fill(record, step);
            publisher_submit(publisher);
        }
    }
    struct record *record;
    for (; !(record = publisher_begin(publisher)); step++) {
        dropped++;
        help_wire_sleep_ms(1);
    }
    help_wire_fill(record, step);
    publisher_submit(publisher);
    UNTIL(&viewer, viewer.run.series.last == step);
    assert_int_equal(viewer.run.gap_steps, dropped);
    assert_int_equal(viewer.run.duplicates, 0);
    help_wire_close(&viewer);
    publisher_close(publisher);
    hello_free(&hello);
}

static void test_two_publishers(void **state) {
    (void)state;
    struct trainer trainers[2] = {{.publisher = open_publisher("one", NULL, 0), .rate = 500},
                                  {.publisher = open_publisher("two", NULL, 3), .rate = 500}};
    struct viewer viewers[2];
    for (int i = 0; i < 2; i++) {
        start_training(&trainers[i]);
        help_wire_watch(&viewers[i], publisher_address(trainers[i].publisher),
                        (struct feed_options){0});
    }
    for (int i = 0; i < 2; i++) UNTIL(&viewers[i], viewers[i].run.last_step > 500);
    assert_string_equal(viewers[0].run.hello.run_id, "one");
    assert_string_equal(viewers[1].run.hello.run_id, "two");
    assert_int_equal(viewers[1].run.hello.schema.tensors, 3);
    for (int i = 0; i < 2; i++) {
        assert_whole(&viewers[i].run, viewers[i].run.last_step);
        end_training(&trainers[i]);
        help_wire_put_event(trainers[i].publisher, EVENT_END, trainers[i].step, "done");
        publisher_close(trainers[i].publisher);
        UNTIL(&viewers[i], viewers[i].run.link == RUN_ENDED);
        help_wire_close(&viewers[i]);
    }
}

/* Another process: this program again, in one of the roles below. */
static pid_t spawn(const char *role, const char *first, const char *second) {
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execl("/proc/self/exe", "test_wire", role, first, second, (char *)NULL);
        _exit(127);
    }
    return pid;
}

/* Publishes for ever. */
static int be_trainer(const char *run_id, const char *bind) {
    int rate = strcmp(run_id, "quick") == 0 ? 2000 : 500;
    struct trainer trainer = {.publisher = open_publisher(run_id, *bind ? bind : NULL, 31),
                              .rate = rate};
    train(&trainer);
    return 0;
}

/* Watches until it knows of this step, and tells by its exit whether anything is missing. */
static int be_viewer(const char *address, const char *step) {
    struct viewer viewer;
    help_wire_watch(&viewer, address, (struct feed_options){0});
    while (viewer.run.series.last < atoll(step)) {
        help_wire_look(&viewer);
        if (viewer.result < 0) return 3;
    }
    bool right = viewer.run.gap_steps == 0 && viewer.run.duplicates == 0;
    if (!right) {
        fprintf(stderr, "viewer: gaps %lld, duplicates %lld\n", (long long)viewer.run.gap_steps,
                (long long)viewer.run.duplicates);
    }
    help_wire_close(&viewer);
    return right ? 0 : 1;
}

static void end_process(pid_t pid) {
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void test_killed_is_dead(void **state) {
    (void)state;
    struct viewer viewer;
    char address[128];
    snprintf(address, sizeof address, "ipc://%s/victim", folder);
    help_wire_watch(&viewer, address, (struct feed_options){0}); /* before it is there */
    help_wire_look(&viewer);
    assert_int_equal(viewer.run.link, RUN_CONNECTING);
    pid_t pid = spawn("trainer", "victim", "");
    UNTIL(&viewer, viewer.run.last_step > 50 && viewer.run.link == RUN_LIVE);
    int64_t seen_ns = help_wire_now_ns();
    UNTIL(&viewer,
          help_wire_now_ns() > seen_ns + INT64_C(1000000000)); /* it has looked at the lock */
    end_process(pid);
    UNTIL(&viewer, viewer.run.link == RUN_DEAD);
    pid = spawn("trainer", "victim", ""); /* under the same name, from its beginning */
    UNTIL(&viewer, viewer.run.known && viewer.run.link == RUN_LIVE && viewer.run.last_step > 50 &&
                       viewer.run.hello.pid == pid);
    assert_whole(&viewer.run, viewer.run.last_step);
    end_process(pid);
    help_wire_close(&viewer);
}

/* One that was never heard of, too. */
static void test_dead_before_its_hello(void **state) {
    (void)state;
    struct viewer viewer;
    struct endpoint endpoint;
    struct endpoint_lock *lock;
    char address[128];
    snprintf(address, sizeof address, "ipc://%s/stillborn", folder);
    assert_int_equal(endpoint_claim(&lock, &endpoint, "stillborn", NULL), 0);
    help_wire_watch(&viewer, address, (struct feed_options){0});
    help_wire_look(&viewer);
    assert_int_equal(viewer.run.link, RUN_CONNECTING);
    endpoint_release(lock);
    UNTIL(&viewer, viewer.run.link == RUN_DEAD);
    help_wire_close(&viewer);
}

static void test_stopped_is_silent(void **state) {
    (void)state;
    struct viewer viewer;
    char address[32];
    help_wire_free_address(address);
    pid_t pid = spawn("trainer", "sleeper", address);
    help_wire_watch(&viewer, address, (struct feed_options){0});
    UNTIL(&viewer, viewer.run.last_step > 50);
    kill(pid, SIGSTOP);
    UNTIL(&viewer, viewer.run.link == RUN_SILENT);
    kill(pid, SIGCONT);
    int64_t last = viewer.run.last_step;
    UNTIL(&viewer, viewer.run.link == RUN_LIVE && viewer.run.last_step > last + 100);
    assert_whole(&viewer.run, viewer.run.last_step);
    end_process(pid);
    UNTIL(&viewer, viewer.run.link == RUN_SILENT);
    help_wire_close(&viewer);
}

static void test_restart_at_the_same_address(void **state) {
    (void)state;
    struct viewer viewer;
    char address[32];
    help_wire_free_address(address);
    pid_t pid = spawn("trainer", "before", address);
    help_wire_watch(&viewer, address, (struct feed_options){0});
    UNTIL(&viewer, viewer.run.last_step > 200);
    assert_string_equal(viewer.run.hello.run_id, "before");
    end_process(pid);
    pid = spawn("trainer", "after", address);
    UNTIL(&viewer, viewer.run.known && strcmp(viewer.run.hello.run_id, "after") == 0 &&
                       viewer.run.last_step > 100);
    assert_whole(&viewer.run, viewer.run.last_step);
    end_process(pid);
    help_wire_close(&viewer);
}

/* A reader that is stopped for a while costs the trainer little memory, and then knows the whole
 * run. */
static void test_stopped_reader(void **state) {
    (void)state;
    struct viewer witness;
    char address[128];
    snprintf(address, sizeof address, "ipc://%s/quick", folder);
    pid_t trainer = spawn("trainer", "quick", ""), reader = spawn("viewer", address, "12000");
    help_wire_watch(&witness, address, (struct feed_options){0});
    UNTIL(&witness, witness.run.series.last >= 2000);
    kill(reader, SIGSTOP);
    size_t before = help_wire_memory(trainer);
    UNTIL(&witness, witness.run.series.last >= 10000);
    size_t after = help_wire_memory(trainer);
    kill(reader, SIGCONT);
    int status;
    assert_int_equal(waitpid(reader, &status, 0), reader);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    UNTIL(&witness, witness.run.series.last >= 12000);
    assert_whole(&witness.run, witness.run.last_step);
    if (help_wire_memory_counts()) assert_true(after < before + (2 << 20));
    end_process(trainer);
    help_wire_close(&witness);
}

int main(int argc, char **argv) {
    if (argc == 4 && strcmp(argv[1], "trainer") == 0) return be_trainer(argv[2], argv[3]);
    if (argc == 4 && strcmp(argv[1], "viewer") == 0) return be_viewer(argv[2], argv[3]);
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_attach_late_ipc, enter, leave),
        cmocka_unit_test_setup_teardown(test_attach_late_tcp, enter, leave),
        cmocka_unit_test_setup_teardown(test_all_records, enter, leave),
        cmocka_unit_test_setup_teardown(test_caught_up, enter, leave),
        cmocka_unit_test_setup_teardown(test_details, enter, leave),
        cmocka_unit_test_setup_teardown(test_drops_are_gaps, enter, leave),
        cmocka_unit_test_setup_teardown(test_two_publishers, enter, leave),
        cmocka_unit_test_setup_teardown(test_killed_is_dead, enter, leave),
        cmocka_unit_test_setup_teardown(test_dead_before_its_hello, enter, leave),
        cmocka_unit_test_setup_teardown(test_stopped_is_silent, enter, leave),
        cmocka_unit_test_setup_teardown(test_restart_at_the_same_address, enter, leave),
        cmocka_unit_test_setup_teardown(test_stopped_reader, enter, leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
