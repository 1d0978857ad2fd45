/* nantop: watches training runs. */
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <zmq.h>

#include "tui/display.h"
#include "tui/print.h"
#include "tui/spark.h"
#include "tui/theme.h"

#ifndef VERSION
#define VERSION "unknown"
#endif

enum { FEED_ITEMS = 8 /* of one source, at most */ };

/* program.wait: level-triggered, sockets and descriptors alike. */
static void wait_for_input(const struct watch_list *list, bool sources, const int fd[2],
                           bool ready[2], int64_t timeout_ms) {
    static zmq_pollitem_t items[2 + FEED_ITEMS * OVERVIEW_RUNS_MAX];
    int count = 2;
    for (int i = 0; i < 2; i++) items[i] = (zmq_pollitem_t){.fd = fd[i], .events = ZMQ_POLLIN};
    for (int i = 0; sources && i < list->count; i++)
        if (!list->watch[i]->over)
            count += feed_items(list->watch[i]->feed, items + count, FEED_ITEMS);
    int first = fd[0] < 0 ? 2 : 0;
    if (timeout_ms < 0) timeout_ms = 0;
    bool waited = zmq_poll(items + first, count - first, timeout_ms) > 0;
    for (int i = 0; i < 2; i++) ready[i] = waited && first == 0 && items[i].revents != 0;
}

/* Half of what was asked for is not success. */
static int check_output(int code) {
    struct error error;
    if (fflush(stdout) == 0 && !ferror(stdout)) return code;
    error_set(&error, "writing to stdout: %s", strerror(errno));
    return program_complain(&error, PROGRAM_UNREADABLE);
}

static int run(struct program *program) {
    bool terminal = isatty(STDOUT_FILENO) != 0,
         watches = !program->arguments.once && !program->arguments.json;
    struct theme theme;
    struct error error;
    if (!watches && program->arguments.theme != NULL &&
        theme_load(&theme, program->arguments.theme, &error) != 0)
        return program_complain(&error, PROGRAM_UNREADABLE);
    int code = program_open(program);
    if (code != 0) return code;
    if (program->list.count == 0 && (!watches || !terminal))
        return program_complain(&(struct error){"no live run of this user on this machine"},
                                PROGRAM_NOTHING);
    if (watches && !terminal)
        return program_complain(&(struct error){"stdout is not a terminal: use --once or --json"},
                                PROGRAM_UNREADABLE);
    if (watches) return display_run(program);
    return check_output(program->arguments.once ? print_once(program) : print_json(program));
}

int main(int argc, char **argv) {
    static struct program program;
    struct error error;
    setlocale(LC_CTYPE, ""); /* numbers keep their point */
    program.utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    if (arguments_parse(&program.arguments, argc, argv, &error) != 0)
        return program_complain(&error, PROGRAM_UNREADABLE);
    if (program.arguments.help)
        arguments_print_help();
    else if (program.arguments.version)
        puts("nantop " VERSION);
    if (program.arguments.help || program.arguments.version) return 0;
    program.list.options = (struct feed_options){
        .columns = SPARK_COLUMNS_MAX,
        .rejudge = program.arguments.rejudge ? &program.arguments.limits : NULL,
        .all_records = program.arguments.json,
        .each = program.arguments.json ? print_record : NULL,
        .user = &program,
        .now_ns = program_now_ns(),
    };
    program.wait = wait_for_input;
    program.list.context = zmq_ctx_new();
    int code = run(&program);
    watch_close(&program.list);
    zmq_ctx_term(program.list.context);
    return code;
}
