/* The run file as the telemetry thread writes it: group by group, and when that fails (disk full)
 * the run goes on. It then tries again now and then, and knows what is missing. */
#ifndef WIRE_RECORDER_H
#define WIRE_RECORDER_H

#include "shared/store/runfile.h"

struct recorder {
    struct runfile *file;      /* NULL: none is wanted */
    bool open;                 /* a transaction is going on */
    bool failing;              /* the last one failed */
    int64_t retry_ns, tell_ns; /* monotonic: not before */
    uint64_t first, last;      /* seqs not in the file, and not told yet; 0: none */
    uint64_t told;             /* newest seq that was told of */
    char why[RECORD_TEXT_SIZE];
};

/* `path` NULL: nothing is recorded, and nothing is missing. */
int recorder_open(struct recorder *recorder, const char *path, const struct hello *hello,
                  int64_t max_bytes, struct error *error);
void recorder_close(struct recorder *recorder);

void recorder_begin(struct recorder *recorder, int64_t now_ns);
void recorder_add_step(struct recorder *recorder, const struct runfile_step *step);
void recorder_add_event(struct recorder *recorder, const struct event *event);
void recorder_add_buckets(struct recorder *recorder, const struct schema *schema,
                          const struct codec_buckets *buckets);
/* Of a group with these seqs. */
void recorder_commit(struct recorder *recorder, uint64_t first, uint64_t last, int64_t now_ns);
/* What there is to tell is due now: nothing more will be written. */
void recorder_finish(struct recorder *recorder);
/* True when there is something to tell: fills in an `unrecorded` event, whose seq will be the one
 * given. At once when it begins and when it is over, every 2 s between. */
bool recorder_tell(struct recorder *recorder, struct event *event, uint64_t seq, int64_t now_ns);

#endif
