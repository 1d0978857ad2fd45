#include "tui/help.h"

#include <stddef.h>

#include "tui/keys.h"

static const struct {
    const char *name, *help;
} MARKS[] = {
    {"▁ █", "a bar: the largest value of its column"},
    {"N", "NaN"},
    {"+", "+Inf"},
    {"-", "-Inf"},
    {":", "missing: published, but it did not arrive"},
    {"^", "finite, but larger than a float"},
    {"_", "zero or less on a logarithmic scale"},
    {"thinned", "columns show neighbouring steps, too: older ones are kept merged"},
    {"·", "health: in range"},
    {"E N", "health: extreme (out of range), non-finite"},
};
enum { MARK_COUNT = sizeof MARKS / sizeof *MARKS, NAME_COLUMNS = 9 };

struct page {
    struct grid *grid;
    struct grid_rect rect;
    int top, line; /* line: of the whole help */
};

static void put_line(struct page *page, enum grid_role role, const char *name, const char *help) {
    int row = page->line++ - page->top;
    if (row < 0 || row >= page->rect.rows) return;
    int at = page->rect.column + 1, end = page->rect.column + page->rect.columns;
    grid_text(page->grid, page->rect.row + row, at, end - at, role, name);
    at += NAME_COLUMNS;
    if (help != NULL && at < end)
        grid_text(page->grid, page->rect.row + row, at, end - at, GRID_TEXT, help);
}

static int put_all(struct page *page, unsigned scope) {
    put_line(page, GRID_TITLE, "Keys", NULL);
    for (const struct keys_binding *at = KEYS_BINDINGS; at->action != KEYS_IGNORE; at++)
        if ((at->scopes & scope) != 0) put_line(page, GRID_KEY, at->name, at->help);
    put_line(page, GRID_TEXT, "", NULL);
    put_line(page, GRID_TITLE, "Marks", NULL);
    for (int i = 0; i < MARK_COUNT; i++) put_line(page, GRID_KEY, MARKS[i].name, MARKS[i].help);
    return page->line;
}

int help_lines(unsigned scope) {
    struct grid nowhere = {0};
    struct page page = {.grid = &nowhere};
    return put_all(&page, scope);
}

void help_draw(struct grid *grid, struct grid_rect rect, unsigned scope, int top) {
    struct page page = {grid, rect, top, 0};
    put_all(&page, scope);
}

void help_draw_keys(struct grid *grid, struct grid_rect rect, unsigned scope) {
    int at = rect.column + 1, end = rect.column + rect.columns;
    for (const struct keys_binding *key = KEYS_BINDINGS; key->action != KEYS_IGNORE; key++) {
        if ((key->scopes & scope) == 0 || key->line_name == NULL) continue;
        int name = grid_columns(key->line_name);
        int help = grid_columns(key->line_help);
        if (at + name + 1 + help > end) continue;
        grid_text(grid, rect.row, at, name, GRID_KEY, key->line_name);
        grid_text(grid, rect.row, at + name + 1, help, GRID_DIM, key->line_help);
        at += name + 1 + help + 2;
    }
}
