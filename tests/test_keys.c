/* The table of keys, and what terminals send for them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "tui/keys.h"

static void assert_key(const char *bytes, int final, uint32_t wanted, size_t taken) {
    uint32_t code;
    assert_int_equal(keys_decode((const unsigned char *)bytes, strlen(bytes), final, &code), taken);
    if (taken > 0) assert_int_equal(code, wanted);
}

static void test_decode(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        uint32_t code;
    } KEYS[] = {
        {"q", 'q'},
        {"\r", '\r'},
        {"\033[A", KEYS_UP},
        {"\033OA", KEYS_UP},
        {"\033[B", KEYS_DOWN},
        {"\033[C", KEYS_RIGHT},
        {"\033[D", KEYS_LEFT},
        {"\033[H", KEYS_HOME},
        {"\033OH", KEYS_HOME},
        {"\033[1~", KEYS_HOME},
        {"\033[7~", KEYS_HOME},
        {"\033[F", KEYS_END},
        {"\033[4~", KEYS_END},
        {"\033[8~", KEYS_END},
        {"\033[5~", KEYS_PAGE_UP},
        {"\033[6~", KEYS_PAGE_DOWN},
        {"\033[1;5C", KEYS_NONE},
        {"\033[?1;2c", KEYS_NONE},
        {"\033[0n", KEYS_NONE},
        {"\303", KEYS_NONE},
    };
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++)
        assert_key(KEYS[i].bytes, 0, KEYS[i].code, strlen(KEYS[i].bytes));
    assert_key("\033[A\033[B", 0, KEYS_UP, 3);
    assert_key("\033x", 0, 27, 1);
}

static void test_halves_wait(void **state) {
    (void)state;
    assert_key("", 0, 0, 0);
    assert_key("\033", 0, 0, 0);
    assert_key("\033", 1, 27, 1);
    assert_key("\033[", 0, 0, 0);
    assert_key("\033[1;", 0, 0, 0);
    assert_key("\033[1;", 1, KEYS_NONE, 4);
}

/* No bytes, however broken, make the decoder stand still or run over. */
static void test_decode_ends(void **state) {
    (void)state;
    unsigned seed = 1;
    for (int round = 0; round < 20000; round++) {
        unsigned char bytes[12];
        for (size_t i = 0; i < sizeof bytes; i++) {
            seed = seed * 1103515245u + 12345u;
            bytes[i] = (unsigned char)"\033[O~;A0q\377\000\200\177"[(seed >> 16) % 12];
        }
        size_t used = 0;
        while (used < sizeof bytes) {
            uint32_t code;
            size_t size = keys_decode(bytes + used, sizeof bytes - used, 1, &code);
            assert_in_range(size, 1, sizeof bytes - used);
            used += size;
        }
    }
}

static void test_table(void **state) {
    (void)state;
    for (const struct keys_binding *at = KEYS_BINDINGS; at->action != KEYS_IGNORE; at++) {
        assert_non_null(at->name);
        assert_non_null(at->help);
        assert_int_equal(at->line_name == NULL, at->line_help == NULL);
        for (unsigned scope = 1; scope <= KEYS_HELP;
             scope <<= 1) { /* what is listed works, and no key has two meanings */
            if ((at->scopes & scope) == 0) continue;
            for (int i = 0; i < 2; i++)
                if (at->code[i] != 0) assert_int_equal(keys_find(scope, at->code[i]), at->action);
        }
    }
    assert_int_equal(keys_find(KEYS_LIVE, ' '), KEYS_FREEZE);
    assert_int_equal(keys_find(KEYS_FROZEN, ' '), KEYS_UNFREEZE);
    assert_int_equal(keys_find(KEYS_FROZEN, 'f'), KEYS_UNFREEZE);
    assert_int_equal(keys_find(KEYS_LIVE, 0), KEYS_IGNORE);
    assert_int_equal(keys_find(KEYS_LIVE, 'z'), KEYS_IGNORE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decode),
        cmocka_unit_test(test_halves_wait),
        cmocka_unit_test(test_decode_ends),
        cmocka_unit_test(test_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
