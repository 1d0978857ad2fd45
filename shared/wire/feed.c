#include "shared/wire/feed.h"

#include <stdlib.h>
#include <time.h>

#include "shared/wire/source.h"

struct feed {
    struct intake intake;
    const struct source *source;
    void *of; /* the source's */
};

static int64_t real_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

bool turn_is_over(const struct turn *turn) { return real_ns() >= turn->end_ns; }

static struct feed *make_feed(struct run *run, const struct feed_options *options,
                              struct error *error) {
    struct feed *feed = calloc(1, sizeof *feed);
    if (feed)
        intake_init(&feed->intake, run, options);
    else
        error_set(error, "read %s: no memory", run->source);
    return feed;
}

static int start(struct feed **out, struct feed *feed, const struct source *source, void *of) {
    feed->source = source;
    feed->of = of;
    if (!of) {
        feed_close(feed);
        return -1;
    }
    *out = feed;
    return 0;
}

int feed_open_endpoint(struct feed **out, void *context, const char *address, struct run *run,
                       const struct feed_options *options, struct error *error) {
    struct feed *feed = make_feed(run, options, error);
    return feed ? start(out, feed, &live_source, live_open(context, address, &feed->intake, error))
                : -1;
}

int feed_open_file(struct feed **out, const char *path, struct run *run,
                   const struct feed_options *options, struct error *error) {
    struct feed *feed = make_feed(run, options, error);
    return feed ? start(out, feed, &stored_source, stored_open(path, &feed->intake, error)) : -1;
}

int feed_open_lines(struct feed **out, int fd, struct run *run, const struct feed_options *options,
                    struct error *error) {
    struct feed *feed = make_feed(run, options, error);
    return feed ? start(out, feed, &lines_source, lines_open(fd, &feed->intake, error)) : -1;
}

void feed_close(struct feed *feed) {
    if (!feed) return;
    if (feed->of) feed->source->close(feed->of);
    intake_free(&feed->intake);
    free(feed);
}

int feed_items(struct feed *feed, void *items, int max) {
    return feed->source->items(feed->of, items, max);
}

int feed_poll(struct feed *feed, int64_t now_ns, int64_t budget_ns, struct error *error) {
    struct turn turn = {.now_ns = now_ns, .end_ns = real_ns() + budget_ns};
    struct error none = {""};
    feed->intake.changed = false;
    int over = feed->source->poll(feed->of, &turn, error ? error : &none);
    intake_rest(&feed->intake, now_ns, over < 0);
    bool clean = over == 0 || (error ? error : &none)->text[0] == '\0';
    return clean && feed->intake.changed ? 1 : over;
}

bool feed_caught_up(const struct feed *feed) {
    const struct intake *intake = &feed->intake;
    bool held = intake->waits && intake->waiting.step <= intake->caught_step;
    return intake->caught_up && !held;
}

void feed_want(struct feed *feed, int64_t first, int64_t last) {
    feed->source->want(feed->of, first, last);
}
