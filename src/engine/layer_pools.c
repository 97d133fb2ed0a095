// Pools of an engine that has none: each layer's caches are allocations of their own, and alike ones make one line.
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "engine/budget.h"

static bool alike(const struct kva_call *call, const struct kva_engine_allocation *allocation, size_t a, size_t b)
{
    const struct kva_engine_layer *x = &allocation->layers[a], *y = &allocation->layers[b];
    return x->bytes == y->bytes && x->rows == y->rows &&
           strcmp(call->model->layers[a].kind, call->model->layers[b].kind) == 0;
}

enum kva_status kva_layer_pools(struct kva_call *call, struct kva_engine_allocation *allocation)
{
    const size_t n_layers = call->model->n_layers;
    size_t *first = kva_arena_alloc(call->arena, n_layers + 1, sizeof *first);
    uint32_t *layers = kva_arena_alloc(call->arena, n_layers + 1, sizeof *layers);
    allocation->pools = kva_arena_alloc(call->arena, n_layers + 1, sizeof *allocation->pools);
    if (first == NULL || layers == NULL || allocation->pools == NULL)
        return kva_fail_memory(call->error, n_layers * sizeof *allocation->pools);
    for (size_t i = 0; i < n_layers; i++) {
        if (allocation->layers[i].stage != allocation->stage || allocation->layers[i].bytes == 0)
            continue;
        size_t p = 0;
        while (p < allocation->n_pools && !alike(call, allocation, first[p], i))
            p++;
        if (p < allocation->n_pools)
            continue;
        first[allocation->n_pools++] = i;
        struct kva_pool *pool = &allocation->pools[p];
        *pool = (struct kva_pool){.name = call->model->layers[i].kind,
                                  .layers = layers,
                                  .block_tokens = allocation->layers[i].rows,
                                  .page_bytes = allocation->layers[i].bytes};
        for (size_t j = i; j < n_layers; j++)
            if (allocation->layers[j].stage == allocation->stage && alike(call, allocation, i, j))
                pool->layers[pool->n_layers++] = call->model->layers[j].index;
        layers += pool->n_layers;
        pool->blocks = pool->n_layers;
        if (!kva_mul(pool->blocks, pool->page_bytes, &pool->bytes))
            return kva_too_large(call);
    }
    return KVA_OK;
}
