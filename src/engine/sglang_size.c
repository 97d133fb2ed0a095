// How many token slots and states SGLang's pools get: from a budget of bytes, from a number of tokens, or from the
// sequences asked for. Python's floats are IEEE doubles, so the same operations in the same order give its numbers.
#include <math.h>

#include "base/checked.h"
#include "base/error.h"
#include "engine/parallel.h"
#include "engine/sglang.h"

// Every number of tokens up to here is exact as a double.
static const uint64_t MOST_TOKENS = UINT64_C(1) << 50;

static enum kva_status too_many_tokens(const struct kva_call *call)
{
    return kva_fail(call->error, KVA_BAD_INPUT, NULL, "context", "the pools would hold more than 2^50 tokens");
}

static uint64_t page_floor(const struct kva_call *call, uint64_t tokens)
{
    return tokens / call->deployment->block_size * call->deployment->block_size;
}

static uint64_t page_ceil(const struct kva_call *call, uint64_t tokens)
{
    return kva_ceil_div(tokens, call->deployment->block_size) * call->deployment->block_size;
}

// Python's a // b of floats.
static double floor_divide(double a, double b)
{
    const double rest = fmod(a, b);
    double quotient = (a - rest) / b;
    const double floored = floor(quotient);
    return quotient - floored > 0.5 ? floored + 1 : floored;
}

// ---------------------------------------------------------------- requests

// init_memory_pool: max_num_reqs, a rank of attention
uint64_t sglang_requests(const struct kva_call *call, uint64_t tokens)
{
    const struct sglang *sglang = call->behaviours;
    const struct kva_deployment *deployment = call->deployment;
    const uint64_t asked = sglang_max_running(call), share = kva_max(asked / sglang_data_ranks(call), asked > 0);
    const uint64_t guess = kva_whole((double)tokens / (double)deployment->context * 512);
    const uint64_t estimate = kva_max(kva_min(guess, 4096), 2048);
    if (sglang->max_running == MAX_RUNNING_PROFILED)
        return asked > 0 ? asked : estimate;
    if (sglang->max_running == MAX_RUNNING_ESTIMATE)
        return asked > 0 ? kva_min(share, estimate) : kva_min(estimate, tokens / 2);
    return kva_min(asked > 0 ? share : estimate, tokens / 2);
}

// ---------------------------------------------------------------- states

struct split {
    double bytes;    // that remain for tokens
    uint64_t slots;  // states
};

// handle_max_mamba_cache: states get ratio / (1 + ratio) of the bytes, unless their number is given.
static struct split split_states(const struct kva_call *call, const struct sglang_shape *shape, double rest)
{
    struct split split;
    const struct sglang *sglang = call->behaviours;
    const struct kva_deployment *deployment = call->deployment;
    const double ratio = deployment->mamba_ratio > 0 ? deployment->mamba_ratio : sglang->mamba_ratio;
    const double slot = (double)shape->state_stage_slot, drafts = (double)deployment->spec_tokens;
    const double per_request = (double)shape->slots_per_request;
    const uint64_t ranks = sglang_data_ranks(call), padding = sglang->mamba_slots == MAMBA_SLOTS_PADDED;
    const uint64_t requests = sglang_max_running(call) / ranks;
    const bool radix = sglang_radix_cache(call), drafting = deployment->spec_tokens > 0;
    const bool flagged = deployment->mamba_slots > 0 && (sglang->mamba_flag == MAMBA_FLAG_ALWAYS || !radix);
    const bool capped = sglang->mamba_draft_states >= DRAFT_STATES_CAPPED;
    double drafted = drafting && sglang->mamba_draft_states == DRAFT_STATES_SLOTS ? 1 + drafts : 1;
    if (drafting && sglang->mamba_draft_states == DRAFT_STATES_REQUESTS)
        rest -= slot * (double)requests * drafts;
    const double share = rest * ratio / (1 + ratio);
    if (flagged)
        split.slots = deployment->mamba_slots / ranks;
    else if (!radix && requests > 0)
        split.slots = requests;
    else if (!radix && sglang->mamba_slots_no_radix > 0)
        split.slots = sglang->mamba_slots_no_radix;
    else if (drafting && capped)
        split.slots =
            kva_whole(floor_divide(share - (padding ? slot * (1 + drafts) : 0), slot * (1 + drafts / per_request)));
    else
        split.slots = kva_whole(floor_divide(floor_divide(share - (padding ? slot : 0), slot), drafted));
    if (drafting && capped) {
        const bool by_slots = !flagged && !radix;
        const uint64_t states = by_slots ? split.slots : kva_min(requests, split.slots / shape->slots_per_request);
        rest -= slot * (double)(states + (sglang->mamba_draft_states == DRAFT_STATES_CAPPED_PADDED)) * drafts;
    }
    split.bytes = rest - (double)(split.slots + padding) * slot * drafted;
    return split;
}

// ---------------------------------------------------------------- tokens

struct cells {
    double full, swa;  // bytes of one token, all layers of the stage
    double uniform;    // of one token where the version does not tell the two apart
    double draft;      // of one token of the draft's pool
};

static struct cells cells_of(const struct kva_call *call, const struct sglang_shape *shape,
                             const struct sglang_stage *stage)
{
    const struct sglang *sglang = call->behaviours;
    const uint64_t rows = stage->budget_latent > 0 ? stage->budget_latent : stage->full_k + stage->full_v;
    struct cells cells = {.full = (double)(rows + stage->budget_index + stage->workspace),
                          .swa = (double)(stage->swa_k + stage->swa_v)};
    const uint64_t any = shape->full_row > 0 ? shape->full_row : shape->swa_row;
    cells.uniform = cells.full + cells.swa;
    if (shape->hybrid && sglang->swa_cell != SWA_CELL_EXACT) {
        cells.uniform = (double)(any * (stage->n_full + stage->n_swa));
        if (sglang->swa_cell == SWA_CELL_OVER && shape->swa_row != shape->full_row)
            cells.uniform += cells.swa;
    }
    if (sglang->draft == DRAFT_BUDGETED && (!shape->hybrid || sglang->draft_with_windows)) {
        cells.draft = (double)(shape->draft_k + shape->draft_v);
        if (shape->index_row > 0)
            cells.draft += (double)(shape->index_row * call->deployment->draft_layers);
    }
    return cells;
}

static uint64_t capped(uint64_t tokens, uint64_t max_tokens)
{
    return max_tokens > 0 ? kva_min(tokens, max_tokens) : tokens;
}

// set_num_tokens_hybrid_swa of the versions that count uniform tokens first
static void split_uniform(const struct kva_call *call, const struct sglang_stage *stage, const struct cells *cells,
                          uint64_t tokens, struct sglang_sizes *sizes)
{
    const struct sglang *sglang = call->behaviours;
    const double ratio = sglang_swa_ratio(call), n = (double)tokens;
    const double all = (double)(stage->n_full + stage->n_swa);
    const double full = sglang->swa_split == SWA_SPLIT_LAYERS
                            ? n * all / (ratio * (double)stage->n_swa + (double)stage->n_full)
                            : n * (cells->full + cells->swa) / (cells->full + ratio * cells->swa);
    const uint64_t unaligned = kva_whole(full);
    sizes->full = page_floor(call, unaligned);
    sizes->swa = page_floor(call, kva_whole((double)(sglang->swa_of_aligned ? sizes->full : unaligned) * ratio));
    sizes->tokens = sizes->full;
}

static void split_ratio(const struct kva_call *call, uint64_t tokens, struct sglang_sizes *sizes)
{
    sizes->full = page_floor(call, tokens);
    sizes->swa = page_floor(call, kva_whole((double)sizes->full * sglang_swa_ratio(call)));
    sizes->tokens = sizes->full;
}

// compute_swa_request_cap: what requests hold at most, the window, what waits to be evicted and new pages.
uint64_t sglang_request_cap(const struct kva_call *call, uint64_t window)
{
    const struct sglang *sglang = call->behaviours;
    const struct kva_deployment *deployment = call->deployment;
    const uint64_t page = deployment->block_size, drafts = kva_max(deployment->spec_tokens, 1);
    const uint64_t chunk = deployment->batch_tokens > 0 ? deployment->batch_tokens : sglang_prefill_tokens(call);
    const uint64_t in_flight = deployment->async_scheduling == KVA_OFF ? 1 : 2;
    const uint64_t decoded = deployment->spec_tokens == 0 ? page : 2 * drafts;
    const uint64_t each = window + sglang->swa_eviction_interval * drafts + page + decoded;
    const uint64_t requests = kva_max(sglang_max_running(call) / sglang_data_ranks(call), 1);
    return each * requests + in_flight * chunk + page;
}

// SWAChunkCapPoolConfigurator
static bool request_cap(const struct kva_call *call, const struct sglang_shape *shape, uint64_t *tokens)
{
    const struct sglang *sglang = call->behaviours;
    if (!sglang->swa_request_cap || sglang_max_running(call) == 0 || sglang_radix_cache(call) ||
        call->deployment->chunked_prefill == KVA_OFF)
        return false;
    *tokens = page_ceil(call, sglang_request_cap(call, shape->engine_window));
    return true;
}

enum kva_status sglang_refuse_cap(struct kva_call *call, const char *whose, const char *flag, uint64_t tokens,
                                  double bytes, double budget, const char **refusal)
{
    *refusal = kva_arena_printf(
        call->arena,
        "%s pool cap (%llu tokens, %.2f %s) leaves no room for the full KV pool within the available %.2f %s. Reduce "
        "--max-running-requests, lower %sSGLANG_SWA_EVICTION_INTERVAL, or increase --mem-fraction-static.",
        whose, (unsigned long long)tokens, bytes / 0x1p30, *flag != '\0' ? "GB" : "GiB", budget / 0x1p30,
        *flag != '\0' ? "GB" : "GiB", flag);
    return *refusal != NULL ? KVA_OK : kva_fail_memory(call->error, 256);
}

enum kva_status sglang_refuse_floor(struct kva_call *call, uint64_t window, uint64_t tokens, const char **refusal)
{
    *refusal = kva_arena_printf(
        call->arena,
        "SWA pool (%llu tokens) cannot hold even one request: the prefill admission floor is sliding_window_size "
        "(%llu) + page_size (%llu). Increase --swa-full-tokens-ratio or the total KV budget.",
        (unsigned long long)tokens, (unsigned long long)window, (unsigned long long)call->deployment->block_size);
    return *refusal != NULL ? KVA_OK : kva_fail_memory(call->error, 256);
}

// HybridSWAPoolConfigurator: tokens of the full pool for which both pools fit.
static enum kva_status size_by_ratio(struct kva_call *call, const struct sglang_shape *shape,
                                     const struct sglang_stage *stage, const struct cells *cells, double bytes,
                                     uint64_t max_tokens, struct sglang_sizes *sizes)
{
    uint64_t cap;
    const bool no_budget = isinf(bytes);
    if (stage->n_full == 0) {  // the windowed pool is all there is
        sizes->profiled =
            no_budget ? max_tokens : page_floor(call, kva_whole(floor_divide(bytes, cells->swa + cells->draft)));
        sizes->tokens = sizes->swa = page_floor(call, capped(sizes->profiled, max_tokens));
        return KVA_OK;
    }
    if (request_cap(call, shape, &cap)) {
        const double taken = (double)cap * cells->swa;
        sizes->profiled = no_budget
                              ? max_tokens
                              : page_floor(call, kva_whole(floor_divide(bytes - taken, cells->full + cells->draft)));
        sizes->tokens = sizes->full = page_floor(call, capped(sizes->profiled, max_tokens));
        sizes->swa = sizes->full < sizes->profiled ? kva_min(cap, max_tokens) : cap;
        return sizes->full > 0 ? KVA_OK : sglang_refuse_cap(call, "SWA", "", cap, taken, bytes, &sizes->refusal);
    }
    const double cell = cells->full + cells->draft + sglang_swa_ratio(call) * cells->swa;
    sizes->profiled = no_budget ? max_tokens : page_floor(call, kva_whole(floor_divide(bytes, cell)));
    split_ratio(call, capped(sizes->profiled, max_tokens), sizes);
    return KVA_OK;
}

// profile_max_num_token and what follows it
static enum kva_status size_stage(struct kva_call *call, const struct sglang_shape *shape,
                                  const struct sglang_stage *stage, double bytes, uint64_t max_tokens,
                                  struct sglang_sizes *sizes)
{
    const struct sglang *sglang = call->behaviours;
    const struct kva_deployment *deployment = call->deployment;
    const struct cells cells = cells_of(call, shape, stage);
    if (shape->hybrid && sglang->swa_split == SWA_SPLIT_RATIO)
        return size_by_ratio(call, shape, stage, &cells, bytes, max_tokens, sizes);
    const double cell = cells.uniform + cells.draft;
    const bool no_budget = isinf(bytes);
    sizes->profiled = no_budget || cell == 0 ? max_tokens : kva_whole(floor_divide(bytes, cell));
    if (cell == 0 && sizes->profiled == 0)
        sizes->profiled = deployment->context;  // states only: as many tokens as a sequence may have
    if (!no_budget && deployment->spec_tokens > 0 && sglang->draft == DRAFT_HEADROOM) {
        // target and draft share slots: steps (one less than the tokens) and verification of every request, and 100
        const uint64_t requests = sglang_requests(call, sizes->profiled);
        sizes->profiled += requests * (2 * deployment->spec_tokens - 1) + 100;
    }
    const uint64_t tokens = page_floor(call, capped(sizes->profiled, max_tokens));
    sizes->tokens = sizes->full = tokens;
    if (shape->hybrid && stage->n_full == 0) {
        sizes->swa = tokens;
        sizes->full = 0;
    } else if (shape->hybrid)
        split_uniform(call, stage, &cells, tokens, sizes);
    return KVA_OK;
}

// ---------------------------------------------------------------- all of it

static enum kva_status check_start(struct kva_call *call, const struct sglang_shape *shape, struct sglang_sizes *sizes)
{
    const struct sglang *sglang = call->behaviours;
    const uint64_t page = call->deployment->block_size;
    if (sizes->refusal != NULL)
        return KVA_OK;
    if (sizes->tokens == 0)
        sizes->refusal = "Not enough memory. Please try to increase --mem-fraction-static.";
    else if (shape->hybrid && sglang->swa_floor && sizes->full > 0 && shape->engine_window + page >= sizes->swa)
        return sglang_refuse_floor(call, shape->engine_window, sizes->swa, &sizes->refusal);
    else if (shape->states && sizes->slots / shape->slots_per_request == 0)
        sizes->refusal = "Hybrid (mamba/linear-attention) state cache is too small to serve any requests.";
    return KVA_OK;
}

static void count_requests(const struct kva_call *call, const struct sglang_shape *shape, struct sglang_sizes *sizes)
{
    const struct sglang *sglang = call->behaviours;
    sizes->requests =
        sglang_requests(call, sglang->max_running == MAX_RUNNING_PROFILED ? sizes->profiled : sizes->tokens);
    if (!shape->states)
        return;
    const uint64_t by_slots = sizes->slots / shape->slots_per_request;
    sizes->capped_by_slots = by_slots < sizes->requests;
    sizes->requests = kva_min(sizes->requests, by_slots);
    if (call->deployment->spec_tokens > 0)
        sizes->draft_slots = sglang->mamba_draft_states == DRAFT_STATES_SLOTS ? sizes->slots : sizes->requests;
}

enum kva_status sglang_sizes_of(struct kva_call *call, const struct sglang_shape *shape, uint64_t budget,
                                uint64_t max_tokens, struct sglang_sizes *sizes)
{
    struct split split = {.bytes = budget == UINT64_MAX ? INFINITY : (double)budget};
    enum kva_status status = KVA_OK;
    if (shape->states && budget != UINT64_MAX)
        split = split_states(call, shape, (double)budget);
    else if (shape->states)  // tokens alone tell nothing of the states: as many as were asked for
        split.slots = call->deployment->mamba_slots > 0 ? call->deployment->mamba_slots / sglang_data_ranks(call)
                                                        : call->deployment->sequences * shape->slots_per_request;
    *sizes = (struct sglang_sizes){0};
    for (uint64_t s = 0; status == KVA_OK && s < shape->pp; s++) {
        struct sglang_sizes mine = {0};
        const double bytes = isinf(split.bytes) ? INFINITY : floor(split.bytes > 0 ? split.bytes : 0);
        status = size_stage(call, shape, &shape->stages[s], bytes, max_tokens, &mine);
        if (s == 0 || mine.tokens < sizes->tokens)  // all_reduce(MIN)
            *sizes = mine;
    }
    if (status != KVA_OK)
        return status;
    sizes->slots = split.slots;
    count_requests(call, shape, sizes);
    return check_start(call, shape, sizes);
}

uint64_t sglang_windowed_tokens(const struct kva_call *call, const struct sglang_shape *shape, uint64_t context)
{
    return kva_min(page_ceil(call, context), page_ceil(call, shape->window) + call->deployment->block_size);
}

// The least full pool whose share of windowed slots is at least `swa`; false: it is beyond MOST_TOKENS.
static bool least_full(const struct kva_call *call, uint64_t swa, struct sglang_sizes *sizes)
{
    const double at_least = ceil((double)swa / sglang_swa_ratio(call));
    if (sizes->swa >= swa)
        return true;
    if (at_least > (double)MOST_TOKENS)
        return false;
    split_ratio(call, page_ceil(call, kva_whole(at_least)), sizes);
    while (sizes->swa < swa)  // what rounding took
        split_ratio(call, sizes->full + call->deployment->block_size, sizes);
    return true;
}

// The least full pool that holds the sequences, and whose windowed pool holds their windows.
enum kva_status sglang_sizes_asked(struct kva_call *call, const struct sglang_shape *shape, struct sglang_sizes *sizes)
{
    const struct kva_deployment *deployment = call->deployment;
    uint64_t full, swa = 0;
    *sizes = (struct sglang_sizes){0};
    if (!kva_mul(page_ceil(call, deployment->context), deployment->sequences, &full) || full > MOST_TOKENS ||
        !kva_mul(deployment->sequences, shape->slots_per_request, &sizes->slots))
        return too_many_tokens(call);
    sizes->tokens = sizes->full = full;
    if (shape->hybrid) {
        swa = sglang_windowed_tokens(call, shape, deployment->context) * deployment->sequences;
        split_ratio(call, full, sizes);
        if (!least_full(call, swa, sizes))
            return too_many_tokens(call);
        if (shape->stages[0].n_full == 0) {
            sizes->tokens = sizes->swa = swa;
            sizes->full = 0;
        } else if (request_cap(call, shape, &swa))
            *sizes = (struct sglang_sizes){.tokens = full, .full = full, .swa = swa, .slots = sizes->slots};
    }
    sizes->profiled = sizes->tokens;
    if (!shape->states)
        sizes->slots = 0;
    count_requests(call, shape, sizes);
    return KVA_OK;
}

// ---------------------------------------------------------------- bytes

bool sglang_stage_bytes(const struct kva_call *call, const struct sglang_shape *shape, const struct sglang_stage *stage,
                        const struct sglang_sizes *sizes, uint64_t *pools, uint64_t *used)
{
    const uint64_t page = call->deployment->block_size, drafts = call->deployment->spec_tokens;
    const uint64_t full = stage->full_k + stage->full_v + stage->index, swa = stage->swa_k + stage->swa_v;
    const uint64_t slot = stage->conv + stage->ssm, draft = shape->draft_k + shape->draft_v;
    const uint64_t pages = full > 0 ? page : 0;
    uint64_t drafted;
    *pools = *used = 0;
    return kva_mul(slot, drafts, &drafted) && kva_add_product(used, sizes->full, full) &&
           kva_add_product(used, sizes->swa, swa) && kva_add_product(used, sizes->slots, slot) &&
           kva_add(*pools, *used, pools) && kva_add_product(pools, pages, full) &&
           kva_add_product(pools, swa > 0 ? page : 0, swa) && kva_add_product(pools, slot > 0, slot) &&
           kva_add_product(pools, sizes->draft_slots > 0 ? sizes->draft_slots + 1 : 0, drafted) &&
           kva_add_product(pools, sizes->tokens + page, draft) &&
           kva_add_product(pools, stage->workspace > 0 ? sizes->full + page : 0, stage->workspace);
}

bool sglang_tables(const struct kva_call *call, const struct sglang_shape *shape, const struct sglang_sizes *sizes,
                   uint64_t *requests, uint64_t *windows)
{
    const struct sglang *sglang = call->behaviours;
    const struct kva_deployment *deployment = call->deployment;
    const uint64_t page = deployment->block_size, drafts = deployment->spec_tokens;
    uint64_t extra = 4 + (sglang->request_draft_columns != DRAFT_COLUMNS_NONE ? drafts : 0);
    if (sglang->request_draft_columns == DRAFT_COLUMNS_STEPS && drafts > 0 && page > 1)
        extra = kva_max(extra, 2 * drafts + page - 1);
    *windows = 0;
    if (shape->hybrid) {
        const uint64_t entries =
            sglang->swa_map == SWA_MAP_FULL ? sizes->full + page + 1 : sizes->full + sizes->swa + 1;
        if (!kva_mul(entries, sizeof(int64_t), windows))
            return false;
    }
    return kva_mul3(sizes->requests + sglang->request_padding_rows, deployment->context + extra, sizeof(int32_t),
                    requests);
}
