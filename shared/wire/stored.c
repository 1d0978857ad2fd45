/* A source that is a run file: all its steps in order, then, while its trainer lives, what it
 * appends. */
#include "shared/wire/source.h"

#include <stdlib.h>
#include <string.h>

#include "shared/core/text.h"
#include "shared/store/runfile.h"
#include "shared/wire/endpoint.h"

#define LOOK_NS INT64_C(200000000) /* between two looks for new rows */

enum { ROUND = 16 /* rows between two looks at the clock */ };

struct stored {
    struct intake *intake;
    struct runfile *file;
    struct record record;         /* to be judged in */
    int64_t next_step, last_step; /* not read yet */
    uint64_t last_seq;            /* in the file, when it was last looked at */
    int events, events_read, events_room;
    struct event *event; /* (events) owned, ascending */
    uint64_t events_seq; /* newest of them */
    int64_t looked_ns;   /* 0: never */
    bool over;
    int64_t first_wanted, last_wanted; /* steps in full; first > last: none */
    const struct turn *turn;           /* of the call going on, for the callbacks */
    int rows;
};

static void stored_close(void *source) {
    struct stored *stored = source;
    runfile_close(stored->file);
    record_free(&stored->record);
    free(stored->event);
    free(stored);
}

void *stored_open(const char *path, struct intake *intake, struct error *error) {
    struct hello hello;
    struct stored *stored = calloc(1, sizeof *stored);
    if (!stored) {
        error_set(error, "read %s: no memory", path);
        return NULL;
    }
    stored->intake = intake;
    stored->last_step = stored->last_wanted = -1;
    hello_init(&hello);
    int failed = runfile_open(&stored->file, path, error) < 0 ||
                 runfile_load_hello(stored->file, &hello, error) < 0 ||
                 intake_hello(intake, &hello, error) < 0;
    hello_free(&hello);
    if (failed) {
        stored_close(stored);
        return NULL;
    }
    intake->run->link = RUN_STORED;
    return stored;
}

static int stored_items(void *source, void *items, int max) {
    (void)source;
    (void)items;
    (void)max;
    return 0;
}

static void stored_want(void *source, int64_t first, int64_t last) {
    struct stored *stored = source;
    const struct run *run = stored->intake->run;
    while (first <= last && run_find_record(run, first)) first++;
    stored->first_wanted = first;
    stored->last_wanted = last < first + run->details ? last : first + run->details - 1;
}

static int keep_event(void *user, const struct event *event) {
    struct stored *stored = user;
    if (event->seq <= stored->events_seq) return 0;
    if (stored->events == stored->events_room) {
        int room = stored->events_room ? 2 * stored->events_room : 64;
        struct event *grown = realloc(stored->event, (size_t)room * sizeof *grown);
        if (!grown) return 1;
        stored->event = grown;
        stored->events_room = room;
    }
    stored->event[stored->events++] = *event;
    stored->events_seq = event->seq;
    return 0;
}

/* The events before this seq, which all are before the record with it. */
static void apply_events(struct stored *stored, uint64_t seq) {
    while (stored->events_read < stored->events && stored->event[stored->events_read].seq < seq) {
        intake_event(stored->intake, &stored->event[stored->events_read++], stored->turn->now_ns);
    }
}

static int apply_step(void *user, const struct record *record) {
    struct stored *stored = user;
    apply_events(stored, record->seq);
    if (record_copy(&stored->record, record) < 0) return 1;
    intake_record(stored->intake, &stored->record, false, stored->turn->now_ns);
    stored->next_step = record->step + 1;
    return ++stored->rows % ROUND == 0 && turn_is_over(stored->turn);
}

static int apply_detail(void *user, const struct record *record) {
    struct stored *stored = user;
    run_apply_detail(stored->intake->run, record);
    stored->intake->changed = true;
    return 0;
}

/* What is new since the last look. */
static int look(struct stored *stored, struct error *error) {
    const struct run *run = stored->intake->run;
    bool alive = endpoint_alive(run->hello.run_id);
    int64_t first = 0, last = -1;
    uint64_t seq = 0;
    struct error why = {""};
    stored->looked_ns = stored->turn->now_ns;
    if (runfile_load_range(stored->file, &first, &last, &seq, &why) < 0 && why.text[0]) {
        return error_set(error, "%s", why.text);
    }
    if (seq == stored->last_seq) {
        stored->over = !alive;
        return 0;
    }
    if (runfile_each_event(stored->file, keep_event, stored, error) < 0) return -1;
    stored->last_seq = seq;
    stored->last_step = last;
    return 0;
}

static int read_wanted(struct stored *stored, struct error *error) {
    int64_t first = stored->first_wanted, last = stored->last_wanted;
    stored->last_wanted = -1;
    if (first > last) return 0;
    return runfile_each_step(stored->file, first, last, apply_detail, stored, error);
}

static int stored_poll(void *source, const struct turn *turn, struct error *error) {
    struct stored *stored = source;
    stored->turn = turn;
    if (read_wanted(stored, error) < 0) return -1;
    bool caught_up = stored->next_step > stored->last_step;
    bool due = stored->looked_ns == 0 || turn->now_ns - stored->looked_ns >= LOOK_NS;
    if (!stored->over && caught_up && due && look(stored, error) < 0) return -1;
    if (stored->next_step <= stored->last_step) {
        int64_t before = stored->next_step;
        if (runfile_each_step(stored->file, before, stored->last_step, apply_step, stored, error) <
            0)
            return -1;
        if (stored->next_step == before) stored->next_step = stored->last_step + 1;
    }
    if (stored->next_step > stored->last_step) {
        apply_events(stored, stored->last_seq + 1);
        intake_catch_up(stored->intake);
    }
    if (!stored->over) return 0;
    error->text[0] = '\0';
    return -1;
}

const struct source stored_source = {stored_poll, stored_items, stored_want, stored_close};
