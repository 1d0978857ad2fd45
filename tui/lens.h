/* How one run is looked at: live, or frozen with a cursor on a step, at so many steps a column.
 * Keys and the clock change it; drawing does not. */
#ifndef TUI_LENS_H
#define TUI_LENS_H

#include "shared/core/detector.h"
#include "shared/core/run.h"

enum lens_freeze { LENS_FREEZE_ALARM, LENS_FREEZE_NONFINITE, LENS_FREEZE_NEVER };

enum { LENS_SHIFT_MAX = 40 };

struct lens {
    const struct run *run;
    const struct detector_limits *judged; /* by the reader itself; NULL: as the run was told */
    int columns;                          /* of a panel */
    bool frozen;
    int shift;           /* live: log2 of the steps a column, without `zoom`; -1: not chosen yet */
    int zoom;            /* live: what the keys add to it */
    int frozen_shift;    /* frozen: log2 of the steps a column */
    int64_t left;        /* frozen: first step of the picture, a multiple of a column's steps */
    int64_t cursor;      /* frozen: the step whose numbers are shown */
    int64_t last;        /* frozen: newer steps are not drawn */
    int64_t number_step; /* live: the step whose numbers are shown; -1: none yet */
    int64_t table_step;  /* live: the step of the tensor table; -1 */
    int64_t number_ns, table_ns; /* monotonic, when they were taken */
    enum band number_band;
    int64_t alarms_seen; /* -1: the run's past was not looked at yet */
    bool nonfinite_seen;
    int table_top; /* tensors scrolled by */
};

/* Steps [left + i << shift, + 1 << shift) are column i, as far as `last`. */
struct lens_window {
    int64_t left, last;
    int shift, columns;
};

void lens_init(struct lens *lens, const struct run *run);
/* A panel has so many columns now; what is under the cursor stays visible. */
void lens_resize(struct lens *lens, int columns);
/* Takes note of what happened: freezes on a new alarm, chooses the zoom and the step whose numbers
 * are shown, which live change a few times a second only. True when it froze now. */
bool lens_tick(struct lens *lens, enum lens_freeze freeze, int64_t now_ns);

/* The picture stands as it is, the cursor on the newest step. */
void lens_freeze(struct lens *lens);
void lens_unfreeze(struct lens *lens);
/* All three freeze. By so many columns; to a step, as far as there are steps. */
void lens_move(struct lens *lens, int columns);
void lens_move_to(struct lens *lens, int64_t step);
/* To the next event in this direction. False: there is none. */
bool lens_move_to_event(struct lens *lens, int direction);
/* Halves (-1) or doubles (+1) the steps a column; the cursor's column stays where it is. */
void lens_zoom(struct lens *lens, int direction);

/* What a panel shows; the newest on the right unless frozen, or all of the run from the left. */
struct lens_window lens_window(const struct lens *lens);
/* Never frozen, in so many columns. */
struct lens_window lens_live_window(const struct lens *lens, int columns);
/* The step whose numbers are shown; -1: none. */
int64_t lens_step(const struct lens *lens);
/* One column of a metric, from the series or, where it is thinned, from the full record. False:
 * nothing known of it. */
bool lens_column(const struct run *run, int metric, struct lens_window window, int column,
                 struct series_column *out);
/* The value at a step. False: not known here (`*fetching`: the record may yet come) or not
 * measured. */
bool lens_value(const struct run *run, int metric, int64_t step, double *value, bool *fetching);

#endif
