#include "engine/policies.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/text.h"
#include "engine/cache_bytes.h"

enum kva_status kva_assume(struct kva_assumptions *assumptions, struct kva_error *error, const char *format, ...)
{
    if (assumptions->n == KVA_MAX_ASSUMED)
        return kva_fail(error, KVA_BAD_INPUT, NULL, NULL, "more than %d things had to be assumed", KVA_MAX_ASSUMED);
    char line[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    const char *kept = kva_arena_strdup(assumptions->arena, line);
    if (kept == NULL)
        return kva_fail_memory(error, strlen(line) + 1);
    assumptions->text[assumptions->n++] = kept;
    return KVA_OK;
}

// ---------------------------------------------------------------- the deployment's blanks

static enum kva_status resolve_context(const struct kva_model *model, struct kva_deployment *deployment,
                                       struct kva_assumptions *assumptions, struct kva_error *error)
{
    char asked[KVA_HUMAN], limit[KVA_HUMAN];
    kva_human_count(model->context_limit, limit);
    if (deployment->context == 0) {
        if (model->context_limit == 0)
            return kva_fail(error, KVA_BAD_INPUT, model->source, "context",
                            "the config states no context limit, so a context must be given");
        deployment->context = model->context_limit;
        return kva_assume(assumptions, error, "context %s tokens: the model's limit, none was asked for", limit);
    }
    if (model->context_limit > 0 && deployment->context > model->context_limit)
        return kva_assume(assumptions, error, "context %s tokens is beyond the model's limit of %s: planned as asked",
                          kva_human_count(deployment->context, asked), limit);
    return KVA_OK;
}

static enum kva_status resolve_dtypes(const struct kva_model *model, struct kva_deployment *deployment,
                                      struct kva_assumptions *assumptions, struct kva_error *error)
{
    enum kva_status status = KVA_OK;
    const char *key = model->dtype_key != NULL && *model->dtype_key != '\0' ? model->dtype_key : "the model";
    if (deployment->model_dtype == KVA_DTYPE_NONE && model->dtype != KVA_DTYPE_NONE)
        deployment->model_dtype = model->dtype;
    else if (deployment->model_dtype == KVA_DTYPE_NONE) {
        deployment->model_dtype = KVA_BF16;
        status = kva_assume(assumptions, error, "dtype bf16: the config names none");
    }
    if (status != KVA_OK || deployment->kv_dtype != KVA_DTYPE_NONE)
        return status;
    deployment->kv_dtype = deployment->model_dtype;
    if (model->dtype == deployment->model_dtype)
        return kva_assume(assumptions, error, "KV dtype %s: from %s", kva_dtype_name(deployment->kv_dtype), key);
    return kva_assume(assumptions, error, "KV dtype %s: the model's", kva_dtype_name(deployment->kv_dtype));
}

// Encoder states are as long as the encoder's input, which the context does not tell.
static enum kva_status resolve_encoder(const struct kva_model *model, struct kva_deployment *deployment,
                                       struct kva_assumptions *assumptions, struct kva_error *error)
{
    char rows[KVA_HUMAN];
    bool asks = false;
    for (size_t i = 0; i < model->n_layers; i++)
        for (size_t c = 0; c < model->layers[i].n_caches; c++)
            asks =
                asks || (model->layers[i].caches[c].kind == KVA_CACHE_CROSS && model->layers[i].caches[c].length == 0);
    if (!asks || deployment->encoder_context > 0)
        return KVA_OK;
    deployment->encoder_context = deployment->context;
    return kva_assume(assumptions, error, "encoder input %s tokens: as long as the context, none was given",
                      kva_human_count(deployment->encoder_context, rows));
}

enum kva_status kva_policy_resolve(const struct kva_model *model, struct kva_deployment *deployment,
                                   struct kva_assumptions *assumptions, struct kva_error *error)
{
    enum kva_status status = KVA_OK;
    if (model->n_layers < model->all_layers)
        status =
            kva_assume(assumptions, error, "the first %zu of %zu layers: as asked", model->n_layers, model->all_layers);
    if (status == KVA_OK)
        status = resolve_context(model, deployment, assumptions, error);
    if (status == KVA_OK)
        status = resolve_dtypes(model, deployment, assumptions, error);
    if (status == KVA_OK)
        status = resolve_encoder(model, deployment, assumptions, error);
    if (status == KVA_OK && deployment->sequences == 0) {
        deployment->sequences = 1;
        status = kva_assume(assumptions, error, "1 sequence: none was asked for");
    }
    return status;
}

// ---------------------------------------------------------------- pools

// A cache that the policy gives a layer: `rows` rows, `bytes` bytes for one sequence.
struct owned {
    const struct kva_cache *cache;
    uint32_t layer;
    uint64_t rows, bytes;
    size_t pool;
};

static bool has_rows_of_its_own(const struct kva_cache *cache)
{
    return cache->kind == KVA_CACHE_LATENT || cache->kind == KVA_CACHE_INDEX || cache->kind == KVA_CACHE_CROSS;
}

// Caches of one shape make one pool.
static bool same_pool(const struct owned *a, const struct owned *b)
{
    const struct kva_cache *ca = a->cache, *cb = b->cache;
    if (kva_cache_is_state(ca) || kva_cache_is_state(cb))
        return kva_cache_same_shape(ca, cb);
    bool rows_differ_in_kind = has_rows_of_its_own(ca) || has_rows_of_its_own(cb);
    return a->rows == b->rows && ca->ratio == cb->ratio && ca->kv_heads == cb->kv_heads && ca->k_dim == cb->k_dim &&
           ca->v_dim == cb->v_dim && (!rows_differ_in_kind || ca->kind == cb->kind);
}

static const char *pool_name(struct kva_arena *arena, const struct owned *first, uint64_t context, bool with_shape)
{
    const struct kva_cache *cache = first->cache;
    enum kva_cache_kind kind = cache->kind;
    bool window = kva_cache_has_window(cache) && first->rows < context;
    if (kva_cache_has_window(cache) && !window)
        kind = KVA_CACHE_FULL;
    const char *name = kva_cache_kind_name(kind);
    if (kva_cache_is_state(cache))
        return with_shape ? kva_arena_printf(arena, "%s %llu B", name, (unsigned long long)first->bytes)
                          : kva_arena_strdup(arena, name);
    if (window)
        name = kva_arena_printf(arena, "%s %llu", name, (unsigned long long)first->rows);
    else if (cache->ratio > 1)
        name = kva_arena_printf(arena, "%s of every %u tokens", name, cache->ratio);
    if (name == NULL || !with_shape)
        return name;
    return kva_arena_printf(arena, "%s, %u x (%u + %u)", name, cache->kv_heads, cache->k_dim, cache->v_dim);
}

// Two pools of one name (full caches of two head sizes) are told apart by their shape.
static bool name_pools(struct kva_arena *arena, const struct owned *const *firsts, uint64_t context,
                       struct kva_engine_allocation *allocation)
{
    size_t n = allocation->n_pools;
    bool *twice = kva_arena_alloc(arena, n + 1, sizeof *twice);
    if (twice == NULL)
        return false;
    for (size_t p = 0; p < n; p++) {
        allocation->pools[p].name = pool_name(arena, firsts[p], context, false);
        if (allocation->pools[p].name == NULL)
            return false;
        for (size_t q = 0; q < p; q++)
            if (strcmp(allocation->pools[p].name, allocation->pools[q].name) == 0)
                twice[p] = twice[q] = true;
    }
    for (size_t p = 0; p < n; p++)
        if (twice[p] && (allocation->pools[p].name = pool_name(arena, firsts[p], context, true)) == NULL)
            return false;
    return true;
}

static enum kva_status make_pools(struct owned *owned, size_t n_owned, const struct kva_deployment *deployment,
                                  struct kva_arena *arena, struct kva_engine_allocation *allocation,
                                  struct kva_error *error)
{
    const struct owned **firsts = kva_arena_alloc(arena, n_owned + 1, sizeof *firsts);
    allocation->pools = kva_arena_alloc(arena, n_owned + 1, sizeof *allocation->pools);
    if (firsts == NULL || allocation->pools == NULL)
        return kva_fail_memory(error, n_owned * sizeof *allocation->pools);
    for (size_t i = 0; i < n_owned; i++) {
        size_t p = 0;
        while (p < allocation->n_pools && !same_pool(firsts[p], &owned[i]))
            p++;
        if (p == allocation->n_pools)
            firsts[allocation->n_pools++] = &owned[i];
        owned[i].pool = p;
        allocation->pools[p].n_layers++;
    }
    for (size_t p = 0; p < allocation->n_pools; p++) {
        struct kva_pool *pool = &allocation->pools[p];
        pool->layers = kva_arena_alloc(arena, pool->n_layers, sizeof *pool->layers);
        if (pool->layers == NULL)
            return kva_fail_memory(error, pool->n_layers * sizeof *pool->layers);
        pool->block_tokens = firsts[p]->rows;
        pool->page_bytes = firsts[p]->bytes;
        if (!kva_mul(pool->n_layers, deployment->sequences, &pool->blocks) ||
            !kva_mul(pool->blocks, pool->page_bytes, &pool->bytes))
            return kva_fail(error, KVA_BAD_INPUT, NULL, NULL, "the caches are more than 2^64 bytes");
        pool->n_layers = 0;
    }
    for (size_t i = 0; i < n_owned; i++) {
        struct kva_pool *pool = &allocation->pools[owned[i].pool];
        pool->layers[pool->n_layers++] = owned[i].layer;
    }
    if (!name_pools(arena, firsts, deployment->context, allocation))
        return kva_fail_memory(error, n_owned * sizeof(char *));
    return KVA_OK;
}

// ---------------------------------------------------------------- layers

// The cache, with the encoder's length as deployed where the config does not tell it.
static enum kva_status deployed(const struct kva_cache **cache, const struct kva_deployment *deployment,
                                struct kva_arena *arena, struct kva_error *error)
{
    if ((*cache)->kind != KVA_CACHE_CROSS || (*cache)->length > 0)
        return KVA_OK;
    struct kva_cache *copy = kva_arena_alloc(arena, 1, sizeof *copy);
    if (copy == NULL)
        return kva_fail_memory(error, sizeof *copy);
    *copy = **cache;
    copy->length = deployment->encoder_context;
    *cache = copy;
    return KVA_OK;
}

static enum kva_status own(const struct kva_policy *policy, const struct kva_cache *cache, uint32_t layer,
                           const struct kva_deployment *deployment, struct owned *owned, struct kva_error *error)
{
    *owned = (struct owned){.cache = cache, .layer = layer};
    if (kva_cache_is_state(cache))
        return kva_cache_state_bytes(cache, deployment->model_dtype, &owned->bytes, error);
    uint64_t row;
    enum kva_status status = kva_cache_row_bytes(cache, deployment->kv_dtype, &row, error);
    if (status != KVA_OK)
        return status;
    owned->rows = policy->rows(cache, deployment->context);
    if (!kva_mul(owned->rows, row, &owned->bytes))
        return kva_fail(error, KVA_BAD_INPUT, NULL, NULL, "layer %u: %llu rows of %llu bytes are more than 2^64 bytes",
                        layer, (unsigned long long)owned->rows, (unsigned long long)row);
    return KVA_OK;
}

enum kva_status kva_policy_allocate(const struct kva_policy *policy, const struct kva_model *model,
                                    const struct kva_deployment *deployment, struct kva_arena *arena,
                                    struct kva_engine_allocation *allocation, struct kva_error *error)
{
    struct owned *owned = kva_arena_alloc(arena, model->n_layers * KVA_MAX_CACHES + 1, sizeof *owned);
    allocation->layers = kva_arena_alloc(arena, model->n_layers + 1, sizeof *allocation->layers);
    if (owned == NULL || allocation->layers == NULL)
        return kva_fail_memory(error, model->n_layers * KVA_MAX_CACHES * sizeof *owned);
    size_t n_owned = 0;
    for (size_t i = 0; i < model->n_layers; i++) {
        const struct kva_layer *layer = &model->layers[i];
        struct kva_engine_layer *out = &allocation->layers[i];
        for (size_t c = 0; c < layer->n_caches; c++) {
            const struct kva_cache *cache = &layer->caches[c];
            if (cache->kind == KVA_CACHE_NONE || (policy->shares && cache->reads_layer >= 0))
                continue;
            struct owned *mine = &owned[n_owned];
            enum kva_status status = deployed(&cache, deployment, arena, error);
            if (status == KVA_OK)
                status = own(policy, cache, layer->index, deployment, mine, error);
            if (status != KVA_OK)
                return status;
            if (!kva_add_product(&out->bytes, mine->bytes, deployment->sequences))
                return kva_fail(error, KVA_BAD_INPUT, NULL, NULL, "layer %u: its caches are more than 2^64 bytes",
                                layer->index);
            out->rows = kva_max(out->rows, mine->rows);
            n_owned++;
        }
    }
    return make_pools(owned, n_owned, deployment, arena, allocation, error);
}
