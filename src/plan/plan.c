// A plan: what the architecture needs beside what a policy allocates, per layer and in total.
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/text.h"
#include "engine/budget.h"
#include "engine/cache_bytes.h"
#include "engine/engine.h"
#include "engine/memory.h"
#include "engine/parallel.h"
#include "engine/resolve.h"
#include "plan/need.h"

static enum kva_status too_large(struct kva_error *error, const struct kva_plan *plan)
{
    char sequences[KVA_HUMAN], context[KVA_HUMAN];
    return kva_fail(error, KVA_BAD_INPUT, NULL, "context",
                    "%s sequence%s of %s tokens need more than 2^64 bytes of cache",
                    kva_human_count(plan->deployment.sequences, sequences), plan->deployment.sequences == 1 ? "" : "s",
                    kva_human_count(plan->deployment.context, context));
}

// The ranks that share the heads of a sequence.
static uint64_t attention_tp(const struct kva_call *call)
{
    return call->attention_tp > 0 ? call->attention_tp : call->deployment->tp;
}

// naive = layers x kv_heads x (k_dim + v_dim) x bytes x context x sequences, whatever the layers are; on a rank the
// layers of a stage and the heads of a share
static enum kva_status plan_naive(struct kva_plan *plan, const struct kva_call *call)
{
    const struct kva_model *model = plan->model;
    const uint64_t heads = kva_heads_ceil(model->naive_kv_heads, attention_tp(call)),
                   layers = kva_ceil_div(model->n_layers, plan->deployment.pp);
    uint64_t row;
    if (!kva_kv_row_bytes(&call->kv_format, heads, model->naive_k_dim, model->naive_v_dim, &row) ||
        !kva_mul(row, layers, &plan->naive_bytes_per_token) ||
        !kva_mul3(plan->naive_bytes_per_token, plan->deployment.context, plan->deployment.sequences, &plan->naive))
        return too_large(call->error, plan);
    return KVA_OK;
}

// One more token adds a row to a cache that grows, and to a window that is not full yet.
static enum kva_status count_next_token(struct kva_plan *plan, const struct kva_call *call,
                                        const struct kva_cache *cache)
{
    const struct kva_cache share = kva_cache_on_rank(cache, attention_tp(call));
    uint64_t context = plan->deployment.context, row;
    if (!kva_cache_has_rows(cache) || ((kva_cache_has_window(cache) || cache->window_long) && context >= cache->window))
        return KVA_OK;
    enum kva_status status = kva_cache_token_bytes(&share, &call->kv_format, &row, call->error);
    if (status == KVA_OK && !kva_add(plan->bytes_per_token, row, &plan->bytes_per_token))
        return too_large(call->error, plan);
    return status;
}

// What a cache needs on a rank of `tp`, one sequence.
static enum kva_status need_of(const struct kva_call *call, const struct kva_cache *cache, uint64_t tp, uint64_t dcp,
                               uint64_t *bytes)
{
    const struct kva_deployment *deployment = call->deployment;
    struct kva_cache owned = kva_cache_on_rank(cache, tp);
    owned.reads_layer = -1;
    if (cache->kind == KVA_CACHE_CROSS && cache->length == 0)
        owned.length = deployment->encoder_context;
    return kva_need_format_bytes(&owned, deployment->context, dcp, &call->kv_format, deployment->model_dtype, bytes,
                                 call->error);
}

static enum kva_status plan_cache(struct kva_plan *plan, const struct kva_call *call, struct kva_layer_plan *layer,
                                  const struct kva_cache *cache)
{
    const struct kva_deployment *deployment = &plan->deployment;
    uint64_t bytes, whole;
    enum kva_status status = need_of(call, cache, attention_tp(call), deployment->dcp, &bytes);
    if (status != KVA_OK)
        return status;
    bool shared = cache->reads_layer >= 0;
    if (shared)
        layer->reads_layer = cache->reads_layer;
    if (!kva_add_product(shared ? &layer->sharing_saved : &layer->need, bytes, deployment->sequences))
        return too_large(call->error, plan);
    if (!shared && kva_cache_is_state(cache) && !kva_add_product(&layer->state, bytes, deployment->sequences))
        return too_large(call->error, plan);
    if (!shared && (status = need_of(call, cache, 1, 1, &whole)) != KVA_OK)
        return status;
    if (!shared && !kva_add_product(&plan->total_need, whole, deployment->sequences))
        return too_large(call->error, plan);
    return KVA_OK;
}

// The totals are of one rank: only layers of its stage count.
static bool add_layer(struct kva_plan *plan, const struct kva_layer_plan *layer)
{
    return kva_add(plan->need, layer->need, &plan->need) &&
           kva_add(plan->allocated, layer->allocated, &plan->allocated) &&
           kva_add(plan->sharing_saved, layer->sharing_saved, &plan->sharing_saved) &&
           kva_add(plan->state, layer->state, &plan->state);
}

static enum kva_status plan_layers(struct kva_plan *plan, const struct kva_call *call,
                                   const struct kva_engine_allocation *allocation)
{
    const struct kva_model *model = plan->model;
    for (size_t i = 0; i < model->n_layers; i++) {
        const struct kva_engine_layer *given = &allocation->layers[i];
        struct kva_layer_plan *layer = &plan->layers[i];
        *layer = (struct kva_layer_plan){.index = model->layers[i].index,
                                         .reads_layer = -1,
                                         .allocated = given->bytes,
                                         .logical = given->logical > 0 ? given->logical : given->bytes,
                                         .rows = given->rows,
                                         .stage = given->stage};
        for (size_t c = 0; c < model->layers[i].n_caches; c++) {
            const struct kva_cache *cache = &model->layers[i].caches[c];
            enum kva_status status = plan_cache(plan, call, layer, cache);
            if (status == KVA_OK && layer->stage == allocation->stage)
                status = count_next_token(plan, call, cache);
            if (status != KVA_OK)
                return status;
        }
        if (layer->stage == allocation->stage && !add_layer(plan, layer))
            return too_large(call->error, plan);
    }
    return KVA_OK;
}

// Bytes for caches that a person gave must have room beside everything else as well.
static bool check_memory(struct kva_plan *plan, const struct kva_call *call)
{
    const struct kva_deployment *deployment = &plan->deployment;
    const uint64_t parts[] = {kva_max(plan->capacity.reserved, plan->allocated - plan->outside),
                              plan->outside,
                              deployment->weight_bytes,
                              deployment->activation_bytes,
                              deployment->graph_bytes,
                              deployment->other_bytes};
    char takes[KVA_HUMAN], has[KVA_HUMAN];
    uint64_t total = 0;
    bool counted = true;
    if (!plan->capacity.known || !plan->capacity.fits || deployment->gpu_bytes == 0 ||
        deployment->weight_bytes == KVA_UNKNOWN || deployment->kv_short > 0)
        return true;
    for (size_t p = 0; p < sizeof parts / sizeof *parts; p++)
        counted = counted && kva_add(total, parts[p], &total);
    if (counted && total <= deployment->gpu_bytes)
        return true;
    plan->capacity.fits = false;
    if (plan->capacity.refusal == NULL)
        plan->capacity.refusal =
            kva_arena_printf(call->arena, "out of memory: weights, allowances and caches take %s, and a GPU has %s",
                             kva_human_bytes(total, takes), kva_human_bytes(deployment->gpu_bytes, has));
    return plan->capacity.refusal != NULL;
}

// All ranks: every stage's layers on each of its tp ranks, for each replica.
static enum kva_status plan_totals(struct kva_plan *plan, const struct kva_call *call,
                                   const struct kva_engine_allocation *allocation)
{
    const struct kva_deployment *deployment = &plan->deployment;
    const bool inside = call->attention_groups > 0;
    uint64_t replicas = inside ? call->attention_groups : deployment->dp, of_stages = 0;
    bool fits = kva_mul3(deployment->tp, deployment->pp, inside ? 1 : deployment->dp, &plan->ranks) &&
                kva_add(plan->allocated, allocation->unassigned, &plan->allocated) &&
                kva_mul(plan->total_need, replicas, &plan->total_need) &&
                kva_mul(allocation->unassigned, deployment->pp, &of_stages);
    for (size_t i = 0; fits && i < plan->n_layers; i++)
        fits = kva_add(of_stages, plan->layers[i].allocated, &of_stages);
    plan->total_allocated = allocation->total;
    if (!fits ||
        (allocation->total == 0 && !kva_mul3(of_stages, deployment->tp, deployment->dp, &plan->total_allocated)))
        return too_large(call->error, plan);
    plan->unassigned = allocation->unassigned;
    plan->outside = allocation->outside;
    plan->peak = allocation->peak;
    plan->capacity = allocation->capacity;
    plan->capacity.estimated = plan->capacity.known && !call->budget_given && deployment->gpu_bytes > 0;
    if (!check_memory(plan, call))
        return kva_fail_memory(call->error, 256);
    // most engines do not start with more than the model's limit unless they are made to
    if (plan->capacity.max_context != KVA_UNKNOWN && plan->model->context_limit > 0 && !call->engine->any_context)
        plan->capacity.max_context =
            kva_min(plan->capacity.max_context, kva_max(plan->model->context_limit, deployment->context));
    plan->overpay = plan->allocated > plan->need ? plan->allocated - plan->need : 0;
    plan->overpay_why = plan->overpay > 0 && allocation->overpay_why != NULL ? allocation->overpay_why : "";
    plan->overpay_ratio = plan->need > 0 ? (double)plan->allocated / (double)plan->need : 1;
    return KVA_OK;
}

static enum kva_status open_engine(struct kva_atlas *atlas, struct kva_plan *plan, struct kva_call *call)
{
    const char *asked = plan->deployment.engine;
    if (asked == NULL) {
        asked = kva_engine_exact.id;
        enum kva_status status = kva_assume(call, "policy %s: none was named", asked);
        if (status != KVA_OK)
            return status;
    }
    enum kva_status status = kva_engine_open(atlas, asked, plan->deployment.nearest, call);
    if (status != KVA_OK)
        return status;
    plan->engine_version = call->version->version;
    plan->engine_references = call->version->references;
    plan->n_engine_references = call->version->n_references;
    plan->engine_name = call->version->file != NULL ? call->version->file->name : call->engine->id;
    return KVA_OK;
}

// A setting that the engine does not have is nothing to it, and is said: the number would look as if it counted.
static enum kva_status note_unused(struct kva_call *call)
{
    enum kva_status status = KVA_OK;
    if (call->engine->any_architecture && *call->model->architecture != '\0')
        status = kva_assume(call, "whether %s %s runs %s at all was not checked", call->version->file->name,
                            call->version->version, call->model->architecture);
    for (size_t f = 0; status == KVA_OK && f < kva_n_deployment_flags(); f++) {
        struct kva_quantity said;
        if (kva_deployment_get(call->deployment, f, &said) && !kva_deployment_flag_is_of(f, call->engine->id))
            status = kva_assume(call, "%s is no setting of %s: not used", kva_deployment_flag(f)->names[0],
                                call->version->file != NULL ? call->version->file->name : call->engine->id);
    }
    return status;
}

static enum kva_status fill(struct kva_atlas *atlas, struct kva_plan *plan, struct kva_call *call)
{
    const struct kva_model *model = plan->model;
    struct kva_engine_allocation allocation = {0};
    enum kva_status status = open_engine(atlas, plan, call);
    if (status != KVA_OK)
        return status;
    plan->layers = kva_arena_alloc(plan->arena, model->n_layers + 1, sizeof *plan->layers);
    allocation.layers = kva_arena_alloc(plan->arena, model->n_layers + 1, sizeof *allocation.layers);
    if (plan->layers == NULL || allocation.layers == NULL)
        return kva_fail_memory(call->error, model->n_layers * sizeof *plan->layers);
    plan->n_layers = model->n_layers;
    call->budget_given = call->deployment->kv_bytes > 0;
    status = note_unused(call);
    if (status == KVA_OK)
        status = kva_resolve_gpu(call);
    if (status == KVA_OK)
        status = call->engine->resolve(call);
    if (status == KVA_OK)
        status = kva_resolve_budget(call);
    if (status == KVA_OK)
        status = plan_naive(plan, call);
    if (status == KVA_OK)
        status = call->engine->allocate(call, &allocation);
    if (status == KVA_OK && allocation.n_pools == 0)
        status = kva_layer_pools(call, &allocation);
    if (status == KVA_OK && call->engine->print_lines != NULL)
        status = call->engine->print_lines(call, &allocation);
    if (status == KVA_OK)
        status = plan_layers(plan, call, &allocation);
    if (status == KVA_OK)
        status = plan_totals(plan, call, &allocation);
    if (status != KVA_OK)
        return status;
    struct kva_kv_type *format = kva_arena_alloc(plan->arena, 1, sizeof *format);
    if (format == NULL)
        return kva_fail_memory(call->error, sizeof *format);
    *format = call->kv_format;
    plan->kv_format = format;
    plan->pools = allocation.pools;
    plan->n_pools = allocation.n_pools;
    plan->prints = call->prints.lines;
    plan->n_prints = call->prints.n;
    plan->n_assumed = call->assumptions.n;
    memcpy(plan->assumed, call->assumptions.text, sizeof plan->assumed);
    return KVA_OK;
}

// A complaint about a field of the deployment is one about the flag that sets it.
static void name_flag(struct kva_error *error)
{
    const char *flag = error != NULL && error->file[0] == '\0' ? kva_deployment_flag_of(error->key) : NULL;
    if (flag != NULL)
        snprintf(error->key, sizeof error->key, "%s", flag);
}

enum kva_status kva_plan_make(struct kva_atlas *atlas, const struct kva_model *model,
                              const struct kva_deployment *deployment, struct kva_plan **plan, struct kva_error *error)
{
    *plan = NULL;
    struct kva_arena *arena = kva_arena_new();
    struct kva_plan *made = arena != NULL ? kva_arena_alloc(arena, 1, sizeof *made) : NULL;
    if (made == NULL) {
        kva_arena_free(arena);
        return kva_fail_memory(error, sizeof *made);
    }
    made->model = model;
    made->arena = arena;
    if (deployment != NULL)
        made->deployment = *deployment;
    struct kva_call call = {
        .atlas = atlas, .model = model, .deployment = &made->deployment, .arena = arena, .error = error};
    enum kva_status status = fill(atlas, made, &call);
    if (status != KVA_OK) {
        name_flag(error);
        kva_arena_free(arena);
    } else
        *plan = made;
    return status;
}

void kva_plan_free(struct kva_plan *plan)
{
    if (plan != NULL)
        kva_arena_free(plan->arena);
}
