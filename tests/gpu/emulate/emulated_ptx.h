// The instructions of kernels/cuda/ptx.cuh, as exchanges between a warp's lanes.
#ifndef KVA_EMULATED_PTX_H
#define KVA_EMULATED_PTX_H

#include <cuda_bf16.h>
#include <cuda_runtime.h>

static inline float exp2_fast(float x)
{
    return exp2f(x);
}

static inline uint32_t pack_bf16(float low, float high)
{
    return __float2bfloat16_rn(low).bits | (uint32_t)__float2bfloat16_rn(high).bits << 16;
}

static inline float emulated_half(uint32_t pair, unsigned i)
{
    return __bfloat162float(__nv_bfloat16{(uint16_t)(pair >> (16 * i))});
}

static inline void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    const uint32_t mine[6] = {a[0], a[1], a[2], a[3], b0, b1};
    size_t stride;
    const unsigned char *all = emulated_exchange(mine, sizeof mine, &stride);
    const unsigned g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    for (unsigned i = 0; i < 4; i++) {
        const unsigned row = g + i / 2 * 8, column = 2 * t + i % 2;
        float sum = 0.0f;
        for (unsigned k = 0; k < 16; k++) {
            // A[row][k] and B[k][column]: which lane, which of its words, which half
            const unsigned a_lane = row % 8 * 4 + k % 8 / 2, a_word = row / 8 + k / 8 * 2;
            const unsigned b_lane = column * 4 + k % 8 / 2, b_word = 4 + k / 8;
            uint32_t a_pair, b_pair;
            memcpy(&a_pair, all + a_lane * stride + 4 * a_word, 4);
            memcpy(&b_pair, all + b_lane * stride + 4 * b_word, 4);
            sum += emulated_half(a_pair, k % 2) * emulated_half(b_pair, k % 2);
        }
        d[i] += sum;
    }
}

static inline void emulated_matrices(uint32_t (&r)[4], const void *row, bool transposed)
{
    size_t stride;
    const unsigned char *all = emulated_exchange(&row, sizeof row, &stride);
    const unsigned g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    for (unsigned i = 0; i < 4; i++) {
        uint16_t pair[2];
        for (unsigned j = 0; j < 2; j++) {
            const unsigned from = transposed ? 2 * t + j : g, element = transposed ? g : 2 * t + j;
            const uint16_t *elements;
            memcpy(&elements, all + (8 * i + from) * stride, sizeof elements);
            pair[j] = elements[element];
        }
        r[i] = pair[0] | (uint32_t)pair[1] << 16;
    }
    // no lane goes on, perhaps to overwrite the matrix, before all have read it
    emulated_exchange(&row, sizeof row, &stride);
}

static inline void load_matrices(uint32_t (&r)[4], const void *row)
{
    emulated_matrices(r, row, false);
}

static inline void load_matrices_transposed(uint32_t (&r)[4], const void *row)
{
    emulated_matrices(r, row, true);
}

static inline uint32_t transpose_matrix(uint32_t pair)
{
    size_t stride;
    const unsigned char *all = emulated_exchange(&pair, sizeof pair, &stride);
    const unsigned g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    uint32_t first, second;  // [2 t][g] and [2 t + 1][g]
    memcpy(&first, all + (2 * t * 4 + g / 2) * stride, 4);
    memcpy(&second, all + ((2 * t + 1) * 4 + g / 2) * stride, 4);
    return (first >> (16 * (g % 2)) & 0xffff) | (second >> (16 * (g % 2)) & 0xffff) << 16;
}

static inline void prefetch_l2(const void *p)
{
    (void)*(const volatile char *)p;  // must at least be memory
}

static inline void copy_async(void *to, const void *from, bool in)
{
    emulated_copy_async(to, from, in);
}

static inline void copy_commit(void)
{
    emulated_copy_commit();
}

template <int LEFT> static inline void copy_wait(void)
{
    emulated_copy_wait(LEFT);
}

#endif
