#include "tui/layout.h"

/* What all fields of the tensor table need, and what they can use. */
enum { TABLE_COLUMNS = 80, TABLE_COLUMNS_MOST = 128 };

static int least(int a, int b) { return a < b ? a : b; }
static int most(int a, int b) { return a > b ? a : b; }

/* Panels side by side: two from 60 columns on, so that each keeps some 30 columns of data. */
static int panels_across(int columns) {
    return columns < 60 ? 1 : columns < 150 ? 2 : columns < 230 ? 3 : 4;
}

/* Rows that the panels get of those between bar and key line, and the table and events of the rest.
 */
struct shares {
    int panels, table, events;
};

static struct shares share(int rows, int tensors) {
    struct shares shares = {rows, 0, 0};
    if (rows < 8) return shares;
    if (rows < 12 || tensors == 0) {
        shares.events = rows < 12 ? 2 : rows / 4;
        shares.panels = rows - shares.events;
        return shares;
    }
    shares.panels = rows / 2;
    shares.table = least((rows - shares.panels) * 2 / 3, tensors + 1);
    shares.events = rows - shares.panels - shares.table;
    return shares;
}

static void place_panels(struct layout *layout, const struct layout_wish *wish,
                         struct grid_rect area) {
    int across = panels_across(area.columns);
    int target = most(5, area.rows / 3); /* rows of a panel; small ones say little, many say less */
    int down = area.rows >= 10 ? area.rows / target : area.rows / 3;
    down = most(1, least(down, (wish->panels + across - 1) / across));
    if (area.rows < 2 || wish->panels == 0) return;
    layout->panels = least(least(wish->panels, across * down), LAYOUT_PANELS_MAX);
    int width = area.columns / across, height = area.rows / down;
    for (int i = 0; i < layout->panels; i++) {
        int x = i % across, y = i / across;
        layout->panel[i] = (struct grid_rect){area.row + y * height, x * width, height, width};
        if (y == down - 1) layout->panel[i].rows = area.rows - y * height;
        if (x == across - 1) layout->panel[i].columns = area.columns - x * width;
    }
    layout->gutter = width >= 24 ? LAYOUT_GUTTER : 0;
    layout->data_columns = width - layout->gutter - (width > 1); /* a blank one on the right */
}

void layout_init(struct layout *layout, const struct layout_wish *wish) {
    *layout = (struct layout){.data_columns = wish->columns};
    int rows = wish->rows, columns = wish->columns, at = 0;
    layout->header = (struct grid_rect){at++, 0, 1, columns};
    if (rows >= 2) layout->bar = (struct grid_rect){at++, 0, 1, columns};
    if (rows >= LAYOUT_KEYS_FROM) rows--;
    int health = rows >= 7 && wish->panels > 0;
    struct shares shares = share(most(rows - at - health, 0), wish->tensors);
    place_panels(layout, wish, (struct grid_rect){at, 0, shares.panels, columns});
    at += shares.panels;
    if (health) layout->health = (struct grid_rect){at++, 0, 1, columns};
    bool beside = columns >= 150 && shares.table > 0; /* room for both, each with its full height */
    int left = beside ? least(most(TABLE_COLUMNS, columns / 2), TABLE_COLUMNS_MOST) : columns;
    int both = shares.table + shares.events;
    if (shares.table > 0)
        layout->table = (struct grid_rect){at, 0, beside ? both : shares.table, left};
    if (beside)
        layout->events = (struct grid_rect){at, left, both, columns - left};
    else if (shares.events > 0)
        layout->events = (struct grid_rect){at + shares.table, 0, shares.events, columns};
}
