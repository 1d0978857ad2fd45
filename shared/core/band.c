#include "shared/core/band.h"

#include <string.h>

static const char *const band_names[BAND_COUNT] = {"finite", "extreme", "non-finite"};

static const char *const reason_names[REASON_COUNT] = {
#define X(name, text) text,
    BAND_REASONS(X)
#undef X
};

const char *band_name(enum band band) { return band_names[band]; }

int band_find(const char *text) {
    for (int i = 0; i < BAND_COUNT; i++) {
        if (strcmp(text, band_names[i]) == 0) return i;
    }
    return -1;
}

const char *band_reason_name(enum reason reason) { return reason_names[reason]; }

int band_reason_find(const char *text) {
    for (int i = 0; i < REASON_COUNT; i++) {
        if (strcmp(text, reason_names[i]) == 0) return i;
    }
    return -1;
}
