#include "shared/core/text.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Bytes of the UTF-8 character at `in` when it is well formed and printable; 0: to be escaped. */
static size_t printable_length(const unsigned char *in) {
    if (in[0] >= 0x20 && in[0] < 0x7f) return 1;
    size_t length = in[0] >= 0xf0 && in[0] < 0xf5   ? 4
                    : in[0] >= 0xe0 && in[0] < 0xf0 ? 3
                    : in[0] >= 0xc2 && in[0] < 0xe0 ? 2
                                                    : 0;
    if (length == 0) return 0;
    uint32_t point = in[0] & (0xffU >> (length + 1));
    for (size_t i = 1; i < length; i++) {
        if ((in[i] & 0xc0) != 0x80) return 0; /* the terminator too ends here */
        point = point << 6 | (in[i] & 0x3fU);
    }
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    bool surrogate = point >= 0xd800 && point < 0xe000;
    bool direction = (point >= 0x202a && point <= 0x202e) ||
                     (point >= 0x2066 && point <= 0x2069); /* reorders a line */
    if (point < least[length] || point > 0x10ffff || point < 0xa0 || surrogate || direction)
        return 0;
    if (point == 0x2028 || point == 0x2029) return 0;
    return length;
}

char *text_escape(char *out, size_t size, const char *in) {
    size_t used = 0;
    const unsigned char *at = (const unsigned char *)in;
    while (*at) {
        size_t length = printable_length(at);
        if (used + (length ? length : 4) >= size) break;
        if (length) {
            memcpy(out + used, at, length);
            used += length;
            at += length;
        } else {
            snprintf(out + used, size - used, "\\x%02x", *at++);
            used += 4;
        }
    }
    if (size) out[used] = '\0';
    return out;
}

char *text_copy(char *out, size_t size, const char *in) {
    if (size == 0) return out;
    size_t length = strnlen(in, size - 1);
    memcpy(out, in, length);
    out[length] = '\0';
    return out;
}

static void use_point(char *text) {
    for (; *text; text++) {
        if (*text == ',') *text = '.';
    }
}

char *text_number(char *out, size_t size, double value) {
    if (isnan(value)) return text_copy(out, size, "nan");
    if (isinf(value)) return text_copy(out, size, value > 0 ? "inf" : "-inf");
    double magnitude = fabs(value);
    if (magnitude != 0 && (magnitude < 1e-3 || magnitude >= 99999.5)) {
        snprintf(out, size, "%.2e", value);
    } else if (magnitude >= 99.95) {
        snprintf(out, size, "%.0f", value);
    } else {
        int decimals = magnitude >= 9.995                      ? 1
                       : magnitude >= 0.9995 || magnitude == 0 ? 2
                       : magnitude >= 0.09995                  ? 3
                                                               : 4;
        snprintf(out, size, "%.*f", decimals, value);
    }
    use_point(out);
    return out;
}

char *text_count(char *out, size_t size, int64_t value) {
    char digits[32], grouped[48];
    int length = snprintf(digits, sizeof digits, "%lld", (long long)value), used = 0;
    int sign = digits[0] == '-';
    for (int i = 0; i < length; i++) {
        if (i > sign && (length - i) % 3 == 0) grouped[used++] = ',';
        grouped[used++] = digits[i];
    }
    grouped[used] = '\0';
    return text_copy(out, size, grouped);
}

char *text_clock(char *out, size_t size, int64_t wall_ns) {
    time_t seconds = (time_t)(wall_ns / 1000000000);
    struct tm local;
    if (!localtime_r(&seconds, &local) || strftime(out, size, "%H:%M:%S", &local) == 0)
        text_copy(out, size, "--:--:--");
    return out;
}
