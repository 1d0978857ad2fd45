#include "tui/lens.h"

#include <math.h>
#include <stddef.h>

#define NUMBER_NS INT64_C(400000000) /* more often they cannot be read, and cost bytes */
#define TABLE_NS  INT64_C(2000000000)
enum { COLUMN_SECONDS = 2 };

static int64_t clamp(int64_t value, int64_t least, int64_t most) {
    return value < least ? least : value > most ? most : value;
}

static int shift_clamp(int shift) {
    return shift < 0 ? 0 : shift > LENS_SHIFT_MAX ? LENS_SHIFT_MAX : shift;
}

void lens_init(struct lens *lens, const struct run *run) {
    *lens = (struct lens){.run = run,
                          .columns = 1,
                          .shift = -1,
                          .number_step = -1,
                          .table_step = -1,
                          .alarms_seen = -1};
}

/* Shift at which the whole run is visible. */
static int shift_fitting(const struct lens *lens) {
    int shift = 0;
    while (lens->run->series.last >> shift >= lens->columns) shift++;
    return shift;
}

/* log2 of the steps a column that lasts COLUMN_SECONDS: a picture that scrolls does so as seldom.
 */
static double steady_shift(const struct run *run) {
    double steps = run->steps_per_s * COLUMN_SECONDS;
    return steps > 1 ? log2(steps) : 0;
}

/* The whole run while it fits; a scrolling picture changes its zoom only when the pace is off by a
 * factor 4. */
static void choose_shift(struct lens *lens) {
    int fitting = shift_fitting(lens);
    bool paced = lens->run->steps_per_s > 0;
    double steady = paced ? steady_shift(lens->run) : fitting;
    int nearest = shift_clamp((int)lround(steady));
    bool over = lens->run->link == RUN_ENDED || lens->run->link == RUN_DEAD;
    if (lens->shift < 0)
        lens->shift = fitting < nearest ? fitting : nearest;
    else if (over && lens->shift <= fitting)
        return;
    else if (fitting <= nearest || lens->shift > fitting)
        lens->shift = fitting;
    else if (fabs(steady - lens->shift) >= 2)
        lens->shift = nearest;
}

static void choose_numbers(struct lens *lens, int64_t now_ns) {
    const struct run *run = lens->run;
    const struct record *newest = run_find_record(run, run->series.last);
    bool turned = newest != NULL && newest->band != lens->number_band;
    bool rests = run->link != RUN_LIVE;
    if (turned || rests || lens->number_step < 0 || now_ns - lens->number_ns >= NUMBER_NS) {
        lens->number_step = run->series.last;
        lens->number_ns = now_ns;
    }
    if (newest != NULL &&
        (turned || rests || lens->table_step < 0 || now_ns - lens->table_ns >= TABLE_NS)) {
        lens->table_step = run->series.last;
        lens->table_ns = now_ns;
    }
    if (newest != NULL) lens->number_band = newest->band;
}

/* Moves the picture as little as shows the cursor. */
static void show_cursor(struct lens *lens) {
    int shift = lens->frozen_shift;
    int64_t column = (lens->cursor >> shift) - (lens->left >> shift);
    int64_t off = column < 0 ? column : column >= lens->columns ? column - lens->columns + 1 : 0;
    lens->left = ((lens->left >> shift) + off) << shift;
}

/* One step a column: the onset, some of what was before it, and room for what follows the alarm. */
static void freeze_at_onset(struct lens *lens) {
    const struct run *run = lens->run;
    int64_t alarm = run->alarm_step >= 0 ? run->alarm_step : run->series.last;
    int64_t onset = run->onset >= 0 ? run->onset : alarm;
    int64_t left = (alarm > onset ? alarm : onset) - lens->columns * 2 / 3;
    if (left > onset - lens->columns / 8) left = onset - lens->columns / 8;
    bool over = run->link == RUN_STORED || run->link == RUN_ENDED || run->link == RUN_DEAD;
    if (over && left + lens->columns > run->series.last + 1)
        left = run->series.last + 1 - lens->columns;
    if (run->first_nonfinite >= left + lens->columns)
        left = run->first_nonfinite + 1 - lens->columns;
    lens->frozen = true;
    lens->frozen_shift = 0;
    lens->left = clamp(left, 0, onset);
    lens->cursor = onset;
    show_cursor(lens);
    lens->last = lens->left + lens->columns - 1;
}

/* Of a run that was joined late only what is still to be seen, or the end of it, freezes. */
static bool past_matters(const struct lens *lens) {
    const struct run *run = lens->run;
    bool over = run->link == RUN_STORED || run->link == RUN_ENDED || run->link == RUN_DEAD;
    return run->alarms > 0 && (over || run->series.last - run->alarm_step < lens->columns);
}

bool lens_tick(struct lens *lens, enum lens_freeze freeze, int64_t now_ns) {
    const struct run *run = lens->run;
    if (run->series.last < 0) return false;
    bool first = lens->alarms_seen < 0;
    bool alarm = first ? past_matters(lens) : run->alarms > lens->alarms_seen;
    bool nonfinite = run->worst == BAND_NONFINITE && !lens->nonfinite_seen;
    if (freeze == LENS_FREEZE_NONFINITE) alarm = first ? alarm && nonfinite : nonfinite;
    lens->alarms_seen = run->alarms;
    lens->nonfinite_seen = run->worst == BAND_NONFINITE;
    choose_shift(lens);
    choose_numbers(lens, now_ns);
    if (lens->frozen || !alarm || freeze == LENS_FREEZE_NEVER) return false;
    freeze_at_onset(lens);
    return true;
}

void lens_freeze(struct lens *lens) {
    if (lens->frozen || lens->run->series.last < 0) return;
    struct lens_window window = lens_window(lens);
    lens->frozen = true;
    lens->left = window.left;
    lens->frozen_shift = window.shift;
    lens->cursor = lens->last = lens->run->series.last;
}

void lens_unfreeze(struct lens *lens) {
    lens->frozen = false;
    lens->shift = -1;
    lens->zoom = 0;
    choose_shift(lens);
}

void lens_resize(struct lens *lens, int columns) {
    lens->columns = columns > 0 ? columns : 1;
    if (lens->frozen) show_cursor(lens);
    if (lens->run->series.last >= 0) choose_shift(lens);
}

void lens_move_to(struct lens *lens, int64_t step) {
    lens_freeze(lens);
    if (!lens->frozen) return;
    lens->cursor = clamp(step, lens->run->series.first, lens->run->series.last);
    if (lens->last < lens->cursor) lens->last = lens->cursor;
    show_cursor(lens);
}

void lens_move(struct lens *lens, int columns) {
    lens_freeze(lens);
    if (lens->frozen)
        lens_move_to(lens, lens->cursor + columns * (INT64_C(1) << lens->frozen_shift));
}

bool lens_move_to_event(struct lens *lens, int direction) {
    int64_t from = lens->frozen ? lens->cursor : lens->run->series.last + 1;
    int64_t step = run_find_event_step(lens->run, from, direction);
    if (step >= 0) lens_move_to(lens, step);
    return step >= 0;
}

void lens_zoom(struct lens *lens, int direction) {
    struct lens_window window = lens_window(lens);
    int shift = shift_clamp(window.shift + direction);
    if (lens->frozen) {
        int64_t column = (lens->cursor >> window.shift) - (lens->left >> window.shift);
        int64_t left = (lens->cursor >> shift) - column;
        lens->frozen_shift = shift;
        lens->left = left > 0 ? left << shift : 0;
    } else if (direction < 0 || window.shift < shift_fitting(lens)) {
        lens->zoom += shift - window.shift;
    }
}

struct lens_window lens_live_window(const struct lens *lens, int columns) {
    struct lens_window window = {0, INT64_MAX, shift_clamp(lens->shift + lens->zoom), columns};
    int64_t last = lens->run->series.last, newest = last >> window.shift;
    while (columns > lens->columns && window.shift > 0 && last >> (window.shift - 1) < columns)
        window.shift--;
    if (newest >= columns) window.left = (newest - columns + 1) << window.shift;
    return window;
}

struct lens_window lens_window(const struct lens *lens) {
    if (!lens->frozen) return lens_live_window(lens, lens->columns);
    return (struct lens_window){lens->left, lens->last, lens->frozen_shift, lens->columns};
}

int64_t lens_step(const struct lens *lens) {
    return lens->frozen ? lens->cursor : lens->number_step;
}

static struct series_column record_column(const struct record *record, int metric) {
    double value = record->metric[metric];
    struct series_column column = {
        .steps = 1, .band = record->band, .value = {.min = 1, .max = 0, .last = NAN}};
    if (!record_has(record, metric)) return column;
    column.value.present = 1;
    column.value.last = (float)value;
    if (isnan(value))
        column.value.marks = SERIES_NAN;
    else if (isinf(value))
        column.value.marks = value > 0 ? SERIES_POS_INF : SERIES_NEG_INF;
    else if (isinf(column.value.last))
        column.value.marks = SERIES_BEYOND;
    else
        column.value.min = column.value.max = (float)value;
    return column;
}

static bool step_column(const struct run *run, int metric, int64_t step,
                        struct series_column *out) {
    bool known = series_column(&run->series, metric, step, 1, out);
    if (known && !out->thinned) return true;
    const struct record *record = run_find_record(run, step);
    if (record == NULL) return known;
    *out = record_column(record, metric);
    return true;
}

static void merge(struct series_column *to, const struct series_column *from) {
    to->steps += from->steps;
    to->missing += from->missing;
    if (from->band > to->band) to->band = from->band;
    to->thinned |= from->thinned;
    if (from->value.present == 0) return;
    to->value.min = fminf(to->value.min, from->value.min);
    to->value.max = fmaxf(to->value.max, from->value.max);
    to->value.last = from->value.last;
    to->value.present += from->value.present;
    to->value.marks |= from->value.marks;
}

/* The most steps from `step` on, but none after `last`, that are one bucket of some level. */
static int64_t find_piece(int64_t step, int64_t last) {
    int64_t piece = 1;
    for (int64_t next = SERIES_FACTOR; step % next == 0 && next <= last - step + 1;
         next *= SERIES_FACTOR)
        piece = next;
    return piece;
}

bool lens_column(const struct run *run, int metric, struct lens_window window, int column,
                 struct series_column *out) {
    int64_t width = INT64_C(1) << window.shift, first = window.left + column * width;
    if (first > window.last) return false;
    if (width == 1) return step_column(run, metric, first, out);
    bool cut = first + width - 1 > window.last && window.last < run->series.last;
    if (!cut) return series_column(&run->series, metric, first, width, out);
    bool known = false; /* the picture ends inside the column, and the run went on */
    for (int64_t step = first, piece; step <= window.last; step += piece) {
        struct series_column one;
        piece = find_piece(step, window.last);
        if (!series_column(&run->series, metric, step, piece, &one)) continue;
        if (one.thinned) return series_column(&run->series, metric, first, width, out);
        if (known)
            merge(out, &one);
        else
            *out = one;
        known = true;
    }
    return known;
}

bool lens_value(const struct run *run, int metric, int64_t step, double *value, bool *fetching) {
    const struct record *record = run_find_record(run, step);
    struct series_column column;
    *fetching = false;
    if (record != NULL) {
        *value = record->metric[metric];
        return record_has(record, metric);
    }
    *fetching = true;
    if (step < 0 || !series_column(&run->series, metric, step, 1, &column) || column.thinned)
        return false;
    float last = column.value.last; /* a float tells three digits only within its own range */
    if ((column.value.marks & SERIES_BEYOND) != 0 || fpclassify(last) == FP_SUBNORMAL) return false;
    *fetching = false;
    *value = (double)last;
    return column.value.present > 0;
}
