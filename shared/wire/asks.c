#include "shared/wire/asks.h"

#include <string.h>

enum { HELLO_MS = 500, AGAIN_MS = 2000, AGAIN_MS_MOST = 16000 };

static const char *const names[ASK_COUNT] = {
#define X(upper, wire) wire,
    ASKS(X)
#undef X
};

void asks_init(struct asks *asks, void *dealer) {
    memset(asks, 0, sizeof *asks);
    asks->dealer = dealer;
}

void asks_free(struct asks *asks) {
    buffer_free(&asks->body);
    memset(asks, 0, sizeof *asks);
}

static void send_ask(struct asks *asks, enum ask_kind kind) {
    struct message message = {.frames = 0};
    const char *run_id = kind == ASK_HELLO ? "" : asks->run_id;
    asks->ask[kind].tries++;
    if (codec_encode_request(&asks->body, &asks->ask[kind].request) < 0) return;
    message_add(&message, names[kind], strlen(names[kind]));
    message_add(&message, run_id, strlen(run_id));
    message_add(&message, asks->body.data, asks->body.size);
    message_send(&message, asks->dealer);
}

void asks_send(struct asks *asks, enum ask_kind kind, const struct ask *ask) {
    asks->ask[kind] = *ask;
    asks->ask[kind].pending = true;
    asks->ask[kind].request.id = ++asks->id;
    send_ask(asks, kind);
}

void asks_repeat(struct asks *asks, int64_t now_ns) {
    for (int i = 0; i < ASK_COUNT; i++) {
        struct ask *ask = &asks->ask[i];
        int64_t wait_ms = i == ASK_HELLO ? HELLO_MS : AGAIN_MS;
        for (int n = 1; n < ask->tries && wait_ms < AGAIN_MS_MOST; n++) wait_ms *= 2;
        if (!ask->pending || now_ns - ask->sent_ns < wait_ms * INT64_C(1000000)) continue;
        ask->sent_ns = now_ns;
        send_ask(asks, (enum ask_kind)i);
    }
}

int asks_match(struct asks *asks, uint64_t id) {
    for (int i = 0; i < ASK_COUNT; i++) {
        if (!asks->ask[i].pending || asks->ask[i].request.id != id) continue;
        asks->ask[i].pending = false;
        return i;
    }
    return -1;
}
