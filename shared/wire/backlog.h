/* The newest messages as they were published, in one ring of bytes: the oldest make room. */
#ifndef WIRE_BACKLOG_H
#define WIRE_BACKLOG_H

#include <stddef.h>
#include <stdint.h>

struct backlog_entry {
    uint64_t seq;
    int64_t step;
    size_t at, size; /* in bytes[] */
};

struct backlog {
    int entries;
    struct backlog_entry *entry; /* (entries) slot = number % entries */
    uint64_t first, end;         /* numbers of the oldest kept, and of the next to come */
    size_t room, at;
    char *bytes; /* (room) */
};

/* All memory is taken and touched here. -1: there is none. */
int backlog_init(struct backlog *backlog, int entries, size_t room);
void backlog_free(struct backlog *backlog);

/* Copies the message; seq and step never go back. One that is larger than all the room is not kept.
 */
void backlog_add(struct backlog *backlog, const struct backlog_entry *entry, const void *data);
/* Number of the oldest entry with at least this seq and this step; `end`: there is none. */
uint64_t backlog_find(const struct backlog *backlog, uint64_t seq, int64_t step);
/* first <= number < end. `*data` is good until the next backlog_add. */
const struct backlog_entry *backlog_read(const struct backlog *backlog, uint64_t number,
                                         const void **data);

#endif
