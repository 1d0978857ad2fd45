/* A growing buffer of bytes. Zero it to begin. */
#ifndef STORE_BUFFER_H
#define STORE_BUFFER_H

#include <stddef.h>

struct buffer {
    char *data; /* (size), owned */
    size_t size, room;
};

/* -1: no memory, nothing appended. */
int buffer_append(struct buffer *buffer, const void *data, size_t size);
int buffer_append_text(struct buffer *buffer, const char *text); /* without its terminator */
void buffer_free(struct buffer *buffer);

#endif
