// Prefill attention in bf16 on tensor cores, after FlashAttention-2: a block takes a tile of query rows of one head and
// walks the keys they see, tile by tile in order of position, with a running softmax. Two stages of keys and values in
// shared memory: while one is used, cp.async fills the other. Rows in shared memory are padded by 16 bytes, which keeps
// ldmatrix free of bank conflicts for every width here.
#include "attention.cuh"

#include "ptx.cuh"

#include <stdio.h>

#define PREFILL_WARPS 4
#define PREFILL_THREADS (32 * PREFILL_WARPS)

// MT: 16-row tiles of one warp; BN: keys of one stage; SN: keys whose scores a warp holds at once, which is what its
// registers allow.
template <int KD, int VD, int MT, int BN, int SN> struct prefill_shape {
    static constexpr int BM = 16 * MT * PREFILL_WARPS;    // query rows of a block
    static constexpr int K_ROW = KD + 8, V_ROW = VD + 8;  // elements of a row in shared memory
    static constexpr size_t shared = sizeof(bf16) * (BM * K_ROW + 2 * BN * (K_ROW + V_ROW));
};

// Rows start .. start + BN - 1 (positions) of width D; positions outside first .. last become zeros.
template <int D, int BN>
__device__ static inline void fetch_tile(bf16 *to, const key_rows<bf16> &rows, uint32_t start, uint32_t first,
                                         uint32_t last)
{
    const uint32_t base = rows.base_of(start);
#pragma unroll
    for (int i = 0; i < BN * D / 8 / PREFILL_THREADS; i++) {
        const uint32_t at = threadIdx.x + i * PREFILL_THREADS, row = at / (D / 8), element = at % (D / 8) * 8;
        const bool in = start + row >= first && start + row <= last;
        copy_async(to + row * (D + 8) + element, (in ? rows.at(start, base, row) : rows.fresh) + element, in);
    }
}

// The running softmax's part of one step for one 16-row tile: s becomes weights, the older sums shrink.
template <int VD, int SN>
__device__ static inline void soften(float (&s)[SN / 8][4], float (&o)[VD / 8][4], float (&largest)[2],
                                     float (&weight)[2], float to_log2)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {  // rows g and g + 8
        float most = -INFINITY;
#pragma unroll
        for (int n = 0; n < SN / 8; n++)
            most = fmaxf(most, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
        most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
        most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
        most = fmaxf(most, largest[half]);
        const float offset = most == -INFINITY ? 0.0f : most * to_log2;  // a row that has seen no key yet
        const float shrink = exp2_fast(largest[half] * to_log2 - offset);
        largest[half] = most;
        float total = 0.0f;
#pragma unroll
        for (int n = 0; n < SN / 8; n++)
#pragma unroll
            for (int i = 2 * half; i < 2 * half + 2; i++) {
                s[n][i] = exp2_fast(fmaf(s[n][i], to_log2, -offset));
                total += s[n][i];
            }
        weight[half] = fmaf(weight[half], shrink, total);
        if (__any_sync(0xffffffffu, shrink != 1.0f)) {  // seldom, once a row has met its largest scores
#pragma unroll
            for (int n = 0; n < VD / 8; n++) {
                o[n][2 * half] *= shrink;
                o[n][2 * half + 1] *= shrink;
            }
        }
    }
}

template <int KD, int VD, int MT, int BN, int SN>
__global__ void __launch_bounds__(PREFILL_THREADS) attention_prefill_kernel(struct kva_attention_args a)
{
    grid_begin();
    typedef prefill_shape<KD, VD, MT, BN, SN> shape;
    KVA_DYNAMIC_SHARED(shared);
    bf16 *shared_q = (bf16 *)shared, *shared_k = shared_q + shape::BM * shape::K_ROW,
         *shared_v = shared_k + 2 * BN * shape::K_ROW;
    const struct kva_span span = a.spans[blockIdx.z];
    const uint32_t first_row = (gridDim.x - 1 - blockIdx.x) * shape::BM;  // the longest rows first
    if (span.rows <= 1 || first_row >= span.rows)
        return;
    const uint32_t head = blockIdx.y, key_head = key_head_of(a, head), window = (uint32_t)a.window;
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const uint32_t rows = span.rows - first_row < shape::BM ? span.rows - first_row : shape::BM;
    const uint32_t position = span.past + first_row;  // of the block's first row
    const uint32_t first = first_visible(position, window), last = position + rows - 1;
    const key_rows<bf16> keys = keys_of<bf16>(a, span, key_head), values = values_of<bf16>(a, span, key_head);

    const bf16 *q = (const bf16 *)a.q + ((uint64_t)span.first_row + first_row) * a.q_stride + (uint64_t)head * KD;
#pragma unroll
    for (int i = 0; i < shape::BM * KD / 8 / PREFILL_THREADS; i++) {
        const uint32_t at = threadIdx.x + i * PREFILL_THREADS, row = at / (KD / 8), element = at % (KD / 8) * 8;
        copy_async(shared_q + row * shape::K_ROW + element, q + (row < rows ? row : 0) * a.q_stride + element,
                   row < rows);
    }

    float o[MT][VD / 8][4] = {}, largest[MT][2], weight[MT][2] = {};
#pragma unroll
    for (int m = 0; m < MT; m++)
        largest[m][0] = largest[m][1] = -INFINITY;
    const float to_cap = a.softcap > 0.0f ? a.scale / a.softcap : 0.0f;
    const float to_log2 = a.softcap > 0.0f ? LOG2E : a.scale * LOG2E;
    const uint32_t warp_row = warp * 16 * MT, warp_first = position + warp_row, warp_last = warp_first + 16 * MT - 1;

    uint32_t start = first / BN * BN, stage = 0;
    fetch_tile<KD, BN>(shared_k, keys, start, first, last);
    fetch_tile<VD, BN>(shared_v, values, start, first, last);
    copy_commit();
    for (; start <= last; start += BN, stage ^= 1) {
        copy_wait<0>();
        __syncthreads();  // this stage is there, and every warp is done with the other
        if (start + BN <= last) {
            fetch_tile<KD, BN>(shared_k + (stage ^ 1) * BN * shape::K_ROW, keys, start + BN, first, last);
            fetch_tile<VD, BN>(shared_v + (stage ^ 1) * BN * shape::V_ROW, values, start + BN, first, last);
        }
        copy_commit();
#pragma unroll 1
        for (uint32_t part = 0; part < BN; part += SN) {
            const uint32_t from = start + part;  // position of the first key
            if (from > warp_last || from + SN <= first_visible(warp_first, window))
                continue;  // this warp's rows see none of these keys
            const bf16 *k = shared_k + (stage * BN + part) * shape::K_ROW,
                       *v = shared_v + (stage * BN + part) * shape::V_ROW;

            float s[MT][SN / 8][4] = {};
#pragma unroll
            for (int step = 0; step < KD / 16; step++) {
                uint32_t query[MT][4];
#pragma unroll
                for (int m = 0; m < MT; m++)
                    load_matrices(query[m], shared_q + (warp_row + 16 * m + lane % 16) * shape::K_ROW + 16 * step +
                                                lane / 16 * 8);
#pragma unroll
                for (int n = 0; n < SN / 16; n++) {
                    uint32_t key[4];
                    load_matrices(key, k + (16 * n + lane % 8 + lane / 16 * 8) * shape::K_ROW + 16 * step +
                                           lane / 8 % 2 * 8);
#pragma unroll
                    for (int m = 0; m < MT; m++) {
                        mma(s[m][2 * n], query[m], key[0], key[1]);
                        mma(s[m][2 * n + 1], query[m], key[2], key[3]);
                    }
                }
            }
            if (a.softcap > 0.0f) {
#pragma unroll
                for (int m = 0; m < MT; m++)
#pragma unroll
                    for (int n = 0; n < SN / 8; n++)
#pragma unroll
                        for (int i = 0; i < 4; i++)
                            s[m][n][i] = a.softcap * tanhf(s[m][n][i] * to_cap);
            }
            if (from + SN - 1 > warp_first || from < first_visible(warp_last, window)) {
#pragma unroll
                for (int m = 0; m < MT; m++)
#pragma unroll
                    for (int n = 0; n < SN / 8; n++)
#pragma unroll
                        for (int i = 0; i < 4; i++) {
                            const uint32_t key = from + 8 * n + 2 * t + i % 2,
                                           row = warp_first + 16 * m + g + i / 2 * 8;
                            if (key > row || (window > 0 && key + window <= row))
                                s[m][n][i] = -INFINITY;
                        }
            }
#pragma unroll
            for (int m = 0; m < MT; m++)
                soften<VD, SN>(s[m], o[m], largest[m], weight[m], to_log2);
#pragma unroll
            for (int step = 0; step < SN / 16; step++) {
                uint32_t weights[MT][4];
#pragma unroll
                for (int m = 0; m < MT; m++)
#pragma unroll
                    for (int i = 0; i < 4; i++) {
                        const float *pair = &s[m][2 * step + i / 2][i % 2 * 2];
                        weights[m][i] = pack_bf16(pair[0], pair[1]);
                    }
#pragma unroll
                for (int n = 0; n < VD / 16; n++) {
                    uint32_t value[4];
                    load_matrices_transposed(value,
                                             v + (16 * step + lane % 16) * shape::V_ROW + 16 * n + lane / 16 * 8);
#pragma unroll
                    for (int m = 0; m < MT; m++) {
                        mma(o[m][2 * n], weights[m], value[0], value[1]);
                        mma(o[m][2 * n + 1], weights[m], value[2], value[3]);
                    }
                }
            }
        }
    }

#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float total = weight[m][half];
            total += __shfl_xor_sync(0xffffffffu, total, 1);
            total += __shfl_xor_sync(0xffffffffu, total, 2);
            const uint32_t row = warp_row + 16 * m + g + 8 * half;
            if (row >= rows)
                continue;
            const float factor = 1.0f / total;
            bf16 *out = (bf16 *)a.out + ((uint64_t)span.first_row + first_row + row) * a.out_stride +
                        (uint64_t)head * VD + 2 * t;
#pragma unroll
            for (int n = 0; n < VD / 8; n++)
                *(uint32_t *)(out + 8 * n) = pack_bf16(o[m][n][2 * half] * factor, o[m][n][2 * half + 1] * factor);
        }
}

// The dims that have an instance: key, value as the product sees it; MT, BN, SN.
#define PREFILL_SHAPES(SHAPE)                                                                                          \
    SHAPE(16, 16, 1, 64, 64)                                                                                           \
    SHAPE(16, 32, 1, 64, 64)                                                                                           \
    SHAPE(32, 32, 1, 64, 64)                                                                                           \
    SHAPE(64, 64, 2, 64, 64)                                                                                           \
    SHAPE(64, 128, 2, 64, 32)                                                                                          \
    SHAPE(96, 96, 2, 64, 32)                                                                                           \
    SHAPE(128, 128, 2, 64, 32)                                                                                         \
    SHAPE(256, 256, 1, 32, 32)

bool launch_attention_prefill(struct kva_device *device, const struct kva_attention_args &a,
                              const struct attention_extent &extent)
{
    const uint32_t k = a.k_dim, v = out_width_of(a);
#define LAUNCH(KD, VD, MT, BN, SN)                                                                                     \
    if (k == KD && v == VD) {                                                                                          \
        typedef prefill_shape<KD, VD, MT, BN, SN> shape;                                                               \
        const dim3 grid((unsigned)divide_up(extent.rows, shape::BM), a.heads, a.n_spans);                              \
        KVA_LAUNCH((attention_prefill_kernel<KD, VD, MT, BN, SN>), grid, PREFILL_THREADS, shape::shared, device, a);   \
        return true;                                                                                                   \
    }
    PREFILL_SHAPES(LAUNCH)
#undef LAUNCH
    return false;
}

cudaError_t prepare_attention_prefill(void)
{
#define TOUCH(KD, VD, MT, BN, SN)                                                                                      \
    PREPARE(attention_prefill_kernel<KD, VD, MT, BN, SN>, prefill_shape<KD, VD, MT, BN, SN>::shared);
    PREFILL_SHAPES(TOUCH)
#undef TOUCH
    return cudaSuccess;
}
