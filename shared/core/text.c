#include "shared/core/text.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

size_t text_character(const unsigned char *in, size_t size, uint32_t *point) {
    static const uint32_t least[5] = {0, 1, 0x80, 0x800, 0x10000};
    if (size == 0) return 0;
    size_t length = in[0] < 0x80   ? 1
                    : in[0] < 0xc2 ? 0
                    : in[0] < 0xe0 ? 2
                    : in[0] < 0xf0 ? 3
                    : in[0] < 0xf5 ? 4
                                   : 0;
    if (length == 0 || length > size) return 0;
    uint32_t found = length == 1 ? in[0] : in[0] & (0xffU >> (length + 1));
    for (size_t i = 1; i < length; i++) {
        if ((in[i] & 0xc0) != 0x80) return 0;
        found = found << 6 | (in[i] & 0x3fU);
    }
    bool surrogate = found >= 0xd800 && found < 0xe000;
    if (found < least[length] || found > 0x10ffff || surrogate) return 0;
    *point = found;
    return length;
}

bool text_is_control(uint32_t point) {
    return point < 0x20 || (point >= 0x7f && point < 0xa0) ||
           (point >= 0x2028 && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069);
}

char *text_escape(char *out, size_t size, const char *in) {
    size_t used = 0;
    const unsigned char *at = (const unsigned char *)in, *end = at + strlen(in);
    while (at < end) {
        uint32_t point;
        size_t length = text_character(at, (size_t)(end - at), &point);
        if (length > 0 && text_is_control(point)) length = 0;
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
