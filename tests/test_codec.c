#include "shared/store/codec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <msgpack.h>

#include "shared/core/error.h"
#include "shared/store/unpack.h"
#include "tests/help_store.h"

struct fixture {
    struct hello hello;
    struct buffer out;
    struct record record, back;
    struct error error;
};

static int setup(void **state) {
    struct fixture *f = calloc(1, sizeof *f);
    help_hello(&f->hello);
    record_init(&f->record, f->hello.schema.tensors);
    record_init(&f->back, 0);
    *state = f;
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;
    hello_free(&f->hello);
    record_free(&f->record);
    record_free(&f->back);
    buffer_free(&f->out);
    free(f);
    return 0;
}

static void assert_same_number(double a, double b) {
    if (isnan(a) || isnan(b)) {
        assert_true(isnan(a) && isnan(b));
    } else {
        assert_memory_equal(&a, &b, sizeof a); /* -0.0 too */
    }
}

static void assert_same_record(const struct record *a, const struct record *b) {
    assert_int_equal(a->seq, b->seq);
    assert_int_equal(a->segment, b->segment);
    assert_int_equal(a->schema_id, b->schema_id);
    assert_int_equal(a->step, b->step);
    assert_int_equal(a->epoch, b->epoch);
    assert_int_equal(a->phase, b->phase);
    assert_int_equal(a->batch, b->batch);
    assert_int_equal(a->epochs, b->epochs);
    assert_int_equal(a->batches, b->batches);
    assert_string_equal(a->phase_data, b->phase_data);
    assert_int_equal(a->wall_ns, b->wall_ns);
    assert_int_equal(a->mono_ns, b->mono_ns);
    assert_int_equal(a->measured, b->measured);
    for (int i = 0; i < SCHEMA_METRICS_MAX; i++) {
        if (record_has(a, i)) assert_same_number(a->metric[i], b->metric[i]);
    }
    assert_int_equal(a->update_ratio_max_tensor, b->update_ratio_max_tensor);
    assert_int_equal(a->band, b->band);
    assert_int_equal(a->reason, b->reason);
    assert_string_equal(a->subject, b->subject);
    assert_same_number(a->value, b->value);
    assert_same_number(a->limit, b->limit);
    assert_same_number(a->usual, b->usual);
    assert_int_equal(a->hashed, b->hashed);
    assert_int_equal(a->input_hash, b->input_hash);
    assert_int_equal(a->label_hash, b->label_hash);
    assert_int_equal(a->classes, b->classes);
    assert_memory_equal(a->label_count, b->label_count, sizeof a->label_count);
    assert_int_equal(a->tensors, b->tensors);
    for (int i = 0; i < a->tensors; i++) {
        const struct tensor_stat *s = &a->tensor[i], *t = &b->tensor[i];
        assert_int_equal(s->count, t->count);
        if (s->count < 0) continue;
        assert_same_number(s->sum_sq, t->sum_sq);
        assert_same_number(s->max_abs, t->max_abs);
        assert_same_number(s->usual, t->usual);
        assert_int_equal(s->bad_index, t->bad_index);
        assert_int_equal(s->nan, t->nan);
        assert_int_equal(s->pos_inf, t->pos_inf);
        assert_int_equal(s->neg_inf, t->neg_inf);
        assert_int_equal(s->over, t->over);
        assert_int_equal(s->band, t->band);
    }
}

static void round_trip(struct fixture *f) {
    assert_int_equal(codec_encode_record(&f->out, &f->hello.schema, &f->record), 0);
    assert_int_equal(
        codec_decode_record(f->out.data, f->out.size, &f->hello.schema, &f->back, &f->error), 0);
    assert_same_record(&f->record, &f->back);
}

static void a_record_comes_back_as_it_was(void **state) {
    struct fixture *f = *state;
    help_record(&f->record, &f->hello.schema, 40);
    round_trip(f);
    print_message("step with 31 tensors: %zu bytes\n", f->out.size);
    assert_true(f->out.size < 1400);
}

static void numbers_are_exact(void **state) {
    static const double values[] = {0.0,
                                    -0.0,
                                    1,
                                    -1,
                                    0.1,
                                    0.5,
                                    1e300,
                                    -1e-300,
                                    5e-324,
                                    3.4028234663852886e38,
                                    3.5e38,
                                    4294967295.0,
                                    2147483648.0,
                                    -2147483648.0,
                                    9007199254740993.0,
                                    0x1p-149,
                                    0x1p-150,
                                    NAN,
                                    INFINITY,
                                    -INFINITY};
    struct fixture *f = *state;
    help_record(&f->record, &f->hello.schema, 1);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        f->record.metric[METRIC_LOSS] = values[i];
        f->record.tensor[3].sum_sq = values[i];
        f->record.tensor[3].max_abs = values[i];
        f->record.value = values[i];
        round_trip(f);
    }
}

static void a_record_with_everything_wrong_in_it(void **state) {
    struct fixture *f = *state;
    help_record(&f->record, &f->hello.schema, 46);
    f->record.seq = UINT64_C(1) << 53;
    f->record.segment = UINT32_MAX;
    f->record.wall_ns = INT64_MAX;
    f->record.step = INT64_C(1) << 53;
    f->record.band = BAND_NONFINITE;
    f->record.reason = REASON_NONFINITE;
    strcpy(f->record.subject, "logits/activation");
    f->record.value = NAN;
    f->record.limit = 1e4;
    f->record.usual = 8.25;
    f->record.classes = RECORD_CLASSES_MAX;
    f->record.label_count[RECORD_CLASSES_MAX - 1] = UINT32_MAX;
    f->record.tensor[0] =
        (struct tensor_stat){.count = -1, .max_abs = NAN, .usual = NAN, .bad_index = -1};
    f->record.tensor[4] = (struct tensor_stat){.count = 640,
                                               .sum_sq = NAN,
                                               .max_abs = NAN,
                                               .usual = 8.25,
                                               .bad_index = 0,
                                               .nan = 600,
                                               .pos_inf = 30,
                                               .neg_inf = 10,
                                               .over = 0,
                                               .band = BAND_NONFINITE};
    f->record.tensor[5].count = 17; /* a short batch */
    f->record.tensor[5].over = 3;
    f->record.tensor[5].usual = NAN;
    round_trip(f);
}

static void what_is_not_measured_stays_so(void **state) {
    struct fixture *f = *state;
    record_clear(&f->record);
    f->record.schema_id = f->hello.schema.id;
    round_trip(f);
    assert_int_equal(f->back.step, 0);
    assert_int_equal(f->back.epoch, -1);
    assert_int_equal(f->back.tensor[30].count, -1);
    record_set(&f->record, METRIC_LR, NAN);
    round_trip(f);
    assert_true(record_has(&f->back, METRIC_LR));
    assert_false(record_has(&f->back, METRIC_LOSS));
}

static void an_event_comes_back_as_it_was(void **state) {
    struct fixture *f = *state;
    struct event event, back;
    for (int kind = 0; kind < EVENT_COUNT; kind++) {
        memset(&event, 0, sizeof event);
        event_init(&event, (enum event_kind)kind);
        event.seq = 7;
        assert_int_equal(codec_encode_event(&f->out, &event), 0);
        memset(&back, 0xff, sizeof back);
        assert_int_equal(codec_decode_event(f->out.data, f->out.size, &back, &f->error), 0);
        assert_int_equal(back.kind, kind);
        assert_int_equal(back.onset, -1);
        assert_int_equal(back.tensor, -1);
        assert_true(isnan(back.limit));
    }
    event.tensor = 4;
    event.stage = STAGE_FORWARD;
    event.nan = 0;
    event.count = 640;
    event.bad_index = 12;
    event.value = INFINITY;
    event.band = BAND_NONFINITE;
    event.reason = REASON_NONFINITE;
    event.onset = 40;
    event.lead = 6;
    event.first_seq = 1;
    event.last_seq = UINT64_C(1) << 53;
    strcpy(event.text, "runs/a/step-40.safetensors \xe2\x9c\x93");
    assert_int_equal(codec_encode_event(&f->out, &event), 0);
    assert_int_equal(codec_decode_event(f->out.data, f->out.size, &back, &f->error), 0);
    assert_int_equal(back.nan, 0);
    assert_int_equal(back.pos_inf, -1);
    assert_int_equal(back.count, 640);
    assert_int_equal(back.stage, STAGE_FORWARD);
    assert_int_equal(back.lead, 6);
    assert_true(isinf(back.value));
    assert_int_equal(back.last_seq, UINT64_C(1) << 53);
    assert_string_equal(back.text, event.text);
}

static void a_hello_comes_back_as_it_was(void **state) {
    struct fixture *f = *state;
    struct hello back;
    hello_init(&back);
    assert_int_equal(codec_encode_hello(&f->out, &f->hello), 0);
    print_message("hello with 31 tensors: %zu bytes\n", f->out.size);
    assert_int_equal(codec_decode_hello(f->out.data, f->out.size, &back, &f->error), 0);
    assert_int_equal(back.schema.tensors, 31);
    assert_memory_equal(back.schema.tensor, f->hello.schema.tensor,
                        31 * sizeof *back.schema.tensor);
    assert_int_equal(back.schema.id, f->hello.schema.id);
    assert_int_equal(back.schema.published, f->hello.schema.published);
    assert_string_equal(back.schema.metric[METRIC_COUNT], "temperature");
    assert_string_equal(hello_find_config(&back, "lr"), "0.05,0.15");
    assert_int_equal(back.configs, 2);
    assert_int_equal(back.started_ns, f->hello.started_ns);
    assert_string_equal(back.backend, f->hello.backend);
    assert_int_equal(back.pid, 4711);
    hello_free(&back);
}

static void beats_requests_and_statuses(void **state) {
    struct fixture *f = *state;
    uint64_t seq, schema_id;
    assert_int_equal(codec_encode_beat(&f->out, 0, UINT64_MAX), 0);
    assert_int_equal(codec_decode_beat(f->out.data, f->out.size, &seq, &schema_id, &f->error), 0);
    assert_int_equal(seq, 0);
    assert_int_equal(schema_id, UINT64_MAX);

    struct codec_request request, asked;
    codec_request_init(&request);
    request.id = 9;
    request.first = 100;
    assert_int_equal(codec_encode_request(&f->out, &request), 0);
    assert_int_equal(codec_decode_request(f->out.data, f->out.size, &asked, &f->error), 0);
    assert_memory_equal(&asked, &request, sizeof request);
    assert_int_equal(codec_decode_request("", 0, &asked, &f->error), 0);
    assert_int_equal(asked.level, -1);

    struct codec_status status, said;
    memset(&said, 0, sizeof said);
    codec_status_init(&status);
    status.seq = 1234;
    status.first_step = 0;
    status.last_step = 1200;
    strcpy(status.text, "no such run");
    assert_int_equal(codec_encode_status(&f->out, &status), 0);
    assert_int_equal(codec_decode_status(f->out.data, f->out.size, &said, &f->error), 0);
    assert_memory_equal(&said, &status, sizeof status);
}

static void assert_same_buckets(const struct codec_buckets *a, const struct codec_buckets *b) {
    assert_int_equal(a->level, b->level);
    assert_int_equal(a->count, b->count);
    assert_int_equal(a->metrics, b->metrics);
    for (int i = 0; i < a->count; i++) {
        assert_int_equal(a->bucket[i].first, b->bucket[i].first);
        assert_int_equal(a->bucket[i].steps, b->bucket[i].steps);
        assert_int_equal(a->bucket[i].missing, b->bucket[i].missing);
        assert_int_equal(a->bucket[i].band, b->bucket[i].band);
    }
    for (int i = 0; i < a->count * a->metrics; i++) {
        const struct series_value *s = &a->value[i], *t = &b->value[i];
        assert_int_equal(s->min > s->max, t->min > t->max);
        if (s->min <= s->max) {
            assert_same_number((double)s->min, (double)t->min);
            assert_same_number((double)s->max, (double)t->max);
        }
        assert_same_number((double)s->last, (double)t->last);
        assert_int_equal(s->present, t->present);
        assert_int_equal(s->marks, t->marks);
    }
}

static void buckets_come_back_as_they_were(void **state) {
    struct fixture *f = *state;
    struct codec_buckets buckets, back;
    for (int level = 0; level < SERIES_LEVELS; level++) {
        help_buckets(&buckets, &f->hello.schema, level, level < 2 ? 2048 : 50);
        struct series_value *value = &buckets.value[3 * buckets.metrics];
        buckets.bucket[3].missing = buckets.bucket[3].steps;
        buckets.bucket[3].steps = 0;
        for (int slot = 0; slot < buckets.metrics; slot++) {
            value[slot] = (struct series_value){.min = INFINITY, .max = -INFINITY, .last = NAN};
        }
        buckets.bucket[4].band = BAND_NONFINITE;
        value[buckets.metrics + METRIC_LOSS] = (struct series_value){
            .min = INFINITY, .max = -INFINITY, .last = NAN, .present = 1, .marks = SERIES_NAN};
        value[buckets.metrics + METRIC_LR].last = -INFINITY;
        value[buckets.metrics + METRIC_LR].marks = SERIES_NEG_INF | SERIES_BEYOND;
        assert_int_equal(codec_encode_buckets(&f->out, &f->hello.schema, &buckets), 0);
        assert_int_equal(
            codec_decode_buckets(f->out.data, f->out.size, &f->hello.schema, &back, &f->error), 0);
        assert_same_buckets(&buckets, &back);
        if (level < 2) print_message("2048 buckets of level %d: %zu bytes\n", level, f->out.size);
        codec_buckets_free(&buckets);
        codec_buckets_free(&back);
    }
}

/* Messages of others, written with the packer's own words: "{" begins a map of the pairs that
 * follow. */
struct writer {
    msgpack_sbuffer buffer;
    msgpack_packer packer;
};

static void writer_init(struct writer *w, size_t pairs) {
    msgpack_sbuffer_init(&w->buffer);
    msgpack_packer_init(&w->packer, &w->buffer, msgpack_sbuffer_write);
    msgpack_pack_map(&w->packer, pairs);
}

static void write_text(struct writer *w, const char *text) {
    msgpack_pack_str_with_body(&w->packer, text, strlen(text));
}

static void write_whole(struct writer *w, const char *key, int64_t value) {
    write_text(w, key);
    msgpack_pack_int64(&w->packer, value);
}

static void write_names(struct writer *w, const char *const *names, size_t count) {
    write_text(w, "schema");
    msgpack_pack_map(&w->packer, 1);
    write_text(w, "metrics");
    msgpack_pack_array(&w->packer, count);
    for (size_t i = 0; i < count; i++) write_text(w, names[i]);
}

/* The reason, or "" where it was taken. */
static const char *refusal_of_hello(struct writer *w, struct error *error) {
    struct hello hello;
    hello_init(&hello);
    error->text[0] = '\0';
    int result = codec_decode_hello(w->buffer.data, w->buffer.size, &hello, error);
    assert_int_equal(result == 0, error->text[0] == '\0');
    hello_free(&hello);
    msgpack_sbuffer_destroy(&w->buffer);
    return error->text;
}

static const char *const two_metrics[] = {"loss", "my_metric"};

static void the_smallest_foreign_publisher(void **state) {
    struct fixture *f = *state;
    struct writer w;
    struct hello hello;
    hello_init(&hello);
    writer_init(&w, 3);
    write_text(&w, "run_id");
    write_text(&w, "my-run");
    write_names(&w, two_metrics, 2);
    write_text(&w, "config");
    msgpack_pack_map(&w.packer, 3);
    write_text(&w, "lr");
    msgpack_pack_double(&w.packer, 0.1);
    write_text(&w, "nothing");
    msgpack_pack_nil(&w.packer);
    write_text(&w, "long");
    char text[201] = "";
    for (int i = 0; i < 100; i++) strcat(text, "\xc3\xa9");
    write_text(&w, text);
    assert_int_equal(codec_decode_hello(w.buffer.data, w.buffer.size, &hello, &f->error), 0);
    msgpack_sbuffer_destroy(&w.buffer);
    assert_string_equal(hello.name, "my-run");
    assert_string_equal(hello_find_config(&hello, "lr"), "0.1");
    assert_null(hello_find_config(&hello, "nothing"));
    assert_int_equal(strlen(hello_find_config(&hello, "long")), 126); /* not half a character */

    writer_init(&w, 2);
    write_whole(&w, "step", 12);
    write_text(&w, "metrics");
    msgpack_pack_array(&w.packer, 2);
    msgpack_pack_double(&w.packer, 0.25);
    msgpack_pack_nil(&w.packer);
    assert_int_equal(
        codec_decode_record(w.buffer.data, w.buffer.size, &hello.schema, &f->back, &f->error), 1);
    msgpack_sbuffer_destroy(&w.buffer);
    assert_int_equal(f->back.step, 12);
    assert_int_equal(f->back.schema_id, hello.schema.id);
    assert_true(f->back.metric[METRIC_LOSS] == 0.25);
    assert_false(record_has(&f->back, METRIC_COUNT));
    assert_false(f->back.hashed);
    hello_free(&hello);
}

static void hellos_that_are_refused(void **state) {
    struct fixture *f = *state;
    struct writer w;
    writer_init(&w, 3);
    write_whole(&w, "schema", 3); /* of another version: may be anything */
    write_whole(&w, "run_id", 3);
    write_whole(&w, "protocol", 2);
    assert_string_equal(refusal_of_hello(&w, &f->error),
                        "hello: its protocol is version 2, this program speaks version 1");

    writer_init(&w, 2);
    write_text(&w, "run_id");
    write_text(&w, "../../etc");
    write_names(&w, two_metrics, 2);
    assert_string_equal(refusal_of_hello(&w, &f->error), "hello: '../../etc' is not a run id");

    static const char *const disordered[] = {"lr", "loss"};
    writer_init(&w, 2);
    write_text(&w, "run_id");
    write_text(&w, "a");
    write_names(&w, disordered, 2);
    assert_non_null(
        strstr(refusal_of_hello(&w, &f->error), "metric loss comes twice, or out of order"));

    static const char *const broken[] = {"loss", "\xc3("};
    writer_init(&w, 2);
    write_text(&w, "run_id");
    write_text(&w, "a");
    write_names(&w, broken, 2);
    assert_non_null(strstr(refusal_of_hello(&w, &f->error), "not UTF-8 text"));

    char names[80][8];
    const char *many[80];
    for (int i = 0; i < 80; i++) {
        snprintf(names[i], sizeof names[i], "m%d", i);
        many[i] = names[i];
    }
    writer_init(&w, 2);
    write_text(&w, "run_id");
    write_text(&w, "a");
    write_names(&w, many, 60); /* with the standard ones too many */
    assert_string_equal(refusal_of_hello(&w, &f->error), "hello: more than 64 metrics");

    writer_init(&w, 1);
    write_text(&w, "run_id");
    write_text(&w, "a");
    assert_string_equal(refusal_of_hello(&w, &f->error), "hello: schema is missing");
}

static void write_tensor(struct writer *w, const char *role, int64_t size) {
    writer_init(w, 2);
    write_text(w, "run_id");
    write_text(w, "a");
    write_text(w, "schema");
    msgpack_pack_map(&w->packer, 2);
    write_text(w, "metrics");
    msgpack_pack_array(&w->packer, 0);
    write_text(w, "tensors");
    msgpack_pack_array(&w->packer, 1);
    msgpack_pack_map(&w->packer, 3);
    write_text(w, "name");
    write_text(w, "w");
    write_text(w, "role");
    write_text(w, role);
    write_text(w, "shape");
    msgpack_pack_array(&w->packer, 3);
    for (int i = 0; i < 3; i++) msgpack_pack_int64(&w->packer, size);
}

static void tensors_of_others(void **state) {
    struct fixture *f = *state;
    struct writer w;
    write_tensor(&w, "gradient", 200000);
    assert_string_equal(refusal_of_hello(&w, &f->error), "");
    write_tensor(&w, "gradient", 300000); /* 2.7e16 > 2^53 */
    assert_non_null(strstr(refusal_of_hello(&w, &f->error), "not of this world"));
    write_tensor(&w, "gradient", -1);
    assert_non_null(strstr(refusal_of_hello(&w, &f->error), "not of this world"));
    write_tensor(&w, "weight", 3);
    assert_string_equal(refusal_of_hello(&w, &f->error),
                        "hello: tensor: role is not one of the names of this protocol");
}

static void steps_that_are_refused(void **state) {
    static const struct {
        const char *key;
        int64_t value;
        const char *text; /* instead of a value */
        const char *reason;
    } cases[] = {
        {"step", -1, NULL, "step: step is not a whole number, or out of range"},
        {"step", INT64_MAX, NULL, "step: step is not a whole number, or out of range"},
        {"epoch", INT64_C(1) << 31, NULL, "step: epoch is not a whole number, or out of range"},
        {"seq", -1, NULL, "step: seq is not a whole number, or out of range"},
        {"seq", INT64_MAX, NULL, "step: seq is not a whole number, or out of range"},
        {"step", 0, "12", "step: step is not a whole number, or out of range"},
        {"value", 0, "12", "step: value is not a number"},
        {"band", 3, NULL, "step: band is not 0, 1 or 2"},
        {"reason", 0, "hunch", "step: reason is not one of the names of this protocol"},
        {"phase_data", 0, "01234567890123456789012345678901",
         "step: phase_data is not UTF-8 text, or too long"},
        {"phase_data", 0, "\xed\xa0\x80", "step: phase_data is not UTF-8 text, or too long"},
        {"update_ratio_max_tensor", 0, NULL,
         "step: update_ratio_max_tensor is not one of the 0 tensors"},
        {"schema_id", 5, NULL, "step 1: of another schema than the hello at hand"},
        {"tensors", 5, NULL, "step: tensors is not a map"},
        {"labels", 5, NULL, "step: labels is not an array of at most 64 counts"},
        {"metrics", 5, NULL, "step: metrics is not an array"},
    };
    struct fixture *f = *state;
    struct schema schema;
    schema_init(&schema);
    schema_add_metric(&schema, "loss");
    schema_seal(&schema);
    f->back.step = 77;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct writer w;
        writer_init(&w, 3);
        write_whole(&w, "step", 1);
        write_text(&w, "metrics");
        msgpack_pack_array(&w.packer, 1);
        msgpack_pack_int(&w.packer, 1);
        write_text(&w, cases[i].key); /* a later one counts */
        if (cases[i].text) {
            write_text(&w, cases[i].text);
        } else {
            msgpack_pack_int64(&w.packer, cases[i].value);
        }
        assert_int_equal(
            codec_decode_record(w.buffer.data, w.buffer.size, &schema, &f->back, &f->error), -1);
        assert_string_equal(f->error.text, cases[i].reason);
        assert_int_equal(f->back.step, 77);
        msgpack_sbuffer_destroy(&w.buffer);
    }
    schema_free(&schema);
}

static void sizes_are_not_believed(void **state) {
    struct fixture *f = *state;
    static const unsigned char array[] = {0xdd, 0x08, 0, 0, 0}, map[] = {0xdf, 0x08, 0, 0, 0},
                               text[] = {0xdb, 0xff, 0xff, 0xff, 0xff};
    static const unsigned char inside[] = {0x81, 0xa7, 'm',  'e',  't', 'r', 'i',
                                           'c',  's',  0xdd, 0x08, 0,   0,   0};
    struct event event;
    assert_int_equal(codec_decode_event(array, sizeof array, &event, &f->error), -1);
    assert_int_equal(codec_decode_event(map, sizeof map, &event, &f->error), -1);
    assert_int_equal(codec_decode_event(text, sizeof text, &event, &f->error), -1);
    assert_int_equal(
        codec_decode_record(inside, sizeof inside, &f->hello.schema, &f->back, &f->error), -1);
    assert_string_equal(f->error.text, "step: not a MessagePack map, or cut short");
    assert_int_equal(codec_decode_event("", 0, &event, &f->error), -1);
    assert_int_equal(codec_decode_event(NULL, 0, &event, &f->error), -1);

    size_t size = UNPACK_BYTES_MAX + 1;
    char *big = malloc(size);
    memset(big, 0x91, size); /* arrays in arrays, 16 million deep */
    memcpy(big, "\x81\xa1x", 3);
    big[size - 2] = big[size - 1] = (char)0xc0;
    assert_int_equal(codec_decode_event(big, size, &event, &f->error), -1);
    assert_non_null(strstr(f->error.text, "more than a message may have"));
    assert_int_equal(codec_decode_event(big, size - 1, &event, &f->error), -1);
    assert_string_equal(f->error.text, "event: kind is missing"); /* the nest was skipped */
    free(big);
}

static void every_cut_is_noticed(void **state) {
    struct fixture *f = *state;
    help_record(&f->record, &f->hello.schema, 5);
    assert_int_equal(codec_encode_record(&f->out, &f->hello.schema, &f->record), 0);
    for (size_t size = 0; size < f->out.size; size++) {
        char *exact = malloc(size + 1); /* so that a sanitizer sees a read beyond it */
        memcpy(exact, f->out.data, size);
        exact = realloc(exact, size ? size : 1);
        assert_int_equal(codec_decode_record(exact, size, &f->hello.schema, &f->back, &f->error),
                         -1);
        free(exact);
    }
    assert_int_equal(buffer_append(&f->out, "\xc0", 1), 0);
    assert_int_equal(
        codec_decode_record(f->out.data, f->out.size, &f->hello.schema, &f->back, &f->error), -1);
    assert_string_equal(f->error.text, "step: 1 bytes after its end");
}

static void what_is_added_later_is_skipped(void **state) {
    struct fixture *f = *state;
    help_record(&f->record, &f->hello.schema, 5);
    assert_int_equal(codec_encode_record(&f->out, &f->hello.schema, &f->record), 0);
    static const char added[] =
        "\xa6"
        "future"
        "\x82\xa1x\x93\x01\xc7\x02\x05zz\xd6\xff\x00\x00\x00\x00\x07\xc4\x01q";
    assert_int_equal(buffer_append(&f->out, added, sizeof added - 1), 0);
    f->out.data[2]++; /* one pair more */
    assert_int_equal(
        codec_decode_record(f->out.data, f->out.size, &f->hello.schema, &f->back, &f->error), 0);
    assert_same_record(&f->record, &f->back);
}

static double now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void speed_is_told(void **state) {
    struct fixture *f = *state;
    enum { ROUNDS = 2000 };
    help_record(&f->record, &f->hello.schema, 5);
    double begin = now_ns();
    for (int i = 0; i < ROUNDS; i++) codec_encode_record(&f->out, &f->hello.schema, &f->record);
    double middle = now_ns();
    for (int i = 0; i < ROUNDS; i++) {
        assert_int_equal(
            codec_decode_record(f->out.data, f->out.size, &f->hello.schema, &f->back, &f->error),
            0);
    }
    print_message("step with 31 tensors: encode %.0f ns, decode %.0f ns\n",
                  (middle - begin) / ROUNDS, (now_ns() - middle) / ROUNDS);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_record_comes_back_as_it_was),
        TEST(numbers_are_exact),
        TEST(a_record_with_everything_wrong_in_it),
        TEST(what_is_not_measured_stays_so),
        TEST(an_event_comes_back_as_it_was),
        TEST(a_hello_comes_back_as_it_was),
        TEST(beats_requests_and_statuses),
        TEST(buckets_come_back_as_they_were),
        TEST(the_smallest_foreign_publisher),
        TEST(hellos_that_are_refused),
        TEST(tensors_of_others),
        TEST(steps_that_are_refused),
        TEST(sizes_are_not_believed),
        TEST(every_cut_is_noticed),
        TEST(what_is_added_later_is_skipped),
        TEST(speed_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
