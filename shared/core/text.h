/* Text as every part of nantop writes it: escaped for a terminal, and numbers the same way
 * everywhere. */
#ifndef CORE_TEXT_H
#define CORE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the well-formed UTF-8 character at `in`, which is no NUL, and its code point; 0: there
 * is none. */
size_t text_character(const unsigned char *in, size_t size, uint32_t *point);
/* Control characters, and what breaks or reorders a line on a terminal. */
bool text_is_control(uint32_t point);

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
