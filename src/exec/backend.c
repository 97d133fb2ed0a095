#include "exec/backend.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/error.h"
#include "base/module.h"

// The CUDA module is opened only where a driver is: its libraries would stay mapped without one.
static enum kva_status check_driver(struct kva_error *error)
{
    const char *modules = getenv("KVATLAS_MODULES");
    if (modules != NULL && modules[0] != '\0')  // a module of one's own choice, an emulation perhaps
        return KVA_OK;
    if (dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) == NULL)
        return kva_fail(error, KVA_MACHINE, NULL, "--backend", "no CUDA driver (libcuda.so.1) is on this machine");
    return KVA_OK;
}

// A BLAS library takes buffers for each thread when it is loaded, and OpenBLAS tries for ever where it cannot have
// them.
static enum kva_status check_address_space(struct kva_error *error)
{
    enum { BASE_BYTES = 192 << 20, THREAD_BYTES = 96 << 20 };
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return KVA_OK;
    const size_t bytes = BASE_BYTES + (size_t)sysconf(_SC_NPROCESSORS_ONLN) * THREAD_BYTES;
    void *probe = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (probe == MAP_FAILED)
        return kva_fail(
            error, KVA_MACHINE, NULL, "--backend",
            "the address space is limited to %llu bytes (ulimit -v): loading the BLAS library needs %zu more",
            (unsigned long long)limit.rlim_cur, bytes);
    munmap(probe, bytes);
    return KVA_OK;
}

static enum kva_status open_module(const char *backend, enum kva_dtype act, const struct kva_kernels **kernels,
                                   struct kva_device **device, struct kva_error *error)
{
    char path[PATH_MAX], folder[32];
    void *found;
    snprintf(folder, sizeof folder, "kernels/%s", backend);
    enum kva_status status = strcmp(backend, "cuda") == 0 ? check_driver(error) : check_address_space(error);
    if (status != KVA_OK)
        return status;
    status = kva_module_open(backend, folder, KVA_KERNELS_SYMBOL, "--backend",
                             strcmp(backend, "cuda") == 0 ? " (it is built where nvcc is)" : "", &found, path,
                             sizeof path, error);
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
    if (name != NULL)
        return open_module(name, act, kernels, device, error);
    if (open_module("cuda", act, kernels, device, NULL) == KVA_OK)
        return KVA_OK;
    return open_module("cpu", act, kernels, device, error);
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
