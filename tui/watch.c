#include "tui/watch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/core/text.h"
#include "shared/store/runfile.h"

enum { EXIT_UNREADABLE = 2, EXIT_NOTHING = 3 };

static struct watch *add(struct watch_list *list, const char *source, struct error *error) {
    if (list->count == OVERVIEW_RUNS_MAX) {
        error_set(error, "watch %s: %d runs are the most that can be watched at once", source,
                  OVERVIEW_RUNS_MAX);
        return NULL;
    }
    struct watch *watch = calloc(1, sizeof *watch);
    if (watch == NULL || run_init(&watch->run, source, SERIES_BUCKETS) != 0) {
        error_set(error, "watch %s: no memory", source);
        free(watch);
        return NULL;
    }
    return watch;
}

/* Takes the watch into the list when opening it worked. */
static int keep(struct watch_list *list, struct watch *watch, int opened) {
    if (opened == 0) {
        list->watch[list->count++] = watch;
        return 0;
    }
    run_free(&watch->run);
    free(watch);
    return EXIT_UNREADABLE;
}

static int open_address(struct watch_list *list, const char *address, const char *id,
                        struct error *error) {
    struct watch *watch = add(list, address, error);
    if (watch == NULL) return EXIT_UNREADABLE;
    text_copy(watch->id, sizeof watch->id, id);
    return keep(list, watch,
                feed_open_endpoint(&watch->feed, list->context, address, &watch->run,
                                   &list->options, error));
}

static int open_run_id(struct watch_list *list, const char *id, struct error *error) {
    struct endpoint endpoint;
    if (endpoint_of_run(&endpoint, id, error) != 0) return EXIT_UNREADABLE;
    char *suffix = strrchr(endpoint.history, '.');
    if (suffix != NULL && strcmp(suffix, ".ctl") == 0)
        *suffix = '\0'; /* a pair is dialled by what both begin with */
    return open_address(list, endpoint.history, id, error);
}

static int open_stdin(struct watch_list *list, struct error *error) {
    struct watch *watch = add(list, "stdin", error);
    if (watch == NULL) return EXIT_UNREADABLE;
    return keep(list, watch,
                feed_open_lines(&watch->feed, STDIN_FILENO, &watch->run, &list->options, error));
}

/* The id of the run in a run file, when that run lives on this machine. */
static bool find_live_id(const char *path, char id[RECORD_ID_SIZE]) {
    struct runfile *file;
    struct hello hello;
    struct error ignored;
    if (runfile_open(&file, path, &ignored) != 0) return false;
    hello_init(&hello);
    bool live = runfile_load_hello(file, &hello, &ignored) == 0 && endpoint_alive(hello.run_id);
    if (live) text_copy(id, RECORD_ID_SIZE, hello.run_id);
    hello_free(&hello);
    runfile_close(file);
    return live;
}

static int open_path(struct watch_list *list, const char *path, struct error *error) {
    char file[1024], id[RECORD_ID_SIZE];
    struct stat about;
    text_copy(file, sizeof file, path);
    if (stat(path, &about) == 0 && S_ISDIR(about.st_mode))
        snprintf(file, sizeof file, "%s/run.db", path);
    if (stat(file, &about) != 0) {
        int code = errno == ENOENT ? EXIT_NOTHING : EXIT_UNREADABLE;
        error_set(error, "watch %s: %s", file, strerror(errno));
        return code;
    }
    if (find_live_id(file, id)) return open_run_id(list, id, error);
    struct watch *watch = add(list, file, error);
    if (watch == NULL) return EXIT_UNREADABLE;
    return keep(list, watch,
                feed_open_file(&watch->feed, file, &watch->run, &list->options, error));
}

/* A run id is the run's name and six hexadecimal digits. */
static bool is_called(const char *id, const char *word) {
    size_t length = strlen(word), rest = strlen(id) - (strlen(id) < length ? strlen(id) : length);
    if (strncmp(id, word, length) != 0) return false;
    return rest == 0 ||
           (rest == 7 && id[length] == '-' && strspn(id + length + 1, "0123456789abcdef") == 6);
}

/* Every live run of that id or name. */
static int open_word(struct watch_list *list, const char *word, struct error *error) {
    static char ids[ENDPOINT_RUNS_MAX][RECORD_ID_SIZE];
    int count = endpoint_list(ids, ENDPOINT_RUNS_MAX, error), found = 0;
    if (count < 0) return EXIT_UNREADABLE;
    for (int i = 0; i < count; i++) {
        if (!is_called(ids[i], word)) continue;
        int code = open_run_id(list, ids[i], error);
        if (code != 0) return code;
        found++;
    }
    if (found > 0) return 0;
    char path[1024];
    struct stat about;
    snprintf(path, sizeof path, "runs/%s", word);
    if (stat(word, &about) == 0) return open_path(list, word, error);
    if (stat(path, &about) == 0) return open_path(list, path, error);
    error_set(error, "watch %s: no live run of that name, no file and no run folder", word);
    return EXIT_NOTHING;
}

int watch_open(struct watch_list *list, const char *source, struct error *error) {
    if (strcmp(source, "-") == 0) return open_stdin(list, error);
    if (strstr(source, "://") != NULL) return open_address(list, source, "", error);
    if (strchr(source, '/') != NULL) return open_path(list, source, error);
    if (strchr(source, ':') != NULL) return open_address(list, source, "", error);
    return open_word(list, source, error);
}

int watch_discover(struct watch_list *list, struct error *error) {
    static char ids[ENDPOINT_RUNS_MAX][RECORD_ID_SIZE];
    int count = endpoint_list(ids, ENDPOINT_RUNS_MAX, error), added = 0;
    for (int i = 0; i < count && list->count < OVERVIEW_RUNS_MAX; i++) {
        bool known = false;
        for (int w = 0; w < list->count; w++) known |= strcmp(list->watch[w]->id, ids[i]) == 0;
        if (!known && open_run_id(list, ids[i], error) == 0) added++;
    }
    return count < 0 ? -1 : added;
}

bool watch_poll(struct watch_list *list, int64_t now_ns, int64_t budget_ns) {
    bool changed = false;
    for (int i = 0; i < list->count; i++) {
        struct watch *watch = list->watch[i];
        struct error reason = {""};
        if (watch->failed) continue;
        int result = feed_poll(watch->feed, now_ns, budget_ns / list->count, &reason);
        changed |= result > 0 || (result < 0 && !watch->over);
        if (result < 0) watch->over = true;
        if (result < 0 && reason.text[0] != '\0') {
            watch->failed = true;
            watch->reason = reason;
        } else if (result < 0 && watch->run.link == RUN_STORED) {
            run_apply_death(&watch->run);
        }
    }
    return changed;
}

/* A record that is not in memory and not known to be lost. */
static bool is_awaited(const struct run *run, int64_t step) {
    struct series_column column;
    if (run_find_record(run, step) != NULL) return false;
    return !series_column(&run->series, METRIC_LOSS, step, 1, &column) || column.missing == 0;
}

bool watch_has(const struct watch *watch, int64_t first, int64_t last) {
    for (int64_t step = first; step <= last; step++)
        if (is_awaited(&watch->run, step)) return false;
    return true;
}

bool watch_may_have_died(const struct watch *watch) {
    const struct run *run = &watch->run;
    return run->link == RUN_STORED && !run_has_ended(run) && !endpoint_alive(run->hello.run_id);
}

bool watch_has_picture(const struct watch *watch) {
    const struct run *run = &watch->run;
    if (watch->over) return true;
    if (!run->known || run->series.last < 0) return false;
    int64_t first = run->series.last - WATCH_NEWEST + 1;
    return watch_has(watch, first > run->series.first ? first : run->series.first,
                     run->series.last);
}

int watch_exit_code(const struct watch_list *list) {
    bool bad = false, unreadable = false, gone = list->count == 0;
    for (int i = 0; i < list->count; i++) {
        const struct run *run = &list->watch[i]->run;
        bad |= run->alarms > 0 || run->worst == BAND_NONFINITE;
        unreadable |= list->watch[i]->failed;
        gone |= run->link == RUN_DEAD || !run->known;
    }
    return bad ? 1 : unreadable ? EXIT_UNREADABLE : gone ? EXIT_NOTHING : 0;
}

void watch_close(struct watch_list *list) {
    for (int i = 0; i < list->count; i++) {
        feed_close(list->watch[i]->feed);
        run_free(&list->watch[i]->run);
        free(list->watch[i]);
    }
    list->count = 0;
}
