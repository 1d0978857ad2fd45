#include "shared/wire/message.h"

#include <stdio.h>
#include <string.h>

#include "shared/core/text.h"
#include "shared/store/codec.h"

void message_free(struct message *message) {
    for (int i = 0; i < message->frames; i++) zmq_msg_close(&message->frame[i]);
    message->frames = 0;
}

int message_add(struct message *message, const void *data, size_t size) {
    if (message->frames == MESSAGE_FRAMES) return -1;
    zmq_msg_t *frame = &message->frame[message->frames];
    if (zmq_msg_init_size(frame, size) < 0) return -1;
    if (size > 0) memcpy(zmq_msg_data(frame), data, size);
    message->frames++;
    return 0;
}

bool message_receive(struct message *message, void *socket) {
    message_free(message);
    for (bool more = true; more;) {
        zmq_msg_t frame;
        zmq_msg_init(&frame);
        if (zmq_msg_recv(&frame, socket, ZMQ_DONTWAIT) < 0) return false;
        more = zmq_msg_more(&frame) != 0;
        if (message->frames < MESSAGE_FRAMES) {
            zmq_msg_t *to = &message->frame[message->frames++];
            zmq_msg_init(to);
            zmq_msg_move(to, &frame);
        }
        zmq_msg_close(&frame);
    }
    return true;
}

int message_send(struct message *message, void *socket) {
    int result = 0;
    for (int i = 0; i < message->frames && result == 0; i++) {
        int more = i + 1 < message->frames ? ZMQ_SNDMORE : 0;
        if (zmq_msg_send(&message->frame[i], socket, ZMQ_DONTWAIT | more) < 0) result = -1;
    }
    message_free(message);
    return result;
}

/* zmq_msg_data and zmq_msg_size do not change a message, but do not say so. */
static zmq_msg_t *frame_of(const struct message *message, int frame) {
    return (zmq_msg_t *)(uintptr_t)&message->frame[frame];
}

const void *message_data(const struct message *message, int frame) {
    return zmq_msg_data(frame_of(message, frame));
}

size_t message_size(const struct message *message, int frame) {
    return frame < message->frames ? zmq_msg_size(frame_of(message, frame)) : 0;
}

bool message_is(const struct message *message, int frame, const char *text) {
    size_t size = strlen(text);
    return frame < message->frames && message_size(message, frame) == size &&
           memcmp(message_data(message, frame), text, size) == 0;
}

char *topic_format(char out[MESSAGE_TOPIC_SIZE], const char *run_id, const char *kind) {
    snprintf(out, MESSAGE_TOPIC_SIZE, "nantop/%d/%s/%s", CODEC_MAJOR, run_id, kind);
    return out;
}

int topic_parse(struct topic *topic, const void *data, size_t size) {
    char text[MESSAGE_TOPIC_SIZE];
    struct topic found = {.version = 0};
    int used = 0;
    if (size >= sizeof text || memchr(data, '\0', size)) return -1;
    memcpy(text, data, size);
    text[size] = '\0';
    if (sscanf(text, "nantop/%9d/%n", &found.version, &used) != 1 || used == 0) return -1;
    if (found.version == CODEC_MAJOR) {
        const char *slash = strchr(text + used, '/');
        if (!slash || (size_t)(slash - text - used) >= sizeof found.run_id) return -1;
        if (strlen(slash + 1) >= sizeof found.kind) return -1;
        text_copy(found.run_id, (size_t)(slash - text - used) + 1, text + used);
        text_copy(found.kind, sizeof found.kind, slash + 1);
        if (!record_id_valid(found.run_id)) return -1;
    }
    *topic = found;
    return 0;
}
