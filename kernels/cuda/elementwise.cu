// Operations that touch every element once: embed, add, add_bias, glu, gate, softcap, gather, argmax. A row's columns
// lie over x, rows over y (a loop where there are more than a grid can hold); accesses are 16 bytes where the shape
// allows.
#include "cuda.cuh"

#include <float.h>
#include <stdio.h>

#define THREADS 256
#define ARGMAX_THREADS 1024

// The grid of a [rows, columns] operation, `columns` counted in packs.
static dim3 row_grid(uint64_t rows, uint64_t columns)
{
    return dim3((unsigned)divide_up(columns, THREADS), (unsigned)at_most(rows, MAX_GRID_YZ));
}

static inline unsigned row_threads(uint64_t columns)
{
    return columns >= THREADS ? THREADS : (unsigned)(divide_up(columns, 32) * 32);
}

__device__ static inline float silu(float x)
{
    return x / (1.0f + expf(-x));
}

// ---------------------------------------------------------------- embed

template <typename T, int N>
__global__ void __launch_bounds__(THREADS)
    embed_kernel(const T *table, const uint32_t *tokens, float *out, uint64_t rows, uint64_t width, float scale)
{
    grid_begin();
    const uint64_t i = (uint64_t)(blockIdx.x * blockDim.x + threadIdx.x) * N;
    if (i >= width)
        return;
    for (uint64_t row = blockIdx.y; row < rows; row += gridDim.y) {
        const pack<T, N> in = *(const pack<T, N> *)(table + tokens[row] * width + i);
        pack<float, N> result;
#pragma unroll
        for (int j = 0; j < N; j++)
            result.v[j] = to_float(in.v[j]) * scale;
        *(pack<float, N> *)(out + row * width + i) = result;
    }
}

template <typename T, int N>
static void launch_embed(struct kva_device *device, const void *table, const uint32_t *tokens, float *out,
                         uint64_t rows, uint64_t width, float scale)
{
    KVA_LAUNCH((embed_kernel<T, N>), row_grid(rows, width / N), row_threads(width / N), 0, device, (const T *)table,
               tokens, out, rows, width, scale);
}

enum kva_status cuda_embed(struct kva_device *device, const void *table, const uint32_t *tokens, float *out,
                           uint64_t rows, uint64_t width, float scale, struct kva_error *error)
{
    if (rows == 0 || width == 0)
        return KVA_OK;
    if (width % 4 == 0 && aligned16(table) && aligned16(out))
        FOR_ACT(device, (launch_embed<T, 4>(device, table, tokens, out, rows, width, scale)));
    else
        FOR_ACT(device, (launch_embed<T, 1>(device, table, tokens, out, rows, width, scale)));
    CHECK_LAUNCH(error, "embed", "[%llu, %llu]", (u64)rows, (u64)width);
    return KVA_OK;
}

// ---------------------------------------------------------------- x += y, x += bias

// y has stride y_stride; 0 makes it a bias, the same for every row.
template <typename X, typename T, int N>
__global__ void __launch_bounds__(THREADS)
    add_kernel(X *x, const T *y, uint64_t rows, uint64_t width, uint64_t x_stride, uint64_t y_stride)
{
    grid_begin();
    const uint64_t i = (uint64_t)(blockIdx.x * blockDim.x + threadIdx.x) * N;
    if (i >= width)
        return;
    for (uint64_t row = blockIdx.y; row < rows; row += gridDim.y) {
        X *at = x + row * x_stride + i;
        pack<X, N> sum = *(const pack<X, N> *)at;
        const pack<T, N> more = *(const pack<T, N> *)(y + row * y_stride + i);
#pragma unroll
        for (int j = 0; j < N; j++)
            sum.v[j] = from_float<X>(to_float(sum.v[j]) + to_float(more.v[j]));
        *(pack<X, N> *)at = sum;
    }
}

template <typename X, typename T>
static void launch_add(struct kva_device *device, void *x, const void *y, uint64_t rows, uint64_t width,
                       uint64_t x_stride, uint64_t y_stride)
{
    if (width % 4 == 0 && x_stride % 4 == 0 && y_stride % 4 == 0 && aligned16(x) && aligned16(y))
        KVA_LAUNCH((add_kernel<X, T, 4>), row_grid(rows, width / 4), row_threads(width / 4), 0, device, (X *)x,
                   (const T *)y, rows, width, x_stride, y_stride);
    else
        KVA_LAUNCH((add_kernel<X, T, 1>), row_grid(rows, width), row_threads(width), 0, device, (X *)x, (const T *)y,
                   rows, width, x_stride, y_stride);
}

enum kva_status cuda_add_bias(struct kva_device *device, void *x, const void *bias, uint64_t rows, uint64_t width,
                              uint64_t stride, bool x_f32, struct kva_error *error)
{
    if (rows == 0 || width == 0)
        return KVA_OK;
    if (x_f32)
        FOR_ACT(device, (launch_add<float, T>(device, x, bias, rows, width, stride, 0)));
    else
        FOR_ACT(device, (launch_add<T, T>(device, x, bias, rows, width, stride, 0)));
    CHECK_LAUNCH(error, "add_bias", "[%llu, %llu]", (u64)rows, (u64)width);
    return KVA_OK;
}

enum kva_status cuda_add(struct kva_device *device, float *x, const void *y, uint64_t rows, uint64_t width,
                         struct kva_error *error)
{
    if (rows == 0 || width == 0)
        return KVA_OK;
    FOR_ACT(device, (launch_add<float, T>(device, x, y, rows, width, width, width)));
    CHECK_LAUNCH(error, "add", "[%llu, %llu]", (u64)rows, (u64)width);
    return KVA_OK;
}

// ---------------------------------------------------------------- y = activation(gate) * up

__device__ static inline float activation(float x, uint32_t kind)
{
    if (kind == KVA_GLU_SILU)
        return silu(x);
    if (kind == KVA_GLU_GELU)
        return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
    return 0.5f * x * (1.0f + tanhf(0.79788456080286536f * (x + 0.044715f * x * x * x)));
}

template <typename T, int N>
__global__ void __launch_bounds__(THREADS)
    gate_kernel(const T *gate, const T *x, T *y, uint64_t rows, uint64_t width, uint64_t gate_stride, uint64_t x_stride,
                uint64_t y_stride, uint32_t kind)
{
    grid_begin();
    const uint64_t i = (uint64_t)(blockIdx.x * blockDim.x + threadIdx.x) * N;
    if (i >= width)
        return;
    for (uint64_t row = blockIdx.y; row < rows; row += gridDim.y) {
        const pack<T, N> g = *(const pack<T, N> *)(gate + row * gate_stride + i);
        const pack<T, N> in = *(const pack<T, N> *)(x + row * x_stride + i);
        pack<T, N> result;
#pragma unroll
        for (int j = 0; j < N; j++)
            result.v[j] = from_float<T>(activation(to_float(g.v[j]), kind) * to_float(in.v[j]));
        *(pack<T, N> *)(y + row * y_stride + i) = result;
    }
}

template <typename T> static void launch_gate(struct kva_device *device, const struct kva_gate_args *a, uint32_t kind)
{
    const int n = 16 / (int)sizeof(T);
    const T *gate = (const T *)a->gate, *x = (const T *)a->x;
    T *y = (T *)a->y;
    if (a->width % n == 0 && a->gate_stride % n == 0 && a->x_stride % n == 0 && a->y_stride % n == 0 &&
        aligned16(gate) && aligned16(x) && aligned16(y))
        KVA_LAUNCH((gate_kernel<T, 16 / sizeof(T)>), row_grid(a->rows, a->width / n), row_threads(a->width / n), 0,
                   device, gate, x, y, a->rows, a->width, a->gate_stride, a->x_stride, a->y_stride, kind);
    else
        KVA_LAUNCH((gate_kernel<T, 1>), row_grid(a->rows, a->width), row_threads(a->width), 0, device, gate, x, y,
                   a->rows, a->width, a->gate_stride, a->x_stride, a->y_stride, kind);
}

enum kva_status cuda_gate(struct kva_device *device, const struct kva_gate_args *a, struct kva_error *error)
{
    if (a->rows == 0 || a->width == 0)
        return KVA_OK;
    FOR_ACT(device, launch_gate<T>(device, a, KVA_GLU_SILU));
    CHECK_LAUNCH(error, "gate", "[%llu, %llu]", (u64)a->rows, (u64)a->width);
    return KVA_OK;
}

enum kva_status cuda_glu(struct kva_device *device, const struct kva_glu_args *a, struct kva_error *error)
{
    if (a->rows == 0 || a->width == 0)
        return KVA_OK;
    struct kva_gate_args gate = {};
    gate.gate = a->gate_up;
    gate.x = (const char *)a->gate_up + a->width * act_bytes(device);
    gate.y = a->y;
    gate.rows = a->rows;
    gate.width = a->width;
    gate.gate_stride = gate.x_stride = a->gate_up_stride;
    gate.y_stride = a->y_stride;
    FOR_ACT(device, launch_gate<T>(device, &gate, a->activation));
    CHECK_LAUNCH(error, "glu", "[%llu, %llu]", (u64)a->rows, (u64)a->width);
    return KVA_OK;
}

// ---------------------------------------------------------------- softcap

__global__ void __launch_bounds__(THREADS) softcap_kernel(float *x, uint64_t elements, float cap)
{
    grid_begin();
    const uint64_t step = (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < elements; i += step)
        x[i] = cap * tanhf(x[i] / cap);
}

enum kva_status cuda_softcap(struct kva_device *device, float *x, uint64_t elements, float cap, struct kva_error *error)
{
    if (elements == 0)
        return KVA_OK;
    const unsigned blocks = (unsigned)at_most(divide_up(elements, THREADS), 8 * device->multiprocessors);
    KVA_LAUNCH(softcap_kernel, blocks, THREADS, 0, device, x, elements, cap);
    CHECK_LAUNCH(error, "softcap", "%llu elements", (u64)elements);
    return KVA_OK;
}

// ---------------------------------------------------------------- gather

// Unit: uint4 or uint32_t; strides and width in units.
template <typename Unit>
__global__ void __launch_bounds__(THREADS)
    gather_kernel(Unit *to, uint64_t to_stride, const Unit *from, uint64_t from_stride, const uint32_t *rows_index,
                  uint64_t rows, uint64_t width)
{
    grid_begin();
    const uint64_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= width)
        return;
    for (uint64_t row = blockIdx.y; row < rows; row += gridDim.y)
        to[row * to_stride + i] = from[rows_index[row] * from_stride + i];
}

template <typename Unit>
static void launch_gather(struct kva_device *device, void *to, uint64_t to_stride, const void *from,
                          uint64_t from_stride, const uint32_t *rows_index, uint64_t rows, uint64_t bytes)
{
    const uint64_t width = bytes / sizeof(Unit);
    KVA_LAUNCH(gather_kernel<Unit>, row_grid(rows, width), row_threads(width), 0, device, (Unit *)to,
               to_stride / sizeof(Unit), (const Unit *)from, from_stride / sizeof(Unit), rows_index, rows, width);
}

enum kva_status cuda_gather(struct kva_device *device, void *to, uint64_t to_stride, const void *from,
                            uint64_t from_stride, const uint32_t *rows_index, uint64_t rows, uint64_t bytes,
                            struct kva_error *error)
{
    if (rows == 0 || bytes == 0)
        return KVA_OK;
    if (bytes % 16 == 0 && to_stride % 16 == 0 && from_stride % 16 == 0 && aligned16(to) && aligned16(from))
        launch_gather<uint4>(device, to, to_stride, from, from_stride, rows_index, rows, bytes);
    else
        launch_gather<uint32_t>(device, to, to_stride, from, from_stride, rows_index, rows, bytes);
    CHECK_LAUNCH(error, "gather", "[%llu], %llu bytes a row", (u64)rows, (u64)bytes);
    return KVA_OK;
}

// ---------------------------------------------------------------- argmax

struct best {
    float value;
    uint32_t index;  // KVA_NO_TOKEN: none
};

// The larger value, of equals the lower index.
__device__ static inline struct best better(struct best a, struct best b)
{
    return b.value > a.value || (b.value == a.value && b.index < a.index) ? b : a;
}

__device__ static inline struct best warp_best(struct best mine)
{
    for (int offset = 16; offset > 0; offset /= 2) {
        struct best other;
        other.value = __shfl_xor_sync(0xffffffffu, mine.value, offset);
        other.index = __shfl_xor_sync(0xffffffffu, mine.index, offset);
        mine = better(mine, other);
    }
    return mine;
}

__global__ void __launch_bounds__(ARGMAX_THREADS) argmax_kernel(const float *x, uint64_t width, uint32_t *tokens)
{
    grid_begin();
    __shared__ struct best found[ARGMAX_THREADS / 32];
    const float *row = x + blockIdx.x * width;
    struct best mine = {-INFINITY, KVA_NO_TOKEN};
#pragma unroll 4
    for (uint32_t i = threadIdx.x; i < width; i += ARGMAX_THREADS) {
        // what is no number wins over every number, and nothing wins over it
        const bool number = row[i] < INFINITY;
        const struct best one = {number ? row[i] : INFINITY, number ? i : KVA_NO_TOKEN};
        mine = better(mine, one);
    }
    mine = warp_best(mine);
    if (threadIdx.x % 32 == 0)
        found[threadIdx.x / 32] = mine;
    __syncthreads();
    if (threadIdx.x < 32) {
        mine = warp_best(found[threadIdx.x]);
        if (threadIdx.x == 0)
            tokens[blockIdx.x] = mine.index;
    }
}

enum kva_status cuda_argmax(struct kva_device *device, const float *x, uint64_t rows, uint64_t width, uint32_t *tokens,
                            struct kva_error *error)
{
    if (rows == 0)
        return KVA_OK;
    KVA_LAUNCH(argmax_kernel, (unsigned)rows, ARGMAX_THREADS, 0, device, x, width, tokens);
    CHECK_LAUNCH(error, "argmax", "[%llu, %llu]", (u64)rows, (u64)width);
    return KVA_OK;
}

cudaError_t prepare_elementwise(void)
{
    PREPARE(embed_kernel<float, 1>);
    PREPARE(embed_kernel<float, 4>);
    PREPARE(embed_kernel<bf16, 1>);
    PREPARE(embed_kernel<bf16, 4>);
    PREPARE(add_kernel<float, float, 1>);
    PREPARE(add_kernel<float, float, 4>);
    PREPARE(add_kernel<float, bf16, 1>);
    PREPARE(add_kernel<float, bf16, 4>);
    PREPARE(add_kernel<bf16, bf16, 1>);
    PREPARE(add_kernel<bf16, bf16, 4>);
    PREPARE(gate_kernel<float, 1>);
    PREPARE(gate_kernel<float, 4>);
    PREPARE(gate_kernel<bf16, 1>);
    PREPARE(gate_kernel<bf16, 8>);
    PREPARE(softcap_kernel);
    PREPARE(gather_kernel<uint4>);
    PREPARE(gather_kernel<uint32_t>);
    PREPARE(argmax_kernel);
    return cudaSuccess;
}
