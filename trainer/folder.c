#include "trainer/folder.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "shared/core/text.h"

enum { SUFFIX_MAX = 9999 };

/* Every folder on the way; one that exists is fine, and what cannot be made shows at the last one.
 */
static void make_parents(const char *runs) {
    char path[FOLDER_PATH_SIZE];
    if (strlen(runs) >= sizeof path) return; /* which is said later */
    text_copy(path, sizeof path, runs);
    for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        mkdir(path, 0777);
        *at = '/';
    }
    mkdir(path, 0777);
}

int folder_make(struct folder *folder, const char *runs, const char *name, bool suffix,
                struct error *error) {
    struct folder made;
    make_parents(runs);
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
