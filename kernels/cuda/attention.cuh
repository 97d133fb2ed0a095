// What the attention kernels share: which keys a query sees, where they lie, which heads go together, and how decode
// cuts a long cache. A partition and a tile depend on the visible positions alone, never on cache_rows, so that a ring
// and a full-length cache give the same bits.
#ifndef KVA_KERNELS_CUDA_ATTENTION_H
#define KVA_KERNELS_CUDA_ATTENTION_H

#include "cuda.cuh"

#define LOG2E 1.44269504088896341f

// Positions, rows and windows are below 2^31 (cuda_attention sees to it): sums of two fit uint32_t.
#define MAX_POSITION 0x7fffffffu

__host__ __device__ static inline uint32_t first_visible(uint32_t position, uint32_t window)
{
    return window > 0 && position + 1 > window ? position + 1 - window : 0;
}

__device__ static inline uint32_t key_head_of(const struct kva_attention_args &a, uint32_t head)
{
    const uint32_t group = a.heads / a.kv_heads;
    return a.paired ? 2 * (head / 2 / group) + head % 2 : head / group;
}

// The i-th query head that reads key head `key_head`.
__device__ static inline uint32_t query_head_of(const struct kva_attention_args &a, uint32_t key_head, uint32_t i)
{
    const uint32_t group = a.heads / a.kv_heads;
    return a.paired ? 2 * (key_head / 2 * group + i) + key_head % 2 : key_head * group + i;
}

// Offset in a row of v of what goes with `key_head`: with `paired`, two neighbouring value heads as one.
__device__ static inline uint64_t value_offset_of(const struct kva_attention_args &a, uint32_t key_head)
{
    return (uint64_t)(a.paired ? key_head / 2 * 2 : key_head) * a.v_dim;
}

__host__ __device__ static inline uint32_t out_width_of(const struct kva_attention_args &a)
{
    return a.paired ? 2 * a.v_dim : a.v_dim;
}

// The most keys of a step of any kernel: what key_rows::at takes.
#define MOST_STEP_KEYS 64u

// Where the keys or the values of one head of one sequence lie.
template <typename T> struct key_rows {
    const T *fresh, *cache;               // position `past`, and slot 0
    uint32_t fresh_stride, cache_stride;  // elements
    uint32_t past, cache_rows;            // positions from `past` on are fresh

    // The row at `start + i`, i < MOST_STEP_KEYS, base being start % cache_rows: one division for a step, and none of
    // the branches depends on the lane.
    __device__ const T *at(uint32_t start, uint32_t base, uint32_t i) const
    {
        uint32_t slot = base + i;
        slot = slot >= cache_rows ? slot - cache_rows : slot;
        if (cache_rows < MOST_STEP_KEYS && cache_rows > 0)
            slot %= cache_rows;
        const bool is_fresh = start + i >= past;
        const uint32_t row = is_fresh ? start + i - past : slot, stride = is_fresh ? fresh_stride : cache_stride;
        return (is_fresh ? fresh : cache) + (uint64_t)row * stride;
    }

    __device__ uint32_t base_of(uint32_t start) const { return cache_rows > 0 ? start % cache_rows : 0; }
};

template <typename T>
__device__ static inline key_rows<T> rows_of(const struct kva_attention_args &a, const struct kva_span &span,
                                             const void *rows, const void *cache, uint64_t row_stride, uint64_t width,
                                             uint64_t offset)
{
    key_rows<T> found;
    found.fresh = (const T *)rows + span.first_row * row_stride + offset;
    found.cache = (const T *)cache + span.sequence * a.cache_rows * width + offset;
    found.fresh_stride = (uint32_t)row_stride;
    found.cache_stride = (uint32_t)width;
    found.past = a.fresh ? span.past : UINT32_MAX;
    found.cache_rows = (uint32_t)a.cache_rows;
    return found;
}

template <typename T>
__device__ static inline key_rows<T> keys_of(const struct kva_attention_args &a, const struct kva_span &span,
                                             uint32_t key_head)
{
    return rows_of<T>(a, span, a.k, a.cache_k, a.k_stride, (uint64_t)a.kv_heads * a.k_dim,
                      (uint64_t)key_head * a.k_dim);
}

template <typename T>
__device__ static inline key_rows<T> values_of(const struct kva_attention_args &a, const struct kva_span &span,
                                               uint32_t key_head)
{
    return rows_of<T>(a, span, a.v, a.cache_v, a.v_stride, (uint64_t)a.kv_heads * a.v_dim,
                      value_offset_of(a, key_head));
}

// ---------------------------------------------------------------- parts of a one-row span

#define PART_KEYS 64u  // a part is a multiple of this: one step of the decode kernel
#define LEAST_PART_KEYS 128u

// Keys of one part. Part i of a span covers visible keys i * keys .. (i + 1) * keys - 1.
__host__ __device__ static inline uint32_t part_keys_of(uint32_t visible, uint32_t most_parts)
{
    const uint32_t keys = ((visible + most_parts - 1) / most_parts + PART_KEYS - 1) / PART_KEYS * PART_KEYS;
    return keys < LEAST_PART_KEYS ? LEAST_PART_KEYS : keys;
}

__device__ static inline float *part_scratch(const struct kva_attention_args &a, uint32_t span, uint32_t head,
                                             uint32_t part)
{
    const uint64_t width =
        out_width_of(a) + 2;  // the unscaled sum of values; the largest score, log2; the sum of weights
    return a.scratch + (((uint64_t)span * a.heads + head) * KVA_ATTENTION_SPLITS + part) * width;
}

// ---------------------------------------------------------------- the kernels' launchers

// What one launch covers: grid extents over the spans it is for.
struct attention_extent {
    uint32_t rows;        // most rows of a span
    uint32_t parts;       // most parts of a one-row span
    uint32_t most_parts;  // what part_keys_of takes
};

// The fast kernels return false when they have no instance for the dims.
bool launch_attention_decode(struct kva_device *device, const struct kva_attention_args &a,
                             const struct attention_extent &extent);
bool launch_attention_prefill(struct kva_device *device, const struct kva_attention_args &a,
                              const struct attention_extent &extent);
void launch_attention_combine(struct kva_device *device, const struct kva_attention_args &a,
                              const struct attention_extent &extent);
// Any dims up to MAX_PLAIN_DIM, any type.
#define MAX_PLAIN_DIM 512u
void launch_plain_decode(struct kva_device *device, const struct kva_attention_args &a,
                         const struct attention_extent &extent);
void launch_plain_prefill(struct kva_device *device, const struct kva_attention_args &a,
                          const struct attention_extent &extent);

#endif
