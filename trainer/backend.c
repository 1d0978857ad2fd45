#include "trainer/backend.h"

#include <dlfcn.h>
#include <string.h>

static const struct kernels *load_backend(const char *path, struct error *error) {
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!object) {
        error_set(error, "loading the backend: %s", dlerror());
        return NULL;
    }
    kernels_backend_fn *get = NULL;
    void *symbol = dlsym(object, KERNELS_SYMBOL);
    memcpy(&get, &symbol, sizeof get); /* ISO C has no cast from an object to a function */
    const struct kernels *kernels = get ? get() : NULL;
    if (!kernels)
        error_set(error, "loading the backend %s: it exports no %s", path, KERNELS_SYMBOL);
    else if (kernels->version != KERNELS_VERSION)
        error_set(error, "loading the backend %s: version %d, expected %d", path, kernels->version,
                  KERNELS_VERSION);
    else
        return kernels;
    dlclose(object);
    return NULL;
}

const struct kernels *backend_find(const struct options *options, struct error *error) {
    const struct kernels *kernels =
        options->backend ? load_backend(options->backend, error) : kernels_cpu();
    if (!kernels || options->device != OPTIONS_CUDA || strcmp(kernels->name, "cuda") == 0)
        return kernels;
    if (options->backend)
        error_set(error, "option --device cuda: the backend %s is for %s", options->backend,
                  kernels->name);
    else
        error_set(error,
                  "option --device cuda: no CUDA backend is built in; --backend FILE loads one");
    return NULL;
}
