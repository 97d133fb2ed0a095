// DeepSeek-V4 under SGLang: a windowed pool for every layer, compressed rows and an indexer for some, and the states of
// rows that are not full yet (model_executor/pool_configurator.py DSV4PoolConfigurator, mem_cache/
// deepseek_v4_memory_pool.py).
#include <math.h>

#include "base/checked.h"
#include "base/error.h"
#include "engine/parallel.h"
#include "engine/sglang.h"

enum { CSA = 4, HCA = 128, PAGE_UNIT = 576, STATE_BYTES = 4 };

// Within these no product below wraps.
static const uint64_t MOST_BYTES = UINT64_C(1) << 52, MOST_TOKENS = UINT64_C(1) << 42, MOST_REQUESTS = 1 << 24;

struct counts {
    uint64_t layers, csa, hca;  // all, those with a row for every 4 tokens, for every 128
    uint64_t head_dim, index_dim, window;
};

struct pools {
    uint64_t full, swa, c4, c128, c4_state, c128_state;
    uint64_t requests;
};

bool sglang_is_dsv4(const struct kva_model *model)
{
    for (size_t i = 0; i < model->n_layers; i++)
        for (size_t c = 0; c < model->layers[i].n_caches; c++)
            if (model->layers[i].caches[c].ratio == HCA)
                return true;
    return false;
}

static uint64_t ratio_of(const struct kva_layer *layer)
{
    uint64_t ratio = 0;
    for (size_t c = 0; c < layer->n_caches; c++)
        if (layer->caches[c].ratio > 1)
            ratio = layer->caches[c].ratio;
    return ratio;
}

static enum kva_status refuse(struct kva_call *call, const char *what)
{
    return kva_fail(call->error, KVA_REFUSED, NULL, "engine", "DeepSeek-V4: %s", what);
}

static enum kva_status count_layers(struct kva_call *call, struct counts *counts)
{
    const struct sglang *sglang = call->behaviours;
    *counts = (struct counts){0};
    if (sglang->dsv4 == DSV4_NONE)
        return refuse(call, "this version of SGLang does not run it");
    if (call->deployment->pp > 1)
        return refuse(call, "how SGLang sizes pools of several stages was not read");
    for (size_t i = 0; i < call->model->n_layers; i++) {
        const struct kva_layer *layer = &call->model->layers[i];
        const uint64_t ratio = ratio_of(layer);
        counts->layers++;
        counts->csa += ratio == CSA;
        counts->hca += ratio == HCA;
        if (ratio != 0 && ratio != CSA && ratio != HCA)
            return refuse(call, "rows for every 4 or 128 tokens are what SGLang knows");
        for (size_t c = 0; c < layer->n_caches; c++) {
            const struct kva_cache *cache = &layer->caches[c];
            if (cache->kind == KVA_CACHE_INDEX)
                counts->index_dim = cache->k_dim;
            else if (cache->kind == KVA_CACHE_SLIDING) {
                counts->head_dim = cache->k_dim;
                counts->window = cache->window;
            }
        }
    }
    const struct kva_deployment *deployment = call->deployment;
    const bool bounded = deployment->kv_bytes <= MOST_BYTES && deployment->context <= MOST_TOKENS &&
                         deployment->sequences <= MOST_TOKENS / deployment->context &&
                         deployment->max_sequences <= MOST_REQUESTS;
    if (!bounded)
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, "context",
                        "more tokens, requests or bytes than any GPU holds");
    if (deployment->block_size % HCA != 0)
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, "block_size",
                        "page_size must be multiple of 128 for compressed attention; %llu is not",
                        (unsigned long long)deployment->block_size);
    if (counts->window != HCA || counts->head_dim != 512)
        return refuse(call, "a window of 128 tokens and heads of 512 elements are what SGLang insists on");
    return KVA_OK;
}

// get_compress_state_ring_size
static uint64_t ring(const struct kva_call *call, uint64_t ratio)
{
    const uint64_t once = ratio == CSA ? 8 : 128;
    return call->deployment->spec_tokens > 0 ? 2 * once : once;
}

// DeepSeekV4SingleKVPool.create_buffer: a page is padded to 576 bytes
static uint64_t page_bytes(const struct sglang *sglang, uint64_t page)
{
    return kva_ceil_div(page * sglang->dsv4_row, PAGE_UNIT) * PAGE_UNIT;
}

static double paged_row(const struct sglang *sglang, uint64_t page)
{
    return (double)page_bytes(sglang, page) / (double)page;
}

// One draft layer, whatever the draft has.
static double with_drafts(const struct kva_call *call, const struct counts *counts, double bytes)
{
    const double n = (double)counts->layers;
    return call->deployment->spec_tokens > 0 ? bytes * ((n + 1) / n) : bytes;
}

// _resolve_swa_cap_tokens: the windowed pool by the requests that may run and four cached prefixes for each; 0 where
// the ratio decides
static uint64_t windowed_cap(const struct kva_call *call, const struct counts *counts)
{
    const struct sglang *sglang = call->behaviours;
    const struct kva_deployment *deployment = call->deployment;
    const uint64_t page = deployment->block_size, most = sglang_max_running(call);
    if (sglang->dsv4 != DSV4_BY_PAGE || deployment->swa_ratio > 0 || most == 0 ||
        deployment->chunked_prefill == KVA_OFF)
        return 0;
    const uint64_t tails = sglang_radix_cache(call) ? 4 * (most / sglang_data_ranks(call)) : 0;
    const uint64_t tokens = sglang_request_cap(call, counts->window) + tails * (counts->window + page);
    return kva_ceil_div(tokens, page) * page;
}

// _get_bytes_per_swa_token
static double bytes_per_windowed_token(const struct kva_call *call, const struct counts *counts)
{
    const uint64_t page = call->deployment->block_size, widths = counts->head_dim + counts->index_dim;
    const double states = (double)ring(call, CSA) / (double)page * (double)(4 * widths * STATE_BYTES);
    const double bytes = paged_row(call->behaviours, page) * (double)counts->layers + states * (double)counts->csa;
    return with_drafts(call, counts, bytes);
}

// _get_bytes_per_full_token since pages are what is counted
static double bytes_per_token_of_pages(const struct kva_call *call, const struct counts *counts)
{
    const struct sglang *sglang = call->behaviours;
    const uint64_t page = call->deployment->block_size;
    const double row4 =
        1.0 / 4 * paged_row(sglang, page / CSA) + 1.0 / 4 * (double)kva_index_key_bytes(counts->index_dim);
    const double row128 = 1.0 / 128 * paged_row(sglang, page / HCA);
    const double rows = with_drafts(call, counts, row4 * (double)counts->csa + row128 * (double)counts->hca);
    return windowed_cap(call, counts) > 0 ? rows
                                          : sglang_swa_ratio(call) * bytes_per_windowed_token(call, counts) + rows;
}

// _get_bytes_per_full_token, term by term
static double bytes_per_token(const struct kva_call *call, const struct counts *counts)
{
    if (((const struct sglang *)call->behaviours)->dsv4 == DSV4_BY_PAGE)
        return bytes_per_token_of_pages(call, counts);
    const struct sglang *sglang = call->behaviours;
    const double ratio = sglang_swa_ratio(call), row = (double)sglang->dsv4_row, window = (double)counts->window;
    const double n = (double)counts->layers, n4 = (double)counts->csa, n128 = (double)counts->hca;
    const double state4 = 4 * (double)counts->head_dim * STATE_BYTES,
                 index4 = 4 * (double)counts->index_dim * STATE_BYTES;
    const double state128 = 2 * (double)counts->head_dim * STATE_BYTES;
    const double ring4 = (double)ring(call, CSA) / window;
    const double ring128 = sglang->dsv4 == DSV4_BY_WINDOW ? ratio * ((double)ring(call, HCA) / window) : 0;
    const double bytes = ratio * row * n + 1.0 / 4 * row * n4 + 1.0 / 128 * row * n128 +
                         1.0 / 4 * (double)kva_index_key_bytes(counts->index_dim) * n4 + ratio * ring4 * state4 * n4 +
                         ring128 * state128 * n128 + ratio * ring4 * index4 * n4;
    return with_drafts(call, counts, bytes);
}

// _get_c128_state_fixed_bytes
static uint64_t fixed_bytes(const struct kva_call *call, const struct counts *counts, uint64_t requests)
{
    const struct sglang *sglang = call->behaviours;
    const uint64_t size = ring(call, HCA);
    if (sglang->dsv4 == DSV4_BY_WINDOW)
        return 0;
    const uint64_t rows = kva_ceil_div((requests + 1) * size + size + 1, HCA) * HCA;
    return rows * 2 * counts->head_dim * STATE_BYTES * counts->hca;
}

static uint64_t windowed_page(const struct kva_call *call, const struct counts *counts)
{
    const struct sglang *sglang = call->behaviours;
    return sglang->dsv4 == DSV4_BY_PAGE ? call->deployment->block_size : counts->window;
}

static void fill_pools(const struct kva_call *call, const struct counts *counts, uint64_t tokens, struct pools *pools)
{
    const struct sglang *sglang = call->behaviours;
    const uint64_t page = call->deployment->block_size, cap = windowed_cap(call, counts);
    pools->full = tokens / page * page;
    pools->swa = cap > 0 ? cap : kva_whole((double)pools->full * sglang_swa_ratio(call)) / page * page;
    pools->c4 = pools->full / CSA;
    pools->c128 = pools->full / HCA;
    pools->c4_state = pools->swa / windowed_page(call, counts) * ring(call, CSA);
    pools->requests = sglang_requests(call, pools->full);
    pools->c128_state = sglang->dsv4 == DSV4_BY_WINDOW ? pools->swa / counts->window * ring(call, HCA)
                                                       : (pools->requests + 1) * ring(call, HCA);
}

// calculate_pool_sizes
static void pools_of_budget(const struct kva_call *call, const struct counts *counts, uint64_t budget,
                            struct pools *pools)
{
    const double each = bytes_per_token(call, counts);
    const uint64_t guess = kva_whole((double)budget / each);
    const uint64_t asked = sglang_max_running(call) / sglang_data_ranks(call);
    const uint64_t fixed = fixed_bytes(call, counts, asked > 0 ? asked : sglang_requests(call, guess));
    const double windows = (double)windowed_cap(call, counts) * bytes_per_windowed_token(call, counts);
    const double left = fmax((double)budget - (double)fixed - windows, 0);
    uint64_t tokens = kva_whole(left / each);
    if (call->deployment->kv_tokens > 0)
        tokens = kva_min(tokens, call->deployment->kv_tokens);
    fill_pools(call, counts, tokens, pools);
}

static uint64_t windowed_tokens(const struct kva_call *call, const struct counts *counts)
{
    const uint64_t page = call->deployment->block_size;
    return kva_min(kva_ceil_div(call->deployment->context, page), kva_ceil_div(counts->window, page) + 1) * page;
}

// The least full pool that holds the sequences, and whose windowed pool holds their windows.
static void pools_asked(const struct kva_call *call, const struct counts *counts, struct pools *pools)
{
    const uint64_t page = call->deployment->block_size, sequences = call->deployment->sequences;
    const uint64_t tokens = kva_ceil_div(call->deployment->context, page) * page * sequences;
    const uint64_t windows = windowed_tokens(call, counts) * sequences;
    fill_pools(call, counts, tokens, pools);
    if (windowed_cap(call, counts) > 0)
        pools->swa = kva_max(pools->swa, windows);
    else if (pools->swa < windows)
        fill_pools(call, counts, kva_whole(ceil((double)windows / sglang_swa_ratio(call))) + page, pools);
}

// ---------------------------------------------------------------- bytes

// Whole pages, and one page more, or as many as a whole page of tokens has.
static uint64_t paged_bytes(const struct kva_call *call, uint64_t slots, uint64_t page)
{
    const struct sglang *sglang = call->behaviours;
    const uint64_t block = call->deployment->block_size;
    const uint64_t pages = sglang->dsv4 == DSV4_BY_PAGE ? kva_ceil_div(slots + block, page) : (slots + page + 1) / page;
    return pages * page_bytes(sglang, page);
}

static uint64_t index_bytes(const struct kva_call *call, const struct counts *counts, uint64_t slots)
{
    const struct sglang *sglang = call->behaviours;
    const uint64_t block = call->deployment->block_size, page = block / CSA;
    const uint64_t pages = sglang->dsv4_index_padded ? kva_ceil_div(slots + block, page) : (slots + page + 1) / page;
    return pages * page * kva_index_key_bytes(counts->index_dim);
}

static uint64_t state_bytes(uint64_t slots, uint64_t ring_size, uint64_t ratio, uint64_t width)
{
    return kva_ceil_div(slots + ring_size + 1, ratio) * ratio * width * STATE_BYTES;
}

static uint64_t layer_bytes(const struct kva_call *call, const struct counts *counts, const struct pools *pools,
                            uint64_t ratio)
{
    const uint64_t page = call->deployment->block_size;
    const uint64_t window = paged_bytes(call, pools->swa, windowed_page(call, counts));
    if (ratio == CSA)
        return window + paged_bytes(call, pools->c4, page / CSA) + index_bytes(call, counts, pools->c128 * 32) +
               state_bytes(pools->c4_state, ring(call, CSA), CSA, 4 * (counts->head_dim + counts->index_dim));
    if (ratio == HCA)
        return window + paged_bytes(call, pools->c128, page / HCA) +
               state_bytes(pools->c128_state, ring(call, HCA), HCA, 2 * counts->head_dim);
    return window;
}

static uint64_t total_bytes(const struct kva_call *call, const struct counts *counts, const struct pools *pools)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < call->model->n_layers; i++)
        sum += layer_bytes(call, counts, pools, ratio_of(&call->model->layers[i]));
    return sum;
}

static const uint64_t OF_ALL_LAYERS = 1, OF_NO_LAYER = UINT64_MAX;  // in the place of a ratio

static enum kva_status list_pool(struct kva_call *call, struct kva_engine_allocation *allocation, const char *name,
                                 uint64_t ratio, uint64_t tokens, uint64_t bytes)
{
    struct kva_pool *pool = &allocation->pools[allocation->n_pools++];
    *pool = (struct kva_pool){.name = name, .block_tokens = tokens, .page_bytes = bytes, .blocks = 1, .bytes = bytes};
    pool->layers = kva_arena_alloc(call->arena, call->model->n_layers + 1, sizeof *pool->layers);
    if (pool->layers == NULL)
        return kva_fail_memory(call->error, call->model->n_layers * sizeof *pool->layers);
    for (size_t i = 0; i < call->model->n_layers; i++)
        if (ratio == OF_ALL_LAYERS || ratio_of(&call->model->layers[i]) == ratio)
            pool->layers[pool->n_layers++] = call->model->layers[i].index;
    return KVA_OK;
}

static enum kva_status list_pools(struct kva_call *call, const struct counts *counts, const struct pools *pools,
                                  uint64_t table, struct kva_engine_allocation *allocation)
{
    const uint64_t window = layer_bytes(call, counts, pools, 0);
    allocation->pools = kva_arena_alloc(call->arena, 4, sizeof *allocation->pools);
    if (allocation->pools == NULL)
        return kva_fail_memory(call->error, 4 * sizeof *allocation->pools);
    enum kva_status status =
        list_pool(call, allocation, "windowed", OF_ALL_LAYERS, pools->swa, window * counts->layers);
    if (status == KVA_OK)
        status = list_pool(call, allocation, "rows of 4 tokens, their index and states", CSA, pools->full,
                           (layer_bytes(call, counts, pools, CSA) - window) * counts->csa);
    if (status == KVA_OK)
        status = list_pool(call, allocation, "rows of 128 tokens and their states", HCA, pools->full,
                           (layer_bytes(call, counts, pools, HCA) - window) * counts->hca);
    if (status == KVA_OK)
        status = list_pool(call, allocation, "tokens of requests", OF_NO_LAYER, 0, table);
    return status;
}

// Why the engine would not start; NULL where it would.
static enum kva_status find_refusal(struct kva_call *call, const struct counts *counts, const struct pools *pools,
                                    const char **refusal)
{
    const struct sglang *sglang = call->behaviours;
    const uint64_t cap = windowed_cap(call, counts);
    if (pools->full == 0 && cap > 0)
        return sglang_refuse_cap(call, "The DSV4 SWA", "--swa-prefix-tails or ", cap,
                                 (double)cap * bytes_per_windowed_token(call, counts),
                                 (double)call->deployment->kv_bytes, refusal);
    if (pools->full == 0)
        *refusal = "Not enough memory. Please try to increase --mem-fraction-static.";
    else if (cap == 0 && sglang->dsv4 == DSV4_BY_PAGE && counts->window + call->deployment->block_size >= pools->swa)
        return sglang_refuse_floor(call, counts->window, pools->swa, refusal);
    return KVA_OK;
}

static enum kva_status fill_capacity(struct kva_call *call, const struct counts *counts,
                                     struct kva_engine_allocation *allocation)
{
    const struct kva_deployment *deployment = call->deployment;
    const uint64_t page = deployment->block_size;
    struct pools pools;
    allocation->capacity.max_context = KVA_UNKNOWN;
    if (deployment->kv_bytes == 0)
        return KVA_OK;
    pools_of_budget(call, counts, deployment->kv_bytes, &pools);
    allocation->capacity = (struct kva_capacity){.known = true, .budget = deployment->kv_bytes, .tokens = pools.full};
    struct kva_capacity *capacity = &allocation->capacity;
    enum kva_status status = find_refusal(call, counts, &pools, &capacity->refusal);
    if (status != KVA_OK || capacity->refusal != NULL)
        return status;
    capacity->reserved = total_bytes(call, counts, &pools);
    capacity->sequences_at_context = kva_min(kva_min(pools.full / (kva_ceil_div(deployment->context, page) * page),
                                                     pools.swa / windowed_tokens(call, counts)),
                                             pools.requests);
    capacity->max_context = pools.full;
    capacity->fits = capacity->sequences_at_context >= deployment->sequences;
    return KVA_OK;
}

enum kva_status sglang_dsv4_allocate(struct kva_call *call, struct kva_engine_allocation *allocation)
{
    const struct sglang *sglang = call->behaviours;
    struct counts counts;
    struct pools pools;
    enum kva_status status = count_layers(call, &counts);
    if (status != KVA_OK)
        return status;
    pools_asked(call, &counts, &pools);
    for (size_t i = 0; i < call->model->n_layers; i++) {
        allocation->layers[i].bytes = layer_bytes(call, &counts, &pools, ratio_of(&call->model->layers[i]));
        allocation->layers[i].rows = pools.full / call->deployment->sequences;
    }
    if (!kva_mul3(pools.requests + sglang->request_padding_rows, call->deployment->context + 4, sizeof(int32_t),
                  &allocation->unassigned))
        return kva_too_large(call);
    allocation->outside = allocation->unassigned;  // the table is not paid from the pools' budget
    allocation->overpay_why = windowed_cap(call, &counts) > 0
                                  ? "rows of a page are padded, and the windowed pool is for all requests that may run"
                                  : "rows of a page are padded, and the windowed pool is a share of the full one";
    status = fill_capacity(call, &counts, allocation);
    return status == KVA_OK ? list_pools(call, &counts, &pools, allocation->unassigned, allocation) : status;
}

static enum kva_status print_cap(struct kva_call *call, uint64_t tokens)
{
    const uint64_t requests = sglang_max_running(call) / sglang_data_ranks(call);
    const struct kva_quantity quantities[] = {
        kva_count_of("tokens", tokens),
        kva_count_of("tails", sglang_radix_cache(call) ? 4 * requests : 0),
    };
    return kva_print(call, "dsv4_cap", quantities, sizeof quantities / sizeof *quantities);
}

enum kva_status sglang_dsv4_print(struct kva_call *call)
{
    struct counts counts;
    struct pools pools;
    if (call->deployment->kv_bytes == 0)
        return KVA_OK;
    enum kva_status status = count_layers(call, &counts);
    if (status != KVA_OK)
        return status;
    pools_of_budget(call, &counts, call->deployment->kv_bytes, &pools);
    const struct sglang *sglang = call->behaviours;
    // the states of requests are sized after this line
    const uint64_t c128_state = sglang->dsv4 == DSV4_BY_WINDOW ? pools.c128_state : 0;
    const struct kva_quantity quantities[] = {
        kva_count_of("full", pools.full),
        kva_count_of("swa", pools.swa),
        kva_count_of("c4", pools.c4),
        kva_count_of("c128", pools.c128),
        kva_count_of("c4_state", pools.c4_state),
        kva_count_of("c128_state", c128_state),
    };
    if (pools.full == 0)
        return KVA_OK;
    if (windowed_cap(call, &counts) > 0)
        status = print_cap(call, pools.swa);
    return status == KVA_OK ? kva_print(call, "dsv4_tokens", quantities, sizeof quantities / sizeof *quantities)
                            : status;
}
