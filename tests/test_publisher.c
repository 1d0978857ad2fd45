#include "shared/wire/publisher.h"

#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "shared/store/codec.h"
#include "shared/store/runfile.h"
#include "shared/wire/endpoint.h"
#include "shared/wire/message.h"
#include "tests/help_wire.h"

static char folder[64];

/* A reader made of nothing but sockets. */
struct reader {
    void *context, *sub, *dealer;
    struct hello hello;
    struct message message;
    struct topic topic;
};

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

static void ask(struct reader *reader, const char *kind, struct codec_request request) {
    struct buffer body = {0};
    assert_int_equal(codec_encode_request(&body, &request), 0);
    assert_int_equal(zmq_send(reader->dealer, kind, strlen(kind), ZMQ_SNDMORE), strlen(kind));
    zmq_send(reader->dealer, reader->hello.run_id, strlen(reader->hello.run_id), ZMQ_SNDMORE);
    zmq_send(reader->dealer, body.data, body.size, 0);
    buffer_free(&body);
}

static void wait_on(struct reader *reader, void *socket) {
    int64_t end = help_wire_now_ns() + HELP_WIRE_PATIENCE_MS * INT64_C(1000000);
    while (!message_receive(&reader->message, socket)) {
        if (help_wire_now_ns() > end) fail_msg("nothing came");
        zmq_pollitem_t item = {.socket = socket, .events = ZMQ_POLLIN};
        zmq_poll(&item, 1, 100);
    }
}

/* The status of the next reply; its bodies stand in message.frame[3...]. */
static struct codec_status answer(struct reader *reader, const char *kind) {
    struct codec_status status;
    struct error error = {""};
    wait_on(reader, reader->dealer);
    if (!message_is(&reader->message, 0, kind)) {
        fail_msg("not %s but %.*s", kind, (int)message_size(&reader->message, 0),
                 (const char *)message_data(&reader->message, 0));
    }
    assert_int_equal(codec_decode_status(message_data(&reader->message, 2),
                                         message_size(&reader->message, 2), &status, &error),
                     0);
    return status;
}

static struct codec_status ask_range(struct reader *reader, const char *request, int64_t first,
                                     int64_t last) {
    char kind[16];
    snprintf(kind, sizeof kind, "%.*s", (int)strlen(request) - 1, request);
    ask(reader, request,
        (struct codec_request){.id = 7, .level = -1, .first = first, .last = last});
    struct codec_status status = answer(reader, kind);
    assert_int_equal(status.id, 7);
    return status;
}

static void open_reader(struct reader *reader, const char *address) {
    struct endpoint endpoint;
    struct error error = {""};
    memset(reader, 0, sizeof *reader);
    hello_init(&reader->hello);
    assert_int_equal(endpoint_parse(&endpoint, address, &error), 0);
    reader->context = zmq_ctx_new();
    reader->sub = zmq_socket(reader->context, ZMQ_SUB);
    reader->dealer = zmq_socket(reader->context, ZMQ_DEALER);
    int none = 0;
    zmq_setsockopt(reader->sub, ZMQ_LINGER, &none, sizeof none);
    zmq_setsockopt(reader->dealer, ZMQ_LINGER, &none, sizeof none);
    zmq_setsockopt(reader->sub, ZMQ_RCVHWM, &none, sizeof none);
    zmq_setsockopt(reader->sub, ZMQ_SUBSCRIBE, "nantop/1/", 9);
    assert_int_equal(zmq_connect(reader->sub, endpoint.live), 0);
    assert_int_equal(zmq_connect(reader->dealer, endpoint.history), 0);
    ask_range(reader, "hello?", -1, -1);
    if (codec_decode_hello(message_data(&reader->message, 3), message_size(&reader->message, 3),
                           &reader->hello, &error) < 0) {
        fail_msg("%s", error.text);
    }
}

static void close_reader(struct reader *reader) {
    message_free(&reader->message);
    hello_free(&reader->hello);
    zmq_close(reader->sub);
    zmq_close(reader->dealer);
    zmq_ctx_term(reader->context);
}

/* The next live message. */
static const char *listen(struct reader *reader) {
    wait_on(reader, reader->sub);
    assert_int_equal(reader->message.frames, 2);
    assert_int_equal(topic_parse(&reader->topic, message_data(&reader->message, 0),
                                 message_size(&reader->message, 0)),
                     0);
    assert_string_equal(reader->topic.run_id, reader->hello.run_id);
    return reader->topic.kind;
}

/* Waits until the publisher knows of the subscription, by what it says every 2 s at the latest. */
static void hear(struct reader *reader) {
    while (strcmp(listen(reader), "beat") != 0) continue;
}

static void read_record(struct reader *reader, int frame, struct record *record) {
    struct error error = {""};
    if (codec_decode_record(message_data(&reader->message, frame),
                            message_size(&reader->message, frame), &reader->hello.schema, record,
                            &error) < 0) {
        fail_msg("%s", error.text);
    }
}

static void read_event(struct reader *reader, int frame, struct event *event) {
    struct error error = {""};
    if (codec_decode_event(message_data(&reader->message, frame),
                           message_size(&reader->message, frame), event, &error) < 0) {
        fail_msg("%s", error.text);
    }
}

static bool in_run_file(const char *path, int64_t step) {
    struct runfile *file;
    struct error error = {""};
    int64_t first, last;
    uint64_t seq;
    if (runfile_open(&file, path, &error) < 0) fail_msg("%s", error.text);
    bool is =
        runfile_load_range(file, &first, &last, &seq, &error) == 0 && first <= step && step <= last;
    runfile_close(file);
    return is;
}

static int keep_first_seq(void *user, const struct record *record) {
    *(uint64_t *)user = record->seq;
    return 1;
}

static uint64_t first_seq_in(const char *path) {
    struct runfile *file;
    struct error error = {""};
    uint64_t seq = 0;
    if (runfile_open(&file, path, &error) < 0) fail_msg("%s", error.text);
    runfile_each_step(file, 0, INT64_MAX, keep_first_seq, &seq, &error);
    runfile_close(file);
    return seq;
}

/* Records and events go out in the order in which they were put in, numbered one by one, and lie in
 * the file by then. */
static int count_bucket(void *user, const struct codec_buckets *one) {
    int64_t *total = user;
    total[0] += one->count;
    total[1] += one->bucket->steps;
    return 0;
}

/* All levels above the steps themselves, those of the end too. */
static void check_pyramid(const char *path, int64_t steps) {
    struct runfile *file;
    struct hello hello;
    struct error error = {""};
    hello_init(&hello);
    assert_int_equal(runfile_open(&file, path, &error), 0);
    assert_int_equal(runfile_load_hello(file, &hello, &error), 0);
    for (int level = 1, width = SERIES_FACTOR; level < 4; level++, width *= SERIES_FACTOR) {
        int64_t total[2] = {0, 0};
        assert_int_equal(
            runfile_each_bucket(file, &hello.schema, level, count_bucket, total, &error), 0);
        assert_int_equal(total[0], (steps + width - 1) / width);
        assert_int_equal(total[1], steps);
    }
    hello_free(&hello);
    runfile_close(file);
}

static void test_commits_then_publishes_in_order(void **state) {
    (void)state;
    char path[96];
    snprintf(path, sizeof path, "%s/run.db", folder);
    struct publisher *publisher =
        help_wire_publish((struct publisher_options){.run_file = path}, "order", 3);
    struct reader reader;
    open_reader(&reader, publisher_address(publisher));
    hear(&reader);
    struct record record;
    struct event event;
    record_init(&record, 0);
    for (int64_t step = 0; step < 300; step++) {
        help_wire_put_step(publisher, step);
        if (step % 10 == 0) help_wire_put_event(publisher, EVENT_CHECKPOINT, step, "a.safetensors");
    }
    int64_t step = 0;
    for (uint64_t seq = 1; seq <= 330;) {
        const char *kind = listen(&reader);
        if (strcmp(kind, "step") == 0) {
            read_record(&reader, 1, &record);
            assert_int_equal(record.seq, seq++);
            assert_int_equal(record.step, step++);
            assert_true(record.tensor[2].max_abs == 0.3 + (double)record.step);
            if (step % 50 == 0) assert_true(in_run_file(path, record.step));
        } else if (strcmp(kind, "event") == 0) {
            read_event(&reader, 1, &event);
            assert_int_equal(event.seq, seq++);
            assert_int_equal(event.step, step - 1);
        }
    }
    record_free(&record);
    close_reader(&reader);
    publisher_close(publisher);
    char wal[112];
    snprintf(wal, sizeof wal, "%s-wal", path);
    assert_int_equal(access(wal, F_OK), -1);
    assert_true(in_run_file(path, 299));
    check_pyramid(path, 300);
}

/* What found the queue full is missing from the steps and named by gaps, to the number. */
static void test_full_queue_is_a_gap(void **state) {
    (void)state;
    struct publisher *publisher =
        help_wire_publish((struct publisher_options){.queue = 16}, "full", 0);
    struct reader reader;
    open_reader(&reader, publisher_address(publisher));
    hear(&reader);
    int64_t dropped = 0, put = 0, step = 0;
    while (dropped < 100) { /* bursts, until they did not fit */
        struct record *record = publisher_begin(publisher);
        if (record) {
            help_wire_fill(record, step);
            publisher_submit(publisher);
            put++;
        } else {
            dropped++;
        }
        step++;
        if (step % 7 == 0) help_wire_sleep_ms(1);
    }
    while (!publisher_begin(publisher)) {
        dropped++;
        step++;
        help_wire_sleep_ms(1);
    }
    help_wire_put_step(publisher, step);
    put++;
    uint64_t next = 1, in_gaps = 0;
    int64_t seen = 0;
    struct record record;
    struct event event;
    record_init(&record, 0);
    while (seen < put) {
        const char *kind = listen(&reader);
        if (strcmp(kind, "step") == 0) {
            read_record(&reader, 1, &record);
            assert_int_equal(record.seq, next++);
            seen++;
        } else if (strcmp(kind, "event") == 0) {
            read_event(&reader, 1, &event);
            assert_int_equal(event.kind, EVENT_GAP);
            assert_int_equal(event.first_seq, next);
            assert_int_equal(event.last_seq, event.seq - 1);
            in_gaps += event.last_seq - event.first_seq + 1;
            next = event.seq + 1;
        }
    }
    assert_int_equal(in_gaps, dropped);
    ask_range(&reader, "pyramid?", -1, -1);
    struct codec_buckets buckets;
    struct error error = {""};
    int top = reader.message.frames - 1;
    int64_t steps = 0, missing = 0;
    assert_int_equal(codec_decode_buckets(message_data(&reader.message, top),
                                          message_size(&reader.message, top), &reader.hello.schema,
                                          &buckets, &error),
                     0);
    for (int i = 0; i < buckets.count; i++) {
        steps += buckets.bucket[i].steps;
        missing += buckets.bucket[i].missing;
    }
    codec_buckets_free(&buckets);
    assert_int_equal(steps, put);
    assert_int_equal(missing, dropped);
    record_free(&record);
    close_reader(&reader);
    publisher_close(publisher);
}

/* Collects the steps first..last in as many replies as it takes; -1 where one is absent. Returns
 * how many replies. */
static int collect_steps(struct reader *reader, int64_t first, int64_t last, bool *full) {
    struct record record;
    int replies = 0;
    record_init(&record, 0);
    for (int64_t at = first; at >= 0; replies++) {
        struct codec_status status = ask_range(reader, "steps?", at, last);
        for (int i = 3; i < reader->message.frames; i++) {
            read_record(reader, i, &record);
            assert_int_equal(record.step, at + i - 3);
            assert_true(record.metric[METRIC_LOSS] == 1.0 / (double)(1 + record.step));
            full[record.step] = record.tensor[0].count >= 0;
        }
        int64_t after = at + reader->message.frames - 3;
        assert_true(status.next == after || (status.next == -1 && after == last + 1));
        at = status.next;
    }
    record_free(&record);
    return replies;
}

/* Older steps than memory holds come from the run file, and the seam cannot be seen. */
static void test_history(void **state) {
    (void)state;
    enum { STEPS = 1500, TENSORS = 250 }; /* 15 MB of records, twice what memory keeps */
    char path[96];
    static bool full[STEPS];
    snprintf(path, sizeof path, "%s/run.db", folder);
    struct publisher *publisher =
        help_wire_publish((struct publisher_options){.run_file = path}, "history", TENSORS);
    for (int64_t step = 0; step < STEPS; step++) help_wire_put_step(publisher, step);
    for (int i = 0; i < 600; i++) {
        char text[32];
        snprintf(text, sizeof text, "event %d", i);
        help_wire_put_event(publisher, EVENT_CHECKPOINT, STEPS - 1, text);
        if (i % 100 == 0) help_wire_sleep_ms(15);
    }
    struct reader reader;
    open_reader(&reader, publisher_address(publisher));
    struct codec_status status;
    do status = ask_range(&reader, "status?", -1, -1);
    while (status.seq < STEPS + 600);
    assert_int_equal(status.first_step, 0);
    assert_int_equal(status.last_step, STEPS - 1);
    assert_int_equal(reader.message.frames, 3);

    assert_true(collect_steps(&reader, 0, STEPS - 1, full) > 1);
    for (int i = 0; i < STEPS; i++) assert_true(full[i]);
    assert_int_equal(collect_steps(&reader, STEPS - 3, STEPS - 1, full), 1);

    status = ask_range(&reader, "steps?", STEPS, STEPS + 10);
    assert_int_equal(reader.message.frames, 3);
    assert_int_equal(status.next, -1);
    ask_range(&reader, "steps?", 9, 3);
    assert_int_equal(reader.message.frames, 3);

    int events = 0;
    struct event event;
    for (int64_t at = 0; at >= 0; at = status.next) {
        status = ask_range(&reader, "events?", at, -1);
        for (int i = 3; i < reader.message.frames; i++) {
            char text[32];
            snprintf(text, sizeof text, "event %d", events++);
            read_event(&reader, i, &event);
            assert_string_equal(event.text, text);
        }
    }
    assert_int_equal(events, 600);
    ask_range(&reader, "events?", STEPS + 600, -1);
    assert_int_equal(reader.message.frames, 4);
    close_reader(&reader);
    publisher_close(publisher);
}

static void test_pyramid(void **state) {
    (void)state;
    enum { STEPS = 5000 };
    struct publisher *publisher = help_wire_publish((struct publisher_options){0}, "pyramid", 0);
    for (int64_t step = 0; step < STEPS; step++) help_wire_put_step(publisher, step);
    struct reader reader;
    open_reader(&reader, publisher_address(publisher));
    while (ask_range(&reader, "status?", -1, -1).last_step < STEPS - 1) continue;
    ask_range(&reader, "pyramid?", -1, -1);
    assert_int_equal(reader.message.frames, 3 + SERIES_LEVELS);
    struct codec_buckets buckets;
    struct error error = {""};
    size_t total = 0;
    for (int level = 0; level < SERIES_LEVELS; level++) {
        int frame = 3 + level;
        total += message_size(&reader.message, frame);
        assert_int_equal(codec_decode_buckets(message_data(&reader.message, frame),
                                              message_size(&reader.message, frame),
                                              &reader.hello.schema, &buckets, &error),
                         0);
        int64_t width = 1, steps = 0;
        for (int i = 0; i < level; i++) width *= SERIES_FACTOR;
        for (int i = 0; i < buckets.count; i++) steps += buckets.bucket[i].steps;
        assert_int_equal(buckets.level, level);
        assert_int_equal(buckets.count, level == 0 ? 512 : (STEPS + width - 1) / width);
        assert_int_equal(steps, level == 0 ? 512 : STEPS);
        codec_buckets_free(&buckets);
    }
    assert_true(total < 1 << 20);
    ask(&reader, "pyramid?", (struct codec_request){.level = 1, .first = 160, .last = 200});
    answer(&reader, "pyramid");
    assert_int_equal(reader.message.frames, 4);
    assert_int_equal(codec_decode_buckets(message_data(&reader.message, 3),
                                          message_size(&reader.message, 3), &reader.hello.schema,
                                          &buckets, &error),
                     0);
    assert_int_equal(buckets.count, 3);
    assert_int_equal(buckets.bucket[0].first, 160);
    codec_buckets_free(&buckets);
    const int64_t from[] = {4000, 5, STEPS + 7, INT64_MAX}, finest[] = {1000, 1024, 1, 1};
    for (int i = 0; i < 4; i++) {
        ask_range(&reader, "pyramid?", from[i], -1);
        assert_int_equal(codec_decode_buckets(message_data(&reader.message, 3),
                                              message_size(&reader.message, 3),
                                              &reader.hello.schema, &buckets, &error),
                         0);
        assert_int_equal(buckets.level, 0);
        assert_int_equal(buckets.count, finest[i]);
        assert_int_equal(buckets.bucket[buckets.count - 1].first, STEPS - 1);
        codec_buckets_free(&buckets);
    }
    close_reader(&reader);
    publisher_close(publisher);
}

/* The bucket messages alone leave no step out. */
static void test_buckets_cover_all(void **state) {
    (void)state;
    struct publisher *publisher = help_wire_publish((struct publisher_options){0}, "buckets", 0);
    struct reader reader;
    open_reader(&reader, publisher_address(publisher));
    hear(&reader);
    int64_t covered = -1, step = 0;
    int messages = 0;
    while (messages < 6) {
        for (int i = 0; i < 40; i++) help_wire_put_step(publisher, step++);
        do {
            if (strcmp(listen(&reader), "bucket") != 0) continue;
            struct codec_buckets buckets;
            struct error error = {""};
            assert_int_equal(codec_decode_buckets(message_data(&reader.message, 1),
                                                  message_size(&reader.message, 1),
                                                  &reader.hello.schema, &buckets, &error),
                             0);
            for (int i = 0; i < buckets.count; i++) {
                assert_true(buckets.bucket[i].first <= covered + 1);
                covered = buckets.bucket[i].first + buckets.bucket[i].steps - 1;
            }
            codec_buckets_free(&buckets);
            messages++;
        } while (covered < step - 1);
    }
    close_reader(&reader);
    publisher_close(publisher);
}

/* Replies beyond what a reader takes are dropped: it asks again. */
static void ask_until_answered(struct reader *reader, uint64_t id) {
    struct codec_status status = {.id = 0};
    while (status.id != id) {
        zmq_pollitem_t item = {.socket = reader->dealer, .events = ZMQ_POLLIN};
        ask(reader, "status?",
            (struct codec_request){.id = id, .level = -1, .first = -1, .last = -1});
        zmq_poll(&item, 1, 500);
        while (status.id != id && message_receive(&reader->message, reader->dealer)) {
            codec_decode_status(message_data(&reader->message, 2),
                                message_size(&reader->message, 2), &status, NULL);
        }
    }
}

static void test_garbage_is_survived(void **state) {
    (void)state;
    struct publisher *publisher = help_wire_publish((struct publisher_options){0}, "garbage", 0);
    help_wire_put_step(publisher, 0);
    struct reader reader;
    open_reader(&reader, publisher_address(publisher));
    srand(1);
    for (int i = 0; i < 3000; i++) {
        char bytes[200];
        const char *kinds[] = {"steps?",  "pyramid?", "events?", "hello?",
                               "status?", "nothing?", ""};
        int frames = rand() % 6;
        const char *kind = kinds[rand() % 7];
        if (rand() % 2) zmq_send(reader.dealer, kind, strlen(kind), ZMQ_SNDMORE);
        if (rand() % 2) zmq_send(reader.dealer, "garbage", 7, ZMQ_SNDMORE);
        for (int f = 0; f <= frames; f++) {
            size_t size = (size_t)rand() % sizeof bytes;
            for (size_t b = 0; b < size; b++) bytes[b] = (char)rand();
            zmq_send(reader.dealer, bytes, size, f < frames ? ZMQ_SNDMORE : 0);
        }
    }
    const int64_t edges[] = {INT64_MIN, -2, -1, 0, 1, INT64_MAX - 1, INT64_MAX};
    for (int i = 0; i < 7 * 7 * 7; i++) {
        struct codec_request request = {
            .level = edges[i / 49], .first = edges[i / 7 % 7], .last = edges[i % 7]};
        const char *kinds[] = {"steps?", "pyramid?", "events?"};
        for (int k = 0; k < 3; k++) ask(&reader, kinds[k], request);
        while (message_receive(&reader.message, reader.dealer)) continue;
    }
    ask_until_answered(&reader, 4711);
    snprintf(reader.hello.run_id, sizeof reader.hello.run_id, "other");
    ask_until_answered(&reader, 5);
    assert_true(message_is(&reader.message, 0, "error"));
    close_reader(&reader);
    publisher_close(publisher);
}

static const char *refusal(struct publisher_options options, const char *run_id) {
    static struct error error;
    struct hello hello;
    struct publisher *publisher = NULL;
    error.text[0] = '\0';
    help_wire_hello(&hello, run_id, 0);
    snprintf(hello.run_id, sizeof hello.run_id, "%s", run_id);
    options.hello = &hello;
    assert_int_equal(publisher_open(&publisher, &options, &error), -1);
    hello_free(&hello);
    return error.text;
}

static void test_addresses(void **state) {
    (void)state;
    struct publisher *first =
        help_wire_publish((struct publisher_options){.bind = "127.0.0.1:27570"}, "first", 0);
    struct publisher *second =
        help_wire_publish((struct publisher_options){.bind = "tcp://127.0.0.1:27570"}, "second", 0);
    assert_non_null(strstr(publisher_address(first), "tcp://127.0.0.1:27"));
    assert_string_not_equal(publisher_address(first), publisher_address(second));
    struct reader reader;
    open_reader(&reader, publisher_address(second));
    assert_string_equal(reader.hello.run_id, "second");
    close_reader(&reader);
    char local[128];
    snprintf(local, sizeof local, "ipc://%s/first", folder); /* there, too */
    open_reader(&reader, local);
    assert_string_equal(reader.hello.run_id, "first");
    close_reader(&reader);

    assert_non_null(
        strstr(refusal((struct publisher_options){.bind = "0.0.0.0:27570"}, "open"), "--insecure"));
    assert_non_null(
        strstr(refusal((struct publisher_options){.bind = "nonsense"}, "open"), "no address"));
    assert_non_null(strstr(refusal((struct publisher_options){.bind = local}, "open"), "tcp"));
    assert_non_null(strstr(refusal((struct publisher_options){0}, "first"), "alive"));
    assert_non_null(strstr(refusal((struct publisher_options){0}, "../up"), "run id"));
    assert_non_null(
        strstr(refusal((struct publisher_options){.run_file = "/nowhere/run.db"}, "open"),
               "/nowhere/run.db"));
    struct publisher *open = help_wire_publish(
        (struct publisher_options){.bind = "0.0.0.0:27570", .insecure = true}, "open", 0);
    publisher_close(open);
    publisher_close(first);
    publisher_close(second);
    publisher_close(NULL);
}

/* What the end of a run leaves unwritten is told like the rest of it. */
static void test_full_disk_at_the_end(void **state) {
    (void)state;
    char path[96];
    snprintf(path, sizeof path, "%s/run.db", folder);
    signal(SIGXFSZ, SIG_IGN);
    struct publisher *publisher =
        help_wire_publish((struct publisher_options){.run_file = path}, "disk", 3);
    struct reader reader;
    open_reader(&reader, publisher_address(publisher));
    hear(&reader);
    struct rlimit before, none = {.rlim_cur = 0};
    getrlimit(RLIMIT_FSIZE, &before);
    none.rlim_max = before.rlim_max;
    setrlimit(RLIMIT_FSIZE, &none);
    help_wire_put_step(publisher, 0);
    struct event event = {.kind = EVENT_NOTICE};
    while (event.kind != EVENT_UNRECORDED) {
        if (strcmp(listen(&reader), "event") == 0) read_event(&reader, 1, &event);
    }
    uint64_t told = event.last_seq;
    help_wire_put_step(publisher, 1);
    help_wire_put_event(publisher, EVENT_END, 1, "done");
    publisher_close(publisher);
    setrlimit(RLIMIT_FSIZE, &before);
    while (told < 4) { /* the seq of the end */
        if (strcmp(listen(&reader), "event") != 0) continue;
        read_event(&reader, 1, &event);
        if (event.kind != EVENT_UNRECORDED) continue;
        assert_int_equal(event.first_seq, told + 1);
        told = event.last_seq;
    }
    close_reader(&reader);
}

/* The run goes on, and says from where to where nothing is written; when there is room again it is
 * written again. */
static void test_full_disk(void **state) {
    (void)state;
    char path[96];
    snprintf(path, sizeof path, "%s/run.db", folder);
    signal(SIGXFSZ, SIG_IGN);
    struct publisher *publisher =
        help_wire_publish((struct publisher_options){.run_file = path}, "disk", 3);
    struct reader reader;
    open_reader(&reader, publisher_address(publisher));
    hear(&reader);
    struct rlimit before, none = {.rlim_cur = 0};
    getrlimit(RLIMIT_FSIZE, &before);
    none.rlim_max = before.rlim_max;
    setrlimit(RLIMIT_FSIZE, &none);
    help_wire_put_step(publisher, 0);
    struct record record;
    struct event event = {.seq = 0};
    record_init(&record, 0);
    uint64_t seq = 0, unrecorded = 0;
    int64_t put = 1;
    while (unrecorded == 0) {
        const char *kind = listen(&reader);
        if (strcmp(kind, "step") == 0) seq++;
        if (strcmp(kind, "event") != 0) continue;
        read_event(&reader, 1, &event);
        assert_int_equal(event.kind, EVENT_UNRECORDED);
        assert_int_equal(event.first_seq, 1);
        assert_int_equal(event.last_seq, 2);
        assert_true(event.text[0] != '\0');
        unrecorded = event.last_seq;
    }
    assert_int_equal(seq, 1);
    setrlimit(RLIMIT_FSIZE, &before);
    do {
        help_wire_put_step(publisher, put++);
        help_wire_sleep_ms(20);
    } while (!in_run_file(path, put - 1));
    uint64_t written = first_seq_in(path);
    while (unrecorded < written - 1) { /* told to the end, range by range */
        if (strcmp(listen(&reader), "event") != 0) continue;
        read_event(&reader, 1, &event);
        assert_int_equal(event.kind, EVENT_UNRECORDED);
        assert_int_equal(event.first_seq, unrecorded + 1);
        unrecorded = event.last_seq;
    }
    assert_int_equal(unrecorded, written - 1);
    help_wire_put_event(publisher, EVENT_END, put, "done");
    publisher_close(publisher);
    struct runfile *file;
    struct error error = {""};
    int64_t first = 0, last = 0;
    assert_int_equal(runfile_open(&file, path, &error), 0);
    assert_int_equal(runfile_load_range(file, &first, &last, &seq, &error), 0);
    runfile_close(file);
    assert_int_equal(last, put - 1);
    assert_true(first > 0);
    record_free(&record);
    close_reader(&reader);
}

/* A reader that does not read costs a bounded amount of memory, and does not hold up the end. */
static void test_reader_that_stands_still(void **state) {
    (void)state;
    struct publisher *publisher =
        help_wire_publish((struct publisher_options){.bind = "127.0.0.1:27670"}, "stall", 31);
    struct reader readers[3];
    int few = 100;
    for (int i = 0; i < 3; i++) {
        open_reader(&readers[i], publisher_address(publisher));
        zmq_setsockopt(readers[i].sub, ZMQ_RCVHWM, &few, sizeof few);
        zmq_setsockopt(readers[i].sub, ZMQ_RCVBUF, &few, sizeof few);
        struct endpoint endpoint;
        endpoint_parse(&endpoint, publisher_address(publisher), NULL);
        zmq_disconnect(readers[i].sub, endpoint.live);
        zmq_connect(readers[i].sub, endpoint.live);
        hear(&readers[i]);
    }
    size_t before = 0;
    for (int64_t step = 0; step < 30000; step++) {
        help_wire_put_step(publisher, step);
        if (step % 1000 != 999) continue;
        while (ask_range(&readers[0], "status?", -1, -1).last_step < step) continue;
        if (step == 8999) before = help_wire_memory(getpid()); /* the backlog is full by then */
    }
    size_t after = help_wire_memory(getpid());
    if (help_wire_memory_counts()) assert_true(after < before + 3 * (2 << 20));
    publisher_close(publisher);
    for (int i = 0; i < 3; i++) close_reader(&readers[i]);
}

enum { THREADS_MAX = 64 };

static int list_threads(int threads[THREADS_MAX]) {
    DIR *tasks = opendir("/proc/self/task");
    int count = 0;
    for (struct dirent *task; count < THREADS_MAX && (task = readdir(tasks));) {
        if (task->d_name[0] != '.') threads[count++] = atoi(task->d_name);
    }
    closedir(tasks);
    return count;
}

static unsigned long long blocked_in(int thread) {
    char path[64], line[128];
    unsigned long long blocked = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/status", thread);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) sscanf(line, "SigBlk: %llx", &blocked);
    fclose(file);
    return blocked;
}

/* No thread of the publisher's takes a signal of the program. */
static void test_signals_are_the_programs(void **state) {
    (void)state;
    const unsigned long long signals =
        1ULL << (SIGINT - 1) | 1ULL << (SIGTERM - 1) | 1ULL << (SIGHUP - 1) | 1ULL << (SIGUSR1 - 1);
    int before[THREADS_MAX], after[THREADS_MAX], own = 0;
    int old = list_threads(before);
    struct publisher *publisher = help_wire_publish((struct publisher_options){0}, "signals", 0);
    int threads = list_threads(after);
    for (int i = 0; i < threads; i++) {
        bool known = false;
        for (int k = 0; k < old; k++) known |= before[k] == after[i];
        if (known) continue;
        assert_int_equal(blocked_in(after[i]) & signals, signals);
        own++;
    }
    assert_true(own >= 2);
    publisher_close(publisher);
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_signals_are_the_programs, enter, leave),
        cmocka_unit_test_setup_teardown(test_commits_then_publishes_in_order, enter, leave),
        cmocka_unit_test_setup_teardown(test_full_queue_is_a_gap, enter, leave),
        cmocka_unit_test_setup_teardown(test_history, enter, leave),
        cmocka_unit_test_setup_teardown(test_pyramid, enter, leave),
        cmocka_unit_test_setup_teardown(test_buckets_cover_all, enter, leave),
        cmocka_unit_test_setup_teardown(test_garbage_is_survived, enter, leave),
        cmocka_unit_test_setup_teardown(test_addresses, enter, leave),
        cmocka_unit_test_setup_teardown(test_full_disk, enter, leave),
        cmocka_unit_test_setup_teardown(test_full_disk_at_the_end, enter, leave),
        cmocka_unit_test_setup_teardown(test_reader_that_stands_still, enter, leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
