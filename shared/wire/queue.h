/* Hands records and events from one thread to another, in order and without ever waiting: a ring of
 * items whose memory is taken at the start. What finds the ring full is dropped and counted. */
#ifndef WIRE_QUEUE_H
#define WIRE_QUEUE_H

#include <stdatomic.h>

#include "shared/core/record.h"

enum { QUEUE_BYTES = 64 << 20, QUEUE_ITEMS_MIN = 16 };

struct queue_item {
    uint64_t dropped; /* items dropped between the one before and this one */
    bool is_event;
    struct record record; /* if it is none */
    struct event event;   /* if it is one */
};

struct queue {
    int items;
    struct queue_item *item;       /* (items) slot = number % items */
    struct tensor_stat *tensor;    /* (items, tensors) of all records */
    uint64_t dropped;              /* since the last item; the producer's */
    atomic_uint_fast64_t produced; /* items handed over; the producer's to write */
    atomic_uint_fast64_t consumed; /* items taken; the consumer's to write */
};

/* Takes and touches all memory. Records of very many tensors get fewer items: QUEUE_BYTES, at least
 * QUEUE_ITEMS_MIN. -1: no memory. */
int queue_init(struct queue *queue, int items, int tensors);
void queue_free(struct queue *queue);

/* The producer's side. The next free record, cleared; NULL: full, dropped. No event between begin
 * and submit. */
struct record *queue_begin(struct queue *queue);
void queue_submit(struct queue *queue);
void queue_event(struct queue *queue, const struct event *event);

/* The consumer's side. The oldest item, good until queue_take; NULL: empty. */
struct queue_item *queue_peek(struct queue *queue);
void queue_take(struct queue *queue);

#endif
