// What each layer takes of TensorRT-LLM's pools: bytes of a token, its window, bytes of a state.
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "engine/cache_bytes.h"
#include "engine/parallel.h"
#include "engine/token_rows.h"
#include "engine/trtllm.h"

// Sums of as many layers as a model may have stay below 2^64.
static const uint64_t MOST_OF_A_ROW = UINT64_C(1) << 48;

static uint64_t attention_ranks(const struct kva_call *call)
{
    return call->deployment->dp_attention == KVA_ON ? 1 : call->deployment->tp;
}

// ---------------------------------------------------------------- keys and values

// resource_manager.py get_cache_bytes_per_token: ceil(heads / tp) heads, keys and values, also where both are one
static enum kva_status attention_row(struct kva_call *call, const struct kva_cache *cache, struct trtllm_layer *out)
{
    const uint64_t heads = kva_heads_ceil(cache->kv_heads, attention_ranks(call));
    const uint64_t v_dim = cache->shared_kv ? cache->k_dim : cache->v_dim;
    uint64_t bits;
    if (!kva_kv_row_bytes(&call->kv_format, heads, cache->k_dim, v_dim, &out->row) || out->row > MOST_OF_A_ROW ||
        !kva_mul3(heads, cache->k_dim + v_dim, call->kv_format.k.bits, &bits))
        return kva_too_large(call);
    out->plain = bits / 8;
    return KVA_OK;
}

// One latent row on every rank: a cache without values (SELFKONLY).
static enum kva_status latent_row(struct kva_call *call, const struct kva_cache *cache, struct trtllm_layer *out)
{
    const uint64_t elements = (uint64_t)cache->k_dim + cache->v_dim;
    if (!kva_kv_row_bytes(&call->kv_format, 1, elements, 0, &out->row) || out->row > MOST_OF_A_ROW)
        return kva_too_large(call);
    out->plain = elements * call->kv_format.k.bits / 8;
    return KVA_OK;
}

static enum kva_status layer_rows(struct kva_call *call, const struct kva_layer *layer, struct trtllm_layer *out)
{
    const struct trtllm *trtllm = call->behaviours;
    struct kva_token_rows rows;
    enum kva_status status = kva_token_rows_of(call, layer, &rows);
    if (status != KVA_OK || rows.attention == NULL)
        return status;
    if (rows.index != NULL && trtllm->index == TRTLLM_INDEX_NONE)
        return kva_refuse_layer(call, layer, "keys of an indexer, which this version is not known to run");
    status = rows.attention->kind == KVA_CACHE_LATENT ? latent_row(call, rows.attention, out)
                                                      : attention_row(call, rows.attention, out);
    if (rows.index != NULL)
        out->row += kva_index_key_bytes(rows.index->k_dim);
    return status;
}

// ---------------------------------------------------------------- states

static enum kva_dtype state_dtype(const struct kva_call *call, const struct kva_state_part *part)
{
    const struct kva_value *value = kva_model_value(call->model, "state_dtype");
    // extract_mamba_kv_cache_params: the flag, the config's mamba_ssm_cache_dtype (mamba_ssm_dtype is not read), the
    // model's type; float32 for the delta rule of Kimi, which keeps it whatever anyone says
    if (part->dtype == KVA_F32 && strcmp(call->model->model_type, "kimi_linear") == 0)
        return KVA_F32;
    if (call->deployment->state_dtype != KVA_DTYPE_NONE)
        return call->deployment->state_dtype;
    if (value != NULL && value->source == KVA_FROM_CONFIG && value->text != NULL &&
        strstr(value->key, "mamba_ssm_cache_dtype") != NULL && kva_dtype_parse(value->text) != KVA_DTYPE_NONE)
        return kva_dtype_parse(value->text);
    return call->deployment->model_dtype;
}

static enum kva_status check_states(struct kva_call *call, struct trtllm_shape *shape)
{
    const struct trtllm *trtllm = call->behaviours;
    shape->states = kva_model_has_cache(call->model, KVA_CACHE_STATE);
    if (!shape->states)
        return KVA_OK;
    if (trtllm->states == TRTLLM_STATES_UNKNOWN)
        return kva_fail(call->error, KVA_REFUSED, NULL, "engine",
                        "how this version of TensorRT-LLM sizes recurrent states was not read");
    if (kva_model_rule(call, "states") == NULL)
        return kva_fail(call->error, KVA_REFUSED, NULL, "engine",
                        "%s is not among the architectures whose states this version of TensorRT-LLM is known to keep",
                        *call->model->architecture != '\0' ? call->model->architecture : call->model->model_type);
    // one padding slot, and one for idle ranks of data-parallel attention
    shape->slots_beside = 1 + (call->deployment->dp_attention == KVA_ON);
    return KVA_OK;
}

static enum kva_status layer_states(struct kva_call *call, const struct kva_layer *layer, struct trtllm_layer *out)
{
    const uint64_t tp = attention_ranks(call);
    for (size_t c = 0; c < layer->n_caches; c++) {
        const struct kva_cache *cache = &layer->caches[c];
        for (size_t p = 0; kva_cache_is_state(cache) && p < cache->n_state; p++) {
            const struct kva_state_part *part = &cache->state[p];
            const bool is_conv = strcmp(part->name, "conv") == 0;
            const enum kva_dtype conv = call->deployment->conv_dtype != KVA_DTYPE_NONE ? call->deployment->conv_dtype
                                                                                       : call->deployment->model_dtype;
            if (!is_conv && strcmp(part->name, "recurrent") != 0)
                return kva_refuse_layer(call, layer, "states of its own kind");
            if (part->elements % tp != 0)
                return kva_fail(call->error, KVA_BAD_INPUT, NULL, "tp",
                                "the states of layer %u cannot be divided among %llu ranks", layer->index,
                                (unsigned long long)tp);
            if (!kva_add_product(is_conv ? &out->conv : &out->ssm, part->elements / tp,
                                 kva_dtype_bytes(is_conv ? conv : state_dtype(call, part))))
                return kva_too_large(call);
        }
    }
    if (out->conv > MOST_OF_A_ROW || out->ssm > MOST_OF_A_ROW)
        return kva_too_large(call);
    out->state = out->conv + out->ssm;
    return KVA_OK;
}

// ---------------------------------------------------------------- windows

// "1024,1024,max": repeated over the layers, each at most the context.
static enum kva_status parse_windows(struct kva_call *call, uint64_t *windows, size_t *n)
{
    const uint64_t context = call->deployment->context;
    *n = 0;
    for (const char *at = call->deployment->windows; at != NULL;) {
        char *end;
        uint64_t tokens = context;
        at += strspn(at, " ");
        if (strncmp(at, "max", 3) == 0)
            end = (char *)at + 3;
        else
            tokens = strtoull(at, &end, 10);
        if (end == at || (*at != 'm' && !isdigit((unsigned char)*at)) || tokens == 0 || (*end != ',' && *end != '\0') ||
            *n == TRTLLM_MAX_WINDOWS)
            return kva_fail(call->error, KVA_BAD_INPUT, NULL, "windows",
                            "'%s' is not a list of at most %d numbers of tokens above 0, with commas between",
                            call->deployment->windows, TRTLLM_MAX_WINDOWS);
        windows[(*n)++] = kva_min(tokens, context);
        at = *end == ',' ? end + 1 : NULL;
    }
    return KVA_OK;
}

// _derive_layer_type_attention_windows: layers of one sliding_window beside full ones. Chunks are not windows.
static uint64_t derived_window(const struct kva_call *call, const struct kva_layer *layer)
{
    for (size_t c = 0; c < layer->n_caches; c++)
        if (layer->caches[c].kind == KVA_CACHE_SLIDING)
            return kva_min(layer->caches[c].window, call->deployment->context);
    return call->deployment->context;
}

static bool mixes_one_window(const struct kva_model *model)
{
    uint64_t window = 0;
    bool full = false;
    for (size_t i = 0; i < model->n_layers; i++)
        for (size_t c = 0; c < model->layers[i].n_caches; c++) {
            const struct kva_cache *cache = &model->layers[i].caches[c];
            full = full || cache->kind == KVA_CACHE_FULL;
            if (cache->kind != KVA_CACHE_SLIDING)
                continue;
            if (window != 0 && window != cache->window)
                return false;
            window = cache->window;
        }
    return full && window > 0;
}

static enum kva_status add_window(struct kva_call *call, struct trtllm_shape *shape, uint64_t window)
{
    size_t w = 0;
    while (w < shape->n_windows && shape->windows[w] < window)
        w++;
    if (w < shape->n_windows && shape->windows[w] == window)
        return KVA_OK;
    if (shape->n_windows == TRTLLM_MAX_WINDOWS)
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, "windows", "more than %d windows differ", TRTLLM_MAX_WINDOWS);
    memmove(&shape->windows[w + 1], &shape->windows[w], (shape->n_windows - w) * sizeof *shape->windows);
    shape->windows[w] = window;
    shape->n_windows++;
    return KVA_OK;
}

static enum kva_status check_windows(struct kva_call *call, const struct trtllm_shape *shape)
{
    const struct trtllm *trtllm = call->behaviours;
    if (call->deployment->windows == NULL || shape->v2)
        return KVA_OK;
    if (trtllm->v1_windows == V1_WINDOWS_UNKNOWN)
        return kva_fail(call->error, KVA_REFUSED, NULL, "windows",
                        "how this version of TensorRT-LLM divides its memory among windows is not known");
    if (kva_model_has_cache(call->model, KVA_CACHE_LATENT) && shape->n_windows > 1)
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, "windows", "latent caches take one window for all layers");
    return KVA_OK;
}

static enum kva_status lay_windows(struct kva_call *call, struct trtllm_shape *shape)
{
    const struct trtllm *trtllm = call->behaviours;
    uint64_t windows[TRTLLM_MAX_WINDOWS];
    size_t n, local = 0;
    enum kva_status status = parse_windows(call, windows, &n);
    const bool derive = n == 0 && shape->v2 && trtllm->v2_windows && mixes_one_window(call->model);
    for (size_t i = 0; status == KVA_OK && i < call->model->n_layers; i++) {
        struct trtllm_layer *layer = &shape->layers[i];
        local = i > 0 && layer->stage == layer[-1].stage ? local + 1 : 0;
        layer->window = call->deployment->context;
        if (n > 0)
            layer->window = windows[(shape->v2 ? i : local) % n];  // V1 repeats the list on each stage
        else if (derive)
            layer->window = derived_window(call, &call->model->layers[i]);
        if (layer->row > 0)
            status = add_window(call, shape, layer->window);
    }
    if (status == KVA_OK && shape->n_windows == 0)
        status = add_window(call, shape, call->deployment->context);
    if (status == KVA_OK && derive && shape->n_windows > 1)
        status = kva_assume(call, "windows of %llu tokens: derived from the config's layer types",
                            (unsigned long long)shape->windows[0]);
    return status == KVA_OK ? check_windows(call, shape) : status;
}

// ---------------------------------------------------------------- all of it

static enum kva_status lay_stages(struct kva_call *call, struct trtllm_shape *shape)
{
    const uint32_t *stage_of;
    enum kva_status status = kva_stages_lay(call, kva_stages_even, &stage_of);
    for (size_t i = 0; status == KVA_OK && i < call->model->n_layers; i++)
        shape->layers[i].stage = stage_of[i];
    if (status == KVA_OK && call->deployment->pp_partition == NULL && call->model->n_layers % call->deployment->pp != 0)
        status = kva_assume(call, "the first stages hold a layer more: %llu do not divide the layers evenly",
                            (unsigned long long)call->deployment->pp);
    return status;
}

// Manager V1 has one size of head for all layers.
static enum kva_status check_heads(struct kva_call *call, const struct trtllm_shape *shape)
{
    uint32_t dim = 0;
    for (size_t i = 0; !shape->v2 && i < call->model->n_layers; i++)
        for (size_t c = 0; c < call->model->layers[i].n_caches; c++) {
            const struct kva_cache *cache = &call->model->layers[i].caches[c];
            if (!kva_cache_has_rows(cache) || cache->kind == KVA_CACHE_INDEX)
                continue;
            if (dim != 0 && cache->k_dim != dim)
                return kva_fail(
                    call->error, KVA_REFUSED, NULL, "manager",
                    "layers have heads of %u and %u elements, which manager v1 is not known to keep; v2 does", dim,
                    cache->k_dim);
            dim = cache->k_dim;
        }
    return KVA_OK;
}

static void lay_draft(const struct kva_call *call, struct trtllm_shape *shape)
{
    for (size_t i = call->model->n_layers; i-- > 0 && shape->draft_row == 0;)
        shape->draft_row = shape->layers[i].row * call->deployment->draft_layers;
    if (call->deployment->spec_tokens == 0)
        shape->draft_row = 0;
}

enum kva_status trtllm_shape_of(struct kva_call *call, struct trtllm_shape *shape)
{
    const struct kva_model *model = call->model;
    *shape = (struct trtllm_shape){.v2 = strcmp(call->deployment->manager, "v2") == 0};
    shape->layers = kva_arena_alloc(call->arena, model->n_layers + 1, sizeof *shape->layers);
    if (shape->layers == NULL)
        return kva_fail_memory(call->error, model->n_layers * sizeof *shape->layers);
    enum kva_status status = check_states(call, shape);
    if (status == KVA_OK)
        status = lay_stages(call, shape);
    for (size_t i = 0; status == KVA_OK && i < model->n_layers; i++) {
        status = layer_rows(call, &model->layers[i], &shape->layers[i]);
        if (status == KVA_OK && shape->states)
            status = layer_states(call, &model->layers[i], &shape->layers[i]);
    }
    if (status == KVA_OK)
        status = check_heads(call, shape);
    if (status == KVA_OK)
        status = lay_windows(call, shape);
    if (status == KVA_OK)
        lay_draft(call, shape);
    return status;
}

static uint64_t stage_sum(const struct kva_call *call, const struct trtllm_shape *shape, uint64_t stage,
                          uint64_t window, bool plain)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < call->model->n_layers; i++) {
        const struct trtllm_layer *layer = &shape->layers[i];
        if (layer->stage == stage && (window == 0 || layer->window == window))
            sum += plain ? layer->plain : layer->row;
    }
    const bool last = stage + 1 == call->deployment->pp;
    const bool longest = window == 0 || window == shape->windows[shape->n_windows - 1];
    return sum + (last && longest ? shape->draft_row : 0);
}

uint64_t trtllm_stage_row(const struct kva_call *call, const struct trtllm_shape *shape, uint64_t stage,
                          uint64_t window)
{
    return stage_sum(call, shape, stage, window, false);
}

uint64_t trtllm_stage_plain_row(const struct kva_call *call, const struct trtllm_shape *shape, uint64_t stage,
                                uint64_t window)
{
    return stage_sum(call, shape, stage, window, true);
}

uint64_t trtllm_stage_state(const struct kva_call *call, const struct trtllm_shape *shape, uint64_t stage)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < call->model->n_layers; i++)
        if (shape->layers[i].stage == stage)
            sum += shape->layers[i].state;
    return sum;
}
