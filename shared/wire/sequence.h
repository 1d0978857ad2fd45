/* Puts messages in order of seq, each once. Everything up to `covered` was applied or is known to
 * be lost; what comes beyond the next one waits here until what stands before it has come, too, or
 * is settled. */
#ifndef WIRE_SEQUENCE_H
#define WIRE_SEQUENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sequence_item {
    uint64_t seq;
    uint64_t from; /* accounts for from..seq: that of a gap event, else seq itself */
    bool is_event;
    size_t size;
    char body[];
};

struct sequence {
    uint64_t covered;
    uint64_t settled;            /* up to here nothing more will come */
    size_t bytes;                /* of what waits */
    int first, end, room;        /* of item[] */
    struct sequence_item **item; /* (first..end), owned, ascending */
};

void sequence_free(struct sequence *sequence); /* back to the start, usable afterwards */
static inline int sequence_count(const struct sequence *sequence) {
    return sequence->end - sequence->first;
}

/* True when nothing waits and this is the next one: it counts as covered, and need not be added. */
bool sequence_pass(struct sequence *sequence, uint64_t from, uint64_t seq);
/* Copies the body. Ignored: what is covered or there already; where there is no memory, too: it is
 * lost then. */
void sequence_add(struct sequence *sequence, const struct sequence_item *head, const void *body);
/* What is still missing up to this seq will not come. */
void sequence_settle(struct sequence *sequence, uint64_t seq);
/* The next item, good until the next call; NULL: nothing waits, or something before it is missing.
 */
const struct sequence_item *sequence_next(struct sequence *sequence);
/* The item from sequence_next is covered now. */
void sequence_take(struct sequence *sequence);
/* Lowest seq that waits; 0: nothing does. */
uint64_t sequence_waiting(const struct sequence *sequence);

#endif
