#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "trainer/dataset.h"

static const char IMAGES[] = "train-images-idx3-ubyte", LABELS[] = "train-labels-idx1-ubyte";

struct folder {
    char path[96];
};

struct idx { /* a file to be written; what is wrong with it is changed before */
    uint32_t head[4];
    int heads;
    size_t body_size;
    uint8_t body[3 * DATASET_PIXELS + 8];
};

static struct idx good_images(void) {
    struct idx idx = {.head = {0x803, 3, 28, 28}, .heads = 4, .body_size = 3 * DATASET_PIXELS};
    for (size_t i = 0; i < sizeof idx.body; i++) idx.body[i] = (uint8_t)(i * 7);
    return idx;
}

static struct idx good_labels(void) {
    return (struct idx){.head = {0x801, 3}, .heads = 2, .body_size = 3, .body = {0, 9, 4}};
}

static void write_idx(const struct folder *folder, const char *name, const struct idx *idx) {
    char path[160];
    snprintf(path, sizeof path, "%s/%s", folder->path, name);
    gzFile file = gzopen(path, strstr(name, ".gz") ? "wb" : "wbT");
    assert_non_null(file);
    for (int i = 0; i < idx->heads; i++)
        for (int shift = 24; shift >= 0; shift -= 8)
            gzputc(file, (int)(idx->head[i] >> shift & 255));
    if (idx->body_size) gzwrite(file, idx->body, (unsigned)idx->body_size);
    assert_int_equal(gzclose(file), Z_OK);
}

static void cut_file(const struct folder *folder, const char *name, off_t bytes) {
    char path[160];
    struct stat info;
    snprintf(path, sizeof path, "%s/%s", folder->path, name);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(truncate(path, info.st_size - bytes), 0);
}

static int make_folder(void **state) {
    struct folder *folder = calloc(1, sizeof *folder);
    strcpy(folder->path, "/tmp/test_dataset.XXXXXX");
    assert_non_null(mkdtemp(folder->path));
    *state = folder;
    return 0;
}

static int remove_folder(void **state) {
    struct folder *folder = *state;
    static const char *const name[] = {IMAGES, LABELS, "train-images-idx3-ubyte.gz",
                                       "train-labels-idx1-ubyte.gz"};
    char path[160];
    for (size_t i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", folder->path, name[i]);
        remove(path);
    }
    assert_int_equal(rmdir(folder->path), 0);
    free(folder);
    return 0;
}

static void expect_refusal(const struct folder *folder, const char *file, const char *reason) {
    struct dataset dataset = {.images = -7};
    struct error error = {""};
    assert_int_equal(dataset_load(&dataset, folder->path, &error), -1);
    assert_int_equal(dataset.images, -7);
    assert_non_null(strstr(error.text, file));
    if (!strstr(error.text, reason)) fail_msg("\"%s\" does not say \"%s\"", error.text, reason);
    assert_null(strchr(error.text, '\n'));
}

static void expect_good(const struct folder *folder) {
    struct dataset dataset;
    struct error error = {""};
    struct idx images = good_images();
    assert_int_equal(dataset_load(&dataset, folder->path, &error), 0);
    assert_int_equal(dataset.images, 3);
    assert_memory_equal(dataset.image, images.body, 3 * DATASET_PIXELS);
    assert_memory_equal(dataset.label, "\0\11\4", 3);
    dataset_free(&dataset);
    assert_null(dataset.image);
}

static void test_plain(void **state) {
    struct idx images = good_images(), labels = good_labels();
    write_idx(*state, IMAGES, &images);
    write_idx(*state, LABELS, &labels);
    expect_good(*state);
}

static void test_gzipped(void **state) {
    struct idx images = good_images(), labels = good_labels();
    write_idx(*state, "train-images-idx3-ubyte.gz", &images);
    write_idx(*state, "train-labels-idx1-ubyte.gz", &labels);
    expect_good(*state);
}

static void test_named(void **state) {
    const struct folder *folder = *state;
    char path[160];
    struct idx images = good_images(), labels = good_labels();
    struct dataset dataset;
    struct folder named;
    snprintf(named.path, sizeof named.path, "%.48s/fashion-mnist", folder->path);
    assert_int_equal(mkdir(named.path, 0700), 0);
    write_idx(&named, IMAGES, &images);
    write_idx(&named, LABELS, &labels);
    setenv("NANTOP_DATA", folder->path, 1);
    assert_int_equal(dataset_load(&dataset, "fashion", NULL), 0);
    assert_string_equal(dataset.folder, named.path);
    dataset_free(&dataset);
    unsetenv("NANTOP_DATA");
    snprintf(path, sizeof path, "%s/%s", named.path, IMAGES);
    remove(path);
    snprintf(path, sizeof path, "%s/%s", named.path, LABELS);
    remove(path);
    rmdir(named.path);
}

static void test_absent(void **state) {
    struct idx images = good_images();
    expect_refusal(*state, IMAGES, "holds neither");
    write_idx(*state, IMAGES, &images);
    expect_refusal(*state, LABELS, "holds neither");
}

/* One thing wrong with the images, everything else right. */
static void test_bad_images(void **state) {
    const struct folder *folder = *state;
    struct idx images = good_images(), labels = good_labels();
    static const struct {
        int field;
        uint32_t value;
        const char *reason;
    } bad[] = {{0, 0x801, "magic"},      {0, 0, "magic"},           {1, 0, "0 items"},
               {1, UINT32_MAX, "items"}, {1, 1 << 20, "truncated"}, {1, 4, "truncated"},
               {1, 2, "longer"},         {2, 32, "32x28"},          {3, 0, "28x0"}};
    write_idx(folder, LABELS, &labels);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        images = good_images();
        images.head[bad[i].field] = bad[i].value;
        write_idx(folder, IMAGES, &images);
        expect_refusal(folder, IMAGES, bad[i].reason);
    }
    for (images = good_images(); images.heads > 0; images.heads--) {
        images.body_size = 0;
        write_idx(folder, IMAGES, &images);
        expect_refusal(folder, IMAGES, "truncated");
    }
}

static void test_bad_labels(void **state) {
    const struct folder *folder = *state;
    struct idx images = good_images(), labels = good_labels();
    write_idx(folder, IMAGES, &images);
    labels.head[0] = 0x803;
    write_idx(folder, LABELS, &labels);
    expect_refusal(folder, LABELS, "magic");
    labels = good_labels();
    labels.head[1] = 4;
    labels.body_size = 4;
    write_idx(folder, LABELS, &labels);
    expect_refusal(folder, LABELS, "4 labels for 3 images");
    labels = good_labels();
    labels.body[1] = 10;
    write_idx(folder, LABELS, &labels);
    expect_refusal(folder, LABELS, "label 10 of item 1");
    labels = good_labels();
    labels.body_size = 4;
    write_idx(folder, LABELS, &labels);
    expect_refusal(folder, LABELS, "longer");
}

static void test_cut_gzip(void **state) {
    const struct folder *folder = *state;
    struct idx images = good_images(), labels = good_labels();
    write_idx(folder, LABELS, &labels);
    for (off_t bytes = 1; bytes <= 64; bytes++) { /* into the checksum, then into the data */
        write_idx(folder, "train-images-idx3-ubyte.gz", &images);
        cut_file(folder, "train-images-idx3-ubyte.gz", bytes);
        expect_refusal(folder, "train-images-idx3-ubyte.gz", "truncated");
    }
}

static void test_folder_as_file(void **state) {
    const struct folder *folder = *state;
    char path[160];
    snprintf(path, sizeof path, "%s/%s", folder->path, IMAGES);
    assert_int_equal(mkdir(path, 0700), 0);
    expect_refusal(folder, IMAGES, "directory");
    rmdir(path);
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
    const struct CMUnitTest test[] = {CASE(test_plain),      CASE(test_gzipped),
                                      CASE(test_named),      CASE(test_absent),
                                      CASE(test_bad_images), CASE(test_bad_labels),
                                      CASE(test_cut_gzip),   CASE(test_folder_as_file)};
    return cmocka_run_group_tests(test, NULL, NULL);
}
