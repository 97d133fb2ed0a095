#include "exec/backend.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/module.h"

static enum kva_status open_module(const char *backend, enum kva_dtype act, const struct kva_kernels **kernels,
                                   struct kva_device **device, struct kva_error *error)
{
    char path[PATH_MAX], folder[32];
    void *found;
    snprintf(folder, sizeof folder, "kernels/%s", backend);
    enum kva_status status = kva_module_open(backend, folder, KVA_KERNELS_SYMBOL, "--backend",
                                             strcmp(backend, "cuda") == 0 ? " (it is built where nvcc is)" : "", &found,
                                             path, sizeof path, error);
    if (status != KVA_OK)
        return status;
    kva_kernels_entry entry;
    *(void **)&entry = found;
    *kernels = entry();
    if ((*kernels)->abi != KVA_KERNELS_ABI)
        return kva_fail(error, KVA_MACHINE, path, NULL,
                        "has kernel interface %u, this program needs %d: build both anew", (*kernels)->abi,
                        KVA_KERNELS_ABI);
    return (*kernels)->open(act, device, error);
}

enum kva_status kva_backend_open(const char *name, enum kva_dtype act, const struct kva_kernels **kernels,
                                 struct kva_device **device, struct kva_error *error)
{
    *device = NULL;
    if (name != NULL && strcmp(name, "cpu") != 0 && strcmp(name, "cuda") != 0)
        return kva_fail(error, KVA_BAD_INPUT, NULL, "--backend", "\"%s\" is not a backend: cpu or cuda", name);
    enum kva_status status = open_module(name != NULL ? name : "cuda", act, kernels, device, error);
    if (status != KVA_OK && name == NULL)
        status = open_module("cpu", act, kernels, device, error);
    return status;
}

void kva_backend_close(const struct kva_kernels *kernels, struct kva_device *device)
{
    if (device != NULL)
        kernels->close(device);
}

bool kva_backend_answers(const char *backend)
{
    const struct kva_kernels *kernels;
    struct kva_device *device;
    if (kva_backend_open(backend, KVA_F32, &kernels, &device, NULL) != KVA_OK)
        return false;
    kva_backend_close(kernels, device);
    return true;
}
