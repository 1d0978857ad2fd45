/* Flat strict JSON, one line a step: metrics, band and reason; what `nantop --json` writes and
 * `nantop -` reads. */
#ifndef STORE_JSON_H
#define STORE_JSON_H

#include <stddef.h>

#include "shared/core/detector.h"
#include "shared/core/record.h"
#include "shared/store/buffer.h"

/* One line without its newline, strict JSON: non-finite values are the strings "nan", "inf",
 * "-inf"; what is not measured is left out. `verdict` may be NULL; with one, "alarm": true where an
 * alarm begins. -1: no memory. */
int json_encode_record(struct buffer *out, const struct schema *schema, const struct record *record,
                       const struct verdict *verdict);
int json_encode_event(struct buffer *out, const struct schema *schema, const struct event *event);

/* The shortest decimal of 15 to 17 digits that reads back as `value`, with a point in every locale;
 * non-finite: nan, inf, -inf without quotes. `size` 32 is enough. Returns out. */
char *json_number(char *out, size_t size, double value);

/* Reads one line {"step": 12, "loss": 0.3, ...}. NaN, Infinity and -Infinity tokens and the strings
 * above are non-finite values; unknown numeric keys become own metrics of `schema` (which grows);
 * other unknown keys are skipped. Without "step" the line is *next_step, which then moves on. A
 * band in the line is believed, else band is left BAND_FINITE with *judged false. Returns 1 for the
 * line of an event, which is no step. -1 with the reason: not an object, nested, a step that is no
 * whole number >= 0, a standard metric that is no number. The schema's id changes when it grows. */
int json_decode_record(const char *line, size_t size, struct schema *schema, struct record *record,
                       int64_t *next_step, bool *judged, struct error *error);

#endif
