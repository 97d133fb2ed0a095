// Hugging Face Transformers: generate() gives each batch a cache that grows by one row a token (dynamic), one of a
// fixed length (static), or a quantized one. What a layer's tensors count and what the storages behind them hold
// differ: a window is a view, and a view keeps the tensor alive that it was cut from.
#include "engine/transformers.h"

#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/text.h"
#include "engine/budget.h"
#include "engine/cache_bytes.h"
#include "engine/growing.h"

#define BEHAVIOURS_OF struct kva_transformers
#include "engine/behaviour_rows.h"

static const struct kva_behaviour BEHAVIOURS[] = {
    CHOICE(dynamic_windows, "ignored", "view"),
    CHOICE(first_update, "kept", "copied"),
    CHOICE(static_rows, "length", "length_less_one"),
    CHOICE(static_windows, "never", "by_name", "by_layer_types", "from_config"),
    CHOICE(hybrid_name, "static", "dynamic"),
    CHOICE(quantized_layers, "unknown", "any", "full_only"),
    FLAG(capabilities_listed),
    FLAG(states_in_cache),
    FLAG(sharing_dropped),
    COUNT(quantized_bits),
    COUNT(quantized_group),
    COUNT(quantized_residual),
};

static bool is(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

// ---------------------------------------------------------------- one layer

struct rules {
    enum kva_transformers_cache kind;
    const char *indexes, *conv, *fused, *repeated, *conv_everywhere;
};

static struct rules rules_of(const struct kva_call *call, enum kva_transformers_cache kind)
{
    return (struct rules){.kind = kind,
                          .indexes = kva_growing_rule(call, "indexes"),
                          .conv = kva_growing_rule(call, "conv"),
                          .fused = kva_growing_rule(call, "fused"),
                          .repeated = kva_growing_rule(call, "repeated_heads"),
                          .conv_everywhere = kva_growing_rule(call, "conv_everywhere")};
}

// The cache as Transformers keeps it: latent rows expanded unless the model's file keeps them, heads repeated.
static enum kva_status as_kept(struct kva_call *call, const struct rules *rules, struct kva_cache *cache)
{
    if (cache->kind == KVA_CACHE_LATENT)
        return kva_growing_latent(call, cache);
    if (cache->kind == KVA_CACHE_INDEX && rules->indexes == NULL)
        return kva_growing_unknown(call, "the keys of an indexer");
    if (cache->kind == KVA_CACHE_CROSS && cache->length == 0)
        cache->length = call->deployment->encoder_context;
    const struct kva_value *repeats = rules->repeated != NULL ? kva_model_value(call->model, rules->repeated) : NULL;
    const struct kva_value *heads = kva_model_value(call->model, "heads");
    if (repeats != NULL && repeats->count != 0 && heads != NULL && heads->count <= UINT32_MAX)
        cache->kv_heads = (uint32_t)heads->count;
    return KVA_OK;
}

// Right after the prompt a release that keeps the first keys and values as they come keeps the projection alive that
// the values were cut from. `fused`: "qkv", of queries, keys and values; "q", the same where the keys were cut from it
// too; "kv_b", of a latent's keys and values.
static enum kva_status add_fused(struct kva_call *call, const struct rules *rules, const struct kva_cache *cache,
                                 uint64_t *held)
{
    const struct kva_transformers *behaviours = call->behaviours;
    const struct kva_deployment *deployment = call->deployment;
    const struct kva_value *heads = kva_model_value(call->model, "heads");
    const struct kva_value *nope = kva_model_value(call->model, "qk_nope_head_dim");
    if (rules->fused == NULL || rules->kind != KVA_TRANSFORMERS_DYNAMIC || deployment->prompt != deployment->context ||
        behaviours->first_update != FIRST_UPDATE_KEPT)
        return KVA_OK;
    uint64_t beside = 0;  // elements of a row that are not values
    bool fits = true;
    if (is(rules->fused, "qkv") && heads != NULL)
        fits = kva_add(heads->count, cache->kv_heads, &beside) && kva_mul(beside, cache->k_dim, &beside);
    else if (is(rules->fused, "q") && heads != NULL)
        fits = kva_mul(heads->count, cache->k_dim, &beside);
    else if (is(rules->fused, "kv_b") && nope != NULL)
        fits = kva_mul(cache->kv_heads, nope->count, &beside);
    else
        return kva_growing_unknown(call, "the projection of the values");
    uint64_t bytes;
    return fits && kva_mul3(beside, deployment->prompt, kva_dtype_bytes(deployment->kv_dtype), &bytes) &&
                   kva_add(*held, bytes, held)
               ? KVA_OK
               : kva_too_large(call);
}

static enum kva_status add_rows(struct kva_call *call, const struct rules *rules, const struct kva_cache *cache,
                                struct kva_transformers_size *layer)
{
    struct kva_cache kept = *cache;
    struct kva_transformers_size rows, size = {0};
    uint64_t row;
    enum kva_status status = as_kept(call, rules, &kept);
    if (status == KVA_OK)
        status = kva_cache_format_bytes(&kept, &call->kv_format, &row, call->error);
    if (status != KVA_OK)
        return status;
    uint64_t window = kva_growing_has_window(cache) ? cache->window : 0;
    if (rules->kind == KVA_TRANSFORMERS_STATIC_ALL)
        window = kva_transformers_only_window(call->model);
    kva_transformers_rows(call, rules->kind, window, &rows);
    if (kept.kind == KVA_CACHE_CROSS)
        rows = (struct kva_transformers_size){kept.length, kept.length, kept.length};
    if (!kva_mul(rows.logical, row, &size.logical) || !kva_mul(rows.held, row, &size.held))
        return kva_too_large(call);
    status = add_fused(call, rules, &kept, &size.held);
    if (status == KVA_OK && (!kva_add_product(&layer->logical, size.logical, call->deployment->sequences) ||
                             !kva_add_product(&layer->held, size.held, call->deployment->sequences)))
        status = kva_too_large(call);
    layer->rows = kva_max(layer->rows, rows.held);
    return status;
}

static enum kva_status add_quantized(struct kva_call *call, const struct rules *rules, const struct kva_cache *cache,
                                     struct kva_transformers_size *layer)
{
    struct kva_cache kept = *cache;
    enum kva_status status = as_kept(call, rules, &kept);
    if (status == KVA_OK && (kept.kind == KVA_CACHE_CROSS || kept.kind == KVA_CACHE_INDEX))
        status = kva_growing_unknown(call, "quantized caches");
    return status == KVA_OK ? kva_transformers_quantized(call, (uint64_t)kept.kv_heads * kept.k_dim,
                                                         (uint64_t)kept.kv_heads * kept.v_dim, layer)
                            : status;
}

static enum kva_status add_states(struct kva_call *call, const struct rules *rules, const struct kva_cache *cache,
                                  struct kva_transformers_size *layer)
{
    const uint64_t columns = rules->conv != NULL ? 0 : 1;  // a convolution of width K keeps K columns
    uint64_t bytes = 0;
    enum kva_status status = kva_growing_state(call, cache, columns, &bytes);
    if (status == KVA_OK && (!kva_add_product(&layer->logical, bytes, call->deployment->sequences) ||
                             !kva_add_product(&layer->held, bytes, call->deployment->sequences)))
        status = kva_too_large(call);
    return status;
}

static bool is_compressed(const struct kva_layer *layer)
{
    for (size_t c = 0; c < layer->n_caches; c++)
        if (layer->caches[c].ratio > 1 || layer->caches[c].shared_kv)
            return true;
    return false;
}

static enum kva_status size_of_layer(struct kva_call *call, const struct rules *rules, const struct kva_layer *layer,
                                     struct kva_transformers_size *size)
{
    const struct kva_transformers *behaviours = call->behaviours;
    const uint64_t sequences = call->deployment->sequences;
    enum kva_status status = KVA_OK;
    if (is_compressed(layer)) {
        if (rules->kind != KVA_TRANSFORMERS_DYNAMIC)
            return kva_growing_unknown(call, "a static or quantized cache");
        status = kva_transformers_compressed(call, layer, size);
        if (status == KVA_OK &&
            (!kva_mul(size->logical, sequences, &size->logical) || !kva_mul(size->held, sequences, &size->held)))
            status = kva_too_large(call);
        return status;
    }
    for (size_t c = 0; c < layer->n_caches && status == KVA_OK; c++) {
        const struct kva_cache *cache = &layer->caches[c];
        if (cache->kind == KVA_CACHE_NONE || (cache->reads_layer >= 0 && behaviours->sharing_dropped))
            continue;
        if (kva_cache_is_state(cache))
            status = add_states(call, rules, cache, size);
        else if (rules->kind == KVA_TRANSFORMERS_QUANTIZED)
            status = add_quantized(call, rules, cache, size);
        else
            status = add_rows(call, rules, cache, size);
    }
    return status;
}

// ---------------------------------------------------------------- the allocation

// Some releases make the state of a convolution for every layer, attention too.
static enum kva_status add_conv_everywhere(struct kva_call *call, const struct rules *rules,
                                           struct kva_engine_allocation *allocation)
{
    const struct kva_model *model = call->model;
    const struct kva_cache *state = NULL;
    for (size_t i = 0; i < model->n_layers && state == NULL; i++)
        for (size_t c = 0; c < model->layers[i].n_caches; c++)
            if (kva_cache_is_state(&model->layers[i].caches[c]))
                state = &model->layers[i].caches[c];
    struct kva_transformers_size size = {0};
    enum kva_status status = state != NULL ? add_states(call, rules, state, &size) : KVA_OK;
    for (size_t i = 0; i < model->n_layers && status == KVA_OK; i++) {
        bool has = false;
        for (size_t c = 0; c < model->layers[i].n_caches; c++)
            has = has || kva_cache_is_state(&model->layers[i].caches[c]);
        if (!has && (!kva_add(allocation->layers[i].bytes, size.held, &allocation->layers[i].bytes) ||
                     !kva_add(allocation->layers[i].logical, size.logical, &allocation->layers[i].logical)))
            status = kva_too_large(call);
    }
    return status;
}

static enum kva_status lay_out(struct kva_call *call, const struct rules *rules,
                               struct kva_engine_allocation *allocation)
{
    enum kva_status status = KVA_OK;
    for (size_t i = 0; i < call->model->n_layers && status == KVA_OK; i++) {
        struct kva_transformers_size size = {0};
        status = size_of_layer(call, rules, &call->model->layers[i], &size);
        allocation->layers[i] =
            (struct kva_engine_layer){.bytes = size.held, .logical = size.logical, .rows = size.rows};
    }
    return status == KVA_OK && rules->conv_everywhere != NULL ? add_conv_everywhere(call, rules, allocation) : status;
}

// What all layers hold right after the prompt, which may be more than later.
static enum kva_status find_peak(struct kva_call *call, const struct rules *rules,
                                 struct kva_engine_allocation *allocation)
{
    const uint64_t context = call->deployment->context;
    struct kva_engine_allocation then = {
        .layers = kva_arena_alloc(call->arena, call->model->n_layers + 1, sizeof *then.layers)};
    if (then.layers == NULL)
        return kva_fail_memory(call->error, call->model->n_layers * sizeof *then.layers);
    call->deployment->context = call->deployment->prompt;
    enum kva_status status = lay_out(call, rules, &then);
    call->deployment->context = context;
    for (size_t i = 0; i < call->model->n_layers && status == KVA_OK; i++)
        if (!kva_add(allocation->peak, then.layers[i].bytes, &allocation->peak))
            status = kva_too_large(call);
    return status;
}

// ---------------------------------------------------------------- why it takes more than the need

static bool ignores_windows(const struct kva_call *call, const struct rules *rules)
{
    const struct kva_transformers *behaviours = call->behaviours;
    const bool whole = rules->kind == KVA_TRANSFORMERS_DYNAMIC ? behaviours->dynamic_windows == WINDOWS_IGNORED
                                                               : rules->kind == KVA_TRANSFORMERS_STATIC_LONG;
    return whole && kva_model_window_binds(call->model, call->deployment->context);
}

static const char *why(struct kva_call *call, const struct rules *rules, const struct kva_engine_allocation *allocation)
{
    const struct kva_transformers *behaviours = call->behaviours;
    const char *shared = kva_growing_overpay(call, ignores_windows(call, rules));
    uint64_t logical = 0, held = 0;
    bool fits = true;
    char bytes[KVA_HUMAN];
    for (size_t i = 0; i < call->model->n_layers; i++)
        fits = fits && kva_add(logical, allocation->layers[i].logical, &logical) &&
               kva_add(held, allocation->layers[i].bytes, &held);
    if (shared != NULL)
        return shared;
    if (!behaviours->sharing_dropped && kva_model_shares(call->model))
        return "layers that read another layer's cache have one of their own";
    if (fits && held > logical)
        return kva_arena_printf(call->arena, "its tensors count %s, but are views of longer ones",
                                kva_human_bytes(logical, bytes));
    if (rules->repeated != NULL)
        return "keys and values are repeated for every head";
    if (rules->conv_everywhere != NULL)
        return "every layer has the state of a convolution, attention too";
    if (kva_model_has_cache(call->model, KVA_CACHE_STATE) && rules->conv == NULL)
        return "convolutions keep a column more than they read";
    return rules->kind != KVA_TRANSFORMERS_DYNAMIC && rules->kind != KVA_TRANSFORMERS_QUANTIZED
               ? "the cache is made for the longest text at once"
               : NULL;
}

static enum kva_status allocate(struct kva_call *call, struct kva_engine_allocation *allocation)
{
    enum kva_transformers_cache kind = KVA_TRANSFORMERS_DYNAMIC;
    enum kva_status status = kva_transformers_class(call, &kind);
    const struct rules rules = rules_of(call, kind);
    if (status == KVA_OK)
        status = lay_out(call, &rules, allocation);
    if (status == KVA_OK && kva_transformers_windowed_layers(call->model) > 0 &&
        call->deployment->prompt < call->deployment->context && is(call->deployment->cache_implementation, "dynamic"))
        status = find_peak(call, &rules, allocation);
    if (status != KVA_OK)
        return status;
    allocation->overpay_why = why(call, &rules, allocation);
    return call->deployment->kv_bytes > 0 ? kva_budget_simple(call, allocation) : KVA_OK;
}

const struct kva_engine kva_engine_transformers = {
    .id = "transformers",
    .behaviours = BEHAVIOURS,
    .n_behaviours = sizeof BEHAVIOURS / sizeof *BEHAVIOURS,
    .behaviours_size = sizeof(struct kva_transformers),
    .resolve = kva_transformers_resolve,
    .budget = kva_budget_remaining,
    .allocate = allocate,
};
