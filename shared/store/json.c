#include "shared/store/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <json-c/json.h>

#include "shared/core/error.h"
#include "shared/core/text.h"
#include "shared/store/field.h"

enum { LINE_BYTES_MAX = 1 << 20 };

/* A line holds these of a record, its metrics, and what follows from a verdict. */
static const struct field record_head[] = {
    FIELD_REQUIRED(STEP, record, step), FIELD(STEP, record, seq),
    FIELD(I32, record, epoch),          FIELD(I32, record, phase),
    FIELD(I32, record, batch),          FIELD(I64, record, wall_ns),
    FIELD(TEXT, record, phase_data),    FIELD(HASH, record, input_hash),
    FIELD(HASH, record, label_hash),
};
static const struct field record_tail[] = {
    FIELD_REQUIRED(BAND, record, band), FIELD(REASON, record, reason), FIELD(TEXT, record, subject),
    FIELD(NUMBER, record, value),       FIELD(NUMBER, record, limit),  FIELD(NUMBER, record, usual),
};
static const char *const verdict_keys[] = {"alarm", "notice", "onset", "lead"};

static const struct field event_field[] = {
    FIELD(STEP, event, seq),        FIELD(STEP, event, step),       FIELD(I32, event, epoch),
    FIELD(I32, event, phase),       FIELD(I32, event, batch),       FIELD(I64, event, wall_ns),
    FIELD(BAND, event, band),       FIELD(REASON, event, reason),   FIELD(TEXT, event, subject),
    FIELD(NUMBER, event, value),    FIELD(NUMBER, event, limit),    FIELD(NUMBER, event, usual),
    FIELD(STAGE, event, stage),     FIELD(STEP, event, bad_index),  FIELD(STEP, event, nan),
    FIELD(STEP, event, pos_inf),    FIELD(STEP, event, neg_inf),    FIELD(STEP, event, count),
    FIELD(HASH, event, input_hash), FIELD(HASH, event, label_hash), FIELD(STEP, event, onset),
    FIELD(STEP, event, lead),       FIELD(STEP, event, first_seq),  FIELD(STEP, event, last_seq),
    FIELD(TEXT, event, text),
};

char *json_number(char *out, size_t size, double value) {
    if (isnan(value)) return text_copy(out, size, "nan");
    if (isinf(value)) return text_copy(out, size, value > 0 ? "inf" : "-inf");
    if (value == 0 && signbit(value))
        return text_copy(out, size, "-0.0"); /* "-0" would be read as an integer */
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(out, size, "%.*g", digits, value);
        if (strtod(out, NULL) == value) break;
    }
    for (char *at = out; *at; at++) {
        if (*at == ',') *at = '.'; /* the locale's mark is not JSON's */
    }
    return out;
}

/* An object being written; no memory is remembered until its end. */
struct line {
    struct buffer *out;
    bool failed;
};

static void put(struct line *line, const char *text) {
    if (buffer_append_text(line->out, text) < 0) line->failed = true;
}

static void put_text(struct line *line, const char *text) {
    put(line, "\"");
    const unsigned char *at = (const unsigned char *)text, *end = at + strlen(text);
    while (at < end) {
        uint32_t point = 0;
        size_t length = text_character(at, (size_t)(end - at), &point);
        char out[8];
        if (length == 0) {
            text_copy(out, sizeof out, "\\ufffd");
        } else if (point == '"' || point == '\\') {
            snprintf(out, sizeof out, "\\%c", (char)point);
        } else if (text_is_control(point)) {
            snprintf(out, sizeof out, "\\u%04x", point & 0xffff);
        } else {
            snprintf(out, sizeof out, "%.*s", (int)length, (const char *)at);
        }
        put(line, out);
        at += length ? length : 1;
    }
    put(line, "\"");
}

static void put_key(struct line *line, const char *key) {
    put(line, line->out->size > 1 ? ", " : "");
    put_text(line, key);
    put(line, ": ");
}

static void put_number(struct line *line, double value) {
    char text[32];
    json_number(text, sizeof text, value);
    put(line, isfinite(value) ? "" : "\"");
    put(line, text);
    put(line, isfinite(value) ? "" : "\"");
}

static void put_whole(struct line *line, const char *key, int64_t value) {
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, value);
    put_key(line, key);
    put(line, text);
}

static void put_member(struct line *line, const struct field *field, const void *member) {
    char text[32] = "";
    switch (field->type) {
    case FIELD_U32:
        snprintf(text, sizeof text, "%" PRIu32, *(const uint32_t *)member);
        break;
    case FIELD_U64:
        snprintf(text, sizeof text, "%" PRIu64, *(const uint64_t *)member);
        break;
    case FIELD_HASH:
        snprintf(text, sizeof text, "\"%016" PRIx64 "\"", *(const uint64_t *)member);
        break;
    case FIELD_I32:
        snprintf(text, sizeof text, "%" PRId32, *(const int32_t *)member);
        break;
    case FIELD_I64:
    case FIELD_STEP:
        snprintf(text, sizeof text, "%" PRId64, *(const int64_t *)member);
        break;
    case FIELD_NUMBER:
        put_number(line, *(const double *)member);
        break;
    case FIELD_TEXT:
        put_text(line, member);
        break;
    default:
        put_text(line, field_enum_name(field->type, member));
    }
    put(line, text);
}

static void put_fields(struct line *line, const struct field *field, int fields, const void *object,
                       const void *plain) {
    for (int i = 0; i < fields; i++, field++) {
        const void *member = (const char *)object + field->offset;
        if (!field->required && field_is_plain(field, member, (const char *)plain + field->offset))
            continue;
        put_key(line, field->key);
        put_member(line, field, member);
    }
}

static const struct field *find_field(const char *key) {
    for (int i = 0; i < FIELD_COUNT(record_head); i++) {
        if (strcmp(record_head[i].key, key) == 0) return &record_head[i];
    }
    for (int i = 0; i < FIELD_COUNT(record_tail); i++) {
        if (strcmp(record_tail[i].key, key) == 0) return &record_tail[i];
    }
    return NULL;
}

/* Keys with a meaning of their own are no metrics, also where a publisher calls one so. */
static bool is_reserved(const char *key) {
    for (int i = 0; i < FIELD_COUNT(verdict_keys); i++) {
        if (strcmp(verdict_keys[i], key) == 0) return true;
    }
    return strcmp(key, "event") == 0 || find_field(key) != NULL;
}

int json_encode_record(struct buffer *out, const struct schema *schema, const struct record *record,
                       const struct verdict *verdict) {
    struct record plain = {0};
    record_clear(&plain);
    struct line line = {.out = out};
    out->size = 0;
    put(&line, "{");
    put_fields(&line, record_head, FIELD_COUNT(record_head), record, &plain);
    for (int slot = 0; slot < schema->metrics; slot++) {
        if (!record_has(record, slot) || is_reserved(schema->metric[slot])) continue;
        put_key(&line, schema->metric[slot]);
        put_number(&line, record->metric[slot]);
    }
    put_fields(&line, record_tail, FIELD_COUNT(record_tail), record, &plain);
    if (verdict && verdict->alarm) {
        put_key(&line, "alarm");
        put(&line, "true");
    }
    if (verdict && verdict->onset >= 0) put_whole(&line, "onset", verdict->onset);
    if (verdict && verdict->lead >= 0) put_whole(&line, "lead", verdict->lead);
    put(&line, "}");
    return line.failed ? -1 : 0;
}

int json_encode_event(struct buffer *out, const struct schema *schema, const struct event *event) {
    struct event plain;
    event_init(&plain, event->kind);
    struct line line = {.out = out};
    out->size = 0;
    put(&line, "{");
    put_key(&line, "event");
    put_text(&line, event_kind_name(event->kind));
    put_fields(&line, event_field, FIELD_COUNT(event_field), event, &plain);
    if (event->tensor >= 0 && event->tensor < schema->tensors) {
        const struct schema_tensor *tensor = &schema->tensor[event->tensor];
        put_key(&line, "tensor");
        put_text(&line, tensor->name);
        put_key(&line, "role");
        put_text(&line, schema_role_name(tensor->role));
    }
    put(&line, "}");
    return line.failed ? -1 : 0;
}

/* Reading. What a value is as a number; -1: it is none. */
static int load_number(json_object *value, double *number) {
    if (json_object_is_type(value, json_type_double) || json_object_is_type(value, json_type_int)) {
        *number = json_object_get_double(value);
        const char *text = json_object_to_json_string(value);
        bool infinite = text[strspn(text, "+-")] == 'I';
        return isinf(*number) && !infinite ? -1 : 0; /* 1e999 is finite, but in no double */
    }
    if (!json_object_is_type(value, json_type_string)) return -1;
    const char *text = json_object_get_string(value), *name = text + strspn(text, "+-");
    if (name - text > 1) return -1;
    double sign = *text == '-' ? -1 : 1;
    if (strcasecmp(name, "nan") != 0 && strcasecmp(name, "inf") != 0 &&
        strcasecmp(name, "infinity") != 0)
        return -1;
    *number = strcasecmp(name, "nan") == 0 ? NAN : sign * INFINITY;
    return 0;
}

/* -1: no whole number 0..most. */
static int load_whole(json_object *value, int64_t most, int64_t *whole) {
    double number;
    if (json_object_is_type(value, json_type_string) || load_number(value, &number) < 0) return -1;
    if (!(number >= 0 && number <= (double)most) || number != trunc(number)) return -1;
    *whole =
        json_object_is_type(value, json_type_int) ? json_object_get_int64(value) : (int64_t)number;
    return *whole <= most ? 0 : -1;
}

/* What does not fit is not known. */
static void load_member(json_object *value, const struct field *field, struct record *record) {
    void *member = (char *)record + field->offset;
    const char *text =
        json_object_is_type(value, json_type_string) ? json_object_get_string(value) : "";
    int64_t whole;
    int found;
    switch (field->type) {
    case FIELD_I32:
        if (load_whole(value, INT32_MAX, &whole) == 0) *(int32_t *)member = (int32_t)whole;
        break;
    case FIELD_U64:
    case FIELD_I64:
    case FIELD_STEP:
        if (load_whole(value, INT64_C(1) << 62, &whole) == 0) memcpy(member, &whole, sizeof whole);
        break;
    case FIELD_NUMBER:
        load_number(value, member);
        break;
    case FIELD_TEXT:
        text_copy(member, field->size, text);
        break;
    case FIELD_HASH:
        if (strlen(text) == 16 && text[strspn(text, "0123456789abcdef")] == '\0') {
            *(uint64_t *)member = strtoull(text, NULL, 16);
            record->hashed = true;
        }
        break;
    case FIELD_REASON:
        found = band_reason_find(text);
        if (found >= 0) record->reason = (enum reason)found;
        break;
    default:
        found = band_find(text);
        if (found >= 0) record->band = (enum band)found;
    }
}

static int check_value(const struct schema *schema, const char *key, json_object *value,
                       struct error *error) {
    double number;
    int64_t step;
    int slot = schema_find_metric(schema, key);
    bool standard = slot >= 0 && slot < METRIC_COUNT;
    if (json_object_is_type(value, json_type_object) ||
        json_object_is_type(value, json_type_array)) {
        return error_set(error, "%s is nested: a line is a flat object", key);
    }
    if (!value) return 0; /* null: as if left out */
    if (strcmp(key, "step") == 0 && load_whole(value, FIELD_STEP_MAX, &step) < 0) {
        return error_set(error, "step is not a whole number from 0 on: %s",
                         json_object_to_json_string(value));
    }
    if (strcmp(key, "band") == 0 && (!json_object_is_type(value, json_type_string) ||
                                     band_find(json_object_get_string(value)) < 0)) {
        return error_set(error, "band is not finite, extreme or non-finite: %s",
                         json_object_to_json_string(value));
    }
    bool numeric =
        json_object_is_type(value, json_type_boolean) || load_number(value, &number) == 0;
    if (standard && !numeric)
        return error_set(error, "%s is not a number: %s", key, json_object_to_json_string(value));
    return 0;
}

static void apply_metric(struct schema *schema, const char *key, json_object *value,
                         struct record *record) {
    double number;
    int slot = schema_find_metric(schema, key);
    if (slot >= 0 && json_object_is_type(value, json_type_boolean)) {
        number = json_object_get_boolean(value);
    } else if (load_number(value, &number) < 0 || key[0] == '\0' ||
               strlen(key) >= SCHEMA_METRIC_SIZE) {
        return;
    }
    if (slot < 0 || !(schema->published >> slot & 1)) {
        slot = schema_add_metric(schema, key);
        schema_seal(schema);
    }
    if (slot >= 0) record_set(record, slot, number);
}

static void apply_line(json_object *line, struct schema *schema, struct record *record) {
    json_object_object_foreach(line, key, value) {
        const struct field *field = find_field(key);
        if (field) {
            load_member(value, field, record);
        } else if (!is_reserved(key)) {
            apply_metric(schema, key, value, record);
        }
    }
    record->schema_id = schema->id;
}

/* NULL with the reason. */
static json_object *parse(const char *line, size_t size, struct error *error) {
    if (size > LINE_BYTES_MAX) {
        error_set(error, "a line of %zu bytes, more than %d", size, LINE_BYTES_MAX);
        return NULL;
    }
    json_tokener *tokener = json_tokener_new();
    if (!tokener) {
        error_set(error, "no memory");
        return NULL;
    }
    json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    json_object *object = json_tokener_parse_ex(tokener, line, (int)size);
    enum json_tokener_error result = json_tokener_get_error(tokener);
    json_tokener_free(tokener);
    if (result != json_tokener_success) {
        error_set(error, "not JSON: %s",
                  result == json_tokener_continue ? "cut short" : json_tokener_error_desc(result));
    } else if (!json_object_is_type(object, json_type_object)) {
        error_set(error, "not a JSON object");
    } else {
        return object;
    }
    json_object_put(object);
    return NULL;
}

int json_decode_record(const char *line, size_t size, struct schema *schema, struct record *record,
                       int64_t *next_step, bool *judged, struct error *error) {
    json_object *object = parse(line, size, error);
    if (!object) return -1;
    int result = json_object_object_get_ex(object, "event", NULL) ? 1 : 0;
    json_object_object_foreach(object, key, value) {
        if (result == 0) result = check_value(schema, key, value, error);
    }
    if (result == 0) {
        record_clear(record);
        record->step = *next_step;
        *judged = json_object_object_get(object, "band") != NULL;
        apply_line(object, schema, record);
        *next_step = record->step + 1;
    }
    json_object_put(object);
    return result;
}
