/* error, text, band, schema, record: the small things everything stands on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "shared/core/error.h"
#include "shared/core/record.h"
#include "shared/core/text.h"

static void test_error_is_one_escaped_line(void **state) {
    (void)state;
    struct error error;
    assert_int_equal(error_set(&error, "read %s: %s", "a\nb\x1b[2J", "bad"), -1);
    assert_string_equal(error.text, "read a\\x0ab\\x1b[2J: bad");
    assert_int_equal(error_set(NULL, "nobody listens"), -1);
}

static void test_escape(void **state) {
    (void)state;
    static const struct {
        const char *in, *out;
    } row[] = {
        {"plain", "plain"},
        {"ä中🎉", "ä中🎉"},
        {"\x7f", "\\x7f"},
        {"\xc2\x9b"
         "2J",
         "\\xc2\\x9b2J"},
        {"\xff\xe4", "\\xff\\xe4"},
        {"\xc0\xaf", "\\xc0\\xaf"},
        {"\xed\xa0\x80", "\\xed\\xa0\\x80"},
        {"\xe2\x80\xae", "\\xe2\\x80\\xae"},
        {"\xe4\xb8", "\\xe4\\xb8"},
    };
    char out[64];
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        assert_string_equal(text_escape(out, sizeof out, row[i].in), row[i].out);
    char small[4];
    assert_string_equal(text_escape(small, sizeof small, "a中"), "a"); /* never half a character */
    assert_string_equal(text_escape(small, sizeof small, "ab\n"), "ab");
}

static void test_number(void **state) {
    (void)state;
    static const struct {
        double in;
        const char *out;
    } row[] = {
        {0, "0.00"},           {0.0123, "0.0123"},    {0.5, "0.500"},          {0.99999, "1.00"},
        {9.996, "10.0"},       {12.34, "12.3"},       {484.4, "484"},          {99999.4, "99999"},
        {99999.6, "1.00e+05"}, {1.07e36, "1.07e+36"}, {-0.00012, "-1.20e-04"}, {NAN, "nan"},
        {INFINITY, "inf"},     {-INFINITY, "-inf"},   {1e300, "1.00e+300"},
    };
    char out[32];
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        assert_string_equal(text_number(out, sizeof out, row[i].in), row[i].out);
    assert_string_equal(text_count(out, sizeof out, 23547), "23,547");
    assert_string_equal(text_count(out, sizeof out, -123), "-123");
    assert_string_equal(text_count(out, sizeof out, INT64_MIN), "-9,223,372,036,854,775,808");
}

static void test_names_round_trip(void **state) {
    (void)state;
    for (int i = 0; i < BAND_COUNT; i++) assert_int_equal(band_find(band_name((enum band)i)), i);
    for (int i = 0; i < REASON_COUNT; i++)
        assert_int_equal(band_reason_find(band_reason_name((enum reason)i)), i);
    for (int i = 0; i < ROLE_COUNT; i++)
        assert_int_equal(schema_role_find(schema_role_name((enum role)i)), i);
    for (int i = 0; i < STAGE_COUNT; i++)
        assert_int_equal(schema_stage_find(schema_stage_name((enum stage)i)), i);
    for (int i = 0; i < DTYPE_COUNT; i++)
        assert_int_equal(schema_dtype_find(schema_dtype_name((enum dtype)i)), i);
    for (int i = 0; i < EVENT_COUNT; i++)
        assert_int_equal(event_kind_find(event_kind_name((enum event_kind)i)), i);
    assert_int_equal(band_find("fine"), -1);
}

static void test_schema(void **state) {
    (void)state;
    struct schema schema, copy;
    schema_init(&schema);
    schema_init(&copy);
    assert_int_equal(schema_find_metric(&schema, "grad_norm"), METRIC_GRAD_NORM);
    assert_int_equal(schema_add_metric(&schema, "loss"), METRIC_LOSS);
    assert_int_equal(schema_add_metric(&schema, "perplexity"), METRIC_COUNT);
    for (int i = 0; i < 5; i++) {
        struct schema_tensor tensor = {.role = ROLE_GRADIENT, .dims = 1, .shape = {i}};
        snprintf(tensor.name, sizeof tensor.name, "t%d", i);
        assert_int_equal(schema_add_tensor(&schema, &tensor), i);
    }
    schema_seal(&schema);
    assert_int_equal(schema_copy(&copy, &schema), 0);
    assert_int_equal(copy.id, schema.id);
    assert_int_equal(schema_add_tensor(&copy, &schema.tensor[0]), 5); /* a copy can grow on */
    schema_seal(&copy);
    assert_int_not_equal(copy.id, schema.id);
    assert_int_equal(schema_find_tensor(&schema, "t3", ROLE_GRADIENT), 3);
    assert_int_equal(schema_find_tensor(&schema, "t3", ROLE_PARAMETER), -1);
    for (int i = schema.metrics; i < SCHEMA_METRICS_MAX; i++) {
        char name[16];
        snprintf(name, sizeof name, "m%d", i);
        assert_int_equal(schema_add_metric(&schema, name), i);
    }
    assert_int_equal(schema_add_metric(&schema, "one too many"), -1);
    schema_free(&schema);
    schema_free(&copy);
}

static void test_record_copy_and_clear(void **state) {
    (void)state;
    struct record a, b;
    assert_int_equal(record_init(&a, 3), 0);
    assert_int_equal(record_init(&b, 0), 0);
    assert_int_equal(a.tensor[2].count, -1);
    assert_true(isnan(a.tensor[2].max_abs));
    record_set(&a, METRIC_LOSS, NAN);
    a.tensor[1].nan = 7;
    assert_int_equal(record_copy(&b, &a), 0);
    assert_true(record_has(&b, METRIC_LOSS));
    assert_false(record_has(&b, METRIC_GRAD_NORM));
    assert_int_equal(b.tensor[1].nan, 7);
    record_clear(&b);
    assert_int_equal(b.tensors, 3);
    assert_int_equal(b.tensor[1].nan, 0);
    assert_false(record_has(&b, METRIC_LOSS));
    record_free(&a);
    record_free(&b);
}

static void test_hello(void **state) {
    (void)state;
    struct hello a, b;
    hello_init(&a);
    hello_init(&b);
    hello_set_config(&a, "seed", "1");
    hello_set_config(&a, "seed", "202");
    assert_int_equal(a.configs, 1);
    for (int i = 0; i < 2 * RECORD_CONFIG_MAX; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", i);
        hello_set_config(&a, key, "v");
    }
    assert_int_equal(a.configs, RECORD_CONFIG_MAX);
    assert_int_equal(hello_copy(&b, &a), 0);
    assert_string_equal(hello_find_config(&b, "seed"), "202");
    assert_null(hello_find_config(&b, "none"));
    hello_free(&a);
    hello_free(&b);
    assert_true(record_id_valid("sbac-202-1a2b3c4d"));
    assert_false(record_id_valid("../etc"));
    assert_false(record_id_valid(".hidden"));
    assert_false(record_id_valid(""));
    assert_false(
        record_id_valid("0123456789012345678901234567890123456789012345678901234567890123"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_error_is_one_escaped_line),
        cmocka_unit_test(test_escape),
        cmocka_unit_test(test_number),
        cmocka_unit_test(test_names_round_trip),
        cmocka_unit_test(test_schema),
        cmocka_unit_test(test_record_copy_and_clear),
        cmocka_unit_test(test_hello),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
