#include "engine/policies.h"

#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "engine/budget.h"
#include "engine/cache_bytes.h"
#include "engine/parallel.h"

// ---------------------------------------------------------------- pools

// A cache that the policy gives a layer: `rows` rows, `bytes` bytes for one sequence.
struct owned {
    struct kva_cache cache;
    uint32_t layer, stage;
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
    const struct kva_cache *ca = &a->cache, *cb = &b->cache;
    if (kva_cache_is_state(ca) || kva_cache_is_state(cb))
        return kva_cache_same_shape(ca, cb);
    bool rows_differ_in_kind = has_rows_of_its_own(ca) || has_rows_of_its_own(cb);
    return a->rows == b->rows && ca->ratio == cb->ratio && ca->kv_heads == cb->kv_heads && ca->k_dim == cb->k_dim &&
           ca->v_dim == cb->v_dim && (!rows_differ_in_kind || ca->kind == cb->kind);
}

static const char *pool_name(struct kva_arena *arena, const struct owned *first, uint64_t context, bool with_shape)
{
    const struct kva_cache *cache = &first->cache;
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

// What a rank holds of the cache, with the encoder's length as deployed where the config does not tell it.
static struct kva_cache deployed(const struct kva_call *call, const struct kva_cache *cache)
{
    struct kva_cache share = kva_cache_on_rank(cache, call->deployment->tp);
    if (share.kind == KVA_CACHE_CROSS && share.length == 0)
        share.length = call->deployment->encoder_context;
    return share;
}

static enum kva_status own(struct kva_call *call, const struct kva_policy *policy, uint32_t layer, struct owned *owned)
{
    const struct kva_deployment *deployment = call->deployment;
    if (kva_cache_is_state(&owned->cache))
        return kva_cache_state_bytes(&owned->cache, deployment->model_dtype, &owned->bytes, call->error);
    uint64_t row;
    enum kva_status status = kva_cache_format_bytes(&owned->cache, &call->kv_format, &row, call->error);
    if (status != KVA_OK)
        return status;
    owned->rows = kva_rows_on_rank(&owned->cache, policy->rows(&owned->cache, deployment->context), deployment->dcp);
    if (!kva_mul(owned->rows, row, &owned->bytes))
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, NULL,
                        "layer %u: %llu rows of %llu bytes are more than 2^64 bytes", layer,
                        (unsigned long long)owned->rows, (unsigned long long)row);
    return KVA_OK;
}

static enum kva_status place(struct kva_call *call, struct kva_engine_allocation *allocation)
{
    const uint32_t *stage_of;
    enum kva_status status = kva_stages_lay(call, kva_stages_even, &stage_of);
    for (size_t i = 0; status == KVA_OK && i < call->model->n_layers; i++)
        allocation->layers[i].stage = stage_of[i];
    return status;
}

// Only what the rank that holds most has. Returns how many are left.
static size_t keep_stage(struct owned *owned, size_t n_owned, uint32_t stage)
{
    size_t kept = 0;
    for (size_t i = 0; i < n_owned; i++)
        if (owned[i].stage == stage)
            owned[kept++] = owned[i];
    return kept;
}

enum kva_status kva_policy_allocate(struct kva_call *call, const struct kva_policy *policy,
                                    struct kva_engine_allocation *allocation)
{
    const struct kva_model *model = call->model;
    struct owned *owned = kva_arena_alloc(call->arena, model->n_layers * KVA_MAX_CACHES + 1, sizeof *owned);
    if (owned == NULL)
        return kva_fail_memory(call->error, model->n_layers * KVA_MAX_CACHES * sizeof *owned);
    size_t n_owned = 0;
    enum kva_status status = place(call, allocation);
    for (size_t i = 0; status == KVA_OK && i < model->n_layers; i++) {
        const struct kva_layer *layer = &model->layers[i];
        struct kva_engine_layer *out = &allocation->layers[i];
        for (size_t c = 0; status == KVA_OK && c < layer->n_caches; c++) {
            const struct kva_cache *cache = &layer->caches[c];
            if (cache->kind == KVA_CACHE_NONE || (policy->shares && cache->reads_layer >= 0))
                continue;
            struct owned *mine = &owned[n_owned++];
            *mine = (struct owned){.cache = deployed(call, cache), .layer = layer->index, .stage = out->stage};
            status = own(call, policy, layer->index, mine);
            if (status == KVA_OK && !kva_add_product(&out->bytes, mine->bytes, call->deployment->sequences))
                status = kva_fail(call->error, KVA_BAD_INPUT, NULL, NULL,
                                  "layer %u: its caches are more than 2^64 bytes", layer->index);
            out->rows = kva_max(out->rows, mine->rows);
        }
    }
    if (status == KVA_OK)
        status = kva_budget_simple(call, allocation);
    if (status == KVA_OK)
        status = make_pools(owned, keep_stage(owned, n_owned, allocation->stage), call->deployment, call->arena,
                            allocation, call->error);
    return status;
}
