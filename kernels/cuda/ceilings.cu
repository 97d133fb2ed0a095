// The two ceilings that measured times are held against: bytes read from device memory per second, and the rate of a
// large matrix product. Both on random data, the median of several runs.
#include "cuda.cuh"

#include <algorithm>
#include <stdio.h>

#define CEILING_RUNS 7
#define READ_BYTES (4ull << 30)
#define READ_THREADS 512
#define READ_UNROLL 8

__global__ void __launch_bounds__(READ_THREADS) read_kernel(const uint4 *data, uint64_t n, uint32_t *never)
{
    grid_begin();
    const uint64_t step = (uint64_t)gridDim.x * blockDim.x;
    uint32_t sum = 0;
    uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x;
    for (; i + (READ_UNROLL - 1) * step < n; i += READ_UNROLL * step) {
        uint4 raw[READ_UNROLL];
#pragma unroll
        for (int u = 0; u < READ_UNROLL; u++)
            raw[u] = __ldcs(data + i + u * step);
#pragma unroll
        for (int u = 0; u < READ_UNROLL; u++)
            sum += raw[u].x ^ raw[u].y ^ raw[u].z ^ raw[u].w;
    }
    for (; i < n; i += step)
        sum += data[i].x;
    if (sum == 0x9E3779B9u)  // keeps the loads
        *never = sum;
}

struct timer {
    cudaEvent_t begin, end;
};

// Milliseconds of one `run`, the median of several after one that warms up.
template <typename Run>
static enum kva_status median_time(struct kva_device *device, const struct timer *timer, Run run, double *milliseconds,
                                   struct kva_error *error)
{
    float times[CEILING_RUNS];
    for (int i = -1; i < CEILING_RUNS; i++) {
        CHECK_CUDA(error, "ceilings", cudaEventRecord(timer->begin, device->stream));
        const enum kva_status status = run();
        if (status != KVA_OK)
            return status;
        CHECK_CUDA(error, "ceilings", cudaEventRecord(timer->end, device->stream));
        CHECK_CUDA(error, "ceilings", cudaEventSynchronize(timer->end));
        if (i >= 0)
            CHECK_CUDA(error, "ceilings", cudaEventElapsedTime(&times[i], timer->begin, timer->end));
    }
    std::sort(times, times + CEILING_RUNS);
    *milliseconds = (double)times[CEILING_RUNS / 2];
    return KVA_OK;
}

static enum kva_status fill_random(struct kva_device *device, void *memory, uint64_t bytes, uint64_t seed,
                                   struct kva_error *error)
{
    struct kva_fill_args a = {};
    a.y = memory;
    a.dtype = device->act;
    a.elements = bytes / act_bytes(device);
    a.seed = seed;
    a.fill = KVA_FILL_UNIFORM;
    a.scale = 1.0f;
    return cuda_fill(device, &a, error);
}

static enum kva_status read_ceiling(struct kva_device *device, const struct timer *timer, char *memory, uint64_t bytes,
                                    double *rate, struct kva_error *error)
{
    enum kva_status status = fill_random(device, memory, bytes, 1, error);
    if (status != KVA_OK)
        return status;
    double milliseconds = 0.0;
    status = median_time(
        device, timer,
        [&]() {
            KVA_LAUNCH(read_kernel, 4 * device->multiprocessors, READ_THREADS, 0, device, (const uint4 *)memory,
                       bytes / sizeof(uint4), (uint32_t *)memory);
            CHECK_LAUNCH(error, "ceilings", "a read of %llu bytes", (u64)bytes);
            return KVA_OK;
        },
        &milliseconds, error);
    *rate = milliseconds > 0.0 ? (double)bytes / (milliseconds * 1e-3) : 0.0;
    return status;
}

static enum kva_status product_ceiling(struct kva_device *device, const struct timer *timer, char *memory,
                                       uint64_t side, double *rate, struct kva_error *error)
{
    const uint64_t bytes = side * side * act_bytes(device);
    enum kva_status status = fill_random(device, memory, 2 * bytes, 2, error);
    if (status != KVA_OK)
        return status;
    struct kva_linear_args a = {};
    a.x = memory;
    a.weight = memory + bytes;
    a.y = memory + 2 * bytes;
    a.rows = a.n_in = a.n_out = a.x_stride = a.y_stride = side;
    double milliseconds = 0.0;
    status = median_time(
        device, timer, [&]() { return cuda_linear(device, &a, error); }, &milliseconds, error);
    *rate = milliseconds > 0.0 ? 2.0 * (double)side * (double)side * (double)side / (milliseconds * 1e-3) : 0.0;
    return status;
}

enum kva_status cuda_ceilings(struct kva_device *device, uint64_t side, double *read_rate, double *flop_rate,
                              struct kva_error *error)
{
    *read_rate = *flop_rate = 0.0;
    if (side == 0 || side > 1u << 16)
        return kva_fail(error, KVA_BAD_INPUT, NULL, "ceilings", "a side of %llu: expected 1 .. 65536", (u64)side);
    side = side < 8 ? 8 : side / 8 * 8;
    const uint64_t product_bytes = 3 * side * side * act_bytes(device), available = cuda_available(device);
    uint64_t bytes = READ_BYTES;
    while (bytes > 64ull << 20 && bytes > available / 2)  // memory is short: a smaller read
        bytes /= 2;
    const uint64_t taken = bytes > product_bytes ? bytes : product_bytes;
    char *memory = NULL;
    struct timer timer = {};
    enum kva_status status = cuda_alloc(device, taken, (void **)&memory, error);
    if (status != KVA_OK)
        return status;
    if (cudaEventCreate(&timer.begin) != cudaSuccess || cudaEventCreate(&timer.end) != cudaSuccess)
        status = kva_fail(error, KVA_MACHINE, NULL, "ceilings", "cudaEventCreate failed");
    if (status == KVA_OK)
        status = read_ceiling(device, &timer, memory, bytes, read_rate, error);
    if (status == KVA_OK)
        status = product_ceiling(device, &timer, memory, side, flop_rate, error);
    if (timer.begin != NULL)
        cudaEventDestroy(timer.begin);
    if (timer.end != NULL)
        cudaEventDestroy(timer.end);
    cuda_free(device, memory, taken);
    return status;
}

cudaError_t prepare_ceilings(void)
{
    PREPARE(read_kernel);
    return cudaSuccess;
}
