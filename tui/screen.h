/* The terminal: a grid and a theme become bytes, one write a frame; keys come back; whatever way
 * the program ends, the terminal is as it was. ncurses draws into memory (on a terminal it would
 * write after every cursor move). */
#ifndef TUI_SCREEN_H
#define TUI_SCREEN_H

#include <stdbool.h>
#include <stdint.h>

#include "shared/core/error.h"
#include "tui/grid.h"
#include "tui/theme.h"

enum { SCREEN_ESC_MS = 25, SCREEN_KEYS_MAX = 64 };

struct screen; /* the terminal's modes and ncurses' idea of what it shows; one at a time */

struct screen_options {
    int in, out;       /* descriptors, kept by the caller; in -1: no keys */
    const char *term;  /* NULL or unknown: the nearest that works, and screen_note says so */
    bool utf8, color;  /* what locale and NO_COLOR allow */
    int rows, columns; /* 0: `out` is a terminal, is asked, and its modes are taken over; else only
                          bytes go to it */
};

/* Takes the terminal over, blank. -1: no terminal, or one that cannot move its cursor. */
int screen_open(struct screen **out, const struct screen_options *options, struct error *error);
/* Gives it back. NULL is legal. */
void screen_close(struct screen *screen);

int screen_rows(const struct screen *screen);
int screen_columns(const struct screen *screen);
/* Asks for the size again (SIGWINCH); the next frame is painted anew. */
void screen_fit(struct screen *screen);
/* 0: monochrome. */
int screen_colors(const struct screen *screen);
/* One line about a terminal type that had to be guessed; "" otherwise. */
const char *screen_note(const struct screen *screen);
void screen_set_theme(struct screen *screen, const struct theme *theme);

/* Shows the grid, which has the screen's size. Returns the bytes written, 0 when nothing changed,
 * -1 when the terminal is gone. Blocks as long as the terminal does not read. */
int screen_draw(struct screen *screen, const struct grid *grid);

/* Takes in what was typed, at most SCREEN_KEYS_MAX keys; never blocks. `idle`: nothing came for
 * SCREEN_ESC_MS, so a lone Esc is a key. Returns how many, -1 when the terminal is gone. */
int screen_read(struct screen *screen, bool idle, uint32_t code[SCREEN_KEYS_MAX]);
/* Half a key is waiting for its rest, or for `idle`. */
bool screen_is_waiting(const struct screen *screen);

/* Stops the process, or the whole job as Ctrl-Z ought to (or the shell would wait for whoever started
 * us); returns when it goes on, ready for a new frame. SIGTSTP may be blocked. */
void screen_stop(struct screen *screen, bool job);

#endif
