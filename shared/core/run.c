#include "shared/core/run.h"

#include <stdlib.h>
#include <string.h>

#include "shared/core/detector.h"
#include "shared/core/error.h"
#include "shared/core/text.h"

#define RATE_WINDOW_NS INT64_C(2000000000)

static const char *const link_names[] = {
    [RUN_CONNECTING] = "connecting", [RUN_LIVE] = "live",
    [RUN_SILENT] = "silent",         [RUN_DEAD] = "died",
    [RUN_ENDED] = "ended",           [RUN_STORED] = "stored",
};

const char *run_link_name(enum run_link link) { return link_names[link]; }

static int64_t min_step(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t max_step(int64_t a, int64_t b) { return a > b ? a : b; }

/* Everything that is told of one run id, but not the memory for its steps. */
static void forget(struct run *run) {
    run->seq = run->record_seq = 0;
    run->gap_steps = run->duplicates = run->unrecorded = 0;
    run->worst = BAND_FINITE;
    run->onset = run->lead = run->first_nonfinite = run->alarm_step = run->safe_step = -1;
    run->alarms = 0;
    run->first_tensor[0] = run->safe_path[0] = '\0';
    run->lost = false;
    run->steps_per_s = NAN;
    memset(run->rate_ns, 0, sizeof run->rate_ns);
    run->events = 0;
}

int run_init(struct run *run, const char *source, int buckets) {
    memset(run, 0, sizeof *run);
    text_copy(run->source, sizeof run->source, source);
    hello_init(&run->hello);
    run->buckets = buckets;
    run->last_step = -1;
    forget(run);
    return series_init(&run->series, METRIC_COUNT, buckets);
}

static void free_records(struct run *run) {
    if (run->record) free(run->record[0].tensor);
    free(run->record);
}

void run_free(struct run *run) {
    free_records(run);
    series_free(&run->series);
    hello_free(&run->hello);
    memset(run, 0, sizeof *run);
}

/* The ring and the details behind it, the statistics of all of them in one block. */
static int init_records(struct run *run, int tensors) {
    size_t stats = (size_t)tensors * sizeof(struct tensor_stat);
    size_t fitting = RUN_RECORDS_BYTES / (sizeof(struct record) + stats);
    run->records = (int)min_step(max_step((int64_t)fitting, RUN_RECORDS_MIN), RUN_RECORDS_MAX);
    run->details = run->records / 4;
    size_t count = (size_t)(run->records + run->details);
    struct tensor_stat *block = tensors > 0 ? malloc(count * stats) : NULL;
    run->record = calloc(count, sizeof *run->record);
    if (!run->record || (tensors > 0 && !block)) {
        free(block);
        free(run->record);
        return -1;
    }
    for (size_t i = 0; i < count; i++) {
        run->record[i].step = -1;
        run->record[i].tensor = tensors > 0 ? block + i * (size_t)tensors : NULL;
    }
    run->detail = run->record + run->records;
    return 0;
}

/* All or nothing: what is taken first replaces the old only when the last of it is there. */
static int start_anew(struct run *run, const struct hello *hello) {
    struct run fresh = {.record = NULL};
    if (series_init(&fresh.series, hello->schema.metrics, run->buckets) < 0) return -1;
    if (init_records(&fresh, hello->schema.tensors) < 0) {
        series_free(&fresh.series);
        return -1;
    }
    if (hello_copy(&run->hello, hello) < 0) {
        free_records(&fresh);
        series_free(&fresh.series);
        return -1;
    }
    free_records(run);
    series_free(&run->series);
    run->series = fresh.series;
    run->records = fresh.records;
    run->record = fresh.record;
    run->details = fresh.details;
    run->detail = fresh.detail;
    run->last_step = -1;
    return 0;
}

int run_apply_hello(struct run *run, const struct hello *hello, struct error *error) {
    bool other_run = run->known && strcmp(run->hello.run_id, hello->run_id) != 0;
    bool anew = !run->known || other_run || run->hello.schema.id != hello->schema.id;
    if (anew ? start_anew(run, hello) < 0 : hello_copy(&run->hello, hello) < 0) {
        return error_set(error, "hold run %s of %s: no memory", hello->run_id, run->source);
    }
    if (other_run) forget(run);
    if (other_run && run->link == RUN_ENDED) run->link = RUN_CONNECTING;
    run->known = true;
    return 0;
}

static void hold(const struct run *run, struct record *slot, const struct record *record) {
    struct tensor_stat *tensor = slot->tensor;
    int tensors = (int)min_step(record->tensors, run->hello.schema.tensors);
    *slot = *record;
    slot->tensor = tensor;
    slot->tensors = tensors;
    if (tensors > 0) memcpy(tensor, record->tensor, (size_t)tensors * sizeof *tensor);
}

/* The newest safe checkpoint kept as an event; the one known before stays when it still may. */
static void update_safe(struct run *run) {
    int64_t limit = run->onset < 0 ? INT64_MAX : run->onset;
    if (run->safe_step >= limit) {
        run->safe_step = -1;
        run->safe_path[0] = '\0';
    }
    const struct event *event;
    for (int n = 0; (event = run_find_event(run, n)); n++) {
        if (event->kind != EVENT_CHECKPOINT || event->band != BAND_FINITE) continue;
        if (event->step <= run->safe_step || event->step >= limit) continue;
        run->safe_step = event->step;
        text_copy(run->safe_path, sizeof run->safe_path, event->text);
    }
}

static void set_onset(struct run *run, int64_t onset) {
    if (run->onset == onset) return;
    run->onset = onset;
    update_safe(run);
}

/* Would a step that is not finite belong to the stretch before it? The series tells it of a run
 * that was joined late, too. */
static bool in_stretch(const struct run *run, int64_t step) {
    int64_t since = step - RUN_STRETCH_GAP - 1;
    if (run->onset >= 0 && run->onset >= since && run->onset < step) return true;
    if (run->alarm_step >= 0 && run->alarm_step >= since && run->alarm_step < step) return true;
    for (int64_t at = since; at < step; at++) {
        const struct series_value *value;
        const struct series_bucket *bucket = series_find(&run->series, 0, at, &value);
        if (bucket && bucket->band != BAND_FINITE) return true;
    }
    return false;
}

static int64_t nonfinite_onset(const struct run *run) {
    return run->first_nonfinite < 0 ? -1 : run->first_nonfinite - run->lead;
}

static void set_nonfinite(struct run *run, int64_t step, int tensor, const char *subject) {
    run->first_nonfinite = step;
    run->lead = step - run->onset;
    if (tensor >= 0 && tensor < run->hello.schema.tensors) {
        detector_subject(&run->hello.schema.tensor[tensor], run->first_tensor);
    } else {
        text_copy(run->first_tensor, sizeof run->first_tensor, subject);
    }
}

static void see_band(struct run *run, const struct record *record) {
    if (record->band > run->worst) run->worst = record->band;
    bool finite = record->band == BAND_FINITE;
    if (finite && !in_stretch(run, record->step + 1)) set_onset(run, nonfinite_onset(run));
    if (!finite && !in_stretch(run, record->step)) set_onset(run, record->step);
    if (record->band == BAND_NONFINITE && run->first_nonfinite < run->onset) {
        int tensor = detector_first_nonfinite(&run->hello.schema, record);
        set_nonfinite(run, record->step, tensor, record->subject);
    }
}

static void see_rate(struct run *run, const struct record *record) {
    int64_t now_ns = record->mono_ns, step = record->step;
    if (now_ns <= 0) return;
    if (run->rate_ns[1] == 0 || now_ns < run->rate_ns[1] || step < run->rate_step[1]) {
        run->rate_ns[0] = run->rate_ns[1] = now_ns;
        run->rate_step[0] = run->rate_step[1] = step;
        run->steps_per_s = NAN;
        return;
    }
    if (now_ns - run->rate_ns[1] >= RATE_WINDOW_NS) {
        run->rate_ns[0] = run->rate_ns[1];
        run->rate_step[0] = run->rate_step[1];
        run->rate_ns[1] = now_ns;
        run->rate_step[1] = step;
    }
    double elapsed_ns = (double)(now_ns - run->rate_ns[0]);
    if (elapsed_ns > 0) run->steps_per_s = (double)(step - run->rate_step[0]) / elapsed_ns * 1e9;
}

/* A seq that jumps says that something was lost; contiguous ones say that nothing else was
 * published. */
static void pass_steps(struct run *run, const struct record *record) {
    bool jump = record->seq != 0 && (run->seq == 0 || record->seq > run->seq + 1);
    if (run->series.last >= 0 && record->step > run->series.last + 1) {
        if (jump || run->lost) {
            run_apply_gap(run, run->series.last + 1, record->step - 1);
        } else {
            series_apply_skip(&run->series, record->step - 1);
        }
    }
    run->lost = false;
}

int run_apply_record(struct run *run, const struct record *record, int64_t now_ns) {
    if (!run->known || record->step < 0 || record->step >= SERIES_STEP_END) return -1;
    if (record->seq != 0 && record->seq <= run->record_seq) {
        run->duplicates++;
        return -1;
    }
    if (run->link == RUN_ENDED) run->link = RUN_LIVE;
    run_apply_heard(run, now_ns);
    pass_steps(run, record);
    see_band(run, record);
    see_rate(run, record);
    series_apply(&run->series, record);
    hold(run, &run->record[record->step % run->records], record);
    run->last_step = record->step;
    run->record_seq = record->seq;
    if (record->seq > run->seq) run->seq = record->seq;
    return 0;
}

void run_apply_detail(struct run *run, const struct record *record) {
    if (!run->known || record->step < 0 || record->step >= SERIES_STEP_END) return;
    int64_t newest = max_step(max_step(run->last_step, run->series.last), record->step);
    bool reached = record->step > newest - run->records;
    struct record *slot = reached ? &run->record[record->step % run->records]
                                  : &run->detail[record->step % run->details];
    bool newer_segment = slot->step == record->step && slot->seq > record->seq;
    if (newer_segment) return;
    hold(run, slot, record);
    run->last_step = max_step(run->last_step, record->step);
}

static void apply_alarm(struct run *run, const struct event *event) {
    enum band band = event->kind == EVENT_NONFINITE ? BAND_NONFINITE : event->band;
    if (band > run->worst) run->worst = band;
    if (event->kind != EVENT_NOTICE) {
        run->alarms++;
        run->alarm_step = event->step;
    }
    if (event->step < 0) return;
    if (event->onset >= 0 && event->onset <= event->step) {
        set_onset(run, event->onset);
    } else if (run->onset < 0 || !in_stretch(run, event->step)) {
        set_onset(run, event->step);
    }
    if (event->kind == EVENT_NONFINITE) {
        set_nonfinite(run, event->step, event->tensor, event->subject);
    }
    bool old = event->step <= run->series.last && !in_stretch(run, run->series.last + 1);
    if (old) set_onset(run, nonfinite_onset(run));
}

static void apply_unrecorded(struct run *run, const struct event *event) {
    if (event->first_seq == 0 || event->last_seq < event->first_seq) return;
    uint64_t count = event->last_seq - event->first_seq;
    uint64_t room = (uint64_t)(INT64_MAX - run->unrecorded);
    run->unrecorded = count < room ? run->unrecorded + (int64_t)count + 1 : INT64_MAX;
}

void run_apply_seq(struct run *run, uint64_t seq) {
    if (run->seq != 0 && seq > run->seq + 1) run->lost = true;
    if (seq > run->seq) run->seq = seq;
}

void run_apply_event(struct run *run, const struct event *event, int64_t now_ns) {
    const struct event *kept;
    for (int n = 0; event->seq != 0 && (kept = run_find_event(run, n)); n++) {
        if (kept->seq == event->seq) return;
    }
    run_apply_heard(run, now_ns);
    run->event[run->events++ % RUN_EVENTS] = *event;
    if (event->kind == EVENT_GAP) run->lost = true;
    run_apply_seq(run, event->seq);
    switch (event->kind) {
    case EVENT_NOTICE:
    case EVENT_ALARM:
    case EVENT_NONFINITE:
        apply_alarm(run, event);
        break;
    case EVENT_CHECKPOINT:
        update_safe(run);
        break;
    case EVENT_UNRECORDED:
        apply_unrecorded(run, event);
        break;
    case EVENT_END:
        if (run->link != RUN_STORED) run->link = RUN_ENDED;
        break;
    default:
        break;
    }
}

bool run_has_ended(const struct run *run) {
    const struct event *event;
    for (int n = 0; (event = run_find_event(run, n)) && event->seq > run->record_seq; n++) {
        if (event->kind == EVENT_END) return true;
    }
    return false;
}

void run_apply_death(struct run *run) {
    if (!run_has_ended(run)) run->link = RUN_DEAD;
}

int run_apply_bucket(struct run *run, int level, const struct series_bucket *bucket,
                     const struct series_value *value) {
    if (series_apply_bucket(&run->series, level, bucket, value) < 0) return -1;
    if (bucket->band > run->worst) run->worst = bucket->band;
    return 0;
}

void run_apply_gap(struct run *run, int64_t first_step, int64_t last_step) {
    int64_t first = max_step(first_step, run->series.last + 1);
    int64_t last = min_step(last_step, SERIES_STEP_END - 1);
    if (first > last) return;
    run->gap_steps += last - first + 1;
    series_apply_gap(&run->series, first, last);
}

void run_apply_heard(struct run *run, int64_t now_ns) {
    run->heard_ns = now_ns;
    if (run->link == RUN_CONNECTING || run->link == RUN_SILENT || run->link == RUN_DEAD) {
        run->link = RUN_LIVE;
    }
}

const struct record *run_find_record(const struct run *run, int64_t step) {
    if (step < 0 || run->records == 0) return NULL;
    const struct record *record = &run->record[step % run->records];
    if (record->step == step) return record;
    record = &run->detail[step % run->details];
    return record->step == step ? record : NULL;
}

const struct event *run_find_event(const struct run *run, int n) {
    if (n < 0 || n >= run->events || n >= RUN_EVENTS) return NULL;
    return &run->event[(run->events - 1 - n) % RUN_EVENTS];
}

int64_t run_find_event_step(const struct run *run, int64_t step, int direction) {
    int64_t best = -1;
    const struct event *event;
    for (int n = 0; (event = run_find_event(run, n)); n++) {
        int64_t at = event->step;
        if (at < 0) continue;
        if (direction < 0 && at < step && at > best) best = at;
        if (direction > 0 && at > step && (best < 0 || at < best)) best = at;
    }
    return best;
}
