/* Which implementation of the kernels trains: the one linked in, or a shared object. */
#ifndef TRAINER_BACKEND_H
#define TRAINER_BACKEND_H

#include "kernels/kernels.h"
#include "trainer/options.h"

/* NULL: none fits the options, in one sentence. A shared object stays loaded. */
const struct kernels *backend_find(const struct options *options, struct error *error);

#endif
