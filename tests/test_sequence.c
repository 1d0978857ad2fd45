/* The plain parts of the wire: the queue, the backlog, messages in order. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shared/wire/backlog.h"
#include "shared/wire/queue.h"
#include "shared/wire/sequence.h"

static void add(struct sequence *sequence, uint64_t seq) {
    struct sequence_item head = {.seq = seq, .from = seq, .size = sizeof seq};
    sequence_add(sequence, &head, &seq);
}

static uint64_t take(struct sequence *sequence) {
    const struct sequence_item *item = sequence_next(sequence);
    uint64_t seq = 0;
    if (!item) return 0;
    memcpy(&seq, item->body, sizeof seq);
    assert_int_equal(seq, item->seq);
    sequence_take(sequence);
    return seq;
}

static void test_order(void **state) {
    (void)state;
    struct sequence sequence = {0};
    assert_true(sequence_pass(&sequence, 1, 1));
    assert_false(sequence_pass(&sequence, 1, 1));
    assert_false(sequence_pass(&sequence, 3, 3));
    const uint64_t jumbled[] = {5, 3, 4, 3, 9, 1, 5};
    for (int i = 0; i < 7; i++) add(&sequence, jumbled[i]);
    assert_int_equal(sequence_count(&sequence), 4);
    assert_int_equal(take(&sequence), 0);
    assert_false(sequence_pass(&sequence, 2, 2)); /* something waits: through there */
    add(&sequence, 2);
    for (uint64_t seq = 2; seq <= 5; seq++) assert_int_equal(take(&sequence), seq);
    assert_int_equal(take(&sequence), 0);
    assert_int_equal(sequence_waiting(&sequence), 9);
    sequence_settle(&sequence, 7);
    assert_int_equal(take(&sequence), 0);
    assert_int_equal(sequence.covered, 7);
    struct sequence_item gap = {.seq = 8, .from = 7, .is_event = true};
    sequence_add(&sequence, &gap, "");
    assert_int_equal(sequence_next(&sequence)->seq, 8);
    sequence_take(&sequence);
    assert_int_equal(take(&sequence), 9);
    assert_int_equal(sequence_waiting(&sequence), 0);
    assert_int_equal(sequence.bytes, 0);
    add(&sequence, 20);
    add(&sequence, 30);
    assert_int_equal(sequence.bytes, 2 * sizeof(uint64_t));
    sequence_free(&sequence);
    assert_int_equal(sequence.covered, 0);
    assert_int_equal(sequence.bytes, 0);
}

static void test_order_of_many(void **state) {
    (void)state;
    enum { COUNT = 5000 };
    struct sequence sequence = {0};
    uint64_t next = 1;
    srand(3);
    for (uint64_t block = 0; block < COUNT / 50;
         block++) { /* each block in any order, taken as soon as it can be */
        uint64_t seq[50];
        for (uint64_t i = 0; i < 50; i++) seq[i] = block * 50 + i + 1;
        for (int i = 49; i > 0; i--) {
            int other = rand() % (i + 1);
            uint64_t keep = seq[i];
            seq[i] = seq[other];
            seq[other] = keep;
        }
        for (int i = 0; i < 50; i++) {
            add(&sequence, seq[i]);
            for (uint64_t got; (got = take(&sequence)); next++) assert_int_equal(got, next);
        }
    }
    assert_int_equal(next, COUNT + 1);
    sequence_free(&sequence);
}

/* Against a plain array: whatever the sizes, the newest are there, whole and found. */
static void test_backlog(void **state) {
    (void)state;
    enum { ROOM = 1000, ENTRIES = 20, COUNT = 5000 };
    static size_t sizes[COUNT];
    struct backlog backlog;
    assert_int_equal(backlog_init(&backlog, ENTRIES, ROOM), 0);
    assert_int_equal(backlog_find(&backlog, 0, 0), backlog.end);
    srand(4);
    for (uint64_t n = 0; n < COUNT; n++) {
        char bytes[ROOM + 1];
        sizes[n] = 1 + (size_t)rand() % (n % 100 == 99 ? ROOM : n / 1000 * 60 + 20);
        memset(bytes, (int)(n % 251), sizes[n]);
        struct backlog_entry entry = {.seq = 2 * n + 1, .step = (int64_t)n / 2, .size = sizes[n]};
        backlog_add(&backlog, &entry, bytes);
        assert_int_equal(backlog.end, n + 1);
        assert_true(backlog.first <= n && n - backlog.first < ENTRIES);
        size_t kept = 0;
        for (uint64_t i = backlog.first; i <= n; i++) {
            const void *data;
            const struct backlog_entry *found = backlog_read(&backlog, i, &data);
            assert_int_equal(found->seq, 2 * i + 1);
            assert_int_equal(found->size, sizes[i]);
            for (size_t b = 0; b < found->size; b++)
                assert_int_equal(((const unsigned char *)data)[b], i % 251);
            kept += found->size;
        }
        assert_true(kept <= ROOM);
        if (backlog.first > 0 &&
            n - backlog.first + 1 < ENTRIES) { /* none is thrown away too early */
            assert_true(2 * (kept + sizes[backlog.first - 1]) + sizes[n] > ROOM);
        }
        assert_int_equal(backlog_find(&backlog, 2 * n + 1, 0), n);
        assert_int_equal(backlog_find(&backlog, 2 * n + 2, 0), n + 1);
        assert_int_equal(backlog_find(&backlog, 0, -5), backlog.first);
    }
    char large[ROOM + 1] = {0};
    backlog_add(&backlog, &(struct backlog_entry){.seq = 2 * COUNT + 1, .size = sizeof large},
                large);
    assert_int_equal(backlog.end, COUNT);
    backlog_free(&backlog);
}

struct producer {
    struct queue queue;
    int64_t count;
    atomic_bool over;
};

static void *produce(void *of) {
    struct producer *producer = of;
    for (int64_t i = 0; i < producer->count; i++) {
        if (i % 10 == 9) {
            struct event event;
            event_init(&event, EVENT_PHASE);
            event.step = i;
            queue_event(&producer->queue, &event);
            continue;
        }
        struct record *record = queue_begin(&producer->queue);
        if (!record) continue;
        assert_true(record->metric[METRIC_LOSS] == 0 && record->measured == 0 &&
                    record->tensor[1].count == -1);
        record->step = i;
        record->tensor[1].count = i;
        record_set(record, METRIC_LOSS, (double)i);
        queue_submit(&producer->queue);
    }
    atomic_store(&producer->over, true);
    return NULL;
}

/* Every item arrives whole and in order, or is counted as dropped before the next one that does. */
static void test_queue(void **state) {
    (void)state;
    static struct producer producer = {.count = 200000};
    pthread_t thread;
    assert_int_equal(queue_init(&producer.queue, 64, 2), 0);
    assert_int_equal(producer.queue.items, 64);
    assert_null(queue_peek(&producer.queue));
    pthread_create(&thread, NULL, produce, &producer);
    int64_t next = 0;
    for (bool over = false; !over;) {
        bool last = atomic_load(&producer.over);
        struct queue_item *item = queue_peek(&producer.queue);
        if (!item) {
            over = last;
            continue;
        }
        next += (int64_t)item->dropped;
        if (item->is_event) {
            assert_int_equal(item->event.step, next);
        } else {
            assert_int_equal(item->record.step, next);
            assert_int_equal(item->record.tensor[1].count, next);
            assert_true(item->record.metric[METRIC_LOSS] == (double)next);
        }
        next++;
        queue_take(&producer.queue);
    }
    pthread_join(thread, NULL);
    assert_int_equal(next + (int64_t)producer.queue.dropped, producer.count);
    queue_free(&producer.queue);
}

static void test_queue_of_large_records(void **state) {
    (void)state;
    struct queue queue;
    assert_int_equal(queue_init(&queue, 4096, 12345), 0);
    assert_true(queue.items >= QUEUE_ITEMS_MIN && queue.items < 4096);
    for (int i = 0; i < queue.items; i++) {
        assert_non_null(queue_begin(&queue));
        queue_submit(&queue);
    }
    assert_null(queue_begin(&queue));
    queue_free(&queue);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_order_of_many),
        cmocka_unit_test(test_backlog),
        cmocka_unit_test(test_queue),
        cmocka_unit_test(test_queue_of_large_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
