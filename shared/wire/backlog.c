#include "shared/wire/backlog.h"

#include <stdlib.h>
#include <string.h>

int backlog_init(struct backlog *backlog, int entries, size_t room) {
    *backlog = (struct backlog){.entries = entries, .room = room};
    backlog->entry = malloc((size_t)entries * sizeof *backlog->entry);
    backlog->bytes = malloc(room);
    if (!backlog->entry || !backlog->bytes) {
        backlog_free(backlog);
        return -1;
    }
    /* Not 0: the compiler would make a calloc of it, whose pages are there only once they are used.
     */
    memset(backlog->entry, 0xff, (size_t)entries * sizeof *backlog->entry);
    memset(backlog->bytes, 0xff, room);
    return 0;
}

void backlog_free(struct backlog *backlog) {
    free(backlog->entry);
    free(backlog->bytes);
    memset(backlog, 0, sizeof *backlog);
}

static struct backlog_entry *entry_of(const struct backlog *backlog, uint64_t number) {
    return &backlog->entry[number % (uint64_t)backlog->entries];
}

void backlog_add(struct backlog *backlog, const struct backlog_entry *entry, const void *data) {
    if (entry->size > backlog->room) return;
    if (backlog->at + entry->size > backlog->room) {
        while (backlog->first < backlog->end &&
               entry_of(backlog, backlog->first)->at >= backlog->at) {
            backlog->first++; /* the oldest lie behind the newest, up to the end of the bytes */
        }
        backlog->at = 0;
    }
    if (backlog->end - backlog->first == (uint64_t)backlog->entries) backlog->first++;
    while (backlog->first < backlog->end) {
        const struct backlog_entry *oldest = entry_of(backlog, backlog->first);
        if (oldest->at < backlog->at || oldest->at >= backlog->at + entry->size) break;
        backlog->first++;
    }
    struct backlog_entry *to = entry_of(backlog, backlog->end++);
    *to = *entry;
    to->at = backlog->at;
    memcpy(backlog->bytes + to->at, data, to->size);
    backlog->at += to->size;
}

uint64_t backlog_find(const struct backlog *backlog, uint64_t seq, int64_t step) {
    uint64_t low = backlog->first, high = backlog->end;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        const struct backlog_entry *entry = entry_of(backlog, middle);
        if (entry->seq < seq || entry->step < step)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct backlog_entry *backlog_read(const struct backlog *backlog, uint64_t number,
                                         const void **data) {
    const struct backlog_entry *entry = entry_of(backlog, number);
    *data = backlog->bytes + entry->at;
    return entry;
}
