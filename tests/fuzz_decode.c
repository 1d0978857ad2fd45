/* Everything that reads bytes of others, for libFuzzer and for the replay in test_fuzz.c. The first
 * byte of an input says which decoder reads the rest. What was taken must survive being written and
 * read again.
 *   clang -g -O1 -fsanitize=fuzzer,address,undefined -I. -D_GNU_SOURCE tests/fuzz_decode.c
 * tests/help_store.c shared/core/?*.c \ shared/store/[!r]*.c -ljson-c -lm && ./a.out -max_len=8192
 * tests/corpus */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shared/core/error.h"
#include "shared/store/codec.h"
#include "shared/store/json.h"
#include "shared/store/safetensors.h"
#include "tests/help_store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum target {
    FUZZ_HELLO,
    FUZZ_STEP,
    FUZZ_EVENT,
    FUZZ_BEAT,
    FUZZ_REQUEST,
    FUZZ_STATUS,
    FUZZ_BUCKET,
    FUZZ_JSON,
    FUZZ_SAFETENSORS,
    FUZZ_TARGETS
};

static void must(int truth) {
    if (!truth) abort();
}

static void fuzz_hello(const uint8_t *data, size_t size, struct buffer *out, struct error *error) {
    struct hello hello, again;
    hello_init(&hello);
    hello_init(&again);
    if (codec_decode_hello(data, size, &hello, error) == 0) {
        must(record_id_valid(hello.run_id));
        must(codec_encode_hello(out, &hello) == 0);
        must(codec_decode_hello(out->data, out->size, &again, error) == 0);
        must(again.schema.id == hello.schema.id && again.configs == hello.configs);
    }
    hello_free(&hello);
    hello_free(&again);
}

static void fuzz_step(const uint8_t *data, size_t size, struct buffer *out, struct error *error) {
    struct hello hello;
    struct record record, again;
    help_hello(&hello);
    record_init(&record, 0);
    record_init(&again, 0);
    if (codec_decode_record(data, size, &hello.schema, &record, error) >= 0) {
        must(record.tensors == hello.schema.tensors && record.step >= 0 &&
             record.update_ratio_max_tensor < record.tensors);
        must(codec_encode_record(out, &hello.schema, &record) == 0);
        must(codec_decode_record(out->data, out->size, &hello.schema, &again, error) == 0);
        must(again.step == record.step && again.measured == record.measured &&
             again.classes == record.classes);
        for (int i = 0; i < record.tensors; i++)
            must(again.tensor[i].count == record.tensor[i].count);
        must(json_encode_record(out, &hello.schema, &record, NULL) == 0);
    }
    record_free(&record);
    record_free(&again);
    hello_free(&hello);
}

static void fuzz_event(const uint8_t *data, size_t size, struct buffer *out, struct error *error) {
    struct schema none;
    struct event event, again;
    schema_init(&none);
    if (codec_decode_event(data, size, &event, error) == 0) {
        must(codec_encode_event(out, &event) == 0);
        must(codec_decode_event(out->data, out->size, &again, error) == 0);
        must(again.kind == event.kind && again.step == event.step &&
             strcmp(again.text, event.text) == 0);
        must(json_encode_event(out, &none, &event) == 0);
    }
    schema_free(&none);
}

static void fuzz_bucket(const uint8_t *data, size_t size, struct buffer *out, struct error *error) {
    struct hello hello;
    struct codec_buckets buckets = {0}, again = {0};
    help_hello(&hello);
    if (codec_decode_buckets(data, size, &hello.schema, &buckets, error) == 0) {
        must(codec_encode_buckets(out, &hello.schema, &buckets) == 0);
        must(codec_decode_buckets(out->data, out->size, &hello.schema, &again, error) == 0);
        must(again.count == buckets.count && again.level == buckets.level);
    }
    codec_buckets_free(&buckets);
    codec_buckets_free(&again);
    hello_free(&hello);
}

static void fuzz_json(const uint8_t *data, size_t size, struct buffer *out, struct error *error) {
    struct schema schema;
    struct record record;
    int64_t next_step = 1;
    bool judged;
    schema_init(&schema);
    record_init(&record, 0);
    if (json_decode_record((const char *)data, size, &schema, &record, &next_step, &judged,
                           error) == 0) {
        int64_t step = record.step;
        must(next_step == step + 1 && schema.metrics <= SCHEMA_METRICS_MAX);
        must(json_encode_record(out, &schema, &record, NULL) == 0);
        must(json_decode_record(out->data, out->size, &schema, &record, &next_step, &judged,
                                error) == 0);
        must(record.step == step && judged);
    }
    record_free(&record);
    schema_free(&schema);
}

static void fuzz_safetensors(const uint8_t *data, size_t size, struct error *error) {
    char path[32];
    int fd = memfd_create("fuzz", 0);
    struct safetensors *file = NULL;
    must(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (safetensors_open(&file, path, error) == 0) {
        volatile unsigned sum = 0;
        for (int i = 0; i < safetensors_count(file); i++) {
            const struct safetensors_entry *entry = safetensors_entry(file, i);
            for (size_t j = 0; j < entry->size_bytes; j++)
                sum += ((const unsigned char *)entry->data)[j];
        }
    }
    safetensors_close(file);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    struct buffer out = {0};
    struct error error;
    struct codec_request request;
    struct codec_status status;
    uint64_t seq, schema_id;
    const uint8_t *rest = data + 1;
    switch ((enum target)(data[0] % FUZZ_TARGETS)) {
    case FUZZ_HELLO:
        fuzz_hello(rest, size - 1, &out, &error);
        break;
    case FUZZ_STEP:
        fuzz_step(rest, size - 1, &out, &error);
        break;
    case FUZZ_EVENT:
        fuzz_event(rest, size - 1, &out, &error);
        break;
    case FUZZ_BEAT:
        codec_decode_beat(rest, size - 1, &seq, &schema_id, &error);
        break;
    case FUZZ_REQUEST:
        codec_decode_request(rest, size - 1, &request, &error);
        break;
    case FUZZ_STATUS:
        codec_decode_status(rest, size - 1, &status, &error);
        break;
    case FUZZ_BUCKET:
        fuzz_bucket(rest, size - 1, &out, &error);
        break;
    case FUZZ_JSON:
        fuzz_json(rest, size - 1, &out, &error);
        break;
    default:
        fuzz_safetensors(rest, size - 1, &error);
    }
    buffer_free(&out);
    return 0;
}
