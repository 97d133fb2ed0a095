// vLLM: paged blocks in one pool. Layers stand in groups of equal size, one block of a group holds the same tokens of
// all its layers, and all groups draw blocks from the same pool. Block 0 is never used.
#include "engine/vllm.h"

#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "engine/budget.h"
#include "engine/parallel.h"

enum kva_status vllm_layout_make(struct kva_call *call, struct vllm_layout *layout)
{
    if (vllm_has_tuples(call))
        return vllm_tuples_make(call, layout);
    enum kva_status status = vllm_specs_collect(call, layout);
    if (status == KVA_OK)
        status = vllm_align_blocks(call, layout);
    return status == KVA_OK ? vllm_groups_make(call, layout) : status;
}

// ---------------------------------------------------------------- what the asked sequences take

// Blocks that the asked sequences take in the groups of each spec, [n_specs].
static enum kva_status count_blocks(struct kva_call *call, const struct vllm_layout *layout, uint64_t *blocks)
{
    const struct vllm_request request = vllm_request_of(call);
    for (size_t s = 0; s < layout->n_specs; s++) {
        const uint64_t one = layout->mixed ? vllm_blocks_of_all(&request, layout, call->deployment->context)
                                           : vllm_blocks(&request, &layout->specs[s], call->deployment->context);
        if (!kva_mul(one, call->deployment->sequences, &blocks[s]))
            return kva_too_large(call);
    }
    return KVA_OK;
}

static enum kva_status fill_layers(struct kva_call *call, const struct vllm_layout *layout, const uint64_t *blocks,
                                   struct kva_engine_layer *layers)
{
    const uint64_t sequences = call->deployment->sequences;
    for (size_t e = 0; e < layout->n_entries; e++) {
        const struct vllm_entry *entry = &layout->entries[e];
        const struct vllm_spec *spec = &layout->specs[entry->spec];
        if (entry->layer == UINT32_MAX)
            continue;
        struct kva_engine_layer *layer = &layers[entry->layer];
        if (!kva_add_product(&layer->bytes, blocks[entry->spec], spec->page))
            return kva_too_large(call);
        if (spec->kind != VLLM_STATE)
            layer->rows = kva_max(layer->rows, blocks[entry->spec] / sequences * spec->block);
    }
    return KVA_OK;
}

// Layers without a cache of their own stand where their neighbours do.
static enum kva_status place_layers(struct kva_call *call, struct kva_engine_layer *layers)
{
    const uint32_t *stage_of;
    enum kva_status status = kva_stages_lay(call, kva_stages_inner, &stage_of);
    for (size_t i = 0; status == KVA_OK && i < call->model->n_layers; i++)
        layers[i].stage = stage_of[i];
    return status;
}

// A rank holds a block for each that a group takes, whichever of the group's layers it has, and the block that is never
// used. What its layers do not account for is padding, draft layers and that block.
static enum kva_status total_up(struct kva_call *call, const struct vllm_layout *layout, const uint64_t *blocks,
                                struct kva_engine_allocation *allocation)
{
    uint64_t taken = 1, used = 0, all = 0, sum = 0;
    for (size_t s = 0; s < layout->n_specs; s++)
        if (!kva_add_product(&taken, blocks[s], layout->mixed ? s == 0 : layout->specs[s].n_groups))
            return kva_too_large(call);
    for (uint32_t stage = 0; stage < layout->n_stages; stage++) {
        if (layout->block_bytes[stage] > layout->block_bytes[allocation->stage])
            allocation->stage = stage;
        if (!kva_add_product(&sum, layout->block_bytes[stage], taken))
            return kva_too_large(call);
    }
    for (size_t i = 0; i < call->model->n_layers; i++)
        if (allocation->layers[i].stage == allocation->stage && !kva_add(used, allocation->layers[i].bytes, &used))
            return kva_too_large(call);
    if (!kva_mul(layout->block_bytes[allocation->stage], taken, &all))
        return kva_too_large(call);
    allocation->unassigned = all - used;
    return kva_allocation_total(call, sum, allocation);
}

// ---------------------------------------------------------------- pools

static const char *group_name(struct kva_arena *arena, const struct vllm_layout *layout, size_t group)
{
    static const char *const NAMES[] = {
        [VLLM_FULL] = "full",       [VLLM_LATENT] = "latent", [VLLM_SLIDING] = "sliding",
        [VLLM_CHUNKED] = "chunked", [VLLM_STATE] = "state",   [VLLM_CROSS] = "cross",
    };
    const struct vllm_spec *spec = &layout->specs[layout->groups[group].spec];
    const char *name = NAMES[spec->kind];
    if (layout->mixed)
        return kva_arena_printf(arena, "%s, pages of several sizes", name);
    if (spec->kind == VLLM_SLIDING || spec->kind == VLLM_CHUNKED)
        name = kva_arena_printf(arena, "%s %llu", name, (unsigned long long)spec->window);
    if (spec->n_groups == 1 || name == NULL)
        return name != NULL ? kva_arena_strdup(arena, name) : NULL;
    return kva_arena_printf(arena, "%s, group %zu of %u", name, group - spec->first_group + 1, spec->n_groups);
}

static enum kva_status make_pools(struct kva_call *call, const struct vllm_layout *layout, const uint64_t *blocks,
                                  struct kva_engine_allocation *allocation)
{
    const uint32_t stage = allocation->stage;
    allocation->n_pools = layout->n_groups;
    allocation->pools = kva_arena_alloc(call->arena, layout->n_groups + 2, sizeof *allocation->pools);
    uint32_t *layers = kva_arena_alloc(call->arena, layout->n_entries + 1, sizeof *layers);
    if (allocation->pools == NULL || layers == NULL)
        return kva_fail_memory(call->error, layout->n_entries * sizeof *layers);
    for (size_t g = 0; g < layout->n_groups; g++) {
        const struct vllm_spec *spec = &layout->specs[layout->groups[g].spec];
        struct kva_pool *pool = &allocation->pools[g];
        *pool = (struct kva_pool){.name = group_name(call->arena, layout, g),
                                  .layers = layers,
                                  .block_tokens = spec->kind == VLLM_STATE ? 0 : spec->block,
                                  .page_bytes = layout->block_bytes[stage],  // of all layers of a group
                                  .blocks = blocks[layout->groups[g].spec]};
        layers += layout->groups[g].n_entries * (layout->by_stage ? layout->n_stages : 1);
        if (pool->name == NULL)
            return kva_fail_memory(call->error, 64);
        if (!kva_mul(pool->blocks, layout->block_bytes[stage], &pool->bytes))
            return kva_too_large(call);
    }
    if (layout->n_groups > 0)
        allocation->pools[allocation->n_pools++] = (struct kva_pool){.name = "block that is never used",
                                                                     .page_bytes = layout->block_bytes[stage],
                                                                     .blocks = 1,
                                                                     .bytes = layout->block_bytes[stage]};
    for (size_t e = 0; e < layout->n_entries; e++) {
        const struct vllm_entry *entry = &layout->entries[e];
        struct kva_pool *pool = &allocation->pools[entry->group];
        if (entry->layer != UINT32_MAX)
            pool->layers[pool->n_layers++] = call->model->layers[entry->layer].index;
    }
    return KVA_OK;
}

// ---------------------------------------------------------------- why it takes more than the need

static bool lacks_layers(const struct vllm_layout *layout)
{
    for (size_t g = 1; g < layout->n_groups; g++)
        if (layout->groups[g].n_entries != layout->groups[0].n_entries)
            return true;
    return false;
}

static const char *overpay_why(const struct kva_call *call, const struct vllm_layout *layout)
{
    const struct vllm_request request = vllm_request_of(call);
    bool windows = false, sliding = false, states = false;
    for (size_t s = 0; s < layout->n_specs; s++) {
        const struct vllm_spec *spec = &layout->specs[s];
        windows = windows || (spec->window > 0 && spec->window < call->deployment->context);
        sliding = sliding || spec->kind == VLLM_SLIDING;
        states = states || spec->kind == VLLM_STATE;
    }
    if (layout->promoted || layout->fell_back)
        return "windowed layers keep every token: they are allocated as full ones";
    if (layout->check_bytes > 0)
        return "a block has a place for every size of cache, whichever group it goes to";
    if (windows)
        return kva_arena_printf(call->arena, "windowed layers keep their window and the %llu tokens in flight%s",
                                (unsigned long long)request.in_flight,
                                lacks_layers(layout) ? ", in groups padded to equal size" : "");
    if (states && layout->n_groups > 1)
        return kva_arena_printf(call->arena, "a block of attention is as large as a state: %llu tokens",
                                (unsigned long long)layout->block);
    if (states)
        return "a block is a state, and one block is never used";
    if (sliding)
        return kva_arena_printf(call->arena, "whole blocks of %llu tokens, one more for each sequence%s",
                                (unsigned long long)layout->block,
                                lacks_layers(layout) ? ", in groups padded to equal size" : " in layers with a window");
    return kva_arena_printf(call->arena, "whole blocks of %llu tokens, and one that is never used",
                            (unsigned long long)layout->block);
}

// ---------------------------------------------------------------- capacity

// Of the rank that reserves most: all take the blocks of the smallest one, or each keeps its own.
static uint64_t reserved_bytes(const struct kva_call *call, const struct vllm_layout *layout,
                               const struct vllm_pool *pool, uint32_t stage)
{
    uint64_t reserved = 0;
    if (vllm_behaves(call)->capacity_once || call->deployment->kv_blocks > 0)
        return kva_mul(pool->blocks, layout->block_bytes[stage], &reserved) ? reserved : KVA_UNKNOWN;
    for (uint32_t s = 0; s < layout->n_stages; s++) {
        const uint64_t block = kva_max(layout->block_bytes[s], 1);
        reserved = kva_max(reserved, call->deployment->kv_bytes / block * layout->block_bytes[s]);
    }
    return reserved;
}

static void fill_capacity(const struct kva_call *call, const struct vllm_layout *layout, const struct vllm_pool *pool,
                          struct kva_engine_allocation *allocation)
{
    struct kva_capacity *capacity = &allocation->capacity;
    const uint64_t usable = pool->blocks > 0 ? pool->blocks - 1 : 0;  // block 0 is never used
    const bool starts = pool->refusal == NULL;
    *capacity = (struct kva_capacity){.known = true, .budget = pool->budget, .refusal = pool->refusal};
    capacity->max_context = pool->longest;
    if (layout->n_groups == 0) {
        *capacity = (struct kva_capacity){.known = true, .budget = call->deployment->kv_bytes, .fits = true};
        capacity->sequences_at_context = capacity->tokens = capacity->max_context = KVA_UNKNOWN;
        return;
    }
    capacity->reserved = reserved_bytes(call, layout, pool, allocation->stage);
    capacity->budget = capacity->budget > 0 ? capacity->budget : capacity->reserved;
    if (!starts) {
        capacity->reserved = 0;
        return;
    }
    capacity->tokens = pool->tokens;
    capacity->sequences_at_context = pool->need > 0 ? usable / pool->need : KVA_UNKNOWN;
    capacity->fits = capacity->sequences_at_context >= call->deployment->sequences;
}

enum kva_status vllm_allocate(struct kva_call *call, struct kva_engine_allocation *allocation)
{
    if (vllm_is_v0(call))
        return vllm_v0_allocate(call, allocation);
    struct vllm_layout *layout = &vllm_own(call)->layout;
    struct vllm_pool *pool = &vllm_own(call)->pool;
    enum kva_status status = vllm_layout_make(call, layout);
    uint64_t *blocks = kva_arena_alloc(call->arena, layout->n_specs + 1, sizeof *blocks);
    if (status == KVA_OK && blocks == NULL)
        return kva_fail_memory(call->error, layout->n_specs * sizeof *blocks);
    if (status == KVA_OK)
        status = count_blocks(call, layout, blocks);
    if (status == KVA_OK)
        status = place_layers(call, allocation->layers);
    if (status == KVA_OK)
        status = fill_layers(call, layout, blocks, allocation->layers);
    if (status == KVA_OK && layout->n_groups > 0)
        status = total_up(call, layout, blocks, allocation);
    if (status == KVA_OK)
        status = make_pools(call, layout, blocks, allocation);
    if (status == KVA_OK && vllm_has_budget(call))
        status = vllm_pool_fill(call, layout, pool);
    if (status != KVA_OK)
        return status;
    if (vllm_has_budget(call))
        fill_capacity(call, layout, pool, allocation);
    allocation->overpay_why = overpay_why(call, layout);
    return allocation->overpay_why != NULL ? KVA_OK : kva_fail_memory(call->error, 128);
}
