// vLLM's engine before V1, which 0.10 kept for Phi-4-mini-flash (worker/cache_engine.py, worker/worker.py,
// model_executor/models/phi4flash.py, mamba_cache.py): every layer with keys and values of its own keeps all tokens,
// windows included; layers that read another's cache keep none; states are kept for as many sequences as the engine may
// ever run at a time, outside the pool of blocks.
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "engine/parallel.h"
#include "engine/resolve.h"
#include "engine/vllm.h"

#define GIB UINT64_C(1073741824)
#define BACKEND "DIFFERENTIAL_FLASH_ATTN"

enum { DEFAULT_BLOCK = 16, MOST_BLOCK = 1 << 24, DEFAULT_SEQUENCES = 256, SWAP_GIB = 4 };

bool vllm_is_v0(const struct kva_call *call)
{
    return kva_rule(call, "v0", call->model->architecture) != NULL;
}

// ---------------------------------------------------------------- sizes

// Sequences that states are kept for: the most at a time, rounded up to a size that CUDA graphs are captured for.
static uint64_t slots(const struct kva_deployment *deployment)
{
    const uint64_t most = deployment->max_sequences;
    if (deployment->cuda_graphs == KVA_OFF || most <= 2 || most == 4)
        return most;
    return most == 3 ? 4 : kva_ceil_div(most, 8) * 8;
}

static bool is_attention(const struct kva_cache *cache)
{
    return (cache->kind == KVA_CACHE_FULL || cache->kind == KVA_CACHE_SLIDING) && cache->reads_layer < 0;
}

// One token of one layer on a rank: 2 * kv_heads * head_dim * bytes.
static bool row_bytes(const struct kva_call *call, const struct kva_cache *cache, uint64_t *bytes)
{
    return kva_kv_row_bytes(&call->kv_format, kva_heads_floor(cache->kv_heads, call->deployment->tp), cache->k_dim,
                            cache->v_dim, bytes);
}

// Adds a layer's states in all slots.
static bool add_states(const struct kva_call *call, const struct kva_cache *cache, uint64_t *bytes)
{
    const struct kva_cache share = kva_cache_on_rank(cache, call->deployment->tp);
    const uint64_t element = kva_dtype_bytes(call->deployment->model_dtype);
    uint64_t one = 0;
    for (size_t p = 0; p < share.n_state; p++)
        if (!kva_add_product(&one, share.state[p].elements, element))
            return false;
    return kva_add_product(bytes, one, slots(call->deployment));
}

// Bytes of a block over all attention layers, and of all states. False: more than 2^64.
static bool sum_layers(const struct kva_call *call, uint64_t *block, uint64_t *states)
{
    bool fits = true;
    *block = *states = 0;
    for (size_t i = 0; i < call->model->n_layers; i++)
        for (size_t c = 0; c < call->model->layers[i].n_caches; c++) {
            const struct kva_cache *cache = &call->model->layers[i].caches[c];
            uint64_t row;
            if (is_attention(cache))
                fits =
                    fits && row_bytes(call, cache, &row) && kva_add_product(block, row, call->deployment->block_size);
            else if (cache->kind == KVA_CACHE_STATE)
                fits = fits && add_states(call, cache, states);
        }
    return fits;
}

// ---------------------------------------------------------------- resolve

static enum kva_status refuse(struct kva_call *call, const char *key, const char *words)
{
    return kva_fail(call->error, KVA_REFUSED, NULL, key, "vLLM %s does not start: %s", call->version->version, words);
}

static enum kva_status check(struct kva_call *call)
{
    const struct kva_deployment *deployment = call->deployment;
    const struct kva_value *kv_heads = kva_model_value(call->model, "kv_heads");
    if (deployment->prefix_caching == KVA_ON)
        return refuse(call, "prefix_caching", "Phi4flash currently does not support prefix caching");
    if (deployment->chunked_prefill == KVA_ON)
        return refuse(call, "chunked_prefill", "Phi4Flash currently does not support prefix caching");
    if (deployment->pp > 1)
        return refuse(call, "pp", "pipeline parallelism is not supported for this model");
    if (deployment->dcp > 1 || deployment->pcp > 1 || deployment->spec_tokens > 0)
        return refuse(call, "spec_tokens", "neither context parallelism nor speculative decoding run on this engine");
    if (deployment->attention_backend != NULL && strcmp(deployment->attention_backend, BACKEND) != 0)
        return refuse(call, "attention_backend", "differential attention runs on " BACKEND " only");
    if (call->kv_format.k.bits < 16)
        return refuse(call, "kv_type", BACKEND " keeps no quantized cache");
    if (kv_heads != NULL && kv_heads->count % (2 * deployment->tp) != 0)
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, "tp",
                        "num_kv_heads must be divisible by 2 on each of %llu ranks",
                        (unsigned long long)deployment->tp);
    return deployment->block_size % DEFAULT_BLOCK == 0 && deployment->block_size <= MOST_BLOCK
               ? KVA_OK
               : kva_fail(call->error, KVA_BAD_INPUT, NULL, "block_size", "Block size must be a multiple of 16.");
}

enum kva_status vllm_v0_resolve(struct kva_call *call)
{
    struct kva_deployment *deployment = call->deployment;
    enum kva_status status = kva_resolve_common(call);
    if (status != KVA_OK)
        return status;
    if (deployment->block_size == 0)
        deployment->block_size = DEFAULT_BLOCK;
    if (deployment->max_sequences == 0) {
        deployment->max_sequences = DEFAULT_SEQUENCES;
        status =
            kva_assume(call, "at most %d sequences at a time, each with its states: vLLM's default", DEFAULT_SEQUENCES);
    }
    if (status == KVA_OK)
        status = check(call);
    if (status == KVA_OK)
        status = kva_assume(call, "the engine before V1, with VLLM_ATTENTION_BACKEND=" BACKEND
                                  ": the only one that runs this model");
    deployment->prefix_caching = KVA_OFF;
    return status;
}

// ---------------------------------------------------------------- allocate

static enum kva_status fill_layers(struct kva_call *call, struct kva_engine_layer *layers)
{
    const struct kva_deployment *deployment = call->deployment;
    const uint64_t rows = kva_ceil_div(deployment->context, deployment->block_size) * deployment->block_size;
    for (size_t i = 0; i < call->model->n_layers; i++)
        for (size_t c = 0; c < call->model->layers[i].n_caches; c++) {
            const struct kva_cache *cache = &call->model->layers[i].caches[c];
            uint64_t row, bytes = 0;
            if (is_attention(cache)) {
                layers[i].rows = rows;
                if (!row_bytes(call, cache, &row) || !kva_mul3(rows, row, deployment->sequences, &bytes))
                    return kva_too_large(call);
            } else if (cache->kind == KVA_CACHE_STATE && !add_states(call, cache, &bytes))
                return kva_too_large(call);
            if (!kva_add(layers[i].bytes, bytes, &layers[i].bytes))
                return kva_too_large(call);
        }
    return KVA_OK;
}

// The pool beside the states, which are allocated in the profiling run and so counted as what is not the pool's.
struct pool {
    uint64_t block_bytes, blocks, cpu_blocks, tokens, bytes;
    double concurrency;
};

static enum kva_status measure(const struct kva_call *call, struct pool *measured)
{
    const struct kva_deployment *deployment = call->deployment;
    struct pool pool = {0};
    uint64_t states, budget = deployment->kv_bytes;
    if (!sum_layers(call, &pool.block_bytes, &states))
        return kva_too_large(call);
    if (deployment->memory_fraction > 0)
        budget = budget > states ? budget - states : 0;
    pool.blocks = pool.block_bytes > 0 ? budget / pool.block_bytes : 0;
    if (deployment->kv_blocks > 0)
        pool.blocks = deployment->kv_blocks;
    pool.cpu_blocks = pool.block_bytes > 0 ? SWAP_GIB * GIB / pool.block_bytes : 0;
    if (!kva_mul(pool.blocks, deployment->block_size, &pool.tokens) ||
        !kva_mul(pool.blocks, pool.block_bytes, &pool.bytes))
        return kva_too_large(call);
    pool.concurrency = (double)pool.tokens / (double)deployment->context;
    *measured = pool;
    return KVA_OK;
}

static enum kva_status fill_capacity(struct kva_call *call, struct kva_capacity *capacity)
{
    const struct kva_deployment *deployment = call->deployment;
    struct pool pool;
    enum kva_status status = measure(call, &pool);
    if (status != KVA_OK)
        return status;
    const uint64_t request = kva_ceil_div(deployment->context, deployment->block_size);
    const struct kva_quantity quantities[] = {kva_count_of("context", deployment->context),
                                              kva_count_of("tokens", pool.tokens)};
    *capacity = (struct kva_capacity){.known = true, .budget = deployment->kv_bytes, .max_context = pool.tokens};
    if (pool.blocks == 0 || deployment->context > pool.tokens) {
        capacity->refusal =
            pool.blocks == 0 ? vllm_words(call, "no_memory", NULL, 0) : vllm_words(call, "v0_too_long", quantities, 2);
        return capacity->refusal != NULL ? KVA_OK : kva_fail_memory(call->error, 512);
    }
    capacity->reserved = pool.bytes;
    capacity->budget = kva_max(capacity->budget, capacity->reserved);
    capacity->tokens = pool.tokens;
    capacity->sequences_at_context = pool.blocks / request;
    capacity->fits =
        capacity->sequences_at_context >= deployment->sequences && deployment->max_sequences >= deployment->sequences;
    return KVA_OK;
}

enum kva_status vllm_v0_allocate(struct kva_call *call, struct kva_engine_allocation *allocation)
{
    enum kva_status status = fill_layers(call, allocation->layers);
    if (status == KVA_OK && vllm_has_budget(call))
        status = fill_capacity(call, &allocation->capacity);
    allocation->overpay_why =
        "windowed layers keep every token, and states are kept for every sequence that may ever run";
    return status;
}

enum kva_status vllm_v0_print_lines(struct kva_call *call)
{
    struct pool pool;
    if (!vllm_has_budget(call))
        return KVA_OK;
    enum kva_status status = measure(call, &pool);
    if (status != KVA_OK)
        return status;
    const struct kva_quantity quantities[] = {
        kva_count_of("blocks", pool.blocks), kva_count_of("cpu_blocks", pool.cpu_blocks),
        kva_count_of("context", call->deployment->context), kva_real_of("concurrency", pool.concurrency)};
    return kva_print(call, "v0_blocks", quantities, 4);
}
