#include "shared/wire/held.h"

#include <stdlib.h>
#include <string.h>

void held_free(struct held *held) {
    while (held_count(held) > 0) held_drop(held);
    free(held->item);
    memset(held, 0, sizeof *held);
}

/* Room for one more at the end. */
static bool make_room(struct held *held) {
    if (held->end < held->room) return true;
    int count = held_count(held);
    if (held->first > held->room / 2) {
        memmove(held->item, held->item + held->first, (size_t)count * sizeof *held->item);
        held->first = 0;
        held->end = count;
        return true;
    }
    int room = held->room ? 2 * held->room : 64;
    struct held_item **grown = realloc(held->item, (size_t)room * sizeof *grown);
    if (!grown) return false;
    held->item = grown;
    held->room = room;
    return true;
}

/* Index of the first with at least this seq; nearly always the end. */
static int find(const struct held *held, uint64_t seq) {
    int low = held->first, high = held->end;
    if (high > low && held->item[high - 1]->seq < seq) return high;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (held->item[middle]->seq < seq) low = middle + 1;
        else high = middle;
    }
    return low;
}

bool held_add(struct held *held, const struct held_item *head, const void *body) {
    if (!make_room(held)) return false;
    int at = find(held, head->seq);
    if (at < held->end && held->item[at]->seq == head->seq) return false;
    struct held_item *item = malloc(sizeof *item + head->size);
    if (!item) return false;
    *item = *head;
    memcpy(item->body, body, head->size);
    memmove(held->item + at + 1, held->item + at, (size_t)(held->end - at) * sizeof *held->item);
    held->item[at] = item;
    held->end++;
    return true;
}

const struct held_item *held_first(const struct held *held) {
    return held_count(held) > 0 ? held->item[held->first] : NULL;
}

void held_drop(struct held *held) {
    free(held->item[held->first++]);
    if (held->first == held->end) held->first = held->end = 0;
}
