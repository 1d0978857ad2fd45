/* What the display costs: bytes and writes to the terminal, time from key to screen, first paint,
 * memory. Prints a line each: what, measured, budget. */
#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/help_run.h"
#include "tui/screen.h"
#include "tui/view.h"

#define SECOND_NS INT64_C(1000000000)
enum { FRAMES_A_SECOND = 10, SECONDS = 60, KEYS = 400 };

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

/* The write calls of this process so far. */
static long long writes_so_far(void) {
    char line[128];
    long long count = -1;
    FILE *file = fopen("/proc/self/io", "r");
    while (file && fgets(line, sizeof line, file)) sscanf(line, "syscw: %lld", &count);
    if (file) fclose(file);
    return count;
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

static int frame(int64_t now_ns) {
    view_tick(&view, now_ns);
    view_draw(&view, &grid);
    return screen_draw(screen, &grid);
}

struct cost {
    double bytes_a_second, cpu_ms; /* cpu_ms: of a frame */
    int frames, most;              /* frames with bytes; bytes of the largest */
    long long writes;
};

/* A minute of the run's life from `step` on, `steps_a_frame` at a time. */
static struct cost live_for_a_minute(const struct help_story *story, int64_t *step,
                                     double steps_a_frame) {
    struct cost cost = {0};
    double due = (double)*step, start_ms = now_ms();
    long long before = writes_so_far();
    long long reading = writes_so_far() - before; /* looking costs none */
    for (int i = 0; i < SECONDS * FRAMES_A_SECOND; i++) {
        for (due += steps_a_frame; (double)*step < due; ++*step) help_run_add(&run, story, *step);
        int64_t now_ns = (int64_t)((double)*step / story->steps_per_s * 1e9) +
                         i * (steps_a_frame > 0 ? 0 : SECOND_NS / 10);
        if (steps_a_frame == 0 && i == 5 * FRAMES_A_SECOND) run.link = RUN_SILENT;
        int bytes = frame(now_ns);
        cost.bytes_a_second += (double)bytes / SECONDS;
        cost.frames += bytes > 0;
        if (bytes > cost.most) cost.most = bytes;
    }
    cost.writes = writes_so_far() - before - reading;
    cost.cpu_ms = (now_ms() - start_ms) / (SECONDS * FRAMES_A_SECOND);
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
    snprintf(measured, sizeof measured, "%.2f KB/s", live.bytes_a_second / 1024);
    print_row(what, measured, "<= 4 KB/s");
    struct cost idle = live_for_a_minute(&story, &step, 0);
    snprintf(what, sizeof what, "%s: nothing arrives", name);
    snprintf(measured, sizeof measured, "%.2f KB/s", idle.bytes_a_second / 1024);
    print_row(what, measured, "<= 0.5 KB/s");
    screen_close(screen);
    grid_free(&grid);
    run_free(&run);
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* From a key to the bytes that answer it, in this process. */
static void bench_keys(int sink) {
    static const uint32_t CYCLE[] = {KEYS_LEFT, KEYS_LEFT, KEYS_RIGHT, '+', '-',
                                     KEYS_DOWN, KEYS_UP,   ' ',        '?', 27};
    double times[KEYS];
    char measured[64];
    help_run_tell(&run, &HELP_FAILING);
    open_all(sink, 50, 200);
    frame(SECOND_NS);
    for (int i = 0; i < KEYS; i++) {
        double start_ms = now_ms();
        view_key(&view, CYCLE[i % 10], SECOND_NS);
        frame(SECOND_NS);
        times[i] = now_ms() - start_ms;
    }
    qsort(times, KEYS, sizeof *times, compare);
    snprintf(measured, sizeof measured, "%.2f ms (p99 %.2f)", times[KEYS / 2],
             times[KEYS * 99 / 100]);
    print_row("key to screen, 200x50, median", measured, "<= 5 ms");
    screen_close(screen);
    grid_free(&grid);
    run_free(&run);
}

int main(void) {
    setenv("TZ", "UTC", 1);
    if (setlocale(LC_CTYPE, "C.UTF-8") == NULL) return 1;
    int sink = open("/dev/null", O_WRONLY);
    bench_bytes(sink, 50, 200, "terminal of 200x50");
    bench_bytes(sink, 36, 832, "8 x 200");
    bench_bytes(sink, 24, 80, "terminal of 80x24");
    bench_keys(sink);
    return 0;
}
