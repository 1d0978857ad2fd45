/* A feed and publishers that lose, lie or know little. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include <cmocka.h>

#include "shared/store/codec.h"
#include "shared/wire/message.h"
#include "tests/help_wire.h"

enum { STEPS_MAX = 4096 };

#define UNTIL(viewer, condition)             HELP_WIRE_UNTIL(viewer, condition, (void)0)
#define SERVE_UNTIL(viewer, fake, condition) HELP_WIRE_UNTIL(viewer, condition, serve(fake))

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

/* A publisher in the hands of the test. */
struct fake {
    void *context, *pub, *router; /* router NULL: it has no history */
    char address[128];
    struct hello hello;
    struct record record;
    struct buffer body;
    bool kept[STEPS_MAX];     /* steps that it can tell again; seq = step + 1 */
    uint64_t seq;             /* newest */
    bool deaf;                /* answers with errors, but for the hello */
    int asked[ENDPOINT_SIZE]; /* requests by their first letter */
    struct message request, reply;
};

static void open_fake(struct fake *fake, bool with_history) {
    char text[160];
    memset(fake, 0, sizeof *fake);
    help_wire_hello(&fake->hello, "fake", 2);
    record_init(&fake->record, 2);
    snprintf(fake->address, sizeof fake->address, "ipc://%s/fake", folder);
    fake->context = zmq_ctx_new();
    fake->pub = zmq_socket(fake->context, ZMQ_PUB);
    snprintf(text, sizeof text, "%s.live", fake->address);
    assert_int_equal(zmq_bind(fake->pub, text), 0);
    if (!with_history) return;
    fake->router = zmq_socket(fake->context, ZMQ_ROUTER);
    snprintf(text, sizeof text, "%s.ctl", fake->address);
    assert_int_equal(zmq_bind(fake->router, text), 0);
}

static void close_fake(struct fake *fake) {
    int none = 0;
    message_free(&fake->request);
    zmq_setsockopt(fake->pub, ZMQ_LINGER, &none, sizeof none);
    zmq_close(fake->pub);
    if (fake->router) zmq_setsockopt(fake->router, ZMQ_LINGER, &none, sizeof none);
    if (fake->router) zmq_close(fake->router);
    zmq_ctx_term(fake->context);
    buffer_free(&fake->body);
    record_free(&fake->record);
    hello_free(&fake->hello);
}

static void say(struct fake *fake, const char *topic, const void *body, size_t size) {
    zmq_send(fake->pub, topic, strlen(topic), ZMQ_SNDMORE);
    zmq_send(fake->pub, body, size, 0);
}

static void say_hello(struct fake *fake) {
    char topic[MESSAGE_TOPIC_SIZE];
    codec_encode_hello(&fake->body, &fake->hello);
    say(fake, topic_format(topic, fake->hello.run_id, "hello"), fake->body.data, fake->body.size);
}

static void encode_step(struct fake *fake, int64_t step, uint64_t seq) {
    record_clear(&fake->record);
    help_wire_fill(&fake->record, step);
    fake->record.schema_id = fake->hello.schema.id;
    fake->record.seq = seq;
    assert_int_equal(codec_encode_record(&fake->body, &fake->hello.schema, &fake->record), 0);
}

static void say_step(struct fake *fake, int64_t step, uint64_t seq) {
    char topic[MESSAGE_TOPIC_SIZE];
    encode_step(fake, step, seq);
    if (seq > fake->seq) fake->seq = seq;
    say(fake, topic_format(topic, fake->hello.run_id, "step"), fake->body.data, fake->body.size);
}

/* Steps first..last with seq = step + 1, kept and said; or only kept, or neither. */
enum said { SAID = 1, KEPT = 2 };
static void steps(struct fake *fake, int64_t first, int64_t last, int how) {
    for (int64_t step = first; step <= last; step++) {
        if (how & KEPT) fake->kept[step] = true;
        if (how & SAID)
            say_step(fake, step, (uint64_t)step + 1);
        else
            fake->seq = (uint64_t)step + 1;
    }
}

static void answer_steps(struct fake *fake, const struct codec_request *request) {
    for (int64_t step = request->first < 0 ? 0 : request->first; step < STEPS_MAX; step++) {
        if (!fake->kept[step] || (request->last >= 0 && step > request->last)) continue;
        encode_step(fake, step, (uint64_t)step + 1);
        message_add(&fake->reply, fake->body.data, fake->body.size);
    }
}

/* Answers one request. */
static void serve(struct fake *fake) {
    struct codec_request request;
    struct codec_status status;
    char kind[32] = "";
    if (!fake->router || !message_receive(&fake->request, fake->router)) return;
    assert_int_equal(fake->request.frames, 4);
    snprintf(kind, sizeof kind, "%.*s", (int)message_size(&fake->request, 1) - 1,
             (const char *)message_data(&fake->request, 1));
    fake->asked[(int)kind[0]]++;
    assert_int_equal(codec_decode_request(message_data(&fake->request, 3),
                                          message_size(&fake->request, 3), &request, NULL),
                     0);
    bool refuses = fake->deaf && strcmp(kind, "hello") != 0;
    codec_status_init(&status);
    status.id = request.id;
    status.seq = fake->seq;
    codec_encode_status(&fake->body, &status);
    message_add(&fake->reply, message_data(&fake->request, 0), message_size(&fake->request, 0));
    message_add(&fake->reply, refuses ? "error" : kind, strlen(refuses ? "error" : kind));
    message_add(&fake->reply, fake->hello.run_id, strlen(fake->hello.run_id));
    message_add(&fake->reply, fake->body.data, fake->body.size);
    if (strcmp(kind, "hello") == 0) {
        codec_encode_hello(&fake->body, &fake->hello);
        message_add(&fake->reply, fake->body.data, fake->body.size);
    }
    if (strcmp(kind, "steps") == 0 && !refuses) answer_steps(fake, &request);
    message_send(&fake->reply, fake->router);
}

/* Joined to a run of ten steps. */
static void join(struct viewer *viewer, struct fake *fake, struct feed_options options) {
    help_wire_watch(viewer, fake->address, options);
    steps(fake, 0, 8, KEPT);
    SERVE_UNTIL(viewer, fake, viewer->run.known && fake->asked['e'] > 0);
    do { /* until the publisher knows of the subscription: what went before is asked for */
        steps(fake, 9, 9, KEPT | SAID);
        int64_t end_ns = help_wire_now_ns() + INT64_C(50000000);
        while (help_wire_now_ns() < end_ns && viewer->run.last_step < 9) {
            serve(fake);
            help_wire_look(viewer);
        }
    } while (viewer->run.last_step < 9);
}

static void test_lost_on_the_way_is_asked_for(void **state) {
    (void)state;
    struct fake fake;
    struct viewer viewer;
    open_fake(&fake, true);
    join(&viewer, &fake, (struct feed_options){0});
    int64_t gaps = viewer.run.gap_steps;
    steps(&fake, 10, 19, KEPT | SAID);
    steps(&fake, 20, 24, KEPT);
    steps(&fake, 25, 30, KEPT | SAID);
    SERVE_UNTIL(&viewer, &fake, viewer.run.series.last == 30);
    assert_int_equal(viewer.run.gap_steps, gaps);
    assert_int_equal(viewer.run.duplicates, 0);
    for (int64_t step = 9; step <= 30; step++) assert_non_null(run_find_record(&viewer.run, step));
    steps(&fake, 31, 34, KEPT); /* the newest are lost: only the beat tells */
    codec_encode_beat(&fake.body, fake.seq, 0);
    say(&fake, "nantop/1/fake/beat", fake.body.data, fake.body.size);
    SERVE_UNTIL(&viewer, &fake, viewer.run.series.last == 34);
    assert_int_equal(viewer.run.gap_steps, gaps);
    help_wire_close(&viewer);
    close_fake(&fake);
}

static void test_what_nobody_has_is_a_gap(void **state) {
    (void)state;
    struct fake fake;
    struct viewer viewer;
    open_fake(&fake, true);
    join(&viewer, &fake, (struct feed_options){0});
    int64_t gaps = viewer.run.gap_steps;
    steps(&fake, 10, 14, 0);
    steps(&fake, 15, 15, KEPT | SAID);
    SERVE_UNTIL(&viewer, &fake, viewer.run.series.last == 15);
    assert_int_equal(viewer.run.gap_steps, gaps + 5);
    fake.deaf = true; /* no answers any more: live goes on */
    steps(&fake, 16, 17, 0);
    steps(&fake, 18, 20, SAID);
    SERVE_UNTIL(&viewer, &fake, viewer.run.series.last == 20);
    assert_int_equal(viewer.run.gap_steps, gaps + 7);
    assert_int_equal(viewer.run.duplicates, 0);
    help_wire_close(&viewer);
    close_fake(&fake);
}

/* Every tenth step, and an event that a reader with its own thresholds does not tell: no gap. */
static void test_untold_events_are_no_gap(void **state) {
    (void)state;
    struct fake fake;
    struct viewer viewer;
    struct detector_limits limits;
    char topic[MESSAGE_TOPIC_SIZE];
    detector_limits_init(&limits);
    open_fake(&fake, false);
    help_wire_watch(&viewer, fake.address, (struct feed_options){.rejudge = &limits});
    UNTIL(&viewer, (say_hello(&fake), viewer.run.known));
    uint64_t seq = 0;
    UNTIL(&viewer, (say_step(&fake, 10, ++seq), viewer.run.series.last >= 0));
    UNTIL(&viewer, viewer.run.seq == seq);
    struct event event;
    event_init(&event, EVENT_NOTICE);
    event.seq = seq + 1;
    event.step = 10;
    codec_encode_event(&fake.body, &event);
    say(&fake, topic_format(topic, "fake", "event"), fake.body.data, fake.body.size);
    say_step(&fake, 20, seq + 2);
    UNTIL(&viewer, viewer.run.series.last == 20);
    assert_int_equal(viewer.run.gap_steps, 0);
    assert_null(run_find_event(&viewer.run, 0));
    help_wire_close(&viewer);
    close_fake(&fake);
}

static void test_out_of_order_and_twice(void **state) {
    (void)state;
    struct fake fake;
    struct viewer viewer;
    open_fake(&fake, true);
    join(&viewer, &fake, (struct feed_options){0});
    int64_t gaps = viewer.run.gap_steps;
    const int64_t order[] = {10, 11, 11, 14, 13, 12, 12, 10, 15};
    for (int64_t step = 10; step <= 15; step++) fake.kept[step] = true;
    for (int i = 0; i < 9; i++) say_step(&fake, order[i], (uint64_t)order[i] + 1);
    SERVE_UNTIL(&viewer, &fake, viewer.last_step == 15);
    assert_int_equal(viewer.run.gap_steps, gaps);
    for (int64_t step = 10; step <= 15; step++) assert_non_null(run_find_record(&viewer.run, step));
    help_wire_close(&viewer);
    close_fake(&fake);
}

/* A publisher that only publishes: no history, no seq, no band. */
static void test_publisher_without_history(void **state) {
    (void)state;
    struct fake fake;
    struct viewer viewer;
    open_fake(&fake, false);
    help_wire_watch(&viewer, fake.address, (struct feed_options){0});
    UNTIL(&viewer, (say_hello(&fake), viewer.run.known));
    int64_t step = 1;
    for (; viewer.run.series.last < 0 || step < 50; step++) {
        say_step(&fake, step, 0);
        help_wire_look(&viewer);
    }
    UNTIL(&viewer, viewer.run.series.last == step - 1);
    assert_int_equal(viewer.run.link, RUN_LIVE);
    assert_int_equal(viewer.run.gap_steps, 0);
    char topic[MESSAGE_TOPIC_SIZE];
    codec_encode_event(&fake.body, &(struct event){.kind = EVENT_END, .step = step});
    say(&fake, topic_format(topic, "fake", "event"), fake.body.data, fake.body.size);
    UNTIL(&viewer, viewer.run.link == RUN_ENDED);
    help_wire_close(&viewer);
    close_fake(&fake);
}

static void test_seqs_without_history(void **state) {
    (void)state;
    struct fake fake;
    struct viewer viewer;
    open_fake(&fake, false);
    help_wire_watch(&viewer, fake.address, (struct feed_options){0});
    UNTIL(&viewer, (say_hello(&fake), viewer.run.known));
    int64_t step = 0;
    UNTIL(&viewer,
          (say_step(&fake, step, (uint64_t)step + 1), step++, viewer.run.series.last >= 0));
    UNTIL(&viewer, viewer.run.series.last == step - 1);
    assert_int_equal(viewer.run.gap_steps, 0);
    say_step(&fake, step + 3, (uint64_t)step + 4);
    UNTIL(&viewer, viewer.run.series.last == step + 3);
    assert_int_equal(viewer.run.gap_steps, 3);
    help_wire_close(&viewer);
    close_fake(&fake);
}

static void test_other_version_is_told(void **state) {
    (void)state;
    struct fake fake;
    struct viewer viewer;
    open_fake(&fake, false);
    help_wire_watch(&viewer, fake.address, (struct feed_options){0});
    UNTIL(&viewer, (say(&fake, "nantop/2/new/step", "\x80", 1), viewer.result < 0));
    assert_non_null(strstr(viewer.error.text, "version 2"));
    assert_non_null(strstr(viewer.error.text, fake.address));
    help_wire_close(&viewer);
    close_fake(&fake);
}

static void test_unreadable_hello_is_told(void **state) {
    (void)state;
    struct fake fake;
    struct viewer viewer;
    open_fake(&fake, false);
    help_wire_watch(&viewer, fake.address, (struct feed_options){0});
    UNTIL(&viewer,
          (say(&fake, "nantop/1/new/hello", "\x81\xa6run_id\xa3new", 12), viewer.result < 0));
    assert_non_null(strstr(viewer.error.text, "schema"));
    help_wire_close(&viewer);
    close_fake(&fake);
}

/* Steps that do not fit the hello: said, once it is clear that no other ones come. */
static void test_unreadable_steps_are_told(void **state) {
    (void)state;
    struct fake fake;
    struct viewer viewer;
    open_fake(&fake, false);
    help_wire_watch(&viewer, fake.address, (struct feed_options){0});
    UNTIL(&viewer, (say_hello(&fake), viewer.run.known));
    UNTIL(&viewer, (say(&fake, "nantop/1/fake/step", "\x82\xa4step\x01\xa7metrics\x90", 16),
                    viewer.result < 0));
    assert_non_null(strstr(viewer.error.text, "metrics"));
    help_wire_close(&viewer);
    close_fake(&fake);
}

static void say_garbage(struct fake *fake) {
    const char *topics[] = {"nantop/1/fake/step",
                            "nantop/1/fake/event",
                            "nantop/1/fake/beat",
                            "nantop/1/fake/hello",
                            "nantop/1/fake/bucket",
                            "nantop/1/fake/",
                            "nantop/1/fake",
                            "nantop/1//step",
                            "nantop/",
                            "nantop/x",
                            "nantop/1/../step",
                            "nantop/1/fake/step/step",
                            "nantop/1/fake/what"};
    char bytes[64];
    size_t size = (size_t)rand() % sizeof bytes;
    for (size_t b = 0; b < size; b++) bytes[b] = (char)rand();
    say(fake, topics[rand() % 13], bytes, size);
    if (rand() % 8 == 0) zmq_send(fake->pub, "nantop/1/fake/step", 18, 0);
    if (fake->router && fake->request.frames > 0 &&
        rand() % 4 == 0) { /* to the reader, as if it had asked */
        message_add(&fake->reply, message_data(&fake->request, 0), message_size(&fake->request, 0));
        for (int i = rand() % 6; i > 0; i--)
            message_add(&fake->reply, bytes, (size_t)rand() % (size + 1));
        message_send(&fake->reply, fake->router);
    }
}

static void test_garbage_is_survived(void **state) {
    (void)state;
    struct fake fake;
    struct viewer viewer;
    open_fake(&fake, true);
    join(&viewer, &fake, (struct feed_options){0});
    int64_t gaps = viewer.run.gap_steps;
    srand(2);
    for (int64_t step = 10; step < 600; step++) {
        steps(&fake, step, step, KEPT | SAID);
        for (int i = 0; i < 5; i++) say_garbage(&fake);
        serve(&fake);
        help_wire_look(&viewer);
        if (viewer.result < 0) fail_msg("%s", viewer.error.text);
    }
    SERVE_UNTIL(&viewer, &fake, viewer.run.series.last == 599);
    assert_int_equal(viewer.run.gap_steps, gaps);
    assert_string_equal(viewer.run.hello.run_id, "fake");
    help_wire_close(&viewer);
    close_fake(&fake);
}

static void test_new_schema_starts_anew(void **state) {
    (void)state;
    struct fake fake;
    struct viewer viewer;
    open_fake(&fake, true);
    join(&viewer, &fake, (struct feed_options){0});
    struct schema_tensor tensor = {
        .name = "late", .role = ROLE_LOGITS, .stage = STAGE_FORWARD, .dims = 1, .shape = {10}};
    schema_add_tensor(&fake.hello.schema, &tensor);
    schema_seal(&fake.hello.schema);
    record_free(&fake.record);
    record_init(&fake.record, 3);
    memset(fake.kept, 0, sizeof fake.kept);
    for (int64_t step = 10;
         viewer.run.hello.schema.tensors != 3 || viewer.run.series.last < step - 1; step++) {
        steps(&fake, step, step, KEPT | SAID); /* without a hello: the reader asks for it */
        serve(&fake);
        help_wire_look(&viewer);
        assert_true(step < STEPS_MAX - 1);
    }
    assert_int_equal(run_find_record(&viewer.run, viewer.run.last_step)->tensors, 3);
    help_wire_close(&viewer);
    close_fake(&fake);
}

/* Published by python3 after docs/protocol.md, with what our own publisher does and without. */
static void watch_foreign(const char *kind) {
    struct viewer viewer;
    char address[128];
    snprintf(address, sizeof address, "ipc://%s/foreign", folder);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execl("/usr/bin/python3", "python3", "tests/foreign_publisher.py", address, kind,
              (char *)NULL);
        _exit(127);
    }
    help_wire_watch(&viewer, address, (struct feed_options){0});
    UNTIL(&viewer, viewer.run.link == RUN_ENDED || waitpid(pid, NULL, WNOHANG) == pid);
    assert_int_equal(viewer.run.link, RUN_ENDED);
    assert_string_equal(viewer.run.hello.program, "foreign");
    int own = schema_find_metric(&viewer.run.hello.schema, "my_metric");
    assert_true(own >= METRIC_COUNT);
    const struct record *record = run_find_record(&viewer.run, viewer.run.last_step);
    assert_non_null(record);
    assert_true(record->metric[own] == (double)viewer.run.last_step / 2);
    assert_int_equal(record->tensors, 2);
    assert_int_equal(record->tensor[1].nan, 4);
    assert_int_equal(record->tensor[1].bad_index, 17);
    assert_int_equal(record->band, BAND_NONFINITE);
    assert_int_equal(viewer.run.worst, BAND_NONFINITE);
    assert_int_equal(viewer.run.gap_steps, 0);
    assert_true(viewer.run.alarms >= 1);
    assert_string_equal(viewer.run.first_tensor, "fc.weight/gradient");
    if (strcmp(kind, "history") == 0) assert_int_equal(viewer.run.series.first, 0);
    kill(pid, SIGTERM);
    waitpid(pid, NULL, 0);
    help_wire_close(&viewer);
}

static void test_foreign_publisher(void **state) {
    (void)state;
    if (access("/usr/bin/python3", X_OK) != 0) skip();
    watch_foreign("plain");
}

static void test_foreign_publisher_with_history(void **state) {
    (void)state;
    if (access("/usr/bin/python3", X_OK) != 0) skip();
    watch_foreign("history");
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_lost_on_the_way_is_asked_for, enter, leave),
        cmocka_unit_test_setup_teardown(test_what_nobody_has_is_a_gap, enter, leave),
        cmocka_unit_test_setup_teardown(test_untold_events_are_no_gap, enter, leave),
        cmocka_unit_test_setup_teardown(test_out_of_order_and_twice, enter, leave),
        cmocka_unit_test_setup_teardown(test_publisher_without_history, enter, leave),
        cmocka_unit_test_setup_teardown(test_seqs_without_history, enter, leave),
        cmocka_unit_test_setup_teardown(test_other_version_is_told, enter, leave),
        cmocka_unit_test_setup_teardown(test_unreadable_hello_is_told, enter, leave),
        cmocka_unit_test_setup_teardown(test_unreadable_steps_are_told, enter, leave),
        cmocka_unit_test_setup_teardown(test_garbage_is_survived, enter, leave),
        cmocka_unit_test_setup_teardown(test_new_schema_starts_anew, enter, leave),
        cmocka_unit_test_setup_teardown(test_foreign_publisher, enter, leave),
        cmocka_unit_test_setup_teardown(test_foreign_publisher_with_history, enter, leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
