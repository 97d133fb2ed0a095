// Differential attention's end: of every pair of heads the second, times lambda, is taken from the first, and the
// difference is normed. A warp for a pair.
#include "cuda.cuh"

#include <stdio.h>

#define PAIR_WARPS 4

__device__ static inline float warp_dot(const float *a, const float *b, uint32_t n)
{
    float sum = 0.0f;
    for (uint32_t i = threadIdx.x % 32; i < n; i += 32)
        sum += a[i] * b[i];
    return warp_sum(sum);
}

template <typename T>
__global__ void __launch_bounds__(32 * PAIR_WARPS) differential_kernel(struct kva_differential_args a)
{
    grid_begin();
    const uint32_t lane = threadIdx.x % 32, pair = blockIdx.y * PAIR_WARPS + threadIdx.x / 32;
    if (pair >= a.heads / 2)
        return;
    const uint32_t width = (uint32_t)a.width;
    const T *first = (const T *)a.x + blockIdx.x * a.x_stride + 2ull * pair * width, *second = first + width;
    T *y = (T *)a.y + blockIdx.x * a.y_stride + (uint64_t)pair * width;
    const T *weight = (const T *)a.weight;
    const float lambda = expf(warp_dot(a.q1, a.k1, (uint32_t)a.head_dim)) -
                         expf(warp_dot(a.q2, a.k2, (uint32_t)a.head_dim)) + a.lambda_init;
    float squares = 0.0f;
    for (uint32_t i = lane; i < width; i += 32) {
        const float d = to_float(first[i]) - lambda * to_float(second[i]);
        squares += d * d;
    }
    const float factor = (1.0f - a.lambda_init) / sqrtf(warp_sum(squares) / (float)width + a.eps);
    for (uint32_t i = lane; i < width; i += 32) {
        const float d = to_float(first[i]) - lambda * to_float(second[i]);
        y[i] = from_float<T>(d * factor * to_float(weight[i]));
    }
}

enum kva_status cuda_differential(struct kva_device *device, const struct kva_differential_args *a,
                                  struct kva_error *error)
{
    if (a->rows == 0 || a->heads < 2 || a->width == 0)
        return KVA_OK;
    const dim3 grid((unsigned)a->rows, (unsigned)divide_up(a->heads / 2, PAIR_WARPS));
    FOR_ACT(device, KVA_LAUNCH(differential_kernel<T>, grid, 32 * PAIR_WARPS, 0, device, *a));
    CHECK_LAUNCH(error, "differential", "[%llu, %llu, %llu]", (u64)a->rows, (u64)a->heads, (u64)a->width);
    return KVA_OK;
}

cudaError_t prepare_differential(void)
{
    PREPARE(differential_kernel<float>);
    PREPARE(differential_kernel<bf16>);
    return cudaSuccess;
}
