/* Writing and reading safetensors files: an 8-byte length, a JSON header, raw little-endian data.
 */
#ifndef STORE_SAFETENSORS_H
#define STORE_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "shared/core/error.h"
#include "shared/core/schema.h"

struct safetensors_entry {
    char name[SCHEMA_NAME_SIZE + 32];
    char dtype[16]; /* "F32" */
    int dims;
    int64_t shape[SCHEMA_DIMS_MAX];
    const void *data; /* size_bytes, kept by the caller */
    size_t size_bytes;
};

struct safetensors_meta {
    const char *key, *value;
};

struct safetensors_file { /* what to write */
    int entries, metas;
    const struct safetensors_entry *entry;
    const struct safetensors_meta *meta;
};

/* Temporary name in the same folder, fsync, rename, fsync of the folder: never half a file under
 * `path`; one that is there is replaced. Every entry is as large as its type and shape say. */
int safetensors_save(const char *path, const struct safetensors_file *file, struct error *error);

struct safetensors; /* an open file, mapped */
/* Files of strangers: -1 with the reason unless header, types, shapes and sizes agree with each
 * other and with the file, and the data is without overlap or hole. */
int safetensors_open(struct safetensors **out, const char *path, struct error *error);
void safetensors_close(struct safetensors *file);
int safetensors_count(const struct safetensors *file);
/* In the order of their data. Valid while the file is open; data points into the mapping, and need
 * not be aligned. */
const struct safetensors_entry *safetensors_entry(const struct safetensors *file, int index);
/* NULL: absent. */
const struct safetensors_entry *safetensors_find(const struct safetensors *file, const char *name);
const char *safetensors_find_meta(const struct safetensors *file, const char *key);

#endif
