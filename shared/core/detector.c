#include "shared/core/detector.h"

#include <string.h>

#include "shared/core/text.h"

static bool is_bad(const struct tensor_stat *stat) {
    return stat->count >= 0 && (stat->nan > 0 || stat->pos_inf > 0 || stat->neg_inf > 0);
}

int detector_first_nonfinite(const struct schema *schema, const struct record *record) {
    int first = -1;
    for (int i = 0; i < record->tensors && i < schema->tensors; i++) {
        if (!is_bad(&record->tensor[i])) continue;
        if (first < 0 || schema->tensor[i].stage < schema->tensor[first].stage) first = i;
    }
    return first;
}

/* The other roles are told by the name alone. */
static bool shares_its_name(enum role role) {
    return role == ROLE_GRADIENT || role == ROLE_MOMENTUM_BUFFER || role == ROLE_EXP_AVG ||
           role == ROLE_EXP_AVG_SQ;
}

char *detector_subject(const struct schema_tensor *tensor, char out[SCHEMA_NAME_SIZE]) {
    text_copy(out, SCHEMA_NAME_SIZE, tensor->name);
    size_t used = strlen(out);
    if (shares_its_name(tensor->role) && used + 1 < SCHEMA_NAME_SIZE) {
        out[used++] = '/';
        text_copy(out + used, SCHEMA_NAME_SIZE - used, schema_role_name(tensor->role));
    }
    return out;
}
