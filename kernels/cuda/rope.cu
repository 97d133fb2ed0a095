// Rotary embedding: a block for a row. The row's cosines and sines are computed once, into shared memory.
#include "cuda.cuh"

#include <stdio.h>

#define ROPE_THREADS 256
#define INVERSE_PI 0.31830988618379067154

template <typename T> __global__ void __launch_bounds__(ROPE_THREADS) rope_kernel(struct kva_rope_args a)
{
    grid_begin();
    KVA_DYNAMIC_SHARED(shared);
    float2 *turns = (float2 *)shared;  // [half]: cos, sin
    const uint32_t half = (uint32_t)a.rotary_dim / 2;
    const float position = (float)a.positions[blockIdx.x];
    for (uint32_t j = threadIdx.x; j < half; j += blockDim.x) {
        // the angle is the float32 product, as the models define it; its reduction is exact enough in float64, which
        // spares sincosf's slow path and that path's local memory
        const float angle = position * a.inverse_frequencies[j];
        double t = (double)angle * INVERSE_PI;
        t -= 2.0 * rint(0.5 * t);
        float sine, cosine;
        sincospif((float)t, &sine, &cosine);
        turns[j] = make_float2(cosine * a.scale, sine * a.scale);
    }
    __syncthreads();
    T *row = (T *)a.x + blockIdx.x * a.stride;
    for (uint32_t i = threadIdx.x; i < (uint32_t)a.heads * half; i += blockDim.x) {
        const uint32_t head = i / half, j = i % half;
        T *x = row + (uint64_t)head * a.head_dim + j;
        const float first = to_float(x[0]), second = to_float(x[half]);
        const float2 turn = turns[j];
        x[0] = from_float<T>(first * turn.x - second * turn.y);
        x[half] = from_float<T>(second * turn.x + first * turn.y);
    }
}

enum kva_status cuda_rope(struct kva_device *device, const struct kva_rope_args *a, struct kva_error *error)
{
    const uint64_t half = a->rotary_dim / 2;
    if (a->rows == 0 || a->heads == 0 || half == 0)
        return KVA_OK;
    if (half > 4096)
        return kva_fail(error, KVA_BAD_INPUT, NULL, "rope", "rotary_dim %llu: at most 8192 is supported",
                        (u64)a->rotary_dim);
    FOR_ACT(device, KVA_LAUNCH(rope_kernel<T>, (unsigned)a->rows, ROPE_THREADS, half * sizeof(float2), device, *a));
    CHECK_LAUNCH(error, "rope", "[%llu, %llu, %llu], rotary %llu", (u64)a->rows, (u64)a->heads, (u64)a->head_dim,
                 (u64)a->rotary_dim);
    return KVA_OK;
}

cudaError_t prepare_rope(void)
{
    PREPARE(rope_kernel<float>);
    PREPARE(rope_kernel<bf16>);
    return cudaSuccess;
}
