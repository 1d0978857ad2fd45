#include "shared/store/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "shared/core/text.h"

char *json_number(char *out, size_t size, double value) {
    if (isnan(value)) return text_copy(out, size, "nan");
    if (isinf(value)) return text_copy(out, size, value > 0 ? "inf" : "-inf");
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(out, size, "%.*g", digits, value);
        if (strtod(out, NULL) == value) break;
    }
    for (char *at = out; *at; at++) {
        if (*at == ',') *at = '.'; /* the locale's mark is not JSON's */
    }
    return out;
}
