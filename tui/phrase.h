/* How the display says things: numbers in few columns, places in a run, bands, events. */
#ifndef TUI_PHRASE_H
#define TUI_PHRASE_H

#include <stddef.h>

#include "shared/core/run.h"
#include "tui/grid.h"

enum { PHRASE_SIZE = 256 };

/* At most 7 columns without a sign: 0.0123, 12.3, 1.07e36. Returns out. */
char *phrase_number(char *out, size_t size, double value);
/* The same for what is exact: 0.2, 1, 10000. */
char *phrase_limit(char *out, size_t size, double value);
/* At most 4 columns: 320, 9999, 401k, 12M. */
char *phrase_count(char *out, size_t size, int64_t count);
/* Where a step is, in full, "batch 40" in the epoch `epoch` (0: of no epoch), else "epoch 11 batch
 * 40", "step 40" where only that is known. */
char *phrase_place(char *out, size_t size, const struct run *run, int64_t step, int32_t epoch);
/* The same in 4 to 8 columns: "b40", "e11 b40", "s4640". */
char *phrase_place_brief(char *out, size_t size, const struct run *run, int64_t step,
                         int32_t epoch);
/* What an event says behind its name. */
char *phrase_event(char *out, size_t size, const struct event *event);
/* Why a notice or an alarm: "runaway fc2.weight 1.61 > 1". */
char *phrase_reason(char *out, size_t size, const struct event *event);
/* "FINITE", "EXTREME", "NON-FINITE". */
const char *phrase_band(enum band band);
enum grid_role phrase_band_role(enum band band);
/* Epoch of a step; 0: not known. */
int32_t phrase_epoch(const struct run *run, int64_t step);

#endif
