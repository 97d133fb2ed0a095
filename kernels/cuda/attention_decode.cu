// Decode attention in bf16: one query row a span, the cache cut into parts. A block of four warps serves up to eight
// query heads of one key head, so keys and values are read once, 16 bytes at a time, straight into the registers that
// the tensor cores take: no shared memory on the way.
//
// Scores are computed transposed, S^T [16 keys, 8 heads] = K Q^T, and so is the sum, O^T [dims, 8 heads] = V^T P^T: the
// eight heads fill the narrow side of m16n8k16. A product's inner index may be permuted at will when both factors
// agree, so each lane takes 8 neighbouring elements of a key's row and calls them columns 2 t, 2 t + 1, 2 t + 8 and
// 2 t + 9 of two steps. (g = lane / 4, t = lane % 4 as in ptx.cuh.)
#include "attention.cuh"

#include "ptx.cuh"

#include <stdio.h>

#define DECODE_WARPS 4
#define DECODE_HEADS 8
#define WARP_KEYS 16

static_assert(DECODE_WARPS * WARP_KEYS == PART_KEYS, "a part is made of whole steps");

__device__ static inline uint4 load16(const bf16 *p)
{
    return __ldcs((const uint4 *)p);
}

// A lane's share of a row of keys or of q: elements 8 t .. of every 32, then 4 t .. of a last 16.
template <int D> __device__ static inline void load_key_row(uint32_t (&w)[D / 8], const bf16 *row, uint32_t t)
{
#pragma unroll
    for (int c = 0; c < D / 32; c++) {
        const uint4 raw = load16(row + 32 * c + 8 * t);
        w[4 * c] = raw.x;
        w[4 * c + 1] = raw.y;
        w[4 * c + 2] = raw.z;
        w[4 * c + 3] = raw.w;
    }
    if constexpr (D % 32 != 0) {
        const uint2 raw = *(const uint2 *)(row + D / 32 * 32 + 4 * t);
        w[D / 8 - 2] = raw.x;
        w[D / 8 - 1] = raw.y;
    }
}

// A lane's share of a row of values: elements 8 g .. of every 64, then 4 g .. of a 32, then 2 g .. of a 16.
template <int D> __device__ static inline void load_value_row(uint32_t (&w)[D / 16], const bf16 *row, uint32_t g)
{
#pragma unroll
    for (int c = 0; c < D / 64; c++) {
        const uint4 raw = load16(row + 64 * c + 8 * g);
        w[4 * c] = raw.x;
        w[4 * c + 1] = raw.y;
        w[4 * c + 2] = raw.z;
        w[4 * c + 3] = raw.w;
    }
    if constexpr (D % 64 >= 32) {
        const uint2 raw = *(const uint2 *)(row + D / 64 * 64 + 4 * g);
        w[D / 64 * 4] = raw.x;
        w[D / 64 * 4 + 1] = raw.y;
    }
    if constexpr (D % 32 != 0)
        w[D / 16 - 1] = *(const uint32_t *)(row + D / 32 * 32 + 2 * g);
}

// The element of a row of values that word m of lane group g begins with.
template <int D> __device__ static inline uint32_t value_element(int m, uint32_t g)
{
    if (m < D / 64 * 4)
        return m / 4 * 64 + 8 * g + m % 4 * 2;
    if (D % 64 >= 32 && m < D / 64 * 4 + 2)
        return D / 64 * 64 + 4 * g + (m - D / 64 * 4) * 2;
    return D / 32 * 32 + 2 * g;
}

template <int KD, int VD>
__global__ void __launch_bounds__(32 * DECODE_WARPS)
    attention_decode_kernel(struct kva_attention_args a, uint32_t most_parts)
{
    grid_begin();
    __shared__ float sums[DECODE_WARPS][DECODE_HEADS][VD + 4];
    __shared__ float largests[DECODE_WARPS][DECODE_HEADS], weights[DECODE_WARPS][DECODE_HEADS];
    const struct kva_span span = a.spans[blockIdx.z];
    if (span.rows != 1)
        return;
    const uint32_t part = blockIdx.x, first = first_visible(span.past, (uint32_t)a.window);
    const uint32_t visible = span.past - first + 1, part_keys = part_keys_of(visible, most_parts);
    if ((uint64_t)part * part_keys >= visible)
        return;
    const uint32_t begin = first + part * part_keys, left = visible - part * part_keys;
    const uint32_t end = begin + (left < part_keys ? left : part_keys);
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;

    const uint32_t group = a.heads / a.kv_heads, chunks = (group + DECODE_HEADS - 1) / DECODE_HEADS;
    const uint32_t key_head = blockIdx.y / chunks, first_head = blockIdx.y % chunks * DECODE_HEADS;
    const uint32_t heads = group - first_head < DECODE_HEADS ? group - first_head : DECODE_HEADS;
    const key_rows<bf16> keys = keys_of<bf16>(a, span, key_head), values = values_of<bf16>(a, span, key_head);

    uint32_t q[KD / 8] = {};  // of head g of this block
    if (g < heads)
        load_key_row<KD>(q,
                         (const bf16 *)a.q + span.first_row * a.q_stride +
                             (uint64_t)query_head_of(a, key_head, first_head + g) * KD,
                         t);

    float sum[VD / 16][4] = {};  // [m][0, 1]: element value_element(m, g), heads 2 t and 2 t + 1; [2, 3]: the next one
    float largest[2] = {-INFINITY, -INFINITY}, weight[2] = {};  // of heads 2 t, 2 t + 1; log2; this lane's keys only
    const float to_cap = a.softcap > 0.0f ? a.scale / a.softcap : 0.0f;
    const float to_log2 = a.softcap > 0.0f ? LOG2E : a.scale * LOG2E;

    for (uint32_t p = begin + warp * WARP_KEYS; p < end; p += PART_KEYS) {
        const uint32_t base = keys.base_of(p), last = end - 1 - p;  // a key beyond the end repeats the last, masked
        uint32_t k[2][KD / 8], v[4][VD / 16];
#pragma unroll
        for (uint32_t i = 0; i < 2; i++)
            load_key_row<KD>(k[i], keys.at(p, base, min(g + 8 * i, last)), t);
#pragma unroll
        for (uint32_t i = 0; i < 4; i++)
            load_value_row<VD>(v[i], values.at(p, base, min(2 * t + i % 2 + 8 * (i / 2), last)), g);

        float s[4] = {};
#pragma unroll
        for (int step = 0; step < KD / 16; step++) {
            const uint32_t rows[4] = {k[0][2 * step], k[1][2 * step], k[0][2 * step + 1], k[1][2 * step + 1]};
            mma(s, rows, q[2 * step], q[2 * step + 1]);
        }
        if (a.softcap > 0.0f) {
#pragma unroll
            for (int i = 0; i < 4; i++)
                s[i] = a.softcap * tanhf(s[i] * to_cap);
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            s[i] = g + i / 2 * 8 <= last ? s[i] * to_log2 : -INFINITY;
        }
        float shrink[2];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float most = fmaxf(s[i], s[i + 2]);
#pragma unroll
            for (int offset = 4; offset < 32; offset *= 2)
                most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, offset));
            most = fmaxf(most, largest[i]);
            shrink[i] = exp2_fast(largest[i] - most);
            largest[i] = most;
            s[i] = exp2_fast(s[i] - most);
            s[i + 2] = exp2_fast(s[i + 2] - most);
            weight[i] = fmaf(weight[i], shrink[i], s[i] + s[i + 2]);
        }
        const uint32_t p0 = transpose_matrix(pack_bf16(s[0], s[1])), p1 = transpose_matrix(pack_bf16(s[2], s[3]));
#pragma unroll
        for (int m = 0; m < VD / 16; m++) {
#pragma unroll
            for (int i = 0; i < 4; i++)
                sum[m][i] *= shrink[i % 2];
            const uint32_t rows[4] = {__byte_perm(v[0][m], v[1][m], 0x5410), __byte_perm(v[0][m], v[1][m], 0x7632),
                                      __byte_perm(v[2][m], v[3][m], 0x5410), __byte_perm(v[2][m], v[3][m], 0x7632)};
            mma(sum[m], rows, p0, p1);
        }
    }

    // the four warps' results become the part's
#pragma unroll
    for (int i = 0; i < 2; i++) {
#pragma unroll
        for (int offset = 4; offset < 32; offset *= 2)
            weight[i] += __shfl_xor_sync(0xffffffffu, weight[i], offset);
        if (g == 0) {
            largests[warp][2 * t + i] = largest[i];
            weights[warp][2 * t + i] = weight[i];
        }
    }
#pragma unroll
    for (int m = 0; m < VD / 16; m++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            sums[warp][2 * t + i % 2][value_element<VD>(m, g) + i / 2] = sum[m][i];
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < heads * VD; i += 32 * DECODE_WARPS) {
        const uint32_t head = i / VD, element = i % VD;
        float most = -INFINITY, total = 0.0f, value = 0.0f;
#pragma unroll
        for (int w = 0; w < DECODE_WARPS; w++)
            most = fmaxf(most, largests[w][head]);
#pragma unroll
        for (int w = 0; w < DECODE_WARPS; w++) {
            const float factor = exp2_fast(largests[w][head] - most);
            total = fmaf(factor, weights[w][head], total);
            value = fmaf(factor, sums[w][head][element], value);
        }
        float *scratch = part_scratch(a, blockIdx.z, query_head_of(a, key_head, first_head + head), part);
        scratch[element] = value;
        if (element == 0) {
            scratch[VD] = most;
            scratch[VD + 1] = total;
        }
    }
}

// The dims that have an instance: key, and value as the product sees it.
#define DECODE_SHAPES(SHAPE)                                                                                           \
    SHAPE(16, 16) SHAPE(16, 32) SHAPE(32, 32) SHAPE(64, 64) SHAPE(64, 128) SHAPE(96, 96) SHAPE(128, 128) SHAPE(256, 256)

bool launch_attention_decode(struct kva_device *device, const struct kva_attention_args &a,
                             const struct attention_extent &extent)
{
    const uint32_t chunks = (uint32_t)divide_up(a.heads / a.kv_heads, DECODE_HEADS);
    const dim3 grid(extent.parts, a.kv_heads * chunks, a.n_spans);
    const uint32_t k = a.k_dim, v = out_width_of(a);
#define LAUNCH(KD, VD)                                                                                                 \
    if (k == KD && v == VD) {                                                                                          \
        KVA_LAUNCH((attention_decode_kernel<KD, VD>), grid, 32 * DECODE_WARPS, 0, device, a, extent.most_parts);       \
        return true;                                                                                                   \
    }
    DECODE_SHAPES(LAUNCH)
#undef LAUNCH
    return false;
}

cudaError_t prepare_attention_decode(void)
{
#define TOUCH(KD, VD) PREPARE(attention_decode_kernel<KD, VD>);
    DECODE_SHAPES(TOUCH)
#undef TOUCH
    return cudaSuccess;
}
