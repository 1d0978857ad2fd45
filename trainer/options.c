#include "trainer/options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "shared/core/text.h"

struct row;
typedef int parse_fn(struct options *options, const struct row *row, const char *text,
                     struct error *error);

struct row {
    const char *name;
    const char *argument; /* NULL: a flag. Of a choice: the words, in the order of the enum */
    const char *fallback; /* parsed before the command line; NULL: unset */
    const char *help;
    parse_fn *parse;
    size_t offset;      /* of the field in struct options */
    double least, most; /* of a number */
};

static int refuse(const struct row *row, const char *text, struct error *error) {
    return error_set(error, "option --%s: \"%s\" is not %s", row->name, text, row->argument);
}

static int parse_whole(const char *text, const char **end, int64_t *value) {
    char *stop;
    if (*text < '0' || *text > '9') /* strtoll would skip blanks and take signs */
        return -1;
    errno = 0;
    *value = strtoll(text, &stop, 10);
    *end = stop;
    return errno ? -1 : 0;
}

static int parse_number(const char *text, const char **end, double *value) {
    char *stop;
    if (!strchr("0123456789.", *text) || !*text) return -1;
    *value = strtod(text, &stop);
    *end = stop;
    return isfinite(*value) ? 0 : -1;
}

static int parse_int(struct options *options, const struct row *row, const char *text,
                     struct error *error) {
    int64_t value;
    const char *end;
    if (parse_whole(text, &end, &value) || *end) return refuse(row, text, error);
    if ((double)value < row->least || (double)value > row->most)
        return error_set(error, "option --%s: %s is outside %.0f to %.0f", row->name, text,
                         row->least, row->most);
    *(int64_t *)((char *)options + row->offset) = value;
    return 0;
}

static int parse_real(struct options *options, const struct row *row, const char *text,
                      struct error *error) {
    double value;
    const char *end;
    if (parse_number(text, &end, &value) || *end) return refuse(row, text, error);
    if (value < row->least || value > row->most)
        return error_set(error, "option --%s: %s is outside %g to %g", row->name, text, row->least,
                         row->most);
    *(double *)((char *)options + row->offset) = value;
    return 0;
}

static int parse_text(struct options *options, const struct row *row, const char *text,
                      struct error *error) {
    if (!*text) return error_set(error, "option --%s: an empty %s", row->name, row->argument);
    *(const char **)((char *)options + row->offset) = text;
    return 0;
}

static int parse_flag(struct options *options, const struct row *row, const char *text,
                      struct error *error) {
    (void)text, (void)error;
    *(bool *)((char *)options + row->offset) = true;
    return 0;
}

static int parse_choice(struct options *options, const struct row *row, const char *text,
                        struct error *error) {
    size_t size = strlen(text);
    int number = 0;
    for (const char *word = row->argument; word; word = strchr(word, '|'), number++) {
        word += *word == '|';
        if (size && strcspn(word, "|") == size && strncmp(word, text, size) == 0) {
            *(int *)((char *)options + row->offset) = number;
            return 0;
        }
    }
    return refuse(row, text, error);
}

static int parse_history(struct options *options, const struct row *row, const char *text,
                         struct error *error) {
    int history = schedule_history_find(text);
    if (history < 0) return refuse(row, text, error);
    options->schedule.history = (enum schedule_history)history;
    return 0;
}

static int parse_epochs(struct options *options, const struct row *row, const char *text,
                        struct error *error) {
    const char *at = text, *end = "";
    int phases = 0;
    do {
        int64_t value;
        if (parse_whole(at, &end, &value) || value < 1 || value > 1000000 ||
            phases == SCHEDULE_PHASES_MAX)
            return refuse(row, text, error);
        options->schedule.epochs[phases++] = (int)value;
        at = end + 1;
    } while (*end == ',');
    options->schedule.phases = phases;
    return *end ? refuse(row, text, error) : 0;
}

static int parse_lr(struct options *options, const struct row *row, const char *text,
                    struct error *error) {
    const char *at = text, *end = "";
    double value = 0;
    int phases = 0;
    do {
        if (phases == SCHEDULE_PHASES_MAX || parse_number(at, &end, &value) || value > 1e6)
            return refuse(row, text, error);
        options->schedule.lr[phases++] = (float)value;
        at = end + 1;
    } while (*end == ',');
    for (; phases < SCHEDULE_PHASES_MAX; phases++) /* the last one repeats */
        options->schedule.lr[phases] = (float)value;
    return *end ? refuse(row, text, error) : 0;
}

static int parse_threshold(struct options *options, const struct row *row, const char *text,
                           struct error *error) {
    struct error reason = {""};
    if (detector_limits_set(&options->limits, text, &reason))
        return error_set(error, "option --%s: %s", row->name, reason.text);
    return 0;
}

static int parse_inject(struct options *options, const struct row *row, const char *text,
                        struct error *error) {
    struct options_inject inject = {0};
    const char *tensor, *factor;
    char *stop;
    if (parse_whole(text, &tensor, &inject.step) || inject.step < 1 || *tensor++ != ':')
        return refuse(row, text, error);
    factor = strchr(tensor, ':');
    if (!factor || (size_t)(factor - tensor) >= sizeof inject.tensor)
        return refuse(row, text, error);
    text_copy(inject.tensor, (size_t)(factor - tensor) + 1, tensor);
    inject.factor = strtof(factor + 1, &stop); /* nan and inf are welcome */
    if (stop == factor + 1 || *stop) return refuse(row, text, error);
    options->inject = inject;
    return 0;
}

static int parse_size(struct options *options, const struct row *row, const char *text,
                      struct error *error) {
    static const char UNIT[] = "KMGT";
    int64_t value;
    const char *end;
    if (parse_whole(text, &end, &value)) return refuse(row, text, error);
    const char *unit = *end ? strchr(UNIT, *end) : NULL;
    int shift = unit ? 10 * (int)(unit - UNIT + 1) : 0;
    if (end[unit ? 1 : 0] || value > INT64_MAX >> shift) return refuse(row, text, error);
    value <<= shift;
    if (value < 1 << 20) return error_set(error, "option --%s: %s is under 1M", row->name, text);
    *(int64_t *)((char *)options + row->offset) = value;
    return 0;
}

static int parse_action(struct options *options, const struct row *row, const char *text,
                        struct error *error) {
    (void)text, (void)error;
    options->action = strcmp(row->name, "help") == 0 ? OPTIONS_HELP : OPTIONS_VERSION;
    return 0;
}

#define FIELD(field) offsetof(struct options, field)

enum { ROW_EPOCHS = 0 }; /* its default depends on the history */

static const struct row ROW[] = {
    [ROW_EPOCHS] =
        {"epochs", "N[,N[,N]]", NULL,
         "epochs of each phase; fewer numbers end the run there (10,10,2; shuffled 10,2)",
         parse_epochs, 0, 0, 0},
    {"history", "sabc|sbac|shuffled", "sabc",
     "order of the data: classes 0-4 and 5-9, or all, then relaxation", parse_history, 0, 0, 0},
    {"lr", "RATE[,RATE[,RATE]]", "0.05", "learning rate of each phase; the last one repeats",
     parse_lr, 0, 0, 0},
    {"seed", "N", "1", "of the initial weights and the shuffles", parse_int, FIELD(schedule.seed),
     0, 0x1p53},
    {"momentum", "FACTOR", "0.9", "of SGD", parse_real, FIELD(momentum), 0, 1},
    {"batch-size", "N", "64", "images a step", parse_int, FIELD(batch_size), 1, OPTIONS_BATCH_MAX},
    {"activation", "relu|leaky-relu", "leaky-relu",
     "after both convolutions and the first linear layer", parse_choice, FIELD(leaky), 0, 0},
    {"slope", "FACTOR", "0.01", "of leaky-relu below zero", parse_real, FIELD(slope), 0, 1},
    {"init", "default|golden", "default",
     "initial weights: as PyTorch's default, or those of the test fixtures", parse_choice,
     FIELD(init), 0, 0},
    {"scale", "255|normalize", "normalize", "input: x/255, or (x/255 - 0.1307)/0.3081",
     parse_choice, FIELD(scale), 0, 0},
    {"data", "mnist|fashion|DIR", "mnist", "training images: a folder of IDX files, plain or .gz",
     parse_text, FIELD(data), 0, 0},
    {"limit-images", "N", NULL, "only the first N training images", parse_int, FIELD(limit_images),
     1, 1 << 20},
    {"limit-steps", "N", NULL, "stop after N steps", parse_int, FIELD(limit_steps), 1, 0x1p53},
    {"pace", "STEPS/S", NULL, "at most so many steps a second", parse_real, FIELD(pace), 1e-3, 1e6},
    {"device", "auto|cpu|cuda", "auto", "where to train", parse_choice, FIELD(device), 0, 0},
    {"backend", "FILE", NULL, "shared object with another implementation of the kernels",
     parse_text, FIELD(backend), 0, 0},
    {"threads", "N", NULL, "of the CPU backend; one per core if not given", parse_int,
     FIELD(threads), 1, 1024},
    {"stats", "on|off", "on", "measure every tensor of every step", parse_choice, FIELD(stats_off),
     0, 0},
    {"stop-on", "nonfinite|extreme|never", "nonfinite",
     "keep the state from before a step that is so", parse_choice, FIELD(stop_on), 0, 0},
    {"threshold", "NAME=VALUE", NULL, "of the detector; may be repeated", parse_threshold, 0, 0, 0},
    {"inject", "STEP:PARAMETER:FACTOR", NULL,
     "multiply a gradient at that step, to see what happens", parse_inject, 0, 0, 0},
    {"run-dir", "DIR", "runs", "where the folders of runs lie", parse_text, FIELD(run_dir), 0, 0},
    {"name", "NAME", NULL, "of the run and its folder; HISTORY-SEED and a free suffix if not given",
     parse_text, FIELD(name), 0, 0},
    {"keep-last", "N", "3", "checkpoints besides phase ends and the last safe one", parse_int,
     FIELD(keep_last), 1, 1e6},
    {"run-file-max", "SIZE", "4G",
     "of run.db, with K, M, G or T; beyond it only the newest steps keep every tensor", parse_size,
     FIELD(run_file_max), 0, 0},
    {"bind", "ADDRESS", NULL, "tcp://127.0.0.1:5570 instead of this user's socket folder",
     parse_text, FIELD(bind), 0, 0},
    {"insecure", NULL, NULL, "let --bind name an address that other machines reach, without keys",
     parse_flag, FIELD(insecure), 0, 0},
    {"help", NULL, NULL, "this text", parse_action, 0, 0, 0},
    {"version", NULL, NULL, "version of the program", parse_action, 0, 0, 0},
};

enum { ROWS = sizeof ROW / sizeof *ROW };
_Static_assert((int)ROWS <= (int)OPTIONS_ROWS_MAX, "options.text has a place for every row");

static int parse_row(struct options *options, int row, const char *text, struct error *error) {
    if (ROW[row].parse(options, &ROW[row], text, error)) return -1;
    options->text[row] = text ? text : "yes";
    return 0;
}

static int parse_line(struct options *options, int argc, char **argv, struct error *error) {
    struct option option[ROWS + 1] = {{0}};
    for (int i = 0; i < ROWS; i++)
        option[i] = (struct option){ROW[i].name, ROW[i].argument ? required_argument : no_argument,
                                    NULL, i + 1};
    opterr = 0;
    optind = 0; /* glibc: begin anew, also in the second call of a test */
    for (;;) {
        int at = optind ? optind : 1, code = getopt_long(argc, argv, "+:h", option, NULL);
        if (code == -1) return 0;
        if (code == ':')
            return error_set(error, "option %s wants a value; nantrain --help lists them",
                             argv[at]);
        if (code == '?')
            return error_set(error, "unknown option %s; nantrain --help lists them", argv[at]);
        if (code == 'h')
            options->action = OPTIONS_HELP;
        else if (parse_row(options, code - 1, optarg, error))
            return -1;
    }
}

/* What depends on more than one option. */
static int finish(struct options *options, struct error *error) {
    struct schedule_options *schedule = &options->schedule;
    int phases = schedule_history_phases(schedule->history);
    if (schedule->phases == 0 &&
        parse_row(options, ROW_EPOCHS, phases == 3 ? "10,10,2" : "10,2", error))
        return -1;
    if (schedule->phases > phases)
        return error_set(error, "option --epochs: %d phases, %s has %d", schedule->phases,
                         schedule_history_name(schedule->history), phases);
    if (options->name && !record_id_valid(options->name))
        return error_set(
            error, "option --name: \"%s\" is not 1 to 63 of A-Z a-z 0-9 . _ -, the first no dot",
            options->name);
    if (options->backend && options->device == OPTIONS_CPU)
        return error_set(error, "options --backend and --device cpu contradict each other");
    return 0;
}

int options_parse(struct options *options, int argc, char **argv, struct error *error) {
    struct options parsed = {0};
    detector_limits_init(&parsed.limits);
    for (int i = 0; i < ROWS; i++)
        if (ROW[i].fallback && parse_row(&parsed, i, ROW[i].fallback, error)) return -1;
    if (argc > 1 && *argv[1] != '-') {
        if (strcmp(argv[1], "train") != 0)
            return error_set(error, "unknown command %s; nantrain --help lists what there is",
                             argv[1]);
        argc--, argv++;
    }
    if (parse_line(&parsed, argc, argv, error)) return -1;
    if (optind < argc)
        return error_set(error, "unexpected argument %s; nantrain --help lists the options",
                         argv[optind]);
    if (finish(&parsed, error)) return -1;
    *options = parsed;
    return 0;
}

void options_print_help(FILE *out) {
    fputs("usage: nantrain [train] [options]\n"
          "Trains a small CNN and publishes what every step did to every tensor; nantop shows "
          "it.\n\n",
          out);
    for (int i = 0; i < ROWS; i++) {
        char left[64];
        snprintf(left, sizeof left, "--%s %s", ROW[i].name, ROW[i].argument ? ROW[i].argument : "");
        fprintf(out, "  %-36s  %s", left, ROW[i].help);
        if (ROW[i].fallback) fprintf(out, " (%s)", ROW[i].fallback);
        fputc('\n', out);
    }
    fputs(
        "\nExit status: 0 finite, 1 an alarm or a non-finite step, 2 usage or unreadable input.\n",
        out);
}

void options_describe(const struct options *options, struct hello *hello) {
    char value[32];
    for (int i = 0; i < ROWS; i++)
        if (options->text[i] && ROW[i].parse != parse_threshold)
            hello_set_config(hello, ROW[i].name, options->text[i]);
#define X(name, standard)                                         \
    snprintf(value, sizeof value, "%.17g", options->limits.name); \
    hello_set_config(hello, "threshold." #name, value);
    DETECTOR_THRESHOLDS(X)
#undef X
}
