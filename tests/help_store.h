/* A run as SimpleCNN publishes it, for tests of the store. */
#ifndef TESTS_HELP_STORE_H
#define TESTS_HELP_STORE_H

#include "shared/core/record.h"
#include "shared/store/codec.h"

/* 31 tensors, all standard metrics but the loss scaler's, and an own one. */
void help_hello(struct hello *hello);
/* A full record of that schema, different for every step; every value is known. */
void help_record(struct record *record, const struct schema *schema, int64_t step);
/* Level 0 or more, `count` buckets with values of every kind. */
void help_buckets(struct codec_buckets *buckets, const struct schema *schema, int level, int count);

#endif
