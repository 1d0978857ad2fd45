#include "trainer/loop.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "shared/core/text.h"
#include "shared/store/codec.h"

#define SECOND_NS INT64_C(1000000000)

enum {
    CHECKPOINT_S = 10,
    GROWTH_STEP = 20,
    ROW_BYTES = 400 /* of run.db besides a step's record, measured over 2,500 steps */
};

/* How a run can end; GOING_ON until it does. */
enum ending { GOING_ON, FINISHED, LIMIT_REACHED, STOPPED, STOPPED_NONFINITE, STOPPED_ALARM };

static const char *const ENDING[] = {
    [FINISHED] = "finished",
    [LIMIT_REACHED] = "step limit reached",
    [STOPPED] = "stopped",
    [STOPPED_NONFINITE] = "stopped on a non-finite step",
    [STOPPED_ALARM] = "stopped on an alarm",
};

static int64_t read_clock(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * SECOND_NS + now.tv_nsec;
}

static int64_t mono_ns(void) { return read_clock(CLOCK_MONOTONIC); }

/* Lines take the place of the one of progress, which is drawn again. */
static void clear_progress(const struct training *training) {
    if (training->terminal) fputs("\r\033[K", stderr);
}

static void say(const struct training *training, const char *line) {
    clear_progress(training);
    puts(line);
    fflush(stdout);
}

static void warn(const struct training *training, const char *line) {
    clear_progress(training);
    fprintf(stderr, "%s\n", line);
}

static void publish_record(struct training *training) {
    struct record *slot = publisher_begin(training->publisher);
    if (slot && record_copy(slot, &training->tracer.record) == 0)
        publisher_submit(training->publisher);
}

static void publish_event(struct training *training, enum event_kind kind, struct report_place at,
                          enum band band, const char *text) {
    struct event event;
    event_init(&event, kind);
    event.wall_ns = read_clock(CLOCK_REALTIME);
    event.step = at.step;
    event.epoch = at.epoch;
    event.phase = at.phase;
    event.batch = at.batch;
    event.band = band;
    text_copy(event.text, sizeof event.text, text);
    publisher_event(training->publisher, &event);
}

/* Neither the state nor what led to it hides anything: see struct checkpoint. */
static bool is_safe(const struct training *training, const struct verdict *verdict) {
    return training->tracer.record.band == BAND_FINITE && verdict->onset < 0 &&
           tracer_state_band(&training->tracer) == BAND_FINITE;
}

/* Of the state after the step at `place`. */
static struct checkpoint describe_state(const struct training *training,
                                        const struct training_place *place,
                                        enum checkpoint_kind kind, const char *mark) {
    struct checkpoint checkpoint = {.kind = kind,
                                    .run_id = training->hello.run_id,
                                    .step = place->at.step,
                                    .epoch = place->at.epoch,
                                    .phase = place->at.phase,
                                    .batch = place->at.batch,
                                    .seed = training->schedule.seed,
                                    .offset = place->offset + place->images};
    text_copy(checkpoint.mark, sizeof checkpoint.mark, mark);
    return checkpoint;
}

/* Has the committed state written, once a step. */
static void save_checkpoint(struct training *training, enum checkpoint_kind kind,
                            const char *mark) {
    struct checkpoint checkpoint = describe_state(training, &training->written, kind, mark);
    struct writer_job *job = writer_begin(training->writer, kind);
    char line[REPORT_SIZE];
    snprintf(checkpoint.path, sizeof checkpoint.path, "%s/step-%08" PRId64 ".safetensors",
             training->folder.path, checkpoint.step);
    checkpoint.safe = training->safe;
    training->saved_ns = mono_ns();
    if (job) {
        job->checkpoint = checkpoint;
        model_get_state(&training->model, &job->state);
        writer_submit(training->writer, job);
        return;
    }
    snprintf(line, sizeof line,
             "cannot write %s: the disk is still busy with the checkpoint before it",
             checkpoint.path);
    warn(training, line);
}

/* A checkpoint is published once its file is there. False: no job. */
static bool tell_written(struct training *training, const struct writer_job *job) {
    if (!job) return false;
    const struct checkpoint *of = &job->checkpoint;
    struct report_place at = {of->step, of->epoch, of->phase, of->batch};
    if (job->result < 0) warn(training, job->error.text);
    if (job->result == 0 && of->kind != CHECKPOINT_ONSET)
        publish_event(training, EVENT_CHECKPOINT, at, of->safe ? BAND_FINITE : BAND_EXTREME,
                      of->path);
    return true;
}

/* While both states are there: before anything is committed. */
static void record_onset(struct training *training, const struct verdict *verdict) {
    struct error error;
    if (verdict->onset == training->place.at.step) {
        struct checkpoint before =
            describe_state(training, &training->written, CHECKPOINT_ONSET, "before the onset");
        struct checkpoint after =
            describe_state(training, &training->place, CHECKPOINT_ONSET, "after the onset");
        onset_keep(&training->onset, &training->model, &before, &after);
    }
    if (verdict->alarm && onset_save(&training->onset, &error)) warn(training, error.text);
}

/* Judges and publishes what was just measured. GOING_ON: what it proposes is to be written. */
static enum ending settle(struct training *training, const struct tracer_step *step) {
    struct tracer *tracer = &training->tracer;
    struct verdict verdict = tracer_judge(tracer, step);
    struct event event;
    char line[REPORT_SIZE];
    bool rings = detector_event(tracer->schema, &tracer->record, &verdict, &event);
    report_apply(&training->report, &tracer->record, &verdict, rings ? &event : NULL);
    publish_record(training);
    if (rings) publisher_event(training->publisher, &event);
    if (verdict.alarm) warn(training, report_alarm(line, &training->report, &event));
    record_onset(training, &verdict);
    int stop_on = training->options->stop_on;
    if (tracer->record.band == BAND_NONFINITE && stop_on != OPTIONS_STOP_NEVER)
        return STOPPED_NONFINITE;
    if (verdict.alarm && stop_on == OPTIONS_STOP_EXTREME) return STOPPED_ALARM;
    training->safe = is_safe(training, &verdict);
    tracer_commit(tracer);
    return GOING_ON;
}

static void settle_initial(struct training *training) {
    const struct model_measure *measure = tracer_begin(&training->tracer);
    struct tracer_step step = {
        .epochs = training->schedule.epochs, .batches = -1, .phase_data = ""};
    if (measure) model_measure_state(&training->model, measure);
    step.wall_ns = read_clock(CLOCK_REALTIME);
    step.mono_ns = mono_ns();
    settle(training, &step);
}

static void run_inject(struct training *training, const struct kernels_step *step,
                       const struct model_measure *measure) {
    const struct options_inject *inject = &training->options->inject;
    if (inject->step == step->step)
        model_inject(&training->model, step, measure, model_find_parameter(inject->tensor),
                     inject->factor);
}

/* The step at training->place. A step counts from the end of the one before: its time holds what
 * that one took to be written and published. */
static enum ending run_step(struct training *training) {
    const struct training_place *place = &training->place;
    const struct schedule_phase *phase = &training->schedule.phase[place->phase];
    struct kernels_step step = {.step = place->at.step,
                                .offset = place->offset,
                                .batch = place->images,
                                .lr = phase->lr,
                                .momentum = (float)training->options->momentum};
    struct tracer_step trace = {.step = step.step,
                                .epoch = place->at.epoch,
                                .phase = place->at.phase,
                                .batch = place->at.batch,
                                .epochs = training->schedule.epochs,
                                .batches = training_count_batches(training, place->phase),
                                .phase_data = phase->data,
                                .dataset = &training->dataset,
                                .image = training->order + place->offset,
                                .images = step.batch,
                                .lr = phase->lr};
    const struct model_measure *measure = tracer_begin(&training->tracer);
    model_step(&training->model, &step, measure, trace.outcome);
    run_inject(training, &step, measure);
    trace.wall_ns = read_clock(CLOCK_REALTIME);
    trace.mono_ns = mono_ns();
    trace.took_ns = trace.mono_ns - training->mark_ns;
    training->mark_ns = trace.mono_ns;
    enum ending ending = settle(training, &trace);
    if (ending != GOING_ON) return ending;
    model_commit(&training->model);
    training->written = *place;
    return GOING_ON;
}

/* Sleeps until the next step is due; the time is nobody's. */
static void keep_pace(struct training *training) {
    double pace = training->options->pace;
    if (pace <= 0) return;
    int64_t due_ns = training->due_ns + (int64_t)(1e9 / pace), now_ns = mono_ns();
    if (due_ns < now_ns) due_ns = now_ns;
    struct timespec due = {.tv_sec = due_ns / SECOND_NS, .tv_nsec = due_ns % SECOND_NS};
    training->due_ns = due_ns;
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL); /* a signal ends it */
    training->mark_ns = mono_ns();
}

static void tell_progress(struct training *training, bool epoch_end) {
    const struct record *record = &training->tracer.record;
    int64_t now_ns = mono_ns(), every_ns = training->terminal ? SECOND_NS / 10 : SECOND_NS;
    if ((!training->terminal && !epoch_end) || now_ns - training->told_ns < every_ns) return;
    char line[REPORT_SIZE];
    struct report_progress progress = {record, training->steps,
                                       (double)record->step * 1e9 /
                                           (double)(now_ns - training->started_ns)};
    training->told_ns = now_ns;
    report_progress(line, &training->report, &progress);
    fprintf(stderr, training->terminal ? "\r%s\033[K" : "%s\n", line);
}

/* How fast the run file grows, once the speed is known. */
static void tell_growth(struct training *training) {
    const struct record *record = &training->tracer.record;
    struct buffer buffer = {0};
    char line[REPORT_SIZE];
    if (record->step != GROWTH_STEP ||
        codec_encode_record(&buffer, &training->hello.schema, record))
        return;
    double seconds = (double)(mono_ns() - training->started_ns) / 1e9;
    double bytes = (double)buffer.size + ROW_BYTES, a_day = (double)record->step / seconds * 86400;
    snprintf(line, sizeof line,
             "run.db: %.1f KB a step, %.1f GB a day at this speed; beyond %.1f GB only the newest "
             "steps keep every tensor",
             bytes / 1e3, bytes * a_day / 1e9, (double)training->options->run_file_max / 1e9);
    say(training, line);
    buffer_free(&buffer);
}

static enum ending run_epoch(struct training *training) {
    struct training_place *place = &training->place;
    int64_t limit = training->options->limit_steps;
    int32_t images = training->schedule.phase[place->phase].images;
    int32_t batch_size = (int32_t)training->options->batch_size;
    schedule_shuffle(&training->schedule, place->phase, place->of_phase, training->order);
    model_set_order(&training->model, training->order, images);
    training->mark_ns = mono_ns();
    place->at.batch = 0;
    for (place->offset = 0; place->offset < images; place->offset += place->images) {
        if (limit && place->at.step == limit) return LIMIT_REACHED;
        keep_pace(training);
        if (*training->stop) return STOPPED;
        int32_t left = images - place->offset;
        place->images = left < batch_size ? left : batch_size;
        place->at.step++;
        place->at.batch++;
        enum ending ending = run_step(training);
        if (ending != GOING_ON) return ending;
        while (tell_written(training, writer_take(training->writer))) {}
        tell_growth(training);
        tell_progress(training, place->images == left);
    }
    return GOING_ON;
}

/* A phase end is saved always, another epoch's only some time after the newest checkpoint. */
static void save_epoch(struct training *training) {
    const struct schedule *schedule = &training->schedule;
    int phase = training->place.phase;
    char mark[CHECKPOINT_MARK_SIZE] = "";
    enum checkpoint_kind kind = CHECKPOINT_ORDINARY;
    if (training->place.of_phase == schedule->phase[phase].epochs) {
        kind = CHECKPOINT_PHASE_END;
        bool relaxation = phase + 1 < schedule->phases && schedule->phase[phase + 1].relaxation;
        snprintf(mark, sizeof mark, "phase %d end%s", phase + 1,
                 relaxation ? ", relaxation start" : "");
    } else if (mono_ns() - training->saved_ns < CHECKPOINT_S * SECOND_NS) {
        return;
    }
    save_checkpoint(training, kind, mark);
}

static enum ending run_phases(struct training *training) {
    const struct schedule *schedule = &training->schedule;
    struct training_place *place = &training->place;
    for (place->phase = 0; place->phase < schedule->phases; place->phase++) {
        const struct schedule_phase *phase = &schedule->phase[place->phase];
        place->at.phase = place->phase + 1;
        for (place->of_phase = 1; place->of_phase <= phase->epochs; place->of_phase++) {
            place->at.epoch = schedule_epoch(schedule, place->phase, place->of_phase);
            struct report_place first = {place->at.step + 1, place->at.epoch, place->at.phase, 1};
            if (place->of_phase == 1)
                publish_event(training, EVENT_PHASE, first, BAND_FINITE, phase->data);
            enum ending ending = run_epoch(training);
            if (ending != GOING_ON) return ending;
            save_epoch(training);
        }
    }
    return FINISHED;
}

/* The state that the run ends with, unless its file is there. Waiting for the disk is right here.
 */
static void save_last(struct training *training) {
    while (tell_written(training, writer_wait(training->writer))) {}
    const struct checkpoint *newest = checkpoint_find_newest(&training->checkpoints);
    int64_t step = training->written.at.step;
    if (step > 0 && !(newest && newest->step == step))
        save_checkpoint(training, CHECKPOINT_ORDINARY, "");
    while (tell_written(training, writer_wait(training->writer))) {}
}

static void introduce(const struct training *training) {
    const struct hello *hello = &training->hello;
    printf("data: %d images of %s\n", training->dataset.images, training->dataset.folder);
    printf("device: %s, %s\n", hello->device, hello->backend);
    int epochs = training->schedule.epochs;
    printf("run: %s, %" PRId64 " step%s in %d epoch%s\n", training->folder.path, training->steps,
           training->steps == 1 ? "" : "s", epochs, epochs == 1 ? "" : "s");
    const char *bind = training->options->bind, *address = publisher_address(training->publisher);
    if (bind)
        printf("watch it: nantop %s\n", address);
    else
        printf("watch it: nantop %s (%s)\n", hello->name, address);
    if (bind && strcmp(strrchr(bind, ':'), strrchr(address, ':')) != 0)
        fprintf(stderr, "nantrain: %s is taken: publishing at %s\n", bind, address);
    fflush(stdout);
}

int loop_run(struct training *training) {
    const struct record *last = &training->tracer.record;
    char line[REPORT_SIZE];
    training->terminal = isatty(STDERR_FILENO) == 1;
    introduce(training);
    settle_initial(training);
    training->started_ns = training->due_ns = mono_ns();
    enum ending ending = run_phases(training);
    struct report_place at = {last->step, last->epoch, last->phase, last->batch};
    save_last(training);
    publish_event(training, EVENT_END, at, training->report.worst, ENDING[ending]);
    publisher_close(training->publisher);
    training->publisher = NULL;
    say(training, report_end(line, &training->report, &at, ENDING[ending],
                             checkpoint_find_safe(&training->checkpoints)));
    return report_exit_code(&training->report);
}
