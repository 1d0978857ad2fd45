/* nantop without a terminal: one frame as text, or a line a step. */
#ifndef TUI_PRINT_H
#define TUI_PRINT_H

#include "tui/program.h"

/* Both return the exit code. */
int print_once(struct program *program);
int print_json(struct program *program);
/* feed_options.each of print_json; `user` is the program. */
void print_record(void *user, const struct run *run, const struct record *record,
                  const struct verdict *verdict);

#endif
