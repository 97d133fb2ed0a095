// Plain attention for any dims and element type, all arithmetic in float32: a warp for one query row and head. Exact
// and simple rather than fast; also the kernel that puts the parts of a one-row span together, whoever made them.
#include "attention.cuh"

#include <stdio.h>

#define PLAIN_WARPS 4
#define PLAIN_KEYS 4  // at once
#define COMBINE_THREADS 128

// A warp's running softmax over keys: lane l holds elements l, l + 32, ... of q and of the sum.
template <int N> struct plain_state {
    float q[N], sum[N];
    float largest, weights;  // log2 of the largest weight so far; the sum of weights relative to it
};

template <typename T, int N>
__device__ static inline void plain_begin(plain_state<N> &state, const struct kva_attention_args &a, uint64_t row,
                                          uint32_t head)
{
    const T *q = (const T *)a.q + row * a.q_stride + (uint64_t)head * a.k_dim;
#pragma unroll
    for (int i = 0; i < N; i++) {
        const uint32_t d = threadIdx.x % 32 + 32 * i;
        state.q[i] = d < a.k_dim ? to_float(q[d]) : 0.0f;
        state.sum[i] = 0.0f;
    }
    state.largest = -INFINITY;
    state.weights = 0.0f;
}

// Takes in the keys at positions begin .. end - 1 (at least one).
template <typename T, int N>
__device__ static inline void plain_attend(plain_state<N> &state, const struct kva_attention_args &a,
                                           const key_rows<T> &keys, const key_rows<T> &values, uint32_t begin,
                                           uint32_t end)
{
    const uint32_t lane = threadIdx.x % 32, width = out_width_of(a);
    for (uint32_t p = begin; p < end; p += PLAIN_KEYS) {
        const uint32_t base = keys.base_of(p);
        float score[PLAIN_KEYS];
        float largest = state.largest;
#pragma unroll
        for (int u = 0; u < PLAIN_KEYS; u++) {
            const T *k = keys.at(p, base, p + u < end ? u : 0);
            float dot = 0.0f;
#pragma unroll
            for (int i = 0; i < N; i++)
                if (lane + 32 * i < a.k_dim)
                    dot = fmaf(state.q[i], to_float(k[lane + 32 * i]), dot);
            score[u] = warp_sum(dot) * a.scale;
            if (a.softcap > 0.0f)
                score[u] = a.softcap * tanhf(score[u] / a.softcap);
            score[u] = p + u < end ? score[u] * LOG2E : -INFINITY;
            largest = fmaxf(largest, score[u]);
        }
        const float shrink = exp2f(state.largest - largest);
        state.largest = largest;
        state.weights *= shrink;
#pragma unroll
        for (int i = 0; i < N; i++)
            state.sum[i] *= shrink;
#pragma unroll
        for (int u = 0; u < PLAIN_KEYS; u++) {
            const T *v = values.at(p, base, p + u < end ? u : 0);
            const float weight = exp2f(score[u] - largest);
            state.weights += weight;
#pragma unroll
            for (int i = 0; i < N; i++)
                if (lane + 32 * i < width)
                    state.sum[i] = fmaf(weight, to_float(v[lane + 32 * i]), state.sum[i]);
        }
    }
}

template <typename T, int N>
__global__ void __launch_bounds__(32 * PLAIN_WARPS) plain_prefill_kernel(struct kva_attention_args a)
{
    grid_begin();
    const struct kva_span span = a.spans[blockIdx.z];
    const uint32_t row = blockIdx.x * PLAIN_WARPS + threadIdx.x / 32, head = blockIdx.y;
    if (span.rows <= 1 || row >= span.rows)
        return;
    const uint32_t position = span.past + row, key_head = key_head_of(a, head), width = out_width_of(a);
    plain_state<N> state;
    plain_begin<T, N>(state, a, (uint64_t)span.first_row + row, head);
    plain_attend<T, N>(state, a, keys_of<T>(a, span, key_head), values_of<T>(a, span, key_head),
                       first_visible(position, (uint32_t)a.window), position + 1);
    T *out = (T *)a.out + ((uint64_t)span.first_row + row) * a.out_stride + (uint64_t)head * width;
#pragma unroll
    for (int i = 0; i < N; i++) {
        const uint32_t d = threadIdx.x % 32 + 32 * i;
        if (d < width)
            out[d] = from_float<T>(state.sum[i] / state.weights);
    }
}

template <typename T, int N>
__global__ void __launch_bounds__(32) plain_decode_kernel(struct kva_attention_args a, uint32_t most_parts)
{
    grid_begin();
    const struct kva_span span = a.spans[blockIdx.z];
    if (span.rows != 1)
        return;
    const uint32_t part = blockIdx.x, head = blockIdx.y, key_head = key_head_of(a, head), width = out_width_of(a);
    const uint32_t first = first_visible(span.past, (uint32_t)a.window), visible = span.past - first + 1;
    const uint32_t keys = part_keys_of(visible, most_parts);
    if ((uint64_t)part * keys >= visible)
        return;
    const uint32_t begin = first + part * keys, left = visible - part * keys;
    plain_state<N> state;
    plain_begin<T, N>(state, a, span.first_row, head);
    plain_attend<T, N>(state, a, keys_of<T>(a, span, key_head), values_of<T>(a, span, key_head), begin,
                       begin + (left < keys ? left : keys));
    float *scratch = part_scratch(a, blockIdx.z, head, part);
#pragma unroll
    for (int i = 0; i < N; i++) {
        const uint32_t d = threadIdx.x % 32 + 32 * i;
        if (d < width)
            scratch[d] = state.sum[i];
    }
    if (threadIdx.x == 0) {
        scratch[width] = state.largest;
        scratch[width + 1] = state.weights;
    }
}

template <typename T>
__global__ void __launch_bounds__(COMBINE_THREADS) combine_kernel(struct kva_attention_args a, uint32_t most_parts)
{
    grid_begin();
    __shared__ float factors[KVA_ATTENTION_SPLITS];
    const struct kva_span span = a.spans[blockIdx.y];
    if (span.rows != 1)
        return;
    const uint32_t head = blockIdx.x, width = out_width_of(a), lane = threadIdx.x % 32;
    const uint32_t visible = span.past - first_visible(span.past, (uint32_t)a.window) + 1;
    const uint32_t keys = part_keys_of(visible, most_parts), parts = (visible + keys - 1) / keys;
    const float *scratch = part_scratch(a, blockIdx.y, head, 0);
    if (threadIdx.x < 32) {
        float largest = -INFINITY, weights = 0.0f;
        for (uint32_t part = lane; part < parts; part += 32)
            largest = fmaxf(largest, scratch[part * (width + 2) + width]);
        for (int offset = 16; offset > 0; offset /= 2)
            largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, offset));
        for (uint32_t part = lane; part < parts; part += 32)
            weights += exp2f(scratch[part * (width + 2) + width] - largest) * scratch[part * (width + 2) + width + 1];
        weights = warp_sum(weights);
        for (uint32_t part = lane; part < parts; part += 32)
            factors[part] = exp2f(scratch[part * (width + 2) + width] - largest) / weights;
    }
    __syncthreads();
    T *out = (T *)a.out + span.first_row * a.out_stride + (uint64_t)head * width;
    for (uint32_t d = threadIdx.x; d < width; d += COMBINE_THREADS) {
        float sum = 0.0f;
#pragma unroll 8
        for (uint32_t part = 0; part < parts; part++)
            sum = fmaf(factors[part], scratch[part * (width + 2) + d], sum);
        out[d] = from_float<T>(sum);
    }
}

template <typename T, int N>
static void plain_prefill_of(struct kva_device *device, const struct kva_attention_args &a, uint32_t rows)
{
    const dim3 grid((unsigned)divide_up(rows, PLAIN_WARPS), a.heads, a.n_spans);
    KVA_LAUNCH((plain_prefill_kernel<T, N>), grid, 32 * PLAIN_WARPS, 0, device, a);
}

template <typename T, int N>
static void plain_decode_of(struct kva_device *device, const struct kva_attention_args &a,
                            const struct attention_extent &extent)
{
    const dim3 grid(extent.parts, a.heads, a.n_spans);
    KVA_LAUNCH((plain_decode_kernel<T, N>), grid, 32, 0, device, a, extent.most_parts);
}

void launch_plain_prefill(struct kva_device *device, const struct kva_attention_args &a,
                          const struct attention_extent &extent)
{
    if (a.k_dim <= 128 && out_width_of(a) <= 128)
        FOR_ACT(device, (plain_prefill_of<T, 4>(device, a, extent.rows)));
    else
        FOR_ACT(device, (plain_prefill_of<T, 16>(device, a, extent.rows)));
}

void launch_plain_decode(struct kva_device *device, const struct kva_attention_args &a,
                         const struct attention_extent &extent)
{
    if (a.k_dim <= 128 && out_width_of(a) <= 128)
        FOR_ACT(device, (plain_decode_of<T, 4>(device, a, extent)));
    else
        FOR_ACT(device, (plain_decode_of<T, 16>(device, a, extent)));
}

void launch_attention_combine(struct kva_device *device, const struct kva_attention_args &a,
                              const struct attention_extent &extent)
{
    const dim3 grid(a.heads, a.n_spans);
    FOR_ACT(device, KVA_LAUNCH(combine_kernel<T>, grid, COMBINE_THREADS, 0, device, a, extent.most_parts));
}

cudaError_t prepare_attention_f32(void)
{
    PREPARE(plain_prefill_kernel<float, 4>);
    PREPARE(plain_prefill_kernel<float, 16>);
    PREPARE(plain_prefill_kernel<bf16, 4>);
    PREPARE(plain_prefill_kernel<bf16, 16>);
    PREPARE(plain_decode_kernel<float, 4>);
    PREPARE(plain_decode_kernel<float, 16>);
    PREPARE(plain_decode_kernel<bf16, 4>);
    PREPARE(plain_decode_kernel<bf16, 16>);
    PREPARE(combine_kernel<float>);
    PREPARE(combine_kernel<bf16>);
    return cudaSuccess;
}
