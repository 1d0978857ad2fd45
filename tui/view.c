#include "tui/view.h"

#include <stdio.h>
#include <string.h>

#include "shared/core/text.h"
#include "tui/header.h"
#include "tui/help.h"
#include "tui/panel.h"
#include "tui/table.h"

#define STATUS_NS INT64_C(6000000000)
enum { SCREEN_LINES = 10 };

void view_init(struct view *view, enum lens_freeze freeze, const char *waiting) {
    memset(view, 0, sizeof *view);
    view->freeze = freeze;
    view->waiting = waiting;
    view->rows = view->columns = 1;
}

const struct lens *view_open_lens(const struct view *view) {
    return view->overview || view->runs == 0 ? NULL : &view->lens[view->selected];
}

static struct layout layout_of(const struct view *view, const struct run *run, int *metric) {
    struct layout layout;
    struct layout_wish wish = {view->rows, view->columns, panel_list(run, metric),
                               run->hello.schema.tensors};
    layout_init(&layout, &wish);
    return layout;
}

/* The columns of a panel depend on what the run publishes, too. */
static void fit_lens(struct view *view, struct lens *lens) {
    int metric[LAYOUT_PANELS_MAX];
    struct layout layout = layout_of(view, lens->run, metric);
    if (lens->columns != layout.data_columns) lens_resize(lens, layout.data_columns);
}

int view_add(struct view *view, const struct run *run) {
    if (view->runs == VIEW_RUNS_MAX) return -1;
    struct lens *lens = &view->lens[view->runs++];
    lens_init(lens, run);
    lens->judged = view->judged;
    fit_lens(view, lens);
    if (view->now_ns != 0) return view->runs - 1;
    view->overview = view->runs > 1;
    view->announced[view->runs - 1] = true;
    return view->runs - 1;
}

void view_resize(struct view *view, int rows, int columns) {
    view->rows = rows;
    view->columns = columns;
    for (int i = 0; i < view->runs; i++) fit_lens(view, &view->lens[i]);
}

static void say_run(struct view *view, const char *what, const struct run *run) {
    char text[VIEW_STATUS_SIZE];
    snprintf(text, sizeof text, "%s %.64s%s", what, run->hello.name,
             view->runs > 1 ? "; Esc: all runs" : "");
    view_say(view, text, view->now_ns);
}

static void announce(struct view *view, int i) {
    view->announced[i] = true;
    say_run(view, "new run", view->lens[i].run);
    if (!view->lens[view->selected].run->known)
        view->selected = i; /* of the other there is nothing to be seen */
}

void view_tick(struct view *view, int64_t now_ns) {
    view->now_ns = now_ns;
    const struct lens *open = view_open_lens(view);
    if (now_ns >= view->status_until_ns) view->status[0] = '\0';
    for (int i = 0; i < view->runs; i++) {
        struct lens *lens = &view->lens[i];
        int64_t alarms = lens->alarms_seen;
        fit_lens(view, lens);
        lens_tick(lens, view->freeze, now_ns);
        bool elsewhere = open != NULL && lens != open && alarms >= 0 && lens->run->alarms > alarms;
        if (elsewhere) say_run(view, "ALARM in", lens->run);
    }
    for (int i = 0; i < view->runs; i++)
        if (!view->announced[i] && view->lens[i].run->known) announce(view, i);
}

void view_say(struct view *view, const char *text, int64_t now_ns) {
    text_copy(view->status, sizeof view->status, text);
    view->status_until_ns = now_ns + STATUS_NS;
}

/* What the keys under the help do. */
static unsigned scope_below(const struct view *view) {
    const struct lens *lens = view_open_lens(view);
    return lens == NULL ? KEYS_OVERVIEW : lens->frozen ? KEYS_FROZEN : KEYS_LIVE;
}

static unsigned scope_of(const struct view *view) {
    return view->help ? KEYS_HELP : scope_below(view);
}

static void scroll(int *top, int lines, int last) {
    *top += lines;
    if (*top > last) *top = last;
    if (*top < 0) *top = 0;
}

static void select_run(struct view *view, int lines) {
    int order[VIEW_RUNS_MAX], at = 0;
    overview_sort(view->lens, view->runs, order);
    for (int i = 0; i < view->runs; i++)
        if (order[i] == view->selected) at = i;
    scroll(&at, lines, view->runs - 1);
    if (view->runs > 0) view->selected = order[at];
}

/* Not further than the last tensor in the last line. */
static void scroll_tensors(struct view *view, int lines) {
    struct lens *lens = &view->lens[view->selected];
    int metric[LAYOUT_PANELS_MAX], tensors = lens->run->hello.schema.tensors;
    int shown = layout_of(view, lens->run, metric).table.rows - 1;
    scroll(&lens->table_top, lines,
           (tensors < TABLE_WORST_MAX ? tensors : TABLE_WORST_MAX) - shown);
}

static void move_lines(struct view *view, int lines) {
    if (view->help)
        scroll(&view->help_top, lines, help_lines(scope_below(view)) - 1);
    else if (view_open_lens(view) == NULL)
        select_run(view, lines);
    else
        scroll_tensors(view, lines);
}

static void go_back(struct view *view) {
    if (view->help)
        view->help = false;
    else if (view->runs > 1)
        view->overview = true;
    else
        lens_unfreeze(&view->lens[view->selected]);
}

static void move_to_event(struct view *view, int direction, int64_t now_ns) {
    if (lens_move_to_event(&view->lens[view->selected], direction)) return;
    view_say(view, direction < 0 ? "no event before this step" : "no event after this step",
             now_ns);
}

enum view_request view_key(struct view *view, uint32_t code, int64_t now_ns) {
    struct lens *lens =
        &view->lens[view->selected]; /* of a run, where the table of keys gives one its action */
    view->status[0] = '\0';
    switch (keys_find(scope_of(view), code)) {
    case KEYS_QUIT:
        return VIEW_QUIT;
    case KEYS_SAVE:
        return VIEW_SAVE;
    case KEYS_THEME:
        return VIEW_THEME;
    case KEYS_SHOW_HELP:
        view->help = true, view->help_top = 0;
        break;
    case KEYS_BACK:
        go_back(view);
        break;
    case KEYS_OPEN:
        view->overview = false;
        break;
    case KEYS_FREEZE:
        lens_freeze(lens);
        break;
    case KEYS_UNFREEZE:
        lens_unfreeze(lens);
        break;
    case KEYS_STEP_BACK:
        lens_move(lens, -1);
        break;
    case KEYS_STEP_ON:
        lens_move(lens, 1);
        break;
    case KEYS_EVENT_BACK:
        move_to_event(view, -1, now_ns);
        break;
    case KEYS_EVENT_ON:
        move_to_event(view, 1, now_ns);
        break;
    case KEYS_FIRST:
        lens_move_to(lens, lens->run->series.first);
        break;
    case KEYS_LAST:
        lens_move_to(lens, lens->run->series.last);
        break;
    case KEYS_ZOOM_IN:
        lens_zoom(lens, -1);
        break;
    case KEYS_ZOOM_OUT:
        lens_zoom(lens, 1);
        break;
    case KEYS_LINE_UP:
        move_lines(view, -1);
        break;
    case KEYS_LINE_DOWN:
        move_lines(view, 1);
        break;
    case KEYS_SCREEN_UP:
        move_lines(view, -SCREEN_LINES);
        break;
    case KEYS_SCREEN_DOWN:
        move_lines(view, SCREEN_LINES);
        break;
    case KEYS_IGNORE:
        break;
    }
    return VIEW_NOTHING;
}

int view_panels(const struct view *view, int metric[LAYOUT_PANELS_MAX]) {
    const struct lens *lens = view_open_lens(view);
    return lens == NULL ? 0 : layout_of(view, lens->run, metric).panels;
}

bool view_wants(const struct view *view, int64_t *first, int64_t *last) {
    const struct lens *lens = view_open_lens(view);
    if (lens == NULL || !lens->frozen || lens->run->details == 0) return false;
    struct lens_window window = lens_window(lens);
    int64_t reach = lens->run->details / 2; /* more of them would push each other out */
    *first = lens->cursor - reach;
    *last = lens->cursor + reach;
    int64_t right = window.left + window.columns * (INT64_C(1) << window.shift) - 1;
    if (window.shift > 0) *first = *last = lens->cursor;
    if (*first < window.left) *first = window.left;
    if (*last > right) *last = right;
    if (*last > lens->run->series.last) *last = lens->run->series.last;
    return *first <= *last;
}

static void draw_run(const struct view *view, struct grid *grid, const struct lens *lens) {
    int metric[LAYOUT_PANELS_MAX];
    struct layout layout = layout_of(view, lens->run, metric);
    struct header_facts facts = {view->now_ns, view->runs};
    header_draw(grid, layout.header, lens, &facts);
    if (layout.bar.rows > 0) header_draw_bar(grid, layout.bar, lens);
    for (int i = 0; i < layout.panels; i++) panel_draw(grid, &layout, i, metric[i], lens);
    if (layout.health.rows > 0) panel_draw_health(grid, &layout, lens);
    if (layout.table.rows > 0) table_draw(grid, layout.table, lens);
    if (layout.events.rows > 0) table_draw_events(grid, layout.events, lens->run);
}

static void draw_status(const struct view *view, struct grid *grid, struct grid_rect line) {
    int width = line.columns - 1;
    for (int column = 0; column < line.columns; column++)
        grid_put(grid, line.row, column, ' ', GRID_TEXT);
    grid_text(grid, line.row, 1, width, GRID_KEY, view->status);
}

void view_draw(const struct view *view, struct grid *grid) {
    const struct lens *lens = view_open_lens(view);
    bool keys = view->rows >= LAYOUT_KEYS_FROM;
    struct grid_rect all = {0, 0, view->rows - keys, view->columns},
                     last = {view->rows - 1, 0, 1, view->columns};
    grid_clear(grid);
    if (view->help)
        help_draw(grid, all, scope_below(view), view->help_top);
    else if (lens != NULL)
        draw_run(view, grid, lens);
    else if (view->runs > 0) {
        struct overview overview = {view->lens, view->runs, view->selected, view->now_ns};
        overview_draw(grid, all, &overview);
    } else {
        grid_text(grid, 0, 1, view->columns - 1, GRID_TEXT, view->waiting);
    }
    if (view->status[0] != '\0')
        draw_status(view, grid, last);
    else if (keys)
        help_draw_keys(grid, last, scope_of(view));
}
