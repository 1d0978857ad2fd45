#include "tui/keys.h"

#include <string.h>

enum { RUN = KEYS_LIVE | KEYS_FROZEN, ANY = KEYS_OVERVIEW | RUN | KEYS_HELP, ESC = 27 };

const struct keys_binding KEYS_BINDINGS[] = {
    {KEYS_QUIT, ANY, {'q'}, "q", "quit", "q", "quit"},
    {KEYS_SHOW_HELP, KEYS_OVERVIEW | RUN, {'?'}, "?", "this help", "?", "help"},
    {KEYS_OPEN, KEYS_OVERVIEW, {'\r', '\n'}, "Enter", "open the selected run", "Enter", "open"},
    {KEYS_FREEZE, KEYS_LIVE, {' '}, "space", "freeze; the run goes on", "space", "freeze"},
    {KEYS_UNFREEZE, KEYS_FROZEN, {' ', 'f'}, "space f", "back to live", "space", "live"},
    {KEYS_STEP_BACK, RUN, {KEYS_LEFT}, "←", "one column back; freezes", "←→", "step"},
    {KEYS_STEP_ON, KEYS_FROZEN, {KEYS_RIGHT}, "→", "one column on", NULL, NULL},
    {KEYS_EVENT_BACK, RUN, {'['}, "[", "to the event before; freezes", "[ ]", "event"},
    {KEYS_EVENT_ON, KEYS_FROZEN, {']'}, "]", "to the event after", NULL, NULL},
    {KEYS_FIRST, RUN, {KEYS_HOME}, "Home", "to the first step; freezes", NULL, NULL},
    {KEYS_LAST, KEYS_FROZEN, {KEYS_END}, "End", "to the newest step", NULL, NULL},
    {KEYS_ZOOM_IN, RUN, {'+', '='}, "+", "half as many steps a column", "+-", "zoom"},
    {KEYS_ZOOM_OUT, RUN, {'-'}, "-", "twice as many steps a column", NULL, NULL},
    {KEYS_LINE_UP, KEYS_OVERVIEW, {KEYS_UP}, "↑", "select the run above", "↑↓", "select"},
    {KEYS_LINE_DOWN, KEYS_OVERVIEW, {KEYS_DOWN}, "↓", "select the run below", NULL, NULL},
    {KEYS_LINE_UP, RUN, {KEYS_UP}, "↑", "scroll the tensors", "↑↓", "tensors"},
    {KEYS_LINE_DOWN, RUN, {KEYS_DOWN}, "↓", "scroll the tensors", NULL, NULL},
    {KEYS_LINE_UP, KEYS_HELP, {KEYS_UP}, "↑", "scroll this help", NULL, NULL},
    {KEYS_LINE_DOWN, KEYS_HELP, {KEYS_DOWN}, "↓", "scroll this help", NULL, NULL},
    {KEYS_SCREEN_UP, ANY, {KEYS_PAGE_UP}, "PgUp", "ten lines up", NULL, NULL},
    {KEYS_SCREEN_DOWN, ANY, {KEYS_PAGE_DOWN}, "PgDn", "ten lines down", NULL, NULL},
    {KEYS_SAVE, KEYS_OVERVIEW | RUN, {'s'}, "s", "save as text and csv", "s", "save"},
    {KEYS_THEME, ANY, {'t'}, "t", "next theme", NULL, NULL},
    {KEYS_BACK, KEYS_HELP, {ESC, '?'}, "Esc", "close the help", "Esc", "close"},
    {KEYS_BACK, RUN, {ESC}, "Esc", "back: to all runs, or to live", "Esc", "back"},
    {KEYS_IGNORE, 0, {0}, NULL, NULL, NULL, NULL},
};

enum keys_action keys_find(unsigned scope, uint32_t code) {
    if (code == 0) return KEYS_IGNORE; /* Ctrl-Space, not an unused entry */
    for (const struct keys_binding *at = KEYS_BINDINGS; at->action != KEYS_IGNORE; at++)
        if ((at->scopes & scope) != 0 && (at->code[0] == code || at->code[1] == code))
            return at->action;
    return KEYS_IGNORE;
}

/* What stands between ESC [ or ESC O and the key's meaning, over all terminals in use: xterm,
 * linux, screen, rxvt. */
static const struct {
    const char *sequence;
    uint32_t code;
} SEQUENCES[] = {
    {"A", KEYS_UP},   {"B", KEYS_DOWN}, {"C", KEYS_RIGHT},    {"D", KEYS_LEFT},
    {"H", KEYS_HOME}, {"F", KEYS_END},  {"1~", KEYS_HOME},    {"7~", KEYS_HOME},
    {"4~", KEYS_END}, {"8~", KEYS_END}, {"5~", KEYS_PAGE_UP}, {"6~", KEYS_PAGE_DOWN},
};

/* Bytes of the control sequence after ESC [ or ESC O, up to its final byte; 0: it goes on. */
static size_t sequence_length(const unsigned char *bytes, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (bytes[i] >= 0x40 && bytes[i] <= 0x7e) return i + 1;
    return 0;
}

size_t keys_decode(const unsigned char *bytes, size_t size, int final, uint32_t *code) {
    *code = KEYS_NONE;
    if (size == 0) return 0;
    if (bytes[0] != ESC) {
        *code = bytes[0] < 0x80 ? bytes[0] : KEYS_NONE;
        return 1;
    }
    if (size == 1 || (bytes[1] != '[' && bytes[1] != 'O')) {
        if (size == 1 && !final) return 0;
        *code = ESC;
        return 1;
    }
    size_t length = sequence_length(bytes + 2, size - 2);
    if (length == 0) return final ? size : 0; /* cut off, or not a sequence at all */
    for (size_t i = 0; i < sizeof SEQUENCES / sizeof *SEQUENCES; i++)
        if (strlen(SEQUENCES[i].sequence) == length &&
            memcmp(bytes + 2, SEQUENCES[i].sequence, length) == 0)
            *code = SEQUENCES[i].code;
    return 2 + length;
}
