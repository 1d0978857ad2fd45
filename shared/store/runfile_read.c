#include "shared/store/runfile.h"

#include <stdlib.h>
#include <string.h>

#include "shared/core/text.h"
#include "shared/store/runfile_part.h"

/* NULL with the reason. */
static sqlite3_stmt *prepare(const struct runfile *file, const char *sql, struct error *error) {
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(file->db, sql, -1, &statement, NULL) != SQLITE_OK)
        runfile_fail(file, "read it", error);
    return statement;
}

/* After the last row, or where a caller has had enough. */
static int finish(const struct runfile *file, sqlite3_stmt *statement, int code,
                  struct error *error) {
    int result =
        code == SQLITE_DONE || code == SQLITE_ROW ? 0 : runfile_fail(file, "read it", error);
    sqlite3_finalize(statement);
    return result;
}

/* A stranger's file may hold text or a number where a blob belongs: its bytes are judged by the
 * decoder. */
static const void *blob_at(sqlite3_stmt *statement, int column, size_t *size) {
    const void *blob = sqlite3_column_blob(statement, column);
    *size = blob ? (size_t)sqlite3_column_bytes(statement, column) : 0;
    return blob;
}

int runfile_load_hello(struct runfile *file, struct hello *hello, struct error *error) {
    sqlite3_stmt *statement = prepare(file, "SELECT hello FROM run", error);
    if (!statement) return -1;
    int result, code = sqlite3_step(statement);
    if (code == SQLITE_ROW) {
        struct error reason;
        size_t size;
        const void *blob = blob_at(statement, 0, &size);
        result = codec_decode_hello(blob, size, hello, &reason);
        if (result < 0) error_set(error, "run file %s: %s", file->path, reason.text);
    } else {
        result = code == SQLITE_DONE ? error_set(error, "run file %s: has no hello", file->path)
                                     : runfile_fail(file, "read it", error);
    }
    sqlite3_finalize(statement);
    return result;
}

int runfile_load_range(struct runfile *file, int64_t *first, int64_t *last, uint64_t *last_seq,
                       struct error *error) {
    static const char sql[] =
        "SELECT (SELECT min(step) FROM steps), (SELECT max(step) FROM steps),"
        " max(ifnull((SELECT max(seq) FROM steps), 0), ifnull((SELECT max(seq) FROM events), 0))";
    sqlite3_stmt *statement = prepare(file, sql, error);
    if (!statement) return -1;
    int code = sqlite3_step(statement);
    bool any = code == SQLITE_ROW && sqlite3_column_type(statement, 0) != SQLITE_NULL;
    if (any) {
        *first = sqlite3_column_int64(statement, 0);
        *last = sqlite3_column_int64(statement, 1);
        *last_seq = (uint64_t)sqlite3_column_int64(statement, 2);
    } else if (code == SQLITE_ROW) {
        error_set(error, "%s", "");
    }
    int result = finish(file, statement, code, error);
    return any ? result : -1;
}

/* Every step once: with max() the other columns come from the row that has it, the last segment's.
 */
static sqlite3_stmt *select_steps(struct runfile *file, int64_t first, int64_t last,
                                  struct error *error) {
    static const char sql[] =
        "SELECT step, record, seq, max(segment) FROM steps LEFT JOIN records USING(seq)"
        " WHERE step BETWEEN ? AND ? GROUP BY step ORDER BY step";
    sqlite3_stmt *statement = prepare(file, sql, error);
    if (!statement) return NULL;
    sqlite3_bind_int64(statement, 1, first);
    sqlite3_bind_int64(statement, 2, last);
    return statement;
}

enum { /* columns of a step in load order; the metrics follow */
       STEP_SEGMENT,
       STEP_STEP,
       STEP_EPOCH,
       STEP_PHASE,
       STEP_BATCH,
       STEP_WALL_NS,
       STEP_BAND,
       STEP_REASON,
       STEP_SUBJECT,
       STEP_BAD,
       STEP_INPUT_HASH,
       STEP_LABEL_HASH,
       STEP_METRICS
};

static sqlite3_stmt *select_columns(struct runfile *file, int64_t seq, struct error *error) {
    static const char head[] = "SELECT segment, step, epoch, phase, batch, wall_ns, band, reason, "
                               "subject, bad, input_hash, label_hash";
    static const char tail[] = " FROM steps WHERE seq = ?";
    struct buffer sql = {0};
    int failed = buffer_append(&sql, head, sizeof head - 1);
    failed |= runfile_list_columns(&sql, &file->schema, "");
    failed |= buffer_append(&sql, tail, sizeof tail);
    if (failed) error_set(error, "run file %s: no memory", file->path);
    sqlite3_stmt *statement = failed ? NULL : prepare(file, sql.data, error);
    buffer_free(&sql);
    if (statement) sqlite3_bind_int64(statement, 1, seq);
    return statement;
}

static const char *text_at(sqlite3_stmt *statement, int column) {
    const unsigned char *text = sqlite3_column_text(statement, column);
    return text ? (const char *)text : "";
}

static int32_t known_at(sqlite3_stmt *statement, int column) {
    return sqlite3_column_type(statement, column) == SQLITE_NULL
               ? -1
               : sqlite3_column_int(statement, column);
}

/* "loss=nan grad_norm=inf" */
static void apply_bad(const struct schema *schema, struct record *record, const char *bad) {
    while (*bad) {
        size_t length = strcspn(bad, " "), name = strcspn(bad, "= ");
        char metric[SCHEMA_METRIC_SIZE] = "";
        if (name < sizeof metric && name < length) memcpy(metric, bad, name);
        int slot = schema_find_metric(schema, metric);
        double value = strtod(bad + (name < length ? name + 1 : length), NULL);
        if (slot >= 0 && !isfinite(value)) record_set(record, slot, value);
        bad += length + (bad[length] == ' ');
    }
}

static void apply_columns(const struct schema *schema, sqlite3_stmt *statement,
                          struct record *record) {
    record_clear(record);
    int band = band_find(text_at(statement, STEP_BAND)),
        reason = band_reason_find(text_at(statement, STEP_REASON));
    record->segment = (uint32_t)sqlite3_column_int64(statement, STEP_SEGMENT);
    record->schema_id = schema->id;
    record->step = sqlite3_column_int64(statement, STEP_STEP);
    record->epoch = known_at(statement, STEP_EPOCH);
    record->phase = known_at(statement, STEP_PHASE);
    record->batch = known_at(statement, STEP_BATCH);
    record->wall_ns = sqlite3_column_int64(statement, STEP_WALL_NS);
    record->band = band < 0 ? BAND_FINITE : (enum band)band;
    record->reason = reason < 0 ? REASON_NONE : (enum reason)reason;
    text_copy(record->subject, sizeof record->subject, text_at(statement, STEP_SUBJECT));
    record->hashed = sqlite3_column_type(statement, STEP_INPUT_HASH) != SQLITE_NULL;
    record->input_hash = strtoull(text_at(statement, STEP_INPUT_HASH), NULL, 16);
    record->label_hash = strtoull(text_at(statement, STEP_LABEL_HASH), NULL, 16);
    for (int slot = 0, column = STEP_METRICS; slot < schema->metrics; slot++) {
        if (!runfile_has_column(schema, slot)) continue;
        if (sqlite3_column_type(statement, column) != SQLITE_NULL)
            record_set(record, slot, sqlite3_column_double(statement, column));
        column++;
    }
    apply_bad(schema, record, text_at(statement, STEP_BAD));
}

/* A step whose full record is no longer kept. */
static int load_columns(struct runfile *file, int64_t seq, struct record *record,
                        struct error *error) {
    sqlite3_stmt *statement = select_columns(file, seq, error);
    if (!statement) return -1;
    int code = sqlite3_step(statement);
    if (code == SQLITE_ROW) {
        apply_columns(&file->schema, statement, record);
        record->seq = (uint64_t)seq;
    }
    return finish(file, statement, code, error);
}

static int load_step(struct runfile *file, sqlite3_stmt *statement, struct record *record,
                     struct error *error) {
    size_t size;
    struct error reason;
    const void *blob = blob_at(statement, 1, &size);
    if (!blob) return load_columns(file, sqlite3_column_int64(statement, 2), record, error);
    if (codec_decode_record(blob, size, &file->schema, record, &reason) >= 0) return 0;
    return error_set(error, "run file %s: step %lld: %s", file->path,
                     (long long)sqlite3_column_int64(statement, 0), reason.text);
}

int runfile_each_step(struct runfile *file, int64_t first, int64_t last,
                      int (*each)(void *user, const struct record *record), void *user,
                      struct error *error) {
    struct record record;
    if (record_init(&record, file->schema.tensors) < 0)
        return error_set(error, "run file %s: no memory", file->path);
    sqlite3_stmt *statement = select_steps(file, first, last, error);
    int code = SQLITE_DONE, result = statement ? 0 : -1;
    while (result == 0 && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        result = load_step(file, statement, &record, error);
        if (result == 0 && each(user, &record) != 0) break;
    }
    record_free(&record);
    if (result == 0) return finish(file, statement, code, error);
    sqlite3_finalize(statement);
    return result;
}

int runfile_each_blob(struct runfile *file, int64_t first, int64_t last,
                      int (*each)(void *user, int64_t step, const void *blob, size_t size),
                      void *user, struct error *error) {
    sqlite3_stmt *statement = select_steps(file, first, last, error);
    if (!statement) return -1;
    int code;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        size_t size;
        const void *blob = blob_at(statement, 1, &size);
        if (each(user, sqlite3_column_int64(statement, 0), blob, size) != 0) break;
    }
    return finish(file, statement, code, error);
}

int runfile_each_event(struct runfile *file, int (*each)(void *user, const struct event *event),
                       void *user, struct error *error) {
    sqlite3_stmt *statement = prepare(file, "SELECT event, seq FROM events ORDER BY seq", error);
    if (!statement) return -1;
    int code;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        struct event event;
        struct error reason;
        size_t size;
        const void *blob = blob_at(statement, 0, &size);
        if (codec_decode_event(blob, size, &event, &reason) < 0) {
            error_set(error, "run file %s: event %lld: %s", file->path,
                      (long long)sqlite3_column_int64(statement, 1), reason.text);
            sqlite3_finalize(statement);
            return -1;
        }
        if (each(user, &event) != 0) break;
    }
    return finish(file, statement, code, error);
}

int runfile_each_bucket(struct runfile *file, const struct schema *schema, int level,
                        int (*each)(void *user, const struct codec_buckets *one), void *user,
                        struct error *error) {
    sqlite3_stmt *statement =
        prepare(file, "SELECT bucket, first FROM pyramid WHERE level = ? ORDER BY first", error);
    if (!statement) return -1;
    sqlite3_bind_int(statement, 1, level);
    int code;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        struct codec_buckets one;
        struct error reason;
        size_t size;
        const void *blob = blob_at(statement, 0, &size);
        if (codec_decode_buckets(blob, size, schema, &one, &reason) < 0) {
            error_set(error, "run file %s: bucket at step %lld: %s", file->path,
                      (long long)sqlite3_column_int64(statement, 1), reason.text);
            sqlite3_finalize(statement);
            return -1;
        }
        int enough = each(user, &one);
        codec_buckets_free(&one);
        if (enough != 0) break;
    }
    return finish(file, statement, code, error);
}
