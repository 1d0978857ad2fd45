#include "shared/wire/queue.h"

#include <stdlib.h>
#include <string.h>

int queue_init(struct queue *queue, int items, int tensors) {
    memset(queue, 0, sizeof *queue);
    size_t stats = (size_t)tensors * sizeof *queue->tensor;
    size_t fitting = QUEUE_BYTES / (sizeof *queue->item + stats);
    if ((size_t)items > fitting) items = (int)fitting;
    if (items < QUEUE_ITEMS_MIN) items = QUEUE_ITEMS_MIN;
    queue->items = items;
    queue->item = calloc((size_t)items, sizeof *queue->item);
    queue->tensor = malloc((size_t)items * stats + 1);
    if (!queue->item || !queue->tensor) {
        queue_free(queue);
        return -1;
    }
    for (int i = 0; i < items; i++) {
        struct record *record = &queue->item[i].record;
        record->tensors = tensors;
        record->tensor = queue->tensor + (size_t)i * (size_t)tensors;
        record_clear(record);
        event_init(&queue->item[i].event, EVENT_NOTICE);
    }
    atomic_init(&queue->produced, 0);
    atomic_init(&queue->consumed, 0);
    return 0;
}

void queue_free(struct queue *queue) {
    free(queue->item);
    free(queue->tensor);
    memset(queue, 0, sizeof *queue);
}

static struct queue_item *find_free(struct queue *queue) {
    uint64_t number = atomic_load_explicit(&queue->produced, memory_order_relaxed);
    uint64_t oldest = atomic_load_explicit(&queue->consumed, memory_order_acquire);
    if (number - oldest >= (uint64_t)queue->items) {
        queue->dropped++;
        return NULL;
    }
    return &queue->item[number % (uint64_t)queue->items];
}

static void hand_over(struct queue *queue, bool is_event) {
    uint64_t number = atomic_load_explicit(&queue->produced, memory_order_relaxed);
    struct queue_item *item = &queue->item[number % (uint64_t)queue->items];
    item->is_event = is_event;
    item->dropped = queue->dropped;
    queue->dropped = 0;
    atomic_store_explicit(&queue->produced, number + 1, memory_order_release);
}

struct record *queue_begin(struct queue *queue) {
    struct queue_item *item = find_free(queue);
    if (!item) return NULL;
    record_clear(&item->record);
    return &item->record;
}

void queue_submit(struct queue *queue) { hand_over(queue, false); }

void queue_event(struct queue *queue, const struct event *event) {
    struct queue_item *item = find_free(queue);
    if (!item) return;
    item->event = *event;
    hand_over(queue, true);
}

struct queue_item *queue_peek(struct queue *queue) {
    uint64_t number = atomic_load_explicit(&queue->consumed, memory_order_relaxed);
    if (number == atomic_load_explicit(&queue->produced, memory_order_acquire)) return NULL;
    return &queue->item[number % (uint64_t)queue->items];
}

void queue_take(struct queue *queue) {
    uint64_t number = atomic_load_explicit(&queue->consumed, memory_order_relaxed);
    atomic_store_explicit(&queue->consumed, number + 1, memory_order_release);
}
