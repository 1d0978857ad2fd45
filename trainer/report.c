#include "trainer/report.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "shared/core/text.h"

enum { NUMBER_SIZE = 32, RESTLESS_STEPS = 100 };

void report_init(struct report *report, const char *name, const char *folder,
                 const struct schema *schema) {
    *report = (struct report){.name = name, .folder = folder, .schema = schema};
    report->newest = report->onset.at.step = report->alarm_onset.at.step = -1;
    event_init(&report->alarm, EVENT_ALARM);
}

void report_apply(struct report *report, const struct record *record, const struct verdict *verdict,
                  const struct event *event) {
    if (record->band > report->worst) report->worst = record->band;
    if (verdict->onset == record->step)
        report->onset = (struct report_onset){
            {record->step, record->epoch, record->phase, record->batch}, report->newest};
    if (record->band != BAND_FINITE) report->newest = record->step;
    if (!event || event->kind == EVENT_NOTICE || report->alarm.kind == EVENT_NONFINITE) return;
    report->alarm = *event;
    report->alarm_onset = report->onset;
}

/* Appends printf-like; what does not fit is cut. */
__attribute__((format(printf, 2, 3))) static void append(char out[REPORT_SIZE], const char *format,
                                                         ...) {
    size_t used = strlen(out);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(out + used, REPORT_SIZE - used, format, arguments);
    va_end(arguments);
}

static void append_place(char out[REPORT_SIZE], const struct report_place *place) {
    append(out, "epoch %" PRId32 " phase %" PRId32 " batch %" PRId32, place->epoch, place->phase,
           place->batch);
}

/* The batch is enough where the epoch is the same. */
static void append_onset(char out[REPORT_SIZE], const struct report_place *onset,
                         const struct event *event) {
    if (onset->step < 0) return;
    append(out, ", onset ");
    if (onset->epoch != event->epoch) append(out, "epoch %" PRId32 " ", onset->epoch);
    append(out, "batch %" PRId32, onset->batch);
    if (event->lead >= 0) append(out, ", lead %" PRId64, event->lead);
}

static void append_reason(char out[REPORT_SIZE], const struct event *event) {
    char value[NUMBER_SIZE], limit[NUMBER_SIZE];
    append(out, "%s %s %s", band_reason_name(event->reason), event->subject,
           text_number(value, sizeof value, event->value));
    if (!isnan(event->limit)) append(out, " > %s", text_number(limit, sizeof limit, event->limit));
}

static const char *tensor_name(const struct report *report, const struct event *event) {
    return event->tensor < 0 ? event->subject : report->schema->tensor[event->tensor].name;
}

char *report_alarm(char out[REPORT_SIZE], const struct report *report, const struct event *event) {
    struct report_place place = {event->step, event->epoch, event->phase, event->batch};
    *out = '\0';
    append(out, "%s: %s at ", report->name,
           event->kind == EVENT_NONFINITE ? "NON-FINITE" : "ALARM");
    append_place(out, &place);
    append(out, ", step %" PRId64 ": ", event->step);
    if (event->tensor < 0)
        append_reason(out, event);
    else
        append(out,
               "%s %s (%s), %" PRId64 " NaN, %" PRId64 " +Inf, %" PRId64 " -Inf of %" PRId64
               ", the first at %" PRId64,
               tensor_name(report, event),
               schema_role_name(report->schema->tensor[event->tensor].role),
               schema_stage_name(event->stage), event->nan, event->pos_inf, event->neg_inf,
               event->count, event->bad_index);
    append(out, "; input %016" PRIx64 ", labels %016" PRIx64, event->input_hash, event->label_hash);
    append_onset(out, &report->onset.at, event);
    return out;
}

static void append_time(char out[REPORT_SIZE], double seconds) {
    int64_t whole = (int64_t)seconds;
    if (whole >= 3600)
        append(out, "%" PRId64 ":%02d:%02d", whole / 3600, (int)(whole / 60 % 60),
               (int)(whole % 60));
    else
        append(out, "%d:%02d", (int)(whole / 60), (int)(whole % 60));
}

char *report_progress(char out[REPORT_SIZE], const struct report *report,
                      const struct report_progress *progress) {
    const struct record *record = progress->record;
    char loss[NUMBER_SIZE];
    *out = '\0';
    append(out,
           "%s: epoch %" PRId32 "/%" PRId32 " phase %" PRId32 " (%s) batch %" PRId32 "/%" PRId32
           ", loss %s, ",
           report->name, record->epoch, record->epochs, record->phase, record->phase_data,
           record->batch, record->batches,
           text_number(loss, sizeof loss, record->metric[METRIC_LOSS]));
    append(out, "%.1f steps/s, %s, ETA ", progress->steps_per_s, band_name(record->band));
    append_time(out, (double)(progress->steps - record->step) / progress->steps_per_s);
    return out;
}

static void append_safe(char out[REPORT_SIZE], const struct report *report,
                        const struct checkpoint *safe) {
    const struct report_onset *onset = &report->alarm_onset;
    if (!safe) {
        append(out, "; no checkpoint before the onset is safe");
        return;
    }
    int64_t distance = onset->at.step - safe->step;
    append(out, "; last safe checkpoint %s, ", safe->path);
    if (distance <= 0)
        append(out, "from after it");
    else
        append(out, "%" PRId64 " step%s before the onset", distance, distance == 1 ? "" : "s");
    if (distance > 0 && onset->before >= 0 && safe->step - onset->before < RESTLESS_STEPS)
        append(out, " (already restless at step %" PRId64 ": rather go back %d or more)",
               onset->before, RESTLESS_STEPS);
}

char *report_end(char out[REPORT_SIZE], const struct report *report,
                 const struct report_place *last, const char *how, const struct checkpoint *safe) {
    const struct event *alarm = &report->alarm;
    struct report_place place = {alarm->step, alarm->epoch, alarm->phase, alarm->batch};
    *out = '\0';
    append(out, "%s: ", report->name);
    if (alarm->step < 0) {
        append(out, "%s, %s at ", report->worst == BAND_FINITE ? "finite" : "finite, with notices",
               how);
        append_place(out, last);
        append(out, ", step %" PRId64, last->step);
    } else {
        append(out, "%s at ", alarm->kind == EVENT_NONFINITE ? "NON-FINITE" : "EXTREME");
        append_place(out, &place);
        append(out, " (");
        if (alarm->tensor < 0)
            append_reason(out, alarm);
        else
            append(out, "%s, %s", tensor_name(report, alarm), schema_stage_name(alarm->stage));
        append(out, ")");
        append_onset(out, &report->alarm_onset.at, alarm);
        append_safe(out, report, safe);
        append(out, "; %s", how);
    }
    append(out, "; %s/run.db", report->folder);
    return out;
}

int report_exit_code(const struct report *report) {
    return report->alarm.step >= 0 || report->worst == BAND_NONFINITE;
}
