// A plan: what the architecture needs beside what a policy allocates, per layer and in total.
#include <string.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/text.h"
#include "engine/cache_bytes.h"
#include "engine/engine.h"

static enum kva_status too_large(struct kva_error *error, const struct kva_plan *plan)
{
    char sequences[KVA_HUMAN], context[KVA_HUMAN];
    return kva_fail(error, KVA_BAD_INPUT, NULL, "context",
                    "%s sequence%s of %s tokens need more than 2^64 bytes of cache",
                    kva_human_count(plan->deployment.sequences, sequences), plan->deployment.sequences == 1 ? "" : "s",
                    kva_human_count(plan->deployment.context, context));
}

// naive = layers x kv_heads x (k_dim + v_dim) x bytes x context x sequences, whatever the layers are
static enum kva_status plan_naive(struct kva_plan *plan, struct kva_error *error)
{
    const struct kva_model *model = plan->model;
    uint64_t elements;
    if (!kva_add(model->naive_k_dim, model->naive_v_dim, &elements) ||
        !kva_mul3(elements, model->naive_kv_heads, kva_dtype_bytes(plan->deployment.kv_dtype), &elements) ||
        !kva_mul(elements, model->n_layers, &plan->naive_bytes_per_token) ||
        !kva_mul3(plan->naive_bytes_per_token, plan->deployment.context, plan->deployment.sequences, &plan->naive))
        return too_large(error, plan);
    return KVA_OK;
}

// One more token adds a row to a cache that grows, and to a window that is not full yet.
static enum kva_status count_next_token(struct kva_plan *plan, const struct kva_cache *cache, struct kva_error *error)
{
    uint64_t context = plan->deployment.context, row;
    if (!kva_cache_has_rows(cache) || (kva_cache_has_window(cache) && context >= cache->window))
        return KVA_OK;
    enum kva_status status = kva_cache_token_bytes(cache, plan->deployment.kv_dtype, &row, error);
    if (status == KVA_OK && !kva_add(plan->bytes_per_token, row, &plan->bytes_per_token))
        return too_large(error, plan);
    return status;
}

static enum kva_status plan_cache(struct kva_plan *plan, struct kva_layer_plan *layer, const struct kva_cache *cache,
                                  struct kva_error *error)
{
    const struct kva_deployment *deployment = &plan->deployment;
    struct kva_cache owned = *cache;
    owned.reads_layer = -1;
    if (cache->kind == KVA_CACHE_CROSS && cache->length == 0)
        owned.length = deployment->encoder_context;
    uint64_t bytes;
    enum kva_status status =
        kva_need_bytes(&owned, deployment->context, deployment->kv_dtype, deployment->model_dtype, &bytes, error);
    if (status != KVA_OK)
        return status;
    bool shared = cache->reads_layer >= 0;
    if (shared)
        layer->reads_layer = cache->reads_layer;
    if (!kva_add_product(shared ? &layer->sharing_saved : &layer->need, bytes, deployment->sequences))
        return too_large(error, plan);
    if (!shared && kva_cache_is_state(cache) && !kva_add_product(&layer->state, bytes, deployment->sequences))
        return too_large(error, plan);
    return count_next_token(plan, cache, error);
}

static enum kva_status plan_layers(struct kva_plan *plan, const struct kva_engine_allocation *allocation,
                                   struct kva_error *error)
{
    const struct kva_model *model = plan->model;
    for (size_t i = 0; i < model->n_layers; i++) {
        struct kva_layer_plan *layer = &plan->layers[i];
        *layer = (struct kva_layer_plan){.index = model->layers[i].index,
                                         .reads_layer = -1,
                                         .allocated = allocation->layers[i].bytes,
                                         .rows = allocation->layers[i].rows};
        for (size_t c = 0; c < model->layers[i].n_caches; c++) {
            enum kva_status status = plan_cache(plan, layer, &model->layers[i].caches[c], error);
            if (status != KVA_OK)
                return status;
        }
        if (!kva_add(plan->need, layer->need, &plan->need) ||
            !kva_add(plan->allocated, layer->allocated, &plan->allocated) ||
            !kva_add(plan->sharing_saved, layer->sharing_saved, &plan->sharing_saved) ||
            !kva_add(plan->state, layer->state, &plan->state))
            return too_large(error, plan);
    }
    plan->overpay = plan->allocated > plan->need ? plan->allocated - plan->need : 0;
    plan->overpay_ratio = plan->need > 0 ? (double)plan->allocated / (double)plan->need : 1;
    return KVA_OK;
}

static enum kva_status fill(struct kva_plan *plan, const struct kva_deployment *asked, struct kva_error *error)
{
    struct kva_arena *arena = plan->arena;
    struct kva_assumptions assumptions = {.arena = arena};
    struct kva_engine_allocation allocation = {0};
    const struct kva_engine *engine;
    const char *version;
    plan->deployment = *asked;
    if (asked->engine == NULL) {
        plan->deployment.engine = kva_engine_exact.id;
        enum kva_status status = kva_assume(&assumptions, error, "policy %s: none was named", kva_engine_exact.id);
        if (status != KVA_OK)
            return status;
    }
    enum kva_status status = kva_engine_find(plan->deployment.engine, &engine, &version, error);
    if (status != KVA_OK)
        return status;
    plan->deployment.engine = engine->id;
    plan->engine_version = kva_arena_strdup(arena, version);
    plan->layers = kva_arena_alloc(arena, plan->model->n_layers + 1, sizeof *plan->layers);
    if (plan->engine_version == NULL || plan->layers == NULL)
        return kva_fail_memory(error, plan->model->n_layers * sizeof *plan->layers);
    plan->n_layers = plan->model->n_layers;
    status = engine->resolve(plan->model, &plan->deployment, &assumptions, error);
    if (status == KVA_OK)
        status = plan_naive(plan, error);
    if (status == KVA_OK)
        status = engine->allocate(plan->model, &plan->deployment, arena, &allocation, error);
    if (status == KVA_OK)
        status = plan_layers(plan, &allocation, error);
    if (status != KVA_OK)
        return status;
    plan->pools = allocation.pools;
    plan->n_pools = allocation.n_pools;
    plan->n_assumed = assumptions.n;
    memcpy(plan->assumed, assumptions.text, sizeof plan->assumed);
    return KVA_OK;
}

enum kva_status kva_plan_make(const struct kva_model *model, const struct kva_deployment *deployment,
                              struct kva_plan **plan, struct kva_error *error)
{
    static const struct kva_deployment BLANK = {0};
    *plan = NULL;
    struct kva_arena *arena = kva_arena_new();
    struct kva_plan *made = arena != NULL ? kva_arena_alloc(arena, 1, sizeof *made) : NULL;
    if (made == NULL) {
        kva_arena_free(arena);
        return kva_fail_memory(error, sizeof *made);
    }
    made->model = model;
    made->arena = arena;
    enum kva_status status = fill(made, deployment != NULL ? deployment : &BLANK, error);
    if (status != KVA_OK)
        kva_arena_free(arena);
    else
        *plan = made;
    return status;
}

void kva_plan_free(struct kva_plan *plan)
{
    if (plan != NULL)
        kva_arena_free(plan->arena);
}
