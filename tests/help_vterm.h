/* A terminal in memory: takes bytes, tells every cell. And golden files of what it shows. */
#ifndef TESTS_HELP_VTERM_H
#define TESTS_HELP_VTERM_H

#include <stdbool.h>
#include <stddef.h>

struct help_vterm;

struct help_vterm *help_vterm_open(int rows, int columns);
void help_vterm_close(struct help_vterm *terminal);
void help_vterm_feed(struct help_vterm *terminal, const char *bytes, size_t size);
void help_vterm_resize(struct help_vterm *terminal, int rows, int columns);
/* Lines as UTF-8, trailing blanks cut. The caller frees it. */
char *help_vterm_text(const struct help_vterm *terminal);
/* The same, each line followed by one of letters that stand for colours and attributes, which are
 * explained below. */
char *help_vterm_dump(const struct help_vterm *terminal);
bool help_vterm_alternate(const struct help_vterm *terminal);
bool help_vterm_cursor_visible(const struct help_vterm *terminal);

/* Prints the first line that differs. True: the same. */
bool help_same(const char *name, const char *wanted, const char *got);
/* Compares with tests/data/screens/NAME.txt, prints the first difference; GOLDEN_UPDATE=1 writes
 * it. True: the same. */
bool help_golden(const char *name, const char *text);

#endif
