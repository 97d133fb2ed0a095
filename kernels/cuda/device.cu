// The device: opening, memory and copies. Everything runs on one stream of its own.
#include "cuda.cuh"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The driver's version as NVML tells it, "580.159.04"; else the CUDA version that the driver supports.
static void driver_version(char *text, size_t size)
{
    int version = 0;
    cudaDriverGetVersion(&version);
    snprintf(text, size, "CUDA %d.%d", version / 1000, version % 1000 / 10);

    void *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (nvml == NULL)
        return;
    int (*init)(void) = (int (*)(void))dlsym(nvml, "nvmlInit_v2");
    int (*get)(char *, unsigned) = (int (*)(char *, unsigned))dlsym(nvml, "nvmlSystemGetDriverVersion");
    int (*shutdown)(void) = (int (*)(void))dlsym(nvml, "nvmlShutdown");
    char read[80] = "";
    if (init != NULL && get != NULL && shutdown != NULL && init() == 0) {
        if (get(read, sizeof read) == 0 && read[0] != '\0')
            snprintf(text, size, "%.63s", read);
        shutdown();
    }
    dlclose(nvml);
}

// Loads every kernel of ours, so that no code takes device memory after open.
static cudaError_t prepare_kernels(void)
{
    cudaError_t (*const all[])(void) = {
        prepare_attention_decode,
        prepare_attention_f32,
        prepare_attention_prefill,
        prepare_cache,
        prepare_differential,
        prepare_elementwise,
        prepare_fill,
        prepare_linear,
        prepare_mamba,
        prepare_norm,
        prepare_rope,
        prepare_ceilings,
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        const cudaError_t status = all[i]();
        if (status != cudaSuccess)
            return status;
    }
    return cudaSuccess;
}

static enum kva_status open_blas(struct kva_device *device, struct kva_error *error)
{
    const cublasMath_t math = (cublasMath_t)(CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
    const char *call = "cublasCreate";
    cublasStatus_t status = cublasCreate(&device->blas);
    if (status != CUBLAS_STATUS_SUCCESS)
        device->blas = NULL;
    else {
        call = "cublasSetStream";
        status = cublasSetStream(device->blas, device->stream);
    }
    if (status == CUBLAS_STATUS_SUCCESS) {
        call = "cublasSetMathMode";
        status = cublasSetMathMode(device->blas, math);
    }
    if (status != CUBLAS_STATUS_SUCCESS)
        return kva_fail(error, KVA_MACHINE, NULL, "open", "%s: %s", call, cublasGetStatusString(status));
    return warm_up_linear(device, error);
}

static enum kva_status open_device(struct kva_device *device, struct kva_error *error)
{
    struct cudaDeviceProp properties;
    CHECK_CUDA(error, "open", cudaGetDevice(&device->ordinal));
    CHECK_CUDA(error, "open", cudaGetDeviceProperties(&properties, device->ordinal));
    CHECK_CUDA(error, "open", cudaFree(NULL));  // creates the context
    CHECK_CUDA(error, "open", cudaStreamCreateWithFlags(&device->stream, cudaStreamNonBlocking));
    CHECK_CUDA(error, "open", prepare_kernels());
    device->multiprocessors = (uint32_t)properties.multiProcessorCount;
    device->overlap = properties.major >= 9 && getenv("KVATLAS_NO_OVERLAP") == NULL;

    const enum kva_status status = open_blas(device, error);
    if (status != KVA_OK)
        return status;

    struct kva_device_info *info = &device->info;
    snprintf(info->backend, sizeof info->backend, "cuda");
    snprintf(info->name, sizeof info->name, "%.127s", properties.name);
    driver_version(info->driver, sizeof info->driver);
    info->page_bytes = KVA_CUDA_PAGE;
    info->compute_major = (uint32_t)properties.major;
    info->compute_minor = (uint32_t)properties.minor;
    info->multiprocessors = device->multiprocessors;
    size_t free_bytes, total_bytes;
    CHECK_CUDA(error, "open", cudaStreamSynchronize(device->stream));
    CHECK_CUDA(error, "open", cudaMemGetInfo(&free_bytes, &total_bytes));
    info->total_bytes = total_bytes;
    info->free_bytes = free_bytes;
    info->context_bytes = total_bytes - free_bytes;
    return KVA_OK;
}

enum kva_status cuda_open(enum kva_dtype act, struct kva_device **opened, struct kva_error *error)
{
    *opened = NULL;
    if (act != KVA_F32 && act != KVA_BF16)
        return kva_fail(error, KVA_BAD_INPUT, NULL, "dtype", "the cuda backend runs in f32 or bf16");
    // Ours before the first CUDA call: code is loaded when it is touched, so cuBLAS' hundreds of MiB stay out. A
    // person's own setting wins.
    setenv("CUDA_MODULE_LOADING", "LAZY", 0);

    struct kva_device *device = (struct kva_device *)calloc(1, sizeof *device);
    if (device == NULL)
        return kva_fail_memory(error, sizeof *device);
    device->act = act;
    device->open_event = SIZE_MAX;
    const enum kva_status status = open_device(device, error);
    if (status != KVA_OK) {
        cuda_close(device);
        return status;
    }
    *opened = device;
    return KVA_OK;
}

void cuda_close(struct kva_device *device)
{
    if (device == NULL)
        return;
    if (device->stream != NULL)
        cudaStreamSynchronize(device->stream);
    release_stages(device);
    if (device->blas != NULL)
        cublasDestroy(device->blas);
    if (device->stream != NULL)
        cudaStreamDestroy(device->stream);
    cudaGetLastError();
    free(device);
}

void cuda_info(struct kva_device *device, struct kva_device_info *info)
{
    *info = device->info;
}

// ---------------------------------------------------------------- memory

// Whole pages go to the driver as they are, so that what it gives is what was predicted.
enum kva_status cuda_alloc(struct kva_device *device, uint64_t bytes, void **memory, struct kva_error *error)
{
    *memory = NULL;
    if (bytes == 0)
        return KVA_OK;
    cudaError_t status = cudaErrorMemoryAllocation;
    if (bytes <= UINT64_MAX - KVA_CUDA_PAGE) {
        status = cudaMalloc(memory, divide_up(bytes, KVA_CUDA_PAGE) * KVA_CUDA_PAGE);
        if (status == cudaSuccess)
            return KVA_OK;
    }
    *memory = NULL;
    cudaGetLastError();
    if (status != cudaErrorMemoryAllocation)
        return kva_fail(error, KVA_MACHINE, NULL, "cudaMalloc", "%llu bytes: %s", (u64)bytes,
                        cudaGetErrorString(status));
    return kva_fail(error, KVA_MACHINE, NULL, "cudaMalloc",
                    "out of device memory: %llu bytes were asked for, %llu are free", (u64)bytes,
                    (u64)cuda_available(device));
}

void cuda_free(struct kva_device *device, void *memory, uint64_t bytes)
{
    (void)bytes;
    if (memory == NULL)
        return;
    cudaStreamSynchronize(device->stream);
    cudaFree(memory);
    cudaGetLastError();
}

uint64_t cuda_used(struct kva_device *device)
{
    (void)device;
    size_t free_bytes = 0, total_bytes = 0;
    return cudaMemGetInfo(&free_bytes, &total_bytes) == cudaSuccess ? total_bytes - free_bytes : 0;
}

uint64_t cuda_available(struct kva_device *device)
{
    (void)device;
    size_t free_bytes = 0, total_bytes = 0;
    return cudaMemGetInfo(&free_bytes, &total_bytes) == cudaSuccess ? free_bytes : 0;
}

// Without a workspace cuBLAS gets none at all, instead of one that it allocates for itself.
void cuda_set_workspace(struct kva_device *device, void *memory, uint64_t bytes)
{
    if (cublasSetWorkspace(device->blas, memory, memory != NULL ? bytes : 0) != CUBLAS_STATUS_SUCCESS)
        cublasSetStream(device->blas, device->stream);  // back to its own, rather than to memory that is gone
}

// ---------------------------------------------------------------- copies

// `from` may be reused on return: the driver stages pageable memory before it returns.
enum kva_status cuda_upload(struct kva_device *device, void *to, const void *from, uint64_t bytes,
                            struct kva_error *error)
{
    CHECK_CUDA(error, "upload", cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, device->stream));
    return KVA_OK;
}

enum kva_status cuda_download(struct kva_device *device, void *to, const void *from, uint64_t bytes,
                              struct kva_error *error)
{
    CHECK_CUDA(error, "download", cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, device->stream));
    CHECK_CUDA(error, "download", cudaStreamSynchronize(device->stream));
    return KVA_OK;
}

enum kva_status cuda_clear(struct kva_device *device, void *memory, uint64_t bytes, struct kva_error *error)
{
    CHECK_CUDA(error, "clear", cudaMemsetAsync(memory, 0, bytes, device->stream));
    return KVA_OK;
}

enum kva_status cuda_sync(struct kva_device *device, struct kva_error *error)
{
    CHECK_CUDA(error, "sync", cudaStreamSynchronize(device->stream));
    return KVA_OK;
}
