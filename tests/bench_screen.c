/* What the display costs: bytes and writes to the terminal, time from key to screen, first paint,
 * memory. Prints a line each: what, measured, budget. */
#include <fcntl.h>
#include <locale.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/help_run.h"
#include "tui/screen.h"
#include "tui/view.h"

#define SECOND_NS INT64_C(1000000000)
enum { FRAMES_A_SECOND = 10, SECONDS = 60, KEYS = 400, PAINTS = 15 };

static struct run run;
static struct view view;
static struct grid grid;
static struct screen *screen;

static void print_row(const char *what, const char *measured, const char *budget) {
    printf("%-58s %-26s %s\n", what, measured, budget);
}

static double now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void open_all(int sink, int rows, int columns) {
    struct theme theme;
    struct screen_options options = {.in = -1,
                                     .out = sink,
                                     .term = "xterm-256color",
                                     .utf8 = true,
                                     .color = true,
                                     .rows = rows,
                                     .columns = columns};
    if (screen_open(&screen, &options, NULL) != 0 || grid_resize(&grid, rows, columns) != 0)
        exit(1);
    theme_builtin(&theme, "dark");
    screen_set_theme(screen, &theme);
    view_init(&view, LENS_FREEZE_NEVER, "");
    view_add(&view, &run);
    view_resize(&view, rows, columns);
}

static void close_all(void) {
    screen_close(screen);
    grid_free(&grid);
    run_free(&run);
}

static int frame(int64_t now_ns) {
    view_tick(&view, now_ns);
    view_draw(&view, &grid);
    return screen_draw(screen, &grid);
}

struct cost {
    double bytes_a_second;
    int most; /* bytes of the largest frame */
};

/* A minute of the run's life from `step` on, `steps_a_frame` at a time. */
static struct cost live_for_a_minute(const struct help_story *story, int64_t *step,
                                     double steps_a_frame) {
    struct cost cost = {0};
    double due = (double)*step;
    for (int i = 0; i < SECONDS * FRAMES_A_SECOND; i++) {
        for (due += steps_a_frame; (double)*step < due; ++*step) help_run_add(&run, story, *step);
        bool idle = steps_a_frame == 0;
        if (idle && i == 5 * FRAMES_A_SECOND) run.link = RUN_SILENT;
        int bytes = frame((int64_t)((double)*step / story->steps_per_s * 1e9) +
                          (idle ? i * SECOND_NS / 10 : 0));
        cost.bytes_a_second += (double)bytes / SECONDS;
        if (bytes > cost.most) cost.most = bytes;
    }
    return cost;
}

static void bench_bytes(int sink, int rows, int columns, const char *name) {
    struct help_story story = HELP_HEALTHY;
    story.epoch_steps = 470; /* an event every 10 s */
    char what[128], measured[64];
    int64_t step = 0;
    int metric[LAYOUT_PANELS_MAX];
    help_run_open(&run, &story);
    for (; step < 40000; step++) help_run_add(&run, &story, step);
    open_all(sink, rows, columns);
    frame((int64_t)((double)step / story.steps_per_s * 1e9));
    struct cost live = live_for_a_minute(&story, &step, story.steps_per_s / FRAMES_A_SECOND);
    snprintf(what, sizeof what, "%s: %d panels of %d columns, live", name,
             view_panels(&view, metric), view.lens[0].columns);
    snprintf(measured, sizeof measured, "%.2f KB/s (frame <= %d B)", live.bytes_a_second / 1024,
             live.most);
    print_row(what, measured, "<= 4 KB/s");
    struct cost idle = live_for_a_minute(&story, &step, 0);
    snprintf(what, sizeof what, "%s: nothing arrives", name);
    snprintf(measured, sizeof measured, "%.2f KB/s", idle.bytes_a_second / 1024);
    print_row(what, measured, "<= 0.5 KB/s");
    close_all();
}

/* The writes of frames, counted where each is a packet. */
static void bench_writes(void) {
    int end[2], room = 4 << 20, packets = 0, frames = 0;
    static char packet[1 << 20];
    char measured[64];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, end) != 0) exit(1);
    setsockopt(end[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    struct help_story story = HELP_HEALTHY;
    help_run_open(&run, &story);
    open_all(end[0], 50, 200);
    for (int64_t step = 0; step < 600; step++) {
        help_run_add(&run, &story, step);
        frames += frame((int64_t)((double)step / story.steps_per_s * 1e9)) > 0;
        while (recv(end[1], packet, sizeof packet, 0) > 0) packets++;
    }
    snprintf(measured, sizeof measured, "%.2f", (double)packets / frames);
    print_row("writes a frame", measured, "1");
    close_all();
    close(end[0]);
    close(end[1]);
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void print_times(const char *what, double *times, int count, const char *budget) {
    char measured[64];
    qsort(times, (size_t)count, sizeof *times, compare);
    snprintf(measured, sizeof measured, "%.2f ms (p90 %.2f)", times[count / 2],
             times[count * 9 / 10]);
    print_row(what, measured, budget);
}

/* From a key to the bytes that answer it, in this process. */
static void bench_keys(int sink) {
    static const uint32_t CYCLE[] = {KEYS_LEFT, KEYS_LEFT, KEYS_RIGHT, '+', '-',
                                     KEYS_DOWN, KEYS_UP,   ' ',        '?', 27};
    double times[KEYS];
    help_run_tell(&run, &HELP_FAILING);
    open_all(sink, 50, 200);
    frame(SECOND_NS);
    for (int i = 0; i < KEYS; i++) {
        double start_ms = now_ms();
        view_key(&view, CYCLE[i % 10], SECOND_NS);
        frame(SECOND_NS);
        times[i] = now_ms() - start_ms;
    }
    print_times("key to bytes, 200x50, median", times, KEYS, "");
    close_all();
}

/* nantop on a terminal of 200x50, lines on its stdin. */
struct child {
    pid_t pid;
    int terminal, lines;
};

static struct child start(const char *program) {
    struct child child;
    struct winsize size = {.ws_row = 50, .ws_col = 200};
    int pair[2];
    if (pipe(pair) != 0) exit(1);
    child.pid = forkpty(&child.terminal, NULL, NULL, &size);
    if (child.pid == 0) {
        dup2(pair[0], STDIN_FILENO);
        close(pair[0]);
        close(pair[1]);
        setenv("TERM", "xterm-256color", 1);
        setenv("LC_ALL", "C.UTF-8", 1);
        execl(program, program, "-", (char *)NULL);
        _exit(127);
    }
    close(pair[0]);
    child.lines = pair[1];
    return child;
}

/* Until a frame has ended. False: the program has. */
static bool await_frame(int terminal) {
    static char text[1 << 16];
    static const char END[] = "\033[?2026l";
    for (;;) {
        ssize_t size = read(terminal, text, sizeof text);
        if (size <= 0) return false;
        if (memmem(text, (size_t)size, END, sizeof END - 1) != NULL) return true;
    }
}

static long resident_kb(pid_t pid) {
    char line[128];
    long size = -1;
    snprintf(line, sizeof line, "/proc/%d/status", (int)pid);
    FILE *file = fopen(line, "r");
    while (file && fgets(line, sizeof line, file)) sscanf(line, "VmRSS: %ld", &size);
    if (file) fclose(file);
    return size;
}

static void bench_process(const char *program) {
    double paints[PAINTS], keys[PAINTS];
    char measured[64];
    long size = 0;
    for (int i = 0; i < PAINTS; i++) {
        double start_ms = now_ms();
        struct child child = start(program);
        if (!await_frame(child.terminal)) {
            print_row("first paint", "nantop does not run", "");
            return;
        }
        paints[i] = now_ms() - start_ms;
        usleep(300000); /* it has settled */
        start_ms = now_ms();
        if (write(child.terminal, "?", 1) != 1 || !await_frame(child.terminal)) exit(1);
        keys[i] = now_ms() - start_ms;
        size = resident_kb(child.pid);
        if (write(child.terminal, "q", 1) != 1) exit(1);
        while (await_frame(child.terminal)) continue;
        waitpid(child.pid, NULL, 0);
        close(child.terminal);
        close(child.lines);
    }
    print_times("first paint, from exec", paints, PAINTS, "<= 20 ms");
    print_times("key to screen", keys, PAINTS, "<= 5 ms");
    snprintf(measured, sizeof measured, "%.1f MB", (double)size / 1024);
    print_row("memory of the display, no step yet", measured, "<= 16 MB");
}

int main(int argc, char **argv) {
    (void)argc;
    char program[4096];
    setenv("TZ", "UTC", 1);
    if (setlocale(LC_CTYPE, "C.UTF-8") == NULL) return 1;
    int sink = open("/dev/null", O_WRONLY);
    bench_bytes(sink, 50, 200, "terminal of 200x50");
    bench_bytes(sink, 26, 832, "8 x 200");
    bench_bytes(sink, 24, 80, "terminal of 80x24");
    bench_writes();
    bench_keys(sink);
    snprintf(program, sizeof program, "%.*s/nantop", (int)(strrchr(argv[0], '/') - argv[0]),
             argv[0]);
    bench_process(program);
    return 0;
}
