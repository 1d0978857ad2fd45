#include "shared/store/runfile.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/help_store.h"

static unsigned long pretended_file_system; /* 0: the real one */

int statfs(const char *path, struct statfs *out) {
    int (*real)(const char *, struct statfs *);
    *(void **)&real = dlsym(RTLD_NEXT, "statfs");
    int result = real(path, out);
    if (pretended_file_system) out->f_type = (__typeof__(out->f_type))pretended_file_system;
    return result;
}

struct fixture {
    char folder[64], path[96];
    struct hello hello;
    struct record record;
    struct buffer blob;
    struct error error;
    uint64_t seq; /* newest written */
};

static int setup(void **state) {
    struct fixture *f = calloc(1, sizeof *f);
    strcpy(f->folder, "/tmp/nantop-test-XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    snprintf(f->path, sizeof f->path, "%s/run.db", f->folder);
    help_hello(&f->hello);
    record_init(&f->record, f->hello.schema.tensors);
    *state = f;
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;
    char command[96];
    snprintf(command, sizeof command, "rm -rf '%s'", f->folder);
    assert_int_equal(system(command), 0);
    hello_free(&f->hello);
    record_free(&f->record);
    buffer_free(&f->blob);
    free(f);
    return 0;
}

static struct runfile *create(struct fixture *f, int64_t max_bytes) {
    struct runfile *file = NULL;
    if (runfile_create(&file, f->path, &f->hello, max_bytes, &f->error) < 0)
        fail_msg("%s", f->error.text);
    return file;
}

/* The record that add() writes for a step. */
static void make_record(struct fixture *f, int64_t step) {
    help_record(&f->record, &f->hello.schema, step);
}

static int add_record(struct fixture *f, struct runfile *file) {
    f->record.seq = ++f->seq;
    assert_int_equal(codec_encode_record(&f->blob, &f->hello.schema, &f->record), 0);
    return runfile_add_step(file, &(struct runfile_step){&f->record, f->blob.data, f->blob.size},
                            &f->error);
}

/* -1 as soon as the file refuses. */
static int write_steps(struct fixture *f, struct runfile *file, int64_t first, int64_t last) {
    if (runfile_begin(file, &f->error) < 0) return -1;
    for (int64_t step = first; step <= last; step++) {
        make_record(f, step);
        if (add_record(f, file) < 0) return -1;
    }
    return runfile_commit(file, &f->error);
}

static int write_event(struct fixture *f, struct runfile *file, enum event_kind kind,
                       int64_t step) {
    struct event event;
    event_init(&event, kind);
    event.seq = ++f->seq;
    event.step = step;
    strcpy(event.text, "step-40.safetensors");
    if (runfile_begin(file, &f->error) < 0 || runfile_add_event(file, &event, &f->error) < 0)
        return -1;
    return runfile_commit(file, &f->error);
}

static struct runfile *open_file(struct fixture *f, const char *path) {
    struct runfile *file = NULL;
    if (runfile_open(&file, path, &f->error) < 0) fail_msg("%s", f->error.text);
    return file;
}

struct seen {
    int64_t first, last, count, full, sum_of_segments;
    double loss_of_last;
    bool disorder;
};

static int see(void *user, const struct record *record) {
    struct seen *seen = user;
    if (seen->count == 0) seen->first = record->step;
    seen->disorder |= seen->count > 0 && record->step <= seen->last;
    seen->last = record->step;
    seen->count++;
    seen->full += record->tensors > 0 && record->tensor[0].count >= 0;
    seen->sum_of_segments += record->segment;
    seen->loss_of_last = record->metric[METRIC_LOSS];
    return 0;
}

static struct seen see_all(struct fixture *f, struct runfile *file) {
    struct seen seen = {0};
    if (runfile_each_step(file, 0, INT64_MAX, see, &seen, &f->error) < 0)
        fail_msg("%s", f->error.text);
    return seen;
}

static int64_t size_of(const char *path) {
    struct stat stat_of;
    return stat(path, &stat_of) == 0 ? (int64_t)stat_of.st_size : -1;
}

static int64_t size_beside(struct fixture *f, const char *suffix) {
    char name[160];
    snprintf(name, sizeof name, "%s%s", f->path, suffix);
    return size_of(name);
}

static int count_files(struct fixture *f) {
    char command[128];
    snprintf(command, sizeof command, "ls -A '%s' | wc -l", f->folder);
    FILE *pipe = popen(command, "r");
    int count = -1;
    assert_int_equal(fscanf(pipe, "%d", &count), 1);
    pclose(pipe);
    return count;
}

static int stop_at_second(void *user, const struct record *record) {
    (void)record;
    return ++*(int *)user == 2;
}

static int take_event(void *user, const struct event *event) {
    *(struct event *)user = *event;
    return 0;
}

static int count_bucket(void *user, const struct codec_buckets *one) {
    int64_t *expected = user;
    assert_int_equal(one->count, 1);
    assert_int_equal(one->bucket->first, *expected);
    *expected += 16;
    return 0;
}

static int compare_blob(void *user, int64_t step, const void *blob, size_t size) {
    struct fixture *f = user;
    make_record(f, step);
    f->record.seq = (uint64_t)step + 1;
    assert_int_equal(codec_encode_record(&f->blob, &f->hello.schema, &f->record), 0);
    assert_int_equal(size, f->blob.size);
    assert_memory_equal(blob, f->blob.data, size);
    return 0;
}

static void what_was_written_is_there(void **state) {
    struct fixture *f = *state;
    struct runfile *file = create(f, 0);
    int64_t first, last;
    uint64_t seq;
    assert_int_equal(runfile_load_range(file, &first, &last, &seq, &f->error), -1);
    assert_string_equal(f->error.text, "");
    assert_int_equal(write_steps(f, file, 0, 99), 0);
    struct codec_buckets buckets;
    help_buckets(&buckets, &f->hello.schema, 1, 6);
    assert_int_equal(runfile_begin(file, &f->error), 0);
    assert_int_equal(runfile_add_bucket(file, &f->hello.schema, &buckets, &f->error), 0);
    assert_int_equal(runfile_add_bucket(file, &f->hello.schema, &buckets, &f->error),
                     0); /* replaces them */
    assert_int_equal(runfile_commit(file, &f->error), 0);
    codec_buckets_free(&buckets);
    assert_int_equal(write_event(f, file, EVENT_CHECKPOINT, 40), 0);
    assert_int_equal(runfile_begin(file, &f->error), 0);
    make_record(f, 100);
    assert_int_equal(add_record(f, file), 0);
    runfile_close(file); /* what was not committed does not count */
    assert_int_equal(count_files(f), 1);

    file = open_file(f, f->path);
    struct hello hello;
    hello_init(&hello);
    assert_int_equal(runfile_load_hello(file, &hello, &f->error), 0);
    assert_string_equal(hello.run_id, f->hello.run_id);
    assert_int_equal(hello.schema.id, f->hello.schema.id);
    hello_free(&hello);
    assert_int_equal(runfile_load_range(file, &first, &last, &seq, &f->error), 0);
    assert_int_equal(first, 0);
    assert_int_equal(last, 99);
    assert_int_equal(seq, 101);
    struct seen seen = see_all(f, file);
    assert_true(!seen.disorder && seen.count == 100 && seen.full == 100);
    assert_int_equal(runfile_each_blob(file, 10, 20, compare_blob, f, &f->error), 0);
    int stopped = 0;
    assert_int_equal(runfile_each_step(file, 0, 99, stop_at_second, &stopped, &f->error), 0);
    assert_int_equal(stopped, 2);
    struct event event;
    assert_int_equal(runfile_each_event(file, take_event, &event, &f->error), 0);
    assert_int_equal(event.kind, EVENT_CHECKPOINT);
    assert_string_equal(event.text, "step-40.safetensors");
    int64_t expected = 0;
    assert_int_equal(
        runfile_each_bucket(file, &f->hello.schema, 1, count_bucket, &expected, &f->error), 0);
    assert_int_equal(expected, 96);
    runfile_close(file);
}

/* The first column of the first row as text; "" for NULL. */
static void ask(struct fixture *f, const char *sql, char *answer, size_t size) {
    sqlite3 *db;
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_open_v2(f->path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    const unsigned char *text = sqlite3_column_text(statement, 0);
    snprintf(answer, size, "%s", text ? (const char *)text : "");
    sqlite3_finalize(statement);
    sqlite3_close(db);
}

static void people_read_the_columns(void **state) {
    struct fixture *f = *state;
    schema_add_metric(&f->hello.schema, "Not a Column");
    schema_add_metric(&f->hello.schema, "bad");
    schema_seal(&f->hello.schema);
    struct runfile *file = create(f, 0);
    assert_int_equal(runfile_begin(file, &f->error), 0);
    make_record(f, 46);
    record_set(&f->record, METRIC_LOSS, NAN);
    record_set(&f->record, METRIC_GRAD_NORM, -INFINITY);
    f->record.band = BAND_NONFINITE;
    f->record.reason = REASON_NONFINITE;
    assert_int_equal(add_record(f, file), 0);
    assert_int_equal(runfile_commit(file, &f->error), 0);
    assert_int_equal(write_event(f, file, EVENT_CHECKPOINT, 40), 0);
    runfile_close(file);
    static const char *const questions[][2] = {
        {"SELECT bad FROM steps", "loss=nan grad_norm=-inf"},
        {"SELECT loss FROM steps", ""},
        {"SELECT grad_norm FROM steps", ""},
        {"SELECT loss_scale FROM steps", ""},
        {"SELECT temperature > 0 FROM steps", "1"},
        {"SELECT band || reason FROM steps", "non-finitenon-finite"},
        {"SELECT epoch || ' ' || phase || ' ' || batch FROM steps", "11 2 47"},
        {"SELECT input_hash FROM steps", "deadbeefcafe002f"},
        {"SELECT path FROM checkpoints WHERE step = 40", "step-40.safetensors"},
        {"SELECT count(*) FROM tensors", "31"},
        {"SELECT shape FROM tensors WHERE name = 'conv2.weight' AND role = 'gradient'",
         "64x32x3x3"},
        {"SELECT value FROM config WHERE key = 'lr'", "0.05,0.15"},
        {"SELECT run_id FROM run", "restart-norm_lr0.05_so4_SBAC_202"},
        {"PRAGMA user_version", "1"},
        {"PRAGMA journal_mode", "delete"},
        {"PRAGMA integrity_check", "ok"},
        {"SELECT count(*) FROM pragma_table_info('steps') WHERE name = 'Not a Column'", "0"},
    };
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
        char answer[128];
        ask(f, questions[i][0], answer, sizeof answer);
        assert_string_equal(answer, questions[i][1]);
    }
}

static void the_last_segment_counts(void **state) {
    struct fixture *f = *state;
    struct runfile *file = create(f, 0);
    assert_int_equal(write_steps(f, file, 1, 20), 0);
    assert_int_equal(runfile_begin(file, &f->error), 0);
    for (int64_t step = 11; step <= 15; step++) {
        make_record(f, step);
        f->record.segment = 1;
        assert_int_equal(add_record(f, file), 0);
    }
    assert_int_equal(runfile_commit(file, &f->error), 0);
    struct seen seen = see_all(f, file);
    assert_true(!seen.disorder);
    assert_int_equal(seen.count, 20);
    assert_int_equal(seen.sum_of_segments, 5);
    runfile_close(file);
}

static void a_failed_transaction_is_not_there(void **state) {
    struct fixture *f = *state;
    struct runfile *file = create(f, 0);
    assert_int_equal(write_steps(f, file, 1, 5), 0);
    assert_int_equal(runfile_begin(file, &f->error), 0);
    make_record(f, 6);
    assert_int_equal(add_record(f, file), 0);
    f->seq--;
    make_record(f, 7);
    assert_int_equal(add_record(f, file), -1); /* its seq is taken */
    assert_non_null(strstr(f->error.text, "cannot add a step: UNIQUE"));
    assert_int_equal(runfile_commit(file, &f->error), -1);
    assert_int_equal(see_all(f, file).count, 5);
    assert_int_equal(write_steps(f, file, 6, 9), 0);
    assert_int_equal(runfile_begin(file, &f->error), 0);
    make_record(f, 10);
    assert_int_equal(add_record(f, file), 0);
    runfile_rollback(file);
    runfile_rollback(file);
    assert_int_equal(see_all(f, file).count, 9);
    runfile_close(file);
}

static void nothing_is_overwritten(void **state) {
    struct fixture *f = *state;
    struct runfile *file = create(f, 0), *second = NULL;
    assert_int_equal(runfile_create(&second, f->path, &f->hello, 0, &f->error), -1);
    assert_non_null(strstr(f->error.text, "run.db: exists already"));
    runfile_close(file);
    assert_int_equal(count_files(f), 1);
    assert_int_equal(runfile_create(&second, "/nonexistent/run.db", &f->hello, 0, &f->error), -1);
    assert_non_null(strstr(f->error.text, "run file /nonexistent/run.db: cannot open it"));
    assert_null(second);
    runfile_close(NULL);
}

static void leftovers_of_a_deleted_file_do_no_harm(void **state) {
    struct fixture *f = *state;
    struct runfile *file = create(f, 0);
    assert_int_equal(write_steps(f, file, 1, 5), 0);
    char command[512];
    snprintf(command, sizeof command, "cp '%s-wal' '%s/old' && cp '%s-shm' '%s/old-shm'", f->path,
             f->folder, f->path, f->folder);
    assert_int_equal(system(command), 0);
    runfile_close(file);
    snprintf(command, sizeof command, "rm '%s'; mv '%s/old' '%s-wal'; mv '%s/old-shm' '%s-shm'",
             f->path, f->folder, f->path, f->folder, f->path);
    assert_int_equal(system(command), 0);
    file = create(f, 0);
    assert_int_equal(see_all(f, file).count, 0);
    runfile_close(file);
}

static int keep_thinned(void *user, const struct record *record) {
    struct record *kept = user;
    if (record->tensor[0].count >= 0) return 0;
    record_copy(kept, record);
    return 1;
}

static void beyond_its_limit_it_grows_no_further(void **state) {
    struct fixture *f = *state;
    enum { LIMIT = 3 << 20, STEPS = 12000, ALARM = 1000 };
    struct runfile *file = create(f, LIMIT);
    for (int64_t step = 0; step < STEPS; step += 50) {
        assert_int_equal(write_steps(f, file, step, step + 49), 0);
        if (step == ALARM) assert_int_equal(write_event(f, file, EVENT_ALARM, ALARM), 0);
    }
    struct seen seen = see_all(f, file);
    assert_int_equal(seen.count, STEPS);
    assert_true(seen.full < STEPS / 2);
    seen = (struct seen){0};
    runfile_each_step(file, ALARM - 256, ALARM + 256, see, &seen, &f->error);
    assert_int_equal(seen.full, 513);
    seen = (struct seen){0};
    runfile_each_step(file, STEPS - 500, STEPS, see, &seen, &f->error);
    assert_int_equal(seen.full, 500);
    struct record thinned;
    record_init(&thinned, f->hello.schema.tensors);
    assert_int_equal(runfile_each_step(file, 0, STEPS, keep_thinned, &thinned, &f->error), 0);
    make_record(f, thinned.step);
    assert_int_equal(thinned.measured, f->record.measured);
    assert_memory_equal(thinned.metric, f->record.metric, sizeof(double) * METRIC_COUNT);
    assert_int_equal(thinned.batch, f->record.batch);
    assert_int_equal(thinned.label_hash, f->record.label_hash);
    assert_int_equal(thinned.seq, thinned.step + 1);
    record_free(&thinned);
    runfile_close(file);
    print_message("limit of 3 MB, %d steps (%zu bytes each): %lld bytes\n", STEPS, f->blob.size,
                  (long long)size_of(f->path));
    assert_true(size_of(f->path) <
                LIMIT + (1 << 20)); /* the columns of all steps stay, about 250 bytes each */
}

static void a_thinned_step_keeps_its_nan(void **state) {
    struct fixture *f = *state;
    struct runfile *file = create(f, 1);
    assert_int_equal(runfile_begin(file, &f->error), 0);
    make_record(f, 0);
    record_set(&f->record, METRIC_LOSS, NAN);
    record_set(&f->record, METRIC_LR, -INFINITY);
    f->record.band = BAND_NONFINITE;
    f->record.reason = REASON_RANGE;
    assert_int_equal(add_record(f, file), 0);
    assert_int_equal(runfile_commit(file, &f->error), 0);
    assert_int_equal(write_steps(f, file, 1, 1000), 0);
    assert_int_equal(write_steps(f, file, 1001, 1001), 0);
    struct record thinned;
    record_init(&thinned, f->hello.schema.tensors);
    assert_int_equal(runfile_each_step(file, 0, 0, keep_thinned, &thinned, &f->error), 0);
    assert_true(record_has(&thinned, METRIC_LOSS) && isnan(thinned.metric[METRIC_LOSS]));
    assert_true(thinned.metric[METRIC_LR] == -INFINITY);
    assert_false(record_has(&thinned, METRIC_LOSS_SCALE));
    assert_int_equal(thinned.band, BAND_NONFINITE);
    assert_int_equal(thinned.reason, REASON_RANGE);
    record_free(&thinned);
    runfile_close(file);
}

/* Runs in a child, so that locks are those of another process; its exit status says whether it saw
 * what it should. */
static void in_child(void (*act)(struct fixture *f), struct fixture *f) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        act(f);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void expect(bool truth, int code) {
    if (!truth) _exit(code);
}

/* A fork alone would inherit what SQLite knows of this process's own locks: another process is this
 * program started anew. */
static void in_other_process(const char *act, const struct fixture *f) {
    char count[32];
    snprintf(count, sizeof count, "%llu", (unsigned long long)f->seq);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "test_runfile", act, f->path, count, (char *)NULL);
        _exit(127);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* What it does there. */
static int count_steps(const char *path, int64_t expected) {
    struct runfile *file = NULL;
    struct seen seen = {0};
    struct error error;
    if (runfile_open(&file, path, &error) < 0 ||
        runfile_each_step(file, 0, INT64_MAX, see, &seen, &error) < 0) {
        fprintf(stderr, "%s\n", error.text);
        return 2;
    }
    runfile_close(file);
    return seen.count == expected && !seen.disorder ? 0 : 3;
}

static int visit_writing(const char *path) {
    sqlite3 *db;
    if (sqlite3_open(path, &db) != SQLITE_OK ||
        sqlite3_exec(db, "SELECT count(*) FROM steps", NULL, NULL, NULL) != SQLITE_OK)
        return 2;
    return sqlite3_close(db) == SQLITE_OK ? 0 : 3; /* who closes last takes the log away */
}

static int act_as_other_process(char **argument) {
    if (strcmp(argument[1], "visit") == 0) return visit_writing(argument[2]);
    if (strcmp(argument[1], "nobody") == 0 && geteuid() == 0 &&
        (setgid(65534) != 0 || setuid(65534) != 0))
        return 4;
    return count_steps(argument[2], atoll(argument[3]));
}

static void another_process_reads_along(void **state) {
    struct fixture *f = *state;
    struct runfile *file = create(f, 0);
    in_other_process("count", f);
    assert_int_equal(write_steps(f, file, 0, 49), 0);
    in_other_process("count", f);
    uint64_t committed = f->seq;
    assert_int_equal(runfile_begin(file, &f->error), 0);
    make_record(f, 50);
    assert_int_equal(add_record(f, file), 0);
    f->seq = committed;
    in_other_process("count", f); /* in the middle of a transaction */
    assert_int_equal(runfile_commit(file, &f->error), 0);
    f->seq = committed + 1;
    in_other_process("count", f);

    struct runfile *reader = open_file(f, f->path);
    assert_int_equal(see_all(f, reader).count, 51);
    assert_int_equal(write_steps(f, file, 51, 60), 0);
    assert_int_equal(see_all(f, reader).count, 61);
    runfile_close(file);
    assert_int_equal(see_all(f, reader).count, 61);
    assert_true(size_beside(f, "-wal") <= 0);
    runfile_close(reader);
    in_other_process("count", f);
}

static void a_reader_in_the_same_process_takes_no_lock_away(void **state) {
    struct fixture *f = *state;
    struct runfile *file = create(f, 0);
    assert_int_equal(write_steps(f, file, 0, 9), 0);
    struct runfile *reader = open_file(f, f->path);
    runfile_close(reader);
    in_other_process("visit", f);
    assert_true(size_beside(f, "-wal") > 0);
    assert_int_equal(write_steps(f, file, 10, 19), 0);
    in_other_process("count", f);
    runfile_close(file);
}

static void write_and_die(struct fixture *f) {
    struct runfile *file = NULL;
    expect(runfile_create(&file, f->path, &f->hello, 0, &f->error) == 0, 2);
    expect(write_steps(f, file, 0, 29) == 0, 3);
    expect(runfile_begin(file, &f->error) == 0, 4);
    make_record(f, 30);
    expect(add_record(f, file) == 0, 5);
    _exit(0); /* as SIGKILL does: nothing is closed */
}

static void a_killed_writer_loses_nothing_committed(void **state) {
    struct fixture *f = *state;
    in_child(write_and_die, f);
    struct runfile *file = open_file(f, f->path);
    assert_int_equal(see_all(f, file).count, 30);
    runfile_close(file);
    file = open_file(f, f->path);
    assert_int_equal(see_all(f, file).count, 30);
    runfile_close(file);
}

static void copy(struct fixture *f, const char *suffix, char *path, size_t size) {
    char command[512];
    snprintf(path, size, "%s/copy.db", f->folder);
    snprintf(command, sizeof command, "cp '%s%s' '%s%s'", f->path, suffix, path, suffix);
    assert_int_equal(system(command), 0);
}

static void a_copy_without_its_log_says_so(void **state) {
    struct fixture *f = *state;
    char path[128];
    struct runfile *file = create(f, 0), *copied = NULL;
    assert_int_equal(write_steps(f, file, 0, 9), 0);
    copy(f, "", path, sizeof path);
    assert_int_equal(runfile_open(&copied, path, &f->error), -1);
    assert_non_null(
        strstr(f->error.text,
               "copied from a live run without copy.db-wal, where its steps are: copy both"));
    assert_int_equal(count_files(f), 4); /* looking left nothing behind */
    copy(f, "-wal", path, sizeof path);
    copied = open_file(f, path);
    assert_int_equal(see_all(f, copied).count, 10);
    runfile_close(copied);

    char command[512], log[160];
    snprintf(command, sizeof command,
             "/usr/bin/python3 -c \"import sqlite3; c = sqlite3.connect('%s'); "
             "c.execute('select count(*) from steps').fetchall(); c.close()\"",
             path);
    assert_int_equal(system(command), 0); /* the last to close it moves the log into the file */
    assert_int_equal(access(strcat(strcpy(log, path), "-wal"), F_OK), -1);
    copied = open_file(f, path);
    assert_int_equal(see_all(f, copied).count, 10);
    runfile_close(copied);

    struct runfile *reader = open_file(f, f->path); /* hinders the end of WAL mode */
    runfile_close(file);
    assert_int_equal(unlink(path), 0);
    snprintf(log, sizeof log, "%s-wal", path);
    unlink(log);
    copy(f, "", path, sizeof path);
    copied = open_file(f, path); /* whole all the same */
    assert_int_equal(see_all(f, copied).count, 10);
    runfile_close(copied);
    runfile_close(reader);
}

static void a_finished_file_is_for_everybody(void **state) {
    struct fixture *f = *state;
    struct runfile *file = create(f, 0);
    assert_int_equal(write_steps(f, file, 0, 9), 0);
    runfile_close(file);
    assert_int_equal(chmod(f->path, 0444), 0);
    assert_int_equal(chmod(f->folder, 0555), 0);
    in_other_process("nobody", f);
    assert_int_equal(count_files(f), 1);
    assert_int_equal(chmod(f->folder, 0755), 0);
    assert_int_equal(chmod(f->path, 0000), 0);
    if (geteuid() != 0) {
        assert_int_equal(runfile_open(&file, f->path, &f->error), -1);
        assert_non_null(strstr(f->error.text, "Permission denied"));
    }
}

static int no_locks(int fd, int command, ...) {
    (void)fd;
    (void)command;
    errno = ENOLCK;
    return -1;
}

static void a_file_system_without_locks_will_do(void **state) {
    struct fixture *f = *state;
    struct runfile *file = create(f, 0);
    assert_int_equal(write_steps(f, file, 0, 9), 0);
    runfile_close(file);
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    assert_int_equal(vfs->xSetSystemCall(vfs, "fcntl", (sqlite3_syscall_ptr)no_locks), SQLITE_OK);
    file = NULL;
    int result = runfile_open(&file, f->path, &f->error);
    assert_int_equal(vfs->xSetSystemCall(vfs, "fcntl", NULL), SQLITE_OK);
    assert_int_equal(result, 0);
    assert_int_equal(see_all(f, file).count, 10);
    runfile_close(file);
}

static void others_watch_a_live_file(void **state) {
    struct fixture *f = *state;
    struct runfile *file = create(f, 0);
    assert_int_equal(write_steps(f, file, 0, 9), 0);
    assert_int_equal(chmod(f->folder, 0755), 0);
    in_other_process("nobody", f);
    runfile_close(file);
}

static void put(const char *path, const void *data, size_t size) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    fclose(file);
}

static void run_sql(const char *path, const char *sql) {
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void expect_refusal(struct fixture *f, const char *path, const char *reason) {
    struct runfile *file = NULL;
    assert_int_equal(runfile_open(&file, path, &f->error), -1);
    assert_null(file);
    if (!strstr(f->error.text, reason)) fail_msg("'%s' does not say '%s'", f->error.text, reason);
    assert_null(strchr(f->error.text, '\n'));
}

static void what_is_no_run_file_is_told(void **state) {
    struct fixture *f = *state;
    char page[4096] = "SQLite format 3";
    expect_refusal(f, f->path, "run.db: cannot open it: No such file or directory");
    expect_refusal(f, f->folder, "is not a run file: a folder");
    expect_refusal(f, "/dev/null", "is not a run file: not a plain file");
    put(f->path, "", 0);
    expect_refusal(f, f->path, "is not a run file: it is empty");
    put(f->path, "step\tloss\n", 10);
    expect_refusal(f, f->path, "is not a run file: no SQLite database");
    put(f->path, page, 60);
    expect_refusal(f, f->path, "is not a run file: no SQLite database");
    put(f->path, page, sizeof page);
    expect_refusal(f, f->path, "is not a run file, but another SQLite database");
    unlink(f->path);
    run_sql(f->path, "CREATE TABLE t(x)");
    expect_refusal(f, f->path, "is not a run file, but another SQLite database");
    unlink(f->path);
    run_sql(f->path,
            "PRAGMA application_id = 0x6e616e74; PRAGMA user_version = 1; CREATE TABLE t(x)");
    expect_refusal(f, f->path, "no such table: run");
}

static void newer_and_damaged_files_are_told(void **state) {
    struct fixture *f = *state;
    struct runfile *file = create(f, 0);
    assert_int_equal(write_steps(f, file, 0, 99), 0);
    runfile_close(file);
    char path[128];
    copy(f, "", path, sizeof path);
    run_sql(path, "PRAGMA user_version = 2");
    expect_refusal(f, path, "of version 2, this program reads up to version 1");
    copy(f, "", path, sizeof path);
    assert_int_equal(truncate(path, 40000), 0);
    expect_refusal(f, path, "it is damaged, or cut short");
    copy(f, "", path, sizeof path);
    run_sql(path, "UPDATE run SET hello = 'x'");
    expect_refusal(f, path, "hello: not a MessagePack map, or cut short");
    copy(f, "", path, sizeof path);
    run_sql(path, "DELETE FROM run");
    expect_refusal(f, path, "has no hello");
    copy(f, "", path, sizeof path);
    run_sql(path, "UPDATE records SET record = x'81' WHERE seq = 8");
    file = open_file(f, path);
    struct seen seen = {0};
    assert_int_equal(runfile_each_step(file, 0, 99, see, &seen, &f->error), -1);
    assert_int_equal(seen.count, 7);
    assert_non_null(strstr(f->error.text, "step 7: step: not a MessagePack map, or cut short"));
    runfile_close(file);
}

static void fill_the_disk(struct fixture *f) {
    struct rlimit limit = {200000, RLIM_INFINITY};
    struct runfile *file = NULL;
    signal(SIGXFSZ, SIG_IGN);
    expect(runfile_create(&file, f->path, &f->hello, 0, &f->error) == 0, 2);
    expect(setrlimit(RLIMIT_FSIZE, &limit) == 0, 3);
    int64_t step = 0, refused = 0;
    for (; step < 2000; step += 10) {
        uint64_t seq = f->seq;
        if (write_steps(f, file, step, step + 9) < 0) {
            f->seq = seq;
            refused++;
            expect(strstr(f->error.text, "run.db: cannot ") != NULL, 4);
            if (refused == 3)
                setrlimit(RLIMIT_FSIZE,
                          &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY}); /* somebody made room */
        }
    }
    expect(refused == 3, 5);
    struct seen seen = {0};
    expect(runfile_each_step(file, 0, INT64_MAX, see, &seen, &f->error) == 0, 6);
    expect(seen.count == 1970 && seen.count == (int64_t)f->seq, 7);
    runfile_close(file);
}

static void a_full_disk_leaves_it_usable(void **state) {
    struct fixture *f = *state;
    in_child(fill_the_disk, f);
    struct runfile *file = open_file(f, f->path);
    assert_int_equal(see_all(f, file).count, 1970);
    runfile_close(file);
    char answer[128];
    ask(f, "PRAGMA integrity_check", answer, sizeof answer);
    assert_string_equal(answer, "ok");
}

static void a_network_file_system_gets_no_shared_memory(void **state) {
    struct fixture *f = *state;
    pretended_file_system = CIFS_SUPER_MAGIC;
    struct runfile *file = create(f, 0);
    pretended_file_system = 0;
    assert_int_equal(write_steps(f, file, 0, 9), 0);
    assert_int_equal(size_beside(f, "-wal"), -1);
    assert_int_equal(size_beside(f, "-shm"), -1);
    in_other_process("count", f);
    runfile_close(file);
    assert_int_equal(count_files(f), 1);
}

static void odd_names_are_taken(void **state) {
    struct fixture *f = *state;
    snprintf(f->path, sizeof f->path, "%s/100%% ?a#b", f->folder);
    struct runfile *file = create(f, 0);
    assert_int_equal(write_steps(f, file, 0, 9), 0);
    runfile_close(file);
    in_other_process("count", f);
}

static double now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void speed_is_told(void **state) {
    struct fixture *f = *state;
    enum { ROWS = 2000 };
    make_record(f, 0);
    for (int group = 1; group <= 100; group *= 100) {
        struct runfile *file = create(f, 0);
        int64_t before = size_of(f->path);
        double begin = now_ns();
        for (int i = 0; i < ROWS; i += group) {
            assert_int_equal(runfile_begin(file, &f->error), 0);
            for (int j = i; j < i + group; j++) {
                f->record.step = j;
                assert_int_equal(add_record(f, file), 0);
            }
            assert_int_equal(runfile_commit(file, &f->error), 0);
        }
        double middle = now_ns();
        assert_int_equal(see_all(f, file).count, ROWS);
        double end = now_ns();
        runfile_close(file);
        print_message(
            "rows/s: %.0f written (%d a commit, encoding included), %.0f read; %lld bytes a row\n",
            ROWS * 1e9 / (middle - begin), group, ROWS * 1e9 / (end - middle),
            (long long)(size_of(f->path) - before) / ROWS);
        unlink(f->path);
        f->seq = 0;
    }
}

int main(int argc, char **argv) {
    if (argc == 4) return act_as_other_process(argv);
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(what_was_written_is_there),
        TEST(people_read_the_columns),
        TEST(the_last_segment_counts),
        TEST(a_failed_transaction_is_not_there),
        TEST(nothing_is_overwritten),
        TEST(leftovers_of_a_deleted_file_do_no_harm),
        TEST(beyond_its_limit_it_grows_no_further),
        TEST(a_thinned_step_keeps_its_nan),
        TEST(another_process_reads_along),
        TEST(a_reader_in_the_same_process_takes_no_lock_away),
        TEST(a_killed_writer_loses_nothing_committed),
        TEST(a_copy_without_its_log_says_so),
        TEST(a_finished_file_is_for_everybody),
        TEST(a_file_system_without_locks_will_do),
        TEST(others_watch_a_live_file),
        TEST(what_is_no_run_file_is_told),
        TEST(newer_and_damaged_files_are_told),
        TEST(a_full_disk_leaves_it_usable),
        TEST(a_network_file_system_gets_no_shared_memory),
        TEST(odd_names_are_taken),
        TEST(speed_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
