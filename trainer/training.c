#include "trainer/training.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "shared/core/text.h"
#include "trainer/backend.h"

int32_t training_count_batches(const struct training *training, int phase) {
    int64_t batch = training->options->batch_size;
    return (int32_t)((training->schedule.phase[phase].images + batch - 1) / batch);
}

static int load_data(struct training *training, struct error *error) {
    const struct options *options = training->options;
    struct dataset *dataset = &training->dataset;
    if (dataset_load(dataset, options->data, error)) return -1;
    if (options->limit_images > dataset->images)
        return error_set(error, "option --limit-images: %s has only %d images", dataset->folder,
                         dataset->images);
    if (options->limit_images) dataset->images = (int)options->limit_images;
    if (schedule_init(&training->schedule, &options->schedule, dataset->label, dataset->images,
                      error))
        return -1;
    training->order = malloc((size_t)training->schedule.images_max * sizeof *training->order);
    if (!training->order)
        return error_set(error, "planning the run: no memory for %d images",
                         training->schedule.images_max);
    for (int i = 0; i < training->schedule.phases; i++)
        training->steps +=
            (int64_t)training->schedule.phase[i].epochs * training_count_batches(training, i);
    if (options->limit_steps && options->limit_steps < training->steps)
        training->steps = options->limit_steps;
    return 0;
}

static int init_state(struct training *training, struct error *error) {
    const struct options *options = training->options;
    struct model_state *state = malloc(sizeof *state);
    if (!state) return error_set(error, "making the initial weights: no memory");
    model_state_init(state, options->schedule.seed, options->init == OPTIONS_INIT_GOLDEN);
    model_set_state(&training->model, state);
    training->initial_hash = model_state_hash(state);
    free(state);
    return 0;
}

static int load_model(struct training *training, struct error *error) {
    const struct options *options = training->options;
    struct kernels_options opened = {.threads = (int)options->threads,
                                     .batch_max = (int)options->batch_size};
    struct model_options shape = {.batch_max = opened.batch_max,
                                  .slope = options->leaky ? (float)options->slope : 0,
                                  .scale = (enum kernels_scale)options->scale};
    if (training->kernels->open(&training->device, &opened, error)) return -1;
    model_init(&training->model, training->kernels, training->device, &shape);
    model_set_data(&training->model, &training->dataset);
    return init_state(training, error);
}

static void name_run(struct training *training) {
    struct hello *hello = &training->hello;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    hello->pid = getpid();
    hello->started_ns = now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
    text_copy(hello->name, sizeof hello->name, training->folder.name);
    uint64_t unique =
        (uint64_t)hello->started_ns * UINT64_C(0x9E3779B97F4A7C15) ^ (uint64_t)hello->pid;
    snprintf(hello->run_id, sizeof hello->run_id, "%.50s-%06x", hello->name,
             (unsigned)(unique >> 40));
}

static int fill_hello(struct training *training, struct error *error) {
    struct hello *hello = &training->hello;
    struct kernels_info info;
    char value[32];
    training->kernels->describe(training->device, &info);
    if (gethostname(hello->host, sizeof hello->host - 1))
        text_copy(hello->host, sizeof hello->host, "unknown");
    text_copy(hello->program, sizeof hello->program, "nantrain");
    text_copy(hello->version, sizeof hello->version, VERSION);
    text_copy(hello->device, sizeof hello->device, info.device);
    text_copy(hello->backend, sizeof hello->backend, info.backend);
    hello->threads = info.threads;
    options_describe(training->options, hello);
    hello_set_config(hello, "data_folder", training->dataset.folder);
    snprintf(value, sizeof value, "%d", training->dataset.images);
    hello_set_config(hello, "images", value);
    snprintf(value, sizeof value, "%016" PRIx64, training->initial_hash);
    hello_set_config(hello, "initial_state", value);
    tracer_describe(&hello->schema);
    if (model_describe(&training->model, (int)training->options->batch_size, &hello->schema))
        return error_set(error, "describing the run: no memory");
    return 0;
}

static int open_folder(struct training *training, struct error *error) {
    const struct options *options = training->options;
    char name[RECORD_ID_SIZE], path[RECORD_TEXT_SIZE + 16];
    snprintf(name, sizeof name, "%s-%" PRIu64, schedule_history_name(options->schedule.history),
             options->schedule.seed);
    if (folder_make(&training->folder, options->run_dir, options->name ? options->name : name,
                    !options->name, error))
        return -1;
    name_run(training);
    snprintf(path, sizeof path, "%s/run.db", training->folder.path);
    struct publisher_options publisher = {.hello = &training->hello,
                                          .bind = options->bind,
                                          .insecure = options->insecure,
                                          .run_file = path,
                                          .run_file_max = options->run_file_max};
    if (publisher_open(&training->publisher, &publisher, error)) {
        rmdir(training->folder.path); /* fails where something lies in it already */
        return -1;
    }
    return 0;
}

/* From what can be wrong with the input to what leaves something behind. */
static int prepare(struct training *training, struct error *error) {
    const struct options *options = training->options;
    if (*options->inject.tensor && model_find_parameter(options->inject.tensor) < 0)
        return error_set(error, "option --inject: no parameter is called %s",
                         options->inject.tensor);
    hello_init(&training->hello);
    training->kernels = backend_find(options, error);
    if (!training->kernels) return -1;
    if (load_data(training, error) || load_model(training, error) || fill_hello(training, error))
        return -1;
    if (tracer_init(&training->tracer, &training->hello.schema, &options->limits,
                    !options->stats_off))
        return error_set(error, "preparing the statistics: no memory");
    checkpoint_list_init(&training->checkpoints, (int)options->keep_last);
    struct writer_options writer = {.list = &training->checkpoints, .model = &training->model};
    if (writer_open(&training->writer, &writer, error) || open_folder(training, error)) return -1;
    onset_init(&training->onset, training->folder.path, training->writer);
    report_init(&training->report, training->folder.name, training->folder.path,
                &training->hello.schema);
    return 0;
}

int training_open(struct training *training, const struct options *options,
                  const volatile sig_atomic_t *stop, struct error *error) {
    *training = (struct training){.options = options, .stop = stop};
    if (prepare(training, error) == 0) return 0;
    training_close(training);
    return -1;
}

void training_close(struct training *training) {
    publisher_close(training->publisher);
    writer_close(training->writer);
    checkpoint_list_free(&training->checkpoints);
    tracer_free(&training->tracer);
    hello_free(&training->hello);
    free(training->order);
    model_free(&training->model);
    if (training->kernels) training->kernels->close(training->device);
    schedule_free(&training->schedule);
    dataset_free(&training->dataset);
    *training = (struct training){0};
}
