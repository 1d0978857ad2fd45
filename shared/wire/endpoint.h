/* Where a run can be reached: addresses, the folder of this user's live runs, and the lock that is
 * a run's liveness. */
#ifndef WIRE_ENDPOINT_H
#define WIRE_ENDPOINT_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/core/error.h"
#include "shared/core/record.h"

enum { ENDPOINT_SIZE = 256, ENDPOINT_RUNS_MAX = 256 };

struct endpoint {
    char history[ENDPOINT_SIZE]; /* ROUTER: "ipc://X.ctl" or "tcp://host:base" */
    char live[ENDPOINT_SIZE];    /* PUB: "ipc://X.live" or "tcp://host:base+1" */
};

/* "tcp://host:port", "host:port" (base port) or "ipc://X" (without .ctl) into a pair. -1: not an
 * address. */
int endpoint_parse(struct endpoint *endpoint, const char *text, struct error *error);
/* True when a server may bind here without CURVE and without --insecure: ipc, or tcp on 127.0.0.0/8
 * and ::1. */
bool endpoint_is_local(const struct endpoint *endpoint);

/* The folder of this user's live runs, /tmp/nantop-UID unless NANTOP_RUNTIME_DIR names another:
 * made with 0700; -1 when it is there and not ours, or open to others. */
int endpoint_folder(char *path, size_t size, struct error *error);

struct endpoint_lock; /* an flock'ed RUNID.lock: held while the run lives */
/* Takes RUNID.lock and, under it, removes stale sockets of that id. -1: somebody holds it, or the
 * path gets too long. */
int endpoint_claim(struct endpoint_lock **out, struct endpoint *endpoint, const char *run_id,
                   struct error *error);
/* Removes sockets and lock. NULL is legal. */
void endpoint_release(struct endpoint_lock *lock);
/* True while a process holds the lock of this run id on this machine. */
bool endpoint_alive(const char *run_id);

/* Run ids whose lock is held now; files of dead runs are removed under their lock. Returns the
 * count, -1 on error. */
int endpoint_list(char ids[][RECORD_ID_SIZE], int max, struct error *error);
/* The ipc pair of a run id in the folder. */
int endpoint_of_run(struct endpoint *endpoint, const char *run_id, struct error *error);

#endif
