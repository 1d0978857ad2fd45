#include "tests/help_wire.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include <cmocka.h>

void help_wire_enter(char *folder, size_t size) {
    snprintf(folder, size, "/tmp/nantop-wire.XXXXXX");
    if (!mkdtemp(folder) || setenv("NANTOP_RUNTIME_DIR", folder, 1) < 0) abort();
}

void help_wire_leave(const char *folder) {
    char command[256];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    if (system(command) != 0) abort();
}

void help_wire_hello(struct hello *hello, const char *run_id, int tensors) {
    hello_init(hello);
    snprintf(hello->run_id, sizeof hello->run_id, "%s", run_id);
    snprintf(hello->name, sizeof hello->name, "%s", run_id);
    snprintf(hello->host, sizeof hello->host, "here");
    hello->pid = getpid();
    hello->started_ns = help_wire_now_ns();
    schema_add_metric(&hello->schema, "loss");
    schema_add_metric(&hello->schema, "grad_norm");
    for (int i = 0; i < tensors; i++) {
        struct schema_tensor tensor = {
            .role = ROLE_PARAMETER, .stage = STAGE_STEP, .dims = 1, .shape = {8}};
        snprintf(tensor.name, sizeof tensor.name, "layer%d.weight", i);
        schema_add_tensor(&hello->schema, &tensor);
    }
    schema_seal(&hello->schema);
}

void help_wire_fill(struct record *record, int64_t step) {
    record->step = step;
    record->mono_ns = record->wall_ns = help_wire_now_ns();
    record_set(record, METRIC_LOSS, 1.0 / (double)(1 + step));
    record_set(record, METRIC_GRAD_NORM, 2.0);
    for (int i = 0; i < record->tensors; i++) {
        record->tensor[i].count = 8;
        record->tensor[i].sum_sq = 0.1 + (double)i;
        record->tensor[i].max_abs = 0.3 + (double)step;
    }
}

struct publisher *help_wire_publish(struct publisher_options options, const char *run_id,
                                    int tensors) {
    struct hello hello;
    struct publisher *publisher = NULL;
    struct error error = {""};
    help_wire_hello(&hello, run_id, tensors);
    options.hello = &hello;
    if (options.queue == 0) options.queue = HELP_WIRE_QUEUE;
    if (options.run_file_max == 0) options.run_file_max = INT64_C(1) << 32;
    if (publisher_open(&publisher, &options, &error) < 0) fail_msg("%s", error.text);
    hello_free(&hello);
    return publisher;
}

void help_wire_put_step(struct publisher *publisher, int64_t step) {
    struct record *record = publisher_begin(publisher);
    assert_non_null(record);
    help_wire_fill(record, step);
    publisher_submit(publisher);
}

void help_wire_put_event(struct publisher *publisher, enum event_kind kind, int64_t step,
                         const char *text) {
    struct event event;
    event_init(&event, kind);
    event.step = event.onset = step;
    event.band = kind == EVENT_ALARM ? BAND_EXTREME : BAND_FINITE;
    snprintf(event.text, sizeof event.text, "%s", text);
    publisher_event(publisher, &event);
}

static void pass_on(void *user, const struct run *run, const struct record *record,
                    const struct verdict *verdict) {
    struct viewer *viewer = user;
    (void)run;
    viewer->seen++;
    viewer->jumps += viewer->last_step >= 0 && record->step != viewer->last_step + 1;
    viewer->last_step = record->step;
    viewer->alarms += verdict->alarm;
    if (record->band > viewer->worst) viewer->worst = record->band;
}

static void start_viewer(struct viewer *viewer, const char *source, struct feed_options *options) {
    memset(viewer, 0, sizeof *viewer);
    options->user = viewer;
    options->each = pass_on;
    options->now_ns = help_wire_now_ns();
    viewer->last_step = -1;
    assert_int_equal(run_init(&viewer->run, source, SERIES_BUCKETS), 0);
}

void help_wire_watch(struct viewer *viewer, const char *source, struct feed_options options) {
    int failed;
    start_viewer(viewer, source, &options);
    if (source[0] == '/') {
        failed = feed_open_file(&viewer->feed, source, &viewer->run, &options, &viewer->error);
    } else {
        viewer->context = zmq_ctx_new();
        failed = feed_open_endpoint(&viewer->feed, viewer->context, source, &viewer->run, &options,
                                    &viewer->error);
    }
    if (failed) fail_msg("%s", viewer->error.text);
}

void help_wire_watch_lines(struct viewer *viewer, int fd) {
    struct feed_options options = {0};
    start_viewer(viewer, "-", &options);
    assert_int_equal(feed_open_lines(&viewer->feed, fd, &viewer->run, &options, &viewer->error), 0);
}

void help_wire_look(struct viewer *viewer) {
    zmq_pollitem_t items[4];
    zmq_poll(items, feed_items(viewer->feed, items, 4), 5);
    viewer->result = feed_poll(viewer->feed, help_wire_now_ns(), INT64_C(20000000), &viewer->error);
}

void help_wire_close(struct viewer *viewer) {
    feed_close(viewer->feed);
    run_free(&viewer->run);
    if (viewer->context) zmq_ctx_term(viewer->context);
}

/* The port got; 0: not to be had. */
static int try_port(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    socklen_t size = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    bool got = bind(fd, (struct sockaddr *)&address, size) == 0 &&
               getsockname(fd, (struct sockaddr *)&address, &size) == 0;
    close(fd);
    return got ? ntohs(address.sin_port) : 0;
}

void help_wire_free_address(char address[32]) {
    int port;
    do port = try_port(0);
    while (port == 0 || port > 65534 || try_port(port + 1) == 0);
    snprintf(address, 32, "127.0.0.1:%d", port);
}

int64_t help_wire_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

void help_wire_sleep_ms(int ms) {
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    nanosleep(&time, NULL);
}

size_t help_wire_memory(int pid) {
    char path[64];
    size_t total = 0, resident = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", pid);
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    if (fscanf(file, "%zu %zu", &total, &resident) != 2) resident = 0;
    fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

bool help_wire_memory_counts(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return false;
#else
    return true;
#endif
}
