/* Messages that came before what stands in front of them, in order of seq, each once. */
#ifndef WIRE_HELD_H
#define WIRE_HELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct held_item {
    uint64_t seq;
    bool is_event;
    size_t size;
    char body[];
};

struct held {
    int first, end, room;    /* of item[] */
    struct held_item **item; /* (first..end), owned */
};

void held_free(struct held *held); /* empty and usable afterwards */
static inline int held_count(const struct held *held) { return held->end - held->first; }

/* Copies the body. False: that seq is there already, or there is no memory. */
bool held_add(struct held *held, const struct held_item *head, const void *body);
/* NULL: empty. Good until the next call. */
const struct held_item *held_first(const struct held *held);
void held_drop(struct held *held);

#endif
