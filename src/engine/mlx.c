// MLX-LM: nothing is set aside at start. Each sequence has its own caches, which grow as tokens are processed; what
// they hold depends on how a prompt was cut into passes (mlx_growth.h), and on which classes a model's make_cache
// picks.
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/text.h"
#include "engine/budget.h"
#include "engine/cache_bytes.h"
#include "engine/growing.h"
#include "engine/mlx_growth.h"
#include "engine/resolve.h"

enum history { HISTORY_WINDOW, HISTORY_WINDOW_LESS_ONE };
enum quantized_from { FROM_ABOVE, FROM_REACHED };
// all: or the run fails. growing: others stay as they are. able: those that have a way to; the rotating one's fails.
enum quantized_kinds { QUANTIZED_ALL, QUANTIZED_GROWING, QUANTIZED_ABLE_SUBCLASSES, QUANTIZED_ABLE };

struct mlx {
    uint64_t prefill_step, quantized_start, kept_prompts;
    bool last_token_alone;
    int rotating_history, chunk_trim, quantized_from, quantized_kinds;
};

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

enum { MOST_PASSES = 1 << 20 };

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
    if (status == KVA_OK && deployment->prompt / deployment->batch_tokens > MOST_PASSES)
        status = kva_fail(call->error, KVA_BAD_INPUT, NULL, "prefill_step_size",
                          "a prompt of %s tokens in passes of %llu are more than %d passes",
                          kva_human_count(deployment->prompt, human), (unsigned long long)deployment->batch_tokens,
                          MOST_PASSES);
    return status == KVA_OK ? resolve_quantization(call) : status;
}

// ---------------------------------------------------------------- which class a cache gets

struct chosen {
    struct kva_mlx_cache growth;
    uint64_t plain_row, quantized_row;  // bytes of one row before and after quantization; 0: is never quantized
    uint64_t caches;                    // how many of them the model has
};

struct choice {
    const char *windows, *indexes, *recurrent;
    bool own_cache;
};

static struct choice choose(const struct kva_call *call)
{
    return (struct choice){.windows = kva_growing_rule(call, "windows"),
                           .indexes = kva_growing_rule(call, "indexes"),
                           .recurrent = kva_growing_rule(call, "recurrent"),
                           .own_cache = kva_growing_rule(call, "own_cache") != NULL};
}

static struct kva_mlx_cache rotating(const struct kva_call *call, uint64_t window)
{
    const struct mlx *mlx = call->behaviours;
    const uint64_t less = mlx->rotating_history == HISTORY_WINDOW_LESS_ONE ? 1 : 0;
    return (struct kva_mlx_cache){
        .class = KVA_MLX_ROTATING, .window = window, .history = window - kva_min(less, window)};
}

// mlx_lm/models/*.py make_cache; cache.py make_prompt_cache for a model that has none
static struct kva_mlx_cache growth_of(const struct kva_call *call, const struct choice *choice,
                                      const struct kva_layer *layer, const struct kva_cache *cache)
{
    const struct mlx *mlx = call->behaviours;
    const char *windows = choice->windows != NULL ? choice->windows : "none";
    // llama.py and ministral3.py look at a layer_types list and at nothing else
    const bool listed = strncmp(layer->why, "layer_types[", 12) == 0;
    if (!choice->own_cache && call->deployment->max_kv_size > 0)
        return rotating(call, call->deployment->max_kv_size);
    if (!kva_growing_has_window(call->model, cache) || strcmp(windows, "none") == 0 ||
        (strcmp(windows, "listed") == 0 && !listed))
        return (struct kva_mlx_cache){.class = KVA_MLX_GROWING};
    if (strcmp(windows, "chunked") == 0)
        return (struct kva_mlx_cache){
            .class = KVA_MLX_CHUNKED, .window = cache->window, .chunk_trim = (enum kva_mlx_chunk_trim)mlx->chunk_trim};
    return rotating(call, cache->window + (strcmp(windows, "rotating_and_one") == 0 ? 1 : 0));
}

// mx.quantize: packed elements in 32-bit words, and a scale and a bias of the model's type for each group.
static enum kva_status quantized_row(struct kva_call *call, const struct kva_cache *cache, uint64_t *bytes)
{
    const struct kva_deployment *deployment = call->deployment;
    const uint64_t group = deployment->kv_group_size, element = kva_dtype_bytes(deployment->kv_dtype);
    const uint64_t sides[] = {cache->k_dim, cache->v_dim};
    uint64_t head = 0;
    for (size_t s = 0; s < 2; s++) {
        if (sides[s] % group != 0)
            return kva_fail(call->error, KVA_REFUSED, NULL, "kv_group_size",
                            "MLX quantizes groups of %llu elements, and heads of %llu are not a number of them",
                            (unsigned long long)group, (unsigned long long)sides[s]);
        head += sides[s] * deployment->kv_bits / 8 + sides[s] / group * 2 * element;
    }
    return kva_mul(cache->kv_heads, head, bytes)
               ? KVA_OK
               : kva_fail(call->error, KVA_BAD_INPUT, NULL, NULL, "a row is more than 2^64 bytes");
}

static enum kva_status refuse_quantized(struct kva_call *call, const char *what)
{
    return kva_fail(call->error, KVA_REFUSED, NULL, "kv_bits", "MLX-LM %s cannot run %s with --kv-bits: %s",
                    call->version->version, call->model->model_type, what);
}

// Are the caches quantized once `offset` tokens have been processed?
static bool is_quantized(const struct kva_call *call, uint64_t offset)
{
    const struct mlx *mlx = call->behaviours;
    const struct kva_deployment *deployment = call->deployment;
    if (deployment->kv_bits == 0)
        return false;
    return mlx->quantized_from == FROM_ABOVE ? offset > deployment->quantized_kv_start
                                             : offset >= deployment->quantized_kv_start;
}

// generate.py maybe_quantize_kv_cache
static enum kva_status quantize(struct kva_call *call, const struct kva_layer *layer, const struct kva_cache *cache,
                                struct chosen *chosen)
{
    const struct mlx *mlx = call->behaviours;
    const int kinds = mlx->quantized_kinds;
    const bool subclasses = kinds == QUANTIZED_GROWING || kinds == QUANTIZED_ABLE_SUBCLASSES;
    if (!is_quantized(call, call->deployment->context))
        return KVA_OK;
    if (kva_growing_rule(call, "unquantizable") != NULL)
        return refuse_quantized(call, "its attention takes no quantized keys");
    if (chosen->growth.class == KVA_MLX_ROTATING)
        return kinds == QUANTIZED_GROWING ? KVA_OK : refuse_quantized(call, "RotatingKVCache Quantization NYI");
    if (chosen->growth.class == KVA_MLX_CHUNKED && kinds == QUANTIZED_ABLE)
        return KVA_OK;
    if (chosen->growth.class == KVA_MLX_CHUNKED || (layer->n_caches > 1 && subclasses))
        return refuse_quantized(call, "what becomes of a chunked cache or of a list of caches is not known");
    if (layer->n_caches > 1 && kinds == QUANTIZED_ABLE)
        return KVA_OK;
    if (cache->kind == KVA_CACHE_LATENT)
        return refuse_quantized(call, "what becomes of latent rows is not known");
    return quantized_row(call, cache, &chosen->quantized_row);
}

// The cache as MLX-LM keeps it: latent rows expanded to heads unless the model's file keeps them, an indexer's keys
// once or twice.
static enum kva_status kept(struct kva_call *call, const struct choice *choice, const struct kva_cache *cache,
                            struct kva_cache *out)
{
    *out = *cache;
    if (cache->kind == KVA_CACHE_LATENT)
        return kva_growing_latent(call, out);
    if (cache->kind == KVA_CACHE_INDEX && choice->indexes == NULL)
        return kva_fail(call->error, KVA_REFUSED, NULL, NULL, "how MLX-LM %s keeps an indexer of %s is not known",
                        call->version->version, call->model->model_type);
    if (cache->kind == KVA_CACHE_INDEX && strcmp(choice->indexes, "twice") == 0)
        out->v_dim = out->k_dim;
    if (cache->ratio > 1 || cache->shared_kv || cache->kind == KVA_CACHE_CROSS)
        return kva_fail(call->error, KVA_REFUSED, NULL, NULL, "how MLX-LM %s keeps caches of %s is not known",
                        call->version->version, call->model->model_type);
    return KVA_OK;
}

// ---------------------------------------------------------------- rows

static uint64_t sum_of(const struct chosen *chosen, size_t n, bool quantized, bool *fits)
{
    uint64_t total = 0;
    for (size_t i = 0; i < n; i++) {
        const uint64_t row = quantized && chosen[i].quantized_row > 0 ? chosen[i].quantized_row : chosen[i].plain_row;
        uint64_t bytes;
        *fits =
            *fits && kva_mul3(chosen[i].caches, chosen[i].growth.rows, row, &bytes) && kva_add(total, bytes, &total);
    }
    return total;
}

// Feeds the prompt in passes, then one token at a time. *peak: the most that all caches of one sequence hold after a
// pass, before it quantizes them.
static enum kva_status grow(struct kva_call *call, struct chosen *chosen, size_t n, uint64_t *peak)
{
    const struct mlx *mlx = call->behaviours;
    const struct kva_deployment *deployment = call->deployment;
    const uint64_t alone = mlx->last_token_alone ? 1 : 0;
    bool fits = true, quantized = false;
    *peak = 0;
    for (uint64_t left = deployment->prompt, tokens; left > 0; left -= tokens) {
        tokens = kva_min(deployment->batch_tokens, left > alone ? left - alone : left);
        for (size_t i = 0; i < n; i++)
            kva_mlx_pass(&chosen[i].growth, tokens);
        *peak = kva_max(*peak, sum_of(chosen, n, quantized, &fits));
        if (mlx->quantized_kinds != QUANTIZED_ALL || tokens == left)  // the first releases: not between passes
            quantized = is_quantized(call, deployment->prompt - left + tokens);
    }
    const uint64_t decoded = deployment->context - deployment->prompt;
    uint64_t *rows = kva_arena_alloc(call->arena, n + 1, sizeof *rows);
    if (rows == NULL)
        return kva_fail_memory(call->error, n * sizeof *rows);
    for (size_t i = 0; i < n; i++) {
        uint64_t most;
        if (!kva_mlx_decode(&chosen[i].growth, decoded, &most))
            return kva_fail(call->error, KVA_REFUSED, NULL, "context",
                            "this release drops rows of a chunked cache in a way that kvatlas follows for %d tokens",
                            MOST_PASSES);
        rows[i] = chosen[i].growth.rows;
        chosen[i].growth.rows = most;  // a chunked cache may have held more in between
    }
    quantized = quantized || (decoded > 1 && is_quantized(call, deployment->context - 1));
    if (decoded > 0)
        *peak = kva_max(*peak, sum_of(chosen, n, quantized, &fits));
    for (size_t i = 0; i < n; i++)
        chosen[i].growth.rows = rows[i];
    return fits ? KVA_OK : kva_too_large(call);
}

// ---------------------------------------------------------------- the allocation

// Which of the model's caches are `chosen[index]`.
struct placed {
    size_t layer, chosen;
};

static bool same_choice(const struct chosen *a, const struct chosen *b)
{
    return a->growth.class == b->growth.class && a->growth.window == b->growth.window && a->plain_row == b->plain_row &&
           a->quantized_row == b->quantized_row;
}

static enum kva_status place(struct kva_call *call, const struct choice *choice, const struct kva_layer *layer,
                             const struct kva_cache *cache, struct chosen *out)
{
    struct kva_cache as_kept;
    enum kva_status status = kept(call, choice, cache, &as_kept);
    if (status != KVA_OK)
        return status;
    *out = (struct chosen){.growth = growth_of(call, choice, layer, cache), .caches = 1};
    status = kva_cache_format_bytes(&as_kept, &call->kv_format, &out->plain_row, call->error);
    if (status == KVA_OK && call->deployment->kv_bits > 0)
        status = quantize(call, layer, &as_kept, out);
    return status;
}

static const char *why(struct kva_call *call, const struct chosen *chosen, size_t n)
{
    const struct kva_deployment *deployment = call->deployment;
    uint64_t rows = 0;
    for (size_t i = 0; i < n; i++)
        rows = kva_max(rows, chosen[i].growth.rows);
    for (size_t i = 0; i < n; i++)
        if (chosen[i].growth.class == KVA_MLX_CHUNKED)
            return "a chunked cache holds its chunk and a step of 256 tokens; growing caches hold whole steps";
    return rows > deployment->context
               ? kva_arena_printf(call->arena, "growing caches hold %llu rows for %llu tokens: steps of 256",
                                  (unsigned long long)rows, (unsigned long long)deployment->context)
               : NULL;
}

static enum kva_status add_state(struct kva_call *call, const struct choice *choice, const struct kva_cache *cache,
                                 uint64_t *bytes)
{
    if (choice->recurrent == NULL)
        return kva_fail(call->error, KVA_REFUSED, NULL, NULL, "how MLX-LM %s keeps the states of %s is not known",
                        call->version->version, call->model->model_type);
    const enum kva_dtype dtype = kva_dtype_parse(choice->recurrent);
    return kva_growing_state(call, cache, 0, dtype != KVA_DTYPE_NONE ? dtype : call->deployment->model_dtype, bytes);
}

static enum kva_status allocate(struct kva_call *call, struct kva_engine_allocation *allocation)
{
    const struct kva_model *model = call->model;
    const uint64_t sequences = call->deployment->sequences;
    const struct choice choice = choose(call);
    const size_t most = model->n_layers * KVA_MAX_CACHES + 1;
    struct chosen *chosen = kva_arena_alloc(call->arena, most, sizeof *chosen);
    struct placed *placed = kva_arena_alloc(call->arena, most, sizeof *placed);
    if (chosen == NULL || placed == NULL)
        return kva_fail_memory(call->error, most * sizeof *chosen);
    size_t n = 0, n_placed = 0;
    uint64_t states = 0, peak;
    for (size_t i = 0; i < model->n_layers; i++)
        for (size_t c = 0; c < model->layers[i].n_caches; c++) {
            const struct kva_cache *cache = &model->layers[i].caches[c];
            enum kva_status status = KVA_OK;
            if (kva_cache_is_state(cache))
                status = add_state(call, &choice, cache, &allocation->layers[i].bytes);
            else if (cache->kind != KVA_CACHE_NONE && cache->reads_layer < 0) {
                size_t at = 0;
                status = place(call, &choice, &model->layers[i], cache, &chosen[n]);
                while (at < n && !same_choice(&chosen[at], &chosen[n]))
                    at++;
                if (at == n)
                    n++;
                else
                    chosen[at].caches++;
                placed[n_placed++] = (struct placed){i, at};
            }
            if (status != KVA_OK)
                return status;
        }
    for (size_t i = 0; i < model->n_layers; i++)
        states += allocation->layers[i].bytes;
    enum kva_status status = grow(call, chosen, n, &peak);
    if (status != KVA_OK)
        return status;
    const bool quantized = is_quantized(call, call->deployment->context);
    for (size_t p = 0; p < n_placed; p++) {
        const struct chosen *of = &chosen[placed[p].chosen];
        struct kva_engine_layer *layer = &allocation->layers[placed[p].layer];
        layer->bytes += of->growth.rows * (quantized && of->quantized_row > 0 ? of->quantized_row : of->plain_row);
        layer->rows = kva_max(layer->rows, of->growth.rows);
    }
    for (size_t i = 0; i < model->n_layers; i++)
        if (!kva_mul(allocation->layers[i].bytes, sequences, &allocation->layers[i].bytes))
            return kva_too_large(call);
    if (!kva_add(peak, states, &peak) || !kva_mul(peak, sequences, &allocation->peak))
        return kva_too_large(call);
    allocation->overpay_why = why(call, chosen, n);
    return call->deployment->kv_bytes > 0 ? kva_budget_simple(call, allocation) : KVA_OK;
}

// ---------------------------------------------------------------- lines

// cache.py extract: of a finished sequence the server keeps a copy of the rows that hold something. *bytes: KVA_UNKNOWN
// where it keeps the caches as they are (a chunked one cannot be in a batch; quantized ones are not the server's).
static enum kva_status kept_of_one(struct kva_call *call, uint64_t *bytes)
{
    const struct kva_model *model = call->model;
    const struct choice choice = choose(call);
    const uint64_t context = call->deployment->context;
    *bytes = 0;
    for (size_t i = 0; i < model->n_layers; i++)
        for (size_t c = 0; c < model->layers[i].n_caches; c++) {
            const struct kva_cache *cache = &model->layers[i].caches[c];
            struct chosen one = {0};
            enum kva_status status = KVA_OK;
            if (kva_cache_is_state(cache))
                status = add_state(call, &choice, cache, bytes);
            else if (cache->kind != KVA_CACHE_NONE && cache->reads_layer < 0) {
                status = place(call, &choice, &model->layers[i], cache, &one);
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
