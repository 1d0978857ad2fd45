#include "shared/core/error.h"

#include <stdarg.h>
#include <stdio.h>

#include "shared/core/text.h"

int error_set(struct error *error, const char *format, ...) {
    if (!error) return -1;
    char raw[sizeof error->text];
    va_list args;
    va_start(args, format);
    vsnprintf(raw, sizeof raw, format, args);
    va_end(args);
    text_escape(error->text, sizeof error->text, raw);
    return -1;
}
