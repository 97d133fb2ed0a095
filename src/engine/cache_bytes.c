#include "engine/cache_bytes.h"

#include "base/checked.h"
#include "base/error.h"
#include "engine/kv_types.h"

const char *kva_cache_kind_name(enum kva_cache_kind kind)
{
    static const char *const NAMES[] = {
        [KVA_CACHE_NONE] = "none",       [KVA_CACHE_FULL] = "full",     [KVA_CACHE_SLIDING] = "sliding",
        [KVA_CACHE_CHUNKED] = "chunked", [KVA_CACHE_LATENT] = "latent", [KVA_CACHE_INDEX] = "index",
        [KVA_CACHE_STATE] = "state",     [KVA_CACHE_CROSS] = "cross",
    };
    return (size_t)kind < sizeof NAMES / sizeof *NAMES ? NAMES[kind] : "unknown";
}

bool kva_model_has_cache(const struct kva_model *model, enum kva_cache_kind kind)
{
    for (size_t i = 0; i < model->n_layers; i++)
        for (size_t c = 0; c < model->layers[i].n_caches; c++)
            if (model->layers[i].caches[c].kind == kind)
                return true;
    return false;
}

bool kva_model_shares(const struct kva_model *model)
{
    for (size_t i = 0; i < model->n_layers; i++)
        for (size_t c = 0; c < model->layers[i].n_caches; c++)
            if (model->layers[i].caches[c].reads_layer >= 0)
                return true;
    return false;
}

bool kva_model_window_binds(const struct kva_model *model, uint64_t context)
{
    for (size_t i = 0; i < model->n_layers; i++)
        for (size_t c = 0; c < model->layers[i].n_caches; c++) {
            const struct kva_cache *cache = &model->layers[i].caches[c];
            if ((kva_cache_has_window(cache) || cache->window_long) && cache->window < context)
                return true;
        }
    return false;
}

uint64_t kva_cache_full_rows(const struct kva_cache *cache, uint64_t context)
{
    if (!kva_cache_has_rows(cache))
        return 0;
    if (cache->kind == KVA_CACHE_CROSS)
        return cache->length;
    return cache->ratio > 1 ? context / cache->ratio : context;
}

uint64_t kva_cache_rows(const struct kva_cache *cache, uint64_t context)
{
    const bool binds = kva_cache_has_window(cache) || cache->window_long;
    return kva_cache_full_rows(cache, binds ? kva_min(cache->window, context) : context);
}

enum kva_status kva_cache_token_bytes(const struct kva_cache *cache, const struct kva_kv_type *format, uint64_t *bytes,
                                      struct kva_error *error)
{
    *bytes = 0;
    if (cache->reads_layer >= 0 || cache->kind == KVA_CACHE_CROSS)
        return KVA_OK;
    enum kva_status status = kva_cache_format_bytes(cache, format, bytes, error);
    if (status == KVA_OK && cache->ratio > 1)
        *bytes /= cache->ratio;
    return status;
}

enum kva_status kva_cache_format_bytes(const struct kva_cache *cache, const struct kva_kv_type *format, uint64_t *bytes,
                                       struct kva_error *error)
{
    if (cache->kind == KVA_CACHE_CROSS && cache->length == 0)
        return kva_fail(error, KVA_REFUSED, NULL, NULL,
                        "a cache of encoder states is as long as the encoder's input, which no context tells");
    *bytes = 0;
    if (!kva_cache_has_rows(cache))
        return KVA_OK;
    if (format->k.bits == 0)
        return kva_fail(error, KVA_BAD_INPUT, NULL, "kv_dtype", "the element type of the cache is not known");
    if (!kva_kv_row_bytes(format, cache->kv_heads, cache->k_dim, cache->v_dim, bytes))
        return kva_fail(error, KVA_BAD_INPUT, NULL, NULL, "%u heads of %u + %u elements are more than 2^64 bytes",
                        cache->kv_heads, cache->k_dim, cache->v_dim);
    return KVA_OK;
}

enum kva_status kva_cache_state_bytes(const struct kva_cache *cache, enum kva_dtype model_dtype, uint64_t *bytes,
                                      struct kva_error *error)
{
    uint64_t total = 0;
    for (size_t p = 0; kva_cache_is_state(cache) && p < cache->n_state; p++) {
        const struct kva_state_part *part = &cache->state[p];
        uint64_t element = kva_dtype_bytes(part->dtype != KVA_DTYPE_NONE ? part->dtype : model_dtype);
        if (element == 0)
            return kva_fail(error, KVA_BAD_INPUT, NULL, "dtype", "the element type of the %s state is not known",
                            part->name);
        if (!kva_add_product(&total, part->elements, element))
            return kva_fail(error, KVA_BAD_INPUT, NULL, NULL, "the %s state is more than 2^64 bytes", part->name);
    }
    *bytes = total;
    return KVA_OK;
}

bool kva_cache_same_shape(const struct kva_cache *a, const struct kva_cache *b)
{
    if (a->kind != b->kind || a->kv_heads != b->kv_heads || a->k_dim != b->k_dim || a->v_dim != b->v_dim ||
        a->n_state != b->n_state || a->ratio != b->ratio || a->length != b->length ||
        (kva_cache_has_window(a) && a->window != b->window))
        return false;
    for (size_t p = 0; p < a->n_state; p++)
        if (a->state[p].elements != b->state[p].elements || a->state[p].dtype != b->state[p].dtype)
            return false;
    return true;
}
