#include "trainer/folder.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "shared/core/text.h"

enum { SUFFIX_MAX = 9999 };

static bool make_one(const char *path) { return mkdir(path, 0777) == 0 || errno == EEXIST; }

/* Every folder on the way; -1 with errno. One that is too long is said later. */
static int make_parents(const char *runs) {
    char path[FOLDER_PATH_SIZE];
    if (strlen(runs) >= sizeof path) return 0;
    text_copy(path, sizeof path, runs);
    for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        if (!make_one(path)) return -1;
        *at = '/';
    }
    return make_one(path) ? 0 : -1;
}

int folder_make(struct folder *folder, const char *runs, const char *name, bool suffix,
                struct error *error) {
    struct folder made;
    if (make_parents(runs) < 0)
        return error_set(error, "making the folder of runs %s: %s", runs, strerror(errno));
    for (int number = 1; number <= (suffix ? SUFFIX_MAX : 1); number++) {
        if (number == 1)
            text_copy(made.name, sizeof made.name, name);
        else
            snprintf(made.name, sizeof made.name, "%.50s-%d", name, number);
        int size = snprintf(made.path, sizeof made.path, "%s/%s", runs, made.name);
        if (size >= (int)sizeof made.path)
            return error_set(error, "making the run's folder in %s: the path is too long", runs);
        if (mkdir(made.path, 0777) == 0) {
            *folder = made;
            return 0;
        }
        if (errno != EEXIST) break;
    }
    return error_set(error, "making the run's folder %s: %s", made.path, strerror(errno));
}
