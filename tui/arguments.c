#include "tui/arguments.h"

#include <getopt.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tui/keys.h"

struct row {
    const char *name, *argument, *help; /* argument NULL: a flag */
    int (*parse)(struct arguments *arguments, const struct row *row, const char *text,
                 struct error *error);
    size_t offset; /* of the field in struct arguments */
};

static void *field(struct arguments *arguments, const struct row *row) {
    return (char *)arguments + row->offset;
}

static int parse_flag(struct arguments *arguments, const struct row *row, const char *text,
                      struct error *error) {
    (void)text, (void)error;
    *(bool *)field(arguments, row) = true;
    return 0;
}

static int parse_text(struct arguments *arguments, const struct row *row, const char *text,
                      struct error *error) {
    if (*text == '\0')
        return error_set(error, "option --%s: an empty %s", row->name, row->argument);
    *(const char **)field(arguments, row) = text;
    return 0;
}

static int parse_size(struct arguments *arguments, const struct row *row, const char *text,
                      struct error *error) {
    char *end;
    long value = strtol(text, &end, 10);
    if (*end != '\0' || *text < '0' || *text > '9' || value < 1 || value > 1000)
        return error_set(error, "option --%s: \"%s\" is no number from 1 to 1000", row->name, text);
    *(int *)field(arguments, row) = (int)value;
    return 0;
}

static int parse_freeze(struct arguments *arguments, const struct row *row, const char *text,
                        struct error *error) {
    static const char *const WORD[] = {"alarm", "nonfinite",
                                       "never"}; /* in the order of enum lens_freeze */
    for (int i = 0; i < 3; i++) {
        if (strcmp(text, WORD[i]) != 0) continue;
        arguments->freeze = (enum lens_freeze)i;
        return 0;
    }
    return error_set(error, "option --%s: \"%s\" is not %s", row->name, text, row->argument);
}

static int parse_threshold(struct arguments *arguments, const struct row *row, const char *text,
                           struct error *error) {
    (void)row;
    arguments->rejudge = true;
    return detector_limits_set(&arguments->limits, text, error);
}

static const struct row ROWS[] = {
    {"once", NULL, "print one frame as text and end", parse_flag, offsetof(struct arguments, once)},
    {"json", NULL, "print a line a step: metrics, band, reason, alarm", parse_flag,
     offsetof(struct arguments, json)},
    {"follow", NULL, "with --json: go on until the run ends", parse_flag,
     offsetof(struct arguments, follow)},
    {"freeze-on", "alarm|nonfinite|never", "what freezes the picture by itself (alarm)",
     parse_freeze, 0},
    {"theme", "NAME|FILE", "dark, light, mono, or one of yours", parse_text,
     offsetof(struct arguments, theme)},
    {"save-dir", "DIR", "where s saves to (the working folder)", parse_text,
     offsetof(struct arguments, save_dir)},
    {"threshold", "NAME=VALUE", "judge again with this one; may be repeated", parse_threshold, 0},
    {"rows", "N", "of --once (24)", parse_size, offsetof(struct arguments, rows)},
    {"columns", "N", "of --once (80)", parse_size, offsetof(struct arguments, columns)},
    {"help", NULL, "this text", parse_flag, offsetof(struct arguments, help)},
    {"version", NULL, "the version", parse_flag, offsetof(struct arguments, version)},
};
enum { ROW_COUNT = sizeof ROWS / sizeof *ROWS };

static int check(const struct arguments *arguments, struct error *error) {
    if (arguments->once && arguments->json)
        return error_set(error, "--once and --json exclude each other");
    if (arguments->follow && !arguments->json) return error_set(error, "--follow goes with --json");
    int stdins = 0;
    for (int i = 0; i < arguments->sources; i++) stdins += strcmp(arguments->source[i], "-") == 0;
    if (stdins > 1) return error_set(error, "stdin (-) can be read once only");
    return 0;
}

int arguments_parse(struct arguments *arguments, int argc, char **argv, struct error *error) {
    struct option list[ROW_COUNT + 1] = {0};
    for (int i = 0; i < ROW_COUNT; i++) {
        list[i].name = ROWS[i].name;
        list[i].has_arg = ROWS[i].argument ? required_argument : no_argument;
        list[i].val = i;
    }
    *arguments = (struct arguments){.freeze = LENS_FREEZE_ALARM};
    detector_limits_init(&arguments->limits);
    optind = 0; /* glibc: from the beginning, whatever was parsed before */
    for (int found; (found = getopt_long(argc, argv, ":h", list, NULL)) != -1;) {
        if (found == 'h')
            arguments->help = true;
        else if (found == ':')
            return error_set(error, "option %s wants an argument", argv[optind - 1]);
        else if (found == '?' && optopt >= ' ') /* a letter, maybe inside of a word */
            return error_set(error, "option -%c is not known: nantop --help", optopt);
        else if (found == '?')
            return error_set(error, "option %s is not known: nantop --help", argv[optind - 1]);
        else if (ROWS[found].parse(arguments, &ROWS[found], optarg, error) != 0)
            return -1;
    }
    arguments->source = argv + optind;
    arguments->sources = argc - optind;
    return check(arguments, error);
}

static void print_keys(void) {
    const char *done[64];
    int count = 0;
    for (const struct keys_binding *at = KEYS_BINDINGS; at->action != KEYS_IGNORE; at++) {
        bool again = false;
        for (int i = 0; i < count; i++) again |= strcmp(done[i], at->name) == 0;
        if (again) continue;
        done[count++] = at->name;
        printf("  %s%*s", at->name, at->name[0] & 0x80 ? 9 : 10 - (int)strlen(at->name), "");
        const char *between = "";
        for (const struct keys_binding *same = at; same->action != KEYS_IGNORE; same++) {
            if (strcmp(same->name, at->name) != 0) continue;
            printf("%s%s", between, same->help);
            between = "; ";
        }
        putchar('\n');
    }
}

void arguments_print_help(void) {
    puts("nantop [option]... [RUN|ENDPOINT|DB|-]...\n"
         "Shows live what every batch did to every tensor of a training run. RUN: name or id of a "
         "live run, or a\n"
         "run folder; ENDPOINT: tcp://HOST:PORT or ipc://PATH; DB: a run file; -: JSON lines on "
         "stdin. Without any:\n"
         "every live run of this user.\n"
         "Options:");
    for (int i = 0; i < ROW_COUNT; i++) {
        char head[64];
        snprintf(head, sizeof head, "--%s%s%s", ROWS[i].name, ROWS[i].argument ? " " : "",
                 ROWS[i].argument ? ROWS[i].argument : "");
        printf("  %-34s %s\n", head, ROWS[i].help);
    }
    puts("Keys:");
    print_keys();
    puts("Exit codes: 0 finite; 1 an alarm or non-finite in the run's whole life; 2 usage or "
         "unreadable input;\n"
         "3 nothing there, or the other end died.");
}
