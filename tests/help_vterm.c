#include "tests/help_vterm.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vterm.h>

enum { FEED_MAX = 65536, STYLES_MAX = 52 }; /* libvterm loses what is fed in larger pieces */

struct help_vterm {
    VTerm *vterm;
    VTermScreen *screen;
    int rows, columns;
    bool alternate, cursor_visible;
};

static int set_property(VTermProp property, VTermValue *value, void *user) {
    struct help_vterm *terminal = user;
    if (property == VTERM_PROP_ALTSCREEN) terminal->alternate = value->boolean;
    if (property == VTERM_PROP_CURSORVISIBLE) terminal->cursor_visible = value->boolean;
    return 1;
}

static const VTermScreenCallbacks CALLBACKS = {.settermprop = set_property};

struct help_vterm *help_vterm_open(int rows, int columns) {
    struct help_vterm *terminal = calloc(1, sizeof *terminal);
    assert(terminal != NULL);
    *terminal = (struct help_vterm){.rows = rows, .columns = columns, .cursor_visible = true};
    terminal->vterm = vterm_new(rows, columns);
    vterm_set_utf8(terminal->vterm, 1);
    terminal->screen = vterm_obtain_screen(terminal->vterm);
    vterm_screen_set_callbacks(terminal->screen, &CALLBACKS, terminal);
    vterm_screen_enable_altscreen(terminal->screen, 1);
    vterm_screen_reset(terminal->screen, 1);
    return terminal;
}

void help_vterm_close(struct help_vterm *terminal) {
    vterm_free(terminal->vterm);
    free(terminal);
}

void help_vterm_feed(struct help_vterm *terminal, const char *bytes, size_t size) {
    for (size_t part; size > 0; bytes += part, size -= part) {
        part = size < FEED_MAX ? size : FEED_MAX;
        vterm_input_write(terminal->vterm, bytes, part);
    }
}

void help_vterm_resize(struct help_vterm *terminal, int rows, int columns) {
    vterm_set_size(terminal->vterm, rows, columns);
    terminal->rows = rows;
    terminal->columns = columns;
}

bool help_vterm_alternate(const struct help_vterm *terminal) { return terminal->alternate; }

bool help_vterm_cursor_visible(const struct help_vterm *terminal) {
    return terminal->cursor_visible;
}

static VTermScreenCell cell_at(const struct help_vterm *terminal, int row, int column) {
    VTermScreenCell cell;
    vterm_screen_get_cell(terminal->screen, (VTermPos){row, column}, &cell);
    return cell;
}

static void put_glyph(FILE *out, uint32_t glyph) {
    if (glyph < 0x80)
        fputc((int)glyph, out);
    else if (glyph < 0x800)
        fprintf(out, "%c%c", (int)(0xc0 | glyph >> 6), (int)(0x80 | (glyph & 63)));
    else if (glyph < 0x10000)
        fprintf(out, "%c%c%c", (int)(0xe0 | glyph >> 12), (int)(0x80 | (glyph >> 6 & 63)),
                (int)(0x80 | (glyph & 63)));
    else
        fprintf(out, "%c%c%c%c", (int)(0xf0 | glyph >> 18), (int)(0x80 | (glyph >> 12 & 63)),
                (int)(0x80 | (glyph >> 6 & 63)), (int)(0x80 | (glyph & 63)));
}

static void put_row(FILE *out, const struct help_vterm *terminal, int row) {
    int end = terminal->columns;
    while (end > 0 && (cell_at(terminal, row, end - 1).chars[0] == 0 ||
                       cell_at(terminal, row, end - 1).chars[0] == ' '))
        end--;
    for (int column = 0; column < end; column++) {
        VTermScreenCell cell = cell_at(terminal, row, column);
        if (cell.chars[0] == (uint32_t)-1) continue; /* right half of a wide character */
        if (cell.chars[0] == 0) fputc(' ', out);
        for (int i = 0; i < VTERM_MAX_CHARS_PER_CELL && cell.chars[i] != 0; i++)
            put_glyph(out, cell.chars[i]);
    }
    fputc('\n', out);
}

char *help_vterm_text(const struct help_vterm *terminal) {
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    for (int row = 0; row < terminal->rows; row++) put_row(out, terminal, row);
    fclose(out);
    return text;
}

static void name_color(char *out, size_t size, const VTermColor *color, bool foreground) {
    bool plain = foreground ? VTERM_COLOR_IS_DEFAULT_FG(color) : VTERM_COLOR_IS_DEFAULT_BG(color);
    if (plain)
        snprintf(out, size, "default");
    else if (VTERM_COLOR_IS_INDEXED(color))
        snprintf(out, size, "%d", color->indexed.idx);
    else
        snprintf(out, size, "#%02x%02x%02x", color->rgb.red, color->rgb.green, color->rgb.blue);
}

static void name_style(char *out, size_t size, const VTermScreenCell *cell) {
    char foreground[16], background[16];
    name_color(foreground, sizeof foreground, &cell->fg, true);
    name_color(background, sizeof background, &cell->bg, false);
    snprintf(out, size, "%s on %s%s%s%s", foreground, background, cell->attrs.bold ? " bold" : "",
             cell->attrs.underline ? " underline" : "", cell->attrs.reverse ? " reverse" : "");
}

char *help_vterm_dump(const struct help_vterm *terminal) {
    char *text, known[STYLES_MAX][80];
    size_t size;
    int styles = 0;
    FILE *out = open_memstream(&text, &size);
    for (int row = 0; row < terminal->rows; row++) {
        put_row(out, terminal, row);
        for (int column = 0; column < terminal->columns; column++) {
            char style[80];
            VTermScreenCell cell = cell_at(terminal, row, column);
            name_style(style, sizeof style, &cell);
            int at = 0;
            while (at < styles && strcmp(known[at], style) != 0) at++;
            assert(at < STYLES_MAX);
            if (at == styles) strcpy(known[styles++], style);
            fputc("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"[at], out);
        }
        fputc('\n', out);
    }
    for (int at = 0; at < styles; at++)
        fprintf(out, "%c %s\n", "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"[at],
                known[at]);
    fclose(out);
    return text;
}

bool help_same(const char *name, const char *wanted, const char *got) {
    if (strcmp(wanted, got) == 0) return true;
    int line = 1;
    for (; *wanted != '\0' && *wanted == *got; wanted++, got++) line += *wanted == '\n';
    while (line > 1 && wanted[-1] != '\n') wanted--, got--;
    int wanted_size = (int)strcspn(wanted, "\n"), got_size = (int)strcspn(got, "\n");
    printf("%s differs in line %d\n  wanted: %.*s\n  got:    %.*s\n", name, line, wanted_size,
           wanted, got_size, got);
    return false;
}

bool help_golden(const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "tests/data/screens/%s.txt", name);
    const char *update = getenv("GOLDEN_UPDATE");
    FILE *file = fopen(path, update != NULL ? "w" : "r");
    if (file == NULL) {
        printf("%s cannot be opened; GOLDEN_UPDATE=1 writes it\n", path);
        return false;
    }
    if (update != NULL) {
        fputs(text, file);
        return fclose(file) == 0;
    }
    static char wanted[1 << 20];
    wanted[fread(wanted, 1, sizeof wanted - 1, file)] = '\0';
    fclose(file);
    return help_same(path, wanted, text);
}
