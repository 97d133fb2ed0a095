// Manager V2: one quota of bytes. Full layers take rows of every token; windowed layers take their window for every
// sequence of a batch and the rows of the pass that is being read.
#include <math.h>

#include "base/checked.h"
#include "base/error.h"
#include "engine/budget.h"
#include "engine/parallel.h"
#include "engine/trtllm.h"

// ---------------------------------------------------------------- quota and tokens

struct terms {
    double full, windowed;  // bytes of one token
    double batch;           // bytes of the windows of a whole batch
};

static bool is_windowed(const struct kva_call *call, const struct trtllm_layer *layer)
{
    return layer->window < call->deployment->context;
}

// W = ceil(window / tokens of a block) blocks
static uint64_t window_tokens(const struct kva_call *call, uint64_t window)
{
    return kva_ceil_div(window, call->deployment->block_size) * call->deployment->block_size;
}

static struct terms terms_of(const struct kva_call *call, const struct trtllm_shape *shape, uint64_t stage)
{
    struct terms terms = {0};
    for (size_t i = 0; i < call->model->n_layers; i++) {
        const struct trtllm_layer *layer = &shape->layers[i];
        if (layer->stage != stage)
            continue;
        if (!is_windowed(call, layer))
            terms.full += (double)layer->row;
        else {
            terms.windowed += (double)layer->row;
            terms.batch += (double)window_tokens(call, layer->window) * (double)layer->row;
        }
    }
    if (stage + 1 == call->deployment->pp)
        terms.full += (double)shape->draft_row;
    terms.batch *= (double)trtllm_max_batch(call);
    return terms;
}

// Q(T) = T x full + batch + min(T, tokens of a pass) x windowed
double trtllm_v2_quota(const struct kva_call *call, const struct trtllm_shape *shape, uint64_t stage, double tokens)
{
    const struct terms terms = terms_of(call, shape, stage);
    return tokens * terms.full + terms.batch + fmin(tokens, (double)call->deployment->batch_tokens) * terms.windowed;
}

// T(Q), its inverse; infinite where no layer keeps every token
double trtllm_v2_tokens(const struct kva_call *call, const struct trtllm_shape *shape, uint64_t stage, double quota)
{
    const struct terms terms = terms_of(call, shape, stage);
    const double pass = (double)call->deployment->batch_tokens;
    const double of_a_pass = pass * (terms.full + terms.windowed) + terms.batch;
    if (quota < terms.batch)
        return 0;
    if (quota <= of_a_pass)
        return floor((quota - terms.batch) / (terms.full + terms.windowed));
    return terms.full > 0 ? floor(pass + (quota - of_a_pass) / terms.full) : INFINITY;
}

// _storage_manager.py: 2 MiB, doubled for each doubling of the quota from 2 GiB on, 32 MiB at most
static uint64_t granularity(uint64_t quota)
{
    uint64_t shift = 0;
    while (shift < 4 && quota >> 30 >= UINT64_C(2) << shift)
        shift++;
    return UINT64_C(2) << 20 << shift;
}

// What the manager is given: the bytes, or what the tokens need at the share that resuming leaves, the less of both.
static uint64_t given_quota(const struct kva_call *call, const struct trtllm_shape *shape, uint64_t stage)
{
    const struct trtllm *trtllm = call->behaviours;
    const struct kva_deployment *deployment = call->deployment;
    double quota = deployment->kv_bytes > 0 ? (double)deployment->kv_bytes : INFINITY;
    if (deployment->kv_tokens > 0)
        quota = fmin(
            quota, ceil(trtllm_v2_quota(call, shape, stage, (double)deployment->kv_tokens) / trtllm->v2_resume_share));
    return quota < 0x1p63 ? (uint64_t)quota : UINT64_C(1) << 63;
}

static bool decides(const struct kva_call *call)
{
    return call->deployment->kv_bytes > 0 || call->deployment->kv_tokens > 0;
}

// Tokens of all ranks: with several, the least that 0.95 of each one's quota holds.
static double tokens_of_all(const struct kva_call *call, const struct trtllm_shape *shape)
{
    const struct trtllm *trtllm = call->behaviours;
    const bool several = call->deployment->pp * call->deployment->tp > 1;
    double least = INFINITY;
    for (uint64_t s = 0; s < call->deployment->pp; s++) {
        const double quota = (double)given_quota(call, shape, s);
        least = fmin(least, trtllm_v2_tokens(call, shape, s, several ? floor(quota * trtllm->v2_resume_share) : quota));
    }
    return least;
}

// ---------------------------------------------------------------- the sequences asked for

// A layer's rows for them: all tokens, or a window of each sequence and the rows of one pass.
static uint64_t layer_tokens(const struct kva_call *call, const struct trtllm_layer *layer)
{
    const struct kva_deployment *deployment = call->deployment;
    const uint64_t block = deployment->block_size;
    const uint64_t all = kva_ceil_div(deployment->context, block) * block;
    if (!is_windowed(call, layer))
        return all * deployment->sequences;
    const uint64_t windows = kva_min(window_tokens(call, layer->window), all) * deployment->sequences;
    return kva_min(windows + deployment->batch_tokens, all * deployment->sequences);
}

static enum kva_status allocate_layers(struct kva_call *call, const struct trtllm_shape *shape,
                                       struct kva_engine_allocation *allocation, uint64_t *stages)
{
    const struct kva_deployment *deployment = call->deployment;
    enum { MOST = 40 };
    if (deployment->context > UINT64_C(1) << MOST || deployment->sequences > UINT64_C(1) << (62 - MOST) ||
        deployment->batch_tokens > UINT64_C(1) << MOST)
        return kva_too_large(call);
    for (size_t i = 0; i < call->model->n_layers; i++) {
        struct kva_engine_layer *layer = &allocation->layers[i];
        const struct trtllm_layer *mine = &shape->layers[i];
        const uint64_t tokens = mine->row > 0 ? layer_tokens(call, mine) : 0;
        layer->stage = mine->stage;
        layer->rows = tokens / deployment->sequences;
        if (!kva_add_product(&layer->bytes, tokens, mine->row) ||
            !kva_add_product(&layer->bytes, deployment->sequences, mine->state) ||
            !kva_add(stages[mine->stage], layer->bytes, &stages[mine->stage]))
            return kva_too_large(call);
    }
    return KVA_OK;
}

static enum kva_status sum_stages(struct kva_call *call, const struct trtllm_shape *shape,
                                  struct kva_engine_allocation *allocation, const uint64_t *stages)
{
    const struct kva_deployment *deployment = call->deployment;
    const uint64_t all = kva_ceil_div(deployment->context, deployment->block_size) * deployment->block_size;
    uint64_t most = 0, sum = 0;
    for (uint64_t s = 0; s < deployment->pp; s++) {
        uint64_t bytes = stages[s];
        if (!kva_add_product(&bytes, shape->slots_beside, trtllm_stage_state(call, shape, s)) ||
            !kva_add_product(&bytes, all * deployment->sequences, s + 1 == deployment->pp ? shape->draft_row : 0) ||
            !kva_round_up(bytes, granularity(bytes), &bytes) || !kva_add(sum, bytes, &sum))
            return kva_too_large(call);
        if (s == 0 || bytes > most) {
            most = bytes;
            allocation->stage = (uint32_t)s;
        }
    }
    allocation->unassigned = most - stages[allocation->stage];
    return kva_allocation_total(call, sum, allocation);
}

static enum kva_status list_pool(struct kva_call *call, const struct trtllm_shape *shape,
                                 struct kva_engine_allocation *allocation, const uint64_t *stages)
{
    struct kva_pool *pool = kva_arena_alloc(call->arena, 1, sizeof *pool);
    if (pool == NULL)
        return kva_fail_memory(call->error, sizeof *pool);
    pool->name = "quota";
    pool->layers = kva_arena_alloc(call->arena, call->model->n_layers + 1, sizeof *pool->layers);
    if (pool->layers == NULL)
        return kva_fail_memory(call->error, call->model->n_layers * sizeof *pool->layers);
    for (size_t i = 0; i < call->model->n_layers; i++)
        if (shape->layers[i].stage == allocation->stage && shape->layers[i].row + shape->layers[i].state > 0)
            pool->layers[pool->n_layers++] = call->model->layers[i].index;
    pool->bytes = stages[allocation->stage] + allocation->unassigned;
    pool->page_bytes = granularity(pool->bytes);
    pool->blocks = pool->bytes / pool->page_bytes;
    allocation->pools = pool;
    allocation->n_pools = 1;
    return KVA_OK;
}

// ---------------------------------------------------------------- capacity

static void fill_capacity(const struct kva_call *call, const struct trtllm_shape *shape,
                          struct kva_engine_allocation *allocation)
{
    const struct kva_deployment *deployment = call->deployment;
    struct kva_capacity *capacity = &allocation->capacity;
    capacity->max_context = KVA_UNKNOWN;
    if (!decides(call) || shape->states)  // how the quota is divided between states and rows was not read
        return;
    const double tokens = tokens_of_all(call, shape);
    const uint64_t quota = given_quota(call, shape, 0), all = kva_ceil_div(deployment->context, deployment->block_size);
    *capacity = (struct kva_capacity){.known = true, .budget = deployment->kv_bytes, .max_context = KVA_UNKNOWN};
    capacity->tokens = tokens < 0x1p62 ? (uint64_t)tokens : KVA_UNKNOWN;
    capacity->sequences_at_context = trtllm_max_batch(call);
    if (capacity->tokens != KVA_UNKNOWN) {
        capacity->sequences_at_context =
            kva_min(capacity->sequences_at_context, capacity->tokens / (all * deployment->block_size));
        capacity->max_context = capacity->tokens;
    }
    uint64_t reserved;
    capacity->reserved = kva_round_up(quota, granularity(quota), &reserved) ? reserved : quota;
    capacity->fits = capacity->sequences_at_context >= deployment->sequences;
}

enum kva_status trtllm_v2_allocate(struct kva_call *call, const struct trtllm_shape *shape,
                                   struct kva_engine_allocation *allocation)
{
    uint64_t *stages = kva_arena_alloc(call->arena, call->deployment->pp, sizeof *stages);
    if (stages == NULL)
        return kva_fail_memory(call->error, call->deployment->pp * sizeof *stages);
    enum kva_status status = allocate_layers(call, shape, allocation, stages);
    if (status == KVA_OK)
        status = sum_stages(call, shape, allocation, stages);
    if (status == KVA_OK)
        status = list_pool(call, shape, allocation, stages);
    if (status == KVA_OK)
        fill_capacity(call, shape, allocation);
    return status;
}

// The quota of rank 0, where it has no more decimals than the template shows: the engine prints all that there are.
enum kva_status trtllm_v2_print(struct kva_call *call, const struct trtllm_shape *shape)
{
    const double gib = (double)given_quota(call, shape, 0) / 0x1p30;
    const struct kva_quantity quantities[] = {kva_real_of("gib", gib)};
    if (floor(gib * 4) != gib * 4 || call->deployment->pp * call->deployment->tp > 1)
        return KVA_OK;
    return kva_print(call, "quota", quantities, 1);
}
