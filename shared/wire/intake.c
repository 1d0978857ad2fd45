#include "shared/wire/intake.h"

#include <string.h>

#include "shared/core/text.h"

/* The events of a record are published with it: longer than this they do not take. */
#define EVENTS_FOLLOW_NS INT64_C(250000000)

void intake_init(struct intake *intake, struct run *run, const struct feed_options *options) {
    memset(intake, 0, sizeof *intake);
    intake->run = run;
    intake->options = *options;
    if (options->rejudge) {
        intake->limits = *options->rejudge;
        intake->options.rejudge = &intake->limits;
    } else {
        detector_limits_init(&intake->limits);
    }
}

static void forget(struct intake *intake) {
    if (intake->judging) detector_free(&intake->detector);
    intake->judging = false;
    intake->waits = false;
}

void intake_free(struct intake *intake) {
    forget(intake);
    record_free(&intake->waiting);
    memset(intake, 0, sizeof *intake);
}

bool intake_wants_all(const struct intake *intake) {
    return intake->options.all_records || intake->options.rejudge;
}

int intake_hello(struct intake *intake, const struct hello *hello, struct error *error) {
    struct run *run = intake->run;
    bool same = run->known && strcmp(run->hello.run_id, hello->run_id) == 0 &&
                run->hello.schema.id == hello->schema.id;
    if (!same) {
        intake_rest(intake, 0, true);
        forget(intake);
    }
    intake->changed = true;
    return run_apply_hello(run, hello, error);
}

static void pass_on(struct intake *intake, const struct record *record,
                    const struct verdict *verdict) {
    if (intake->options.each)
        intake->options.each(intake->options.user, intake->run, record, verdict);
}

void intake_rest(struct intake *intake, int64_t now_ns, bool over) {
    if (!intake->waits) return;
    if (!over && (intake->behind || now_ns - intake->waits_since_ns < EVENTS_FOLLOW_NS)) return;
    intake->waits = false;
    pass_on(intake, &intake->waiting, &intake->verdict);
}

static void apply_judged(struct intake *intake, struct record *record, int64_t now_ns) {
    const struct schema *schema = &intake->run->hello.schema;
    if (!intake->judging && detector_init(&intake->detector, &intake->limits, schema->tensors) < 0)
        return;
    intake->judging = true;
    struct verdict verdict = detector_judge(&intake->detector, schema, record);
    if (run_apply_record(intake->run, record, now_ns) < 0) return;
    struct event event;
    if (detector_event(schema, record, &verdict, &event))
        run_apply_event(intake->run, &event, now_ns);
    pass_on(intake, record, &verdict);
}

void intake_record(struct intake *intake, struct record *record, bool judge, int64_t now_ns) {
    struct run *run = intake->run;
    bool known = record->seq != 0 && record->seq <= run->record_seq;
    intake->changed = true;
    intake_rest(intake, now_ns, true);
    if (!known && (judge || intake->options.rejudge)) {
        apply_judged(intake, record, now_ns);
        return;
    }
    if (run_apply_record(run, record, now_ns) < 0 || !intake->options.each) return;
    intake->waits = record_copy(&intake->waiting, record) == 0;
    intake->waits_since_ns = now_ns;
    intake->verdict = (struct verdict){.onset = -1, .lead = -1, .tensor = -1};
}

static bool is_of_detector(enum event_kind kind) {
    return kind == EVENT_NOTICE || kind == EVENT_ALARM || kind == EVENT_NONFINITE;
}

void intake_event(struct intake *intake, const struct event *event, int64_t now_ns) {
    if (is_of_detector(event->kind)) {
        if (intake->options.rejudge) {
            run_apply_seq(intake->run, event->seq);
            return;
        }
        if (intake->waits && intake->waiting.step == event->step) {
            if (event->kind == EVENT_NOTICE)
                intake->verdict.notice = true;
            else
                intake->verdict.alarm = true;
            intake->verdict.onset = event->onset;
            intake->verdict.lead = event->lead;
            intake->verdict.tensor = event->tensor;
        }
    }
    intake->changed = true;
    run_apply_event(intake->run, event, now_ns);
}

void intake_catch_up(struct intake *intake) {
    if (!intake->caught_up) intake->caught_step = intake->run->last_step;
    intake->caught_up = true;
}

int intake_restart(struct intake *intake, struct error *error) {
    char source[sizeof intake->run->source];
    struct run fresh;
    text_copy(source, sizeof source, intake->run->source);
    intake_rest(intake, 0, true);
    forget(intake);
    if (run_init(&fresh, source, intake->run->buckets) < 0) {
        return error_set(error, "start %s anew: no memory", source);
    }
    run_free(intake->run);
    *intake->run = fresh;
    intake->changed = true;
    return 0;
}
