/* Cells: clipping, wide and combining characters, escapes, text and ASCII. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tui/grid.h"

static struct grid grid;

static int setup(void **state) {
    (void)state;
    return grid_resize(&grid, 3, 10);
}

static int teardown(void **state) {
    (void)state;
    grid_free(&grid);
    return 0;
}

static void assert_text(const char *wanted) {
    char *text = grid_to_text(&grid, false);
    assert_string_equal(text, wanted);
    free(text);
}

static void test_outside_nothing_happens(void **state) {
    (void)state;
    for (int row = -2; row < 5; row++) {
        for (int column = -2; column < 14; column++) {
            bool inside = row >= 0 && row < 3 && column >= 0 && column < 10;
            if (!inside) grid_put(&grid, row, column, 'x', GRID_TEXT);
        }
    }
    grid_text(&grid, 3, 0, 10, GRID_TEXT, "below");
    grid_text(&grid, -1, 0, 10, GRID_TEXT, "above");
    assert_text("\n\n\n");
    assert_int_equal(grid_text(&grid, 0, 8, 5, GRID_TEXT, "right"), 5);
    assert_int_equal(grid_text(&grid, 1, -2, 5, GRID_TEXT, "left!"), 5);
    assert_text("        ri\nft!\n\n");
}

static void test_width_clips(void **state) {
    (void)state;
    assert_int_equal(grid_text(&grid, 0, 1, 4, GRID_TEXT, "gradient"), 4);
    assert_int_equal(grid_text(&grid, 1, 0, 1, GRID_TEXT, "gradient"), 1);
    assert_int_equal(grid_text(&grid, 2, 0, 0, GRID_TEXT, "none"), 0);
    assert_text(" gra…\n…\n\n");
}

/* Half a number is another one. */
static void test_no_number_is_cut(void **state) {
    (void)state;
    static const char *const CASES[][2] = {
        {"12345678901", "…"},          {"step 123,456", "step…"},
        {"conv2 32143555", "conv2…"},  {"conv2 is NaN", "conv2 is…"},
        {"step-00000052", "step…"},    {"a b 55\u00a0NaN x", "a b 55 Na…"},
        {"0, -12345678", "0…"},        {"1234567890", "1234567890"},
        {"abc5\u00a0NaN", "abc5 NaN"}, {"conv2.weight", "conv2.wei…"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        char wanted[64];
        grid_clear(&grid);
        grid_text(&grid, 0, 0, 10, GRID_TEXT, CASES[i][0]);
        snprintf(wanted, sizeof wanted, "%s\n\n\n", CASES[i][1]);
        assert_text(wanted);
    }
}

static void test_controls_are_escaped(void **state) {
    (void)state;
    assert_int_equal(grid_text(&grid, 0, 0, 10, GRID_TEXT, "a\033[2J"), 8);
    assert_int_equal(grid_text(&grid, 1, 0, 10, GRID_TEXT, "\xff\xc2\x9b"), 10);
    grid_text(&grid, 2, 0, 10, GRID_TEXT,
              "x\xe2\x80\x8b\xef\xb8\x8fy"); /* zero width, variant: left out */
    assert_text("a\\x1b[2J\n\\xff\\xc2\\…\nxy\n");
}

static void test_wide_and_combining(void **state) {
    (void)state;
    assert_int_equal(grid_text(&grid, 0, 0, 10, GRID_TEXT, "漢字e\xcc\x81!"), 6);
    assert_int_equal(grid.cell[0].glyph[0], 0x6f22);
    assert_int_equal(grid.cell[1].glyph[0], 0);
    assert_int_equal(grid.cell[4].glyph[0], 'e');
    assert_int_equal(grid.cell[4].glyph[1], 0x301);
    assert_int_equal(grid_text(&grid, 1, 0, 3, GRID_TEXT, "漢字"), 3); /* no half of a character */
    assert_int_equal(grid_text(&grid, 2, 9, 5, GRID_TEXT, "漢x"), 3);
    assert_text("漢字e\xcc\x81!\n漢…\n\n");
}

static void test_overwritten_half(void **state) {
    (void)state;
    grid_text(&grid, 0, 0, 10, GRID_TEXT, "漢字漢");
    grid_put(&grid, 0, 1, 'a', GRID_TEXT); /* the right half of the first */
    grid_put(&grid, 0, 2, 'b', GRID_TEXT); /* the left half of the second */
    grid_text(&grid, 0, 3, 2, GRID_TEXT, "字");
    assert_text(" ab字\n\n\n");
    for (int i = 0; i < 10; i++) /* no half without the other */
        if (grid.cell[i].glyph[0] == 0) assert_true(i > 0 && grid.cell[i - 1].glyph[0] > 0xff);
}

static void test_resize_keeps_memory(void **state) {
    (void)state;
    struct grid_cell *before = grid.cell;
    grid_text(&grid, 0, 0, 10, GRID_TEXT, "old");
    assert_int_equal(grid_resize(&grid, 1, 1), 0);
    assert_ptr_equal(grid.cell, before);
    assert_int_equal(grid_resize(&grid, 3, 10), 0);
    assert_ptr_equal(grid.cell, before);
    assert_text("\n\n\n");
}

/* The marks stay what they are, and no bar, line or dot becomes one of them. */
static void test_ascii(void **state) {
    (void)state;
    const char *marks = "N+-:^_";
    for (const char *mark = marks; *mark; mark++)
        assert_int_equal(grid_ascii((unsigned char)*mark), *mark);
    for (uint32_t bar = 0x2581; bar <= 0x2588; bar++) {
        assert_true(grid_ascii(bar) < 0x7f && grid_ascii(bar) != '?' && grid_ascii(bar) != ' ');
        assert_null(strchr(marks, (int)grid_ascii(bar)));
        for (uint32_t other = 0x2581; other < bar; other++)
            assert_int_not_equal(grid_ascii(bar), grid_ascii(other));
    }
    static const uint32_t IN_PANELS[] = {0x2502, 0x250a, 0x254c, 0xb7};
    for (size_t i = 0; i < sizeof IN_PANELS / sizeof *IN_PANELS; i++)
        assert_null(strchr(marks, (int)grid_ascii(IN_PANELS[i])));
    assert_int_equal(grid_ascii(0x6f22), '?');
    grid_text(&grid, 0, 0, 10, GRID_TEXT, "▁█─e\xcc\x81漢");
    char *text = grid_to_text(&grid, true);
    assert_string_equal(text, ".@-e?\n\n\n");
    free(text);
}

int main(void) {
    if (setlocale(LC_CTYPE, "C.UTF-8") == NULL) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_outside_nothing_happens, setup, teardown),
        cmocka_unit_test_setup_teardown(test_width_clips, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_number_is_cut, setup, teardown),
        cmocka_unit_test_setup_teardown(test_controls_are_escaped, setup, teardown),
        cmocka_unit_test_setup_teardown(test_wide_and_combining, setup, teardown),
        cmocka_unit_test_setup_teardown(test_overwritten_half, setup, teardown),
        cmocka_unit_test_setup_teardown(test_resize_keeps_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ascii, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
