#include "tui/print.h"

#include <stdio.h>
#include <stdlib.h>

#include "shared/store/json.h"

enum { QUIET_MS = 300 /* nothing came: then that was all */ };

/* What there was when the program began is there. */
static bool all_caught_up(const struct watch_list *list) {
    for (int i = 0; i < list->count; i++) {
        const struct watch *watch = list->watch[i];
        if (watch->over || watch->failed) continue;
        if (!feed_caught_up(watch->feed) || !watch_has_picture(watch)) return false;
        if (watch_may_have_died(watch)) return false;
    }
    return true;
}

/* Reads once, after waiting for at most `timeout_ms`. True when a run changed. */
static bool take_in(struct program *program, int64_t timeout_ms) {
    bool ready[2];
    program->wait(&program->list, true, (const int[2]){-1, -1}, ready, timeout_ms);
    return watch_poll(&program->list, program_now_ns(), 50 * PROGRAM_MS);
}

/* Until the picture is there, or it took too long. */
static void await_picture(struct program *program) {
    int64_t end_ns = program_now_ns() + PROGRAM_PICTURE_MS * PROGRAM_MS;
    for (bool changed = true; program_now_ns() < end_ns && !all_caught_up(&program->list);)
        changed = take_in(program, changed ? 0 : 10);
}

static void await_records(struct program *program, const struct view *view) {
    int64_t end_ns = program_now_ns() + PROGRAM_SETTLE_MS * PROGRAM_MS;
    while (program_now_ns() < end_ns && !program_ask(program, view)) take_in(program, 10);
}

static int columns_wanted(const struct arguments *arguments) {
    const char *said = getenv("COLUMNS");
    int columns = arguments->columns ? arguments->columns : said ? atoi(said) : 0;
    return columns > 0 && columns <= 1000 ? columns : 80;
}

int print_once(struct program *program) {
    static struct view view;
    struct grid grid = {0};
    bool known = false;
    await_picture(program);
    program_complain_about_sources(program);
    for (int i = 0; i < program->list.count; i++) known |= program->list.watch[i]->run.known;
    if (!known) return watch_exit_code(&program->list);
    program_view(program, &view);
    view_resize(&view, program->arguments.rows ? program->arguments.rows : 24,
                columns_wanted(&program->arguments));
    view_tick(&view, program_now_ns());
    await_records(program, &view);
    if (grid_resize(&grid, view.rows, view.columns) != 0) return PROGRAM_UNREADABLE;
    view_draw(&view, &grid);
    char *text = grid_to_text(&grid, !program->utf8);
    fputs(text ? text : "", stdout);
    free(text);
    grid_free(&grid);
    return watch_exit_code(&program->list);
}

void print_record(void *user, const struct run *run, const struct record *record,
                  const struct verdict *verdict) {
    struct program *program = user;
    struct buffer line = {0};
    if (json_encode_record(&line, &run->hello.schema, record, verdict) == 0) {
        bool several = program->list.count > 1; /* then a line tells whose it is */
        if (several) printf("{\"run\":\"%s\",", run->hello.run_id);
        fwrite(line.data + several, 1, line.size - several, stdout);
        putchar('\n');
    }
    buffer_free(&line);
}

static bool all_ended(const struct watch_list *list, int64_t quiet_ns) {
    for (int i = 0; i < list->count; i++) {
        const struct watch *watch = list->watch[i];
        bool ended = watch->run.link == RUN_ENDED || watch->run.link == RUN_DEAD;
        if (!watch->over && !watch->failed && !(ended && quiet_ns > QUIET_MS * PROGRAM_MS))
            return false;
    }
    return true;
}

int print_json(struct program *program) {
    int64_t changed_ns = program_now_ns(), begun_ns = changed_ns;
    for (bool done = false, changed = true; !done;) {
        changed = take_in(program, changed ? 0 : 50);
        if (changed) changed_ns = program_now_ns();
        fflush(stdout);
        int64_t now_ns = program_now_ns(), quiet_ns = now_ns - changed_ns;
        bool silent = now_ns - begun_ns > PROGRAM_PICTURE_MS * PROGRAM_MS;
        for (int i = 0; i < program->list.count; i++) silent &= !program->list.watch[i]->run.known;
        done = silent || all_ended(&program->list, quiet_ns) ||
               (!program->arguments.follow && all_caught_up(&program->list));
    }
    program_complain_about_sources(program);
    return watch_exit_code(&program->list);
}
