#include "tui/display.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "tui/save.h"
#include "tui/screen.h"

enum {
    FRAME_MS = 100, /* 10 frames a second */
    INTAKE_MS = 50, /* messages are taken in bundles: a wake for each costs more than they do */
    IDLE_MS = 250,  /* silence is to be noticed, too */
    DISCOVER_MS = 1000
};

#define CONTROL(letter) ((letter)&0x1f)

/* The display: a screen, and when what is to be done. */
struct display {
    struct program *program;
    struct view view;
    struct screen *screen;
    struct grid grid;
    int keys, signals; /* descriptors */
    int theme;         /* place in the cycle of the key t */
    bool quit;
    bool said[OVERVIEW_RUNS_MAX];             /* that this source failed */
    int died_of;                              /* signal; 0: none */
    bool dirty;                               /* something is to be shown */
    int64_t settle_ns;                        /* until then dirty, whatever comes */
    int64_t frame_ns, intake_ns, discover_ns; /* next */
    int64_t typed_ns;                         /* last */
};

static void show_theme(struct display *display, const char *name) {
    struct theme theme;
    struct error error = {""};
    theme_builtin(&theme, screen_colors(display->screen) > 0 ? "dark" : "mono");
    if (theme_load(&theme, name, &error) != 0)
        view_say(&display->view, error.text, program_now_ns());
    screen_set_theme(display->screen, &theme);
}

/* The themes that the key goes through: those built in, and the one that was asked for. NULL: no
 * more. */
static const char *theme_name(const struct display *display, int n) {
    const char *own = display->program->arguments.theme, *name = theme_builtin_name(n);
    if (name != NULL || own == NULL || theme_builtin_name(n - 1) == NULL) return name;
    for (int i = 0; theme_builtin_name(i) != NULL; i++)
        if (strcmp(theme_builtin_name(i), own) == 0) return NULL;
    return own;
}

static void next_theme(struct display *display) {
    if (theme_name(display, ++display->theme) == NULL) display->theme = 0;
    view_say(&display->view, theme_name(display, display->theme), program_now_ns());
    show_theme(display, theme_name(display, display->theme));
}

/* What fits this terminal when nothing was said. COLORFGBG is "foreground;background". */
static const char *first_theme(const struct display *display) {
    const char *colors = getenv("COLORFGBG"), *background = colors ? strrchr(colors, ';') : NULL;
    if (display->program->arguments.theme != NULL) return display->program->arguments.theme;
    if (screen_colors(display->screen) == 0) return "mono";
    return background && (strcmp(background, ";15") == 0 || strcmp(background, ";7") == 0) ? "light"
                                                                                           : "dark";
}

static void show(struct display *display, int64_t now_ns) {
    struct view *view = &display->view;
    int rows = screen_rows(display->screen), columns = screen_columns(display->screen);
    if (rows != display->grid.rows || columns != display->grid.columns) {
        if (grid_resize(&display->grid, rows, columns) != 0) display->quit = true;
        view_resize(view, rows, columns);
    }
    view_tick(view, now_ns);
    view_draw(view, &display->grid);
    if (screen_draw(display->screen, &display->grid) < 0) display->quit = true;
    if (!program_ask(display->program, view))
        display->settle_ns = now_ns + PROGRAM_SETTLE_MS * PROGRAM_MS;
    display->frame_ns = now_ns + FRAME_MS * PROGRAM_MS;
    display->dirty = now_ns < display->settle_ns;
}

static void save(struct display *display) {
    char said[VIEW_STATUS_SIZE];
    struct error error;
    show(display, program_now_ns()); /* the numbers are of now, so be the screen */
    struct save_options options = {display->program->arguments.save_dir, !display->program->utf8};
    int result = save_screen(&display->view, &display->grid, &options, said, sizeof said, &error);
    view_say(&display->view, result == 0 ? said : error.text, program_now_ns());
}

/* What the terminal would make signals of, were they not for the display alone. */
static bool take_control(struct display *display, uint32_t key) {
    switch (key) {
    case CONTROL('C'):
        display->quit = true;
        return true;
    case CONTROL('\\'):
        display->quit = true;
        display->died_of = SIGQUIT;
        return true;
    case CONTROL('Z'):
        screen_stop(display->screen, true);
        display->dirty = true;
        return true;
    default:
        return false;
    }
}

static void take_keys(struct display *display, bool typed) {
    uint32_t key[SCREEN_KEYS_MAX];
    int64_t now_ns = program_now_ns();
    if (typed) display->typed_ns = now_ns;
    bool idle = now_ns - display->typed_ns >= SCREEN_ESC_MS * PROGRAM_MS;
    if (!typed && !(idle && screen_is_waiting(display->screen))) return;
    int count = screen_read(display->screen, idle, key);
    if (count < 0) display->quit = true;
    for (int i = 0; i < count && !display->quit; i++) {
        if (take_control(display, key[i])) continue;
        switch (view_key(&display->view, key[i], program_now_ns())) {
        case VIEW_QUIT:
            display->quit = true;
            break;
        case VIEW_SAVE:
            save(display);
            break;
        case VIEW_THEME:
            next_theme(display);
            break;
        case VIEW_NOTHING:
            break;
        }
    }
    if (count > 0) display->frame_ns = 0; /* a key is answered at once */
    if (count > 0) display->settle_ns = program_now_ns() + PROGRAM_SETTLE_MS * PROGRAM_MS;
}

static void take_signal(struct display *display) {
    struct signalfd_siginfo info;
    if (read(display->signals, &info, sizeof info) != sizeof info) return;
    switch (info.ssi_signo) {
    case SIGTSTP:
        screen_stop(display->screen, false);
        break;
    case SIGWINCH:
    case SIGCONT:
        screen_fit(display->screen);
        break;
    case SIGINT:
        display->quit = true;
        break;
    default:
        display->quit = true;
        display->died_of = (int)info.ssi_signo;
        break;
    }
    display->frame_ns = 0;
    display->dirty = true;
}

static void discover(struct display *display, int64_t now_ns) {
    struct program *program = display->program;
    struct error error;
    if (program->arguments.sources > 0 || now_ns < display->discover_ns) return;
    display->discover_ns = now_ns + DISCOVER_MS * PROGRAM_MS;
    if (watch_discover(&program->list, &error) < 0) view_say(&display->view, error.text, now_ns);
    while (display->view.runs < program->list.count)
        view_add(&display->view, &program->list.watch[display->view.runs]->run);
}

static int64_t timeout_ms(const struct display *display, int64_t now_ns, bool intake) {
    int64_t due_ns = now_ns + IDLE_MS * PROGRAM_MS;
    if (screen_is_waiting(display->screen)) due_ns = display->typed_ns + SCREEN_ESC_MS * PROGRAM_MS;
    if (display->dirty && display->frame_ns < due_ns) due_ns = display->frame_ns;
    if (!intake && display->intake_ns < due_ns) due_ns = display->intake_ns;
    return (due_ns - now_ns + PROGRAM_MS - 1) / PROGRAM_MS;
}

/* Says once what went wrong with a source. */
static void say_failures(struct display *display) {
    const struct watch_list *list = &display->program->list;
    for (int i = 0; i < list->count; i++) {
        if (!list->watch[i]->failed || display->said[i]) continue;
        display->said[i] = true;
        view_say(&display->view, list->watch[i]->reason.text, program_now_ns());
    }
}

static void take_in(struct display *display, int64_t now_ns) {
    if (watch_poll(&display->program->list, now_ns, INTAKE_MS * PROGRAM_MS)) {
        display->dirty = true;
        display->settle_ns = now_ns + PROGRAM_SETTLE_MS * PROGRAM_MS;
    }
    say_failures(display);
    int64_t end_ns = program_now_ns();
    bool more = end_ns - now_ns > INTAKE_MS * PROGRAM_MS / 2; /* than there was time for */
    display->intake_ns = more ? end_ns : end_ns + INTAKE_MS * PROGRAM_MS;
}

static void loop(struct display *display) {
    while (!display->quit) {
        bool ready[2], intake = program_now_ns() >= display->intake_ns;
        int64_t wait_ms = timeout_ms(display, program_now_ns(), intake);
        display->program->wait(&display->program->list, intake,
                               (const int[2]){display->signals, display->keys}, ready, wait_ms);
        if (ready[0]) take_signal(display);
        take_keys(display, ready[1]);
        int64_t now_ns = program_now_ns();
        discover(display, now_ns);
        if (now_ns >= display->intake_ns) take_in(display, now_ns);
        if (display->frame_ns == 0 ||
            now_ns >= display->frame_ns + (display->dirty ? 0 : IDLE_MS * PROGRAM_MS))
            show(display, now_ns);
    }
}

static int open_keys(const struct arguments *arguments) {
    bool lines = false;
    for (int i = 0; i < arguments->sources; i++) lines |= strcmp(arguments->source[i], "-") == 0;
    return !lines && isatty(STDIN_FILENO) ? STDIN_FILENO : open("/dev/tty", O_RDONLY | O_CLOEXEC);
}

static int open_signals(void) {
    sigset_t set;
    sigemptyset(&set);
    const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) sigaddset(&set, signals[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Ends as the signal would have done. */
static void die_of(int signal_number) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal_number);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

int display_run(struct program *program) {
    static struct display display;
    struct error error;
    const char *no_color = getenv("NO_COLOR");
    display.program = program;
    display.dirty = true;
    display.keys = open_keys(&program->arguments);
    display.signals = open_signals();
    struct screen_options options = {
        display.keys, STDOUT_FILENO, getenv("TERM"), program->utf8, !no_color || !*no_color, 0, 0};
    program_view(program, &display.view);
    if (screen_open(&display.screen, &options, &error) != 0)
        return program_complain(&error, PROGRAM_UNREADABLE);
    const char *first = first_theme(&display), *name;
    while ((name = theme_name(&display, display.theme)) != NULL && strcmp(name, first) != 0)
        display.theme++;
    show_theme(&display, first);
    if (screen_note(display.screen)[0] != '\0')
        view_say(&display.view, screen_note(display.screen), program_now_ns());
    loop(&display);
    screen_close(display.screen);
    grid_free(&display.grid);
    program_complain_about_sources(program);
    if (display.died_of != 0) die_of(display.died_of);
    return watch_exit_code(&program->list);
}
