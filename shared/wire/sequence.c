#include "shared/wire/sequence.h"

#include <stdlib.h>
#include <string.h>

static void drop_first(struct sequence *sequence) {
    sequence->bytes -= sequence->item[sequence->first]->size;
    free(sequence->item[sequence->first++]);
    if (sequence->first == sequence->end) sequence->first = sequence->end = 0;
}

void sequence_free(struct sequence *sequence) {
    while (sequence_count(sequence) > 0) drop_first(sequence);
    free(sequence->item);
    memset(sequence, 0, sizeof *sequence);
}

bool sequence_pass(struct sequence *sequence, uint64_t from, uint64_t seq) {
    if (sequence_count(sequence) > 0 || from > sequence->covered + 1 || seq <= sequence->covered)
        return false;
    sequence->covered = seq;
    return true;
}

/* Room for one more at the end. */
static bool make_room(struct sequence *sequence) {
    int count = sequence_count(sequence);
    if (sequence->end < sequence->room) return true;
    if (sequence->first > sequence->room / 2) {
        memmove(sequence->item, sequence->item + sequence->first,
                (size_t)count * sizeof *sequence->item);
        sequence->first = 0;
        sequence->end = count;
        return true;
    }
    int room = sequence->room ? 2 * sequence->room : 64;
    struct sequence_item **grown = realloc(sequence->item, (size_t)room * sizeof *grown);
    if (!grown) return false;
    sequence->item = grown;
    sequence->room = room;
    return true;
}

/* Index of the first with at least this seq; nearly always the end. */
static int find(const struct sequence *sequence, uint64_t seq) {
    int low = sequence->first, high = sequence->end;
    if (high > low && sequence->item[high - 1]->seq < seq) return high;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (sequence->item[middle]->seq < seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void sequence_add(struct sequence *sequence, const struct sequence_item *head, const void *body) {
    if (head->seq <= sequence->covered || !make_room(sequence)) return;
    int at = find(sequence, head->seq);
    if (at < sequence->end && sequence->item[at]->seq == head->seq) return;
    struct sequence_item *item = malloc(sizeof *item + head->size);
    if (!item) return;
    *item = *head;
    memcpy(item->body, body, head->size);
    memmove(sequence->item + at + 1, sequence->item + at,
            (size_t)(sequence->end - at) * sizeof *sequence->item);
    sequence->item[at] = item;
    sequence->bytes += item->size;
    sequence->end++;
}

void sequence_settle(struct sequence *sequence, uint64_t seq) {
    if (seq > sequence->settled) sequence->settled = seq;
}

const struct sequence_item *sequence_next(struct sequence *sequence) {
    while (sequence_count(sequence) > 0 &&
           sequence->item[sequence->first]->seq <= sequence->covered)
        drop_first(sequence);
    const struct sequence_item *item =
        sequence_count(sequence) > 0 ? sequence->item[sequence->first] : NULL;
    if (!item || item->seq > sequence->settled) {
        if (sequence->covered < sequence->settled) sequence->covered = sequence->settled;
        if (item && item->from > sequence->covered + 1) return NULL;
    }
    return item;
}

void sequence_take(struct sequence *sequence) {
    sequence->covered = sequence->item[sequence->first]->seq;
    drop_first(sequence);
}

uint64_t sequence_waiting(const struct sequence *sequence) {
    return sequence_count(sequence) > 0 ? sequence->item[sequence->first]->seq : 0;
}
