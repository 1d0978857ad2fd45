/* The requests that are under way to a history socket, one of a kind: sends them, repeats what is
 * not answered, tells what an answer is about. */
#ifndef WIRE_ASKS_H
#define WIRE_ASKS_H

#include "shared/store/codec.h"
#include "shared/wire/message.h"

#define ASKS(X)                                                       \
    X(HELLO, "hello?")                                                \
    X(PYRAMID, "pyramid?")                                            \
    X(EVENTS, "events?")                                              \
    X(STEPS, "steps?")  /* that come in order before the live ones */ \
    X(DETAIL, "steps?") /* that somebody looks at */

enum ask_kind {
#define X(upper, wire) ASK_##upper,
    ASKS(X)
#undef X
        ASK_COUNT
};

struct ask {
    bool pending;
    struct codec_request request;
    int64_t sent_ns;  /* last; monotonic */
    int tries;        /* so far */
    uint64_t covered; /* seq that the publisher had certainly handed out when this was first sent */
};

struct asks {
    void *dealer;                /* the caller's socket */
    char run_id[RECORD_ID_SIZE]; /* "": whoever lives there */
    uint64_t id;                 /* newest given to a request */
    struct ask ask[ASK_COUNT];
    struct buffer body;
};

void asks_init(struct asks *asks, void *dealer);
void asks_free(struct asks *asks);
/* Sends a request, in place of a pending one of its kind. `first` and `last` -1: from one end to
 * the other. */
void asks_send(struct asks *asks, enum ask_kind kind, const struct ask *ask);
static inline bool asks_pending(const struct asks *asks, enum ask_kind kind) {
    return asks->ask[kind].pending;
}
/* Sends again what has waited too long for an answer, at growing intervals, since a slow line is
 * slower with every repeat. */
void asks_repeat(struct asks *asks, int64_t now_ns);
/* The kind of pending request that an answer with this id is about; it is not pending any more.
 * -1: none. */
int asks_match(struct asks *asks, uint64_t id);

#endif
