#include "shared/store/runfile.h"

#include <stdio.h>
#include <string.h>

#include "shared/core/text.h"
#include "shared/store/json.h"
#include "shared/store/runfile_part.h"

enum {
    AROUND = 256,        /* steps on either side of an alarm that keep their full record */
    NEWEST = 2 * AROUND, /* and seqs at the end, since an alarm may still come */
    BATCH = 256          /* seqs looked at in one transaction */
};

static const char tables[] =
    "CREATE TABLE run(run_id TEXT, name TEXT, host TEXT, pid INTEGER, program TEXT, version TEXT, "
    "started_ns INTEGER,"
    " device TEXT, backend TEXT, threads INTEGER, closed INTEGER, hello BLOB);"
    "CREATE TABLE config(key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;"
    "CREATE TABLE tensors(id INTEGER PRIMARY KEY, name TEXT, role TEXT, stage TEXT, dtype TEXT, "
    "shape TEXT);"
    "CREATE TABLE events(seq INTEGER PRIMARY KEY, kind TEXT, wall_ns INTEGER, step INTEGER, epoch "
    "INTEGER, phase INTEGER,"
    " batch INTEGER, band TEXT, reason TEXT, subject TEXT, value REAL, \"limit\" REAL, usual REAL, "
    "tensor INTEGER,"
    " onset INTEGER, lead INTEGER, first_seq INTEGER, last_seq INTEGER, text TEXT, event BLOB);"
    "CREATE INDEX events_step ON events(step);"
    "CREATE VIEW checkpoints AS SELECT step, epoch, phase, batch, wall_ns, band, text AS path FROM "
    "events"
    " WHERE kind = 'checkpoint';"
    "CREATE TABLE records(seq INTEGER PRIMARY KEY, record BLOB);"
    "CREATE TABLE pyramid(level INTEGER, first INTEGER, bucket BLOB, PRIMARY KEY(level, first));";

static const char *const fixed_sql[RUNFILE_STATEMENTS] = {
    [RUNFILE_BEGIN] = "BEGIN IMMEDIATE",
    [RUNFILE_COMMIT] = "COMMIT",
    [RUNFILE_ROLLBACK] = "ROLLBACK",
    [RUNFILE_ADD_RUN] = "INSERT INTO run VALUES(?,?,?,?,?,?,?,?,?,?,1,?)",
    [RUNFILE_ADD_CONFIG] = "INSERT OR REPLACE INTO config VALUES(?,?)",
    [RUNFILE_ADD_TENSOR] = "INSERT INTO tensors VALUES(?,?,?,?,?,?)",
    [RUNFILE_ADD_RECORD] = "INSERT INTO records VALUES(?,?)",
    [RUNFILE_ADD_EVENT] = "INSERT INTO events VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
    [RUNFILE_ADD_BUCKET] = "INSERT OR REPLACE INTO pyramid VALUES(?,?,?)",
    [RUNFILE_USED_BYTES] = "SELECT (page_count - freelist_count) * page_size"
                           " FROM pragma_page_count, pragma_freelist_count, pragma_page_size",
    [RUNFILE_THIN] =
        "DELETE FROM records WHERE seq IN (SELECT seq FROM steps WHERE seq > ?1 AND seq <= ?2 AND "
        "NOT EXISTS"
        " (SELECT 1 FROM events WHERE events.step BETWEEN steps.step - ?3 AND steps.step + ?3"
        " AND kind IN ('alarm', 'non-finite')))",
};

static int create_steps(struct runfile *file, struct error *error) {
    struct buffer sql = {0};
    int failed = buffer_append_text(
        &sql,
        "CREATE TABLE steps(seq INTEGER PRIMARY KEY, segment INTEGER, step INTEGER, epoch INTEGER,"
        " phase INTEGER, batch INTEGER, wall_ns INTEGER, band TEXT, reason TEXT, subject TEXT, bad "
        "TEXT,"
        " input_hash TEXT, label_hash TEXT");
    failed |= runfile_list_columns(&sql, &file->schema, " REAL");
    failed |= buffer_append_text(&sql, "); CREATE INDEX steps_step ON steps(step, segment);");
    failed |= buffer_append(&sql, "", 1);
    int result = failed ? error_set(error, "run file %s: no memory", file->path) : 0;
    if (!failed && sqlite3_exec(file->db, sql.data, NULL, NULL, NULL) != SQLITE_OK) {
        result = runfile_fail(file, "create its tables", error);
    }
    buffer_free(&sql);
    return result;
}

static sqlite3_stmt *prepare_step(struct runfile *file) {
    struct buffer sql = {0};
    sqlite3_stmt *statement = NULL;
    int failed =
        buffer_append_text(&sql, "INSERT INTO steps(seq, segment, step, epoch, phase, batch, "
                                 "wall_ns, band, reason, subject, bad,"
                                 " input_hash, label_hash");
    failed |= runfile_list_columns(&sql, &file->schema, "");
    failed |= buffer_append_text(&sql, ") VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?");
    for (int slot = 0; slot < file->schema.metrics; slot++) {
        if (runfile_has_column(&file->schema, slot)) failed |= buffer_append_text(&sql, ",?");
    }
    failed |= buffer_append(&sql, ")", 2);
    if (!failed)
        sqlite3_prepare_v3(file->db, sql.data, -1, SQLITE_PREPARE_PERSISTENT, &statement, NULL);
    buffer_free(&sql);
    return statement;
}

/* Ready to be bound; NULL: SQLite knows why. */
static sqlite3_stmt *statement_of(struct runfile *file, enum runfile_statement which) {
    sqlite3_stmt **statement = &file->statement[which];
    if (*statement) {
        sqlite3_reset(*statement);
        sqlite3_clear_bindings(*statement);
    } else if (which == RUNFILE_ADD_STEP) {
        *statement = prepare_step(file);
    } else {
        sqlite3_prepare_v3(file->db, fixed_sql[which], -1, SQLITE_PREPARE_PERSISTENT, statement,
                           NULL);
    }
    return *statement;
}

static int finish(sqlite3_stmt *statement) {
    int code = sqlite3_step(statement);
    return sqlite3_reset(statement) == SQLITE_OK && code == SQLITE_DONE ? 0 : -1;
}

static int run_statement(struct runfile *file, enum runfile_statement which) {
    sqlite3_stmt *statement = statement_of(file, which);
    return statement ? finish(statement) : -1;
}

/* A row in the making: values are bound in the order of its columns. */
struct row {
    sqlite3_stmt *statement;
    int column;
};

static void bind_whole(struct row *row, int64_t value) {
    sqlite3_bind_int64(row->statement, ++row->column, value);
}

/* -1 is not known, and NULL. */
static void bind_known(struct row *row, int64_t value) {
    if (value < 0) {
        row->column++;
    } else {
        bind_whole(row, value);
    }
}

/* Has no NaN: SQLite makes NULL of it. */
static void bind_number(struct row *row, double value) {
    sqlite3_bind_double(row->statement, ++row->column, value);
}

/* "" is NULL. The text has to stay until the row is written. */
static void bind_text(struct row *row, const char *text) {
    if (text[0] == '\0') {
        row->column++;
    } else {
        sqlite3_bind_text(row->statement, ++row->column, text, -1, SQLITE_STATIC);
    }
}

static void bind_blob(struct row *row, const void *data, size_t size) {
    sqlite3_bind_blob64(row->statement, ++row->column, data, size, SQLITE_STATIC);
}

static int add_config(struct runfile *file, const struct config_entry *entry) {
    struct row row = {statement_of(file, RUNFILE_ADD_CONFIG), 0};
    if (!row.statement) return -1;
    bind_text(&row, entry->key);
    bind_text(&row, entry->value);
    return finish(row.statement);
}

static int add_tensor(struct runfile *file, int id, const struct schema_tensor *tensor) {
    struct row row = {statement_of(file, RUNFILE_ADD_TENSOR), 0};
    char shape[SCHEMA_DIMS_MAX * 21] = "";
    size_t used = 0;
    if (!row.statement) return -1;
    for (int d = 0; d < tensor->dims; d++) {
        used += (size_t)snprintf(shape + used, sizeof shape - used, d ? "x%lld" : "%lld",
                                 (long long)tensor->shape[d]);
    }
    bind_whole(&row, id);
    bind_text(&row, tensor->name);
    bind_text(&row, schema_role_name(tensor->role));
    bind_text(&row, schema_stage_name(tensor->stage));
    bind_text(&row, schema_dtype_name(tensor->dtype));
    bind_text(&row, shape);
    return finish(row.statement);
}

static int add_run(struct runfile *file, const struct hello *hello) {
    struct row row = {statement_of(file, RUNFILE_ADD_RUN), 0};
    if (!row.statement || codec_encode_hello(&file->scratch, hello) < 0) return -1;
    bind_text(&row, hello->run_id);
    bind_text(&row, hello->name);
    bind_text(&row, hello->host);
    bind_whole(&row, hello->pid);
    bind_text(&row, hello->program);
    bind_text(&row, hello->version);
    bind_whole(&row, hello->started_ns);
    bind_text(&row, hello->device);
    bind_text(&row, hello->backend);
    bind_whole(&row, hello->threads);
    bind_blob(&row, file->scratch.data, file->scratch.size);
    return finish(row.statement);
}

static int add_hello(struct runfile *file, const struct hello *hello) {
    int result = add_run(file, hello);
    for (int i = 0; i < hello->configs && result == 0; i++) {
        result = add_config(file, &hello->config[i]);
    }
    for (int i = 0; i < hello->schema.tensors && result == 0; i++) {
        result = add_tensor(file, i, &hello->schema.tensor[i]);
    }
    return result;
}

int runfile_write_hello(struct runfile *file, const struct hello *hello, struct error *error) {
    if (run_statement(file, RUNFILE_BEGIN) < 0 ||
        sqlite3_exec(file->db, tables, NULL, NULL, NULL) != SQLITE_OK) {
        return runfile_fail(file, "create its tables", error);
    }
    if (create_steps(file, error) < 0) return -1;
    if (add_hello(file, hello) < 0 || run_statement(file, RUNFILE_COMMIT) < 0) {
        return runfile_fail(file, "write the hello", error);
    }
    return 0;
}

/* The whole transaction goes with the first failure in it. */
static int give_up(struct runfile *file, const char *doing, struct error *error) {
    runfile_fail(file, doing, error);
    runfile_rollback(file);
    return -1;
}

static int check_open(const struct runfile *file, struct error *error) {
    if (!sqlite3_get_autocommit(file->db)) return 0;
    return error_set(error, "run file %s: cannot write: the transaction failed before", file->path);
}

int runfile_begin(struct runfile *file, struct error *error) {
    if (run_statement(file, RUNFILE_BEGIN) < 0) return give_up(file, "write", error);
    return 0;
}

void runfile_rollback(struct runfile *file) {
    /* A full disk may have done it already. */
    if (!sqlite3_get_autocommit(file->db)) run_statement(file, RUNFILE_ROLLBACK);
}

/* "loss=nan grad_norm=inf": what the REAL columns cannot hold, or should not be searched for. */
static void describe_bad(char *out, size_t size, const struct schema *schema,
                         const struct record *record) {
    size_t used = 0;
    out[0] = '\0';
    for (int slot = 0; slot < schema->metrics; slot++) {
        char number[32];
        if (!record_has(record, slot) || isfinite(record->metric[slot])) continue;
        json_number(number, sizeof number, record->metric[slot]);
        int length = snprintf(out + used, size - used, "%s%s=%s", used ? " " : "",
                              schema->metric[slot], number);
        used += (size_t)length;
    }
}

static int add_columns(struct runfile *file, const struct record *record) {
    char bad[SCHEMA_METRICS_MAX * (SCHEMA_METRIC_SIZE + 6)], input_hash[17] = "",
                                                             label_hash[17] = "";
    struct row row = {statement_of(file, RUNFILE_ADD_STEP), 0};
    if (!row.statement) return -1;
    describe_bad(bad, sizeof bad, &file->schema, record);
    if (record->hashed) {
        snprintf(input_hash, sizeof input_hash, "%016llx", (unsigned long long)record->input_hash);
        snprintf(label_hash, sizeof label_hash, "%016llx", (unsigned long long)record->label_hash);
    }
    bind_whole(&row, (int64_t)record->seq);
    bind_whole(&row, record->segment);
    bind_whole(&row, record->step);
    bind_known(&row, record->epoch);
    bind_known(&row, record->phase);
    bind_known(&row, record->batch);
    bind_whole(&row, record->wall_ns);
    bind_text(&row, band_name(record->band));
    bind_text(&row, band_reason_name(record->reason));
    bind_text(&row, record->subject);
    bind_text(&row, bad);
    bind_text(&row, input_hash);
    bind_text(&row, label_hash);
    for (int slot = 0; slot < file->schema.metrics; slot++) {
        if (!runfile_has_column(&file->schema, slot)) continue;
        bool finite = record_has(record, slot) && isfinite(record->metric[slot]);
        bind_number(&row, finite ? record->metric[slot] : NAN);
    }
    return finish(row.statement);
}

static int add_blob(struct runfile *file, const struct runfile_step *step) {
    struct row row = {statement_of(file, RUNFILE_ADD_RECORD), 0};
    if (!row.statement) return -1;
    bind_whole(&row, (int64_t)step->record->seq);
    bind_blob(&row, step->blob, step->blob_size);
    return finish(row.statement);
}

int runfile_add_step(struct runfile *file, const struct runfile_step *step, struct error *error) {
    if (check_open(file, error) < 0) return -1;
    if (add_columns(file, step->record) < 0 || add_blob(file, step) < 0)
        return give_up(file, "add a step", error);
    file->last_seq = (int64_t)step->record->seq;
    return 0;
}

int runfile_add_event(struct runfile *file, const struct event *event, struct error *error) {
    if (check_open(file, error) < 0) return -1;
    struct row row = {statement_of(file, RUNFILE_ADD_EVENT), 0};
    if (!row.statement || codec_encode_event(&file->scratch, event) < 0)
        return give_up(file, "add an event", error);
    bind_whole(&row, (int64_t)event->seq);
    bind_text(&row, event_kind_name(event->kind));
    bind_whole(&row, event->wall_ns);
    bind_known(&row, event->step);
    bind_known(&row, event->epoch);
    bind_known(&row, event->phase);
    bind_known(&row, event->batch);
    bind_text(&row, band_name(event->band));
    bind_text(&row, band_reason_name(event->reason));
    bind_text(&row, event->subject);
    bind_number(&row, event->value);
    bind_number(&row, event->limit);
    bind_number(&row, event->usual);
    bind_known(&row, event->tensor);
    bind_known(&row, event->onset);
    bind_known(&row, event->lead);
    bind_known(&row, event->first_seq ? (int64_t)event->first_seq : -1);
    bind_known(&row, event->last_seq ? (int64_t)event->last_seq : -1);
    bind_text(&row, event->text);
    bind_blob(&row, file->scratch.data, file->scratch.size);
    if (finish(row.statement) < 0) return give_up(file, "add an event", error);
    return 0;
}

int runfile_add_bucket(struct runfile *file, const struct schema *schema,
                       const struct codec_buckets *buckets, struct error *error) {
    if (check_open(file, error) < 0) return -1;
    for (int i = 0; i < buckets->count; i++) {
        struct codec_buckets one = *buckets;
        one.count = 1;
        one.bucket += i;
        one.value += (size_t)i * (size_t)buckets->metrics;
        struct row row = {statement_of(file, RUNFILE_ADD_BUCKET), 0};
        if (!row.statement || codec_encode_buckets(&file->scratch, schema, &one) < 0)
            return give_up(file, "add a bucket", error);
        bind_whole(&row, one.level);
        bind_whole(&row, one.bucket->first);
        bind_blob(&row, file->scratch.data, file->scratch.size);
        if (finish(row.statement) < 0) return give_up(file, "add a bucket", error);
    }
    return 0;
}

/* Pages in use: those freed are used again before the file grows. */
static int64_t used_bytes(struct runfile *file) {
    sqlite3_stmt *statement = statement_of(file, RUNFILE_USED_BYTES);
    int64_t bytes =
        statement && sqlite3_step(statement) == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : 0;
    if (statement) sqlite3_reset(statement);
    return bytes;
}

/* Goes over the seqs once, from the oldest on, a batch for a commit. */
static int thin(struct runfile *file) {
    int64_t last = file->thinned_seq + BATCH;
    if (file->max_bytes <= 0 || last > file->last_seq - NEWEST ||
        used_bytes(file) <= file->max_bytes)
        return 0;
    struct row row = {statement_of(file, RUNFILE_THIN), 0};
    if (!row.statement) return -1;
    bind_whole(&row, file->thinned_seq);
    bind_whole(&row, last);
    bind_whole(&row, AROUND);
    if (finish(row.statement) < 0) return -1;
    file->thinned_seq = last;
    return 0;
}

int runfile_commit(struct runfile *file, struct error *error) {
    if (check_open(file, error) < 0) return -1;
    int64_t thinned_seq = file->thinned_seq;
    if (thin(file) == 0 && run_statement(file, RUNFILE_COMMIT) == 0) return 0;
    file->thinned_seq = thinned_seq;
    return give_up(file, "write", error);
}
