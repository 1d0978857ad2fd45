#include "shared/wire/endpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "shared/core/text.h"

/* A reader that asks whether a run lives holds its lock for an instant: not the time to give up. */
enum { CLAIM_TRIES = 50, CLAIM_WAIT_MS = 4 };

#define PATH_ROOM (sizeof((struct sockaddr_un *)0)->sun_path)

struct endpoint_lock {
    int fd;
    char base[ENDPOINT_SIZE]; /* path without .lock, .ctl, .live */
};

static int parse_ipc(struct endpoint *endpoint, const char *path, struct error *error) {
    if (path[0] == '\0' || strlen(path) + sizeof ".live" > PATH_ROOM) {
        return error_set(error, "address ipc://%s: a socket's path has 1 to %zu bytes", path,
                         PATH_ROOM - sizeof ".live");
    }
    snprintf(endpoint->history, sizeof endpoint->history, "ipc://%s.ctl", path);
    snprintf(endpoint->live, sizeof endpoint->live, "ipc://%s.live", path);
    return 0;
}

static int parse_tcp(struct endpoint *endpoint, const char *text, struct error *error) {
    const char *colon = strrchr(text, ':');
    size_t host = colon ? (size_t)(colon - text) : 0;
    char *end = NULL;
    long port = colon && colon[1] >= '0' && colon[1] <= '9' ? strtol(colon + 1, &end, 10) : 0;
    if (host == 0 || !end || *end != '\0' || host > 200 ||
        strcspn(text, "/ \t\n;,@") < strlen(text)) {
        return error_set(error, "%s is no address: tcp://HOST:PORT, HOST:PORT or ipc://PATH", text);
    }
    if (port < 1 || port > 65534) {
        return error_set(error, "address %s: the port is 1 to 65534 (the next one is used, too)",
                         text);
    }
    if (host == 9 && strncmp(text, "localhost", host) == 0) {
        text = "127.0.0.1"; /* ZeroMQ binds to numbers only */
    }
    snprintf(endpoint->history, sizeof endpoint->history, "tcp://%.*s:%ld", (int)host, text, port);
    snprintf(endpoint->live, sizeof endpoint->live, "tcp://%.*s:%ld", (int)host, text, port + 1);
    return 0;
}

int endpoint_parse(struct endpoint *endpoint, const char *text, struct error *error) {
    if (strncmp(text, "ipc://", 6) == 0) return parse_ipc(endpoint, text + 6, error);
    return parse_tcp(endpoint, strncmp(text, "tcp://", 6) == 0 ? text + 6 : text, error);
}

bool endpoint_is_local(const struct endpoint *endpoint) {
    const char *address = endpoint->history;
    if (strncmp(address, "ipc://", 6) == 0 || strncmp(address, "tcp://[::1]:", 12) == 0)
        return true;
    int a, b, c, d, port, used = 0;
    return sscanf(address, "tcp://%3d.%3d.%3d.%3d:%5d%n", &a, &b, &c, &d, &port, &used) == 5 &&
           address[used] == '\0' && a == 127;
}

int endpoint_folder(char *path, size_t size, struct error *error) {
    char folder[ENDPOINT_SIZE];
    const char *named = getenv("NANTOP_RUNTIME_DIR");
    if (!named || !named[0]) {
        snprintf(folder, sizeof folder, "/tmp/nantop-%u", (unsigned)geteuid());
        named = folder;
    }
    if (strlen(named) >= size) {
        return error_set(error, "folder of live runs %s: the name is longer than %zu bytes", named,
                         size - 1);
    }
    struct stat is;
    if (mkdir(named, 0700) < 0 && errno != EEXIST) {
        return error_set(error, "make the folder of live runs %s: %s", named, strerror(errno));
    }
    if (lstat(named, &is) < 0) {
        return error_set(error, "folder of live runs %s: %s", named, strerror(errno));
    }
    if (!S_ISDIR(is.st_mode) || is.st_uid != geteuid() || (is.st_mode & 077) != 0) {
        return error_set(
            error,
            "folder of live runs %s: it must be a folder of this user's that nobody else "
            "can open (chmod 700), or NANTOP_RUNTIME_DIR another one",
            named);
    }
    snprintf(path, size, "%s", named);
    return 0;
}

/* "FOLDER/RUNID" */
static int base_of_run(char base[ENDPOINT_SIZE], const char *run_id, struct error *error) {
    char folder[ENDPOINT_SIZE];
    if (!record_id_valid(run_id)) {
        return error_set(error, "%s is no run id: letters, digits, '.', '_' and '-', 63 at most",
                         run_id);
    }
    if (endpoint_folder(folder, sizeof folder, error) < 0) return -1;
    if (snprintf(base, ENDPOINT_SIZE, "%s/%s", folder, run_id) >= ENDPOINT_SIZE) {
        return error_set(error, "run %s in %s: the path is too long", run_id, folder);
    }
    return 0;
}

int endpoint_of_run(struct endpoint *endpoint, const char *run_id, struct error *error) {
    char base[ENDPOINT_SIZE];
    if (base_of_run(base, run_id, error) < 0) return -1;
    return parse_ipc(endpoint, base, error);
}

static const char *with_suffix(char path[ENDPOINT_SIZE + 8], const char *base, const char *suffix) {
    snprintf(path, ENDPOINT_SIZE + 8, "%s%s", base, suffix);
    return path;
}

static void remove_files(const char *base) {
    char path[ENDPOINT_SIZE + 8];
    unlink(with_suffix(path, base, ".ctl"));
    unlink(with_suffix(path, base, ".live"));
}

/* The lock is the file of this name: one that was removed or replaced before it could be locked is
 * none. */
static bool is_named(int fd, const char *path) {
    struct stat opened, named;
    return fstat(fd, &opened) == 0 && stat(path, &named) == 0 && opened.st_ino == named.st_ino;
}

/* -1 with EWOULDBLOCK when somebody holds it, ESTALE when it was replaced meanwhile. */
static int take_lock(const char *path) {
    int fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return -1;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
        if (is_named(fd, path)) return fd;
        errno = ESTALE;
    }
    int why = errno;
    close(fd);
    errno = why;
    return -1;
}

int endpoint_claim(struct endpoint_lock **out, struct endpoint *endpoint, const char *run_id,
                   struct error *error) {
    struct endpoint found;
    char base[ENDPOINT_SIZE], path[ENDPOINT_SIZE + 8];
    if (base_of_run(base, run_id, error) < 0 || parse_ipc(&found, base, error) < 0) return -1;
    with_suffix(path, base, ".lock");
    int fd = -1;
    for (int i = 0; i < CLAIM_TRIES; i++) {
        fd = take_lock(path);
        if (fd >= 0 || (errno != EWOULDBLOCK && errno != ESTALE)) break;
        nanosleep(&(struct timespec){.tv_nsec = CLAIM_WAIT_MS * 1000000L}, NULL);
    }
    if (fd < 0) {
        const char *why = errno == EWOULDBLOCK ? "a run of this name is alive" : strerror(errno);
        return error_set(error, "lock %s: %s", path, why);
    }
    struct endpoint_lock *lock = malloc(sizeof *lock);
    if (!lock) {
        close(fd);
        return error_set(error, "lock %s: no memory", path);
    }
    lock->fd = fd;
    snprintf(lock->base, sizeof lock->base, "%s", base);
    remove_files(base);
    *endpoint = found;
    *out = lock;
    return 0;
}

void endpoint_release(struct endpoint_lock *lock) {
    if (!lock) return;
    char path[ENDPOINT_SIZE + 8];
    remove_files(lock->base);
    unlink(with_suffix(path, lock->base, ".lock"));
    close(lock->fd);
    free(lock);
}

/* A shared lock asks without being in the way of others who ask. The dead leave their lock to be
 * taken: then `clean` removes what they left. */
static bool lives(const char *base, bool clean) {
    char path[ENDPOINT_SIZE + 8];
    int fd = open(with_suffix(path, base, ".lock"), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return false;
    bool held = flock(fd, LOCK_SH | LOCK_NB) < 0;
    if (!held && clean && flock(fd, LOCK_EX | LOCK_NB) == 0 && is_named(fd, path)) {
        remove_files(base);
        unlink(path);
    }
    close(fd);
    return held;
}

bool endpoint_alive(const char *run_id) {
    char base[ENDPOINT_SIZE];
    return base_of_run(base, run_id, NULL) == 0 && lives(base, false);
}

static int compare_ids(const void *a, const void *b) { return strcmp(a, b); }

int endpoint_list(char ids[][RECORD_ID_SIZE], int max, struct error *error) {
    char folder[ENDPOINT_SIZE], base[ENDPOINT_SIZE];
    if (endpoint_folder(folder, sizeof folder, error) < 0) return -1;
    DIR *dir = opendir(folder);
    if (!dir)
        return error_set(error, "read the folder of live runs %s: %s", folder, strerror(errno));
    int count = 0;
    for (struct dirent *entry; count < max && (entry = readdir(dir));) {
        char *suffix = strrchr(entry->d_name, '.');
        if (!suffix || strcmp(suffix, ".lock") != 0) continue;
        *suffix = '\0';
        if (base_of_run(base, entry->d_name, NULL) < 0 || !lives(base, true)) continue;
        text_copy(ids[count++], RECORD_ID_SIZE, entry->d_name);
    }
    closedir(dir);
    qsort(ids, (size_t)count, RECORD_ID_SIZE, compare_ids);
    return count;
}
