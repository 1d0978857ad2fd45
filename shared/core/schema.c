#include "shared/core/schema.h"

#include <stdlib.h>
#include <string.h>

#include "shared/core/text.h"

static const char *const metric_names[METRIC_COUNT] = {
#define X(upper, lower) #lower,
    SCHEMA_METRICS(X)
#undef X
};
static const char *const role_names[ROLE_COUNT] = {
#define X(upper, wire, brief) wire,
    SCHEMA_ROLES(X)
#undef X
};
static const char *const role_briefs[ROLE_COUNT] = {
#define X(upper, wire, brief) brief,
    SCHEMA_ROLES(X)
#undef X
};
static const char *const stage_names[STAGE_COUNT] = {
#define X(upper, wire) wire,
    SCHEMA_STAGES(X)
#undef X
};
static const char *const dtype_names[DTYPE_COUNT] = {
#define X(upper, largest) #upper,
    SCHEMA_DTYPES(X)
#undef X
};
static const double dtype_largest[DTYPE_COUNT] = {
#define X(upper, largest) largest,
    SCHEMA_DTYPES(X)
#undef X
};

static int find_name(const char *const *names, int count, const char *name) {
    for (int i = 0; i < count; i++) {
        if (strcmp(names[i], name) == 0) return i;
    }
    return -1;
}

/* The array always has room for a power of two of tensors: how much is known from their number. */
static size_t room_for(int tensors) {
    size_t room = tensors > 0;
    while (room < (size_t)tensors) room *= 2;
    return room;
}

void schema_init(struct schema *schema) {
    memset(schema, 0, sizeof *schema);
    schema->metrics = METRIC_COUNT;
    for (int i = 0; i < METRIC_COUNT; i++)
        text_copy(schema->metric[i], SCHEMA_METRIC_SIZE, metric_names[i]);
}

void schema_free(struct schema *schema) {
    free(schema->tensor);
    memset(schema, 0, sizeof *schema);
}

int schema_copy(struct schema *to, const struct schema *from) {
    if (to == from) return 0;
    struct schema_tensor *tensor = NULL;
    if (from->tensors > 0) {
        tensor = malloc(room_for(from->tensors) * sizeof *tensor);
        if (!tensor) return -1;
        memcpy(tensor, from->tensor, (size_t)from->tensors * sizeof *tensor);
    }
    free(to->tensor);
    *to = *from;
    to->tensor = tensor;
    return 0;
}

int schema_add_metric(struct schema *schema, const char *name) {
    int slot = schema_find_metric(schema, name);
    if (slot < 0) {
        if (schema->metrics == SCHEMA_METRICS_MAX) return -1;
        slot = schema->metrics++;
        text_copy(schema->metric[slot], SCHEMA_METRIC_SIZE, name);
    }
    schema->published |= UINT64_C(1) << slot;
    return slot;
}

int schema_add_tensor(struct schema *schema, const struct schema_tensor *tensor) {
    if (schema->tensors == SCHEMA_TENSORS_MAX) return -1;
    if (room_for(schema->tensors) < room_for(schema->tensors + 1)) {
        struct schema_tensor *grown =
            realloc(schema->tensor, room_for(schema->tensors + 1) * sizeof *grown);
        if (!grown) return -1;
        schema->tensor = grown;
    }
    schema->tensor[schema->tensors] = *tensor;
    return schema->tensors++;
}

static uint64_t hash_bytes(uint64_t hash, const void *data, size_t size) {
    const unsigned char *byte = data;
    for (size_t i = 0; i < size; i++) hash = (hash ^ byte[i]) * UINT64_C(0x100000001B3);
    return hash;
}

static uint64_t hash_text(uint64_t hash, const char *text) {
    return hash_bytes(hash, text, strlen(text) + 1);
}

static uint64_t hash_number(uint64_t hash, int64_t number) {
    return hash_bytes(hash, &number, sizeof number);
}

void schema_seal(struct schema *schema) {
    uint64_t hash = UINT64_C(0xCBF29CE484222325);
    for (int i = 0; i < schema->metrics; i++) {
        if (schema->published >> i & 1) hash = hash_text(hash, schema->metric[i]);
    }
    for (int i = 0; i < schema->tensors; i++) {
        const struct schema_tensor *tensor = &schema->tensor[i];
        hash = hash_text(hash, tensor->name);
        hash = hash_text(hash, role_names[tensor->role]);
        hash = hash_text(hash, stage_names[tensor->stage]);
        hash = hash_text(hash, dtype_names[tensor->dtype]);
        hash = hash_number(hash, tensor->dims);
        for (int d = 0; d < tensor->dims; d++) hash = hash_number(hash, tensor->shape[d]);
    }
    schema->id = hash ? hash : 1;
}

int schema_find_metric(const struct schema *schema, const char *name) {
    for (int i = 0; i < schema->metrics; i++) {
        if (strcmp(schema->metric[i], name) == 0) return i;
    }
    return -1;
}

int schema_find_tensor(const struct schema *schema, const char *name, enum role role) {
    for (int i = 0; i < schema->tensors; i++) {
        if (schema->tensor[i].role == role && strcmp(schema->tensor[i].name, name) == 0) return i;
    }
    return -1;
}

const char *schema_role_name(enum role role) { return role_names[role]; }
const char *schema_role_brief(enum role role) { return role_briefs[role]; }
int schema_role_find(const char *name) { return find_name(role_names, ROLE_COUNT, name); }
const char *schema_stage_name(enum stage stage) { return stage_names[stage]; }
int schema_stage_find(const char *name) { return find_name(stage_names, STAGE_COUNT, name); }
const char *schema_dtype_name(enum dtype dtype) { return dtype_names[dtype]; }
int schema_dtype_find(const char *name) { return find_name(dtype_names, DTYPE_COUNT, name); }
double schema_dtype_max(enum dtype dtype) { return dtype_largest[dtype]; }
