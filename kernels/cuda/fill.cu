// Values from a counter-based generator: element i depends on (seed, i) alone, bit for bit as on the CPU.
#include "cuda.cuh"

#include <stdio.h>

#define FILL_THREADS 256

// splitmix64's finaliser over a counter; u in [-1, 1) from the upper 24 bits.
__device__ static inline float uniform(uint64_t seed, uint64_t index)
{
    uint64_t z = seed * 0x9E3779B97F4A7C15ull + (index + 1) * 0xD1B54A32D192ED03ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    z ^= z >> 31;
    return (float)(int32_t)((uint32_t)(z >> 40) - 8388608u) / 8388608.0f;
}

template <typename T> __global__ void __launch_bounds__(FILL_THREADS) fill_kernel(struct kva_fill_args a)
{
    grid_begin();
    T *y = (T *)a.y;
    const uint64_t step = (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < a.elements; i += step) {
        float value;
        if (a.fill == KVA_FILL_A_LOG)
            value = (float)log((double)(1 + i % a.period));
        else
            value = fmaf(a.scale, uniform(a.seed, i), a.mean);
        y[i] = from_float<T>(value);
    }
}

enum kva_status cuda_fill(struct kva_device *device, const struct kva_fill_args *a, struct kva_error *error)
{
    if (a->elements == 0)
        return KVA_OK;
    if (a->fill == KVA_FILL_A_LOG && a->period == 0)
        return kva_fail(error, KVA_BAD_INPUT, NULL, "fill", "a period of 0");
    const unsigned blocks = (unsigned)at_most(divide_up(a->elements, FILL_THREADS), 16 * device->multiprocessors);
    if (a->dtype == KVA_BF16)
        KVA_LAUNCH(fill_kernel<bf16>, blocks, FILL_THREADS, 0, device, *a);
    else if (a->dtype == KVA_F32)
        KVA_LAUNCH(fill_kernel<float>, blocks, FILL_THREADS, 0, device, *a);
    else
        return kva_fail(error, KVA_BAD_INPUT, NULL, "fill", "values are f32 or bf16");
    CHECK_LAUNCH(error, "fill", "%llu elements", (u64)a->elements);
    return KVA_OK;
}

cudaError_t prepare_fill(void)
{
    PREPARE(fill_kernel<float>);
    PREPARE(fill_kernel<bf16>);
    return cudaSuccess;
}
