#include "tui/header.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "shared/core/text.h"
#include "tui/bar.h"
#include "tui/panel.h"
#include "tui/phrase.h"

/* What the line on top leaves out where it is narrow, first to last. */
enum weight {
    PROGRAM,
    RUNS,
    DEVICE,
    RATE,
    PHASE,
    STEP,
    HOST,
    DEATH,
    UPDATE,
    PLACE,
    GAPS,
    JUDGED,
    LINK,
    FROZEN,
    NAME
};
enum { BRIEF_COLUMNS = 60, WIDE_COLUMNS = 100 };

enum grid_role header_link(char *out, size_t size, const struct run *run, int64_t now_ns) {
    static const enum grid_role ROLE[] = {
        [RUN_CONNECTING] = GRID_DIM, [RUN_LIVE] = GRID_FINITE, [RUN_SILENT] = GRID_EXTREME,
        [RUN_DEAD] = GRID_NONFINITE, [RUN_ENDED] = GRID_DIM,   [RUN_STORED] = GRID_DIM,
    };
    int64_t silent_s = (now_ns - run->heard_ns) / INT64_C(1000000000);
    if (run->link == RUN_SILENT)
        snprintf(out, size, "silent %" PRId64 " s", silent_s);
    else
        text_copy(out, size, run_link_name(run->link));
    return ROLE[run->link];
}

enum band header_band(const struct run *run) {
    struct series_column column;
    bool known = series_column(&run->series, METRIC_LOSS, run->series.last, 1, &column);
    return known ? column.band : BAND_FINITE;
}

static void add_name(struct bar *bar, const struct run *run, int columns) {
    const struct hello *hello = &run->hello;
    const char *host = columns < BRIEF_COLUMNS ? "" : hello->host;
    bool joined = columns >= WIDE_COLUMNS && host[0] != '\0' &&
                  strlen(hello->name) + strlen(host) < (size_t)columns / 3;
    if (!run->known)
        bar_add(bar, NAME, GRID_TITLE, "%s", run->source);
    else if (joined)
        bar_add(bar, NAME, GRID_TITLE, "%s @ %s", hello->name, host);
    else
        bar_add(bar, NAME, GRID_TITLE, "%s", hello->name);
    if (run->known && !joined && host[0] != '\0') bar_add(bar, HOST, GRID_TITLE, "@ %s", host);
    if (hello->device[0] != '\0') bar_add(bar, DEVICE, GRID_DIM, "%s", hello->device);
}

static void add_place(struct bar *bar, const struct lens *lens, int columns) {
    bool brief = columns < BRIEF_COLUMNS;
    const struct record *record = run_find_record(lens->run, lens_step(lens));
    char of[24] = "", text[48];
    if (record != NULL && record->batch > 0 && !brief) {
        if (record->epochs > 0) snprintf(of, sizeof of, "/%d", record->epochs);
        bar_add(bar, PLACE, GRID_TEXT, "epoch %d%s", record->epoch, of);
        bool data = record->phase_data[0] != '\0' && columns >= WIDE_COLUMNS;
        if (record->phase > 0 && data)
            bar_add(bar, PHASE, GRID_TEXT, "phase %d (%s)", record->phase, record->phase_data);
        else if (record->phase > 0)
            bar_add(bar, PHASE, GRID_TEXT, "phase %d", record->phase);
        of[0] = '\0';
        if (record->batches > 0) snprintf(of, sizeof of, "/%d", record->batches);
        bar_add(bar, PLACE, GRID_TEXT, "batch %d%s", record->batch, of);
        bar_add(bar, STEP, GRID_DIM, "step %s", text_count(text, sizeof text, record->step));
    } else if (lens_step(lens) >= 0) {
        phrase_place_brief(text, sizeof text, lens->run, lens_step(lens), 0);
        if (!brief) snprintf(text, sizeof text, "step %" PRId64, lens_step(lens));
        bar_add(bar, PLACE, GRID_TEXT, "%s", text);
    }
}

static void add_update(struct bar *bar, const struct lens *lens) {
    double ratio, limit = panel_limit(lens, METRIC_UPDATE_RATIO);
    bool fetching;
    char value[32], bound[32];
    if (!lens_value(lens->run, METRIC_UPDATE_RATIO, lens_step(lens), &ratio, &fetching)) return;
    phrase_number(value, sizeof value, ratio);
    phrase_limit(bound, sizeof bound, limit);
    if (isnan(ratio))
        bar_add(bar, UPDATE, GRID_NONFINITE, "update nan");
    else if (ratio > limit)
        bar_add(bar, UPDATE, isinf(ratio) ? GRID_NONFINITE : GRID_EXTREME, "update %s > %s", value,
                bound);
    else
        bar_add(bar, UPDATE, GRID_TEXT, "update %s < %s", value, bound);
}

static void add_rate(struct bar *bar, const struct lens *lens) {
    const struct run *run = lens->run;
    double value;
    bool fetching;
    char text[32];
    if (lens_value(run, METRIC_SAMPLES_PER_S, lens_step(lens), &value, &fetching))
        bar_add(bar, RATE, GRID_TEXT, "%s samples/s", phrase_number(text, sizeof text, value));
    else if (run->steps_per_s > 0)
        bar_add(bar, RATE, GRID_TEXT, "%s steps/s",
                phrase_number(text, sizeof text, run->steps_per_s));
}

static void add_state(struct bar *bar, const struct lens *lens, const struct header_facts *facts) {
    const struct run *run = lens->run;
    char text[48];
    enum grid_role role = header_link(text, sizeof text, run, facts->now_ns);
    bar_add(bar, LINK, role, "%s", text);
    if (run->link == RUN_DEAD && run->series.last >= 0)
        bar_add(bar, DEATH, GRID_DIM, "at step %s, no end",
                text_count(text, sizeof text, run->series.last));
    if (run->gap_steps > 0)
        bar_add(bar, GAPS, GRID_GAP, "gaps %s", text_count(text, sizeof text, run->gap_steps));
    if (run->unrecorded > 0)
        bar_add(bar, GAPS, GRID_GAP, "unrecorded %s",
                text_count(text, sizeof text, run->unrecorded));
    if (lens->judged != NULL) bar_add(bar, JUDGED, GRID_GAP, "judged here");
    if (facts->runs > 1) bar_add(bar, RUNS, GRID_DIM, "%d runs", facts->runs);
    if (lens->frozen)
        bar_add(bar, FROZEN, GRID_FROZEN, " FROZEN +%s ",
                text_count(text, sizeof text, run->series.last - lens->cursor));
}

void header_draw(struct grid *grid, struct grid_rect rect, const struct lens *lens,
                 const struct header_facts *facts) {
    struct bar bar = {0};
    bar_add(&bar, PROGRAM, GRID_TITLE, "nantop");
    add_name(&bar, lens->run, rect.columns);
    add_place(&bar, lens, rect.columns);
    add_update(&bar, lens);
    add_rate(&bar, lens);
    add_state(&bar, lens, facts);
    bar_draw(&bar, grid, rect, rect.columns < WIDE_COLUMNS ? " " : "  ");
}

static const struct event *find_event(const struct run *run, int64_t from, bool nonfinite) {
    const struct event *event;
    for (int n = 0; (event = run_find_event(run, n)) != NULL; n++) {
        bool judged = event->kind == EVENT_NOTICE || event->kind == EVENT_ALARM;
        if (event->step >= from && (nonfinite ? event->kind == EVENT_NONFINITE : judged))
            return event;
    }
    return NULL;
}

/* Why the newest step is out of range, from the event of its stretch, else from its record. */
static void add_reason(struct bar *bar, const struct run *run) {
    const struct event *event = find_event(run, run->onset, false);
    const struct record *record = run_find_record(run, run->series.last);
    struct event made;
    char text[PHRASE_SIZE];
    if (event == NULL && record != NULL && record->reason != REASON_NONE) {
        event_init(&made, EVENT_NOTICE);
        made.reason = record->reason;
        made.value = record->value;
        made.limit = record->limit;
        text_copy(made.subject, sizeof made.subject, record->subject);
        event = &made;
    }
    if (event != NULL) bar_add(bar, 9, GRID_EXTREME, "%s", phrase_reason(text, sizeof text, event));
}

static void add_first_tensor(struct bar *bar, const struct run *run, enum grid_role role,
                             bool brief) {
    const struct event *event = find_event(run, run->onset, true);
    if (run->first_tensor[0] == '\0') return;
    bool staged = event != NULL && event->tensor >= 0 && !brief;
    bar_add(bar, 9, role, "%s%s%s", run->first_tensor, staged ? ", " : "",
            staged ? schema_stage_name(event->stage) : "");
}

static void add_onset(struct bar *bar, const struct lens *lens, bool nonfinite, bool brief) {
    const struct run *run = lens->run;
    char place[48];
    if (run->onset < 0) return;
    int32_t epoch = phrase_epoch(run, lens_step(lens));
    (brief ? phrase_place_brief : phrase_place)(place, sizeof place, run, run->onset, epoch);
    if (nonfinite && run->lead >= 0)
        bar_add(bar, 8, GRID_TEXT, "onset %s, lead %" PRId64, place, run->lead);
    else
        bar_add(bar, 8, GRID_TEXT, "onset %s", place);
}

static void add_safe(struct bar *bar, const struct run *run) {
    char place[48];
    if (run->onset < 0) return;
    if (run->safe_step < 0) {
        bar_add(bar, 7, GRID_TEXT, "no safe checkpoint");
        return;
    }
    int64_t before = run->onset - run->safe_step;
    phrase_place_brief(place, sizeof place, run, run->safe_step, 0);
    bar_add(bar, 7, GRID_TEXT, "safe: %s, %" PRId64 " before", place, before);
    if (before < 100) bar_add(bar, 1, GRID_DIM, "go back 100 or more if it was restless");
}

static void add_past(struct bar *bar, const struct lens *lens, bool brief) {
    const struct run *run = lens->run;
    if (run->worst == BAND_FINITE) {
        bar_add(bar, 2, GRID_DIM, "every step in range");
        return;
    }
    bar_add(bar, 9, phrase_band_role(run->worst), "was %s", phrase_band(run->worst));
    if (run->worst == BAND_NONFINITE) add_first_tensor(bar, run, GRID_TEXT, brief);
    add_onset(bar, lens, run->worst == BAND_NONFINITE, brief);
    bar_add(bar, 3, GRID_DIM, "%" PRId64 " alarm%s", run->alarms, run->alarms == 1 ? "" : "s");
}

void header_draw_bar(struct grid *grid, struct grid_rect rect, const struct lens *lens) {
    const struct run *run = lens->run;
    enum band band = header_band(run);
    bool brief = rect.columns < BRIEF_COLUMNS, nonfinite = band == BAND_NONFINITE;
    struct bar bar = {0};
    int at = rect.column + 1, end = rect.column + rect.columns;
    if (run->series.last < 0) {
        grid_text(grid, rect.row, at, end - at, GRID_DIM, "no step yet");
        return;
    }
    if (band == BAND_FINITE) {
        add_past(&bar, lens, brief);
    } else {
        if (nonfinite)
            add_first_tensor(&bar, run, GRID_NONFINITE, brief);
        else
            add_reason(&bar, run);
        add_onset(&bar, lens, nonfinite, brief);
        add_safe(&bar, run);
    }
    at += grid_text(grid, rect.row, at, end - at, phrase_band_role(band), phrase_band(band));
    bar_draw(&bar, grid, (struct grid_rect){rect.row, at, 1, end - at}, " · ");
}
