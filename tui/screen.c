#include "tui/screen.h"

#include <curses.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <term.h>
#include <termios.h>
#include <unistd.h>

#include "tui/keys.h"

#undef columns /* term.h makes a macro of it */

#define SYNC_BEGIN "\033[?2026h"
#define SYNC_END   "\033[?2026l"
enum {
    SYNC_SIZE = sizeof SYNC_BEGIN - 1,
    RESTORE_MAX = 256,
    ALTERNATE_STACK = 16384,
    SIDE_MAX = 1000 /* rows or columns; a terminal may claim 65535, which ncurses cannot take */
};

static const int CRASHES[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
enum { CRASH_COUNT = sizeof CRASHES / sizeof *CRASHES };

struct screen {
    SCREEN *curses;
    FILE *memory; /* what ncurses writes to */
    int in, out;
    int rows, columns;
    bool tty, utf8;
    bool synchronized; /* the terminal speaks ANSI, so it knows or ignores the marks around a frame
                        */
    int colors;
    char note[160];
    unsigned attribute[GRID_ROLE_COUNT];
    struct grid shown; /* as ncurses has it */
    char *frame;       /* (room) bytes of one frame */
    size_t room;
    unsigned char typed[64]; /* not yet a whole key */
    size_t typed_size;
};

/* For the crash handler, which has no argument. */
static struct {
    int out;
    struct termios saved;
    char restore[RESTORE_MAX];
    size_t restore_size;
    volatile sig_atomic_t armed;
} crash;

static void crash_restore(void) {
    if (!crash.armed) return;
    crash.armed = 0;
    ssize_t written = write(crash.out, crash.restore, crash.restore_size);
    (void)written;
    tcsetattr(crash.out, TCSANOW, &crash.saved);
}

static void crash_handle(int signal_number) {
    crash_restore();
    raise(signal_number); /* the default action, by SA_RESETHAND, when the handler returns */
}

static void append_capability(const char *name) {
    const char *text = tigetstr(name);
    if (text == NULL || text == (const char *)-1) return;
    while (*text != '\0' && crash.restore_size < RESTORE_MAX) {
        if (text[0] == '$' && text[1] == '<') { /* padding, for terminals of steel */
            text += strcspn(text, ">");
            text += *text != '\0';
        } else {
            crash.restore[crash.restore_size++] = *text++;
        }
    }
}

static void crash_arm(struct screen *screen) {
    static char stack[ALTERNATE_STACK]; /* a stack that overflowed cannot run a handler */
    crash.out = screen->out;
    crash.restore_size = 0;
    if (screen->synchronized) {
        memcpy(crash.restore, SYNC_END, SYNC_SIZE);
        crash.restore_size = SYNC_SIZE;
    }
    append_capability("sgr0");
    append_capability("op");
    append_capability("cnorm");
    append_capability("rmcup");
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&alternate, NULL);
    struct sigaction action = {.sa_handler = crash_handle,
                               .sa_flags = SA_ONSTACK | (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < CRASH_COUNT; i++) sigaction(CRASHES[i], &action, NULL);
    crash.armed = 1;
}

static void modes_take(struct screen *screen) {
    if (!screen->tty) return;
    struct termios raw = crash.saved;
    /* Without ISIG, Ctrl-C is ours alone: whoever started us (make, a script) is not interrupted.
     */
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ISIG);
    raw.c_iflag &= ~(tcflag_t)(ICRNL | IXON);
    raw.c_oflag &= ~(tcflag_t)OPOST; /* ncurses moves down by a bare line feed */
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    tcsetattr(screen->out, TCSANOW, &raw);
    crash.armed = 1;
}

static int write_all(int out, const char *bytes, size_t size) {
    while (size > 0) {
        ssize_t written = write(out, bytes, size);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0 &&
            errno == EAGAIN) { /* the descriptor is shared with a shell that left it so */
            struct pollfd item = {.fd = out, .events = POLLOUT};
            if (poll(&item, 1, -1) > 0 && (item.revents & (POLLERR | POLLHUP)) == 0) continue;
        }
        if (written < 0) return -1;
        bytes += written;
        size -= (size_t)written;
    }
    return 0;
}

/* Sends what ncurses wrote as one frame. Returns its bytes, -1 when the terminal is gone. */
static int flush_frame(struct screen *screen) {
    int memory = fileno(screen->memory);
    off_t size = lseek(memory, 0, SEEK_END);
    if (size <= 0) return 0;
    size_t room = (size_t)size + 2 * SYNC_SIZE;
    if (room > screen->room) {
        char *frame = realloc(screen->frame, room);
        if (frame == NULL) return -1;
        screen->frame = frame;
        screen->room = room;
    }
    size_t mark = screen->synchronized ? SYNC_SIZE : 0;
    memcpy(screen->frame, SYNC_BEGIN, mark);
    if (pread(memory, screen->frame + mark, (size_t)size, 0) != (ssize_t)size) return -1;
    memcpy(screen->frame + mark + size, SYNC_END, mark);
    if (ftruncate(memory, 0) != 0 || lseek(memory, 0, SEEK_SET) != 0) return -1;
    size_t total = (size_t)size + 2 * mark;
    return write_all(screen->out, screen->frame, total) == 0 ? (int)total : -1;
}

static bool term_works(const char *term, int out, bool *known) {
    int status = 0;
    *known = term != NULL && *term != '\0' && setupterm(term, out, &status) == OK;
    if (!*known) return false;
    const char *move = tigetstr("cup");
    bool works = move != NULL && move != (const char *)-1;
    del_curterm(cur_term);
    return works;
}

/* The wanted type, or the first of the usual ones that is known here. NULL: it cannot do, or none
 * is known. */
static const char *term_choose(const char *wanted, int out, char *note, size_t note_size) {
    static const char *const USUAL[] = {"xterm-256color", "xterm", "ansi", "vt100", NULL};
    bool known;
    if (term_works(wanted, out, &known)) return wanted;
    for (int i = 0; !known && USUAL[i] != NULL; i++) {
        bool usual_known;
        if (!term_works(USUAL[i], out, &usual_known)) continue;
        if (wanted == NULL || *wanted == '\0')
            snprintf(note, note_size, "TERM is not set: drawing as %s", USUAL[i]);
        else
            snprintf(note, note_size, "TERM %.64s is not known here: drawing as %s", wanted,
                     USUAL[i]);
        return USUAL[i];
    }
    return NULL;
}

/* Takes the terminal's size, or the one that is given and known. */
static void size_take(struct screen *screen, int rows, int columns) {
    struct winsize size = {0};
    bool asked = screen->tty && ioctl(screen->out, TIOCGWINSZ, &size) == 0;
    if (asked && size.ws_row > 0 && size.ws_col > 0) {
        rows = size.ws_row;
        columns = size.ws_col;
    }
    screen->rows = rows <= 0 ? 24 : rows < SIDE_MAX ? rows : SIDE_MAX;
    screen->columns = columns <= 0 ? 80 : columns < SIDE_MAX ? columns : SIDE_MAX;
    resizeterm(screen->rows, screen->columns);
    clearok(curscr, TRUE);
    screen->shown.rows = 0; /* nothing of it is on the screen any more */
}

static int colors_start(bool wanted) {
    if (!wanted || !has_colors() || start_color() != OK) return 0;
    use_default_colors();
    if (COLORS < 8 || COLOR_PAIRS <= GRID_ROLE_COUNT) return 0;
    return COLORS == 256                  ? 256
           : COLORS >= 16 && COLORS < 256 ? 16
                                          : 8; /* direct colour: its first 8 are the usual ones */
}

static int curses_open(struct screen *screen, const struct screen_options *options,
                       struct error *error) {
    const char *term = term_choose(options->term, screen->out, screen->note, sizeof screen->note);
    if (term == NULL)
        return error_set(error, "terminal type '%s' cannot move its cursor: use --once or --json",
                         options->term ? options->term : "");
    int memory = memfd_create("nantop-frame", MFD_CLOEXEC);
    screen->memory = memory < 0 ? NULL : fdopen(memory, "w+");
    if (screen->memory == NULL) return error_set(error, "frame buffer: %s", strerror(errno));
    /* ncurses ignores SIGTSTP while it draws, which would lose one that is pending, unless it finds
     * that somebody else handles it. */
    void (*stop)(int) = signal(SIGTSTP, SIG_IGN);
    screen->curses = newterm(term, screen->memory, screen->memory);
    signal(SIGTSTP, stop);
    if (screen->curses == NULL) return error_set(error, "terminal type '%s' does not work", term);
    const char *move = tigetstr("cup");
    screen->synchronized = move != NULL && strncmp(move, "\033[", 2) == 0;
    screen->colors = colors_start(options->color);
    nonl();
    typeahead(-1); /* it would look for keys in the frame */
    leaveok(stdscr, TRUE);
    curs_set(0);
    return 0;
}

int screen_open(struct screen **out, const struct screen_options *options, struct error *error) {
    struct screen *screen = calloc(1, sizeof *screen);
    if (screen == NULL) return error_set(error, "terminal: out of memory");
    screen->in = options->in;
    screen->out = options->out;
    screen->tty = options->rows == 0;
    screen->utf8 = options->utf8;
    int result = 0;
    if (screen->tty && tcgetattr(screen->out, &crash.saved) != 0)
        result = error_set(error, "terminal: %s", strerror(errno));
    if (result == 0) result = curses_open(screen, options, error);
    if (result != 0) {
        if (screen->memory != NULL) fclose(screen->memory);
        free(screen);
        return -1;
    }
    if (screen->tty) crash_arm(screen);
    modes_take(screen);
    size_take(screen, options->rows, options->columns);
    *out = screen;
    return 0;
}

void screen_close(struct screen *screen) {
    if (screen == NULL) return;
    endwin();
    flush_frame(screen);
    if (screen->tty) crash_restore();
    delscreen(screen->curses);
    fclose(screen->memory);
    grid_free(&screen->shown);
    free(screen->frame);
    free(screen);
}

int screen_rows(const struct screen *screen) { return screen->rows; }

int screen_columns(const struct screen *screen) { return screen->columns; }

void screen_fit(struct screen *screen) { size_take(screen, screen->rows, screen->columns); }

int screen_colors(const struct screen *screen) { return screen->colors; }

const char *screen_note(const struct screen *screen) { return screen->note; }

void screen_set_theme(struct screen *screen, const struct theme *theme) {
    static const attr_t ATTRIBUTE[] = {A_BOLD, A_DIM, A_UNDERLINE,
                                       A_REVERSE}; /* in the order of the THEME_ bits */
    for (int role = 0; role < GRID_ROLE_COUNT; role++) {
        const struct theme_style *style = &theme->style[role];
        screen->attribute[role] = 0;
        for (int bit = 0; bit < 4; bit++)
            if ((style->attributes >> bit & 1) != 0) screen->attribute[role] |= ATTRIBUTE[bit];
        if (screen->colors > 0)
            init_pair((short)(role + 1), (short)theme_nearest(style->foreground, screen->colors),
                      (short)theme_nearest(style->background, screen->colors));
    }
    screen->shown.rows = 0;
}

static void put_cell(const struct screen *screen, int row, int column,
                     const struct grid_cell *cell) {
    wchar_t text[3] = {0};
    cchar_t complex;
    for (int i = 0; i < 2 && cell->glyph[i] != 0; i++)
        if (i == 0 || screen->utf8)
            text[i] = (wchar_t)(screen->utf8 ? cell->glyph[i] : grid_ascii(cell->glyph[i]));
    if (text[0] == 0)
        text[0] = L' '; /* the right half of a wide character, where '?' stands for it */
    short pair = (short)(screen->colors > 0 ? cell->role + 1 : 0);
    if (setcchar(&complex, text, screen->attribute[cell->role], pair, NULL) == OK)
        mvadd_wch(row, column, &complex);
}

int screen_draw(struct screen *screen, const struct grid *grid) {
    if (grid->rows != screen->rows || grid->columns != screen->columns)
        return 0; /* resized meanwhile: the next one fits */
    bool all = screen->shown.rows != grid->rows || screen->shown.columns != grid->columns;
    if (all && grid_resize(&screen->shown, grid->rows, grid->columns) != 0) return -1;
    for (int i = 0; i < grid->rows * grid->columns; i++) {
        const struct grid_cell *cell = &grid->cell[i];
        struct grid_cell *shown = &screen->shown.cell[i];
        bool same = cell->glyph[0] == shown->glyph[0] && cell->glyph[1] == shown->glyph[1] &&
                    cell->role == shown->role;
        if (!all && same) continue;
        *shown = *cell;
        if (cell->glyph[0] != 0 || !screen->utf8)
            put_cell(screen, i / grid->columns, i % grid->columns, cell);
    }
    wnoutrefresh(stdscr);
    doupdate();
    return flush_frame(screen);
}

int screen_read(struct screen *screen, bool idle, uint32_t code[SCREEN_KEYS_MAX]) {
    struct pollfd item = {.fd = screen->in, .events = POLLIN};
    if (screen->in >= 0 && poll(&item, 1, 0) > 0) {
        ssize_t size = read(screen->in, screen->typed + screen->typed_size,
                            sizeof screen->typed - screen->typed_size);
        if (size == 0 || (size < 0 && errno != EINTR && errno != EAGAIN)) return -1;
        if (size > 0) screen->typed_size += (size_t)size;
        if (size > 0) idle = false;
    }
    int count = 0;
    size_t used = 0;
    bool final = idle || screen->typed_size == sizeof screen->typed;
    for (size_t size = 1; size > 0 && used < screen->typed_size; used += size) {
        size = keys_decode(screen->typed + used, screen->typed_size - used, final, &code[count]);
        if (size > 0 && code[count] != KEYS_NONE) count++;
    }
    screen->typed_size -= used;
    memmove(screen->typed, screen->typed + used, screen->typed_size);
    return count;
}

bool screen_is_waiting(const struct screen *screen) { return screen->typed_size > 0; }

void screen_stop(struct screen *screen, bool job) {
    /* Our shell may have taken the terminal back already: it is restored all the same. */
    void (*background)(int) = signal(SIGTTOU, SIG_IGN);
    endwin();
    flush_frame(screen);
    crash_restore();
    signal(SIGTTOU, background);
    sigset_t stop;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    if (job)
        kill(0, SIGTSTP);
    else
        raise(SIGTSTP);
    sigprocmask(SIG_UNBLOCK, &stop,
                NULL); /* here it stops; SIGSTOP instead would leave `ssh -t` hanging */
    sigprocmask(SIG_BLOCK, &stop, NULL);
    modes_take(screen);
    size_take(screen, screen->rows, screen->columns);
}
