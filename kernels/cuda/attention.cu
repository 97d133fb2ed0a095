// Attention's entry: checks, the choice of kernels. Spans of one row go through the decode kernels, the others through
// the prefill kernels; a mixed pass launches both over all spans, and each skips the other's.
#include "attention.cuh"

#include <stdio.h>

// The tensor-core kernels move 16 bytes at a time.
static bool fast_shape(const struct kva_device *device, const struct kva_attention_args *a)
{
    return device->act == KVA_BF16 && a->q_stride % 8 == 0 && a->k_stride % 8 == 0 && a->v_stride % 8 == 0 &&
           a->out_stride % 2 == 0 && aligned16(a->q) && aligned16(a->k) && aligned16(a->v) && aligned16(a->cache_k) &&
           aligned16(a->cache_v) && ((uintptr_t)a->out & 3) == 0;
}

// Blocks to fill the device about three times with the parts of one sequence.
static uint32_t most_parts_of(const struct kva_device *device, const struct kva_attention_args *a)
{
    const uint32_t parts = 3 * device->multiprocessors / a->kv_heads;
    return parts < 1 ? 1 : parts > KVA_ATTENTION_SPLITS ? KVA_ATTENTION_SPLITS : parts;
}

static enum kva_status attention_extents(struct kva_device *device, const struct kva_attention_args *a,
                                         struct attention_extent *extent, struct kva_error *error)
{
    *extent = {};
    extent->most_parts = most_parts_of(device, a);
    for (uint32_t s = 0; s < a->n_spans; s++) {
        const struct kva_span *span = &a->host_spans[s];
        if ((uint64_t)span->past + span->rows > MAX_POSITION)
            return kva_fail(error, KVA_BAD_INPUT, NULL, "attention", "position %llu: at most %u are supported",
                            (u64)span->past + span->rows, MAX_POSITION);
        if (span->rows == 1) {
            const uint32_t visible = span->past - first_visible(span->past, (uint32_t)a->window) + 1;
            const uint32_t parts = (uint32_t)divide_up(visible, part_keys_of(visible, extent->most_parts));
            extent->parts = parts > extent->parts ? parts : extent->parts;
        } else if (span->rows > extent->rows) {
            extent->rows = span->rows;
        }
    }
    return KVA_OK;
}

enum kva_status cuda_attention(struct kva_device *device, const struct kva_attention_args *all, struct kva_error *error)
{
    struct kva_attention_args a = *all;
    if (a.n_spans == 0)
        return KVA_OK;
    if (a.kv_heads == 0 || a.heads % a.kv_heads != 0 || (a.paired && a.kv_heads % 2 != 0) || a.heads > MAX_GRID_YZ ||
        a.k_dim > MAX_PLAIN_DIM || out_width_of(a) > MAX_PLAIN_DIM || a.cache_rows > MAX_POSITION ||
        a.k_stride > UINT32_MAX || a.v_stride > UINT32_MAX)
        return kva_fail(error, KVA_BAD_INPUT, NULL, "attention",
                        "no kernel for %u heads, %u kv heads, dims %u and %u, %llu cache rows", a.heads, a.kv_heads,
                        a.k_dim, a.v_dim, (u64)a.cache_rows);
    if (a.window > MAX_POSITION)
        a.window = 0;  // it never binds
    const bool fast = fast_shape(device, &a);
    for (uint32_t first = 0; first < all->n_spans; first += a.n_spans) {
        a.n_spans = (uint32_t)at_most(all->n_spans - first, MAX_GRID_YZ);
        a.spans = all->spans + first;
        a.host_spans = all->host_spans + first;
        a.scratch = all->scratch + (uint64_t)first * a.heads * KVA_ATTENTION_SPLITS * (out_width_of(a) + 2);
        struct attention_extent extent;
        const enum kva_status status = attention_extents(device, &a, &extent, error);
        if (status != KVA_OK)
            return status;
        if (extent.rows > 0 && !(fast && launch_attention_prefill(device, a, extent)))
            launch_plain_prefill(device, a, extent);
        if (extent.parts > 0) {
            if (!(fast && launch_attention_decode(device, a, extent)))
                launch_plain_decode(device, a, extent);
            launch_attention_combine(device, a, extent);
        }
        CHECK_LAUNCH(error, "attention", "%u spans, %u rows, %u parts, %u heads, %u kv heads, dims %u and %u",
                     a.n_spans, extent.rows, extent.parts, a.heads, a.kv_heads, a.k_dim, a.v_dim);
    }
    return KVA_OK;
}
