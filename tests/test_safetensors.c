#include "shared/store/safetensors.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

struct fixture {
    char folder[64], path[96];
    struct error error;
};

static int setup(void **state) {
    struct fixture *f = calloc(1, sizeof *f);
    strcpy(f->folder, "/tmp/nantop-test-XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    snprintf(f->path, sizeof f->path, "%s/a.safetensors", f->folder);
    *state = f;
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;
    unlink(f->path);
    assert_int_equal(rmdir(f->folder), 0); /* nothing else was left */
    free(f);
    return 0;
}

static const float weight[2][3] = {{1, 2, 3}, {-0.0f, 0.5f, 1e10f}};
static const unsigned char label[3] = {7, 8, 9};

static const struct safetensors_entry entries[] = {
    {.name = "conv1.weight",
     .dtype = "F32",
     .dims = 2,
     .shape = {2, 3},
     .data = weight,
     .size_bytes = sizeof weight},
    {.name = "empty", .dtype = "I64", .dims = 1, .shape = {0}, .data = NULL, .size_bytes = 0},
    {.name = "label/\xc3\xa9",
     .dtype = "U8",
     .dims = 1,
     .shape = {3},
     .data = label,
     .size_bytes = sizeof label},
    {.name = "scalar", .dtype = "F64", .dims = 0, .data = "12345678", .size_bytes = 8},
};
static const struct safetensors_meta metas[] = {{"run id", "a\"b"}, {"step", "40"}};
static const struct safetensors_file whole = {
    .entries = 4, .metas = 2, .entry = entries, .meta = metas};

/* By hand, from the description of the format. */
static const char expected_header[] =
    "{\"__metadata__\":{\"run id\":\"a\\\"b\",\"step\":\"40\"},"
    "\"conv1.weight\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
    "\"empty\":{\"dtype\":\"I64\",\"shape\":[0],\"data_offsets\":[24,24]},"
    "\"label/\xc3\xa9\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[24,27]},"
    "\"scalar\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[27,35]}}";

static size_t load_bytes(const char *path, unsigned char *bytes, size_t room) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(bytes, 1, room, file);
    fclose(file);
    return size;
}

static void put_bytes(const char *path, const void *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
}

static void the_bytes_are_those_of_the_format(void **state) {
    struct fixture *f = *state;
    unsigned char bytes[1024];
    assert_int_equal(safetensors_save(f->path, &whole, &f->error), 0);
    size_t size = load_bytes(f->path, bytes, sizeof bytes),
           length = (strlen(expected_header) + 7) / 8 * 8;
    assert_int_equal(bytes[0] | bytes[1] << 8, length);
    for (int i = 2; i < 8; i++) assert_int_equal(bytes[i], 0);
    assert_memory_equal(bytes + 8, expected_header, strlen(expected_header));
    for (size_t i = strlen(expected_header); i < length; i++) assert_int_equal(bytes[8 + i], ' ');
    assert_int_equal(size, 8 + length + 35);
    assert_memory_equal(bytes + 8 + length, weight, 24);
    assert_memory_equal(bytes + 8 + length + 24, label, 3);
    assert_memory_equal(bytes + 8 + length + 27, "12345678", 8);
}

static void what_was_saved_is_there(void **state) {
    struct fixture *f = *state;
    struct safetensors *file = NULL;
    assert_int_equal(safetensors_save(f->path, &whole, &f->error), 0);
    assert_int_equal(safetensors_save(f->path, &whole, &f->error), 0); /* replaces it */
    if (safetensors_open(&file, f->path, &f->error) < 0) fail_msg("%s", f->error.text);
    assert_int_equal(safetensors_count(file), 4);
    for (int i = 0; i < 4; i++) {
        const struct safetensors_entry *entry = safetensors_entry(file, i);
        assert_string_equal(entry->name, entries[i].name);
        assert_string_equal(entry->dtype, entries[i].dtype);
        assert_int_equal(entry->dims, entries[i].dims);
        assert_memory_equal(entry->shape, entries[i].shape, sizeof entry->shape);
        assert_int_equal(entry->size_bytes, entries[i].size_bytes);
        if (entry->size_bytes) assert_memory_equal(entry->data, entries[i].data, entry->size_bytes);
        assert_ptr_equal(safetensors_find(file, entry->name), entry);
    }
    assert_null(safetensors_find(file, "conv2.weight"));
    assert_null(safetensors_find(file, "__metadata__"));
    assert_string_equal(safetensors_find_meta(file, "run id"), "a\"b");
    assert_string_equal(safetensors_find_meta(file, "step"), "40");
    assert_null(safetensors_find_meta(file, "epoch"));
    safetensors_close(file);
    safetensors_close(NULL);
    const struct safetensors_file nothing = {0};
    assert_int_equal(safetensors_save(f->path, &nothing, &f->error), 0);
    assert_int_equal(safetensors_open(&file, f->path, &f->error), 0);
    assert_int_equal(safetensors_count(file), 0);
    assert_null(safetensors_find_meta(file, "step"));
    safetensors_close(file);
}

/* A stranger's file: that header, unpadded, and so many bytes of data. "" or the reason. */
static const char *refusal(struct fixture *f, const char *header, size_t data_size) {
    unsigned char bytes[1024] = {0};
    size_t length = strlen(header);
    bytes[0] = (unsigned char)length;
    bytes[1] = (unsigned char)(length >> 8);
    memcpy(bytes + 8, header, length);
    put_bytes(f->path, bytes, 8 + length + data_size);
    struct safetensors *file = NULL;
    f->error.text[0] = '\0';
    int result = safetensors_open(&file, f->path, &f->error);
    assert_int_equal(result == 0, f->error.text[0] == '\0');
    safetensors_close(file);
    return f->error.text;
}

static void files_of_strangers(void **state) {
    struct fixture *f = *state;
    assert_string_equal(refusal(f, "{}", 0), "");
    assert_string_equal(refusal(f, "{} \n ", 0), "");
    assert_string_equal(refusal(f,
                                "{\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[4,7]},"
                                "\"a\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[0,4]}}",
                                7),
                        "");
    assert_string_equal(
        refusal(f, "{\"a\":{\"dtype\":\"F4\",\"shape\":[2,2],\"data_offsets\":[0,2]}}", 2), "");
    static const struct {
        const char *header;
        size_t data_size;
        const char *reason;
    } cases[] = {
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 7,
         "tensor a lies outside the file, which may be cut short"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 9,
         "1 bytes after the last tensor"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", 8,
         "tensor a has 8 bytes, but its type and shape want 12"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", 8,
         "tensor a lies outside the file"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[-8,0]}}", 8,
         "tensor a lies outside the file"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8,8]}}", 8,
         "tensor a lies outside the file"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0]}}", 8,
         "tensor a lies outside the file"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8.0]}}", 8,
         "tensor a lies outside the file"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", 8,
         "the shape of tensor a is not up to 8 sizes"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}", 1,
         "the shape of tensor a is not up to 8 sizes"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,8]}}", 8,
         "tensor a: dtype F32 of that shape is unknown"},
        {"{\"a\":{\"dtype\":\"F31\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8,
         "tensor a: dtype F31 of that shape is unknown"},
        {"{\"a\":{\"dtype\":\"a type with a very long "
         "name\",\"shape\":[2],\"data_offsets\":[0,8]}}",
         8, "tensor a: dtype a type with"},
        {"{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]}}", 2,
         "tensor a: dtype F4 of that shape is unknown"},
        {"{\"a\":{\"dtype\":32,\"shape\":[2],\"data_offsets\":[0,8]}}", 8,
         "tensor a has not dtype, shape and data_offsets"},
        {"{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}", 8,
         "tensor a has not dtype, shape and data_offsets"},
        {"{\"a\":[]}", 0, "tensor a has not dtype, shape and data_offsets"},
        {"{\"a\":null}", 0, "tensor a has not dtype, shape and data_offsets"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\","
         "\"shape\":[2],\"data_offsets\":[1,3]}}",
         3, "tensor b overlaps another one, or follows a hole"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\","
         "\"shape\":[2],\"data_offsets\":[3,5]}}",
         5, "tensor b overlaps another one, or follows a hole"},
        {"{\"__metadata__\":{\"a\":1}}", 0, "metadata a is not text"},
        {"{\"__metadata__\":3}", 0, "its metadata is not an object"},
        {"{\"a\":{\"dtype\":", 0, "its header is not JSON: cut short"},
        {"{\"a\":[[[[[[1]]]]]]}", 0, "its header is not JSON: nesting too deep"},
        {"[]", 0, "is no safetensors file: no header"},
        {"", 0, "is no safetensors file: no header"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *reason = refusal(f, cases[i].header, cases[i].data_size);
        if (!strstr(reason, cases[i].reason))
            fail_msg("'%s' does not say '%s'", reason, cases[i].reason);
    }
    char name[300] = "{\"";
    memset(name + 2, 'n', 200);
    strcpy(name + 202, "\":{}}");
    assert_non_null(strstr(refusal(f, name, 0), "a tensor name of 200 bytes"));
}

static void what_is_no_such_file_is_told(void **state) {
    struct fixture *f = *state;
    struct safetensors *file = NULL;
    assert_int_equal(safetensors_open(&file, f->path, &f->error), -1);
    assert_non_null(strstr(f->error.text, "No such file or directory"));
    assert_int_equal(safetensors_open(&file, f->folder, &f->error), -1);
    assert_non_null(strstr(f->error.text, "not a plain file"));
    put_bytes(f->path, "1234567", 7);
    assert_int_equal(safetensors_open(&file, f->path, &f->error), -1);
    assert_non_null(strstr(f->error.text, "too short"));
    put_bytes(f->path, "\x80\x02}q\x00X\x04\x00\x00\x00{}", 12); /* a pickle */
    assert_int_equal(safetensors_open(&file, f->path, &f->error), -1);
    assert_non_null(strstr(f->error.text,
                           "is no safetensors file, or cut short: its header is longer than it"));
    put_bytes(f->path, "\x01\x00\x00\x01\x00\x00\x00\x00{}", 10);
    assert_int_equal(truncate(f->path, 20 << 20), 0);
    assert_int_equal(safetensors_open(&file, f->path, &f->error), -1);
    assert_non_null(strstr(f->error.text, "a header of 16777217 bytes"));
    assert_null(file);
}

static void every_cut_is_noticed(void **state) {
    struct fixture *f = *state;
    unsigned char bytes[1024];
    struct safetensors *file = NULL;
    assert_int_equal(safetensors_save(f->path, &whole, &f->error), 0);
    size_t size = load_bytes(f->path, bytes, sizeof bytes);
    for (size_t cut = 0; cut < size; cut++) {
        put_bytes(f->path, bytes, cut);
        assert_int_equal(safetensors_open(&file, f->path, &f->error), -1);
    }
}

static void a_failed_save_leaves_the_old_file(void **state) {
    struct fixture *f = *state;
    assert_int_equal(safetensors_save(f->path, &whole, &f->error), 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){300, 300}); /* a full disk */
        int result = safetensors_save(f->path, &whole, &f->error);
        _exit(result == -1 && strstr(f->error.text, "a.safetensors: File too large") ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    struct safetensors *file = NULL;
    assert_int_equal(safetensors_open(&file, f->path, &f->error), 0);
    assert_int_equal(safetensors_count(file), 4);
    safetensors_close(file);
    assert_int_equal(safetensors_save("/nonexistent/a.safetensors", &whole, &f->error), -1);
    assert_string_equal(f->error.text,
                        "cannot write /nonexistent/a.safetensors: No such file or directory");
}

static void a_name_without_folder_is_taken(void **state) {
    struct fixture *f = *state;
    char before[512];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(f->folder), 0);
    assert_int_equal(safetensors_save("a.safetensors", &whole, &f->error), 0);
    assert_int_equal(chdir(before), 0);
    assert_int_equal(access(f->path, R_OK), 0);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(the_bytes_are_those_of_the_format),
        TEST(what_was_saved_is_there),
        TEST(files_of_strangers),
        TEST(what_is_no_such_file_is_told),
        TEST(every_cut_is_noticed),
        TEST(a_failed_save_leaves_the_old_file),
        TEST(a_name_without_folder_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
