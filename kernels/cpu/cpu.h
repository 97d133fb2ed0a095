// The CPU backend's insides: the device, and rows of either element type as float32.
#ifndef KVA_KERNELS_CPU_H
#define KVA_KERNELS_CPU_H

#include <string.h>

#include "base/bf16.h"
#include "base/error.h"
#include "kernels/kernels.h"

enum {
    SCRATCH_FLOATS = 4 << 20,  // of each of the two conversion blocks of a matrix product
    MAX_HEAD_WIDTH = 2048,     // of one head's key or output row
    MAX_STATE = 256,           // recurrent state elements of one channel
    MAX_TAPS = 16,
};

struct kva_device {
    enum kva_dtype act;
    uint64_t page_bytes, context_bytes, free_bytes;
    uint64_t mapped_bytes;               // by the allocations that are alive, as the system counted them
    float *x_block, *w_block, *y_block;  // [SCRATCH_FLOATS]; x and w only for bf16
    bool profile;
    double stage_start, stage_ms[KVA_N_STAGES];
    uint64_t stage_calls[KVA_N_STAGES];
};

static inline float kva_load(enum kva_dtype dtype, const void *base, uint64_t index)
{
    return dtype == KVA_F32 ? ((const float *)base)[index] : kva_bf16_to_f32(((const uint16_t *)base)[index]);
}

static inline void kva_store(enum kva_dtype dtype, void *base, uint64_t index, float value)
{
    if (dtype == KVA_F32)
        ((float *)base)[index] = value;
    else
        ((uint16_t *)base)[index] = kva_f32_to_bf16(value);
}

// n elements from `index` on as float32: the memory itself when it is float32, else converted into `buffer`.
static inline const float *kva_row(enum kva_dtype dtype, const void *base, uint64_t index, uint64_t n, float *buffer)
{
    if (dtype == KVA_F32)
        return (const float *)base + index;
    for (uint64_t i = 0; i < n; i++)
        buffer[i] = kva_bf16_to_f32(((const uint16_t *)base)[index + i]);
    return buffer;
}

// The operations, each as kernels.h says.
enum kva_status kva_cpu_linear(struct kva_device *, const struct kva_linear_args *, struct kva_error *);
enum kva_status kva_cpu_norm(struct kva_device *, const struct kva_norm_args *, struct kva_error *);
enum kva_status kva_cpu_head_norm(struct kva_device *, const struct kva_head_norm_args *, struct kva_error *);
enum kva_status kva_cpu_rope(struct kva_device *, const struct kva_rope_args *, struct kva_error *);
enum kva_status kva_cpu_attention(struct kva_device *, const struct kva_attention_args *, struct kva_error *);
enum kva_status kva_cpu_cache_write(struct kva_device *, const struct kva_cache_write_args *, struct kva_error *);
enum kva_status kva_cpu_differential(struct kva_device *, const struct kva_differential_args *, struct kva_error *);
enum kva_status kva_cpu_conv(struct kva_device *, const struct kva_conv_args *, struct kva_error *);
enum kva_status kva_cpu_scan(struct kva_device *, const struct kva_scan_args *, struct kva_error *);
enum kva_status kva_cpu_fill(struct kva_device *, const struct kva_fill_args *, struct kva_error *);
enum kva_status kva_cpu_embed(struct kva_device *, const void *table, const uint32_t *tokens, float *out, uint64_t rows,
                              uint64_t width, float scale, struct kva_error *);
enum kva_status kva_cpu_add_bias(struct kva_device *, void *x, const void *bias, uint64_t rows, uint64_t width,
                                 uint64_t stride, bool x_f32, struct kva_error *);
enum kva_status kva_cpu_add(struct kva_device *, float *x, const void *y, uint64_t rows, uint64_t width,
                            struct kva_error *);
enum kva_status kva_cpu_glu(struct kva_device *, const struct kva_glu_args *, struct kva_error *);
enum kva_status kva_cpu_gate(struct kva_device *, const struct kva_gate_args *, struct kva_error *);
enum kva_status kva_cpu_gather(struct kva_device *, void *to, uint64_t to_stride, const void *from,
                               uint64_t from_stride, const uint32_t *rows_index, uint64_t rows, uint64_t bytes,
                               struct kva_error *);
enum kva_status kva_cpu_softcap(struct kva_device *, float *x, uint64_t elements, float cap, struct kva_error *);
enum kva_status kva_cpu_argmax(struct kva_device *, const float *x, uint64_t rows, uint64_t width, uint32_t *tokens,
                               struct kva_error *);
enum kva_status kva_cpu_ceilings(struct kva_device *, uint64_t side, double *read_rate, double *flop_rate,
                                 struct kva_error *);

#endif
