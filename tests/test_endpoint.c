#include "shared/wire/endpoint.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/help_wire.h"

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

static void assert_pair(const char *text, const char *history, const char *live) {
    struct endpoint endpoint;
    struct error error = {""};
    assert_int_equal(endpoint_parse(&endpoint, text, &error), 0);
    assert_string_equal(endpoint.history, history);
    assert_string_equal(endpoint.live, live);
}

static void test_parse(void **state) {
    (void)state;
    assert_pair("tcp://127.0.0.1:5570", "tcp://127.0.0.1:5570", "tcp://127.0.0.1:5571");
    assert_pair("gpu.example:1", "tcp://gpu.example:1", "tcp://gpu.example:2");
    assert_pair("localhost:65534", "tcp://127.0.0.1:65534", "tcp://127.0.0.1:65535");
    assert_pair("tcp://[::1]:5570", "tcp://[::1]:5570", "tcp://[::1]:5571");
    assert_pair("ipc:///tmp/a/b", "ipc:///tmp/a/b.ctl", "ipc:///tmp/a/b.live");
    const char *bad[] = {
        "",        "host",     "tcp://host", "tcp://:1",     "host:",
        "host:x",  "host:12x", "host:0",     "host:65535",   "host:99999999999999999999",
        "host:-1", "ho st:1",  "ipc://",     "udp://host:1", "tcp://a:1;b:2",
        "host: 1", "host:+1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct endpoint endpoint = {.history = "kept"};
        struct error error = {""};
        assert_int_equal(endpoint_parse(&endpoint, bad[i], &error), -1);
        assert_true(error.text[0] != '\0');
        assert_string_equal(endpoint.history, "kept");
    }
}

static void test_path_fits_a_socket(void **state) {
    (void)state;
    char text[160] = "ipc://";
    struct endpoint endpoint;
    memset(text + 6, 'x', 102); /* with .live and the terminator 108 */
    assert_int_equal(endpoint_parse(&endpoint, text, NULL), 0);
    text[6 + 102] = 'x';
    assert_int_equal(endpoint_parse(&endpoint, text, NULL), -1);
}

static void test_local(void **state) {
    (void)state;
    const struct {
        const char *text;
        bool local;
    } cases[] = {{"ipc:///x", true},    {"127.0.0.1:1", true},
                 {"127.9.9.9:1", true}, {"[::1]:1", true},
                 {"localhost:1", true}, {"0.0.0.0:1", false},
                 {"*:1", false},        {"[::]:1", false},
                 {"10.0.0.1:1", false}, {"127.0.0.1.evil:1", false},
                 {"eth0:1", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct endpoint endpoint;
        assert_int_equal(endpoint_parse(&endpoint, cases[i].text, NULL), 0);
        assert_int_equal(endpoint_is_local(&endpoint), cases[i].local);
    }
}

static void test_folder_is_private(void **state) {
    (void)state;
    char path[ENDPOINT_SIZE], other[80];
    struct error error = {""};
    assert_int_equal(endpoint_folder(path, sizeof path, &error), 0);
    assert_string_equal(path, folder);

    snprintf(other, sizeof other, "%s/new", folder);
    setenv("NANTOP_RUNTIME_DIR", other, 1);
    mode_t mask = umask(0);
    assert_int_equal(endpoint_folder(path, sizeof path, &error), 0);
    umask(mask);
    struct stat is;
    assert_int_equal(stat(other, &is), 0);
    assert_int_equal(is.st_mode & 0777, 0700);

    chmod(other, 0750);
    assert_int_equal(endpoint_folder(path, sizeof path, &error), -1);
    assert_non_null(strstr(error.text, other));
    chmod(other, 0700);
    char link[100];
    snprintf(link, sizeof link, "%s/link", folder);
    assert_int_equal(symlink(other, link), 0);
    setenv("NANTOP_RUNTIME_DIR", link, 1);
    assert_int_equal(endpoint_folder(path, sizeof path, &error), -1);
}

static void make_file(const char *name) {
    char path[160];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
}

static bool exists(const char *name) {
    char path[160];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

static void test_claim(void **state) {
    (void)state;
    struct endpoint_lock *lock = NULL, *second = NULL;
    struct endpoint endpoint, same;
    struct error error = {""};
    make_file("a.ctl");
    make_file("a.live");
    make_file("b.ctl");
    assert_false(endpoint_alive("a"));
    assert_int_equal(endpoint_claim(&lock, &endpoint, "a", &error), 0);
    assert_false(exists("a.ctl"));
    assert_false(exists("a.live"));
    assert_true(exists("b.ctl"));
    assert_true(endpoint_alive("a"));
    assert_int_equal(endpoint_of_run(&same, "a", &error), 0);
    assert_string_equal(endpoint.live, same.live);

    assert_int_equal(endpoint_claim(&second, &same, "a", &error), -1);
    assert_non_null(strstr(error.text, "alive"));
    make_file("a.ctl");
    endpoint_release(lock);
    assert_false(exists("a.ctl"));
    assert_false(exists("a.lock"));
    assert_false(endpoint_alive("a"));
    assert_int_equal(endpoint_claim(&lock, &endpoint, "a", &error), 0);
    endpoint_release(lock);
    endpoint_release(NULL);
    assert_int_equal(endpoint_claim(&lock, &endpoint, "../a", &error), -1);
    assert_int_equal(endpoint_claim(&lock, &endpoint, "", &error), -1);
    assert_false(endpoint_alive("../a"));
}

/* A process that claims `id` and stays until it is killed. */
static pid_t claim_elsewhere(const char *id) {
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct endpoint_lock *lock;
        struct endpoint endpoint;
        if (endpoint_claim(&lock, &endpoint, id, NULL) < 0 || write(ready[1], "x", 1) != 1)
            _exit(1);
        for (;;) pause();
    }
    char byte;
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

static void test_list_and_the_dead(void **state) {
    (void)state;
    char ids[ENDPOINT_RUNS_MAX][RECORD_ID_SIZE];
    struct error error = {""};
    assert_int_equal(endpoint_list(ids, ENDPOINT_RUNS_MAX, &error), 0);
    pid_t zoe = claim_elsewhere("zoe"), adam = claim_elsewhere("adam");
    make_file("zoe.ctl");
    make_file("stale.lock");
    make_file("stale.live");
    make_file("..lock");
    make_file("unrelated");
    assert_int_equal(endpoint_list(ids, ENDPOINT_RUNS_MAX, &error), 2);
    assert_string_equal(ids[0], "adam");
    assert_string_equal(ids[1], "zoe");
    assert_int_equal(endpoint_list(ids, 1, &error), 1);
    assert_true(exists("zoe.ctl"));
    assert_false(exists("stale.lock"));
    assert_false(exists("stale.live"));
    assert_true(exists("unrelated"));

    kill(zoe, SIGKILL);
    waitpid(zoe, NULL, 0);
    assert_false(endpoint_alive("zoe"));
    assert_true(endpoint_alive("adam"));
    assert_int_equal(endpoint_list(ids, ENDPOINT_RUNS_MAX, &error), 1);
    assert_false(exists("zoe.ctl"));
    assert_false(exists("zoe.lock"));
    kill(adam, SIGKILL);
    waitpid(adam, NULL, 0);
}

/* Readers that ask all the time do not keep a trainer from its lock. */
static void test_claim_among_readers(void **state) {
    (void)state;
    pid_t reader[2];
    for (int i = 0; i < 2; i++) {
        reader[i] = fork();
        if (reader[i] == 0) {
            char ids[4][RECORD_ID_SIZE];
            for (;;) {
                endpoint_list(ids, 4, NULL);
                endpoint_alive("busy");
            }
        }
    }
    for (int i = 0; i < 200; i++) {
        struct endpoint_lock *lock;
        struct endpoint endpoint;
        struct error error = {""};
        int rc = endpoint_claim(&lock, &endpoint, "busy", &error);
        if (rc < 0) print_error("%s\n", error.text);
        assert_int_equal(rc, 0);
        assert_true(exists("busy.lock"));
        assert_true(endpoint_alive("busy"));
        endpoint_release(lock);
    }
    for (int i = 0; i < 2; i++) {
        kill(reader[i], SIGKILL);
        waitpid(reader[i], NULL, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_path_fits_a_socket),
        cmocka_unit_test(test_local),
        cmocka_unit_test_setup_teardown(test_folder_is_private, enter, leave),
        cmocka_unit_test_setup_teardown(test_claim, enter, leave),
        cmocka_unit_test_setup_teardown(test_list_and_the_dead, enter, leave),
        cmocka_unit_test_setup_teardown(test_claim_among_readers, enter, leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
