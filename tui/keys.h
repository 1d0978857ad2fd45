/* The keys: one table for dispatch, key line and help, and the decoder of what a terminal sends for
 * them. */
#ifndef TUI_KEYS_H
#define TUI_KEYS_H

#include <stddef.h>
#include <stdint.h>

/* What is on the screen decides what a key does. */
enum keys_scope { KEYS_OVERVIEW = 1, KEYS_LIVE = 2, KEYS_FROZEN = 4, KEYS_HELP = 8 };

enum keys_code {                       /* beyond Unicode */
                 KEYS_NONE = 0x200000, /* a whole sequence that is no key of ours */
                 KEYS_UP,
                 KEYS_DOWN,
                 KEYS_LEFT,
                 KEYS_RIGHT,
                 KEYS_HOME,
                 KEYS_END,
                 KEYS_PAGE_UP,
                 KEYS_PAGE_DOWN
};

enum keys_action {
    KEYS_IGNORE,
    KEYS_QUIT,
    KEYS_SHOW_HELP,
    KEYS_SAVE,
    KEYS_THEME,
    KEYS_BACK,
    KEYS_OPEN,
    KEYS_FREEZE,
    KEYS_UNFREEZE,
    KEYS_STEP_BACK,
    KEYS_STEP_ON,
    KEYS_EVENT_BACK,
    KEYS_EVENT_ON,
    KEYS_FIRST,
    KEYS_LAST,
    KEYS_ZOOM_IN,
    KEYS_ZOOM_OUT,
    KEYS_LINE_UP,
    KEYS_LINE_DOWN,
    KEYS_SCREEN_UP,
    KEYS_SCREEN_DOWN
};

struct keys_binding {
    enum keys_action action;
    unsigned scopes;  /* enum keys_scope */
    uint32_t code[2]; /* 0: none */
    const char *name; /* in the help */
    const char *help;
    const char *line_name; /* in the key line, with the keys beside it; NULL: not there */
    const char *line_help;
};

/* The table, in the order of the key line; ends with an action of KEYS_IGNORE. */
extern const struct keys_binding KEYS_BINDINGS[];

enum keys_action keys_find(unsigned scope, uint32_t code);

/* The first key in `size` bytes from a terminal. Returns the bytes it takes; 0: not a whole key yet
 * (a lone Esc is one when nothing follows: `final`). */
size_t keys_decode(const unsigned char *bytes, size_t size, int final, uint32_t *code);

#endif
