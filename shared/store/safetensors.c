#include "shared/store/safetensors.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <json-c/json.h>

enum { LENGTH_SIZE = 8, HEADER_BYTES_MAX = 16 << 20, HEADER_DEPTH = 4, ALIGNMENT = 8 };

static const char metadata_key[] = "__metadata__";

static const struct {
    const char *name;
    unsigned bits;
} dtypes[] = {
    {"F64", 64},    {"F32", 32}, {"F16", 16},    {"BF16", 16},   {"I64", 64},
    {"I32", 32},    {"I16", 16}, {"I8", 8},      {"U64", 64},    {"U32", 32},
    {"U16", 16},    {"U8", 8},   {"BOOL", 8},    {"C64", 64},    {"F8_E4M3", 8},
    {"F8_E5M2", 8}, {"F4", 4},   {"F8_E8M0", 8}, {"F6_E2M3", 6}, {"F6_E3M2", 6},
};

/* Bytes of that type and shape; -1: an unknown type, or not of this world. */
static int64_t data_size(const struct safetensors_entry *entry) {
    int64_t bits = 0;
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        if (strcmp(dtypes[i].name, entry->dtype) == 0) bits = dtypes[i].bits;
    }
    if (bits == 0) return -1;
    for (int d = 0; d < entry->dims; d++) {
        if (entry->shape[d] < 0 || __builtin_mul_overflow(bits, entry->shape[d], &bits)) return -1;
    }
    return bits % 8 == 0 ? bits / 8 : -1;
}

/* Writing */

static void add_entry(json_object *header, const struct safetensors_entry *entry, size_t *offset) {
    json_object *fields = json_object_new_object(), *shape = json_object_new_array(),
                *offsets = json_object_new_array();
    assert(data_size(entry) == (int64_t)entry->size_bytes);
    for (int d = 0; d < entry->dims; d++)
        json_object_array_add(shape, json_object_new_int64(entry->shape[d]));
    json_object_array_add(offsets, json_object_new_int64((int64_t)*offset));
    *offset += entry->size_bytes;
    json_object_array_add(offsets, json_object_new_int64((int64_t)*offset));
    json_object_object_add(fields, "dtype", json_object_new_string(entry->dtype));
    json_object_object_add(fields, "shape", shape);
    json_object_object_add(fields, "data_offsets", offsets);
    json_object_object_add(header, entry->name, fields);
}

static json_object *make_header(const struct safetensors_file *file) {
    json_object *header = json_object_new_object();
    size_t offset = 0;
    if (file->metas > 0) {
        json_object *metadata = json_object_new_object();
        for (int i = 0; i < file->metas; i++) {
            json_object_object_add(metadata, file->meta[i].key,
                                   json_object_new_string(file->meta[i].value));
        }
        json_object_object_add(header, metadata_key, metadata);
    }
    for (int i = 0; i < file->entries; i++) add_entry(header, &file->entry[i], &offset);
    return header;
}

static int write_all(int fd, const void *data, size_t size) {
    const char *at = data;
    while (size > 0) {
        ssize_t written = write(fd, at, size);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return -1;
        at += written;
        size -= (size_t)written;
    }
    return 0;
}

/* The header is padded with spaces, so that the data is aligned. */
static int write_file(int fd, const struct safetensors_file *file) {
    json_object *header = make_header(file);
    const char *text = json_object_to_json_string_ext(header, JSON_C_TO_STRING_PLAIN |
                                                                  JSON_C_TO_STRING_NOSLASHESCAPE);
    size_t length = strlen(text), padding = (ALIGNMENT - length % ALIGNMENT) % ALIGNMENT;
    unsigned char prefix[LENGTH_SIZE];
    for (int i = 0; i < LENGTH_SIZE; i++)
        prefix[i] = (unsigned char)((uint64_t)(length + padding) >> (8 * i));
    int result = write_all(fd, prefix, sizeof prefix);
    if (result == 0) result = write_all(fd, text, length);
    if (result == 0) result = write_all(fd, "       ", padding);
    for (int i = 0; i < file->entries && result == 0; i++)
        result = write_all(fd, file->entry[i].data, file->entry[i].size_bytes);
    int cause = errno;
    json_object_put(header);
    errno = cause;
    return result;
}

/* Without it a power loss may take the name away again. */
static void sync_folder(const char *path) {
    char *folder = strdup(path);
    if (!folder) return;
    char *slash = strrchr(folder, '/');
    if (slash) slash[slash == folder] = '\0';
    int fd = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    free(folder);
}

int safetensors_save(const char *path, const struct safetensors_file *file, struct error *error) {
    char *temporary = NULL;
    if (asprintf(&temporary, "%s.%ld.tmp", path, (long)getpid()) < 0)
        return error_set(error, "cannot write %s: no memory", path);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    int result = fd < 0 ? -1 : write_file(fd, file);
    if (result == 0) result = fsync(fd);
    int cause = errno;
    if (fd >= 0 && close(fd) < 0 && result == 0) {
        result = -1;
        cause = errno;
    }
    if (result == 0 && rename(temporary, path) < 0) {
        result = -1;
        cause = errno;
    }
    if (result == 0) {
        sync_folder(path);
    } else {
        error_set(error, "cannot write %s: %s", path, strerror(cause));
        if (fd >= 0) unlink(temporary);
    }
    free(temporary);
    return result;
}

/* Reading */

struct safetensors {
    unsigned char *map;
    size_t size; /* of the file */
    const unsigned char *data;
    size_t data_size;
    json_object *header;
    int count;
    struct safetensors_entry *entry; /* by offset */
};

void safetensors_close(struct safetensors *file) {
    if (!file) return;
    if (file->map) munmap(file->map, file->size);
    json_object_put(file->header);
    free(file->entry);
    free(file);
}

static int map_file(struct safetensors *file, const char *path, struct error *error) {
    struct stat stat;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &stat) < 0) {
        int cause = errno;
        if (fd >= 0) close(fd);
        return error_set(error, "cannot open %s: %s", path, strerror(cause));
    }
    void *map = MAP_FAILED;
    bool plain = S_ISREG(stat.st_mode) && stat.st_size >= LENGTH_SIZE;
    if (plain) map = mmap(NULL, (size_t)stat.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    int cause = errno;
    close(fd);
    if (!plain)
        return error_set(error, "%s is no safetensors file: %s", path,
                         S_ISREG(stat.st_mode) ? "too short" : "not a plain file");
    if (map == MAP_FAILED) return error_set(error, "cannot map %s: %s", path, strerror(cause));
    file->map = map;
    file->size = (size_t)stat.st_size;
    return 0;
}

static int load_header(struct safetensors *file, const char *path, struct error *error) {
    uint64_t length = 0;
    for (int i = LENGTH_SIZE - 1; i >= 0; i--) length = length << 8 | file->map[i];
    if (length > file->size - LENGTH_SIZE)
        return error_set(
            error, "%s is no safetensors file, or cut short: its header is longer than it", path);
    if (length > HEADER_BYTES_MAX)
        return error_set(error, "%s: a header of %llu bytes", path, (unsigned long long)length);
    if (length == 0 || file->map[LENGTH_SIZE] != '{')
        return error_set(error, "%s is no safetensors file: no header", path);
    file->data = file->map + LENGTH_SIZE + length;
    file->data_size = file->size - LENGTH_SIZE - length;
    json_tokener *tokener = json_tokener_new_ex(HEADER_DEPTH);
    if (!tokener) return error_set(error, "%s: no memory", path);
    json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    file->header =
        json_tokener_parse_ex(tokener, (const char *)file->map + LENGTH_SIZE, (int)length);
    enum json_tokener_error result = json_tokener_get_error(tokener);
    json_tokener_free(tokener);
    if (result == json_tokener_success && json_object_is_type(file->header, json_type_object))
        return 0;
    return error_set(error, "%s: its header is not JSON: %s", path,
                     result == json_tokener_continue ? "cut short"
                                                     : json_tokener_error_desc(result));
}

static int load_metadata(json_object *metadata, const char *path, struct error *error) {
    if (!json_object_is_type(metadata, json_type_object))
        return error_set(error, "%s: its metadata is not an object", path);
    json_object_object_foreach(metadata, key, value) {
        if (!json_object_is_type(value, json_type_string))
            return error_set(error, "%s: metadata %s is not text", path, key);
    }
    return 0;
}

/* Element `at` of an array as a number from 0 on; -1: it is none. */
static int64_t whole_at(json_object *array, size_t at) {
    json_object *value = json_object_array_get_idx(array, at);
    return json_object_is_type(value, json_type_int) ? json_object_get_int64(value) : -1;
}

static int load_shape(json_object *shape, struct safetensors_entry *entry) {
    if (!json_object_is_type(shape, json_type_array) ||
        json_object_array_length(shape) > SCHEMA_DIMS_MAX)
        return -1;
    entry->dims = (int)json_object_array_length(shape);
    for (int d = 0; d < entry->dims; d++) {
        entry->shape[d] = whole_at(shape, (size_t)d);
        if (entry->shape[d] < 0) return -1;
    }
    return 0;
}

static int load_entry(const struct safetensors *file, const char *name, json_object *fields,
                      struct safetensors_entry *entry, struct error *error) {
    json_object *dtype = NULL, *shape = NULL, *offsets = NULL;
    if (strlen(name) >= sizeof entry->name)
        return error_set(error, "a tensor name of %zu bytes", strlen(name));
    if (!json_object_is_type(fields, json_type_object) ||
        !json_object_object_get_ex(fields, "dtype", &dtype) ||
        !json_object_object_get_ex(fields, "shape", &shape) ||
        !json_object_object_get_ex(fields, "data_offsets", &offsets) ||
        !json_object_is_type(dtype, json_type_string) ||
        !json_object_is_type(offsets, json_type_array)) {
        return error_set(error, "tensor %s has not dtype, shape and data_offsets", name);
    }
    strcpy(entry->name, name);
    snprintf(entry->dtype, sizeof entry->dtype, "%s", json_object_get_string(dtype));
    if (load_shape(shape, entry) < 0)
        return error_set(error, "the shape of tensor %s is not up to %d sizes", name,
                         SCHEMA_DIMS_MAX);
    int64_t begin = whole_at(offsets, 0), end = whole_at(offsets, 1), size = data_size(entry);
    if (size < 0)
        return error_set(error, "tensor %s: dtype %s of that shape is unknown", name,
                         json_object_get_string(dtype));
    if (json_object_array_length(offsets) != 2 || begin < 0 || end < begin ||
        (uint64_t)end > file->data_size) {
        return error_set(error, "tensor %s lies outside the file, which may be cut short", name);
    }
    if (end - begin != size) {
        return error_set(error, "tensor %s has %lld bytes, but its type and shape want %lld", name,
                         (long long)(end - begin), (long long)size);
    }
    entry->data = file->data + begin;
    entry->size_bytes = (size_t)size;
    return 0;
}

static int by_offset(const void *a, const void *b) {
    const struct safetensors_entry *x = a, *y = b;
    if (x->data != y->data) return (const char *)x->data < (const char *)y->data ? -1 : 1;
    return (x->size_bytes > y->size_bytes) - (x->size_bytes < y->size_bytes); /* empty ones first */
}

static int check_layout(const struct safetensors *file, struct error *error) {
    const unsigned char *end = file->data;
    for (int i = 0; i < file->count; i++) {
        const struct safetensors_entry *entry = &file->entry[i];
        if (entry->data != end)
            return error_set(error, "tensor %s overlaps another one, or follows a hole",
                             entry->name);
        end += entry->size_bytes;
    }
    size_t rest = file->data_size - (size_t)(end - file->data);
    return rest == 0 ? 0 : error_set(error, "%zu bytes after the last tensor", rest);
}

static int load_entries(struct safetensors *file, const char *path, struct error *error) {
    struct error reason;
    int result = 0;
    file->entry = calloc((size_t)json_object_object_length(file->header) + 1, sizeof *file->entry);
    if (!file->entry) return error_set(error, "%s: no memory", path);
    json_object_object_foreach(file->header, name, fields) {
        if (strcmp(name, metadata_key) == 0) {
            if (load_metadata(fields, path, error) < 0) return -1;
        } else if (result == 0) {
            result = load_entry(file, name, fields, &file->entry[file->count++], &reason);
        }
    }
    if (result == 0) {
        qsort(file->entry, (size_t)file->count, sizeof *file->entry, by_offset);
        result = check_layout(file, &reason);
    }
    return result == 0 ? 0 : error_set(error, "%s: %s", path, reason.text);
}

int safetensors_open(struct safetensors **out, const char *path, struct error *error) {
    struct safetensors *file = calloc(1, sizeof *file);
    if (!file) return error_set(error, "%s: no memory", path);
    if (map_file(file, path, error) < 0 || load_header(file, path, error) < 0 ||
        load_entries(file, path, error) < 0) {
        safetensors_close(file);
        return -1;
    }
    *out = file;
    return 0;
}

int safetensors_count(const struct safetensors *file) { return file->count; }

const struct safetensors_entry *safetensors_entry(const struct safetensors *file, int index) {
    return &file->entry[index];
}

const struct safetensors_entry *safetensors_find(const struct safetensors *file, const char *name) {
    for (int i = 0; i < file->count; i++) {
        if (strcmp(file->entry[i].name, name) == 0) return &file->entry[i];
    }
    return NULL;
}

const char *safetensors_find_meta(const struct safetensors *file, const char *key) {
    json_object *metadata = NULL, *value = NULL;
    if (!json_object_object_get_ex(file->header, metadata_key, &metadata)) return NULL;
    return json_object_object_get_ex(metadata, key, &value) ? json_object_get_string(value) : NULL;
}
