// Rows and bytes of Transformers' cache classes: growing, static, quantized, and DeepSeek-V4's compressed ones.
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "engine/cache_bytes.h"
#include "engine/transformers.h"

// cache_utils.py DynamicSlidingWindowLayer.update: cat with what is there, then the slice [-window + 1 :] of it, which
// is a view. A window of 1 slices from 0 on and keeps everything.
static void view_rows(const struct kva_deployment *deployment, uint64_t window, struct kva_transformers_size *rows)
{
    const uint64_t tokens = deployment->context, left = window > 1 ? window - 1 : tokens;
    rows->logical = kva_min(tokens, left);
    rows->held = tokens == deployment->prompt ? tokens : kva_min(tokens, left < tokens ? window : tokens);
}

void kva_transformers_rows(const struct kva_call *call, enum kva_transformers_cache kind, uint64_t window,
                           struct kva_transformers_size *rows)
{
    const struct kva_transformers *behaviours = call->behaviours;
    const struct kva_deployment *deployment = call->deployment;
    const uint64_t length = deployment->context + (behaviours->static_rows == STATIC_ROWS_LENGTH ? 1 : 0);
    *rows = (struct kva_transformers_size){.logical = deployment->context, .held = deployment->context};
    if (kind != KVA_TRANSFORMERS_DYNAMIC) {
        // StaticLayer and StaticSlidingWindowLayer: max_cache_len rows, or min(window, max_cache_len), zeros at start;
        // HybridChunkedCache: the chunk, whatever max_cache_len is
        rows->logical = window > 0 && kind != KVA_TRANSFORMERS_STATIC_LONG ? kva_min(window, length) : length;
        if (window > 0 && kind == KVA_TRANSFORMERS_STATIC_CHUNKS)
            rows->logical = window;
        rows->held = rows->logical;
    } else if (window > 0 && behaviours->dynamic_windows == WINDOWS_VIEW)
        view_rows(deployment, window, rows);
    rows->rows = rows->held;
}

// ---------------------------------------------------------------- quantized

// Tokens that wait in full precision: QuantizedLayer.update quantizes everything anew once `residual` of them are
// there.
static uint64_t waiting(const struct kva_deployment *deployment)
{
    const uint64_t period = kva_max(deployment->residual_length, 2);
    return (deployment->context - deployment->prompt) % period;
}

// quanto: groups in whole bytes of `bits` packed across groups, the last byte's rest unused; hqq: packed inside a
// group.
static enum kva_status quantized_side(struct kva_call *call, uint64_t elements, uint64_t *bytes)
{
    const struct kva_deployment *deployment = call->deployment;
    const uint64_t group = deployment->kv_group_size, packed = 8 / deployment->kv_bits;
    const uint64_t element = kva_dtype_bytes(deployment->kv_dtype);
    const bool across = strcmp(deployment->cache_backend, "quanto") == 0;
    if (elements % group != 0)
        return kva_fail(call->error, KVA_REFUSED, NULL, "kv_group_size",
                        "%llu elements of keys or values are not a number of groups of %llu: %s refuses",
                        (unsigned long long)elements, (unsigned long long)group, deployment->cache_backend);
    const uint64_t groups = elements / group;
    const uint64_t rows = across ? groups / packed + (groups % packed != 0) : groups;
    const uint64_t row = across ? group : group / packed;
    if (!kva_add_product(bytes, rows, row) || !kva_add_product(bytes, groups, 2 * element))  // a scale and a zero point
        return kva_too_large(call);
    return KVA_OK;
}

enum kva_status kva_transformers_quantized(struct kva_call *call, uint64_t k_elements, uint64_t v_elements,
                                           struct kva_transformers_size *size)
{
    const struct kva_deployment *deployment = call->deployment;
    const uint64_t rest = waiting(deployment), rows = deployment->context - rest;
    const uint64_t sides[] = {k_elements, v_elements};
    *size = (struct kva_transformers_size){.rows = deployment->context};
    for (size_t s = 0; s < 2; s++) {
        uint64_t elements, whole;
        if (!kva_mul3(rows, sides[s], deployment->sequences, &elements) ||
            !kva_mul3(rest, sides[s], deployment->sequences, &whole) ||
            !kva_add_product(&size->held, whole, kva_dtype_bytes(deployment->kv_dtype)))
            return kva_too_large(call);
        enum kva_status status = quantized_side(call, elements, &size->held);
        if (status != KVA_OK)
            return status;
    }
    size->logical = size->held;
    return KVA_OK;
}

// ---------------------------------------------------------------- compressed

// Elements of one sequence; `held` of a buffer is the whole pass that it is a view of.
static bool add_rows(struct kva_transformers_size *size, uint64_t logical, uint64_t held, uint64_t elements)
{
    return kva_add_product(&size->logical, logical, elements) && kva_add_product(&size->held, held, elements);
}

// modeling_deepseek_v4.py store_compression_weights: tokens beyond whole rows wait, keys and gates; the buffer is a
// view of the pass, or of the waiting tokens and the new one.
static bool add_state(const struct kva_deployment *deployment, const struct kva_cache *cache, uint64_t ratio,
                      struct kva_transformers_size *size)
{
    const uint64_t tokens = deployment->context, left = tokens % ratio;
    const uint64_t held = tokens == deployment->prompt ? tokens : left == 0 ? ratio : left;
    for (size_t p = 0; p < cache->n_state; p++) {
        const struct kva_state_part *part = &cache->state[p];
        const bool buffer = strstr(part->name, "buffer") != NULL;
        const uint64_t whole =
            tokens >= ratio ? part->elements : 0;  // the last whole row's part that the next overlaps
        if (buffer ? !add_rows(size, left, held, part->elements / (ratio - 1)) : !add_rows(size, 1, 1, whole))
            return false;
    }
    return true;
}

enum kva_status kva_transformers_compressed(struct kva_call *call, const struct kva_layer *layer,
                                            struct kva_transformers_size *size)
{
    const struct kva_deployment *deployment = call->deployment;
    const uint64_t element = kva_dtype_bytes(deployment->kv_dtype);
    uint64_t ratio = 1;
    bool fits = true;
    *size = (struct kva_transformers_size){0};
    for (size_t c = 0; c < layer->n_caches; c++)
        ratio = kva_max(ratio, layer->caches[c].ratio);
    for (size_t c = 0; c < layer->n_caches && fits; c++) {
        const struct kva_cache *cache = &layer->caches[c];
        struct kva_transformers_size rows = {.logical = deployment->context / ratio,
                                             .held = deployment->context / ratio};
        // where rows are compressed keys and values are one tensor, elsewhere two of the same numbers
        const uint64_t dims = (uint64_t)cache->k_dim * (ratio == 1 ? 2 : 1);
        uint64_t row = 0;
        if (kva_cache_has_window(cache)) {
            view_rows(deployment, cache->window, &rows);
            size->rows = rows.held;
        }
        fits = kva_cache_is_state(cache)
                   ? ratio > 1 && add_state(deployment, cache, ratio, size)
                   : kva_mul(kva_max(cache->kv_heads, 1), dims, &row) && add_rows(size, rows.logical, rows.held, row);
    }
    if (!fits || !kva_mul(size->logical, element, &size->logical) || !kva_mul(size->held, element, &size->held))
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, NULL, "layer %u: its caches are more than 2^64 bytes",
                        layer->index);
    return KVA_OK;
}
