#include "shared/store/buffer.h"

#include <stdlib.h>
#include <string.h>

int buffer_append(struct buffer *buffer, const void *data, size_t size) {
    if (size > buffer->room - buffer->size) {
        size_t room = buffer->room ? buffer->room : 1024;
        while (room - buffer->size < size) room *= 2;
        char *grown = realloc(buffer->data, room);
        if (!grown) return -1;
        buffer->data = grown;
        buffer->room = room;
    }
    if (size > 0) memcpy(buffer->data + buffer->size, data, size);
    buffer->size += size;
    return 0;
}

int buffer_append_text(struct buffer *buffer, const char *text) {
    return buffer_append(buffer, text, strlen(text));
}

void buffer_free(struct buffer *buffer) {
    free(buffer->data);
    *buffer = (struct buffer){0};
}
