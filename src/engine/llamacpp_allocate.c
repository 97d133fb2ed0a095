// From the caches of llama.cpp to what each layer and each pool takes, and why that is more than the need.
#include "base/error.h"
#include "base/text.h"
#include "engine/budget.h"
#include "engine/llamacpp.h"

// ---------------------------------------------------------------- layers and pools

static enum kva_status add_layers(struct kva_call *call, const struct kva_lcpp_memory *memory,
                                  const struct kva_lcpp_cache *cache, struct kva_engine_allocation *allocation)
{
    for (size_t t = 0; t < cache->n_tensors; t++) {
        const struct kva_lcpp_tensors *tensors = &cache->tensors[t];
        struct kva_engine_layer *layer = &allocation->layers[tensors->layer];
        if (!kva_add(layer->bytes, tensors->given, &layer->bytes) ||
            !kva_add(layer->logical, tensors->k, &layer->logical) ||
            !kva_add(layer->logical, tensors->v, &layer->logical))
            return kva_fail(call->error, KVA_BAD_INPUT, NULL, "context", "the caches are more than 2^64 bytes");
        if (cache->kind != KVA_LCPP_STATE && cache->kind != KVA_LCPP_COMPRESSOR && tensors->given > 0)
            layer->rows = kva_max(layer->rows, cache->cells);
        layer->stage = memory->device[tensors->layer];
    }
    return KVA_OK;
}

static enum kva_status add_pool(struct kva_call *call, const struct kva_lcpp_memory *memory,
                                const struct kva_lcpp_cache *cache, uint32_t stage, struct kva_pool *pool)
{
    *pool = (struct kva_pool){.name = cache->name, .block_tokens = cache->cells, .blocks = cache->streams};
    pool->layers = kva_arena_alloc(call->arena, cache->n_tensors + 1, sizeof *pool->layers);
    if (pool->layers == NULL)
        return kva_fail_memory(call->error, cache->n_tensors * sizeof *pool->layers);
    for (size_t t = 0; t < cache->n_tensors; t++)
        if (memory->device[cache->tensors[t].layer] == stage)
            pool->layers[pool->n_layers++] = call->model->layers[cache->tensors[t].layer].index;
    pool->bytes = cache->given[stage];
    pool->page_bytes = pool->bytes / kva_max(pool->blocks, 1);
    return KVA_OK;
}

// ---------------------------------------------------------------- why

static const char *why(struct kva_call *call, const struct kva_lcpp_memory *memory)
{
    const struct kva_deployment *deployment = call->deployment;
    const struct kva_lcpp_model *model = &memory->model;
    char rows[KVA_HUMAN], window[KVA_HUMAN], cells[KVA_HUMAN];
    if (model->ignores_window)
        return kva_arena_printf(call->arena, "%s keeps every token of %s's windowed layers at this release",
                                call->version->file->name, model->architecture);
    if (model->windowed_cache && deployment->swa_full == KVA_ON)
        return "windowed layers keep the whole context (swa_full)";
    if (model->windowed_cache)
        return kva_arena_printf(call->arena,
                                "a windowed layer has %s cells for a window of %s tokens: the window%s, a "
                                "batch of %s, rounded up",
                                kva_human_count(memory->cells.window, cells), kva_human_count(model->window, window),
                                memory->cells.streams == 1 && memory->n_seq_max > 1 ? " of every sequence" : "",
                                kva_human_count(deployment->ubatch, rows));
    if (model->recurrent && deployment->rs_seq > 0)
        return kva_arena_printf(call->arena, "%llu snapshots of every state for what is drafted, and all in f32",
                                (unsigned long long)deployment->rs_seq);
    if (memory->n_seq_max > deployment->sequences)
        return kva_arena_printf(call->arena, "caches for %llu sequences, of which %llu are asked for",
                                (unsigned long long)memory->n_seq_max, (unsigned long long)deployment->sequences);
    if (model->recurrent && model->attention && memory->cells.streams > 1 &&
        memory->cells.base == memory->cells.context)
        return "each sequence has the cells of all: a defect of this release with recurrent layers";
    if (model->recurrent)
        return "recurrent and convolution states are always f32";
    return "cells are rounded up";
}

enum kva_status kva_lcpp_allocation_fill(struct kva_call *call, const struct kva_lcpp_memory *memory,
                                         struct kva_engine_allocation *allocation)
{
    uint64_t most;
    enum kva_status status = KVA_OK;
    allocation->pools = kva_arena_alloc(call->arena, memory->n + 1, sizeof *allocation->pools);
    if (allocation->pools == NULL)
        return kva_fail_memory(call->error, memory->n * sizeof *allocation->pools);
    for (size_t c = 0; c < memory->n && status == KVA_OK; c++)
        status = add_layers(call, memory, &memory->caches[c], allocation);
    if (status == KVA_OK)
        status = kva_allocation_largest(call, allocation, &most);
    for (size_t c = 0; c < memory->n && status == KVA_OK; c++)
        if (memory->caches[c].n_tensors > 0)
            status = add_pool(call, memory, &memory->caches[c], allocation->stage,
                              &allocation->pools[allocation->n_pools++]);
    return status;
}

enum kva_status kva_lcpp_allocate(struct kva_call *call, struct kva_engine_allocation *allocation)
{
    struct kva_lcpp_memory *memory = call->own;
    enum kva_status status =
        kva_lcpp_memory_fill(call, memory, call->deployment->kv_tokens, call->deployment->max_sequences);
    if (status == KVA_OK)
        status = kva_lcpp_allocation_fill(call, memory, allocation);
    if (status != KVA_OK)
        return status;
    allocation->overpay_why = why(call, memory);
    if (allocation->overpay_why == NULL)
        return kva_fail_memory(call->error, 1);
    return kva_lcpp_capacity(call, memory, &allocation->capacity);
}
