/* The folder of a run, below the folder of all runs. */
#ifndef TRAINER_FOLDER_H
#define TRAINER_FOLDER_H

#include <stdint.h>

#include "shared/core/error.h"
#include "shared/core/record.h"

/* So that the path of every file in it fits the text of an event. */
enum { FOLDER_PATH_SIZE = RECORD_TEXT_SIZE - 48 };

struct folder {
    char name[RECORD_ID_SIZE];   /* of the run */
    char path[FOLDER_PATH_SIZE]; /* "runs/sbac-1" */
};

/* Makes runs/name, and runs with it. `suffix`: where it exists, the first free of name-2, name-3,
 * ... -1: it exists, cannot be made, or its path is too long. */
int folder_make(struct folder *folder, const char *runs, const char *name, bool suffix,
                struct error *error);

#endif
