/* The command line of nantrain: one table, from which the parser, the help text and the run's
 * recorded configuration come. */
#ifndef TRAINER_OPTIONS_H
#define TRAINER_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "kernels/kernels.h"
#include "shared/core/detector.h"
#include "trainer/schedule.h"

enum options_action { OPTIONS_TRAIN, OPTIONS_HELP, OPTIONS_VERSION };
enum options_stop { OPTIONS_STOP_NONFINITE, OPTIONS_STOP_EXTREME, OPTIONS_STOP_NEVER };
enum options_device { OPTIONS_AUTO, OPTIONS_CPU, OPTIONS_CUDA };
enum options_init { OPTIONS_INIT_DEFAULT, OPTIONS_INIT_GOLDEN };

enum { OPTIONS_BATCH_MAX = 4096, OPTIONS_ROWS_MAX = 48 };

struct options_inject {
    int64_t step;                  /* 0: no fault is injected */
    char tensor[SCHEMA_NAME_SIZE]; /* parameter whose gradient is multiplied */
    float factor;
};

/* Texts point into argv or are constants. */
struct options {
    enum options_action action;
    struct schedule_options schedule;
    const char *data;     /* "mnist", "fashion" or a folder */
    int64_t limit_images; /* first images of the data set; 0: all */
    int64_t limit_steps;  /* 0: to the end of the schedule */
    int64_t batch_size;
    int leaky;    /* 0 relu, 1 leaky-relu */
    double slope; /* of leaky-relu */
    double momentum;
    int scale;           /* enum kernels_scale */
    int init;            /* enum options_init */
    int device;          /* enum options_device */
    const char *backend; /* shared object; NULL */
    int64_t threads;     /* 0: one per core */
    double pace;         /* steps a second; 0: as fast as it goes */
    int stats_off;       /* 1: nothing is measured but loss and accuracy */
    int stop_on;         /* enum options_stop */
    struct detector_limits limits;
    struct options_inject inject;
    int64_t keep_last;    /* checkpoints */
    int64_t run_file_max; /* bytes */
    const char *bind;     /* NULL: ipc */
    bool insecure;
    const char *run_dir;
    const char *name;                   /* NULL: history and seed */
    const char *text[OPTIONS_ROWS_MAX]; /* value of every row as written; NULL: unset */
};

/* -1: an unknown option or command, or a value that is not one, in one sentence. */
int options_parse(struct options *options, int argc, char **argv, struct error *error);
void options_print_help(FILE *out);
/* Every option that has a value, and every threshold. */
void options_describe(const struct options *options, struct hello *hello);

#endif
