/* What the parts of the run file share: runfile.c opens and closes, runfile_write.c and
 * runfile_read.c do what they say. */
#ifndef STORE_RUNFILE_PART_H
#define STORE_RUNFILE_PART_H

#include <sqlite3.h>

#include "shared/store/runfile.h"

enum runfile_statement { /* prepared at their first use */
                         RUNFILE_BEGIN,
                         RUNFILE_COMMIT,
                         RUNFILE_ROLLBACK,
                         RUNFILE_ADD_RUN,
                         RUNFILE_ADD_CONFIG,
                         RUNFILE_ADD_TENSOR,
                         RUNFILE_ADD_STEP,
                         RUNFILE_ADD_RECORD,
                         RUNFILE_ADD_EVENT,
                         RUNFILE_ADD_BUCKET,
                         RUNFILE_USED_BYTES,
                         RUNFILE_THIN,
                         RUNFILE_STATEMENTS
};

struct runfile {
    sqlite3 *db;
    char *path;
    struct schema schema; /* of the hello */
    bool writing;
    int64_t max_bytes;   /* 0: no limit */
    int64_t last_seq;    /* newest added */
    int64_t thinned_seq; /* up to here full records were dropped */
    struct buffer scratch;
    sqlite3_stmt *statement[RUNFILE_STATEMENTS];
};

/* "run file PATH: cannot DOING: what SQLite says". */
int runfile_fail(const struct runfile *file, const char *doing, struct error *error);
/* True where a metric has a column of its own in the table of steps. */
bool runfile_has_column(const struct schema *schema, int slot);
/* Appends `, "name"suffix` for each of these. -1: no memory. */
int runfile_list_columns(struct buffer *sql, const struct schema *schema, const char *suffix);

/* runfile_write.c: tables and the hello into an empty database, in one transaction. */
int runfile_write_hello(struct runfile *file, const struct hello *hello, struct error *error);

#endif
