/* Threads that share out the tasks of one operation. A task's result must not depend on who runs
 * it. */
#ifndef KERNELS_CPU_WORKERS_H
#define KERNELS_CPU_WORKERS_H

#include "shared/core/error.h"

struct workers;

/* Tasks first..last-1 of the operation, for `worker` of 0..threads-1. */
typedef void workers_fn(void *context, int first, int last, int worker);

/* `threads` counts the caller. NULL: a thread could not be started. */
struct workers *workers_open(int threads, struct error *error);
void workers_close(struct workers *workers); /* NULL is legal */
/* Returns when all tasks are done. A worker that gets none is not called. */
void workers_run(struct workers *workers, workers_fn *fn, void *context, int tasks);

#endif
