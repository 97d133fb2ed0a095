// What every file of this room shares: the device, checked calls and launches, element types.
//
// The kernels are written so that they also compile as plain C++ against tests/gpu/emulate, which runs them on the
// host, a thread at a time: launches go through KVA_LAUNCH, dynamic shared memory through KVA_DYNAMIC_SHARED.
#ifndef KVA_KERNELS_CUDA_H
#define KVA_KERNELS_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

extern "C" {
#include "base/error.h"
#include "kernels/kernels.h"
}

typedef __nv_bfloat16 bf16;
typedef unsigned long long u64;  // for %llu

#ifndef KVA_CUDA_PAGE  // the emulation's is small, so that an access beyond a buffer is one beyond its memory
#define KVA_CUDA_PAGE (2ull << 20)
#endif
#define KVA_CUDA_WORKSPACE (32ull << 20)

struct stage_events {
    cudaEvent_t begin, end;
    enum kva_stage stage;
};

struct kva_device {
    enum kva_dtype act;
    int ordinal;
    uint32_t multiprocessors;
    cudaStream_t stream;
    cublasHandle_t blas;
    bool overlap;  // kernels start while the one before them ends
    struct kva_device_info info;

    // --profile: one pair of events for each stage entered since the last reset
    bool profiling;
    struct stage_events *events;
    size_t n_events, allocated_events;  // events[n_events .. allocated_events) are there to be used again
    size_t open_event;                  // of the stage that has begun; SIZE_MAX: none
};

// ---------------------------------------------------------------- checked calls

// KVA_MACHINE, naming the call and, as `key`, the operation. Clears the sticky error where that is possible.
static inline enum kva_status cuda_failed(struct kva_error *error, const char *operation, const char *call,
                                          cudaError_t status)
{
    cudaGetLastError();
    return kva_fail(error, KVA_MACHINE, NULL, operation, "%s: %s", call, cudaGetErrorString(status));
}

#define CHECK_CUDA(error, operation, call)                                                                             \
    do {                                                                                                               \
        const cudaError_t check_status = (call);                                                                       \
        if (check_status != cudaSuccess)                                                                               \
            return cuda_failed(error, operation, #call, check_status);                                                 \
    } while (0)

// After a launch: names the operation and its shape (a printf format and its arguments).
#define CHECK_LAUNCH(error, operation, ...)                                                                            \
    do {                                                                                                               \
        const cudaError_t check_status = cudaGetLastError();                                                           \
        if (check_status != cudaSuccess) {                                                                             \
            char check_shape[160];                                                                                     \
            snprintf(check_shape, sizeof check_shape, __VA_ARGS__);                                                    \
            return kva_fail(error, KVA_MACHINE, NULL, operation, "launch (%s): %s", check_shape,                       \
                            cudaGetErrorString(check_status));                                                         \
        }                                                                                                              \
    } while (0)

// Kernels that follow each other overlap (programmatic dependent launch): the next one's blocks may start once all
// blocks of this one have, and wait in grid_begin, the first statement of every kernel, until all earlier kernels have
// ended and their writes are seen. That takes the launch latency out of a chain of small kernels. Every thread of every
// block must call it, also one that has nothing to do: a kernel that ends has to mean that all before it have.
__device__ static inline void grid_launch_next(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

__device__ static inline void grid_wait(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ static inline void grid_begin(void)
{
    grid_launch_next();
    grid_wait();
}

#ifndef KVA_LAUNCH
#define KVA_LAUNCH(kernel, grid, block, shared, device, ...) launch(device, kernel, grid, block, shared, __VA_ARGS__)
#define KVA_DYNAMIC_SHARED(name) extern __shared__ __align__(16) unsigned char name[]

// A failure is the last error, which CHECK_LAUNCH looks at.
template <typename... Parameters, typename... Arguments>
static inline void launch(struct kva_device *device, void (*kernel)(Parameters...), dim3 grid, dim3 block,
                          size_t shared, Arguments... arguments)
{
    cudaLaunchAttribute overlap = {};
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared;
    config.stream = device->stream;
    config.attrs = &overlap;
    config.numAttrs = device->overlap ? 1 : 0;
    cudaLaunchKernelEx(&config, kernel, arguments...);
}
#endif

// Loads a kernel now, so that its code does not take device memory later, and raises its shared-memory limit.
template <typename Kernel> static inline cudaError_t prepare(Kernel *kernel, size_t dynamic_shared = 0)
{
    struct cudaFuncAttributes attributes;
    cudaError_t status = cudaFuncGetAttributes(&attributes, (const void *)kernel);
    if (status == cudaSuccess && dynamic_shared > 48 * 1024)
        status = cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      (int)dynamic_shared);
    return status;
}

#define PREPARE(...)                                                                                                   \
    do {                                                                                                               \
        const cudaError_t prepare_status = prepare(__VA_ARGS__);                                                       \
        if (prepare_status != cudaSuccess)                                                                             \
            return prepare_status;                                                                                     \
    } while (0)

// Runs `call` with T as the run's element type.
#define FOR_ACT(device, call)                                                                                          \
    do {                                                                                                               \
        if ((device)->act == KVA_BF16) {                                                                               \
            typedef bf16 T;                                                                                            \
            call;                                                                                                      \
        } else {                                                                                                       \
            typedef float T;                                                                                           \
            call;                                                                                                      \
        }                                                                                                              \
    } while (0)

static inline size_t act_bytes(const struct kva_device *device)
{
    return device->act == KVA_BF16 ? 2 : 4;
}

static inline bool aligned16(const void *p)
{
    return ((uintptr_t)p & 15) == 0;
}

static inline uint64_t divide_up(uint64_t a, uint64_t b)
{
    return (a + b - 1) / b;
}

static inline uint64_t at_most(uint64_t a, uint64_t limit)
{
    return a < limit ? a : limit;
}

#define MAX_GRID_YZ 65535u

// ---------------------------------------------------------------- element types

__device__ static inline float to_float(float x)
{
    return x;
}

__device__ static inline float to_float(bf16 x)
{
    return __bfloat162float(x);
}

template <typename T> __device__ static inline T from_float(float x);

template <> __device__ inline float from_float<float>(float x)
{
    return x;
}

template <> __device__ inline bf16 from_float<bf16>(float x)
{
    return __float2bfloat16_rn(x);
}

// N elements that move as one access of N * sizeof(T) bytes.
template <typename T, int N> struct alignas(sizeof(T) * N) pack {
    T v[N];
};

// ---------------------------------------------------------------- reductions

__device__ static inline float warp_sum(float x)
{
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, offset);
    return x;
}

// The sum over the block, in every thread. `shared` holds one float a warp, at most 32.
__device__ static inline float block_sum(float x, float *shared)
{
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    x = warp_sum(x);
    __syncthreads();  // the last use of `shared` is over
    if (lane == 0)
        shared[warp] = x;
    __syncthreads();
    return warp_sum(lane < warps ? shared[lane] : 0.0f);
}

// ---------------------------------------------------------------- the operations, one file each

cudaError_t prepare_attention_decode(void);
cudaError_t prepare_attention_f32(void);
cudaError_t prepare_attention_prefill(void);
cudaError_t prepare_cache(void);
cudaError_t prepare_differential(void);
cudaError_t prepare_elementwise(void);
cudaError_t prepare_fill(void);
cudaError_t prepare_linear(void);
cudaError_t prepare_mamba(void);
cudaError_t prepare_norm(void);
cudaError_t prepare_rope(void);
cudaError_t prepare_ceilings(void);
// Small products in the run's type, so that cuBLAS loads what it needs.
enum kva_status warm_up_linear(struct kva_device *device, struct kva_error *error);

enum kva_status cuda_open(enum kva_dtype act, struct kva_device **device, struct kva_error *error);
void cuda_close(struct kva_device *device);
void cuda_info(struct kva_device *device, struct kva_device_info *info);
enum kva_status cuda_alloc(struct kva_device *device, uint64_t bytes, void **memory, struct kva_error *error);
void cuda_free(struct kva_device *device, void *memory, uint64_t bytes);
uint64_t cuda_used(struct kva_device *device);
uint64_t cuda_available(struct kva_device *device);
void cuda_set_workspace(struct kva_device *device, void *memory, uint64_t bytes);
enum kva_status cuda_upload(struct kva_device *device, void *to, const void *from, uint64_t bytes,
                            struct kva_error *error);
enum kva_status cuda_download(struct kva_device *device, void *to, const void *from, uint64_t bytes,
                              struct kva_error *error);
enum kva_status cuda_clear(struct kva_device *device, void *memory, uint64_t bytes, struct kva_error *error);
enum kva_status cuda_sync(struct kva_device *device, struct kva_error *error);
void cuda_profile(struct kva_device *device, bool on);
void cuda_stage_begin(struct kva_device *device, enum kva_stage stage);
void cuda_stage_end(struct kva_device *device, enum kva_stage stage);
void cuda_stage_times(struct kva_device *device, double milliseconds[KVA_N_STAGES], uint64_t calls[KVA_N_STAGES]);
void cuda_stage_reset(struct kva_device *device);
void release_stages(struct kva_device *device);
enum kva_status cuda_ceilings(struct kva_device *device, uint64_t side, double *read_rate, double *flop_rate,
                              struct kva_error *error);

enum kva_status cuda_fill(struct kva_device *, const struct kva_fill_args *, struct kva_error *);
enum kva_status cuda_embed(struct kva_device *, const void *table, const uint32_t *tokens, float *out, uint64_t rows,
                           uint64_t width, float scale, struct kva_error *);
enum kva_status cuda_linear(struct kva_device *, const struct kva_linear_args *, struct kva_error *);
enum kva_status cuda_add_bias(struct kva_device *, void *x, const void *bias, uint64_t rows, uint64_t width,
                              uint64_t stride, bool x_f32, struct kva_error *);
enum kva_status cuda_add(struct kva_device *, float *x, const void *y, uint64_t rows, uint64_t width,
                         struct kva_error *);
enum kva_status cuda_norm(struct kva_device *, const struct kva_norm_args *, struct kva_error *);
enum kva_status cuda_head_norm(struct kva_device *, const struct kva_head_norm_args *, struct kva_error *);
enum kva_status cuda_rope(struct kva_device *, const struct kva_rope_args *, struct kva_error *);
enum kva_status cuda_attention(struct kva_device *, const struct kva_attention_args *, struct kva_error *);
enum kva_status cuda_cache_write(struct kva_device *, const struct kva_cache_write_args *, struct kva_error *);
enum kva_status cuda_glu(struct kva_device *, const struct kva_glu_args *, struct kva_error *);
enum kva_status cuda_conv(struct kva_device *, const struct kva_conv_args *, struct kva_error *);
enum kva_status cuda_scan(struct kva_device *, const struct kva_scan_args *, struct kva_error *);
enum kva_status cuda_gate(struct kva_device *, const struct kva_gate_args *, struct kva_error *);
enum kva_status cuda_differential(struct kva_device *, const struct kva_differential_args *, struct kva_error *);
enum kva_status cuda_gather(struct kva_device *, void *to, uint64_t to_stride, const void *from, uint64_t from_stride,
                            const uint32_t *rows_index, uint64_t rows, uint64_t bytes, struct kva_error *);
enum kva_status cuda_softcap(struct kva_device *, float *x, uint64_t elements, float cap, struct kva_error *);
enum kva_status cuda_argmax(struct kva_device *, const float *x, uint64_t rows, uint64_t width, uint32_t *tokens,
                            struct kva_error *);

#endif
