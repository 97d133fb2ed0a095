// Which cache generate() makes for a model, by the name that was asked for.
#include <string.h>

#include "base/error.h"
#include "engine/cache_bytes.h"
#include "engine/growing.h"
#include "engine/transformers.h"

static bool is(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

size_t kva_transformers_windowed_layers(const struct kva_model *model)
{
    size_t n = 0;
    for (size_t i = 0; i < model->n_layers; i++) {
        bool window = false;
        for (size_t c = 0; c < model->layers[i].n_caches; c++)
            window = window || kva_growing_has_window(&model->layers[i].caches[c]);
        n += window;
    }
    return n;
}

static enum kva_status refuse(struct kva_call *call, const char *why)
{
    return kva_fail(call->error, KVA_REFUSED, NULL, "cache_implementation", "%s for %s in Transformers %s: %s",
                    call->deployment->cache_implementation, call->model->model_type, call->version->version, why);
}

// While models said what they support: their list.
static enum kva_status check_capability(struct kva_call *call, const char *rule)
{
    const struct kva_transformers *behaviours = call->behaviours;
    return !behaviours->capabilities_listed || kva_growing_rule(call, rule) != NULL
               ? KVA_OK
               : refuse(call, "the model does not support it");
}

uint64_t kva_transformers_only_window(const struct kva_model *model)
{
    uint64_t window = 0;
    for (size_t i = 0; i < model->n_layers; i++)
        for (size_t c = 0; c < model->layers[i].n_caches; c++) {
            const struct kva_cache *cache = &model->layers[i].caches[c];
            if (!kva_growing_has_window(cache))
                continue;
            if (window > 0 && window != cache->window)
                return 0;
            window = cache->window;
        }
    return window;
}

// Names of the time when each had a class of its own. `own`: the one that the model's attention wants.
static enum kva_status class_of_name(struct kva_call *call, const char *own, bool any_model,
                                     enum kva_transformers_cache *kind)
{
    const struct kva_model *model = call->model;
    const char *name = call->deployment->cache_implementation;
    const size_t windows = kva_transformers_windowed_layers(model);
    *kind = KVA_TRANSFORMERS_STATIC_WINDOWS;
    if (own != NULL) {
        if (kva_growing_rule(call, "whole_chunks") != NULL)
            *kind = KVA_TRANSFORMERS_STATIC_CHUNKS;
        return is(name, own) ? KVA_OK : refuse(call, "its attention wants the hybrid cache");
    }
    if (is(name, "sliding_window")) {
        *kind = KVA_TRANSFORMERS_STATIC_ALL;
        return kva_transformers_only_window(model) > 0 && (any_model || windows == model->n_layers)
                   ? KVA_OK
                   : refuse(call, "no window to cut to");
    }
    *kind = KVA_TRANSFORMERS_STATIC_LONG;
    if (is(name, "static"))
        return check_capability(call, "static");
    if (!any_model)
        return refuse(call, "the model has no hybrid cache");
    for (size_t i = 0; i < model->n_layers; i++)
        for (size_t c = 0; c < model->layers[i].n_caches; c++)
            if (model->layers[i].caches[c].kind == KVA_CACHE_CHUNKED)
                return refuse(call, "it fails on a config with chunks and no window");
    // without layer_types, where windows are everywhere or nowhere, every layer is long
    if (windows > 0 && windows < model->n_layers)
        *kind = KVA_TRANSFORMERS_STATIC_WINDOWS;
    return KVA_OK;
}

static enum kva_status class_of_quantized(struct kva_call *call, enum kva_transformers_cache *kind)
{
    const struct kva_transformers *behaviours = call->behaviours;
    *kind = KVA_TRANSFORMERS_QUANTIZED;
    if (behaviours->quantized_layers == QUANTIZED_NONE)
        return refuse(call, "there is no quantized cache that kvatlas knows");
    if (kva_model_has_cache(call->model, KVA_CACHE_STATE))
        return refuse(call, "what it does with states is not known");
    if (behaviours->quantized_layers == QUANTIZED_FULL_ONLY && kva_transformers_windowed_layers(call->model) > 0)
        return refuse(call, "`QuantizedCache` is only supported for models with only full attention layers");
    return check_capability(call, "quantized");
}

// generation/utils.py _prepare_cache_for_generation
enum kva_status kva_transformers_class(struct kva_call *call, enum kva_transformers_cache *kind)
{
    const struct kva_transformers *behaviours = call->behaviours;
    const char *name = call->deployment->cache_implementation;
    const char *own = kva_growing_rule(call, "default_cache");
    *kind = KVA_TRANSFORMERS_DYNAMIC;
    if (is(name, "dynamic"))
        return own == NULL ? KVA_OK : refuse(call, "its attention wants the hybrid cache");
    if (is(name, "quantized"))
        return class_of_quantized(call, kind);
    if (kva_model_has_cache(call->model, KVA_CACHE_STATE) && !behaviours->states_in_cache)
        return KVA_OK;  // the model makes its own cache, whatever is asked for
    if (behaviours->static_windows == STATIC_WINDOWS_NEVER && !is(name, "static"))
        return KVA_OK;  // a name that this release does not know does nothing
    if (behaviours->static_windows == STATIC_WINDOWS_NEVER) {
        *kind = KVA_TRANSFORMERS_STATIC_LONG;
        return check_capability(call, "static");
    }
    if (behaviours->static_windows != STATIC_WINDOWS_FROM_CONFIG)
        return class_of_name(call, own, behaviours->static_windows == STATIC_WINDOWS_BY_LAYER_TYPES, kind);
    if (!is(name, "hybrid") || behaviours->hybrid_name == HYBRID_IS_STATIC)
        *kind = KVA_TRANSFORMERS_STATIC_WINDOWS;
    return KVA_OK;
}
