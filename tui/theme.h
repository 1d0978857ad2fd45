/* A theme: what every role of a cell looks like, from an INI file (folder themes); three are built
 * in. */
#ifndef TUI_THEME_H
#define TUI_THEME_H

#include "shared/core/error.h"
#include "tui/grid.h"

enum { THEME_DEFAULT = -1, THEME_RGB = 1 << 24 };
enum { THEME_BOLD = 1, THEME_DIM = 2, THEME_UNDERLINE = 4, THEME_REVERSE = 8 };

struct theme_style {
    int foreground, background; /* THEME_DEFAULT, a palette index 0..255, or THEME_RGB | 0xrrggbb */
    unsigned attributes;        /* THEME_BOLD ... */
};

struct theme {
    char name[64];
    struct theme_style style[GRID_ROLE_COUNT];
};

/* Takes a theme's text; `name` (a file's path) is for the error: file, line, reason. A role that is
 * not in it keeps the default look. -1: the theme is unchanged. */
int theme_parse(struct theme *theme, const char *name, const char *text, struct error *error);
/* By name, "dark", "light" or "mono", or a path with a '/' in it. Looks into
 * $XDG_CONFIG_HOME/nantop/themes, the installed folder, ./themes, then among those built in. -1:
 * the theme is unchanged. */
int theme_load(struct theme *theme, const char *name, struct error *error);
/* The name of the n-th built-in theme; NULL: there are no more. */
const char *theme_builtin_name(int n);
/* A built-in one, dark for a name that is none. */
void theme_builtin(struct theme *theme, const char *name);

/* The nearest of the first `colors` (8, 16 or 256) palette entries; THEME_DEFAULT stays, and is
 * what 8 colours have for grey. */
int theme_nearest(int color, int colors);

#endif
