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

#ifndef KVA_MODULE_DIR
#define KVA_MODULE_DIR "/usr/local/lib/kvatlas"
#endif
static const char MODULE[] = "kvatlas-cuda.so";

// Writes the first place where the module is; false: nowhere.
static bool find_module(char *path, size_t size)
{
    const char *named = getenv("KVATLAS_CUDA");
    if (named != NULL && named[0] != '\0') {
        snprintf(path, size, "%s", named);
        return true;
    }
    char program[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length > 0) {
        program[length] = '\0';
        const char *folder = dirname(program);
        static const char *const BESIDE[] = {"", "../kernels/cuda/", "../../kernels/cuda/", "../lib/kvatlas/"};
        for (size_t i = 0; i < sizeof BESIDE / sizeof *BESIDE; i++) {
            snprintf(path, size, "%s/%s%s", folder, BESIDE[i], MODULE);
            if (kva_is_file(path))
                return true;
        }
    }
    snprintf(path, size, "%s/%s", KVA_MODULE_DIR, MODULE);
    return kva_is_file(path);
}

static enum kva_status open_cuda(enum kva_dtype act, const struct kva_kernels **kernels, struct kva_device **device,
                                 void **module, struct kva_error *error)
{
    char path[PATH_MAX];
    if (!find_module(path, sizeof path))
        return kva_fail(error, KVA_MACHINE, NULL, "--backend cuda",
                        "%s was not found beside the program or in %s: build it with nvcc (meson option cuda), or name "
                        "it in KVATLAS_CUDA",
                        MODULE, KVA_MODULE_DIR);
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
    if (name == NULL || strcmp(name, "cuda") == 0) {
        const enum kva_status status = open_cuda(act, kernels, device, module, error);
        if (status == KVA_OK)
            return KVA_OK;
        if (*module != NULL)
            dlclose(*module);
        *module = NULL;
        if (name != NULL)
            return status;
    }
    *kernels = kva_kernels_cpu();
    return (*kernels)->open(act, device, error);
}

void kva_backend_close(const struct kva_kernels *kernels, struct kva_device *device, void *module)
{
    if (device != NULL)
        kernels->close(device);
    // the module stays loaded: a CUDA runtime that is unloaded and loaded again loses its context
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
