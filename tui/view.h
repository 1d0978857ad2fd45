/* The whole screen as a function of the runs and of how they are looked at. Keys and the clock
 * change the view; drawing reads it. */
#ifndef TUI_VIEW_H
#define TUI_VIEW_H

#include "tui/grid.h"
#include "tui/keys.h"
#include "tui/layout.h"
#include "tui/lens.h"
#include "tui/overview.h"

enum { VIEW_RUNS_MAX = OVERVIEW_RUNS_MAX, VIEW_STATUS_SIZE = 600 };

/* What a key asks of the program around the view. */
enum view_request { VIEW_NOTHING, VIEW_QUIT, VIEW_SAVE, VIEW_THEME };

struct view {
    int rows, columns;
    enum lens_freeze freeze;              /* what freezes by itself */
    const struct detector_limits *judged; /* by the reader's own thresholds; NULL: as published */
    const char *waiting;                  /* said while there is no run; the caller's */
    bool overview, help;
    int help_top;
    int selected; /* the run that is open, or selected in the overview */
    int runs;
    bool announced[VIEW_RUNS_MAX]; /* by name, those that turned up later */
    struct lens lens[VIEW_RUNS_MAX];
    int64_t now_ns; /* of the last tick */
    char status[VIEW_STATUS_SIZE];
    int64_t status_until_ns;
};

void view_init(struct view *view, enum lens_freeze freeze, const char *waiting);
/* One more run, which stays where it is as long as the view. Several before the first tick: the
 * overview is what opens. -1: there are too many. */
int view_add(struct view *view, const struct run *run);
void view_resize(struct view *view, int rows, int columns);
/* Takes note of what happened in the runs. */
void view_tick(struct view *view, int64_t now_ns);
/* Says something in the line of the keys for some seconds. */
void view_say(struct view *view, const char *text, int64_t now_ns);
enum view_request view_key(struct view *view, uint32_t code, int64_t now_ns);
/* The run that is open; NULL: the overview, or there is none. */
const struct lens *view_open_lens(const struct view *view);
/* The metrics whose panels the open run shows. Returns how many. */
int view_panels(const struct view *view, int metric[LAYOUT_PANELS_MAX]);
/* The full records that the screen would like: steps first..last of the open run. False: none. */
bool view_wants(const struct view *view, int64_t *first, int64_t *last);

void view_draw(const struct view *view, struct grid *grid);

#endif
