/* Training images and labels from IDX files, plain or gzipped: MNIST, Fashion-MNIST, or any folder
 * with the same four names. The files are bytes of an enemy: their sizes are limited before they
 * are believed. */
#ifndef TRAINER_DATASET_H
#define TRAINER_DATASET_H

#include <stdint.h>

#include "shared/core/error.h"

enum {
    DATASET_SIDE = 28,
    DATASET_PIXELS = DATASET_SIDE * DATASET_SIDE,
    DATASET_CLASSES = 10,
    DATASET_IMAGES_MAX = 1 << 20
};

struct dataset {
    char folder[512]; /* where the files were found */
    int images;
    uint8_t *image; /* (images, DATASET_PIXELS), owned */
    uint8_t *label; /* (images), 0..9, owned */
};

/* `source`: "mnist" or "fashion", looked up in $NANTOP_DATA, ./data, ~/.cache/nantop and the
 * system's data sets, or a folder with train-images-idx3-ubyte and train-labels-idx1-ubyte, each
 * plain or .gz. -1: absent, truncated, too long, not IDX, not 28x28, a label over 9, counts that
 * differ; nothing is owned then. */
int dataset_load(struct dataset *dataset, const char *source, struct error *error);
void dataset_free(struct dataset *dataset);

#endif
