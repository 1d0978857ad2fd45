#include "kernels/cpu/workers.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Operations follow each other within microseconds: looking again is cheaper than sleeping. Some 20
 * us. */
enum { SPINS = 1000 };

struct member {
    struct workers *workers;
    pthread_t thread;
    int number;
};

struct workers {
    int threads;
    struct member *member; /* (threads), the first unused: it is the caller */
    workers_fn *fn;        /* of the operation going on; NULL: stop */
    void *context;
    int tasks;
    atomic_uint operation; /* counts up when fn, context and tasks are set */
    atomic_int busy;       /* members that have not finished it */
    pthread_mutex_t lock;
    pthread_cond_t begun, finished;
};

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

static void run_share(struct workers *workers, int number) {
    int first = (int)((long)workers->tasks * number / workers->threads);
    int last = (int)((long)workers->tasks * (number + 1) / workers->threads);
    if (first < last) workers->fn(workers->context, first, last, number);
}

static void wait_begun(struct workers *workers, unsigned seen) {
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&workers->operation, memory_order_acquire) != seen) return;
        relax();
    }
    pthread_mutex_lock(&workers->lock);
    while (atomic_load(&workers->operation) == seen)
        pthread_cond_wait(&workers->begun, &workers->lock);
    pthread_mutex_unlock(&workers->lock);
}

static void wait_finished(struct workers *workers) {
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&workers->busy, memory_order_acquire) == 0) return;
        relax();
    }
    pthread_mutex_lock(&workers->lock);
    while (atomic_load(&workers->busy) > 0) pthread_cond_wait(&workers->finished, &workers->lock);
    pthread_mutex_unlock(&workers->lock);
}

static void *member_main(void *argument) {
    struct member *member = argument;
    struct workers *workers = member->workers;
    for (unsigned seen = 0;; seen++) {
        wait_begun(workers, seen);
        if (workers->fn == NULL) return NULL;
        run_share(workers, member->number);
        if (atomic_fetch_sub(&workers->busy, 1) == 1) {
            pthread_mutex_lock(&workers->lock);
            pthread_cond_signal(&workers->finished);
            pthread_mutex_unlock(&workers->lock);
        }
    }
}

static void begin(struct workers *workers, workers_fn *fn, void *context, int tasks) {
    workers->fn = fn;
    workers->context = context;
    workers->tasks = tasks;
    atomic_store(&workers->busy, workers->threads - 1);
    pthread_mutex_lock(&workers->lock);
    atomic_fetch_add(&workers->operation, 1);
    pthread_cond_broadcast(&workers->begun);
    pthread_mutex_unlock(&workers->lock);
}

struct workers *workers_open(int threads, struct error *error) {
    struct workers *workers = calloc(1, sizeof *workers);
    struct member *member = calloc((size_t)threads, sizeof *member);
    if (workers == NULL || member == NULL) {
        free(workers);
        free(member);
        error_set(error, "starting %d threads: no memory", threads);
        return NULL;
    }
    workers->member = member;
    pthread_mutex_init(&workers->lock, NULL);
    pthread_cond_init(&workers->begun, NULL);
    pthread_cond_init(&workers->finished, NULL);
    for (workers->threads = 1; workers->threads < threads; workers->threads++) {
        struct member *next = &member[workers->threads];
        *next = (struct member){.workers = workers, .number = workers->threads};
        int failed = pthread_create(&next->thread, NULL, member_main, next);
        if (failed != 0) {
            error_set(error, "starting %d threads: %s", threads, strerror(failed));
            workers_close(workers);
            return NULL;
        }
    }
    return workers;
}

void workers_close(struct workers *workers) {
    if (workers == NULL) return;
    begin(workers, NULL, NULL, 0);
    for (int i = 1; i < workers->threads; i++) pthread_join(workers->member[i].thread, NULL);
    pthread_cond_destroy(&workers->finished);
    pthread_cond_destroy(&workers->begun);
    pthread_mutex_destroy(&workers->lock);
    free(workers->member);
    free(workers);
}

void workers_run(struct workers *workers, workers_fn *fn, void *context, int tasks) {
    if (workers->threads == 1 || tasks == 1) {
        fn(context, 0, tasks, 0);
        return;
    }
    begin(workers, fn, context, tasks);
    run_share(workers, 0);
    wait_finished(workers);
}
