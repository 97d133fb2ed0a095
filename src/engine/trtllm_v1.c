// Manager V1: one pool of blocks for all layers, as long as the context whatever windows they have; or, where windows
// are asked for, a pool for each, of an equal share of the bytes.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/error.h"
#include "engine/budget.h"
#include "engine/parallel.h"
#include "engine/trtllm.h"

// ---------------------------------------------------------------- shares

// "0.4,0.6" of the windows from the shortest to the longest (TRTLLM_WINDOW_SIZE_SHARES); equal ones when not said.
static enum kva_status shares_of(struct kva_call *call, size_t n, double *shares)
{
    const char *at = call->deployment->window_shares;
    double sum = 0;
    size_t given = 0;
    for (size_t w = 0; w < n; w++)
        shares[w] = 1.0 / (double)n;
    while (at != NULL && given < n) {
        char *end;
        shares[given] = strtod(at, &end);
        if (end == at || !(shares[given] > 0) || (*end != ',' && *end != '\0'))
            break;
        sum += shares[given++];
        at = *end == ',' ? end + 1 : NULL;
    }
    if (call->deployment->window_shares != NULL && (given != n || at != NULL || fabs(sum - 1) > 1e-6))
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, "window_shares",
                        "'%s' is not a share for each of %zu windows that make 1 together",
                        call->deployment->window_shares, n);
    return KVA_OK;
}

// ---------------------------------------------------------------- blocks of a budget

// calculate_max_num_blocks: tokens = min(max_tokens, bytes / bytes of a token), then whole blocks, the least of all
// ranks
static uint64_t uniform_blocks(const struct kva_call *call, const struct trtllm_shape *shape, uint64_t slots)
{
    const struct kva_deployment *deployment = call->deployment;
    uint64_t least = UINT64_MAX;
    for (uint64_t s = 0; s < deployment->pp; s++) {
        const uint64_t row = trtllm_stage_row(call, shape, s, 0), state = trtllm_stage_state(call, shape, s);
        uint64_t tokens = deployment->kv_tokens > 0 ? deployment->kv_tokens : UINT64_MAX, taken;
        if (!kva_mul(slots, state, &taken))
            taken = UINT64_MAX;
        if (deployment->kv_bytes > 0 && row > 0)
            tokens = kva_min(tokens, (deployment->kv_bytes - kva_min(taken, deployment->kv_bytes)) / row);
        if (row > 0)
            least = kva_min(least, tokens / deployment->block_size);
    }
    return least == UINT64_MAX ? 0 : least;
}

// calculate_max_num_blocks_for_vswa: int(bytes x share / bytes of a token // tokens of a block); the scales of an NVFP4
// cache are not counted, and neither is max_tokens
static uint64_t window_blocks(const struct kva_call *call, const struct trtllm_shape *shape, uint64_t window,
                              double bytes)
{
    uint64_t least = UINT64_MAX;
    for (uint64_t s = 0; s < call->deployment->pp; s++) {
        const uint64_t row = trtllm_stage_plain_row(call, shape, s, window);
        if (row > 0)
            least = kva_min(least, kva_whole(bytes / (double)row / (double)call->deployment->block_size));
    }
    return least == UINT64_MAX ? 0 : least;
}

enum kva_status trtllm_v1_pools(struct kva_call *call, const struct trtllm_shape *shape, struct trtllm_pools *pools)
{
    double shares[TRTLLM_MAX_WINDOWS];
    *pools = (struct trtllm_pools){.slots = shape->states ? trtllm_max_batch(call) + shape->slots_beside : 0};
    enum kva_status status = shares_of(call, shape->n_windows, shares);
    if (status == KVA_OK && shape->n_windows == 1)
        pools->blocks[0] = uniform_blocks(call, shape, pools->slots);
    for (size_t w = 0; status == KVA_OK && shape->n_windows > 1 && w < shape->n_windows; w++)
        pools->blocks[w] =
            window_blocks(call, shape, shape->windows[w], (double)call->deployment->kv_bytes * shares[w]);
    return status;
}

// ---------------------------------------------------------------- blocks of the sequences asked for

// Blocks of one sequence: all of the context in one pool, of a window's own pool those that reach into the window.
static uint64_t blocks_of_sequence(const struct kva_call *call, const struct trtllm_shape *shape, size_t w)
{
    const uint64_t block = call->deployment->block_size, all = kva_ceil_div(call->deployment->context, block);
    if (shape->n_windows == 1)
        return all;
    return kva_min(all, kva_ceil_div(shape->windows[w], block) + 1);
}

// The least bytes of which every pool's share holds the sequences.
static enum kva_status asked_pools(struct kva_call *call, const struct trtllm_shape *shape, struct trtllm_pools *pools)
{
    const struct kva_deployment *deployment = call->deployment;
    double shares[TRTLLM_MAX_WINDOWS], bytes = 0;
    *pools = (struct trtllm_pools){.slots = shape->states ? deployment->sequences + shape->slots_beside : 0};
    enum kva_status status = shares_of(call, shape->n_windows, shares);
    for (size_t w = 0; status == KVA_OK && w < shape->n_windows; w++) {
        if (!kva_mul(blocks_of_sequence(call, shape, w), deployment->sequences, &pools->blocks[w]))
            return kva_too_large(call);
        for (uint64_t s = 0; s < deployment->pp; s++) {
            const double row = (double)trtllm_stage_plain_row(call, shape, s, shape->windows[w]);
            bytes = fmax(bytes, (double)pools->blocks[w] * (double)deployment->block_size * row / shares[w]);
        }
    }
    for (size_t w = 0; status == KVA_OK && shape->n_windows > 1 && w < shape->n_windows; w++)
        pools->blocks[w] = kva_max(pools->blocks[w], window_blocks(call, shape, shape->windows[w], bytes * shares[w]));
    return status;
}

// ---------------------------------------------------------------- bytes

static size_t pool_of(const struct trtllm_shape *shape, uint64_t window)
{
    size_t w = 0;
    while (w + 1 < shape->n_windows && shape->windows[w] != window)
        w++;
    return w;
}

static bool stage_bytes(const struct kva_call *call, const struct trtllm_shape *shape, uint64_t stage,
                        const struct trtllm_pools *pools, uint64_t *bytes)
{
    *bytes = 0;
    for (size_t w = 0; w < shape->n_windows; w++) {
        const uint64_t window = shape->n_windows > 1 ? shape->windows[w] : 0;
        uint64_t tokens;
        if (!kva_mul(pools->blocks[w], call->deployment->block_size, &tokens) ||
            !kva_add_product(bytes, tokens, trtllm_stage_row(call, shape, stage, window)))
            return false;
    }
    return kva_add_product(bytes, pools->slots, trtllm_stage_state(call, shape, stage));
}

static enum kva_status allocate_layers(struct kva_call *call, const struct trtllm_shape *shape,
                                       const struct trtllm_pools *pools, struct kva_engine_allocation *allocation)
{
    const uint64_t block = call->deployment->block_size, sequences = call->deployment->sequences;
    for (size_t i = 0; i < call->model->n_layers; i++) {
        struct kva_engine_layer *layer = &allocation->layers[i];
        const struct trtllm_layer *mine = &shape->layers[i];
        uint64_t tokens;
        layer->stage = mine->stage;
        if (!kva_mul(pools->blocks[pool_of(shape, mine->window)], block, &tokens) ||
            !kva_add_product(&layer->bytes, tokens, mine->row) ||
            !kva_add_product(&layer->bytes, sequences, mine->state))
            return kva_too_large(call);
        layer->rows = mine->row > 0 ? tokens / sequences : 0;
    }
    return KVA_OK;
}

static enum kva_status sum_stages(struct kva_call *call, const struct trtllm_shape *shape,
                                  const struct trtllm_pools *pools, struct kva_engine_allocation *allocation)
{
    const struct kva_deployment *deployment = call->deployment;
    uint64_t most = 0, sum = 0, bytes;
    for (uint64_t s = 0; s < deployment->pp; s++) {
        if (!stage_bytes(call, shape, s, pools, &bytes) || !kva_add(sum, bytes, &sum))
            return kva_too_large(call);
        if (s == 0 || bytes > most) {
            most = bytes;
            allocation->stage = (uint32_t)s;
        }
    }
    uint64_t used = 0;
    for (size_t i = 0; i < call->model->n_layers; i++)
        if (shape->layers[i].stage == allocation->stage)
            used += allocation->layers[i].bytes;
    allocation->unassigned = most - used;
    return kva_allocation_total(call, sum, allocation);
}

static enum kva_status list_pools(struct kva_call *call, const struct trtllm_shape *shape,
                                  const struct trtllm_pools *pools, struct kva_engine_allocation *allocation)
{
    const uint64_t block = call->deployment->block_size;
    const size_t n = shape->n_windows + shape->states;
    allocation->pools = kva_arena_alloc(call->arena, n, sizeof *allocation->pools);
    if (allocation->pools == NULL)
        return kva_fail_memory(call->error, n * sizeof *allocation->pools);
    for (size_t w = 0; w < n; w++) {
        const bool states = w == shape->n_windows;
        const uint64_t row =
            states ? trtllm_stage_state(call, shape, allocation->stage)
                   : trtllm_stage_row(call, shape, allocation->stage, shape->n_windows > 1 ? shape->windows[w] : 0);
        struct kva_pool *pool = &allocation->pools[w];
        pool->layers = kva_arena_alloc(call->arena, call->model->n_layers + 1, sizeof *pool->layers);
        pool->name = states ? "states"
                     : shape->n_windows == 1
                         ? "blocks"
                         : kva_arena_printf(call->arena, "window %llu", (unsigned long long)shape->windows[w]);
        if (pool->layers == NULL || pool->name == NULL)
            return kva_fail_memory(call->error, call->model->n_layers * sizeof *pool->layers);
        for (size_t i = 0; i < call->model->n_layers; i++) {
            const struct trtllm_layer *layer = &shape->layers[i];
            if (layer->stage == allocation->stage &&
                (states ? layer->state > 0 : layer->row > 0 && pool_of(shape, layer->window) == w))
                pool->layers[pool->n_layers++] = call->model->layers[i].index;
        }
        pool->block_tokens = states ? 0 : block;
        pool->blocks = states ? pools->slots : pools->blocks[w];
        if (!kva_mul(row, states ? 1 : block, &pool->page_bytes) ||
            !kva_mul(pool->page_bytes, pool->blocks, &pool->bytes))
            return kva_too_large(call);
    }
    allocation->n_pools = n;
    return KVA_OK;
}

// ---------------------------------------------------------------- capacity

static bool decides(const struct kva_call *call, const struct trtllm_shape *shape)
{
    // the pools of windows are sized by bytes alone
    return call->deployment->kv_bytes > 0 || (call->deployment->kv_tokens > 0 && shape->n_windows == 1);
}

static enum kva_status fill_capacity(struct kva_call *call, const struct trtllm_shape *shape,
                                     struct kva_engine_allocation *allocation)
{
    const struct kva_deployment *deployment = call->deployment;
    struct kva_capacity *capacity = &allocation->capacity;
    struct trtllm_pools pools;
    capacity->max_context = KVA_UNKNOWN;
    if (!decides(call, shape))
        return KVA_OK;
    enum kva_status status = trtllm_v1_pools(call, shape, &pools);
    if (status != KVA_OK)
        return status;
    *capacity = (struct kva_capacity){
        .known = true, .budget = deployment->kv_bytes, .sequences_at_context = UINT64_MAX, .max_context = KVA_UNKNOWN};
    for (size_t w = 0; w < shape->n_windows; w++) {
        const uint64_t each = kva_max(blocks_of_sequence(call, shape, w), 1);
        capacity->tokens += pools.blocks[w] * deployment->block_size;
        capacity->sequences_at_context = kva_min(capacity->sequences_at_context, pools.blocks[w] / each);
        if (shape->windows[w] == deployment->context || shape->n_windows == 1)
            capacity->max_context = pools.blocks[w] * deployment->block_size;
    }
    if (shape->states)
        capacity->sequences_at_context = kva_min(capacity->sequences_at_context, trtllm_max_batch(call));
    for (uint64_t s = 0; s < deployment->pp; s++) {
        uint64_t bytes;
        if (!stage_bytes(call, shape, s, &pools, &bytes))
            return kva_too_large(call);
        capacity->reserved = kva_max(capacity->reserved, bytes);
    }
    capacity->fits = capacity->sequences_at_context >= deployment->sequences;
    return KVA_OK;
}

enum kva_status trtllm_v1_allocate(struct kva_call *call, const struct trtllm_shape *shape,
                                   struct kva_engine_allocation *allocation)
{
    struct trtllm_pools pools;
    enum kva_status status = asked_pools(call, shape, &pools);
    if (status == KVA_OK)
        status = allocate_layers(call, shape, &pools, allocation);
    if (status == KVA_OK)
        status = sum_stages(call, shape, &pools, allocation);
    if (status == KVA_OK)
        status = list_pools(call, shape, &pools, allocation);
    if (status == KVA_OK)
        status = fill_capacity(call, shape, allocation);
    return status;
}

// ---------------------------------------------------------------- lines

static enum kva_status print_window(struct kva_call *call, const struct trtllm_shape *shape,
                                    const struct trtllm_pools *pools, size_t w)
{
    const uint64_t block = call->deployment->block_size, window = shape->windows[w], tokens = pools->blocks[w] * block;
    const struct kva_quantity quantities[] = {
        kva_count_of("window", window),
        kva_count_of("bound", tokens),
        kva_count_of("per_sequence", kva_ceil_div(kva_min(window, tokens), block)),
        kva_count_of("tokens_per_block", block),
        kva_count_of("primary", pools->blocks[w]),
        kva_count_of("secondary", 0),
        kva_count_of("length", call->deployment->context),
    };
    const size_t n = sizeof quantities / sizeof *quantities;
    enum kva_status status = KVA_OK;
    if (shape->n_windows > 1)
        status = kva_print(call, "window_pool", quantities, n);
    if (status == KVA_OK && window > tokens)
        return kva_print(call, "window_bound", quantities, n);  // and the context shrinks, which was not read
    return status == KVA_OK ? kva_print(call, "blocks", quantities, n) : status;
}

enum kva_status trtllm_v1_print(struct kva_call *call, const struct trtllm_shape *shape)
{
    struct trtllm_pools pools;
    uint64_t tokens = 0, bytes = 0;
    enum kva_status status = trtllm_v1_pools(call, shape, &pools);
    for (size_t w = 0; status == KVA_OK && w < shape->n_windows; w++) {
        tokens += pools.blocks[w] * call->deployment->block_size;
        status = print_window(call, shape, &pools, w);
    }
    pools.slots = 0;  // states are not of these pools
    if (status == KVA_OK && !stage_bytes(call, shape, 0, &pools, &bytes))
        status = kva_too_large(call);
    const struct kva_quantity quantities[] = {kva_count_of("tokens_per_block", call->deployment->block_size),
                                              kva_real_of("gib", (double)bytes / 0x1p30),
                                              kva_count_of("tokens", tokens)};
    if (status == KVA_OK)
        status = kva_print(call, "block_tokens", quantities, 3);
    return status == KVA_OK ? kva_print(call, "allocated", quantities, 3) : status;
}
