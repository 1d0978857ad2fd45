#include "tui/program.h"

#include <poll.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { START_MS = 3000 };

int64_t program_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

int program_complain(const struct error *error, int code) {
    fprintf(stderr, "nantop: %s\n", error->text);
    return code;
}

void program_complain_about_sources(const struct program *program) {
    const struct watch_list *list = &program->list;
    for (int i = 0; i < list->count; i++) {
        const struct watch *watch = list->watch[i];
        if (watch->failed)
            program_complain(&watch->reason, 0);
        else if (!watch->run.known && !watch->over)
            fprintf(stderr, "nantop: %s: nobody answers\n", watch->run.source);
        else if (!watch->run.known)
            fprintf(stderr, "nantop: %s: there is no step in it\n", watch->run.source);
    }
}

/* A run that is just being started gets its time, where a person waits. */
static int open_source(struct program *program, const char *source, struct error *error) {
    int64_t end_ns = program_now_ns() + (isatty(STDOUT_FILENO) ? START_MS * PROGRAM_MS : 0);
    for (;;) {
        int code = watch_open(&program->list, source, error);
        if (code != PROGRAM_NOTHING || program_now_ns() >= end_ns) return code;
        poll(NULL, 0, 100);
    }
}

int program_open(struct program *program) {
    struct error error = {""};
    for (int i = 0; i < program->arguments.sources; i++) {
        int code = open_source(program, program->arguments.source[i], &error);
        if (code != 0) return program_complain(&error, code);
    }
    if (program->arguments.sources == 0 && watch_discover(&program->list, &error) < 0)
        return program_complain(&error, PROGRAM_UNREADABLE);
    return 0;
}

void program_view(const struct program *program, struct view *view) {
    view_init(view, program->arguments.freeze,
              "no live run: waiting for a trainer of this user; q quits");
    if (program->arguments.rejudge) view->judged = &program->arguments.limits;
    for (int i = 0; i < program->list.count; i++) view_add(view, &program->list.watch[i]->run);
}

bool program_ask(struct program *program, const struct view *view) {
    int64_t first, last;
    if (!view_wants(view, &first, &last)) return true;
    struct watch *watch = program->list.watch[view->selected];
    if (watch_has(watch, first, last) || watch->failed) return true;
    feed_want(watch->feed, first, last);
    return false;
}
