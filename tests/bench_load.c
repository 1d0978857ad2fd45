/* Publishes runs with SimpleCNN's 31 tensors and invented, ordinary numbers: a load for the display
 * and the wire. usage: bench_load RUNS STEPS_PER_S_EACH STEPS_EACH [BIND] Prints the address of
 * every run, and "published" when all steps are out; then it beats on until stdin closes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "shared/core/error.h"
#include "shared/core/record.h"
#include "shared/wire/publisher.h"

enum { RUNS_MAX = 64 };

static int64_t now_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void add_tensor(struct schema *schema, const char *name, enum role role, enum stage stage) {
    struct schema_tensor tensor = {.role = role, .stage = stage, .dims = 2, .shape = {64, 64}};
    snprintf(tensor.name, sizeof tensor.name, "%s", name);
    schema_add_tensor(schema, &tensor);
}

static void describe(struct hello *hello, int number) {
    static const char *const layer[] = {"conv1", "conv2", "fc1", "fc2"};
    hello_init(hello);
    snprintf(hello->run_id, sizeof hello->run_id, "load-%d-%d", number, (int)getpid());
    snprintf(hello->name, sizeof hello->name, "load-%d", number);
    snprintf(hello->host, sizeof hello->host, "localhost");
    snprintf(hello->program, sizeof hello->program, "bench_load");
    hello->pid = getpid();
    hello->started_ns = now_ns(CLOCK_REALTIME);
    for (int metric = METRIC_LOSS; metric <= METRIC_STEP_MS; metric++) {
        schema_add_metric(&hello->schema, hello->schema.metric[metric]);
    }
    add_tensor(&hello->schema, "input", ROLE_INPUT, STAGE_INPUT);
    for (int i = 0; i < 3; i++)
        add_tensor(&hello->schema, layer[i], ROLE_ACTIVATION, STAGE_FORWARD);
    add_tensor(&hello->schema, "logits", ROLE_LOGITS, STAGE_FORWARD);
    add_tensor(&hello->schema, "loss", ROLE_LOSS, STAGE_LOSS);
    add_tensor(&hello->schema, "logits", ROLE_GRADIENT, STAGE_BACKWARD);
    static const enum role role[] = {ROLE_GRADIENT, ROLE_MOMENTUM_BUFFER, ROLE_PARAMETER};
    for (int i = 0; i < 24; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s.%s", layer[i % 8 / 2], i % 2 ? "bias" : "weight");
        add_tensor(&hello->schema, name, role[i / 8], i < 8 ? STAGE_BACKWARD : STAGE_STEP);
    }
    schema_seal(&hello->schema);
}

static double noise(uint64_t *state) { /* 0..1, xorshift */
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (double)(*state >> 11) / 9007199254740992.0;
}

static void fill(struct record *record, int64_t step, uint64_t *random) {
    record->step = step;
    record->epoch = (int32_t)(step / 1000 + 1);
    record->phase = 1;
    record->batch = (int32_t)(step % 1000 + 1);
    record->wall_ns = now_ns(CLOCK_REALTIME);
    record->mono_ns = now_ns(CLOCK_MONOTONIC);
    for (int metric = METRIC_LOSS; metric <= METRIC_STEP_MS; metric++) {
        record_set(record, metric, 0.1 + noise(random) / (1 + (double)step / 1e4));
    }
    record->hashed = true;
    record->input_hash = *random;
    record->label_hash = ~*random;
    record->classes = 10;
    for (int i = 0; i < 10; i++) record->label_count[i] = 6;
    for (int i = 0; i < record->tensors; i++) {
        double max = 1 + noise(random);
        record->tensor[i] = (struct tensor_stat){
            .count = 4096, .sum_sq = 4096 * max / 3, .max_abs = max, .usual = 1.5, .bad_index = -1};
    }
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    int runs = atoi(argv[1]);
    double rate = atof(argv[2]);
    int64_t steps = atoll(argv[3]);
    struct publisher *publisher[RUNS_MAX] = {NULL};
    struct hello hello;
    if (runs < 1 || runs > RUNS_MAX || !(rate > 0)) return 2;
    for (int i = 0; i < runs; i++) {
        struct error error = {""};
        describe(&hello, i);
        struct publisher_options options = {.hello = &hello, .bind = argc > 4 ? argv[4] : NULL};
        if (publisher_open(&publisher[i], &options, &error) < 0) {
            fprintf(stderr, "bench_load: %s\n", error.text);
            return 2;
        }
        printf("%s\n", publisher_address(publisher[i]));
        hello_free(&hello);
    }
    fflush(stdout);
    int64_t start = now_ns(CLOCK_MONOTONIC);
    uint64_t random = 88172645463325252U;
    for (int64_t step = 0; step < steps; step++) {
        for (int i = 0; i < runs; i++) {
            struct record *record = publisher_begin(publisher[i]);
            if (!record) continue;
            fill(record, step, &random);
            publisher_submit(publisher[i]);
        }
        int64_t due = start + (int64_t)((double)(step + 1) * 1e9 / rate);
        int64_t ahead = due - now_ns(CLOCK_MONOTONIC);
        if (ahead > 0) usleep((useconds_t)(ahead / 1000));
    }
    printf("published\n");
    fflush(stdout);
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0) {}
    for (int i = 0; i < runs; i++) publisher_close(publisher[i]);
    return 0;
}
