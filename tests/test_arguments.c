/* The command line of nantop. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "tui/arguments.h"

static int parse(struct arguments *options, struct error *error, const char *line) {
    static char words[256];
    static char *argv[16];
    int argc = 1;
    argv[0] = (char[]){"nantop"};
    strcpy(words, line);
    for (char *rest, *word = strtok_r(words, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest))
        argv[argc++] = word;
    argv[argc] = NULL;
    error->text[0] = '\0';
    return arguments_parse(options, argc, argv, error);
}

static void test_taken(void **state) {
    (void)state;
    struct arguments options;
    struct error error;
    assert_int_equal(parse(&options, &error, ""), 0);
    assert_int_equal(options.sources, 0);
    assert_int_equal(options.freeze, LENS_FREEZE_ALARM);
    assert_false(options.once || options.json || options.follow || options.rejudge);
    assert_int_equal(parse(&options, &error, "one --json two --follow -"), 0);
    assert_int_equal(options.sources, 3);
    assert_string_equal(options.source[0], "one");
    assert_string_equal(options.source[2], "-");
    assert_true(options.json && options.follow);
    assert_int_equal(parse(&options, &error,
                           "--freeze-on nonfinite --theme=mono --save-dir /tmp --threshold "
                           "update=0.5 --once --columns 120 --rows 1"),
                     0);
    assert_int_equal(options.freeze, LENS_FREEZE_NONFINITE);
    assert_string_equal(options.theme, "mono");
    assert_string_equal(options.save_dir, "/tmp");
    assert_true(options.rejudge && options.limits.update == 0.5 && options.limits.runaway == 1);
    assert_true(options.columns == 120 && options.rows == 1);
    assert_int_equal(parse(&options, &error, "-- --once"), 0);
    assert_int_equal(options.sources, 1);
}

static void test_refused(void **state) {
    (void)state;
    static const char *const LINES[][2] = {
        {"--frobnicate", "option --frobnicate is not known: nantop --help"},
        {"-x", "option -x is not known: nantop --help"},
        {"-xh", "option -x is not known: nantop --help"},
        {"--theme", "option --theme wants an argument"},
        {"--rows 0", "option --rows: \"0\" is no number from 1 to 1000"},
        {"--rows 12x", "option --rows: \"12x\" is no number from 1 to 1000"},
        {"--columns -3", "option --columns: \"-3\" is no number from 1 to 1000"},
        {"--freeze-on maybe", "option --freeze-on: \"maybe\" is not alarm|nonfinite|never"},
        {"--once --json", "--once and --json exclude each other"},
        {"--follow", "--follow goes with --json"},
        {"- -", "stdin (-) can be read once only"},
    };
    struct arguments options;
    struct error error;
    for (size_t i = 0; i < sizeof LINES / sizeof *LINES; i++) {
        assert_int_equal(parse(&options, &error, LINES[i][0]), -1);
        assert_string_equal(error.text, LINES[i][1]);
    }
    assert_int_equal(parse(&options, &error, "--threshold nonsense=1"), -1);
    assert_int_not_equal(error.text[0], '\0');
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_taken),
                                       cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
