// Matrix products y = x W^T. Up to four rows are bound by reading the weights, once for all rows: a kernel of ours.
// More rows, and shapes that it does not take, go to cuBLAS, with float32 sums and never through TF32.
#include "cuda.cuh"

#include "ptx.cuh"

#include <stdio.h>

#define FEW_ROWS 4
#define FEW_WARPS 4
#define FEW_OUTS 2  // outputs of one warp: x is read once for both

// The 16 bytes of W, read once: they should not push anything else out of the caches.
__device__ static inline uint4 load_stream(const void *p)
{
    return __ldcs((const uint4 *)p);
}

__device__ static inline void widen(float (&v)[4], uint4 raw)
{
    v[0] = __uint_as_float(raw.x);
    v[1] = __uint_as_float(raw.y);
    v[2] = __uint_as_float(raw.z);
    v[3] = __uint_as_float(raw.w);
}

// A bf16 is the upper half of a float32.
__device__ static inline void widen(float (&v)[8], uint4 raw)
{
    const uint32_t pair[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        v[2 * i] = __uint_as_float(pair[i] << 16);
        v[2 * i + 1] = __uint_as_float(pair[i] & 0xffff0000u);
    }
}

// sums[out][row] += W[out][i ..] . x[row][i ..] for N steps of `step` elements, all of W's loads first.
template <typename T, int ROWS, int N>
__device__ static inline void few_rows_step(float (&sums)[FEW_OUTS][ROWS], const T *(&w)[FEW_OUTS], const T *x,
                                            uint64_t x_stride, uint32_t i, uint32_t step)
{
    const int n = 16 / sizeof(T);
    uint4 raw[N][FEW_OUTS];
#pragma unroll
    for (int u = 0; u < N; u++)
#pragma unroll
        for (int out = 0; out < FEW_OUTS; out++)
            raw[u][out] = load_stream(w[out] + i + u * step);
#pragma unroll
    for (int u = 0; u < N; u++) {
        float weight[FEW_OUTS][n];
#pragma unroll
        for (int out = 0; out < FEW_OUTS; out++)
            widen(weight[out], raw[u][out]);
#pragma unroll
        for (int row = 0; row < ROWS; row++) {
            float in[n];
            widen(in, *(const uint4 *)(x + row * x_stride + i + u * step));
#pragma unroll
            for (int out = 0; out < FEW_OUTS; out++)
#pragma unroll
                for (int j = 0; j < n; j++)
                    sums[out][row] = fmaf(weight[out][j], in[j], sums[out][row]);
        }
    }
}

// `split` warps (1, 2 or 4) share one pair of outputs, each taking every split-th stretch of the row.
template <typename T, int ROWS>
__global__ void __launch_bounds__(32 * FEW_WARPS, 5) few_rows_kernel(struct kva_linear_args a, uint32_t split)
{
    grid_launch_next();
    __shared__ float shared[FEW_WARPS][FEW_OUTS][ROWS];
    const int n = 16 / sizeof(T);
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, part = warp % split;
    const uint64_t first = (blockIdx.x * (uint64_t)(FEW_WARPS / split) + warp / split) * FEW_OUTS;
    const uint32_t n_in = (uint32_t)a.n_in, step = 32 * split * n;
    const T *x = (const T *)a.x, *w[FEW_OUTS];
#pragma unroll
    for (int out = 0; out < FEW_OUTS; out++)  // an output beyond the last repeats the last, and is not written
        w[out] = (const T *)a.weight + (first + out < a.n_out ? first + out : a.n_out - 1) * a.n_in;

    // the weights' way into the L2 need not wait for x
    for (uint32_t u = 0, i = (part * 32 + lane) * n; u < 4 && i < n_in; u++, i += step)
#pragma unroll
        for (int out = 0; out < FEW_OUTS; out++)
            prefetch_l2(w[out] + i);
    grid_wait();

    float sums[FEW_OUTS][ROWS] = {};
    const int unroll = ROWS > 2 ? 2 : 4;  // loads of each output in flight
    uint32_t i = (part * 32 + lane) * n;
    for (; i + (unroll - 1) * step < n_in; i += unroll * step)
        few_rows_step<T, ROWS, unroll>(sums, w, x, a.x_stride, i, step);
    for (; i < n_in; i += step)
        few_rows_step<T, ROWS, 1>(sums, w, x, a.x_stride, i, step);

#pragma unroll
    for (int out = 0; out < FEW_OUTS; out++)
#pragma unroll
        for (int row = 0; row < ROWS; row++) {
            const float sum = warp_sum(sums[out][row]);
            if (lane == 0)
                shared[warp][out][row] = sum;
        }
    __syncthreads();
    if (part != 0 || lane >= FEW_OUTS * ROWS)
        return;
    const uint32_t out = lane / ROWS, row = lane % ROWS;
    if (first + out >= a.n_out)
        return;
    float sum = 0.0f;
    for (uint32_t p = 0; p < split; p++)
        sum += shared[warp + p][out][row];
    const uint64_t at = row * a.y_stride + first + out;
    if (a.y_f32) {
        float *y = (float *)a.y + at;
        *y = a.accumulate ? *y + sum : sum;
    } else {
        T *y = (T *)a.y + at;
        *y = from_float<T>(a.accumulate ? to_float(*y) + sum : sum);
    }
}

template <typename T> static void launch_few_rows(struct kva_device *device, const struct kva_linear_args *a)
{
    // enough warps to keep the memory busy
    const uint64_t pairs = divide_up(a->n_out, FEW_OUTS);
    uint32_t split = 1;
    while (split < FEW_WARPS && pairs * split < 16ull * device->multiprocessors)
        split *= 2;
    const unsigned blocks = (unsigned)divide_up(pairs, FEW_WARPS / split);
    if (a->rows == 1)
        KVA_LAUNCH((few_rows_kernel<T, 1>), blocks, 32 * FEW_WARPS, 0, device, *a, split);
    else if (a->rows == 2)
        KVA_LAUNCH((few_rows_kernel<T, 2>), blocks, 32 * FEW_WARPS, 0, device, *a, split);
    else if (a->rows == 3)
        KVA_LAUNCH((few_rows_kernel<T, 3>), blocks, 32 * FEW_WARPS, 0, device, *a, split);
    else
        KVA_LAUNCH((few_rows_kernel<T, 4>), blocks, 32 * FEW_WARPS, 0, device, *a, split);
}

// In cuBLAS' column-major eyes: y' [n_out, rows] = W'^T [n_out, n_in] x' [n_in, rows].
static enum kva_status blas_product(struct kva_device *device, const struct kva_linear_args *a, struct kva_error *error)
{
    const float alpha = 1.0f, beta = a->accumulate ? 1.0f : 0.0f;
    const cudaDataType_t in = device->act == KVA_BF16 ? CUDA_R_16BF : CUDA_R_32F;
    const cudaDataType_t out = a->y_f32 ? CUDA_R_32F : in;
    const cublasComputeType_t compute = device->act == KVA_BF16 ? CUBLAS_COMPUTE_32F : CUBLAS_COMPUTE_32F_PEDANTIC;
    const cublasStatus_t status =
        cublasGemmEx_64(device->blas, CUBLAS_OP_T, CUBLAS_OP_N, (int64_t)a->n_out, (int64_t)a->rows, (int64_t)a->n_in,
                        &alpha, a->weight, in, (int64_t)a->n_in, a->x, in, (int64_t)a->x_stride, &beta, a->y, out,
                        (int64_t)a->y_stride, compute, CUBLAS_GEMM_DEFAULT);
    if (status != CUBLAS_STATUS_SUCCESS) {
        cudaGetLastError();
        return kva_fail(error, KVA_MACHINE, NULL, "linear", "cublasGemmEx ([%llu, %llu] x [%llu, %llu]^T): %s",
                        (u64)a->rows, (u64)a->n_in, (u64)a->n_out, (u64)a->n_in, cublasGetStatusString(status));
    }
    return KVA_OK;
}

enum kva_status cuda_linear(struct kva_device *device, const struct kva_linear_args *a, struct kva_error *error)
{
    const uint64_t n = 16 / act_bytes(device);
    if (a->rows == 0 || a->n_out == 0)
        return KVA_OK;
    if (a->rows > FEW_ROWS || a->n_in % n != 0 || a->n_in >= 1u << 30 || (a->rows > 1 && a->x_stride % n != 0) ||
        !aligned16(a->x) || !aligned16(a->weight))
        return blas_product(device, a, error);
    FOR_ACT(device, launch_few_rows<T>(device, a));
    CHECK_LAUNCH(error, "linear", "[%llu, %llu] x [%llu, %llu]^T", (u64)a->rows, (u64)a->n_in, (u64)a->n_out,
                 (u64)a->n_in);
    return KVA_OK;
}

// ---------------------------------------------------------------- warm-up

#define WARM_SIDE 4096u
#define WARM_ROWS 2048u

static enum kva_status warm_products(struct kva_device *device, void *x, void *weight, void *y, struct kva_error *error)
{
    static const uint64_t shapes[][2] = {{WARM_SIDE, WARM_SIDE}, {1024, WARM_SIDE}, {WARM_SIDE, 1024}};
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
        for (uint64_t rows = 8; rows <= WARM_ROWS; rows *= 2)
            for (int out = 0; out < 4; out++) {
                struct kva_linear_args a = {};
                a.x = x;
                a.weight = weight;
                a.y = y;
                a.rows = rows;
                a.n_out = a.y_stride = shapes[s][0];
                a.n_in = a.x_stride = shapes[s][1];
                a.y_f32 = out % 2 == 1;
                a.accumulate = out / 2 == 1;
                const enum kva_status status = blas_product(device, &a, error);
                if (status != KVA_OK)
                    return status;
            }
    CHECK_CUDA(error, "open", cudaStreamSynchronize(device->stream));
    return KVA_OK;
}

// The workspace is ours here too, so that cuBLAS never allocates its own.
enum kva_status warm_up_linear(struct kva_device *device, struct kva_error *error)
{
    const size_t x_bytes = WARM_ROWS * WARM_SIDE * act_bytes(device);
    const size_t weight_bytes = WARM_SIDE * WARM_SIDE * act_bytes(device);
    const size_t y_bytes = WARM_ROWS * WARM_SIDE * sizeof(float);
    char *memory = NULL;
    CHECK_CUDA(error, "open", cudaMalloc((void **)&memory, KVA_CUDA_WORKSPACE + x_bytes + weight_bytes + y_bytes));
    char *x = memory + KVA_CUDA_WORKSPACE, *weight = x + x_bytes, *y = weight + weight_bytes;
    enum kva_status status = KVA_OK;
    const cudaError_t cleared = cudaMemsetAsync(x, 0, x_bytes + weight_bytes + y_bytes, device->stream);
    if (cleared != cudaSuccess)
        status = cuda_failed(error, "open", "cudaMemsetAsync", cleared);
    cuda_set_workspace(device, memory, KVA_CUDA_WORKSPACE);
    if (status == KVA_OK)
        status = warm_products(device, x, weight, y, error);
    cudaStreamSynchronize(device->stream);
    cuda_set_workspace(device, NULL, 0);
    cudaFree(memory);
    return status;
}

cudaError_t prepare_linear(void)
{
    PREPARE(few_rows_kernel<float, 1>);
    PREPARE(few_rows_kernel<float, 2>);
    PREPARE(few_rows_kernel<float, 3>);
    PREPARE(few_rows_kernel<float, 4>);
    PREPARE(few_rows_kernel<bf16, 1>);
    PREPARE(few_rows_kernel<bf16, 2>);
    PREPARE(few_rows_kernel<bf16, 3>);
    PREPARE(few_rows_kernel<bf16, 4>);
    return cudaSuccess;
}
