#include "tests/help_wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void help_wire_enter(char *folder, size_t size) {
    snprintf(folder, size, "/tmp/nantop-wire.XXXXXX");
    if (!mkdtemp(folder) || setenv("NANTOP_RUNTIME_DIR", folder, 1) < 0) abort();
}

void help_wire_leave(const char *folder) {
    char command[256];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    if (system(command) != 0) abort();
}

void help_wire_hello(struct hello *hello, const char *run_id, int tensors) {
    hello_init(hello);
    snprintf(hello->run_id, sizeof hello->run_id, "%s", run_id);
    snprintf(hello->name, sizeof hello->name, "%s", run_id);
    snprintf(hello->host, sizeof hello->host, "here");
    hello->pid = getpid();
    hello->started_ns = help_wire_now_ns();
    schema_add_metric(&hello->schema, "loss");
    schema_add_metric(&hello->schema, "grad_norm");
    for (int i = 0; i < tensors; i++) {
        struct schema_tensor tensor = {.role = ROLE_PARAMETER, .stage = STAGE_STEP, .dims = 1, .shape = {8}};
        snprintf(tensor.name, sizeof tensor.name, "layer%d.weight", i);
        schema_add_tensor(&hello->schema, &tensor);
    }
    schema_seal(&hello->schema);
}

void help_wire_fill(struct record *record, int64_t step) {
    record->step = step;
    record->mono_ns = record->wall_ns = help_wire_now_ns();
    record_set(record, METRIC_LOSS, 1.0 / (double)(1 + step));
    record_set(record, METRIC_GRAD_NORM, 2.0);
    for (int i = 0; i < record->tensors; i++) {
        record->tensor[i].count = 8;
        record->tensor[i].sum_sq = 0.1 + (double)i;
        record->tensor[i].max_abs = 0.3 + (double)step;
    }
}

int64_t help_wire_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

void help_wire_sleep_ms(int ms) {
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    nanosleep(&time, NULL);
}

size_t help_wire_memory(int pid) {
    char path[64];
    size_t total = 0, resident = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", pid);
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    if (fscanf(file, "%zu %zu", &total, &resident) != 2) resident = 0;
    fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

bool help_wire_memory_counts(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return false;
#else
    return true;
#endif
}
