/* Text as every part of nantop writes it: escaped for a terminal, and numbers the same way
 * everywhere. */
#ifndef CORE_TEXT_H
#define CORE_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* Copies `in` to `out`, control characters (C0, DEL, C1, broken UTF-8) as \xNN; always terminated,
 * never cut inside a character. Returns out. */
char *text_escape(char *out, size_t size, const char *in);

/* Copies at most size - 1 bytes and terminates. Returns out. */
char *text_copy(char *out, size_t size, const char *in);

/* A value with three significant digits in at most 9 characters: 0.0123, 12.3, 48400, 1.07e+36;
 * "nan", "inf", "-inf" for the non-finite. The decimal mark is a point in every locale. Returns
 * out. */
char *text_number(char *out, size_t size, double value);

/* An integer with the digits grouped by commas: 23,547. Returns out. */
char *text_count(char *out, size_t size, int64_t value);

/* Wall time (ns since 1970) as local HH:MM:SS. Returns out. */
char *text_clock(char *out, size_t size, int64_t wall_ns);

#endif
