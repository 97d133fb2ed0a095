#include "exec/backend.h"

#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"

// Writes the first place where the module of a backend is; false: nowhere.
static bool find_module(const char *backend, char *path, size_t size)
{
    const char *named = getenv("KVATLAS_MODULES");
    if (named != NULL && named[0] != '\0') {
        snprintf(path, size, "%s/kvatlas-%s.so", named, backend);
        return kva_is_file(path);
    }
    char program[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length > 0) {
        program[length] = '\0';
        const char *folder = dirname(program);
        static const struct {
            const char *folder;
            bool by_backend;  // each backend in a folder of its name
        } PLACES[] = {
            {"", false},                 // beside the program
            {"/../lib/kvatlas", false},  // an installation that was moved
            {"/../../kernels/", true},
            {"/../kernels/", true},  // the build tree, from src/cli and from tests
            {"/../../../kernels/", true},
        };
        for (size_t i = 0; i < sizeof PLACES / sizeof *PLACES; i++) {
            snprintf(path, size, "%s%s%s/kvatlas-%s.so", folder, PLACES[i].folder, PLACES[i].by_backend ? backend : "",
                     backend);
            if (kva_is_file(path))
                return true;
        }
    }
    snprintf(path, size, "%s/kvatlas-%s.so", KVA_MODULE_DIR, backend);
    return kva_is_file(path);
}

static enum kva_status open_module(const char *backend, enum kva_dtype act, const struct kva_kernels **kernels,
                                   struct kva_device **device, void **module, struct kva_error *error)
{
    char path[PATH_MAX];
    if (!find_module(backend, path, sizeof path))
        return kva_fail(
            error, KVA_MACHINE, NULL, "--backend",
            "kvatlas-%s.so was not found beside the program or in %s%s; KVATLAS_MODULES may name its folder", backend,
            KVA_MODULE_DIR, strcmp(backend, "cuda") == 0 ? " (it is built where nvcc is)" : "");
    *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (*module == NULL)
        return kva_fail(error, KVA_MACHINE, path, NULL, "cannot be loaded: %s", dlerror());
    kva_kernels_entry entry;
    *(void **)&entry = dlsym(*module, KVA_KERNELS_SYMBOL);
    if (entry == NULL)
        return kva_fail(error, KVA_MACHINE, path, NULL, "is not a kvatlas kernel module");
    *kernels = entry();
    if ((*kernels)->abi != KVA_KERNELS_ABI)
        return kva_fail(error, KVA_MACHINE, path, NULL,
                        "has kernel interface %u, this program needs %d: build both anew", (*kernels)->abi,
                        KVA_KERNELS_ABI);
    return (*kernels)->open(act, device, error);
}

enum kva_status kva_backend_open(const char *name, enum kva_dtype act, const struct kva_kernels **kernels,
                                 struct kva_device **device, void **module, struct kva_error *error)
{
    *device = NULL;
    *module = NULL;
    if (name != NULL && strcmp(name, "cpu") != 0 && strcmp(name, "cuda") != 0)
        return kva_fail(error, KVA_BAD_INPUT, NULL, "--backend", "\"%s\" is not a backend: cpu or cuda", name);
    enum kva_status status = open_module(name != NULL ? name : "cuda", act, kernels, device, module, error);
    if (status != KVA_OK && name == NULL)
        status = open_module("cpu", act, kernels, device, module, error);
    return status;
}

void kva_backend_close(const struct kva_kernels *kernels, struct kva_device *device, void *module)
{
    if (device != NULL)
        kernels->close(device);
    // the module stays loaded: a CUDA runtime or a BLAS library that is unloaded and loaded again loses its threads
    (void)module;
}

bool kva_backend_answers(const char *backend)
{
    const struct kva_kernels *kernels;
    struct kva_device *device;
    void *module;
    if (kva_backend_open(backend, KVA_F32, &kernels, &device, &module, NULL) != KVA_OK)
        return false;
    kva_backend_close(kernels, device, module);
    return true;
}
