/* For tests of the wire: a runtime folder of the test's own, a run to publish, patience without haste. */
#ifndef TESTS_HELP_WIRE_H
#define TESTS_HELP_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/core/record.h"

/* A fresh folder, named by NANTOP_RUNTIME_DIR from now on; the caller removes it with help_wire_leave. */
void help_wire_enter(char *folder, size_t size);
void help_wire_leave(const char *folder);

/* A run with loss and grad_norm and `tensors` tensors. The caller frees it. */
void help_wire_hello(struct hello *hello, const char *run_id, int tensors);
/* Step `step` of it: loss is 1 / (1 + step). */
void help_wire_fill(struct record *record, int64_t step);

int64_t help_wire_now_ns(void);
void help_wire_sleep_ms(int ms);
/* Resident memory of a process in bytes; 0: not known. */
size_t help_wire_memory(int pid);
/* False in a build whose sanitizer keeps what was freed. */
bool help_wire_memory_counts(void);

#endif
