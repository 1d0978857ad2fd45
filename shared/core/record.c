#include "shared/core/record.h"

#include <stdlib.h>
#include <string.h>

#include "shared/core/text.h"

static const char *const event_names[EVENT_COUNT] = {
#define X(upper, wire) wire,
    RECORD_EVENTS(X)
#undef X
};

static void clear_stats(struct tensor_stat *stat, int tensors) {
    const struct tensor_stat unmeasured = {
        .count = -1, .max_abs = NAN, .usual = NAN, .bad_index = -1};
    for (int i = 0; i < tensors; i++) stat[i] = unmeasured;
}

int record_init(struct record *record, int tensors) {
    memset(record, 0, sizeof *record);
    if (tensors > 0) {
        record->tensor = malloc((size_t)tensors * sizeof *record->tensor);
        if (!record->tensor) return -1;
    }
    record->tensors = tensors;
    record_clear(record);
    return 0;
}

void record_free(struct record *record) {
    free(record->tensor);
    memset(record, 0, sizeof *record);
}

void record_clear(struct record *record) {
    struct tensor_stat *tensor = record->tensor;
    int tensors = record->tensors;
    *record = (struct record){
        .epoch = -1,
        .phase = -1,
        .batch = -1,
        .epochs = -1,
        .batches = -1,
        .update_ratio_max_tensor = -1,
        .value = NAN,
        .limit = NAN,
        .usual = NAN,
        .tensors = tensors,
        .tensor = tensor,
    };
    clear_stats(tensor, tensors);
}

int record_copy(struct record *to, const struct record *from) {
    if (to == from) return 0;
    struct tensor_stat *tensor = to->tensor;
    if (to->tensors < from->tensors) {
        tensor = realloc(tensor, (size_t)from->tensors * sizeof *tensor);
        if (!tensor) return -1;
    }
    if (from->tensors > 0) memcpy(tensor, from->tensor, (size_t)from->tensors * sizeof *tensor);
    *to = *from;
    to->tensor = tensor;
    return 0;
}

void event_init(struct event *event, enum event_kind kind) {
    *event = (struct event){
        .kind = kind,
        .step = -1,
        .epoch = -1,
        .phase = -1,
        .batch = -1,
        .value = NAN,
        .limit = NAN,
        .usual = NAN,
        .tensor = -1,
        .bad_index = -1,
        .nan = -1,
        .pos_inf = -1,
        .neg_inf = -1,
        .count = -1,
        .onset = -1,
        .lead = -1,
    };
}

const char *event_kind_name(enum event_kind kind) { return event_names[kind]; }

int event_kind_find(const char *name) {
    for (int i = 0; i < EVENT_COUNT; i++) {
        if (strcmp(event_names[i], name) == 0) return i;
    }
    return -1;
}

void hello_init(struct hello *hello) {
    memset(hello, 0, sizeof *hello);
    schema_init(&hello->schema);
}

void hello_free(struct hello *hello) {
    schema_free(&hello->schema);
    memset(hello, 0, sizeof *hello);
}

int hello_copy(struct hello *to, const struct hello *from) {
    if (to == from) return 0;
    if (schema_copy(&to->schema, &from->schema) < 0) return -1;
    struct schema schema = to->schema;
    *to = *from;
    to->schema = schema;
    return 0;
}

const char *hello_find_config(const struct hello *hello, const char *key) {
    for (int i = 0; i < hello->configs; i++) {
        if (strcmp(hello->config[i].key, key) == 0) return hello->config[i].value;
    }
    return NULL;
}

void hello_set_config(struct hello *hello, const char *key, const char *value) {
    int at = 0;
    while (at < hello->configs && strcmp(hello->config[at].key, key) != 0) at++;
    if (at == RECORD_CONFIG_MAX) return;
    if (at == hello->configs) hello->configs++;
    text_copy(hello->config[at].key, sizeof hello->config[at].key, key);
    text_copy(hello->config[at].value, sizeof hello->config[at].value, value);
}

bool record_id_valid(const char *id) {
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t length = strspn(id, allowed);
    return length > 0 && length < RECORD_ID_SIZE && id[length] == '\0' && id[0] != '.';
}
