// LayerNorm and RMSNorm: a block for a row, or a warp for one head of a row. Sums are float32, the variance is taken
// about the mean.
#include "cuda.cuh"

#include <stdio.h>

#define NORM_THREADS 512
#define HEAD_NORM_WARPS 4

template <typename X, typename T, int N>
__global__ void __launch_bounds__(NORM_THREADS) norm_kernel(struct kva_norm_args a)
{
    grid_begin();
    __shared__ float shared[32];
    const X *x = (const X *)a.x + blockIdx.x * a.x_stride;
    T *y = (T *)a.y + blockIdx.x * a.y_stride;
    const T *weight = (const T *)a.weight, *bias = (const T *)a.bias;
    const uint32_t width = (uint32_t)a.width, step = blockDim.x * N;

    float mean = 0.0f;
    if (a.layer_norm) {
        for (uint32_t i = threadIdx.x * N; i < width; i += step) {
            const pack<X, N> in = *(const pack<X, N> *)(x + i);
#pragma unroll
            for (int j = 0; j < N; j++)
                mean += to_float(in.v[j]);
        }
        mean = block_sum(mean, shared) / (float)width;
    }
    float squares = 0.0f;
    for (uint32_t i = threadIdx.x * N; i < width; i += step) {
        const pack<X, N> in = *(const pack<X, N> *)(x + i);
#pragma unroll
        for (int j = 0; j < N; j++) {
            const float d = to_float(in.v[j]) - mean;
            squares += d * d;
        }
    }
    squares = block_sum(squares, shared);
    const float factor = 1.0f / sqrtf(squares / (float)width + a.eps);

    for (uint32_t i = threadIdx.x * N; i < width; i += step) {
        const pack<X, N> in = *(const pack<X, N> *)(x + i);
        const pack<T, N> w = *(const pack<T, N> *)(weight + i);
        pack<T, N> out, b;
        if (bias != NULL)
            b = *(const pack<T, N> *)(bias + i);
#pragma unroll
        for (int j = 0; j < N; j++) {
            float value = (to_float(in.v[j]) - mean) * factor * (to_float(w.v[j]) + a.weight_offset);
            if (bias != NULL)
                value += to_float(b.v[j]);
            out.v[j] = from_float<T>(value);
        }
        *(pack<T, N> *)(y + i) = out;
    }
}

template <typename X, typename T, int N>
static void launch_norm(struct kva_device *device, const struct kva_norm_args *a)
{
    const uint64_t wanted = divide_up(divide_up(a->width, N), 32) * 32;
    const unsigned threads = (unsigned)at_most(wanted, NORM_THREADS);
    KVA_LAUNCH((norm_kernel<X, T, N>), (unsigned)a->rows, threads, 0, device, *a);
}

template <typename T> static void norm_of(struct kva_device *device, const struct kva_norm_args *a)
{
    const bool by_four = a->width % 4 == 0 && a->x_stride % 4 == 0 && a->y_stride % 4 == 0 && aligned16(a->x) &&
                         aligned16(a->y) && aligned16(a->weight) && aligned16(a->bias);
    if (a->x_f32 && by_four)
        launch_norm<float, T, 4>(device, a);
    else if (a->x_f32)
        launch_norm<float, T, 1>(device, a);
    else if (by_four)
        launch_norm<T, T, 4>(device, a);
    else
        launch_norm<T, T, 1>(device, a);
}

enum kva_status cuda_norm(struct kva_device *device, const struct kva_norm_args *a, struct kva_error *error)
{
    if (a->rows == 0 || a->width == 0)
        return KVA_OK;
    FOR_ACT(device, norm_of<T>(device, a));
    CHECK_LAUNCH(error, "norm", "[%llu, %llu]", (u64)a->rows, (u64)a->width);
    return KVA_OK;
}

template <typename T>
__global__ void __launch_bounds__(32 * HEAD_NORM_WARPS) head_norm_kernel(struct kva_head_norm_args a)
{
    grid_begin();
    const uint32_t lane = threadIdx.x % 32, head = blockIdx.y * HEAD_NORM_WARPS + threadIdx.x / 32;
    if (head >= a.heads)
        return;
    const uint32_t width = (uint32_t)a.head_dim;
    T *x = (T *)a.x + blockIdx.x * a.stride + (uint64_t)head * width;
    const T *weight = (const T *)a.weight;
    float squares = 0.0f;
    for (uint32_t i = lane; i < width; i += 32) {
        const float value = to_float(x[i]);
        squares += value * value;
    }
    const float factor = 1.0f / sqrtf(warp_sum(squares) / (float)width + a.eps);
    for (uint32_t i = lane; i < width; i += 32)
        x[i] = from_float<T>(to_float(x[i]) * factor * (to_float(weight[i]) + a.weight_offset));
}

enum kva_status cuda_head_norm(struct kva_device *device, const struct kva_head_norm_args *a, struct kva_error *error)
{
    if (a->rows == 0 || a->heads == 0 || a->head_dim == 0)
        return KVA_OK;
    const dim3 grid((unsigned)a->rows, (unsigned)divide_up(a->heads, HEAD_NORM_WARPS));
    FOR_ACT(device, KVA_LAUNCH(head_norm_kernel<T>, grid, 32 * HEAD_NORM_WARPS, 0, device, *a));
    CHECK_LAUNCH(error, "head_norm", "[%llu, %llu, %llu]", (u64)a->rows, (u64)a->heads, (u64)a->head_dim);
    return KVA_OK;
}

cudaError_t prepare_norm(void)
{
    PREPARE(norm_kernel<float, bf16, 1>);
    PREPARE(norm_kernel<float, bf16, 4>);
    PREPARE(norm_kernel<float, float, 1>);
    PREPARE(norm_kernel<float, float, 4>);
    PREPARE(norm_kernel<bf16, bf16, 1>);
    PREPARE(norm_kernel<bf16, bf16, 4>);
    PREPARE(head_norm_kernel<float>);
    PREPARE(head_norm_kernel<bf16>);
    return cudaSuccess;
}
