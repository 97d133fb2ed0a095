// What each layer takes of SGLang's pools: a token of the full pool, a token of the windowed one, a slot of states.
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "engine/cache_bytes.h"
#include "engine/parallel.h"
#include "engine/sglang.h"
#include "engine/token_rows.h"

// Sums of as many layers as a model may have stay below 2^64.
static const uint64_t MOST_OF_A_ROW = UINT64_C(1) << 48;

static uint64_t value_or(const struct kva_model *model, const char *name, uint64_t otherwise)
{
    const struct kva_value *value = kva_model_value(model, name);
    return value != NULL && value->type == KVA_COUNT ? value->count : otherwise;
}

// ---------------------------------------------------------------- keys and values

static enum kva_status attention_rows(struct kva_call *call, const struct sglang_shape *shape,
                                      const struct kva_cache *cache, uint64_t *k, uint64_t *v)
{
    const uint64_t v_dim = cache->shared_kv ? cache->k_dim : cache->v_dim;  // both buffers exist even where K is V
    uint64_t heads = 0;
    enum kva_status status = kva_heads_even(call, kva_max(cache->kv_heads, 1), shape->attention_tp, &heads);
    if (status != KVA_OK)
        return status;
    if (!kva_kv_row_bytes(&call->kv_format, heads, cache->k_dim, 0, k) ||
        !kva_kv_row_bytes(&call->kv_format, heads, 0, v_dim, v))
        return kva_too_large(call);
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

static bool has_window(const struct kva_cache *cache)
{
    return kva_cache_has_window(cache) || cache->window_inert;
}

static enum kva_status layer_rows(struct kva_call *call, const struct sglang_shape *shape,
                                  const struct kva_layer *layer, struct sglang_layer *out)
{
    const struct sglang *sglang = call->behaviours;
    struct kva_token_rows rows;
    enum kva_status status = kva_token_rows_of(call, layer, &rows);
    if (status != KVA_OK || rows.attention == NULL)
        return status;
    const struct kva_cache *cache = rows.attention;
    if (cache->kind != KVA_CACHE_LATENT) {
        out->windowed = shape->hybrid && has_window(cache);
        return attention_rows(call, shape, cache, &out->k, &out->v);
    }
    if (!kva_kv_row_bytes(&call->kv_format, 1, (uint64_t)cache->k_dim + cache->v_dim, 0, &out->k))
        return kva_too_large(call);
    if (shape->index_row == 0)
        return KVA_OK;
    if (sglang->dsa_index != DSA_INDEX_OWN)  // an index buffer for every layer, whether it uses one or not
        out->index = shape->index_row;
    else if (rows.index != NULL)
        out->index = kva_index_key_bytes(rows.index->k_dim);
    return is_packed_fp8(call) ? packed_row(call, &out->k) : KVA_OK;
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

// What decides the states of a rank, read once.
struct state_rule {
    uint64_t tp, heads;               // heads of the recurrent state; 0: the config names none
    uint64_t groups, width, columns;  // of the convolution
    uint64_t conv_bytes, ssm_bytes;   // of one element
};

static struct state_rule state_rule_of(const struct kva_call *call, uint64_t tp)
{
    const struct kva_model *model = call->model;
    const enum kva_dtype conv = call->deployment->conv_dtype;
    return (struct state_rule){
        .tp = kva_max(tp, 1),
        .heads =
            value_or(model, "linear_value_heads", value_or(model, "ssm_heads", value_or(model, "linear_heads", 0))),
        .groups = value_or(model, "groups", value_or(model, "linear_key_heads", 0)),
        .width = value_or(model, "d_state", value_or(model, "linear_key_dim", 0)),
        .columns = kva_max(value_or(model, "d_conv", 1), 1) - 1,
        .conv_bytes = kva_dtype_bytes(conv != KVA_DTYPE_NONE ? conv : KVA_BF16),
        .ssm_bytes = kva_dtype_bytes(ssm_dtype(call)),
    };
}

// mamba_utils.py Mamba2StateShape.create: conv_dim = intermediate + 2 x groups x state, where groups that tp does not
// divide become tp groups.
static bool conv_elements(const struct state_rule *rule, uint64_t elements, uint64_t *share)
{
    uint64_t extra = 0;
    if (rule->groups < rule->tp && rule->groups > 0 &&
        (!kva_mul3(2 * (rule->tp - rule->groups), rule->width, rule->columns, &extra) ||
         !kva_add(elements, extra, &elements)))
        return false;
    *share = elements / rule->tp;
    return elements % rule->tp == 0;
}

static enum kva_status refuse_state(struct kva_call *call, const char *what)
{
    return kva_fail(call->error, KVA_REFUSED, NULL, "engine", "%s: %s",
                    *call->model->architecture != '\0' ? call->model->architecture : call->model->model_type, what);
}

static enum kva_status layer_states(struct kva_call *call, const struct state_rule *rule, const struct kva_layer *layer,
                                    struct sglang_layer *out)
{
    for (size_t c = 0; c < layer->n_caches; c++) {
        const struct kva_cache *cache = &layer->caches[c];
        for (size_t p = 0; kva_cache_is_state(cache) && p < cache->n_state; p++) {
            const struct kva_state_part *part = &cache->state[p];
            uint64_t share = part->elements / rule->tp;
            const bool is_conv = strcmp(part->name, "conv") == 0;
            if (!is_conv && strcmp(part->name, "recurrent") != 0)
                return refuse_state(call, "how SGLang keeps its states was not read");
            const bool divides = is_conv ? conv_elements(rule, part->elements, &share)
                                         : part->elements % rule->tp == 0 && rule->heads % rule->tp == 0;
            if (!divides)
                return kva_fail(call->error, KVA_BAD_INPUT, NULL, "tp",
                                "the states of layer %u cannot be divided among %llu ranks of attention", layer->index,
                                (unsigned long long)rule->tp);
            if (!kva_add_product(is_conv ? &out->conv : &out->ssm, share, is_conv ? rule->conv_bytes : rule->ssm_bytes))
                return kva_too_large(call);
        }
    }
    return KVA_OK;
}

static enum kva_status check_states(struct kva_call *call, struct sglang_shape *shape)
{
    const struct sglang *sglang = call->behaviours;
    shape->states = kva_model_has_cache(call->model, KVA_CACHE_STATE);
    if (!shape->states)
        return KVA_OK;
    if (kva_model_rule(call, "states") == NULL)
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

static enum kva_status lay_stages(struct kva_call *call, struct sglang_shape *shape)
{
    const uint32_t *stage_of;
    enum kva_status status = kva_stages_lay(call, kva_stages_last, &stage_of);
    for (size_t i = 0; status == KVA_OK && i < call->model->n_layers; i++)
        shape->layers[i].stage = stage_of[i];
    return status;
}

// Of a model whose latent rows are picked by an indexer; 0: of no such model.
static uint64_t index_row_of(const struct kva_model *model)
{
    for (size_t i = 0; i < model->n_layers; i++)
        for (size_t c = 0; c < model->layers[i].n_caches; c++)
            if (model->layers[i].caches[c].kind == KVA_CACHE_INDEX)
                return kva_index_key_bytes(model->layers[i].caches[c].k_dim);
    return 0;
}

static bool is_hybrid(struct kva_call *call)
{
    const struct sglang *sglang = call->behaviours;
    const struct kva_deployment *deployment = call->deployment;
    const char *backend = kva_model_rule(call, "hybrid_swa_off_backend");
    if (deployment->hybrid_manager == KVA_OFF || sglang->swa_split == SWA_SPLIT_NONE ||
        kva_model_rule(call, "hybrid_swa") == NULL)
        return false;
    if (backend != NULL && deployment->attention_backend != NULL && strcmp(backend, deployment->attention_backend) == 0)
        return false;
    if (deployment->spec_tokens > 0 && kva_model_rule(call, "hybrid_swa_off_draft") != NULL)
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
                                 const struct sglang_layer *mine)
{
    if (kva_max(kva_max(mine->k, mine->v), kva_max(mine->conv, mine->ssm)) > MOST_OF_A_ROW)
        return kva_too_large(call);
    struct sglang_stage *stage = &shape->stages[mine->stage];
    uint64_t *to_k = mine->windowed ? &stage->swa_k : &stage->full_k;
    uint64_t *to_v = mine->windowed ? &stage->swa_v : &stage->full_v;
    if (!kva_add(*to_k, mine->k, to_k) || !kva_add(*to_v, mine->v, to_v) ||
        !kva_add(stage->index, mine->index, &stage->index) || !kva_add(stage->conv, mine->conv, &stage->conv) ||
        !kva_add(stage->ssm, mine->ssm, &stage->ssm) ||
        !kva_add(shape->state_slot, mine->conv + mine->ssm, &shape->state_slot))
        return kva_too_large(call);
    const bool full = mine->k > 0 && !mine->windowed;
    stage->n_layers++;
    stage->n_full += full;
    stage->n_swa += mine->windowed;
    stage->n_state += mine->conv + mine->ssm > 0;
    if (full && shape->draft_k + shape->draft_v == 0) {
        shape->draft_k = mine->k;
        shape->draft_v = mine->v;
        shape->latent = mine->v == 0;
    }
    for (size_t c = 0; c < layer->n_caches; c++) {
        const struct kva_cache *cache = &layer->caches[c];
        if (mine->windowed)
            shape->window = kva_max(shape->window, cache->window);
        if (full && shape->first_full == NULL && kva_cache_has_rows(cache))
            shape->first_full = cache;
    }
    return mine->k > 0 ? check_row(call, mine->windowed ? &shape->swa_row : &shape->full_row, mine->k + mine->v)
                       : KVA_OK;
}

static enum kva_status add_layers(struct kva_call *call, struct sglang_shape *shape)
{
    const struct state_rule rule = state_rule_of(call, shape->attention_tp);
    enum kva_status status = KVA_OK;
    for (size_t i = 0; status == KVA_OK && i < call->model->n_layers; i++) {
        const struct kva_layer *layer = &call->model->layers[i];
        status = layer_rows(call, shape, layer, &shape->layers[i]);
        if (status == KVA_OK && shape->states)
            status = layer_states(call, &rule, layer, &shape->layers[i]);
        if (status == KVA_OK)
            status = add_layer(call, shape, layer, &shape->layers[i]);
    }
    return status;
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
    shape->layers = kva_arena_alloc(call->arena, model->n_layers + 1, sizeof *shape->layers);
    if (shape->stages == NULL || shape->layers == NULL)
        return kva_fail_memory(call->error, model->n_layers * sizeof *shape->layers);
    shape->hybrid = is_hybrid(call);
    shape->index_row = index_row_of(model);
    shape->slots_per_request = sglang_slots_per_request(call);
    enum kva_status status = check_states(call, shape);
    if (status == KVA_OK)
        status = lay_stages(call, shape);
    if (status == KVA_OK)
        status = add_layers(call, shape);
    if (status != KVA_OK)
        return status;
    if (!kva_mul(shape->draft_k, call->deployment->draft_layers, &shape->draft_k) ||
        !kva_mul(shape->draft_v, call->deployment->draft_layers, &shape->draft_v))
        return kva_too_large(call);
    shape->engine_window = shape->window - (shape->window > 0 && kva_model_rule(call, "window_less_current") != NULL);
    for (uint64_t s = 0; s < shape->pp; s++) {
        count_budget(call, shape, &shape->stages[s]);
        shape->state_stage_slot = kva_max(shape->state_stage_slot, shape->stages[s].conv + shape->stages[s].ssm);
    }
    return check_shape(call, shape);
}
