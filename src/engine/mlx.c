// MLX-LM: nothing is set aside at start. Each sequence has its own caches, which grow as tokens are processed; what
// they hold depends on how a prompt was cut into passes (mlx_growth.h), and on which classes a model's make_cache
// picks (mlx_class.c).
#include "engine/mlx.h"

#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/text.h"
#include "engine/budget.h"
#include "engine/cache_bytes.h"
#include "engine/growing.h"
#include "engine/resolve.h"

#define BEHAVIOURS_OF struct mlx
#include "engine/behaviour_rows.h"

static const struct kva_behaviour BEHAVIOURS[] = {
    COUNT(prefill_step),
    FLAG(last_token_alone),
    CHOICE(rotating_history, "window", "window_less_one"),
    CHOICE(chunk_trim, "allocated_chunk", "allocated_excess", "tokens"),
    CHOICE(quantized_from, "above", "reached"),
    CHOICE(quantized_kinds, "all", "growing", "able_subclasses", "able"),
    COUNT(quantized_start),
    COUNT(kept_prompts),
};

// ---------------------------------------------------------------- the deployment

static enum kva_status resolve_quantization(struct kva_call *call)
{
    const struct mlx *mlx = call->behaviours;
    struct kva_deployment *deployment = call->deployment;
    const uint64_t bits = deployment->kv_bits, group = deployment->kv_group_size;
    char human[KVA_HUMAN];
    if (bits == 0)
        return KVA_OK;
    if (bits != 2 && bits != 4 && bits != 8)
        return kva_fail(call->error, KVA_REFUSED, NULL, "kv_bits", "%llu bits: kvatlas knows how MLX packs 2, 4 and 8",
                        (unsigned long long)bits);
    if (group != 0 && group != 32 && group != 64 && group != 128)
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, "kv_group_size", "%llu is not 32, 64 or 128",
                        (unsigned long long)group);
    enum kva_status status = KVA_OK;
    if (group == 0) {
        deployment->kv_group_size = 64;
        status = kva_assume(call, "groups of 64 elements: MLX-LM's default");
    }
    if (status == KVA_OK && deployment->quantized_kv_start == 0) {
        deployment->quantized_kv_start = mlx->quantized_start;
        status = kva_assume(call, "quantized from %s tokens on: MLX-LM's default",
                            kva_human_count(mlx->quantized_start, human));
    }
    return status;
}

static enum kva_status resolve(struct kva_call *call)
{
    const struct mlx *mlx = call->behaviours;
    struct kva_deployment *deployment = call->deployment;
    char human[KVA_HUMAN];
    enum kva_status status = kva_growing_native(call);
    if (status == KVA_OK)
        status = kva_resolve_common(call);
    if (status == KVA_OK)
        status = kva_growing_model_dtype(call, "--kv-bits quantizes");
    if (status == KVA_OK)
        status = kva_growing_one_rank(call);
    if (status == KVA_OK)
        status = kva_growing_prompt(call);
    if (status == KVA_OK && deployment->batch_tokens == 0) {
        deployment->batch_tokens = mlx->prefill_step;
        status =
            kva_assume(call, "passes of %s prompt tokens: MLX-LM's default", kva_human_count(mlx->prefill_step, human));
    }
    if (status == KVA_OK && deployment->prompt / deployment->batch_tokens > MLX_MOST_PASSES)
        status = kva_fail(call->error, KVA_BAD_INPUT, NULL, "prefill_step_size",
                          "a prompt of %s tokens in passes of %llu are more than %d passes",
                          kva_human_count(deployment->prompt, human), (unsigned long long)deployment->batch_tokens,
                          MLX_MOST_PASSES);
    if (status == KVA_OK && deployment->max_kv_size > 0 && mlx_choose(call).own_cache)
        status = kva_assume(call, "--max-kv-size does nothing: %s makes caches of its own", call->model->model_type);
    return status == KVA_OK ? resolve_quantization(call) : status;
}

// ---------------------------------------------------------------- rows

static uint64_t sum_of(const struct mlx_cache *caches, size_t n, bool quantized, bool *fits)
{
    uint64_t total = 0;
    for (size_t i = 0; i < n; i++) {
        const uint64_t row = quantized && caches[i].quantized_row > 0 ? caches[i].quantized_row : caches[i].plain_row;
        uint64_t bytes;
        *fits =
            *fits && kva_mul3(caches[i].caches, caches[i].growth.rows, row, &bytes) && kva_add(total, bytes, &total);
    }
    return total;
}

// Feeds the prompt in passes, then one token at a time. *peak: the most that all caches of one sequence hold after a
// pass, before it quantizes them.
static enum kva_status grow(struct kva_call *call, struct mlx_cache *caches, size_t n, uint64_t *peak)
{
    const struct mlx *mlx = call->behaviours;
    const struct kva_deployment *deployment = call->deployment;
    const uint64_t alone = mlx->last_token_alone ? 1 : 0;
    bool fits = true, quantized = false;
    *peak = 0;
    for (uint64_t left = deployment->prompt, tokens; left > 0; left -= tokens) {
        tokens = kva_min(deployment->batch_tokens, left > alone ? left - alone : left);
        for (size_t i = 0; i < n; i++)
            kva_mlx_pass(&caches[i].growth, tokens);
        *peak = kva_max(*peak, sum_of(caches, n, quantized, &fits));
        if (mlx->quantized_kinds != QUANTIZED_ALL || tokens == left)  // the first releases: not between passes
            quantized = mlx_is_quantized(call, deployment->prompt - left + tokens);
    }
    const uint64_t decoded = deployment->context - deployment->prompt;
    uint64_t *rows = kva_arena_alloc(call->arena, n + 1, sizeof *rows);
    if (rows == NULL)
        return kva_fail_memory(call->error, n * sizeof *rows);
    for (size_t i = 0; i < n; i++) {
        uint64_t most;
        if (!kva_mlx_decode(&caches[i].growth, decoded, &most))
            return kva_fail(call->error, KVA_REFUSED, NULL, "context",
                            "this release drops rows of a chunked cache in a way that kvatlas follows for %d tokens",
                            MLX_MOST_PASSES);
        rows[i] = caches[i].growth.rows;
        caches[i].growth.rows = most;  // a chunked cache may have held more in between
    }
    quantized = quantized || (decoded > 1 && mlx_is_quantized(call, deployment->context - 1));
    if (decoded > 0)
        *peak = kva_max(*peak, sum_of(caches, n, quantized, &fits));
    for (size_t i = 0; i < n; i++)
        caches[i].growth.rows = rows[i];
    return fits ? KVA_OK : kva_too_large(call);
}

// ---------------------------------------------------------------- the allocation

// Which of the model's caches are all[index].
struct placed {
    size_t layer, index;
};

struct caches {
    struct mlx_cache *all;
    struct placed *placed;
    size_t n, n_placed;
};

static bool grow_alike(const struct mlx_cache *a, const struct mlx_cache *b)
{
    return a->growth.class == b->growth.class && a->growth.window == b->growth.window && a->plain_row == b->plain_row &&
           a->quantized_row == b->quantized_row;
}

// Takes up a cache with those that grow alike, or as the first of its kind.
static enum kva_status take(struct kva_call *call, const struct mlx_choice *choice, size_t layer,
                            const struct kva_cache *cache, struct caches *caches)
{
    struct mlx_cache *all = caches->all;
    enum kva_status status = mlx_cache_of(call, choice, &call->model->layers[layer], cache, &all[caches->n]);
    if (status != KVA_OK)
        return status;
    size_t at = 0;
    while (at < caches->n && !grow_alike(&all[at], &all[caches->n]))
        at++;
    if (at == caches->n)
        caches->n++;
    else
        all[at].caches++;
    caches->placed[caches->n_placed++] = (struct placed){layer, at};
    return KVA_OK;
}

// All caches that hold rows; the states go to the layers at once. *states: their sum.
static enum kva_status collect(struct kva_call *call, const struct mlx_choice *choice, struct caches *caches,
                               struct kva_engine_layer *layers, uint64_t *states)
{
    const struct kva_model *model = call->model;
    const size_t most = model->n_layers * KVA_MAX_CACHES + 1;
    *caches = (struct caches){.all = kva_arena_alloc(call->arena, most, sizeof *caches->all),
                              .placed = kva_arena_alloc(call->arena, most, sizeof *caches->placed)};
    *states = 0;
    if (caches->all == NULL || caches->placed == NULL)
        return kva_fail_memory(call->error, most * sizeof *caches->all);
    for (size_t i = 0; i < model->n_layers; i++) {
        for (size_t c = 0; c < model->layers[i].n_caches; c++) {
            const struct kva_cache *cache = &model->layers[i].caches[c];
            enum kva_status status = KVA_OK;
            if (kva_cache_is_state(cache))
                status = kva_growing_state(call, cache, 0, &layers[i].bytes);
            else if (cache->kind != KVA_CACHE_NONE && cache->reads_layer < 0)
                status = take(call, choice, i, cache, caches);
            if (status != KVA_OK)
                return status;
        }
        if (!kva_add(*states, layers[i].bytes, states))
            return kva_too_large(call);
    }
    return KVA_OK;
}

// The rows of every layer as they are in the end, for all sequences.
static enum kva_status fill_layers(struct kva_call *call, const struct caches *caches, struct kva_engine_layer *layers)
{
    const bool quantized = mlx_is_quantized(call, call->deployment->context);
    for (size_t p = 0; p < caches->n_placed; p++) {
        const struct mlx_cache *of = &caches->all[caches->placed[p].index];
        struct kva_engine_layer *layer = &layers[caches->placed[p].layer];
        if (!kva_add_product(&layer->bytes, of->growth.rows,
                             quantized && of->quantized_row > 0 ? of->quantized_row : of->plain_row))
            return kva_too_large(call);
        layer->rows = kva_max(layer->rows, of->growth.rows);
    }
    for (size_t i = 0; i < call->model->n_layers; i++)
        if (!kva_mul(layers[i].bytes, call->deployment->sequences, &layers[i].bytes))
            return kva_too_large(call);
    return KVA_OK;
}

static bool ignores_windows(const struct kva_call *call, const struct mlx_choice *choice)
{
    for (size_t i = 0; i < call->model->n_layers; i++)
        for (size_t c = 0; c < call->model->layers[i].n_caches; c++) {
            const struct kva_cache *cache = &call->model->layers[i].caches[c];
            if (kva_growing_has_window(cache) && cache->window < call->deployment->context &&
                mlx_growth_of(call, choice, &call->model->layers[i], cache).class == KVA_MLX_GROWING)
                return true;
        }
    return false;
}

static const char *why(struct kva_call *call, const struct mlx_choice *choice, const struct caches *caches)
{
    const struct kva_deployment *deployment = call->deployment;
    const char *shared = kva_growing_overpay(call, ignores_windows(call, choice));
    uint64_t rows = 0;
    if (shared != NULL)
        return shared;
    if (choice->indexes != NULL && strcmp(choice->indexes, "twice") == 0)
        return "keys of an indexer are kept twice, once in the place of the values";
    for (size_t i = 0; i < caches->n; i++) {
        rows = kva_max(rows, caches->all[i].growth.rows);
        if (caches->all[i].growth.class == KVA_MLX_CHUNKED)
            return "a chunked cache holds its chunk and a step of 256 tokens; growing caches hold whole steps";
    }
    return rows > deployment->context
               ? kva_arena_printf(call->arena, "growing caches hold %llu rows for %llu tokens: steps of 256",
                                  (unsigned long long)rows, (unsigned long long)deployment->context)
               : NULL;
}

static enum kva_status allocate(struct kva_call *call, struct kva_engine_allocation *allocation)
{
    const struct mlx_choice choice = mlx_choose(call);
    struct caches caches;
    uint64_t states, peak;
    enum kva_status status = collect(call, &choice, &caches, allocation->layers, &states);
    if (status == KVA_OK)
        status = grow(call, caches.all, caches.n, &peak);
    if (status == KVA_OK)
        status = fill_layers(call, &caches, allocation->layers);
    if (status != KVA_OK)
        return status;
    if (!kva_add(peak, states, &peak) || !kva_mul(peak, call->deployment->sequences, &allocation->peak))
        return kva_too_large(call);
    allocation->overpay_why = why(call, &choice, &caches);
    return call->deployment->kv_bytes > 0 ? kva_budget_simple(call, allocation) : KVA_OK;
}

// ---------------------------------------------------------------- lines

// cache.py extract: of a finished sequence the server keeps a copy of the rows that hold something. *bytes: KVA_UNKNOWN
// where it keeps the caches as they are (a chunked one cannot be in a batch; quantized ones are not the server's).
static enum kva_status kept_of_one(struct kva_call *call, uint64_t *bytes)
{
    const struct kva_model *model = call->model;
    const struct mlx_choice choice = mlx_choose(call);
    const uint64_t context = call->deployment->context;
    *bytes = 0;
    for (size_t i = 0; i < model->n_layers; i++)
        for (size_t c = 0; c < model->layers[i].n_caches; c++) {
            const struct kva_cache *cache = &model->layers[i].caches[c];
            struct mlx_cache one = {0};
            enum kva_status status = KVA_OK;
            if (kva_cache_is_state(cache))
                status = kva_growing_state(call, cache, 0, bytes);
            else if (cache->kind != KVA_CACHE_NONE && cache->reads_layer < 0) {
                status = mlx_cache_of(call, &choice, &model->layers[i], cache, &one);
                if (status == KVA_OK && (one.growth.class == KVA_MLX_CHUNKED || call->deployment->kv_bits > 0)) {
                    *bytes = KVA_UNKNOWN;
                    return KVA_OK;
                }
                const uint64_t rows =
                    one.growth.class == KVA_MLX_ROTATING ? kva_min(context, one.growth.window) : context;
                if (status == KVA_OK && !kva_add_product(bytes, rows, one.plain_row))
                    status = kva_too_large(call);
            }
            if (status != KVA_OK)
                return status;
        }
    return KVA_OK;
}

// server.py _log_cache_stats: the caches of finished prompts that the server keeps, in 10^9 bytes.
static enum kva_status print_lines(struct kva_call *call, const struct kva_engine_allocation *allocation)
{
    const struct mlx *mlx = call->behaviours;
    const uint64_t sequences = kva_min(call->deployment->sequences, mlx->kept_prompts);
    uint64_t bytes;
    (void)allocation;
    enum kva_status status = kept_of_one(call, &bytes);
    if (status != KVA_OK || bytes == KVA_UNKNOWN)
        return status;
    const struct kva_quantity quantities[] = {kva_count_of("sequences", sequences),
                                              kva_real_of("gigabytes", (double)bytes * (double)sequences / 1e9)};
    return kva_print(call, "prompt_cache", quantities, sizeof quantities / sizeof *quantities);
}

const struct kva_engine kva_engine_mlx = {
    .id = "mlx-lm",
    .behaviours = BEHAVIOURS,
    .n_behaviours = sizeof BEHAVIOURS / sizeof *BEHAVIOURS,
    .behaviours_size = sizeof(struct mlx),
    .resolve = resolve,
    .budget = kva_budget_remaining,
    .allocate = allocate,
    .print_lines = print_lines,
};
