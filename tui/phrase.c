#include "tui/phrase.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "shared/core/text.h"

char *phrase_number(char *out, size_t size, double value) {
    char text[32];
    text_number(text, sizeof text, value);
    char *exponent = strchr(text, 'e');
    if (exponent == NULL) return text_copy(out, size, text);
    char *digits = exponent + 1;
    const char *sign = *digits == '-' ? "-" : "";
    digits += strspn(digits, "+-0");
    *exponent = '\0';
    snprintf(out, size, "%se%s%s", text, sign, digits);
    return out;
}

char *phrase_limit(char *out, size_t size, double value) {
    phrase_number(out, size, value);
    if (strchr(out, '.') == NULL || strchr(out, 'e') != NULL) return out;
    size_t used = strlen(out);
    while (out[used - 1] == '0') used--;
    if (out[used - 1] == '.') used--;
    out[used] = '\0';
    return out;
}

char *phrase_count(char *out, size_t size, int64_t count) {
    static const char UNIT[] = " kMGTPE";
    int unit = 0;
    if (count > 9999)
        for (; count > 999; count /= 1000) unit++;
    if (unit == 0)
        snprintf(out, size, "%" PRId64, count);
    else
        snprintf(out, size, "%" PRId64 "%c", count, UNIT[unit]);
    return out;
}

/* From the record or from an event of that step, whatever is in memory. */
static bool find_place(const struct run *run, int64_t step, int32_t *epoch, int32_t *batch) {
    const struct record *record = run_find_record(run, step);
    if (record != NULL) {
        *epoch = record->epoch;
        *batch = record->batch;
    }
    const struct event *event = NULL;
    for (int n = 0; record == NULL && (event = run_find_event(run, n)) != NULL; n++) {
        if (event->step != step || event->batch < 0) continue;
        *epoch = event->epoch;
        *batch = event->batch;
        break;
    }
    return (record != NULL || event != NULL) && *epoch > 0 && *batch > 0;
}

int32_t phrase_epoch(const struct run *run, int64_t step) {
    int32_t epoch, batch;
    return find_place(run, step, &epoch, &batch) ? epoch : 0;
}

struct place_words {
    const char *step, *both, *batch;
};

static char *place(char *out, size_t size, const struct run *run, int64_t step, int32_t epoch,
                   const struct place_words *words) {
    int32_t its_epoch, batch;
    if (!find_place(run, step, &its_epoch, &batch))
        snprintf(out, size, words->step, step);
    else if (its_epoch == epoch)
        snprintf(out, size, words->batch, batch);
    else
        snprintf(out, size, words->both, its_epoch, batch);
    return out;
}

char *phrase_place(char *out, size_t size, const struct run *run, int64_t step, int32_t epoch) {
    static const struct place_words WORDS = {"step %" PRId64, "epoch %d batch %d", "batch %d"};
    return place(out, size, run, step, epoch, &WORDS);
}

char *phrase_place_brief(char *out, size_t size, const struct run *run, int64_t step,
                         int32_t epoch) {
    static const struct place_words WORDS = {"s%" PRId64, "e%d b%d", "b%d"};
    return place(out, size, run, step, epoch, &WORDS);
}

/* "logits 320 NaN of 640, first at 12" */
static int say_counts(char *out, size_t size, const struct event *event) {
    const struct {
        int64_t count;
        const char *name;
    } kinds[] = {{event->nan, "NaN"}, {event->pos_inf, "+Inf"}, {event->neg_inf, "-Inf"}};
    int used = snprintf(out, size, "%s", event->subject);
    for (int i = 0; i < 3; i++)
        if (kinds[i].count > 0 && used < (int)size)
            used += snprintf(out + used, size - (size_t)used, " %" PRId64 "\u00a0%s",
                             kinds[i].count, kinds[i].name);
    if (event->count > 0 && used < (int)size)
        used += snprintf(out + used, size - (size_t)used, " of\u00a0%" PRId64, event->count);
    if (event->bad_index >= 0 && used < (int)size)
        used += snprintf(out + used, size - (size_t)used, ", first\u00a0at\u00a0%" PRId64,
                         event->bad_index);
    return used < (int)size ? used : (int)size - 1;
}

char *phrase_reason(char *out, size_t size, const struct event *event) {
    char value[32], limit[32];
    phrase_number(value, sizeof value, event->value);
    phrase_limit(limit, sizeof limit, event->limit);
    int used =
        snprintf(out, size, "%s %s %s", band_reason_name(event->reason), event->subject, value);
    if (!isnan(event->limit) && used < (int)size)
        snprintf(out + used, size - (size_t)used, " > %s", limit);
    return out;
}

static void say_range(char *out, size_t size, const struct event *event) {
    uint64_t count = event->first_seq == 0 ? 0 : event->last_seq - event->first_seq + 1;
    snprintf(out, size, "%" PRIu64 " %s, seq %" PRIu64 " to %" PRIu64, count,
             event->kind == EVENT_GAP ? "dropped by the trainer" : "not in the run file",
             event->first_seq, event->last_seq);
}

char *phrase_event(char *out, size_t size, const struct event *event) {
    int used = 0;
    switch (event->kind) {
    case EVENT_NOTICE:
    case EVENT_ALARM:
        phrase_reason(out, size, event);
        break;
    case EVENT_NONFINITE:
        used = say_counts(out, size, event);
        if (event->input_hash != 0)
            snprintf(out + used, size - (size_t)used, ", input\u00a0%08x label\u00a0%08x",
                     (unsigned)(event->input_hash >> 32), (unsigned)(event->label_hash >> 32));
        break;
    case EVENT_GAP:
    case EVENT_UNRECORDED:
        say_range(out, size, event);
        break;
    case EVENT_PHASE:
        snprintf(out, size, "%d: %s", event->phase, event->text);
        break;
    default:
        text_copy(out, size, event->text);
        break;
    }
    return out;
}

const char *phrase_band(enum band band) {
    static const char *const NAME[BAND_COUNT] = {"FINITE", "EXTREME", "NON-FINITE"};
    return NAME[band];
}

enum grid_role phrase_band_role(enum band band) {
    static const enum grid_role ROLE[BAND_COUNT] = {GRID_FINITE, GRID_EXTREME, GRID_NONFINITE};
    return ROLE[band];
}
