/* The display on a terminal: keys, signals, frames. */
#ifndef TUI_DISPLAY_H
#define TUI_DISPLAY_H

#include "tui/program.h"

/* Until a key or a signal ends it. Returns the exit code; a signal that is no Ctrl-C ends the
 * process as it would have. */
int display_run(struct program *program);

#endif
