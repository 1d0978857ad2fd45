#include "trainer/dataset.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum { PATH_SIZE = 640, MAGIC_IMAGES = 0x803, MAGIC_LABELS = 0x801 };

static const char IMAGES[] = "train-images-idx3-ubyte";
static const char LABELS[] = "train-labels-idx1-ubyte";

struct idx {
    char path[PATH_SIZE];
    gzFile file; /* plain files too */
};

static bool find_file(char path[PATH_SIZE], const char *folder, const char *name) {
    static const char *const ending[] = {"", ".gz"};
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++) {
        int size = snprintf(path, PATH_SIZE, "%s/%s%s", folder, name, ending[i]);
        if (size < PATH_SIZE && access(path, F_OK) == 0) return true;
    }
    return false;
}

static int idx_open(struct idx *idx, const char *folder, const char *name, struct error *error) {
    if (!find_file(idx->path, folder, name))
        return error_set(error, "reading the data: %s holds neither %s nor %s.gz", folder, name,
                         name);
    idx->file = gzopen(idx->path, "rb");
    if (!idx->file) return error_set(error, "reading %s: %s", idx->path, strerror(errno));
    return 0;
}

static int idx_read(struct idx *idx, void *to, size_t size_bytes, struct error *error) {
    size_t done = 0;
    while (done < size_bytes) {
        size_t rest = size_bytes - done;
        int got = gzread(idx->file, (char *)to + done, rest < 1 << 24 ? (unsigned)rest : 1 << 24);
        int code = Z_OK;
        const char *reason = gzerror(idx->file, &code);
        if (got > 0) {
            done += (size_t)got;
            continue;
        }
        if (got == 0 || code == Z_BUF_ERROR)
            return error_set(error, "reading %s: truncated", idx->path);
        return error_set(error, "reading %s", reason); /* it begins with the path */
    }
    return 0;
}

static int idx_read_number(struct idx *idx, uint32_t *number, struct error *error) {
    uint8_t byte[4];
    if (idx_read(idx, byte, sizeof byte, error)) return -1;
    *number = (uint32_t)byte[0] << 24 | (uint32_t)byte[1] << 16 | (uint32_t)byte[2] << 8 | byte[3];
    return 0;
}

/* Magic number and count of either kind of file. */
static int idx_read_head(struct idx *idx, uint32_t magic, uint32_t *count, struct error *error) {
    uint32_t found;
    if (idx_read_number(idx, &found, error)) return -1;
    if (found != magic)
        return error_set(error, "reading %s: magic number 0x%08x instead of 0x%08x", idx->path,
                         found, magic);
    if (idx_read_number(idx, count, error)) return -1;
    if (*count == 0 || *count > DATASET_IMAGES_MAX)
        return error_set(error, "reading %s: %u items, expected 1 to %d", idx->path, *count,
                         DATASET_IMAGES_MAX);
    return 0;
}

/* The body, and that nothing follows it. */
static uint8_t *idx_read_body(struct idx *idx, size_t size_bytes, struct error *error) {
    uint8_t *body = malloc(size_bytes);
    if (!body) {
        error_set(error, "reading %s: no memory for %zu bytes", idx->path, size_bytes);
        return NULL;
    }
    if (idx_read(idx, body, size_bytes, error) == 0) {
        char more;
        int left = gzread(idx->file, &more, 1), code = Z_OK;
        gzerror(idx->file, &code);
        if (left == 0 && code == Z_OK) return body;
        error_set(error, "reading %s: %s", idx->path,
                  left > 0 ? "longer than its header says" : "truncated or damaged at its end");
    }
    free(body);
    return NULL;
}

static int load_images(struct dataset *dataset, struct error *error) {
    struct idx idx = {0};
    uint32_t count, rows, columns;
    if (idx_open(&idx, dataset->folder, IMAGES, error)) return -1;
    if (idx_read_head(&idx, MAGIC_IMAGES, &count, error) || idx_read_number(&idx, &rows, error) ||
        idx_read_number(&idx, &columns, error))
        goto done;
    if (rows != DATASET_SIDE || columns != DATASET_SIDE) {
        error_set(error, "reading %s: images of %ux%u, expected 28x28", idx.path, rows, columns);
        goto done;
    }
    dataset->image = idx_read_body(&idx, (size_t)count * DATASET_PIXELS, error);
    dataset->images = (int)count;
done:
    gzclose(idx.file);
    return dataset->image ? 0 : -1;
}

static int check_labels(const struct idx *idx, const uint8_t *label, int count,
                        struct error *error) {
    for (int i = 0; i < count; i++)
        if (label[i] >= DATASET_CLASSES)
            return error_set(error, "reading %s: label %d of item %d, expected 0 to 9", idx->path,
                             label[i], i);
    return 0;
}

static int load_labels(struct dataset *dataset, struct error *error) {
    struct idx idx = {0};
    uint32_t count;
    int result = -1;
    if (idx_open(&idx, dataset->folder, LABELS, error)) return -1;
    if (idx_read_head(&idx, MAGIC_LABELS, &count, error)) goto done;
    if ((int)count != dataset->images) {
        error_set(error, "reading %s: %u labels for %d images", idx.path, count, dataset->images);
        goto done;
    }
    dataset->label = idx_read_body(&idx, count, error);
    if (dataset->label) result = check_labels(&idx, dataset->label, (int)count, error);
done:
    gzclose(idx.file);
    return result;
}

/* The first place that holds the named data; -1: none does. */
static int find_folder(struct dataset *dataset, const char *name, struct error *error) {
    const char *data = getenv("NANTOP_DATA"), *home = getenv("HOME");
    const struct {
        const char *base, *below;
    } place[] = {{data, ""}, {".", "/data"}, {home, "/.cache/nantop"}, {"/usr/share/datasets", ""}};
    char path[PATH_SIZE];
    for (size_t i = 0; i < sizeof place / sizeof *place; i++) {
        if (!place[i].base) continue;
        int size = snprintf(dataset->folder, sizeof dataset->folder, "%s%s/%s", place[i].base,
                            place[i].below, name);
        if (size < (int)sizeof dataset->folder && find_file(path, dataset->folder, IMAGES))
            return 0;
    }
    return error_set(error,
                     "looking for the data %s: not in $NANTOP_DATA, ./data, ~/.cache/nantop or "
                     "/usr/share/datasets; `make run` fetches it, --data DIR names another folder",
                     name);
}

int dataset_load(struct dataset *dataset, const char *source, struct error *error) {
    struct dataset loaded = {0};
    const char *name = strcmp(source, "mnist") == 0     ? "mnist"
                       : strcmp(source, "fashion") == 0 ? "fashion-mnist"
                                                        : NULL;
    if (name && find_folder(&loaded, name, error)) return -1;
    if (!name &&
        (size_t)snprintf(loaded.folder, sizeof loaded.folder, "%s", source) >= sizeof loaded.folder)
        return error_set(error, "reading the data: the path is longer than %zu bytes",
                         sizeof loaded.folder - 1);
    if (load_images(&loaded, error) || load_labels(&loaded, error)) {
        dataset_free(&loaded);
        return -1;
    }
    *dataset = loaded;
    return 0;
}

void dataset_free(struct dataset *dataset) {
    free(dataset->image);
    free(dataset->label);
    *dataset = (struct dataset){0};
}
