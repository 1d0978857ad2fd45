/* A source that is JSON lines on a descriptor: one step a line, its metrics as they come. */
#include "shared/wire/source.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zmq.h>

#include "shared/core/text.h"
#include "shared/store/json.h"

enum { LINE_MAX_BYTES = 1 << 20, READ_BYTES = 64 << 10 };

struct lines {
    struct intake *intake;
    int fd;             /* the caller's */
    struct hello hello; /* its schema grows */
    struct record record;
    int64_t next_step; /* of a line without one */
    int64_t number;    /* lines so far */
    bool ended;        /* end of file */
    size_t begin, end; /* of what is not taken yet */
    char bytes[LINE_MAX_BYTES + READ_BYTES];
};

static void lines_close(void *source) {
    struct lines *lines = source;
    record_free(&lines->record);
    hello_free(&lines->hello);
    free(lines);
}

void *lines_open(int fd, struct intake *intake, struct error *error) {
    struct lines *lines = calloc(1, sizeof *lines);
    if (!lines) {
        error_set(error, "read %s: no memory", intake->run->source);
        return NULL;
    }
    lines->intake = intake;
    lines->fd = fd;
    hello_init(&lines->hello);
    text_copy(lines->hello.run_id, sizeof lines->hello.run_id, "stdin");
    text_copy(lines->hello.name, sizeof lines->hello.name, "stdin");
    schema_seal(&lines->hello.schema);
    return lines;
}

static int lines_items(void *source, void *items, int max) {
    struct lines *lines = source;
    if (lines->ended || max < 1) return 0;
    *(zmq_pollitem_t *)items = (zmq_pollitem_t){.fd = lines->fd, .events = ZMQ_POLLIN};
    return 1;
}

static void lines_want(void *source, int64_t first, int64_t last) {
    (void)source;
    (void)first;
    (void)last;
}

/* A schema that grew starts the series anew: put back what it held, with nothing in the new
 * metrics. */
static void put_back(struct run *run, const struct run *old) {
    struct series_value value[SCHEMA_METRICS_MAX];
    for (int m = 0; m < SCHEMA_METRICS_MAX; m++)
        value[m] = (struct series_value){.min = 1, .max = -1, .last = NAN};
    int metrics = old->series.metrics;
    for (int l = 0; l < SERIES_LEVELS; l++) {
        const struct series_level *level = &old->series.level[l];
        for (int b = 0; b < old->series.buckets; b++) {
            if (level->bucket[b].first < 0) continue;
            memcpy(value, level->value + (size_t)b * (size_t)metrics,
                   (size_t)metrics * sizeof *value);
            run_apply_bucket(run, l, &level->bucket[b], value);
        }
    }
    run->series.first = old->series.first;
    run->series.last = old->series.last;
    for (int i = 0; i < old->records + old->details; i++) {
        if (old->record[i].step >= 0) run_apply_detail(run, &old->record[i]);
    }
}

static int grow(struct lines *lines, struct error *error) {
    struct run *run = lines->intake->run, old = *run;
    if (!run->known) return intake_hello(lines->intake, &lines->hello, error);
    if (run->hello.schema.id == lines->hello.schema.id) return 0;
    run->series = (struct series){.last = -1};
    run->record = NULL;
    if (run_apply_hello(run, &lines->hello, error) < 0) {
        run->series = old.series;
        run->record = old.record;
        return -1;
    }
    put_back(run, &old);
    series_free(&old.series);
    if (old.record) free(old.record[0].tensor);
    free(old.record);
    return 0;
}

static int take_line(struct lines *lines, const char *line, size_t size, int64_t now_ns,
                     struct error *error) {
    struct error why;
    bool judged = false;
    lines->number++;
    if (size > 0 && line[size - 1] == '\r') size--;
    if (strspn(line, " \t\r\n") >= size) return 0;
    int result = json_decode_record(line, size, &lines->hello.schema, &lines->record,
                                    &lines->next_step, &judged, &why);
    if (result < 0) {
        return error_set(error, "%s, line %lld: %s", lines->intake->run->source,
                         (long long)lines->number, why.text);
    }
    if (grow(lines, error) < 0) return -1;
    if (result > 0) return 0; /* an event */
    lines->record.seq = 0;
    intake_record(lines->intake, &lines->record, !judged, now_ns);
    return 0;
}

/* All whole lines there are, and at the end of the file the last one without its newline. */
static int take_lines(struct lines *lines, const struct turn *turn, struct error *error) {
    while (lines->begin < lines->end && !turn_is_over(turn)) {
        char *line = lines->bytes + lines->begin;
        size_t there = lines->end - lines->begin;
        char *newline = memchr(line, '\n', there);
        size_t size = newline ? (size_t)(newline - line) : there;
        if (size > LINE_MAX_BYTES) {
            return error_set(error, "%s, line %lld: longer than %d bytes",
                             lines->intake->run->source, (long long)lines->number + 1,
                             LINE_MAX_BYTES);
        }
        if (!newline && !lines->ended) break;
        line[size] =
            '\0'; /* there is room: at the end of the file for one byte more than was read */
        lines->begin += size + (newline != NULL);
        if (take_line(lines, line, size, turn->now_ns, error) < 0) return -1;
    }
    return 0;
}

/* 1: something was read. A descriptor that is shared with others must not be made non-blocking,
 * hence poll. */
static int read_more(struct lines *lines, struct error *error) {
    struct pollfd ready = {.fd = lines->fd, .events = POLLIN};
    if (lines->ended || poll(&ready, 1, 0) <= 0) return 0;
    memmove(lines->bytes, lines->bytes + lines->begin, lines->end - lines->begin);
    lines->end -= lines->begin;
    lines->begin = 0;
    size_t room = sizeof lines->bytes - 1 - lines->end;
    if (room == 0) return 0;
    ssize_t got = read(lines->fd, lines->bytes + lines->end, room);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return 0;
    if (got < 0)
        return error_set(error, "read %s: %s", lines->intake->run->source, strerror(errno));
    lines->ended = got == 0;
    lines->end += (size_t)got;
    return got > 0;
}

static int lines_poll(void *source, const struct turn *turn, struct error *error) {
    struct lines *lines = source;
    int more;
    do {
        more = read_more(lines, error);
        if (more < 0 || take_lines(lines, turn, error) < 0) return -1;
    } while (more && !turn_is_over(turn));
    if (!lines->ended || lines->begin < lines->end) return 0;
    lines->intake->run->link = RUN_ENDED;
    error->text[0] = '\0';
    return -1;
}

const struct source lines_source = {lines_poll, lines_items, lines_want, lines_close};
