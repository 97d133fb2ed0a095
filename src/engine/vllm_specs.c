// The caches of a rank as vLLM's KVCacheSpecs (v1/kv_cache_interface.py, v1/worker/gpu_model_runner.py
// get_kv_cache_spec): a layer that reads another layer's cache has none.
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "engine/parallel.h"
#include "engine/vllm.h"
#include "model/arch.h"

// ---------------------------------------------------------------- kinds

// A window that is not less than the context limit never binds, but vLLM keeps the layer as a windowed one. One that
// another key switches off is full.
static bool never_binds(const struct kva_model *model, const struct kva_layer *layer, const struct kva_cache *cache)
{
    if (!cache->window_inert || cache->window == 0 || cache->window < model->context_limit || model->arch == NULL)
        return false;
    for (unsigned k = 0; k < model->arch->n_kinds; k++)
        if (strcmp(model->arch->kinds[k].name, layer->kind) == 0)
            return model->arch->kinds[k].first.cache == KVA_CACHE_SLIDING;
    return false;
}

static enum vllm_kind kind_of(const struct kva_model *model, const struct kva_layer *layer,
                              const struct kva_cache *cache)
{
    switch (cache->kind) {
    case KVA_CACHE_SLIDING:
        return VLLM_SLIDING;
    case KVA_CACHE_CHUNKED:
        return VLLM_CHUNKED;
    case KVA_CACHE_LATENT:
    case KVA_CACHE_INDEX:
        return VLLM_LATENT;
    case KVA_CACHE_STATE:
        return VLLM_STATE;
    case KVA_CACHE_CROSS:
        return VLLM_CROSS;
    default:
        return never_binds(model, layer, cache) ? VLLM_SLIDING : VLLM_FULL;
    }
}

// ---------------------------------------------------------------- bytes of a token

bool vllm_is_latent_type(const struct kva_call *call)
{
    static const char END[] = "_ds_mla";
    const char *type = call->deployment->kv_type;
    const size_t length = type != NULL ? strlen(type) : 0;
    return length >= strlen(END) && strcmp(type + length - strlen(END), END) == 0;
}

// The latent row in the cache's type. Sparse attention turns 8 bits into fp8_ds_mla: 512 elements in 8 bits, their
// scales, and the rotary part in 16 bits (FLASHMLA_SPARSE; models/config.py DeepseekV32ForCausalLM).
static enum kva_status latent_bytes(struct kva_call *call, const struct kva_cache *cache, uint64_t *bytes)
{
    const struct kva_kv_type *format = &call->kv_format, *packed = kva_kv_type_find(call, "fp8_ds_mla");
    const bool is_packed = vllm_is_latent_type(call);
    if (packed != NULL && format->k.bits == 8 && format->k.vector_bytes == 0 && format->k.group == 0 &&
        vllm_has(call, KVA_CACHE_INDEX) && vllm_capability(call) != 10)
        format = packed;
    else if (!is_packed && (format->k.vector_bytes > 0 || format->k.group > 0))
        return kva_fail(call->error, KVA_REFUSED, NULL, "kv_type",
                        "how vLLM keeps latent attention in %s is not known to kvatlas", call->deployment->kv_type);
    return kva_side_bytes(&format->k, (uint64_t)cache->k_dim + cache->v_dim, bytes)
               ? KVA_OK
               : kva_fail(call->error, KVA_BAD_INPUT, NULL, NULL, "a latent row is more than 2^64 bytes");
}

static enum kva_status token_bytes(struct kva_call *call, struct vllm_spec *spec, const struct kva_cache *cache)
{
    if (cache->kind == KVA_CACHE_INDEX) {
        spec->token_bytes = kva_index_key_bytes(cache->k_dim);
        return KVA_OK;
    }
    if (spec->kind == VLLM_LATENT)
        return latent_bytes(call, cache, &spec->token_bytes);
    const bool own_v = cache->v_dim != cache->k_dim && kva_rule(call, "own_values", call->model->model_type) != NULL;
    uint64_t heads;
    enum kva_status status = kva_heads_even(call, cache->kv_heads, call->deployment->tp, &heads);
    if (status == KVA_OK && !kva_kv_row_bytes(&call->kv_format, heads, cache->k_dim,
                                              own_v ? cache->v_dim : cache->k_dim, &spec->token_bytes))
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, NULL, "a token's keys and values are more than 2^64 bytes");
    if (status == KVA_OK &&
        !kva_mul3(heads * 2, cache->k_dim, kva_max(call->kv_format.k.bits / 8, 1), &spec->bare_bytes))
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, NULL, "a token's keys and values are more than 2^64 bytes");
    if (call->kv_format.k.group > 0 && !vllm_behaves(call)->nvfp4_windows &&
        (spec->kind == VLLM_SLIDING || spec->kind == VLLM_CHUNKED))
        spec->token_bytes = spec->bare_bytes;
    return status;
}

// ---------------------------------------------------------------- specs

static bool same_spec(const struct vllm_spec *spec, const struct kva_layer *layer, const struct kva_cache *cache)
{
    return kva_cache_same_shape(spec->cache, cache) && spec->cache->window_inert == cache->window_inert &&
           (!cache->window_inert || (spec->cache->window == cache->window && spec->layer->kind == layer->kind));
}

static enum kva_status make_spec(struct kva_call *call, const struct kva_layer *layer, const struct kva_cache *cache,
                                 struct vllm_spec *spec)
{
    *spec = (struct vllm_spec){.layer = layer, .cache = cache, .kind = kind_of(call->model, layer, cache)};
    if (cache->ratio > 1 || cache->shared_kv)
        return kva_fail(call->error, KVA_REFUSED, NULL, NULL,
                        "how vLLM lays out the %s cache of layer %u, one row for %u tokens%s, is not known to kvatlas",
                        kva_cache_kind_name(cache->kind), layer->index, cache->ratio,
                        cache->shared_kv ? " with keys and values in one" : "");
    if (spec->kind == VLLM_SLIDING || spec->kind == VLLM_CHUNKED)
        spec->window = cache->window;
    if (spec->kind == VLLM_STATE)
        return vllm_state_bytes(call, cache, &spec->page);
    return token_bytes(call, spec, cache);
}

static enum kva_status add_entry(struct kva_call *call, struct vllm_layout *layout, const struct kva_layer *layer,
                                 const struct kva_cache *cache, uint32_t at)
{
    size_t s = 0;
    while (s < layout->n_specs && !same_spec(&layout->specs[s], layer, cache))
        s++;
    if (s == layout->n_specs) {
        enum kva_status status = make_spec(call, layer, cache, &layout->specs[s]);
        if (status != KVA_OK)
            return status;
        layout->n_specs++;
    }
    layout->specs[s].n_entries++;
    layout->entries[layout->n_entries++] = (struct vllm_entry){.layer = at, .spec = (uint32_t)s};
    return KVA_OK;
}

// Layers of a draft model or of multi-token prediction: each like the model's first layer that keeps every token.
static enum kva_status add_drafts(struct kva_call *call, struct vllm_layout *layout)
{
    const uint64_t drafts = call->deployment->draft_layers;
    size_t s = 0;
    while (s < layout->n_specs && layout->specs[s].kind != VLLM_FULL && layout->specs[s].kind != VLLM_LATENT)
        s++;
    if (drafts > 0 && s == layout->n_specs)
        return kva_fail(call->error, KVA_REFUSED, NULL, "draft_layers",
                        "the model has no layer that keeps every token for draft layers to be like");
    for (uint64_t d = 0; d < drafts; d++) {
        layout->specs[s].n_entries++;
        layout->entries[layout->n_entries++] = (struct vllm_entry){.layer = UINT32_MAX, .spec = (uint32_t)s};
    }
    return KVA_OK;
}

// ---------------------------------------------------------------- pipeline stages

static enum kva_status place(struct kva_call *call, struct vllm_layout *layout)
{
    const uint32_t *stage_of;
    layout->n_stages = (uint32_t)call->deployment->pp;
    enum kva_status status = kva_stages_lay(call, kva_stages_inner, &stage_of);
    for (size_t e = 0; status == KVA_OK && e < layout->n_entries; e++) {
        struct vllm_entry *entry = &layout->entries[e];
        entry->stage = entry->layer == UINT32_MAX ? layout->n_stages - 1 : stage_of[entry->layer];
    }
    return status;
}

enum kva_status vllm_specs_collect(struct kva_call *call, struct vllm_layout *layout)
{
    const struct kva_model *model = call->model;
    const uint64_t most = model->n_layers * KVA_MAX_CACHES + call->deployment->draft_layers + 1;
    if (call->deployment->draft_layers > KVA_MAX_LAYERS)
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, "draft_layers", "more than %d layers", KVA_MAX_LAYERS);
    layout->entries = kva_arena_alloc(call->arena, most, sizeof *layout->entries);
    layout->specs = kva_arena_alloc(call->arena, model->n_layers * KVA_MAX_CACHES + 1, sizeof *layout->specs);
    if (layout->entries == NULL || layout->specs == NULL)
        return kva_fail_memory(call->error, most * sizeof *layout->specs);
    enum kva_status status = KVA_OK;
    for (size_t i = 0; i < model->n_layers; i++)
        for (size_t c = 0; status == KVA_OK && c < model->layers[i].n_caches; c++) {
            const struct kva_cache *cache = &model->layers[i].caches[c];
            if (cache->kind != KVA_CACHE_NONE && cache->reads_layer < 0)
                status = add_entry(call, layout, &model->layers[i], cache, (uint32_t)i);
        }
    if (status == KVA_OK)
        status = add_drafts(call, layout);
    return status == KVA_OK ? place(call, layout) : status;
}

uint64_t vllm_encoder_length(const struct kva_call *call)
{
    const struct kva_model *model = call->model;
    uint64_t length = 0;
    for (size_t i = 0; i < model->n_layers; i++)
        for (size_t c = 0; c < model->layers[i].n_caches; c++)
            if (model->layers[i].caches[c].kind == KVA_CACHE_CROSS)
                length = kva_max(length, model->layers[i].caches[c].length);
    return length > 0 ? length : call->deployment->encoder_context;
}
