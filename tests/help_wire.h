/* For tests of the wire: a runtime folder of the test's own, a run to publish, patience without
 * haste. */
#ifndef TESTS_HELP_WIRE_H
#define TESTS_HELP_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/wire/feed.h"
#include "shared/wire/publisher.h"

enum {
    HELP_WIRE_QUEUE = 14000, /* records: nothing is dropped, however slow the machine is */
    HELP_WIRE_PATIENCE_MS = 60000
};

/* A fresh folder, named by NANTOP_RUNTIME_DIR from now on; the caller removes it with
 * help_wire_leave. */
void help_wire_enter(char *folder, size_t size);
void help_wire_leave(const char *folder);

/* A run with loss and grad_norm and `tensors` tensors. The caller frees it. */
void help_wire_hello(struct hello *hello, const char *run_id, int tensors);
/* Step `step` of it: loss is 1 / (1 + step). */
void help_wire_fill(struct record *record, int64_t step);

/* With help_wire_hello and a queue of HELP_WIRE_QUEUE where `options` does not say otherwise. */
struct publisher *help_wire_publish(struct publisher_options options, const char *run_id,
                                    int tensors);
/* Fails the test when the queue is full. */
void help_wire_put_step(struct publisher *publisher, int64_t step);
void help_wire_put_event(struct publisher *publisher, enum event_kind kind, int64_t step,
                         const char *text);

/* A display without a picture. */
struct viewer {
    void *context;
    struct run run;
    struct feed *feed;
    int result; /* of the last poll */
    struct error error;
    int64_t seen;      /* records that were passed on */
    int64_t last_step; /* of the newest of them; -1 */
    int64_t jumps;     /* of them that did not follow the step before */
    int64_t alarms;    /* of them with an alarm */
    enum band worst;   /* of them */
};
/* An address or a run file; options.each is the viewer's. */
void help_wire_watch(struct viewer *viewer, const char *source, struct feed_options options);
void help_wire_watch_lines(struct viewer *viewer, int fd);
void help_wire_look(struct viewer *viewer);
void help_wire_close(struct viewer *viewer);

/* Does `meanwhile`, looks, until it is so; fails when the feed is over before. */
#define HELP_WIRE_UNTIL(viewer, condition, meanwhile)                                            \
    do {                                                                                         \
        int64_t end_ns = help_wire_now_ns() + HELP_WIRE_PATIENCE_MS * INT64_C(1000000);          \
        while (!(condition)) {                                                                   \
            meanwhile;                                                                           \
            help_wire_look(viewer);                                                              \
            if (help_wire_now_ns() < end_ns && ((viewer)->result >= 0 || (condition))) continue; \
            fail_msg("not so: %s; %s step %lld, seq %llu, link %s", #condition,                  \
                     (viewer)->error.text, (long long)(viewer)->run.last_step,                   \
                     (unsigned long long)(viewer)->run.seq, run_link_name((viewer)->run.link));  \
        }                                                                                        \
    } while (0)

/* "127.0.0.1:PORT" with PORT and the next one free just now. */
void help_wire_free_address(char address[32]);

int64_t help_wire_now_ns(void);
void help_wire_sleep_ms(int ms);
/* Resident memory of a process in bytes; 0: not known. */
size_t help_wire_memory(int pid);
/* False in a build whose sanitizer keeps what was freed. */
bool help_wire_memory_counts(void);

#endif
