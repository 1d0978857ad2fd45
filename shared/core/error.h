/* One sentence about what went wrong in the world: what was being done, to what, and why it failed.
 */
#ifndef CORE_ERROR_H
#define CORE_ERROR_H

struct error {
    char text[512]; /* UTF-8, one line, control characters escaped; "" while nothing failed */
};

/* Writes the sentence (printf format); control characters in it become \xNN. `error` may be NULL.
 * Always returns -1. */
int error_set(struct error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
