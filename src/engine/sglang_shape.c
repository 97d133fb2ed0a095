// What each layer takes of SGLang's pools: a token of the full pool, a token of the windowed one, a slot of states.
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "engine/cache_bytes.h"
#include "engine/parallel.h"
#include "engine/sglang.h"

static enum kva_status too_large(const struct kva_call *call)
{
    return kva_fail(call->error, KVA_BAD_INPUT, NULL, NULL, "the caches are more than 2^64 bytes");
}

static uint64_t value_or(const struct kva_model *model, const char *name, uint64_t otherwise)
{
    const struct kva_value *value = kva_model_value(model, name);
    return value != NULL && value->type == KVA_COUNT ? value->count : otherwise;
}

// ---------------------------------------------------------------- keys and values

// ModelConfig.get_num_kv_heads: max(1, heads // tp). The layers themselves insist that one divides the other.
static enum kva_status heads_on_rank(struct kva_call *call, uint64_t heads, uint64_t tp, uint64_t *share)
{
    if (heads >= tp ? heads % tp != 0 : tp % heads != 0)
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, "tp",
                        "%llu KV heads cannot be divided among %llu ranks of attention, nor copied evenly to them",
                        (unsigned long long)heads, (unsigned long long)tp);
    *share = kva_heads_floor(heads, tp);
    return KVA_OK;
}

static enum kva_status attention_rows(struct kva_call *call, const struct sglang_shape *shape,
                                      const struct kva_cache *cache, uint64_t *k, uint64_t *v)
{
    const uint64_t v_dim = cache->shared_kv ? cache->k_dim : cache->v_dim;  // both buffers exist even where K is V
    uint64_t heads = 0;
    enum kva_status status = heads_on_rank(call, kva_max(cache->kv_heads, 1), shape->attention_tp, &heads);
    if (status != KVA_OK)
        return status;
    if (!kva_kv_row_bytes(&call->kv_format, heads, cache->k_dim, 0, k) ||
        !kva_kv_row_bytes(&call->kv_format, heads, 0, v_dim, v))
        return too_large(call);
    return KVA_OK;
}

static bool is_packed_fp8(const struct kva_call *call)
{
    const char *backend = call->deployment->attention_backend;
    return call->deployment->kv_dtype == KVA_F8_E4M3 && call->kv_format.k.group == 0 &&
           (backend == NULL || strncmp(backend, "trtllm", strlen("trtllm")) != 0);
}

// calculate_mla_kv_cache_dim: the latent in fp8, a float32 scale of every 128 elements, the rotary part in bf16.
static enum kva_status packed_row(struct kva_call *call, uint64_t *row)
{
    const uint64_t lora = value_or(call->model, "kv_lora_rank", 0), rope = value_or(call->model, "qk_rope_head_dim", 0);
    if (lora == 0 || lora % 128 != 0)
        return kva_fail(call->error, KVA_REFUSED, NULL, "kv_lora_rank",
                        "the rank of the latent, a multiple of 128, decides the bytes of an fp8 row; the config gives "
                        "%llu",
                        (unsigned long long)lora);
    *row = lora + lora / 128 * 4 + rope * 2;
    return KVA_OK;
}

// NSATokenToKVPool: index_head_dim fp8 elements and a float32 scale of every 128
static uint64_t index_row(const struct kva_cache *cache)
{
    return cache->k_dim + cache->k_dim / 128 * 4;
}

static enum kva_status refuse_cache(struct kva_call *call, const struct kva_layer *layer, const char *what)
{
    return kva_fail(call->error, KVA_REFUSED, NULL, "engine",
                    "layer %u of %s keeps %s, and how SGLang does was not read", layer->index, call->model->model_type,
                    what);
}

static bool has_window(const struct kva_cache *cache)
{
    return kva_cache_has_window(cache) || cache->window_inert;
}

enum kva_status sglang_layer_rows(struct kva_call *call, const struct sglang_shape *shape,
                                  const struct kva_layer *layer, bool *windowed, uint64_t *k, uint64_t *v,
                                  uint64_t *index)
{
    bool latent = false;
    enum kva_status status = KVA_OK;
    *windowed = false;
    *k = *v = *index = 0;
    for (size_t c = 0; status == KVA_OK && c < layer->n_caches; c++) {
        const struct kva_cache *cache = &layer->caches[c];
        if (cache->kind == KVA_CACHE_NONE || kva_cache_is_state(cache))
            continue;
        if (cache->kind == KVA_CACHE_CROSS)
            return refuse_cache(call, layer, "encoder states");
        if (cache->ratio > 1 || (cache->kind == KVA_CACHE_INDEX && !latent))
            return refuse_cache(call, layer, "compressed rows or an indexer of its own kind");
        if (cache->kind == KVA_CACHE_INDEX)
            *index = index_row(cache);
        else if (*k > 0)
            return refuse_cache(call, layer, "two caches");
        else if (cache->kind == KVA_CACHE_LATENT) {
            latent = true;
            if (!kva_kv_row_bytes(&call->kv_format, 1, (uint64_t)cache->k_dim + cache->v_dim, 0, k))
                return too_large(call);
        } else {
            *windowed = shape->hybrid && has_window(cache);
            status = attention_rows(call, shape, cache, k, v);
        }
    }
    if (!latent || shape->index_row == 0)
        return status;
    const struct sglang *sglang = call->behaviours;
    if (sglang->dsa_index != DSA_INDEX_OWN)  // an index buffer for every layer, whether it uses one or not
        *index = shape->index_row;
    return status == KVA_OK && is_packed_fp8(call) ? packed_row(call, k) : status;
}

// ---------------------------------------------------------------- states

// The config's mamba_ssm_dtype; other keys are not read.
static enum kva_dtype ssm_dtype(const struct kva_call *call)
{
    const struct sglang *sglang = call->behaviours;
    const struct kva_value *value = kva_model_value(call->model, "state_dtype");
    if (call->deployment->state_dtype != KVA_DTYPE_NONE)
        return call->deployment->state_dtype;
    if (!sglang->ssm_dtype_of_config || value == NULL || value->source != KVA_FROM_CONFIG || value->text == NULL ||
        strstr(value->key, "mamba_ssm_dtype") == NULL || kva_dtype_parse(value->text) == KVA_DTYPE_NONE)
        return KVA_F32;
    return kva_dtype_parse(value->text);
}

// mamba_utils.py Mamba2StateShape.create: conv_dim = intermediate + 2 x groups x state, where groups that tp does not
// divide become tp groups.
static bool conv_elements(const struct kva_call *call, uint64_t elements, uint64_t tp, uint64_t *share)
{
    const struct kva_model *model = call->model;
    const uint64_t groups = value_or(model, "groups", value_or(model, "linear_key_heads", 1));
    const uint64_t width = value_or(model, "d_state", value_or(model, "linear_key_dim", 0));
    const uint64_t columns = value_or(model, "d_conv", 1) - 1;
    uint64_t extra = 0;
    if (groups % tp != 0 && groups < tp &&
        (!kva_mul3(2 * (tp - groups), width, columns, &extra) || !kva_add(elements, extra, &elements)))
        return false;
    *share = elements / tp;
    return elements % tp == 0;
}

// Heads of the recurrent state; 0: the config names none.
static uint64_t state_heads(const struct kva_model *model)
{
    return value_or(model, "linear_value_heads", value_or(model, "ssm_heads", value_or(model, "linear_heads", 0)));
}

static enum kva_status refuse_state(struct kva_call *call, const char *what)
{
    return kva_fail(call->error, KVA_REFUSED, NULL, "engine", "%s: %s",
                    *call->model->architecture != '\0' ? call->model->architecture : call->model->model_type, what);
}

enum kva_status sglang_layer_state(struct kva_call *call, const struct kva_layer *layer, uint64_t *conv, uint64_t *ssm)
{
    const uint64_t tp = kva_max(call->deployment->tp / sglang_data_ranks(call), 1);
    const enum kva_dtype conv_type =
        call->deployment->conv_dtype != KVA_DTYPE_NONE ? call->deployment->conv_dtype : KVA_BF16;
    *conv = *ssm = 0;
    for (size_t c = 0; c < layer->n_caches; c++) {
        const struct kva_cache *cache = &layer->caches[c];
        for (size_t p = 0; kva_cache_is_state(cache) && p < cache->n_state; p++) {
            const struct kva_state_part *part = &cache->state[p];
            uint64_t share = part->elements / tp;
            const bool is_conv = strcmp(part->name, "conv") == 0;
            if (!is_conv && strcmp(part->name, "recurrent") != 0)
                return refuse_state(call, "how SGLang keeps its states was not read");
            const bool divides = is_conv ? conv_elements(call, part->elements, tp, &share)
                                         : part->elements % tp == 0 && state_heads(call->model) % tp == 0;
            if (!divides)
                return kva_fail(call->error, KVA_BAD_INPUT, NULL, "tp",
                                "the states of layer %u cannot be divided among %llu ranks of attention", layer->index,
                                (unsigned long long)tp);
            if (!kva_add_product(is_conv ? conv : ssm, share, kva_dtype_bytes(is_conv ? conv_type : ssm_dtype(call))))
                return too_large(call);
        }
    }
    return KVA_OK;
}

static bool has_states(const struct kva_model *model)
{
    for (size_t i = 0; i < model->n_layers; i++)
        for (size_t c = 0; c < model->layers[i].n_caches; c++)
            if (kva_cache_is_state(&model->layers[i].caches[c]))
                return true;
    return false;
}

static enum kva_status check_states(struct kva_call *call, struct sglang_shape *shape)
{
    const struct sglang *sglang = call->behaviours;
    shape->states = has_states(call->model);
    if (!shape->states)
        return KVA_OK;
    if (sglang_rule(call, "states") == NULL)
        return refuse_state(call, "not among the architectures whose states this version of SGLang is known to keep");
    if (sglang->mamba_slots == MAMBA_SLOTS_UNKNOWN)
        return refuse_state(call, "how this version of SGLang sizes its states was not read");
    if (call->deployment->pp > 1 && sglang->mamba_slots != MAMBA_SLOTS_PADDED)
        return refuse_state(call, "how this version of SGLang sizes states of several stages was not read");
    if (call->deployment->spec_tokens > 0 && sglang->mamba_draft_states == DRAFT_STATES_UNKNOWN)
        return refuse_state(call, "how this version of SGLang pays for speculative states was not read");
    return KVA_OK;
}

// ---------------------------------------------------------------- stages

// distributed/utils.py get_pp_indices: the last stages take the rest.
static enum kva_status lay_stages(struct kva_call *call, struct sglang_shape *shape)
{
    const uint64_t n = call->model->n_layers, pp = shape->pp;
    uint64_t *sizes = kva_arena_alloc(call->arena, pp, sizeof *sizes);
    if (sizes == NULL)
        return kva_fail_memory(call->error, pp * sizeof *sizes);
    for (uint64_t s = 0; s < pp; s++)
        sizes[s] = n / pp + (s >= pp - n % pp);
    enum kva_status status = KVA_OK;
    if (call->deployment->pp_partition != NULL)
        status = kva_stages_parse(call->deployment->pp_partition, n, pp, sizes, call->error);
    uint64_t stage = 0, left = sizes[0];
    for (size_t i = 0; status == KVA_OK && i < n; i++) {
        while (left == 0)
            left = sizes[++stage];
        shape->stage_of[i] = (uint32_t)stage;
        left--;
    }
    return status;
}

// Of a model whose latent rows are picked by an indexer; 0: of no such model.
static uint64_t index_row_of(const struct kva_model *model)
{
    for (size_t i = 0; i < model->n_layers; i++)
        for (size_t c = 0; c < model->layers[i].n_caches; c++)
            if (model->layers[i].caches[c].kind == KVA_CACHE_INDEX)
                return index_row(&model->layers[i].caches[c]);
    return 0;
}

static bool is_hybrid(struct kva_call *call)
{
    const struct sglang *sglang = call->behaviours;
    const struct kva_deployment *deployment = call->deployment;
    const char *backend = sglang_rule(call, "hybrid_swa_off_backend");
    if (deployment->hybrid_manager == KVA_OFF || sglang->swa_split == SWA_SPLIT_NONE ||
        sglang_rule(call, "hybrid_swa") == NULL)
        return false;
    if (backend != NULL && deployment->attention_backend != NULL && strcmp(backend, deployment->attention_backend) == 0)
        return false;
    if (deployment->spec_tokens > 0 && sglang_rule(call, "hybrid_swa_off_draft") != NULL)
        return false;
    for (size_t i = 0; i < call->model->n_layers; i++)
        for (size_t c = 0; c < call->model->layers[i].n_caches; c++)
            if (has_window(&call->model->layers[i].caches[c]))
                return true;
    return false;
}

// Every layer of a pool has the same shape, or the pool is not the one that was read.
static enum kva_status check_row(struct kva_call *call, uint64_t *row, uint64_t bytes)
{
    if (*row == 0 || *row == bytes) {
        *row = bytes;
        return KVA_OK;
    }
    return kva_fail(
        call->error, KVA_REFUSED, NULL, "engine",
        "layers of one pool differ in shape (%llu and %llu bytes a token), and how SGLang sizes such a pool "
        "was not read",
        (unsigned long long)*row, (unsigned long long)bytes);
}

static enum kva_status add_layer(struct kva_call *call, struct sglang_shape *shape, const struct kva_layer *layer,
                                 struct sglang_stage *stage)
{
    bool windowed;
    uint64_t k, v, index, conv, ssm;
    enum kva_status status = sglang_layer_rows(call, shape, layer, &windowed, &k, &v, &index);
    if (status == KVA_OK)
        status = sglang_layer_state(call, layer, &conv, &ssm);
    if (status == KVA_OK && k > 0)
        status = check_row(call, windowed ? &shape->swa_row : &shape->full_row, k + v);
    if (status != KVA_OK)
        return status;
    uint64_t *to_k = windowed ? &stage->swa_k : &stage->full_k, *to_v = windowed ? &stage->swa_v : &stage->full_v;
    if (!kva_add(*to_k, k, to_k) || !kva_add(*to_v, v, to_v) || !kva_add(stage->index, index, &stage->index) ||
        !kva_add(stage->conv, conv, &stage->conv) || !kva_add(stage->ssm, ssm, &stage->ssm) ||
        !kva_add(shape->state_slot, conv + ssm, &shape->state_slot))
        return too_large(call);
    stage->n_layers++;
    stage->n_full += k > 0 && !windowed;
    stage->n_swa += windowed;
    stage->n_state += conv + ssm > 0;
    if (k > 0 && !windowed && shape->draft_k + shape->draft_v == 0) {
        shape->draft_k = k;
        shape->draft_v = v;
        shape->latent = v == 0;
    }
    for (size_t c = 0; c < layer->n_caches; c++) {
        const struct kva_cache *cache = &layer->caches[c];
        if (windowed)
            shape->window = kva_max(shape->window, cache->window);
        if (k > 0 && !windowed && shape->first_full == NULL && kva_cache_has_rows(cache))
            shape->first_full = cache;
    }
    return KVA_OK;
}

// What the budget counts, which is not always what the pools take.
static void count_budget(const struct kva_call *call, const struct sglang_shape *shape, struct sglang_stage *stage)
{
    const struct sglang *sglang = call->behaviours;
    const bool sparse = shape->index_row > 0;
    stage->budget_index = stage->index;
    if (sparse && sglang->dsa_index == DSA_INDEX_NONE)
        stage->budget_index = 0;
    if (sparse && sglang->dsa_cell == DSA_CELL_PLAIN && is_packed_fp8(call) && shape->first_full != NULL)
        stage->budget_latent = stage->n_full * ((uint64_t)shape->first_full->k_dim + shape->first_full->v_dim);
    const bool fp4 = call->kv_format.k.bits == 4 && shape->first_full != NULL && !shape->latent;
    const bool nvfp4 = call->deployment->kv_type != NULL && strcmp(call->deployment->kv_type, "nvfp4") == 0;
    if (fp4 &&
        (sglang->fp4_workspace == FP4_WORKSPACE_EVERY || (sglang->fp4_workspace == FP4_WORKSPACE_NVFP4 && nvfp4)))
        stage->workspace =
            kva_heads_floor(shape->first_full->kv_heads, shape->attention_tp) * shape->first_full->k_dim * 2;
}

static enum kva_status check_shape(struct kva_call *call, const struct sglang_shape *shape)
{
    const struct sglang *sglang = call->behaviours;
    if (shape->hybrid && !sglang->swa_pages && call->deployment->block_size > 1)
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, "block_size",
                        "this version of SGLang takes pages of one token where windowed layers have a pool of their "
                        "own; --disable-hybrid-swa-memory gives that pool up");
    if (shape->hybrid && call->kv_format.k.bits == 4)
        return kva_fail(call->error, KVA_REFUSED, NULL, "kv_type",
                        "how SGLang sizes fp4 pools of windowed layers was not read");
    return KVA_OK;
}

enum kva_status sglang_shape_of(struct kva_call *call, struct sglang_shape *shape)
{
    const struct kva_model *model = call->model;
    *shape = (struct sglang_shape){.pp = call->deployment->pp,
                                   .attention_tp = kva_max(call->deployment->tp / sglang_data_ranks(call), 1)};
    shape->stages = kva_arena_alloc(call->arena, shape->pp, sizeof *shape->stages);
    shape->stage_of = kva_arena_alloc(call->arena, model->n_layers + 1, sizeof *shape->stage_of);
    if (shape->stages == NULL || shape->stage_of == NULL)
        return kva_fail_memory(call->error, model->n_layers * sizeof *shape->stage_of);
    shape->hybrid = is_hybrid(call);
    shape->index_row = index_row_of(model);
    shape->slots_per_request = sglang_slots_per_request(call);
    enum kva_status status = check_states(call, shape);
    if (status == KVA_OK)
        status = lay_stages(call, shape);
    for (size_t i = 0; status == KVA_OK && i < model->n_layers; i++)
        status = add_layer(call, shape, &model->layers[i], &shape->stages[shape->stage_of[i]]);
    if (status != KVA_OK)
        return status;
    if (!kva_mul(shape->draft_k, call->deployment->draft_layers, &shape->draft_k) ||
        !kva_mul(shape->draft_v, call->deployment->draft_layers, &shape->draft_v))
        return too_large(call);
    shape->engine_window = shape->window - (shape->window > 0 && sglang_rule(call, "window_less_current") != NULL);
    for (uint64_t s = 0; s < shape->pp; s++) {
        count_budget(call, shape, &shape->stages[s]);
        shape->state_stage_slot = kva_max(shape->state_stage_slot, shape->stages[s].conv + shape->stages[s].ssm);
    }
    return check_shape(call, shape);
}
