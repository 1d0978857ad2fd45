/* The screen, byte by byte: ncurses into a terminal in memory, every cell and colour; one write a
 * frame; and whatever way the process ends, the terminal is as it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <poll.h>
#include <pty.h>
#include <utmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "tests/help_run.h"
#include "tests/help_vterm.h"
#include "tui/screen.h"
#include "tui/view.h"

#define NOW_NS INT64_C(60000000000)

/* A screen whose writes are packets, and the terminal they go to. */
struct theatre {
    struct screen *screen;
    struct help_vterm *terminal;
    int end[2];
    int writes;
};

static void theatre_open(struct theatre *stage, struct screen_options options,
                         const char *theme_name) {
    struct theme theme;
    struct error error;
    stage->writes = 0;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, stage->end), 0);
    int room = 4 << 20;
    setsockopt(stage->end[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    options.in = -1;
    options.out = stage->end[0];
    assert_int_equal(screen_open(&stage->screen, &options, &error), 0);
    stage->terminal = help_vterm_open(options.rows, options.columns);
    theme_builtin(&theme, theme_name);
    screen_set_theme(stage->screen, &theme);
}

static void theatre_read(struct theatre *stage) {
    static char packet[1 << 20];
    for (ssize_t size; (size = recv(stage->end[1], packet, sizeof packet, 0)) > 0; stage->writes++)
        help_vterm_feed(stage->terminal, packet, (size_t)size);
}

static int theatre_draw(struct theatre *stage, const struct grid *grid) {
    int bytes = screen_draw(stage->screen, grid);
    theatre_read(stage);
    return bytes;
}

static void theatre_close(struct theatre *stage) {
    screen_close(stage->screen);
    theatre_read(stage);
    assert_false(help_vterm_alternate(stage->terminal));
    assert_true(help_vterm_cursor_visible(stage->terminal));
    help_vterm_close(stage->terminal);
    close(stage->end[0]);
    close(stage->end[1]);
}

struct scene {
    const char *name;
    int rows, columns;
    const char *term, *theme;
    bool utf8, color, overview;
};

static void draw_scene(const struct scene *scene, struct grid *grid) {
    static struct run run, other;
    static struct view view;
    struct help_story story = HELP_FAILING;
    story.gap = 142;
    story.gap_steps = 3;
    help_run_tell(&run, &story);
    view_init(&view, LENS_FREEZE_ALARM, "");
    view_add(&view, &run);
    if (scene->overview) {
        help_run_tell(&other, &HELP_HEALTHY);
        view_add(&view, &other);
    }
    view_resize(&view, scene->rows, scene->columns);
    view_tick(&view, NOW_NS);
    assert_int_equal(grid_resize(grid, scene->rows, scene->columns), 0);
    view_draw(&view, grid);
    run_free(&run);
    if (scene->overview) run_free(&other);
}

static void test_golden_screens(void **state) {
    static const struct scene SCENES[] = {
        {"dark-80x24", 24, 80, "xterm-256color", "dark", true, true, false},
        {"light-80x24", 24, 80, "xterm-256color", "light", true, true, false},
        {"mono-80x24", 24, 80, "xterm-256color", "mono", true, false, false},
        {"8-colours-80x24", 24, 80, "linux", "dark", true, true, false},
        {"ascii-80x24", 24, 80, "vt100", "mono", false, true, false},
        {"dark-40x12", 12, 40, "screen-256color", "dark", true, true, false},
        {"dark-120x40", 40, 120, "tmux-256color", "dark", true, true, false},
        {"overview-80x24", 24, 80, "xterm-256color", "dark", true, true, true},
    };
    (void)state;
    bool same = true;
    for (size_t i = 0; i < sizeof SCENES / sizeof *SCENES; i++) {
        struct grid grid = {0};
        struct theatre stage;
        draw_scene(&SCENES[i], &grid);
        theatre_open(&stage,
                     (struct screen_options){.term = SCENES[i].term,
                                             .utf8 = SCENES[i].utf8,
                                             .color = SCENES[i].color,
                                             .rows = SCENES[i].rows,
                                             .columns = SCENES[i].columns},
                     SCENES[i].theme);
        assert_true(theatre_draw(&stage, &grid) > 0);
        char *dump = help_vterm_dump(stage.terminal);
        same &= help_golden(SCENES[i].name, dump);
        free(dump);
        theatre_close(&stage);
        grid_free(&grid);
    }
    assert_true(same);
}

static void scribble(struct grid *grid, unsigned *seed) {
    static const char *const WORDS[] = {
        "loss", "▁▂▃▄▅▆▇█", "e\xcc\x81t\xc3\xa9", "\xe6\xbc\xa2\xe5\xad\x97", "N┊┊", "·····",
        "   ",  "\x1b[2J"};
    for (int i = 0; i < 40; i++) {
        *seed = *seed * 1103515245u + 12345u;
        int row = (int)(*seed >> 8) % grid->rows,
            column = (int)(*seed >> 16 & 0xff) % grid->columns;
        enum grid_role role = (enum grid_role)(*seed >> 12 & 15);
        grid_text(grid, row, column, grid->columns - column, role, WORDS[*seed >> 20 & 7]);
    }
}

/* Whatever changed between two frames, the terminal shows the second one; a frame is one write, the
 * same frame none. */
static void test_frames_arrive_whole(void **state) {
    static const char *const TERMS[] = {"xterm-256color", "linux", "screen",
                                        "rxvt-unicode-256color", "tmux-256color"};
    (void)state;
    unsigned seed = 7;
    for (size_t t = 0; t < sizeof TERMS / sizeof *TERMS; t++) {
        struct theatre stage;
        struct grid grid = {0};
        assert_int_equal(grid_resize(&grid, 24, 80), 0);
        theatre_open(&stage,
                     (struct screen_options){
                         .term = TERMS[t], .utf8 = true, .color = true, .rows = 24, .columns = 80},
                     "dark");
        for (int frame = 0; frame < 60; frame++) {
            if (frame % 20 == 19) grid_clear(&grid);
            scribble(&grid, &seed);
            int before = stage.writes;
            assert_true(theatre_draw(&stage, &grid) >= 0);
            assert_int_equal(stage.writes, before + 1);
            char *wanted = grid_to_text(&grid, false), *shown = help_vterm_text(stage.terminal);
            assert_true(help_same("terminal", wanted, shown));
            free(wanted);
            free(shown);
            assert_int_equal(theatre_draw(&stage, &grid), 0);
            assert_int_equal(stage.writes, before + 1);
        }
        theatre_close(&stage);
        grid_free(&grid);
    }
}

static void test_large_frame(void **state) {
    (void)state;
    struct theatre stage;
    struct grid grid = {0};
    assert_int_equal(grid_resize(&grid, 200, 500), 0);
    for (int i = 0; i < 200 * 500; i++)
        grid_put(&grid, i / 500, i % 500, 0x2581 + (uint32_t)(i * 7 % 8),
                 (enum grid_role)(i / 500 % GRID_ROLE_COUNT));
    theatre_open(
        &stage,
        (struct screen_options){
            .term = "xterm-256color", .utf8 = true, .color = true, .rows = 200, .columns = 500},
        "dark");
    assert_true(theatre_draw(&stage, &grid) > 65536);
    assert_int_equal(stage.writes, 1);
    char *wanted = grid_to_text(&grid, false), *shown = help_vterm_text(stage.terminal);
    assert_true(help_same("terminal", wanted, shown));
    free(wanted);
    free(shown);
    theatre_close(&stage);
    grid_free(&grid);
}

static void test_unknown_and_dumb_terminals(void **state) {
    (void)state;
    struct error error = {""};
    struct screen *screen = NULL;
    int sink = open("/dev/null", O_WRONLY);
    struct screen_options options = {
        .in = -1, .out = sink, .term = "no-such-terminal", .rows = 24, .columns = 80};
    assert_int_equal(screen_open(&screen, &options, &error), 0);
    assert_string_equal(screen_note(screen),
                        "TERM no-such-terminal is not known here: drawing as xterm-256color");
    screen_close(screen);
    options.term = NULL;
    assert_int_equal(screen_open(&screen, &options, &error), 0);
    assert_string_equal(screen_note(screen), "TERM is not set: drawing as xterm-256color");
    screen_close(screen);
    options.term = "dumb";
    assert_int_equal(screen_open(&screen, &options, &error), -1);
    assert_string_equal(error.text,
                        "terminal type 'dumb' cannot move its cursor: use --once or --json");
    close(sink);
}

/* The child's side: takes the terminal, draws, and dies as told. */
static void act_and_die(int signal_number) {
    struct screen *screen;
    struct grid grid = {0};
    struct theme theme;
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    struct screen_options options = {.in = STDIN_FILENO,
                                     .out = STDOUT_FILENO,
                                     .term = "xterm-256color",
                                     .utf8 = true,
                                     .color = true};
    if (screen_open(&screen, &options, NULL) != 0) _exit(99);
    if (grid_resize(&grid, screen_rows(screen), screen_columns(screen)) != 0) _exit(98);
    theme_builtin(&theme, "dark");
    screen_set_theme(screen, &theme);
    grid_text(&grid, 0, 0, 40, GRID_FROZEN, "about to die");
    screen_draw(screen, &grid);
    uint32_t key[SCREEN_KEYS_MAX];
    while (screen_read(screen, false, key) == 0)
        poll(NULL, 0, 1); /* until the parent has seen the frame */
    if (signal_number == 0)
        screen_close(screen);
    else if (signal_number == SIGABRT)
        abort();
    else
        raise(signal_number);
    _exit(0);
}

/* Feeds the terminal until the other end is gone, or `wanted` is on it. */
static void watch(int master, struct help_vterm *terminal, const char *wanted) {
    char bytes[4096];
    for (;;) {
        struct pollfd item = {.fd = master, .events = POLLIN};
        assert_int_equal(poll(&item, 1, 20000), 1);
        ssize_t size = read(master, bytes, sizeof bytes);
        if (size <= 0) return;
        help_vterm_feed(terminal, bytes, (size_t)size);
        char *text = help_vterm_text(terminal);
        bool seen = wanted != NULL && strstr(text, wanted) != NULL;
        free(text);
        if (seen) return;
    }
}

static void test_terminal_is_restored(void **state) {
    static const int WAYS[] = {0, SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL};
    (void)state;
    for (size_t i = 0; i < sizeof WAYS / sizeof *WAYS; i++) {
        struct winsize size = {.ws_row = 10, .ws_col = 50};
        int master, slave, status;
        assert_int_equal(openpty(&master, &slave, NULL, NULL, &size), 0);
        struct termios before, after;
        assert_int_equal(tcgetattr(slave, &before), 0);
        pid_t child = fork();
        if (child == 0) {
            login_tty(slave);
            close(master);
            act_and_die(WAYS[i]);
        }
        struct help_vterm *terminal = help_vterm_open(10, 50);
        watch(master, terminal, "about to die");
        assert_true(help_vterm_alternate(terminal));
        assert_false(help_vterm_cursor_visible(terminal));
        assert_int_equal(tcgetattr(slave, &after), 0);
        assert_int_equal(after.c_lflag & (ICANON | ECHO), 0);
        assert_int_equal(write(master, "x", 1), 1);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(tcgetattr(slave, &after), 0);
        close(slave);
        watch(master, terminal, NULL);
        assert_int_equal(WIFSIGNALED(status) ? WTERMSIG(status) : 0, WAYS[i]);
        assert_false(help_vterm_alternate(terminal));
        assert_true(help_vterm_cursor_visible(terminal));
        assert_memory_equal(&after.c_lflag, &before.c_lflag, sizeof after.c_lflag);
        assert_memory_equal(&after.c_iflag, &before.c_iflag, sizeof after.c_iflag);
        assert_memory_equal(&after.c_oflag, &before.c_oflag, sizeof after.c_oflag);
        help_vterm_close(terminal);
        close(master);
    }
}

static void test_keys_arrive(void **state) {
    (void)state;
    int pair[2];
    assert_int_equal(pipe(pair), 0);
    int sink = open("/dev/null", O_WRONLY);
    struct screen *screen;
    struct screen_options options = {
        .in = pair[0], .out = sink, .term = "xterm", .utf8 = true, .rows = 24, .columns = 80};
    assert_int_equal(screen_open(&screen, &options, NULL), 0);
    uint32_t key[SCREEN_KEYS_MAX];
    assert_int_equal(screen_read(screen, false, key), 0);
    assert_int_equal(write(pair[1], "q\033[A\033", 5), 5);
    assert_int_equal(screen_read(screen, false, key), 2);
    assert_int_equal(key[0], 'q');
    assert_int_equal(key[1], KEYS_UP);
    assert_true(screen_is_waiting(screen));
    assert_int_equal(write(pair[1], "[D", 2), 2); /* the rest of it came late */
    assert_int_equal(screen_read(screen, false, key), 1);
    assert_int_equal(key[0], KEYS_LEFT);
    assert_int_equal(write(pair[1], "\033", 1), 1);
    assert_int_equal(screen_read(screen, false, key), 0);
    assert_int_equal(screen_read(screen, true, key), 1);
    assert_int_equal(key[0], 27);
    assert_false(screen_is_waiting(screen));
    close(pair[1]);
    assert_int_equal(screen_read(screen, false, key), -1); /* the terminal is gone */
    screen_close(screen);
    close(pair[0]);
    close(sink);
}

int main(void) {
    setenv("TZ", "UTC", 1);
    signal(SIGPIPE, SIG_IGN);
    if (setlocale(LC_CTYPE, "C.UTF-8") == NULL) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_screens),
        cmocka_unit_test(test_frames_arrive_whole),
        cmocka_unit_test(test_large_frame),
        cmocka_unit_test(test_unknown_and_dumb_terminals),
        cmocka_unit_test(test_terminal_is_restored),
        cmocka_unit_test(test_keys_arrive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
