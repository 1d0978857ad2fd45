/* What a feed can read from. Each kind is a file of its own. */
#ifndef WIRE_SOURCE_H
#define WIRE_SOURCE_H

#include "shared/wire/intake.h"

/* One call of feed_poll. */
struct turn {
    int64_t now_ns; /* the caller's monotonic clock */
    int64_t end_ns; /* of the real one: no longer than to here */
};
bool turn_is_over(const struct turn *turn);

struct source {
    /* -1: over, or it cannot go on, with the reason ("" at a clean end). */
    int (*poll)(void *source, const struct turn *turn, struct error *error);
    int (*items)(void *source, void *items, int max);
    void (*want)(void *source, int64_t first, int64_t last);
    void (*close)(void *source);
};

extern const struct source live_source, stored_source, lines_source;

/* Each returns NULL with the reason, and keeps the intake. */
void *live_open(void *context, const char *address, struct intake *intake, struct error *error);
void *stored_open(const char *path, struct intake *intake, struct error *error);
void *lines_open(int fd, struct intake *intake, struct error *error);

#endif
