/* Replays the corpus and some thousand mutations of it, the same ones every time. NANTOP_CORPUS
 * names another folder. */
#include "tests/fuzz_decode.c"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>

#include <cmocka.h>

enum { INPUT_BYTES_MAX = 1 << 16, INPUTS_MAX = 4096, MUTATIONS = 300, CHANGES = 6 };

struct input {
    uint8_t *data;
    size_t size;
};

struct corpus {
    int count;
    struct input input[INPUTS_MAX];
};

static uint64_t random_of(uint64_t *state) { /* splitmix64 */
    uint64_t x = *state += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

static size_t below(uint64_t *state, size_t limit) {
    return limit ? (size_t)(random_of(state) % limit) : 0;
}

static int is_visible(const struct dirent *entry) { return entry->d_name[0] != '.'; }

static int load_corpus(void **state) {
    const char *folder = getenv("NANTOP_CORPUS");
    struct corpus *corpus = calloc(1, sizeof *corpus);
    struct dirent **entry;
    if (!folder) folder = "tests/corpus";
    int count = scandir(folder, &entry, is_visible, alphasort); /* the same order everywhere */
    assert_true(count > 0 && count <= INPUTS_MAX);
    for (int i = 0; i < count; i++) {
        char path[512];
        struct input *input = &corpus->input[corpus->count++];
        snprintf(path, sizeof path, "%s/%s", folder, entry[i]->d_name);
        FILE *file = fopen(path, "rb");
        assert_non_null(file);
        input->data = malloc(INPUT_BYTES_MAX);
        input->size = fread(input->data, 1, INPUT_BYTES_MAX, file);
        fclose(file);
        free(entry[i]);
    }
    free(entry);
    *state = corpus;
    return 0;
}

static int free_corpus(void **state) {
    struct corpus *corpus = *state;
    for (int i = 0; i < corpus->count; i++) free(corpus->input[i].data);
    free(corpus);
    return 0;
}

/* In memory of exactly its size, so that a sanitizer sees a read beyond it. */
static void feed(const uint8_t *data, size_t size) {
    uint8_t *exact = malloc(size ? size : 1);
    memcpy(exact, data, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

static void corpus_is_taken_or_refused(void **state) {
    struct corpus *corpus = *state;
    for (int i = 0; i < corpus->count; i++) feed(corpus->input[i].data, corpus->input[i].size);
    print_message("%d inputs\n", corpus->count);
}

/* The heads of MessagePack that claim much, and the edges of numbers. */
static void put_interesting(uint8_t *at, size_t room, uint64_t *state) {
    static const struct {
        uint8_t bytes[9], size;
    } values[] = {
        {{0xdd, 0x08, 0, 0, 0}, 5},
        {{0xdf, 0xff, 0xff, 0xff, 0xff}, 5},
        {{0xdb, 0x7f, 0xff, 0xff, 0xff}, 5},
        {{0xdc, 0xff, 0xff}, 3},
        {{0xde, 0xff, 0xff}, 3},
        {{0xc1}, 1},
        {{0xc0}, 1},
        {{0x90}, 1},
        {{0x80}, 1},
        {{0xff}, 1},
        {{0xca, 0x7f, 0xc0, 0, 0}, 5},
        {{0xca, 0xff, 0x80, 0, 0}, 5},
        {{0xd3, 0x80, 0, 0, 0, 0, 0, 0, 0}, 9},
        {{0xcf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 9},
        {{0xcb, 0x7f, 0xef, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 9},
        {{'"'}, 1},
        {{'{'}, 1},
        {{'['}, 1},
        {{'9', '9', '9', '9', '9', '9', '9', '9', '9'}, 9},
        {{'1', 'e', '9', '9', '9'}, 5},
    };
    size_t which = below(state, sizeof values / sizeof *values);
    memcpy(at, values[which].bytes, values[which].size < room ? values[which].size : room);
}

static size_t mutate(uint8_t *data, size_t size, const struct input *other, uint64_t *state) {
    size_t at = below(state, size), length = below(state, 32);
    switch (below(state, 6)) {
    case 0:
        data[at] ^= (uint8_t)(1U << below(state, 8));
        return size;
    case 1:
        data[at] = (uint8_t)random_of(state);
        return size;
    case 2:
        put_interesting(data + at, size - at, state);
        return size;
    case 3:
        return at > 0 ? at : size; /* cut */
    case 4: {                      /* take out */
        if (length > size - at) length = size - at;
        memmove(data + at, data + at + length, size - at - length);
        return size - length > 0 ? size - length : 1;
    }
    default: { /* put in a piece of another input */
        size_t from = below(state, other->size);
        if (length > other->size - from) length = other->size - from;
        if (size + length > INPUT_BYTES_MAX) return size;
        memmove(data + at + length, data + at, size - at);
        memcpy(data + at, other->data + from, length);
        return size + length;
    }
    }
}

static void mutations_are_taken_or_refused(void **state) {
    struct corpus *corpus = *state;
    uint64_t random = 46;
    uint8_t *data = malloc(INPUT_BYTES_MAX);
    for (int i = 0; i < corpus->count; i++) {
        for (int round = 0; round < MUTATIONS; round++) {
            size_t size = corpus->input[i].size, changes = 1 + below(&random, CHANGES);
            memcpy(data, corpus->input[i].data, size);
            for (size_t change = 0; change < changes; change++) {
                size = mutate(data, size, &corpus->input[below(&random, (size_t)corpus->count)],
                              &random);
            }
            data[0] = corpus->input[i].data[0]; /* stays with its decoder */
            feed(data, size);
        }
    }
    free(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(corpus_is_taken_or_refused),
        cmocka_unit_test(mutations_are_taken_or_refused),
    };
    return cmocka_run_group_tests(tests, load_corpus, free_corpus);
}
