#include "tui/bar.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

void bar_add(struct bar *bar, int weight, enum grid_role role, const char *format, ...) {
    if (bar->items == BAR_ITEMS) return;
    struct bar_item *item = &bar->item[bar->items++];
    item->role = role;
    item->weight = weight;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(item->text, sizeof item->text, format, arguments);
    va_end(arguments);
}

int bar_draw(const struct bar *bar, struct grid *grid, struct grid_rect rect, const char *between) {
    int width[BAR_ITEMS], total = 1, gap = grid_columns(between), left = bar->items;
    bool dropped[BAR_ITEMS] = {false};
    for (int i = 0; i < bar->items; i++)
        total += (width[i] = grid_columns(bar->item[i].text)) + gap;
    while (left > 1 && total - gap > rect.columns) {
        int least = -1;
        for (int i = 0; i < bar->items; i++)
            if (!dropped[i] && (least < 0 || bar->item[i].weight <= bar->item[least].weight))
                least = i;
        dropped[least] = true;
        total -= width[least] + gap;
        left--;
    }
    int end = rect.column + rect.columns, at = rect.column + 1;
    bool first = true;
    for (int i = 0; i < bar->items; i++) {
        if (dropped[i]) continue;
        if (!first) at += grid_text(grid, rect.row, at, end - at, GRID_DIM, between);
        at += grid_text(grid, rect.row, at, end - at, bar->item[i].role, bar->item[i].text);
        first = false;
    }
    return at - rect.column;
}
