#include "tui/grid.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "shared/core/text.h"

static const struct grid_cell BLANK = {{' ', 0}, GRID_TEXT};

/* The bars keep eight heights; none of their stand-ins is one of the marks N + - : ^ _. */
static const struct {
    uint32_t glyph;
    char ascii;
} ASCII[] = {
    {0x2581, '.'}, {0x2582, ','}, {0x2583, 'o'}, {0x2584, 'x'}, {0x2585, '*'}, {0x2586, '%'},
    {0x2587, '#'}, {0x2588, '@'}, {0x2500, '-'}, {0x2502, '|'}, {0x250a, '|'}, {0x254c, '~'},
    {0x250c, '+'}, {0x2510, '+'}, {0x2514, '+'}, {0x2518, '+'}, {0x00b7, '.'}, {0x2026, '~'},
    {0x2190, '<'}, {0x2192, '>'}, {0x2191, '^'}, {0x2193, 'v'}, {0x25b8, '>'}, {0x00d7, 'x'},
    {0x2264, '<'}, {0x2013, '-'},
};

int grid_resize(struct grid *grid, int rows, int columns) {
    int size = rows * columns;
    if (size > grid->room) {
        struct grid_cell *cell = realloc(grid->cell, (size_t)size * sizeof *cell);
        if (cell == NULL) return -1;
        grid->cell = cell;
        grid->room = size;
    }
    grid->rows = rows;
    grid->columns = columns;
    grid_clear(grid);
    return 0;
}

void grid_free(struct grid *grid) {
    free(grid->cell);
    *grid = (struct grid){0};
}

void grid_clear(struct grid *grid) {
    for (int i = 0; i < grid->rows * grid->columns; i++) grid->cell[i] = BLANK;
}

static struct grid_cell *cell_at(const struct grid *grid, int row, int column) {
    if (row < 0 || row >= grid->rows || column < 0 || column >= grid->columns) return NULL;
    return &grid->cell[row * grid->columns + column];
}

/* Blanks the other half of a wide character that is about to lose one. */
static void split_wide(struct grid *grid, int row, int column) {
    struct grid_cell *left = cell_at(grid, row, column - 1);
    struct grid_cell *right = cell_at(grid, row, column + 1);
    if (left != NULL && cell_at(grid, row, column)->glyph[0] == 0) left->glyph[0] = ' ';
    if (right != NULL && right->glyph[0] == 0) right->glyph[0] = ' ';
}

void grid_put(struct grid *grid, int row, int column, uint32_t glyph, enum grid_role role) {
    struct grid_cell *cell = cell_at(grid, row, column);
    if (cell == NULL) return;
    split_wide(grid, row, column);
    *cell = (struct grid_cell){{glyph, 0}, (uint8_t)role};
}

static void put_wide(struct grid *grid, int row, int column, uint32_t glyph, enum grid_role role) {
    struct grid_cell *right = cell_at(grid, row, column + 1);
    if (column < 0 || right == NULL) return;
    split_wide(grid, row, column + 1);
    grid_put(grid, row, column, glyph, role);
    *right = (struct grid_cell){{0, 0}, (uint8_t)role};
}

static void put_mark(struct grid *grid, int row, int column, uint32_t mark) {
    struct grid_cell *cell = cell_at(grid, row, column);
    if (cell != NULL && cell->glyph[0] == 0 && column > 0) cell--;
    if (cell != NULL) cell->glyph[1] = mark;
}

/* Decodes one character of valid UTF-8 and returns its bytes. */
static int utf8_decode(const unsigned char *in, uint32_t *glyph) {
    int more = in[0] < 0xc0 ? 0 : in[0] < 0xe0 ? 1 : in[0] < 0xf0 ? 2 : 3;
    *glyph = more == 0 ? in[0] : in[0] & (0x3fu >> more);
    for (int i = 1; i <= more; i++) *glyph = *glyph << 6 | (in[i] & 0x3fu);
    return 1 + more;
}

/* Joins, selects a variant or shows nothing: terminals disagree about the columns it leaves. */
static bool is_joiner(uint32_t glyph) {
    return (glyph >= 0x200b && glyph <= 0x200f) || (glyph >= 0x2060 && glyph <= 0x206f) ||
           (glyph >= 0xfe00 && glyph <= 0xfe0f) || glyph == 0xfeff || glyph >= 0xe0000;
}

static int glyph_columns(uint32_t glyph) {
    int columns = glyph < 0x80 ? 1 : wcwidth((wchar_t)glyph);
    return columns < 0 ? 1
                       : columns; /* -1: this locale does not know it, and '?' will stand there */
}

/* As many bytes of a text as there are columns for. */
static size_t measure(const char *text, int width, int *used) {
    const unsigned char *in = (const unsigned char *)text;
    *used = 0;
    while (*in != 0) {
        uint32_t glyph;
        int bytes = utf8_decode(in, &glyph), columns = is_joiner(glyph) ? 0 : glyph_columns(glyph);
        if (*used + columns > width) break;
        *used += columns;
        in += bytes;
    }
    return (size_t)(in - (const unsigned char *)text);
}

static bool is_numeral(char c) { return (c >= '0' && c <= '9') || c == '.' || c == ','; }

/* Half a number is another one: ends a text that is too wide behind a word, or in a long last word
 * before the number that would be cut. */
static void shorten(char *text, int width) {
    int used;
    size_t most = measure(text, width - 1, &used), cut = most;
    while (cut > 0 && text[cut] != ' ') cut--;
    if (cut <= most / 2) {
        cut = most;
        while (cut > 0 && is_numeral(text[cut]) && is_numeral(text[cut - 1])) cut--;
        while (cut > 0 && text[cut - 1] == '-' && is_numeral(text[cut])) cut--;
    }
    while (cut > 0 && strchr(" ,", text[cut - 1]) != NULL) cut--;
    text_copy(text + cut, sizeof "…", "…");
}

int grid_text(struct grid *grid, int row, int column, int width, enum grid_role role,
              const char *text) {
    char safe[4096 + sizeof "…"];
    int used;
    if (width <= 0) return 0;
    text_escape(safe, 4096, text);
    if (safe[measure(safe, width, &used)] != '\0') shorten(safe, width);
    used = 0;
    for (const unsigned char *in = (const unsigned char *)safe; *in != 0;) {
        uint32_t glyph;
        in += utf8_decode(in, &glyph);
        if (is_joiner(glyph)) continue;
        int columns = glyph_columns(glyph);
        if (glyph == 0xa0) glyph = ' '; /* joins two words, but looks like any other blank */
        if (columns == 2)
            put_wide(grid, row, column + used, glyph, role);
        else if (columns == 1)
            grid_put(grid, row, column + used, glyph, role);
        else if (used > 0)
            put_mark(grid, row, column + used - 1, glyph);
        used += columns;
    }
    return used;
}

int grid_columns(const char *text) {
    struct grid nowhere = {0};
    return grid_text(&nowhere, 0, 0, INT_MAX, GRID_TEXT, text);
}

uint32_t grid_ascii(uint32_t glyph) {
    if (glyph < 0x80) return glyph;
    for (size_t i = 0; i < sizeof ASCII / sizeof *ASCII; i++)
        if (ASCII[i].glyph == glyph) return (unsigned char)ASCII[i].ascii;
    return '?';
}

static char *utf8_encode(char *out, uint32_t glyph) {
    static const unsigned char LEAD[] = {0, 0xc0, 0xe0, 0xf0};
    int more = glyph < 0x80 ? 0 : glyph < 0x800 ? 1 : glyph < 0x10000 ? 2 : 3;
    *out++ = (char)(LEAD[more] | glyph >> 6 * more);
    while (more-- > 0) *out++ = (char)(0x80 | (glyph >> 6 * more & 0x3f));
    return out;
}

char *grid_to_text(const struct grid *grid, bool ascii) {
    char *text = malloc((size_t)grid->rows * ((size_t)grid->columns * 8 + 1) + 1);
    if (text == NULL) return NULL;
    char *out = text;
    for (int row = 0; row < grid->rows; row++) {
        char *end = out;
        for (int column = 0; column < grid->columns; column++) {
            const struct grid_cell *cell = cell_at(grid, row, column);
            for (int i = 0; i < 2 && cell->glyph[i] != 0; i++)
                if (i == 0 || !ascii)
                    out = utf8_encode(out, ascii ? grid_ascii(cell->glyph[i]) : cell->glyph[i]);
            if (ascii && cell->glyph[0] == 0) *out++ = ' ';
            bool blank = cell->glyph[0] == ' ' || cell->glyph[0] == 0;
            if (!blank || cell->glyph[1] != 0) end = out;
        }
        out = end;
        *out++ = '\n';
    }
    *out = '\0';
    return text;
}
