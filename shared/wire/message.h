/* Messages on ZeroMQ sockets as docs/protocol.md has them: their frames, and the topic of the live
 * ones. Nothing here blocks. */
#ifndef WIRE_MESSAGE_H
#define WIRE_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>

#include <zmq.h>

#include "shared/core/record.h"

enum {
    MESSAGE_BODIES = 512,                /* of one reply */
    MESSAGE_FRAMES = MESSAGE_BODIES + 4, /* identity, kind, run id, status before them */
    MESSAGE_KIND_SIZE = 16,
    MESSAGE_TOPIC_SIZE = RECORD_ID_SIZE + MESSAGE_KIND_SIZE + 16
};

struct message {
    int frames;
    zmq_msg_t frame[MESSAGE_FRAMES]; /* (frames), owned */
};

/* Closes all frames; an empty message may be closed, too. */
void message_free(struct message *message);
/* Copies the bytes into a new last frame. -1: no memory, or too many frames. */
int message_add(struct message *message, const void *data, size_t size);
/* False: nothing there. Replaces what `message` holds; frames beyond MESSAGE_FRAMES are lost. */
bool message_receive(struct message *message, void *socket);
/* The message is empty afterwards. -1: the socket does not take it now. */
int message_send(struct message *message, void *socket);

const void *message_data(const struct message *message, int frame);
size_t message_size(const struct message *message, int frame);
/* Does the frame hold just this text? */
bool message_is(const struct message *message, int frame, const char *text);

struct topic {
    int version; /* major, of the protocol */
    char run_id[RECORD_ID_SIZE];
    char kind[MESSAGE_KIND_SIZE];
};
/* "nantop/1/RUNID/KIND". Returns out. */
char *topic_format(char out[MESSAGE_TOPIC_SIZE], const char *run_id, const char *kind);
/* -1: not a topic of any version. Of another version only that is known. */
int topic_parse(struct topic *topic, const void *data, size_t size);

#endif
