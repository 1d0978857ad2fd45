/* The folder of a run, below the folder of all runs. */
#ifndef TRAINER_FOLDER_H
#define TRAINER_FOLDER_H

#include <stdint.h>

#include "shared/core/error.h"
#include "shared/core/record.h"

struct folder {
    char name[RECORD_ID_SIZE];   /* of the run */
    char path[RECORD_TEXT_SIZE]; /* "runs/sbac-1" */
};

/* Makes runs/name, and runs with it. `suffix`: where it exists, the first free of name-2, name-3,
 * ... -1: it exists, or cannot be made. */
int folder_make(struct folder *folder, const char *runs, const char *name, bool suffix,
                struct error *error);

#endif
