#include "trainer/writer.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/schedule.h"

enum {
    ORDINARY = 1,
    PHASE_ENDS = SCHEDULE_PHASES_MAX,
    ONSETS = 2, /* before and after */
    SLOTS = ORDINARY + PHASE_ENDS + ONSETS,
    QUEUE = SLOTS + 1 /* and the end */
};

static const int SLOTS_OF[] = {[CHECKPOINT_ORDINARY] = ORDINARY,
                               [CHECKPOINT_PHASE_END] = PHASE_ENDS,
                               [CHECKPOINT_ONSET] = ONSETS};

/* The semaphores are all that orders the two threads: a job is the thread's from `queued` to
 * `done`. */
struct writer {
    struct writer_options options;
    pthread_t thread;
    sem_t queued, done;
    struct writer_job *queue[QUEUE]; /* in the order of submission; NULL ends the thread */
    unsigned submitted, taken;       /* so many, by the caller */
    int in_use[CHECKPOINT_KINDS];
    struct writer_job slot[SLOTS];
};

static void wait_for(sem_t *semaphore) {
    while (sem_wait(semaphore)) {} /* a signal ended it */
}

static void *run_writer(void *of) {
    struct writer *writer = of;
    const struct writer_options *options = &writer->options;
    for (unsigned written = 0;; written++) {
        wait_for(&writer->queued);
        struct writer_job *job = writer->queue[written % QUEUE];
        if (!job) return NULL;
        job->result = options->save(options->list, &job->checkpoint, options->model, &job->state,
                                    &job->error);
        sem_post(&writer->done);
    }
}

static int start_thread(struct writer *writer) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* which the thread inherits */
    int failed = pthread_create(&writer->thread, NULL, run_writer, writer);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

int writer_open(struct writer **out, const struct writer_options *options, struct error *error) {
    struct writer *writer = calloc(1, sizeof *writer);
    if (!writer) return error_set(error, "preparing the checkpoints: no memory");
    writer->options = *options;
    if (!writer->options.save) writer->options.save = checkpoint_save;
    sem_init(&writer->queued, 0, 0);
    sem_init(&writer->done, 0, 0);
    int failed = start_thread(writer);
    if (failed) {
        free(writer);
        return error_set(error, "starting the thread that writes checkpoints: %s",
                         strerror(failed));
    }
    *out = writer;
    return 0;
}

static void enqueue(struct writer *writer, struct writer_job *job) {
    writer->queue[writer->submitted++ % QUEUE] = job;
    sem_post(&writer->queued);
}

void writer_close(struct writer *writer) {
    if (!writer) return;
    enqueue(writer, NULL);
    pthread_join(writer->thread, NULL);
    sem_destroy(&writer->queued);
    sem_destroy(&writer->done);
    free(writer);
}

struct writer_job *writer_begin(struct writer *writer, enum checkpoint_kind kind) {
    struct writer_job *job = writer->slot;
    if (writer->in_use[kind] == SLOTS_OF[kind]) return NULL;
    while (job->busy) job++; /* one is free: there are as many as all kinds may use */
    writer->in_use[kind]++;
    job->checkpoint = (struct checkpoint){.kind = kind};
    job->busy = true;
    return job;
}

void writer_submit(struct writer *writer, struct writer_job *job) { enqueue(writer, job); }

static const struct writer_job *take(struct writer *writer) {
    struct writer_job *job = writer->queue[writer->taken++ % QUEUE];
    writer->in_use[job->checkpoint.kind]--;
    job->busy = false;
    return job;
}

const struct writer_job *writer_take(struct writer *writer) {
    return sem_trywait(&writer->done) ? NULL : take(writer);
}

const struct writer_job *writer_wait(struct writer *writer) {
    if (writer->taken == writer->submitted) return NULL;
    wait_for(&writer->done);
    return take(writer);
}
