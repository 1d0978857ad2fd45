#include "shared/store/runfile.h"

#include <errno.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "shared/store/runfile_part.h"

enum {
    APPLICATION_ID = 0x6e616e74 /* "nant" */,
    HEADER_SIZE = 100,
    WAL_FORMAT = 2,
    BUSY_MS = 1000
};

#define SUFFIX_SIZE 64

int runfile_fail(const struct runfile *file, const char *doing, struct error *error) {
    int code = sqlite3_errcode(file->db);
    bool damaged = (code & 0xff) == SQLITE_CORRUPT || (code & 0xff) == SQLITE_NOTADB;
    return error_set(error, "run file %s: cannot %s: %s", file->path, doing,
                     damaged ? "it is damaged, or cut short" : sqlite3_errmsg(file->db));
}

static struct runfile *new_file(const char *path) {
    struct runfile *file = calloc(1, sizeof *file);
    if (!file) return NULL;
    schema_init(&file->schema);
    file->path = strdup(path);
    if (file->path) return file;
    free(file);
    return NULL;
}

static void close_database(struct runfile *file) {
    for (int i = 0; i < RUNFILE_STATEMENTS; i++) {
        sqlite3_finalize(file->statement[i]);
        file->statement[i] = NULL;
    }
    sqlite3_close(file->db);
    file->db = NULL;
}

static void free_file(struct runfile *file) {
    close_database(file);
    schema_free(&file->schema);
    buffer_free(&file->scratch);
    free(file->path);
    free(file);
}

static char *beside(const char *path, const char *suffix) {
    char *name = malloc(strlen(path) + strlen(suffix) + 1);
    if (name) strcat(strcpy(name, path), suffix);
    return name;
}

static bool exists_beside(const char *path, const char *suffix) {
    char *name = beside(path, suffix);
    bool exists = name && access(name, F_OK) == 0;
    free(name);
    return exists;
}

static void remove_beside(const char *path, const char *suffix) {
    char *name = beside(path, suffix);
    if (name) unlink(name);
    free(name);
}

/* Shared memory, which WAL needs, does not reach another host. */
static bool on_network(const char *path) {
    static const unsigned long network[] = {NFS_SUPER_MAGIC,  SMB_SUPER_MAGIC,  CIFS_SUPER_MAGIC,
                                            SMB2_SUPER_MAGIC, FUSE_SUPER_MAGIC, AFS_SUPER_MAGIC,
                                            CEPH_SUPER_MAGIC, V9FS_MAGIC};
    struct statfs folder;
    if (statfs(path, &folder) < 0) return false;
    for (size_t i = 0; i < sizeof network / sizeof *network; i++) {
        if (((unsigned long)folder.f_type & 0xffffffff) == network[i]) return true;
    }
    return false;
}

static int open_database(struct runfile *file, const char *name, int flags, struct error *error) {
    close_database(file);
    if (sqlite3_open_v2(name, &file->db, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE,
                        NULL) != SQLITE_OK) {
        return runfile_fail(file, "open it", error);
    }
    sqlite3_busy_timeout(file->db, BUSY_MS);
    return 0;
}

static int run_sql(struct runfile *file, const char *sql, const char *doing, struct error *error) {
    return sqlite3_exec(file->db, sql, NULL, NULL, NULL) == SQLITE_OK
               ? 0
               : runfile_fail(file, doing, error);
}

/* Everything under the temporary name and in rollback mode, so that a file under the final name has
 * its tables in itself, also where it is copied without its -wal. */
static int build(struct runfile *file, const char *temporary, const struct hello *hello,
                 struct error *error) {
    char marks[128];
    snprintf(marks, sizeof marks, "PRAGMA application_id = %d; PRAGMA user_version = %d;",
             APPLICATION_ID, RUNFILE_VERSION);
    if (open_database(file, temporary, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, error) < 0)
        return -1;
    if (run_sql(file, marks, "create it", error) < 0) return -1;
    if (runfile_write_hello(file, hello, error) < 0) return -1;
    close_database(file);
    return 0;
}

/* Never over a file that is there. Leftovers of one that was deleted would be taken for this one's
 * log. */
static int put_in_place(const char *temporary, const char *path, struct error *error) {
    if (access(path, F_OK) == 0) return error_set(error, "run file %s: exists already", path);
    remove_beside(path, "-wal");
    remove_beside(path, "-shm");
    remove_beside(path, "-journal");
    if (link(temporary, path) == 0) {
        unlink(temporary);
        return 0;
    }
    bool no_links = errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS;
    if (no_links && rename(temporary, path) == 0) return 0;
    return error_set(error, "run file %s: cannot create it: %s", path, strerror(errno));
}

/* That it is not closed is said in the log and in the file itself, at once: see open_without_log.
 */
static int begin_writing(struct runfile *file, struct error *error) {
    if (open_database(file, file->path, SQLITE_OPEN_READWRITE, error) < 0) return -1;
    const char *mode =
        on_network(file->path) ? "PRAGMA journal_mode = TRUNCATE" : "PRAGMA journal_mode = WAL";
    file->writing = true;
    if (run_sql(file, mode, "open its log", error) < 0) return -1;
    return run_sql(file,
                   "PRAGMA synchronous = NORMAL; UPDATE run SET closed = 0; PRAGMA wal_checkpoint;",
                   "open its log", error);
}

static int create(struct runfile *file, const struct hello *hello, struct error *error) {
    char suffix[SUFFIX_SIZE];
    snprintf(suffix, sizeof suffix, ".%ld.tmp", (long)getpid());
    if (access(file->path, F_OK) == 0)
        return error_set(error, "run file %s: exists already", file->path);
    char *temporary = beside(file->path, suffix);
    if (!temporary || schema_copy(&file->schema, &hello->schema) < 0) {
        free(temporary);
        return error_set(error, "run file %s: no memory", file->path);
    }
    unlink(temporary);
    int result = build(file, temporary, hello, error);
    if (result == 0) result = put_in_place(temporary, file->path, error);
    if (result < 0) {
        close_database(file);
        unlink(temporary);
    }
    free(temporary);
    return result < 0 ? -1 : begin_writing(file, error);
}

int runfile_create(struct runfile **out, const char *path, const struct hello *hello,
                   int64_t max_bytes, struct error *error) {
    struct runfile *file = new_file(path);
    if (!file) return error_set(error, "run file %s: no memory", path);
    file->max_bytes = max_bytes;
    if (create(file, hello, error) < 0) {
        free_file(file);
        return -1;
    }
    *out = file;
    return 0;
}

static uint32_t big_endian(const unsigned char *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Before SQLite has a say, which names no reason. */
static int check_kind(const char *path, struct error *error) {
    struct stat stat_of;
    if (stat(path, &stat_of) < 0 || access(path, R_OK) < 0) {
        return error_set(error, "run file %s: cannot open it: %s", path, strerror(errno));
    }
    if (S_ISDIR(stat_of.st_mode)) return error_set(error, "%s is not a run file: a folder", path);
    if (!S_ISREG(stat_of.st_mode)) {
        return error_set(error, "%s is not a run file: not a plain file", path);
    }
    if (stat_of.st_size == 0) return error_set(error, "%s is not a run file: it is empty", path);
    return 0;
}

/* Through SQLite's own descriptor: closing another one of the same file would take away the locks
 * that this process holds on it elsewhere. */
static int load_header(struct runfile *file, unsigned char *header, struct error *error) {
    sqlite3_file *raw = NULL;
    if (open_database(file, file->path, SQLITE_OPEN_READONLY, error) < 0) return -1;
    sqlite3_file_control(file->db, "main", SQLITE_FCNTL_FILE_POINTER, &raw);
    int code = raw && raw->pMethods ? raw->pMethods->xRead(raw, header, HEADER_SIZE, 0) : SQLITE_OK;
    if (code != SQLITE_OK || memcmp(header, "SQLite format 3", 16) != 0) {
        return error_set(error, "%s is not a run file: no SQLite database", file->path);
    }
    return 0;
}

/* The marks are there from the first moment of a file. */
static int check_header(struct runfile *file, bool *wal_format, struct error *error) {
    unsigned char header[HEADER_SIZE] = {0};
    const char *path = file->path;
    if (check_kind(path, error) < 0 || load_header(file, header, error) < 0) return -1;
    if (big_endian(header + 68) != APPLICATION_ID)
        return error_set(error, "%s is not a run file, but another SQLite database", path);
    uint32_t version = big_endian(header + 60);
    if (version > RUNFILE_VERSION) {
        return error_set(error, "run file %s: of version %u, this program reads up to version %d",
                         path, version, RUNFILE_VERSION);
    }
    *wal_format = header[18] == WAL_FORMAT;
    return 0;
}

/* As it lies there, without locks and without a log. */
static int open_immutable(struct runfile *file, struct error *error) {
    struct buffer uri = {0};
    int failed = buffer_append_text(&uri, "file:");
    for (const char *at = file->path; *at; at++) {
        char escaped[4];
        bool plain = strchr("?#%", *at) == NULL;
        int length = snprintf(escaped, sizeof escaped, plain ? "%c" : "%%%02x", *at);
        failed |= buffer_append(&uri, escaped, (size_t)length);
    }
    failed |= buffer_append(&uri, "?immutable=1", 13);
    int result = failed
                     ? error_set(error, "run file %s: no memory", file->path)
                     : open_database(file, uri.data, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, error);
    buffer_free(&uri);
    return result;
}

/* What a query answers with one whole number; -1: cannot be read. */
static int load_number(struct runfile *file, const char *sql, struct error *error) {
    sqlite3_stmt *statement = NULL;
    int number = -1;
    if (sqlite3_prepare_v2(file->db, sql, -1, &statement, NULL) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW) {
        number = sqlite3_column_int(statement, 0);
    } else {
        runfile_fail(file, "read it", error);
    }
    sqlite3_finalize(statement);
    return number;
}

/* Whether its writer came to a clean end; -1: cannot be read. */
static int load_closed(struct runfile *file, struct error *error) {
    return load_number(file, "SELECT closed FROM run", error);
}

/* The log of a killed run is gone when any program has read the file, since the last reader moves
 * it into the file; it is missing when a live run was copied without it. Then what is there is all
 * we have, unless that is nothing. */
static int open_without_log(struct runfile *file, struct error *error) {
    if (open_immutable(file, error) < 0) return -1;
    int closed = load_closed(file, error);
    if (closed != 0) return closed < 0 ? -1 : 0;
    int steps = load_number(file, "SELECT EXISTS (SELECT 1 FROM steps)", error);
    if (steps == 0) {
        const char *slash = strrchr(file->path, '/');
        return error_set(error,
                         "run file %s: was copied from a live run without %s-wal, where its steps "
                         "are: copy both",
                         file->path, slash ? slash + 1 : file->path);
    }
    return steps < 0 ? -1 : 0;
}

static int open_reading(struct runfile *file, struct error *error) {
    bool wal_format = false;
    if (check_header(file, &wal_format, error) < 0) return -1;
    bool log = exists_beside(file->path, "-wal") || exists_beside(file->path, "-journal");
    if (wal_format && !log) {
        if (open_without_log(file, error) < 0) return -1;
    } else if (load_closed(file, error) < 0) {
        if (log || open_immutable(file, error) < 0) return -1; /* a file system without locks */
    }
    if (run_sql(file, "PRAGMA trusted_schema = OFF; PRAGMA temp_store = MEMORY;", "open it",
                error) < 0)
        return -1;
    struct hello hello;
    hello_init(&hello);
    int result = runfile_load_hello(file, &hello, error);
    if (result == 0 && schema_copy(&file->schema, &hello.schema) < 0)
        result = error_set(error, "run file %s: no memory", file->path);
    hello_free(&hello);
    return result;
}

int runfile_open(struct runfile **out, const char *path, struct error *error) {
    struct runfile *file = new_file(path);
    if (!file) return error_set(error, "run file %s: no memory", path);
    if (open_reading(file, error) < 0) {
        free_file(file);
        return -1;
    }
    *out = file;
    return 0;
}

void runfile_close(struct runfile *file) {
    if (!file) return;
    if (file->writing) {
        runfile_rollback(file);
        /* A reader that holds the file open hinders the last, but then nothing is in the log. */
        sqlite3_exec(file->db,
                     "UPDATE run SET closed = 1; PRAGMA wal_checkpoint(TRUNCATE);"
                     "PRAGMA journal_mode = DELETE;",
                     NULL, NULL, NULL);
    }
    free_file(file);
}

bool runfile_has_column(const struct schema *schema, int slot) {
    static const char *const taken[] = {"seq",   "segment",    "step",      "epoch",  "phase",
                                        "batch", "wall_ns",    "band",      "reason", "subject",
                                        "bad",   "input_hash", "label_hash"};
    const char *name = schema->metric[slot];
    if (slot < METRIC_COUNT) return true;
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        if (strcmp(name, taken[i]) == 0) return false;
    }
    return name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_")] == '\0' && name[0] > '9';
}

int runfile_list_columns(struct buffer *sql, const struct schema *schema, const char *suffix) {
    int failed = 0;
    for (int slot = 0; slot < schema->metrics; slot++) {
        if (!runfile_has_column(schema, slot)) continue;
        char column[SCHEMA_METRIC_SIZE + 16];
        int length = snprintf(column, sizeof column, ", \"%s\"%s", schema->metric[slot], suffix);
        failed |= buffer_append(sql, column, (size_t)length);
    }
    return failed;
}
