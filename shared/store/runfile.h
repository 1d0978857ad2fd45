/* The run file: run.db, SQLite. A row a step for people, and the record as published for programs,
 * in a table of its own so that dropping it gives its pages back. */
#ifndef STORE_RUNFILE_H
#define STORE_RUNFILE_H

#include "shared/core/record.h"
#include "shared/core/series.h"
#include "shared/store/codec.h"

enum { RUNFILE_VERSION = 1 };

struct runfile; /* one open database, one thread */

struct runfile_step { /* a step to be written */
    const struct record *record;
    const void *blob; /* as published */
    size_t blob_size;
};

/* Creates the file with its tables (temporary name, renamed when whole) and writes the hello. Fails
 * on an existing file. max_bytes (0: no limit): beyond it full records are kept for the newest
 * steps and around alarms, the columns and the pyramid for all. */
int runfile_create(struct runfile **out, const char *path, const struct hello *hello,
                   int64_t max_bytes, struct error *error);
/* For reading only; also one that is being written by another process. Not a run file, a newer one,
 * unreadable, copied from a live run without its log: -1. */
int runfile_open(struct runfile **out, const char *path, struct error *error);
/* Ends WAL mode and leaves a single file when it was opened for writing. NULL is legal. */
void runfile_close(struct runfile *file);

/* Writers. One transaction between begin and commit. -1: nothing of the transaction is there (disk
 * full ...), what follows in it fails too, and the file can be used again from the next begin. */
int runfile_begin(struct runfile *file, struct error *error);
int runfile_add_step(struct runfile *file, const struct runfile_step *step, struct error *error);
int runfile_add_event(struct runfile *file, const struct event *event, struct error *error);
/* One that is there already is replaced. */
int runfile_add_bucket(struct runfile *file, const struct schema *schema,
                       const struct codec_buckets *buckets, struct error *error);
int runfile_commit(struct runfile *file, struct error *error);
void runfile_rollback(struct runfile *file);

/* Readers. The hello as written. */
int runfile_load_hello(struct runfile *file, struct hello *hello, struct error *error);
/* First and last step in the file, and the newest seq; -1 with "" in error where there is none. */
int runfile_load_range(struct runfile *file, int64_t *first, int64_t *last, uint64_t *last_seq,
                       struct error *error);
/* Calls `each` for every step with first <= step <= last in order, last segment of a step only,
 * until it returns non-zero. The record is only valid in the call; where the full record is no
 * longer kept its tensors are not measured. */
int runfile_each_step(struct runfile *file, int64_t first, int64_t last,
                      int (*each)(void *user, const struct record *record), void *user,
                      struct error *error);
/* Likewise the raw blobs of steps (NULL, 0 where dropped), for answering `steps?`. */
int runfile_each_blob(struct runfile *file, int64_t first, int64_t last,
                      int (*each)(void *user, int64_t step, const void *blob, size_t size),
                      void *user, struct error *error);
int runfile_each_event(struct runfile *file, int (*each)(void *user, const struct event *event),
                       void *user, struct error *error);
/* Stored buckets of a level, in order. */
int runfile_each_bucket(struct runfile *file, const struct schema *schema, int level,
                        int (*each)(void *user, const struct codec_buckets *one), void *user,
                        struct error *error);

#endif
