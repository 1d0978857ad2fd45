/* Theme files: what they may say, what is refused with file, line and reason, and colours on poorer
 * terminals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tui/theme.h"

static void test_style(void **state) {
    (void)state;
    struct theme theme;
    struct error error;
    assert_int_equal(theme_parse(&theme, "x/mine.ini",
                                 "; a comment\n[roles]\nextreme = #ffaf00 on 16 bold "
                                 "underline\ndim=244 dim\nfrozen = default reverse ; why\n",
                                 &error),
                     0);
    assert_string_equal(theme.name, "mine");
    struct theme_style *style = &theme.style[GRID_EXTREME];
    assert_int_equal(style->foreground, THEME_RGB | 0xffaf00);
    assert_int_equal(style->background, 16);
    assert_int_equal(style->attributes, THEME_BOLD | THEME_UNDERLINE);
    assert_int_equal(theme.style[GRID_DIM].foreground, 244);
    assert_int_equal(theme.style[GRID_DIM].background, THEME_DEFAULT);
    assert_int_equal(theme.style[GRID_FROZEN].foreground, THEME_DEFAULT);
    assert_int_equal(theme.style[GRID_FROZEN].attributes, THEME_REVERSE);
    assert_int_equal(theme.style[GRID_TEXT].foreground, THEME_DEFAULT); /* not in the file */
}

static void test_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *reason;
    } CASES[] = {
        {"[roles]\ntext = 256\n", "theme t: line 2: '256' is no colour or attribute"},
        {"[roles]\ntext = -1\n", "theme t: line 2: '-1' is no colour or attribute"},
        {"[roles]\n\ntext = #fff\n", "theme t: line 3: '#fff' is no colour or attribute"},
        {"[roles]\ntext = 1 on\n", "theme t: line 2: 'on' is no colour or attribute"},
        {"[roles]\ntext = 1 loud\n", "theme t: line 2: 'loud' is no colour or attribute"},
        {"[roles]\ntext =\n", "theme t: line 2: '' is no colour or attribute"},
        {"[roles]\ntexture = 1\n", "theme t: line 2: there is no role 'texture'"},
        {"text = 1\n", "theme t: line 1: 'text' stands under no [roles]"},
        {"[roles]\nwhat is this\n", "theme t: line 2: neither [section] nor role = look"},
        {"[roles]\ntext = \033[2J\n", "theme t: line 2: '\\x1b[2J' is no colour or attribute"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct theme theme = {.name = "before"};
        struct error error;
        assert_int_equal(theme_parse(&theme, "t", CASES[i].text, &error), -1);
        assert_string_equal(error.text, CASES[i].reason);
        assert_string_equal(theme.name, "before");
    }
}

static void test_builtin(void **state) {
    (void)state;
    static const char *const NAMES[] = {"dark", "light", "mono"};
    for (int i = 0; i < 3; i++) {
        char path[64];
        struct theme built, loaded;
        struct error error;
        assert_string_equal(theme_builtin_name(i), NAMES[i]);
        theme_builtin(&built, NAMES[i]);
        snprintf(path, sizeof path, "./themes/%s.ini", NAMES[i]);
        assert_int_equal(theme_load(&loaded, path, &error), 0);
        assert_string_equal(built.name, NAMES[i]);
        assert_memory_equal(built.style, loaded.style,
                            sizeof built.style); /* what is built in is the file */
    }
    assert_null(theme_builtin_name(3));
    struct theme mono;
    theme_builtin(&mono, "mono");
    for (int role = 0; role < GRID_ROLE_COUNT; role++) {
        assert_int_equal(mono.style[role].foreground, THEME_DEFAULT);
        assert_int_equal(mono.style[role].background, THEME_DEFAULT);
    }
    assert_int_not_equal(mono.style[GRID_EXTREME].attributes,
                         mono.style[GRID_NONFINITE].attributes);
    assert_int_not_equal(mono.style[GRID_EXTREME].attributes, mono.style[GRID_FINITE].attributes);
}

static void test_folders(void **state) {
    (void)state;
    char folder[] = "/tmp/test-theme-XXXXXX", path[128];
    assert_non_null(mkdtemp(folder));
    setenv("XDG_CONFIG_HOME", folder, 1);
    snprintf(path, sizeof path, "%s/nantop", folder);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/nantop/themes", folder);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/nantop/themes/own.ini", folder);
    FILE *file = fopen(path, "w");
    fputs("[roles]\ntext = 3\n", file);
    fclose(file);
    struct theme theme;
    struct error error;
    assert_int_equal(theme_load(&theme, "own", &error), 0);
    assert_int_equal(theme.style[GRID_TEXT].foreground, 3);
    assert_int_equal(theme_load(&theme, "nowhere", &error), -1);
    assert_string_equal(error.text, "theme nowhere: neither in the theme folders nor built in");
    assert_int_equal(theme_load(&theme, "./nowhere.ini", &error), -1);
    assert_string_equal(error.text, "theme ./nowhere.ini: there is no such file");
    file = fopen(path, "w");
    fputs("[roles]\ntext = mauve\n", file);
    fclose(file);
    assert_int_equal(theme_load(&theme, "own", &error), -1);
    assert_non_null(strstr(error.text, "own.ini: line 2: 'mauve'"));
    assert_int_equal(theme_load(&theme, folder, &error), -1); /* a folder */
    unlink(path);
    for (const char *end; (end = strrchr(path, '/')) != NULL && strcmp(path, folder) != 0;) {
        path[end - path] = '\0';
        rmdir(path);
    }
    unsetenv("XDG_CONFIG_HOME");
}

static void test_nearest(void **state) {
    (void)state;
    assert_int_equal(theme_nearest(THEME_DEFAULT, 8), THEME_DEFAULT);
    assert_int_equal(theme_nearest(3, 8), 3);
    assert_int_equal(theme_nearest(THEME_RGB | 0xff0000, 256), 196);
    assert_int_equal(theme_nearest(THEME_RGB | 0xffaf00, 256), 214);
    assert_int_equal(theme_nearest(THEME_RGB | 0x808080, 256), 244);
    assert_int_equal(theme_nearest(THEME_RGB | 0xff5f5f, 8), 1);
    assert_int_equal(theme_nearest(THEME_RGB | 0xffaf00, 8), 3);
    assert_int_equal(theme_nearest(214, 8), 3);
    assert_int_equal(theme_nearest(THEME_RGB | 0x4e4e4e, 8),
                     THEME_DEFAULT); /* not black on black */
    assert_int_equal(theme_nearest(THEME_RGB | 0x4e4e4e, 16), 8);
    assert_int_equal(theme_nearest(THEME_RGB | 0x000000, 8), 0);
    struct theme theme; /* bands differ with 8 colours, too */
    for (int i = 0; i < 2; i++) {
        theme_builtin(&theme, theme_builtin_name(i));
        assert_int_equal(theme_nearest(theme.style[GRID_NONFINITE].foreground, 8), 1);
        assert_int_equal(theme_nearest(theme.style[GRID_EXTREME].foreground, 8), 3);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_style),   cmocka_unit_test(test_refused),
        cmocka_unit_test(test_builtin), cmocka_unit_test(test_folders),
        cmocka_unit_test(test_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
