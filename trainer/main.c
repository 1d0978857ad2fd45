#include <signal.h>
#include <stdio.h>

#include "trainer/loop.h"
#include "trainer/options.h"
#include "trainer/training.h"

static volatile sig_atomic_t stop;

static void ask_to_stop(int number) {
    (void)number;
    stop = 1;
}

/* The first signal ends the run after the step going on, the second one kills. */
static void handle_signals(void) {
    struct sigaction action = {.sa_handler = ask_to_stop, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

static int train(const struct options *options, struct error *error) {
    struct training training;
    handle_signals();
    if (training_open(&training, options, &stop, error)) return -1;
    int code = loop_run(&training);
    training_close(&training);
    return code;
}

int main(int argc, char **argv) {
    struct options options;
    struct error error = {""};
    int code = options_parse(&options, argc, argv, &error);
    if (code == 0 && options.action == OPTIONS_HELP)
        options_print_help(stdout);
    else if (code == 0 && options.action == OPTIONS_VERSION)
        printf("nantrain %s\n", VERSION);
    else if (code == 0)
        code = train(&options, &error);
    if (code >= 0) return code;
    fprintf(stderr, "nantrain: %s\n", error.text);
    return 2;
}
