/* Statistics of arrays. They are asked for first, and measured by the workers of whichever
 * operation has the values in its caches; finish does what is left. */
#ifndef KERNELS_CPU_MEASURE_H
#define KERNELS_CPU_MEASURE_H

#include "kernels/cpu/workers.h"
#include "kernels/kernels.h"

struct measure;

struct measure *measure_open(void);          /* NULL: no memory */
void measure_close(struct measure *measure); /* NULL is legal */
void measure_request(struct measure *measure, const struct kernels_span *span, int spans,
                     struct tensor_stat *stat);
/* The floats from `begin` to `end` are final: measures what is asked for and lies wholly among
 * them. Workers may call it at once for ranges that do not overlap; the range of one may grow from
 * call to call. */
void measure_ready(struct measure *measure, const float *begin, const float *end);
void measure_finish(struct measure *measure, struct workers *workers);

#endif
