// SGLang's allocation: what the sequences asked for make the pools hold, and what a budget makes of them.
#include "base/checked.h"
#include "base/error.h"
#include "base/text.h"
#include "engine/budget.h"
#include "engine/parallel.h"
#include "engine/sglang.h"

// ---------------------------------------------------------------- layers

static enum kva_status allocate_layers(struct kva_call *call, const struct sglang_shape *shape,
                                       const struct sglang_sizes *sizes, struct kva_engine_allocation *allocation)
{
    const uint64_t sequences = call->deployment->sequences;
    for (size_t i = 0; i < call->model->n_layers; i++) {
        struct kva_engine_layer *layer = &allocation->layers[i];
        const struct sglang_layer *mine = &shape->layers[i];
        const uint64_t tokens = mine->windowed ? sizes->swa : sizes->full;
        layer->stage = mine->stage;
        layer->rows = mine->k > 0 ? tokens / sequences : 0;
        if (!kva_add_product(&layer->bytes, tokens, mine->k + mine->v + mine->index) ||
            !kva_add_product(&layer->bytes, sizes->slots, mine->conv + mine->ssm))
            return kva_too_large(call);
    }
    return KVA_OK;
}

// ---------------------------------------------------------------- pools

struct filter {
    bool windowed, full, states;
};

static uint32_t *layers_of(struct kva_call *call, const struct sglang_shape *shape, uint32_t stage, struct filter want,
                           size_t *n)
{
    const struct kva_model *model = call->model;
    uint32_t *layers = kva_arena_alloc(call->arena, model->n_layers + 1, sizeof *layers);
    *n = 0;
    for (size_t i = 0; layers != NULL && i < model->n_layers; i++) {
        const struct sglang_layer *layer = &shape->layers[i];
        if (layer->stage == stage &&
            ((want.windowed && layer->windowed) || (want.full && layer->k > 0 && !layer->windowed) ||
             (want.states && layer->conv + layer->ssm > 0)))
            layers[(*n)++] = model->layers[i].index;
    }
    return layers;
}

// A pool of `blocks` blocks of `tokens` tokens or one state each, and one more that padded tokens are written to.
static enum kva_status add_pool(struct kva_call *call, struct kva_engine_allocation *allocation, const char *name,
                                uint32_t *layers, size_t n_layers, uint64_t tokens, uint64_t block_bytes,
                                uint64_t blocks)
{
    struct kva_pool *pool = &allocation->pools[allocation->n_pools++];
    *pool = (struct kva_pool){.name = name,
                              .layers = layers,
                              .n_layers = n_layers,
                              .block_tokens = tokens,
                              .page_bytes = block_bytes,
                              .blocks = blocks};
    return kva_mul(block_bytes, blocks, &pool->bytes) ? KVA_OK : kva_too_large(call);
}

static enum kva_status list_pools(struct kva_call *call, const struct sglang_shape *shape,
                                  const struct sglang_sizes *sizes, struct kva_engine_allocation *allocation,
                                  uint64_t table, uint64_t map)
{
    enum { MOST = 7 };
    const struct sglang_stage *stage = &shape->stages[allocation->stage];
    const uint64_t page = call->deployment->block_size;
    const uint64_t full = stage->full_k + stage->full_v + stage->index, swa = stage->swa_k + stage->swa_v;
    const uint64_t slot = stage->conv + stage->ssm, draft = shape->draft_k + shape->draft_v;
    size_t n;
    uint32_t *layers;
    enum kva_status status = KVA_OK;
    allocation->pools = kva_arena_alloc(call->arena, MOST, sizeof *allocation->pools);
    if (allocation->pools == NULL)
        return kva_fail_memory(call->error, MOST * sizeof *allocation->pools);
    if (swa > 0) {
        layers = layers_of(call, shape, allocation->stage, (struct filter){.windowed = true}, &n);
        status = layers == NULL
                     ? kva_fail_memory(call->error, n)
                     : add_pool(call, allocation, "windowed", layers, n, page, page * swa, sizes->swa / page + 1);
    }
    if (status == KVA_OK && full > 0) {
        layers = layers_of(call, shape, allocation->stage, (struct filter){.full = true}, &n);
        status = layers == NULL ? kva_fail_memory(call->error, n)
                                : add_pool(call, allocation,
                                           shape->index_row > 0 ? "latent and index"
                                           : shape->latent      ? "latent"
                                                                : "full",
                                           layers, n, page, page * full, sizes->full / page + 1);
    }
    if (status == KVA_OK && slot > 0) {
        layers = layers_of(call, shape, allocation->stage, (struct filter){.states = true}, &n);
        status = layers == NULL ? kva_fail_memory(call->error, n)
                                : add_pool(call, allocation, "states", layers, n, 0, slot, sizes->slots + 1);
        if (status == KVA_OK && sizes->draft_slots > 0)
            status = add_pool(call, allocation, "states of draft tokens", layers, n, 0,
                              slot * call->deployment->spec_tokens, sizes->draft_slots + 1);
    }
    if (status == KVA_OK && draft > 0)
        status = add_pool(call, allocation, "draft", NULL, 0, page, page * draft, sizes->tokens / page + 1);
    if (status == KVA_OK)
        status = add_pool(call, allocation, "tokens of requests", NULL, 0, 0, table, 1);
    if (status == KVA_OK && map > 0)
        status = add_pool(call, allocation, "windowed slots of tokens", NULL, 0, 0, map, 1);
    return status;
}

// ---------------------------------------------------------------- the stage that holds most

static enum kva_status pick_stage(struct kva_call *call, const struct sglang_shape *shape,
                                  const struct sglang_sizes *sizes, struct kva_engine_allocation *allocation,
                                  uint64_t tables)
{
    uint64_t most = 0, sum = 0;
    for (uint64_t s = 0; s < shape->pp; s++) {
        uint64_t pools, used;
        if (!sglang_stage_bytes(call, shape, &shape->stages[s], sizes, &pools, &used) ||
            !kva_add(pools, tables, &pools) || !kva_add(sum, pools, &sum))
            return kva_too_large(call);
        if (s > 0 && pools <= most)
            continue;
        most = pools;
        allocation->stage = (uint32_t)s;
        allocation->unassigned = pools - used;
    }
    return kva_allocation_total(call, sum, allocation);
}

// ---------------------------------------------------------------- capacity

static uint64_t sequences_that_fit(const struct kva_call *call, const struct sglang_shape *shape,
                                   const struct sglang_sizes *sizes)
{
    const uint64_t page = call->deployment->block_size, context = call->deployment->context;
    const uint64_t rows = kva_ceil_div(context, page) * page;
    uint64_t n = sizes->requests;
    if (sizes->full > 0)
        n = kva_min(n, sizes->full / rows);
    if (sizes->swa > 0)
        n = kva_min(n, sizes->swa / sglang_windowed_tokens(call, shape, context));
    return n;
}

static uint64_t longest_context(const struct kva_call *call, const struct sglang_shape *shape,
                                const struct sglang_sizes *sizes)
{
    uint64_t n_attention = 0;
    for (uint64_t s = 0; s < shape->pp; s++)
        n_attention += shape->stages[s].n_full + shape->stages[s].n_swa;
    if (n_attention == 0)  // states have no context, and the tokens are as many as one may be long
        return KVA_UNKNOWN;
    if (sizes->swa > 0 && sizes->swa < sglang_windowed_tokens(call, shape, UINT64_C(1) << 60))
        return sizes->full > 0 ? kva_min(sizes->swa, sizes->full) : sizes->swa;
    return sizes->full > 0 ? sizes->full : call->model->context_limit;
}

// What the budget or the tokens that were said make the pools hold.
static enum kva_status size_pools(struct kva_call *call, struct sglang_own *own)
{
    const struct kva_deployment *deployment = call->deployment;
    own->sized = deployment->kv_bytes > 0 || deployment->kv_tokens > 0;
    if (!own->sized)
        return KVA_OK;
    return sglang_sizes_of(call, &own->shape, deployment->kv_bytes > 0 ? deployment->kv_bytes : UINT64_MAX,
                           deployment->kv_tokens, &own->sizes);
}

static enum kva_status fill_capacity(struct kva_call *call, const struct sglang_own *own,
                                     struct kva_engine_allocation *allocation)
{
    const struct kva_deployment *deployment = call->deployment;
    const struct sglang_shape *shape = &own->shape;
    const struct sglang_sizes *sizes = &own->sizes;
    struct kva_capacity *capacity = &allocation->capacity;
    if (!own->sized) {
        capacity->max_context = KVA_UNKNOWN;
        return KVA_OK;
    }
    *capacity = (struct kva_capacity){.known = true, .budget = deployment->kv_bytes, .tokens = sizes->tokens};
    for (uint64_t s = 0; s < shape->pp; s++) {
        uint64_t pools, used;
        if (!sglang_stage_bytes(call, shape, &shape->stages[s], sizes, &pools, &used))
            return kva_too_large(call);
        capacity->reserved = kva_max(capacity->reserved, pools);
    }
    capacity->refusal = sizes->refusal;
    capacity->sequences_at_context = sizes->refusal == NULL ? sequences_that_fit(call, shape, sizes) : 0;
    capacity->max_context = sizes->refusal == NULL ? longest_context(call, shape, sizes) : 0;
    capacity->fits = capacity->sequences_at_context >= deployment->sequences;
    return KVA_OK;
}

// ---------------------------------------------------------------- all of it

static const char *why(const struct kva_call *call, const struct sglang_shape *shape)
{
    if (!shape->hybrid && kva_model_window_binds(call->model, call->deployment->context))
        return "windowed layers keep the whole context: this version has no pool of its own for them";
    if (kva_model_shares(call->model))
        return "layers that read another layer's cache get buffers of their own; windowed ones a share of the full "
               "pool";
    if (shape->hybrid)
        return "the windowed pool is a share of the full one, whatever the window is";
    if (shape->states)
        return "a request may need several states, and the table of the requests' tokens is as long as the context";
    return "a padding page, and the table of the requests' tokens";
}

enum kva_status sglang_allocate(struct kva_call *call, struct kva_engine_allocation *allocation)
{
    struct sglang_own *own = call->own = kva_arena_alloc(call->arena, 1, sizeof *own);
    struct sglang_sizes sizes;
    uint64_t table, map;
    char human[KVA_HUMAN];
    if (own == NULL)
        return kva_fail_memory(call->error, sizeof *own);
    struct sglang_shape *shape = &own->shape;
    enum kva_status status = sglang_shape_of(call, shape);
    if (status == KVA_OK)
        status = sglang_sizes_asked(call, shape, &sizes);
    if (status == KVA_OK)
        status = size_pools(call, own);
    if (status != KVA_OK)
        return status;
    if (own->sized && own->sizes.refusal == NULL)  // the table is made for what the pool holds, not for what is asked
        sizes.requests = own->sizes.requests;
    if (!sglang_tables(call, shape, &sizes, &table, &map))
        return kva_too_large(call);
    status = allocate_layers(call, shape, &sizes, allocation);
    if (status == KVA_OK)
        status = pick_stage(call, shape, &sizes, allocation, table + map);
    if (status == KVA_OK)
        status = list_pools(call, shape, &sizes, allocation, table, map);
    if (status == KVA_OK)
        status = fill_capacity(call, own, allocation);
    if (status == KVA_OK)
        status = kva_assume(call, "a table of tokens for %llu request%s, %s%s: it is not paid from the pools' budget",
                            (unsigned long long)sizes.requests, sizes.requests == 1 ? "" : "s",
                            kva_human_bytes(table + map, human),
                            sglang_max_running(call) > 0 ? "" : " (SGLang's estimate from tokens and context)");
    allocation->outside = table + map;
    allocation->overpay_why = why(call, shape);
    return status;
}
