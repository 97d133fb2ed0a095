// What a budget holds (v1/core/kv_cache_utils.py get_num_blocks, get_max_concurrency_for_kv_cache_config), and whether
// the engine starts (check_enough_kv_cache_memory and what followed it).
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "engine/parallel.h"
#include "engine/vllm.h"

// ---------------------------------------------------------------- what must fit at start

// Bytes of a block over all pipeline stages; UINT64_MAX: more than 2^64.
static uint64_t whole_block(const struct vllm_layout *layout)
{
    uint64_t block = 0, of_group;
    for (size_t g = 0; !layout->mixed && g < layout->n_groups; g++) {
        if (!kva_mul(layout->groups[g].n_entries, layout->specs[layout->groups[g].spec].page, &of_group))
            return UINT64_MAX;
        block = kva_max(block, of_group);
    }
    for (size_t e = 0; layout->mixed && e < layout->n_entries; e++)
        if (!kva_add(block, layout->specs[layout->entries[e].spec].page, &block))
            return UINT64_MAX;
    return block;
}

// The bytes that one request of `length` tokens is said to need on a rank of `stage`; UINT64_MAX: more than 2^64.
static uint64_t needed(const struct kva_call *call, const struct vllm_layout *layout,
                       const struct vllm_request *request, uint32_t stage, uint64_t length)
{
    const struct vllm_behaviours *behaves = vllm_behaves(call);
    uint64_t bytes = 0, block = layout->block_bytes[stage];
    if (behaves->check == VLLM_CHECK_SPECS) {
        for (size_t s = 0; s < layout->n_raw; s++) {
            uint64_t of_layer;
            if (!kva_mul(vllm_blocks(request, &layout->raw[s], length), layout->raw[s].page, &of_layer) ||
                !kva_add_product(&bytes, of_layer, layout->raw_counts[stage * layout->n_raw + s]))
                return UINT64_MAX;
        }
        return bytes;
    }
    if (behaves->check_scope == VLLM_CHECK_WHOLE) {
        block = whole_block(layout);
    }
    if (layout->check_bytes > 0)
        block = layout->check_bytes;
    const bool first = behaves->check == VLLM_CHECK_FIRST_GROUP && !layout->mixed;
    const uint64_t blocks = first ? vllm_blocks(request, &layout->specs[layout->groups[0].spec], length)
                                  : vllm_blocks_of_all(request, layout, length);
    return kva_mul(block, blocks, &bytes) ? bytes : UINT64_MAX;
}

// Bytes that the check compares with, on a rank of `stage`.
static uint64_t admitted(const struct kva_call *call, const struct vllm_layout *layout, uint32_t stage)
{
    const struct vllm_behaviours *behaves = vllm_behaves(call);
    const uint64_t block = layout->block_bytes[stage];
    uint64_t budget = call->deployment->kv_bytes;
    if (call->deployment->kv_blocks > 0 && (behaves->check_override || budget == 0) &&
        !kva_mul(call->deployment->kv_blocks, block, &budget))
        budget = UINT64_MAX;
    if (behaves->check_null_block)
        budget = budget > block ? budget - block : 0;
    return budget;
}

// The longest length, at most `limit`, whose need is within the budget. (estimate_max_model_len)
static uint64_t longest_on(const struct kva_call *call, const struct vllm_layout *layout,
                           const struct vllm_request *request, uint32_t stage, uint64_t limit)
{
    const uint64_t budget = admitted(call, layout, stage);
    uint64_t low = 1, high = limit, best = 0;
    if (needed(call, layout, request, stage, 1) > budget)
        return 0;
    while (low <= high) {
        const uint64_t middle = low + (high - low) / 2;
        if (needed(call, layout, request, stage, middle) <= budget) {
            best = middle;
            low = middle + 1;
        } else
            high = middle - 1;
    }
    return best;
}

uint64_t vllm_longest(const struct kva_call *call, const struct vllm_layout *layout, uint64_t limit)
{
    const struct vllm_request request = vllm_request_of(call);
    for (uint32_t stage = 0; stage < layout->n_stages; stage++)
        if (layout->block_bytes[stage] > 0)
            limit = kva_min(limit, longest_on(call, layout, &request, stage, limit));
    return limit;
}

static enum kva_status say(struct kva_call *call, const char *id, const struct kva_quantity *quantities, size_t n,
                           struct vllm_pool *pool)
{
    pool->refusal = vllm_words(call, id, quantities, n);
    return pool->refusal != NULL ? KVA_OK : kva_fail_memory(call->error, 512);
}

static enum kva_status check_stage(struct kva_call *call, const struct vllm_layout *layout,
                                   const struct vllm_request *request, uint32_t stage, struct vllm_pool *pool)
{
    const uint64_t budget = admitted(call, layout, stage), context = call->deployment->context;
    if (budget <= 1)
        return say(call, "no_memory", NULL, 0, pool);
    const uint64_t need = needed(call, layout, request, stage, context);
    if (need <= budget)
        return KVA_OK;
    const uint64_t estimate = longest_on(call, layout, request, stage, context);
    const struct kva_quantity quantities[] = {
        kva_count_of("context", context), kva_real_of("needed", (double)need / VLLM_GIB),
        kva_real_of("budget", (double)budget / VLLM_GIB), kva_count_of("estimate", estimate)};
    return say(call, estimate > 0 ? "too_long" : "too_long_at_all", quantities, 4, pool);
}

// ---------------------------------------------------------------- blocks, tokens, concurrency

static void count_blocks(const struct kva_call *call, const struct vllm_layout *layout, struct vllm_pool *pool)
{
    pool->blocks = UINT64_MAX;
    for (uint32_t stage = 0; stage < layout->n_stages; stage++) {
        const uint64_t block = layout->block_bytes[stage];
        if (block == 0 || call->deployment->kv_bytes / block >= pool->blocks)
            continue;
        pool->blocks = call->deployment->kv_bytes / block;
        pool->stage = stage;
    }
    pool->given = pool->blocks;
    if (call->deployment->kv_blocks > 0)
        pool->blocks = call->deployment->kv_blocks;
}

// Blocks of a request as concurrency counts them: where groups take pages of different size, early releases divide the
// bytes of all groups by the first group's page.
static uint64_t counted_blocks(const struct kva_call *call, const struct vllm_layout *layout,
                               const struct vllm_request *request, uint64_t blocks)
{
    uint64_t bytes = 0;
    if (layout->check_bytes == 0 || vllm_behaves(call)->concurrency == VLLM_CONCURRENCY_EACH_PAGE)
        return blocks;
    for (size_t g = 0; g < layout->n_groups; g++)
        if (!kva_add_product(&bytes, layout->groups[g].page,
                             vllm_blocks(request, &layout->specs[layout->groups[g].spec], call->deployment->context)))
            return blocks;
    return kva_ceil_div(bytes, layout->groups[0].page);
}

uint64_t vllm_printed_tokens(const struct kva_call *call, const struct vllm_layout *layout, uint64_t blocks,
                             double concurrency)
{
    const int meaning = vllm_behaves(call)->tokens;
    uint64_t block = UINT64_MAX, tokens = 0;
    if (meaning == VLLM_TOKENS_CONCURRENCY) {
        const double product = concurrency * (double)call->deployment->context;
        return product < 0x1p63 ? (uint64_t)product : KVA_UNKNOWN;
    }
    for (size_t s = 0; s < layout->n_specs; s++)
        block = kva_min(block, layout->specs[s].block);
    if (meaning == VLLM_TOKENS_CONFIGURED && layout->n_groups == 1)
        block = layout->block;
    const uint64_t shards = call->deployment->dcp * (vllm_behaves(call)->pcp ? call->deployment->pcp : 1);
    return kva_mul3(blocks / layout->n_groups, block, shards, &tokens) ? tokens : KVA_UNKNOWN;
}

enum kva_status vllm_pool_fill(struct kva_call *call, const struct vllm_layout *layout, struct vllm_pool *pool)
{
    const struct vllm_request request = vllm_request_of(call);
    enum kva_status status = KVA_OK;
    *pool = (struct vllm_pool){0};
    if (layout->n_groups == 0)
        return KVA_OK;
    count_blocks(call, layout, pool);
    for (uint32_t stage = 0; status == KVA_OK && pool->refusal == NULL && stage < layout->n_stages; stage++)
        if (layout->block_bytes[stage] > 0)
            status = check_stage(call, layout, &request, stage, pool);
    pool->budget = call->deployment->kv_bytes;
    pool->need = vllm_blocks_of_all(&request, layout, call->deployment->context);
    pool->counted = counted_blocks(call, layout, &request, pool->need);
    pool->concurrency = pool->counted > 0 ? (double)pool->blocks / (double)pool->counted : 0;
    pool->tokens = vllm_printed_tokens(call, layout, pool->blocks, pool->concurrency);
    pool->longest = vllm_longest(call, layout, kva_max(call->model->context_limit, call->deployment->context));
    return status;
}
