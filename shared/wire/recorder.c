#include "shared/wire/recorder.h"

#include <string.h>

#include "shared/core/error.h"
#include "shared/core/text.h"

#define AGAIN_NS INT64_C(2000000000)

int recorder_open(struct recorder *recorder, const char *path, const struct hello *hello,
                  int64_t max_bytes, struct error *error) {
    memset(recorder, 0, sizeof *recorder);
    return path ? runfile_create(&recorder->file, path, hello, max_bytes, error) : 0;
}

void recorder_close(struct recorder *recorder) {
    runfile_close(recorder->file);
    memset(recorder, 0, sizeof *recorder);
}

static void fail(struct recorder *recorder, const struct error *error) {
    if (recorder->open) runfile_rollback(recorder->file);
    recorder->open = false;
    text_copy(recorder->why, sizeof recorder->why, error->text);
}

void recorder_begin(struct recorder *recorder, int64_t now_ns) {
    struct error error = {""};
    if (!recorder->file || (recorder->failing && now_ns < recorder->retry_ns)) return;
    recorder->open = true;
    if (runfile_begin(recorder->file, &error) < 0) fail(recorder, &error);
}

void recorder_add_step(struct recorder *recorder, const struct runfile_step *step) {
    struct error error = {""};
    if (recorder->open && runfile_add_step(recorder->file, step, &error) < 0)
        fail(recorder, &error);
}

void recorder_add_event(struct recorder *recorder, const struct event *event) {
    struct error error = {""};
    if (recorder->open && runfile_add_event(recorder->file, event, &error) < 0)
        fail(recorder, &error);
}

void recorder_add_buckets(struct recorder *recorder, const struct schema *schema,
                          const struct codec_buckets *buckets) {
    struct error error = {""};
    if (recorder->open && runfile_add_bucket(recorder->file, schema, buckets, &error) < 0)
        fail(recorder, &error);
}

void recorder_commit(struct recorder *recorder, uint64_t first, uint64_t last, int64_t now_ns) {
    struct error error = {""};
    if (!recorder->file) return;
    if (recorder->open && runfile_commit(recorder->file, &error) < 0) fail(recorder, &error);
    bool written = recorder->open;
    recorder->open = false;
    if (written == recorder->failing) recorder->tell_ns = now_ns;
    if (!written) {
        if (!recorder->failing || now_ns >= recorder->retry_ns)
            recorder->retry_ns = now_ns + AGAIN_NS;
        if (first <= recorder->told) first = recorder->told + 1;
        if (recorder->first == 0 && first <= last) recorder->first = first;
        recorder->last = last;
    }
    recorder->failing = !written;
}

void recorder_finish(struct recorder *recorder) { recorder->tell_ns = 0; }

bool recorder_tell(struct recorder *recorder, struct event *event, uint64_t seq, int64_t now_ns) {
    if (recorder->first == 0 || now_ns < recorder->tell_ns) return false;
    event_init(event, EVENT_UNRECORDED);
    event->seq = seq;
    event->first_seq = recorder->first;
    event->last_seq = recorder->failing ? seq : recorder->last; /* nor will this event be written */
    text_copy(event->text, sizeof event->text, recorder->why);
    recorder->told = event->last_seq;
    recorder->first = recorder->last = 0;
    recorder->tell_ns = now_ns + AGAIN_NS;
    return true;
}
