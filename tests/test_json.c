#include "shared/store/json.h"

#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <json-c/json.h>

#include "shared/core/error.h"
#include "tests/help_store.h"

struct fixture {
    struct hello hello;
    struct schema schema; /* of a stream: grows */
    struct record record, back;
    struct buffer out;
    struct error error;
    int64_t next_step;
    bool judged;
};

static int setup(void **state) {
    struct fixture *f = calloc(1, sizeof *f);
    help_hello(&f->hello);
    schema_init(&f->schema);
    record_init(&f->record, f->hello.schema.tensors);
    record_init(&f->back, 0);
    f->next_step = 1;
    *state = f;
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;
    hello_free(&f->hello);
    schema_free(&f->schema);
    record_free(&f->record);
    record_free(&f->back);
    buffer_free(&f->out);
    free(f);
    return 0;
}

static int decode(struct fixture *f, const char *line) {
    size_t size = strlen(line);
    char *exact = malloc(
        size ? size : 1); /* without a terminator, so that a sanitizer sees a read beyond it */
    memcpy(exact, line, size);
    f->error.text[0] = '\0';
    int result =
        json_decode_record(exact, size, &f->schema, &f->back, &f->next_step, &f->judged, &f->error);
    free(exact);
    return result;
}

static const char *line_of(struct fixture *f) {
    assert_int_equal(buffer_append(&f->out, "", 1), 0);
    return f->out.data;
}

static double metric(struct fixture *f, const char *name) {
    int slot = schema_find_metric(&f->schema, name);
    assert_true(slot >= 0 && record_has(&f->back, slot));
    return f->back.metric[slot];
}

static bool has(struct fixture *f, const char *name) {
    int slot = schema_find_metric(&f->schema, name);
    return slot >= 0 && record_has(&f->back, slot);
}

static void a_line_reads_as_expected(void **state) {
    struct fixture *f = *state;
    record_clear(&f->record);
    f->record.step = 40;
    f->record.epoch = 11;
    f->record.batch = 40;
    record_set(&f->record, METRIC_LOSS, 0.1);
    record_set(&f->record, METRIC_LR, 0);
    record_set(&f->record, METRIC_GRAD_NORM, INFINITY);
    record_set(&f->record, METRIC_ACT_MAX, NAN);
    record_set(&f->record, METRIC_UPDATE_RATIO, -1e-300);
    f->record.band = BAND_NONFINITE;
    f->record.reason = REASON_NONFINITE;
    strcpy(f->record.subject, "a \"b\"\\\x1b[31m\xc3\xa9\xc2\x85\xff");
    f->record.value = -INFINITY;
    struct verdict verdict = {.alarm = true, .onset = 40, .lead = -1, .tensor = -1};
    assert_int_equal(json_encode_record(&f->out, &f->hello.schema, &f->record, &verdict), 0);
    assert_string_equal(
        line_of(f), "{\"step\": 40, \"epoch\": 11, \"batch\": 40, \"loss\": 0.1, \"lr\": 0, "
                    "\"grad_norm\": \"inf\", "
                    "\"act_max\": \"nan\", \"update_ratio\": -1e-300, \"band\": \"non-finite\", "
                    "\"reason\": \"non-finite\", \"subject\": \"a "
                    "\\\"b\\\"\\\\\\u001b[31m\xc3\xa9\\u0085\\ufffd\", "
                    "\"value\": \"-inf\", \"alarm\": true, \"onset\": 40}");
    record_clear(&f->record);
    assert_int_equal(json_encode_record(&f->out, &f->hello.schema, &f->record, NULL), 0);
    assert_string_equal(line_of(f), "{\"step\": 0, \"band\": \"finite\"}");
}

static void what_is_written_is_strict_and_comes_back(void **state) {
    static const double values[] = {
        0.1, 1.0 / 3,  5e-324,   1.7976931348623157e308, -0.0, 123456789012345680.0,
        NAN, INFINITY, -INFINITY};
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        help_record(&f->record, &f->hello.schema, (int64_t)i);
        record_set(&f->record, METRIC_LOSS, values[i]);
        f->record.band = BAND_EXTREME;
        f->record.reason = REASON_PEAK;
        strcpy(f->record.subject, "grad_norm");
        f->record.limit = values[i];
        assert_int_equal(json_encode_record(&f->out, &f->hello.schema, &f->record, NULL), 0);
        const char *line = line_of(f);
        assert_null(strstr(line, "NaN"));
        assert_null(strchr(line, '\n'));
        assert_int_equal(decode(f, line), 0);
        assert_true(f->judged);
        assert_int_equal(f->back.band, BAND_EXTREME);
        assert_int_equal(f->back.reason, REASON_PEAK);
        assert_string_equal(f->back.subject, "grad_norm");
        assert_int_equal(f->back.step, i);
        assert_int_equal(f->back.seq, i + 1);
        assert_int_equal(f->back.wall_ns, f->record.wall_ns);
        assert_int_equal(f->next_step, i + 1);
        for (int slot = 0; slot < f->hello.schema.metrics; slot++) {
            if (!record_has(&f->record, slot)) continue;
            double back = metric(f, f->hello.schema.metric[slot]), was = f->record.metric[slot];
            assert_true(isnan(was) ? isnan(back) : memcmp(&back, &was, sizeof was) == 0);
        }
        assert_true(isnan(values[i]) ? isnan(f->back.limit) : f->back.limit == values[i]);
    }
}

static void the_lines_of_others(void **state) {
    struct fixture *f = *state;
    assert_int_equal(
        decode(f, "{\"step\": 12, \"loss\": NaN, \"grad_norm\": Infinity, \"lr\": -Infinity}"), 0);
    assert_true(isnan(metric(f, "loss")));
    assert_true(metric(f, "grad_norm") == INFINITY);
    assert_true(metric(f, "lr") == -INFINITY);
    assert_false(f->judged);
    assert_int_equal(f->back.band, BAND_FINITE);
    assert_int_equal(f->back.step, 12);
    assert_int_equal(decode(f, " {\"loss\": \"-Infinity\"} \n"), 0);
    assert_true(metric(f, "loss") == -INFINITY);
    assert_int_equal(f->back.step, 13);
    uint64_t id = f->schema.id;
    assert_int_equal(decode(f, "{\"loss\": 1, \"learning_rate\": 1e-3, \"note\": \"x\", \"done\": "
                               "true, \"epoch\": 0.03, \"acc\": null}"),
                     0);
    assert_int_equal(f->back.step, 14);
    assert_true(metric(f, "learning_rate") == 1e-3);
    assert_true(f->schema.id != id);
    assert_int_equal(f->back.schema_id, f->schema.id);
    assert_false(has(f, "note"));
    assert_false(has(f, "done"));
    assert_false(has(f, "acc"));
    assert_int_equal(f->back.epoch, -1);
    id = f->schema.id;
    assert_int_equal(decode(f, "{\"step\": 20.0, \"loss\": null, \"step_skipped\": true, "
                               "\"epoch\": 3, \"learning_rate\": \"nan\"}"),
                     0);
    assert_int_equal(f->back.step, 20);
    assert_int_equal(f->back.epoch, 3);
    assert_false(has(f, "loss"));
    assert_true(metric(f, "step_skipped") == 1);
    assert_true(isnan(metric(f, "learning_rate")));
    assert_int_equal(decode(f, "{\"step\": 9007199254740992, \"big\": 18446744073709551615}"), 0);
    assert_true(metric(f, "big") == 18446744073709551616.0);
    assert_int_equal(decode(f, "{}"), 0);
    assert_int_equal(decode(f, "{\"event\": \"alarm\", \"step\": 3}"), 1);
    assert_int_equal(f->next_step, (INT64_C(1) << 53) + 2);
}

static void a_table_of_metrics_that_is_full_stays_so(void **state) {
    struct fixture *f = *state;
    char line[64];
    for (int i = 0; i < 100; i++) {
        snprintf(line, sizeof line, "{\"metric%d\": %d}", i, i);
        assert_int_equal(decode(f, line), 0);
    }
    assert_int_equal(f->schema.metrics, SCHEMA_METRICS_MAX);
    assert_int_equal(
        decode(f, "{\"a_name_of_more_than_31_bytes_is_skipped\": 1, \"\": 2, \"metric0\": 5}"), 0);
    assert_true(metric(f, "metric0") == 5);
}

static void what_is_no_line_is_told(void **state) {
    static const char *const cases[][2] = {
        {"", "not JSON: cut short"},
        {"{\"loss\": 1", "not JSON: cut short"},
        {"[1]", "not a JSON object"},
        {"null ", "not a JSON object"},
        {"3", "not JSON: cut short"}, /* might go on */
        {"{\"loss\": 1} x", "not JSON: "},
        {"{\"loss\": 1,}", "not JSON: "},
        {"{\"a\": \"\xff\"}", "not JSON: "},
        {"{\"loss\": {\"a\": 1}}", "loss is nested: a line is a flat object"},
        {"{\"x\": [1]}", "x is nested"},
        {"{\"step\": -1}", "step is not a whole number from 0 on: -1"},
        {"{\"step\": 1.5}", "step is not a whole number from 0 on: 1.5"},
        {"{\"step\": \"1\"}", "step is not a whole number from 0 on: \"1\""},
        {"{\"step\": NaN}", "step is not a whole number from 0 on: NaN"},
        {"{\"step\": 9007199254740993}", "step is not a whole number from 0 on"},
        {"{\"step\": 99999999999999999999999}", "step is not a whole number from 0 on"},
        {"{\"loss\": \"low\"}", "loss is not a number: \"low\""},
        {"{\"loss\": \"--inf\"}", "loss is not a number: \"--inf\""},
        {"{\"loss\": 1e999}", "loss is not a number: 1e999"},
        {"{\"band\": \"green\"}", "band is not finite, extreme or non-finite"},
    };
    struct fixture *f = *state;
    assert_int_equal(decode(f, "{\"step\": 7, \"loss\": 2}"), 0);
    uint64_t id = f->schema.id;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (decode(f, cases[i][0]) != -1) fail_msg("%s is taken", cases[i][0]);
        if (strncmp(f->error.text, cases[i][1], strlen(cases[i][1])) != 0)
            fail_msg("%s: %s", cases[i][0], f->error.text);
        assert_int_equal(f->back.step, 7);
        assert_int_equal(f->next_step, 8);
        assert_int_equal(f->schema.id, id);
    }
    size_t size = 2 << 20;
    char *big = malloc(size);
    memset(big, '[', size);
    assert_int_equal(
        json_decode_record(big, size, &f->schema, &f->back, &f->next_step, &f->judged, &f->error),
        -1);
    assert_int_equal(json_decode_record(big, 1 << 19, &f->schema, &f->back, &f->next_step,
                                        &f->judged, &f->error),
                     -1);
    free(big);
}

static void an_event_reads_as_expected(void **state) {
    struct fixture *f = *state;
    struct event event;
    event_init(&event, EVENT_NONFINITE);
    event.seq = 50;
    event.step = 46;
    event.band = BAND_NONFINITE;
    event.reason = REASON_NONFINITE;
    strcpy(event.subject, "logits/activation");
    event.value = NAN;
    event.limit = INFINITY;
    event.tensor = 4;
    event.stage = STAGE_FORWARD;
    event.bad_index = 0;
    event.nan = 640;
    event.count = 640;
    event.input_hash = 255;
    event.onset = 40;
    event.lead = 6;
    assert_int_equal(json_encode_event(&f->out, &f->hello.schema, &event), 0);
    assert_string_equal(
        line_of(f),
        "{\"event\": \"non-finite\", \"seq\": 50, \"step\": 46, \"band\": \"non-finite\", "
        "\"reason\": \"non-finite\", \"subject\": \"logits/activation\", \"limit\": \"inf\", "
        "\"stage\": \"forward\", \"bad_index\": 0, \"nan\": 640, \"count\": 640, "
        "\"input_hash\": \"00000000000000ff\", \"onset\": 40, \"lead\": 6, \"tensor\": \"logits\", "
        "\"role\": \"logits\"}");
    event.tensor = 99; /* not of this schema */
    assert_int_equal(json_encode_event(&f->out, &f->hello.schema, &event), 0);
    assert_null(strstr(line_of(f), "tensor"));
    struct json_object *object = json_tokener_parse(line_of(f));
    assert_non_null(object);
    json_object_put(object);
}

static void a_batch_is_named_by_its_hashes(void **state) {
    struct fixture *f = *state;
    record_clear(&f->record);
    f->record.hashed = true;
    f->record.input_hash = UINT64_C(0x0bcdef0123456789);
    f->record.label_hash = 15;
    assert_int_equal(json_encode_record(&f->out, &f->hello.schema, &f->record, NULL), 0);
    assert_non_null(strstr(line_of(f), "\"input_hash\": \"0bcdef0123456789\""));
    assert_non_null(strstr(line_of(f), "\"label_hash\": \"000000000000000f\""));
    assert_int_equal(decode(f, line_of(f)), 0);
    assert_true(f->back.hashed && f->back.input_hash == f->record.input_hash);
    assert_true(f->back.label_hash == 15);
    assert_int_equal(decode(f, "{\"step\": 3, \"input_hash\": \"12\", \"label_hash\": 7}"), 0);
    assert_false(f->back.hashed);
}

static void the_locale_does_not_matter(void **state) {
    static const char *const locales[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8"};
    struct fixture *f = *state;
    for (size_t i = 0; i < 3; i++) {
        if (!setlocale(LC_NUMERIC, locales[i])) continue;
        char number[32];
        assert_string_equal(json_number(number, sizeof number, 0.5), "0.5");
        assert_int_equal(decode(f, "{\"loss\": 0.25}"), 0);
        assert_true(metric(f, "loss") == 0.25);
        setlocale(LC_NUMERIC, "C");
    }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_line_reads_as_expected),
        TEST(what_is_written_is_strict_and_comes_back),
        TEST(the_lines_of_others),
        TEST(a_table_of_metrics_that_is_full_stays_so),
        TEST(what_is_no_line_is_told),
        TEST(an_event_reads_as_expected),
        TEST(a_batch_is_named_by_its_hashes),
        TEST(the_locale_does_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
