/* The runs that are watched: opens whatever the command line names, finds new ones, reads them all.
 */
#ifndef TUI_WATCH_H
#define TUI_WATCH_H

#include "shared/wire/feed.h"
#include "tui/overview.h"

enum { WATCH_NEWEST = 32 /* full records that come with the picture */ };

struct watch { /* one run and where it comes from */
    struct run run;
    struct feed *feed;
    char id[RECORD_ID_SIZE]; /* of a run in the user's folder; "" */
    bool over;               /* nothing more comes, unless a stored record is wanted */
    bool failed;             /* with a reason */
    struct error reason;
};

struct watch_list {
    void *context; /* of zmq, the caller's */
    struct feed_options options;
    int count;
    struct watch *watch[OVERVIEW_RUNS_MAX]; /* owned; each stays where it is */
};

/* Opens a RUN, ENDPOINT, DB or "-". Returns 0, or the exit code 2 (unreadable) or 3 (nothing there)
 * with the reason. */
int watch_open(struct watch_list *list, const char *source, struct error *error);
/* Adds the live runs of this user that are not watched yet. Returns how many, -1 with the reason.
 */
int watch_discover(struct watch_list *list, struct error *error);
/* Reads all sources for about `budget_ns` altogether. True when some run changed. */
bool watch_poll(struct watch_list *list, int64_t now_ns, int64_t budget_ns);
/* The full records of these steps are there, but for those that are known to be lost. */
bool watch_has(const struct watch *watch, int64_t first, int64_t last);
/* A stored run without an end whose trainer lives no more: it will be called dead when all of it is
 * read. */
bool watch_may_have_died(const struct watch *watch);
/* The pyramid and the newest records have come, or nothing more will. */
bool watch_has_picture(const struct watch *watch);
/* 1: an alarm or non-finite in some run's whole life; else 2: one was unreadable; else 3: one died
 * or never answered; 0. */
int watch_exit_code(const struct watch_list *list);
void watch_close(struct watch_list *list);

#endif
