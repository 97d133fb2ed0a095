// Enough of CUDA to run kernels/cuda on the host, a thread at a time, so that their indexing, their barriers and their
// memory accesses can be tested (with the address sanitizer too) where there is no GPU. Slow, and no model of time.
//
// Every thread of a block is a coroutine that runs until it waits at a barrier or at a warp's exchange; blocks run one
// after another; the order of threads is random, which lets a missing barrier show. A warp's exchange with lanes
// missing, or a barrier that never completes, aborts.
#ifndef KVA_EMULATED_CUDA_RUNTIME_H
#define KVA_EMULATED_CUDA_RUNTIME_H

#include <functional>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define __global__
#define __host__
#define __device__
#define __shared__ static
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))

struct uint2 {
    unsigned x, y;
} __attribute__((aligned(8)));
struct uint4 {
    unsigned x, y, z, w;
} __attribute__((aligned(16)));
struct float2 {
    float x, y;
} __attribute__((aligned(8)));

static inline float2 make_float2(float x, float y)
{
    return float2{x, y};
}

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

// ---------------------------------------------------------------- the machine

struct emulated_place {
    dim3 thread, block, block_dim, grid_dim;
};

extern emulated_place emulated_now;  // of the running thread
extern unsigned char *emulated_dynamic_shared;

#define threadIdx (emulated_now.thread)
#define blockIdx (emulated_now.block)
#define blockDim (emulated_now.block_dim)
#define gridDim (emulated_now.grid_dim)

void emulated_launch(const char *name, dim3 grid, dim3 block, size_t shared, const std::function<void()> &body);
// Gives this lane's bytes (at most 64) to its warp; returns all lanes', `stride` apart, valid until the exchange after
// the next.
const unsigned char *emulated_exchange(const void *mine, size_t bytes, size_t *stride);
void emulated_copy_async(void *to, const void *from, bool in);
void emulated_copy_commit(void);
void emulated_copy_wait(int left);
void __syncthreads(void);

#define KVA_LAUNCH(kernel, grid, block, shared, device, ...)                                                           \
    ((void)(device), emulated_launch(#kernel, dim3(grid), dim3(block), shared, [=]() { kernel(__VA_ARGS__); }))
#define KVA_DYNAMIC_SHARED(name) unsigned char *name = emulated_dynamic_shared

template <typename T> static inline T __shfl_xor_sync(unsigned mask, T value, int offset)
{
    (void)mask;
    size_t stride;
    const unsigned char *all = emulated_exchange(&value, sizeof value, &stride);
    T other;
    memcpy(&other, all + ((threadIdx.x % 32) ^ (unsigned)offset) * stride, sizeof other);
    return other;
}

static inline int __any_sync(unsigned mask, int mine)
{
    (void)mask;
    size_t stride;
    const unsigned char *all = emulated_exchange(&mine, sizeof mine, &stride);
    int any = 0;
    for (int lane = 0; lane < 32; lane++) {
        int value;
        memcpy(&value, all + (size_t)lane * stride, sizeof value);
        any |= value;
    }
    return any != 0;
}

template <typename T> static inline T __ldcs(const T *p)
{
    return *p;
}

static inline float __uint_as_float(unsigned x)
{
    float f;
    memcpy(&f, &x, 4);
    return f;
}

static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector)
{
    const uint64_t both = (uint64_t)b << 32 | a;
    unsigned result = 0;
    for (int i = 0; i < 4; i++)
        result |= (unsigned)(both >> (8 * (selector >> (4 * i) & 7)) & 0xff) << (8 * i);
    return result;
}

static inline unsigned min(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

static inline void sincospif(float x, float *sine, float *cosine)
{
    *sine = (float)sin(M_PI * (double)x);
    *cosine = (float)cos(M_PI * (double)x);
}

// ---------------------------------------------------------------- the runtime

typedef enum { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorMemoryAllocation = 2 } cudaError_t;
typedef struct emulated_stream *cudaStream_t;
typedef struct emulated_event *cudaEvent_t;
typedef enum { CUDA_R_32F = 0, CUDA_R_16BF = 14 } cudaDataType_t;
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
struct cudaFuncAttributes {
    int numRegs;
};
struct cudaDeviceProp {
    char name[256];
    int multiProcessorCount, major, minor;
};
#define cudaStreamNonBlocking 1

cudaError_t cudaGetLastError(void);
const char *cudaGetErrorString(cudaError_t status);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device);
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *function);
cudaError_t cudaFuncSetAttribute(const void *function, enum cudaFuncAttribute attribute, int value);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaMalloc(void **memory, size_t bytes);
cudaError_t cudaFree(void *memory);
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream);
cudaError_t cudaEventCreate(cudaEvent_t *event);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t begin, cudaEvent_t end);

#endif
