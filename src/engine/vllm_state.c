// Bytes of one state on one rank (model_executor/layers/mamba/mamba_utils.py MambaStateShapeCalculator and
// MambaStateDtypeCalculator): the parts that the architecture keeps, divided among the ranks, with a column of the
// convolution for each speculative token, in the element types that vLLM chooses.
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "engine/vllm.h"

enum family { MAMBA1, MAMBA2, DELTA, KDA, SHORT_CONV, LINEAR, N_FAMILIES };

static enum kva_status find_family(struct kva_call *call, enum family *family)
{
    static const char *const NAMES[N_FAMILIES] = {"mamba1", "mamba2", "delta", "kda", "short_conv", "linear"};
    const char *name = vllm_own(call)->states;
    for (int f = 0; name != NULL && f < N_FAMILIES; f++)
        if (strcmp(NAMES[f], name) == 0) {
            *family = (enum family)f;
            return KVA_OK;
        }
    return kva_fail(call->error, KVA_REFUSED, NULL, "model_type",
                    "how vLLM keeps the states of %s is not known to kvatlas", call->model->model_type);
}

static bool is_conv(const struct kva_state_part *part)
{
    return strcmp(part->name, "conv") == 0;
}

// ---------------------------------------------------------------- element types

static enum kva_dtype conv_dtype(const struct kva_call *call)
{
    const struct kva_deployment *deployment = call->deployment;
    if (deployment->conv_dtype != KVA_DTYPE_NONE)
        return deployment->conv_dtype;
    const bool as_kv = vllm_behaves(call)->state_dtype == VLLM_STATE_DTYPE_KV;
    return as_kv && deployment->kv_dtype != KVA_DTYPE_NONE ? deployment->kv_dtype : deployment->model_dtype;
}

// What the model's class takes from its config (models/config.py NemotronHForCausalLMConfig, Qwen3_5...Config).
static enum kva_dtype config_dtype(const struct kva_call *call)
{
    const char *silent = kva_rule(call, "state_dtype", call->model->model_type);
    const struct kva_value *value = silent != NULL ? kva_model_value(call->model, "state_dtype") : NULL;
    if (silent == NULL)
        return KVA_DTYPE_NONE;
    if (value != NULL && (value->source == KVA_FROM_CONFIG || value->source == KVA_FROM_PERSON) && value->text != NULL)
        return kva_dtype_parse(value->text);
    return kva_dtype_parse(silent);
}

static enum kva_dtype recurrent_dtype(const struct kva_call *call, enum family family)
{
    const enum kva_dtype asked = call->deployment->state_dtype;
    enum kva_dtype dtype = KVA_DTYPE_NONE;
    if (family == LINEAR || (family == DELTA && !vllm_behaves(call)->delta_state_dtype))
        return conv_dtype(call);
    if (family == KDA)
        return asked != KVA_DTYPE_NONE && vllm_behaves(call)->recurrent_choice ? asked : KVA_F32;
    dtype = asked != KVA_DTYPE_NONE ? asked : config_dtype(call);
    return dtype != KVA_DTYPE_NONE ? dtype : conv_dtype(call);
}

// ---------------------------------------------------------------- elements

static uint64_t value_of(const struct kva_call *call, const char *name)
{
    const struct kva_value *value = kva_model_value(call->model, name);
    return value != NULL ? value->count : 0;
}

// Groups of Mamba-2 that the ranks do not divide are repeated until they do: tp - groups more, each of 2 * d_state
// columns of the convolution. (extra_groups_for_head_shards)
static bool add_groups(const struct kva_call *call, uint64_t columns, uint64_t *elements)
{
    const uint64_t tp = call->deployment->tp, groups = value_of(call, "groups");
    if (groups == 0 || groups % tp == 0)
        return true;
    return groups < tp && kva_add_product(elements, (tp - groups) * columns, 2 * value_of(call, "d_state"));
}

static bool has_draft_columns(const struct kva_call *call, enum family family)
{
    const struct vllm_behaviours *behaves = vllm_behaves(call);
    switch (family) {
    case MAMBA2:
        return behaves->mamba2_conv_drafts;
    case DELTA:
        return behaves->delta_conv_drafts;
    case KDA:
        return behaves->kda_conv_drafts;
    case SHORT_CONV:
        return behaves->short_conv_drafts;
    default:
        return false;
    }
}

// Elements of the convolution on a rank: (kernel - 1 + speculative tokens) columns.
static bool conv_elements(const struct kva_call *call, enum family family, uint64_t *elements)
{
    const uint64_t kernel = kva_max(value_of(call, "d_conv"), value_of(call, "conv_kernel"));
    const uint64_t drafts = has_draft_columns(call, family) ? call->deployment->spec_tokens : 0;
    if (kernel < 2)
        return drafts == 0 && family != MAMBA2;
    if (family == MAMBA2 && !add_groups(call, kernel - 1, elements))
        return false;
    return *elements % (kernel - 1) == 0 && kva_mul(*elements / (kernel - 1), kernel - 1 + drafts, elements);
}

enum kva_status vllm_state_bytes(struct kva_call *call, const struct kva_cache *cache, uint64_t *bytes)
{
    const uint64_t tp = call->deployment->tp;
    enum family family;
    *bytes = 0;
    enum kva_status status = find_family(call, &family);
    for (size_t p = 0; status == KVA_OK && p < cache->n_state; p++) {
        const struct kva_state_part *part = &cache->state[p];
        uint64_t elements = part->elements;
        if (is_conv(part) && !conv_elements(call, family, &elements))
            return kva_fail(call->error, KVA_BAD_INPUT, NULL, "tp",
                            "the convolution state cannot be laid out for %llu ranks", (unsigned long long)tp);
        if (elements % tp != 0)
            return kva_fail(call->error, KVA_BAD_INPUT, NULL, "tp",
                            "the %s state of %llu elements is not divided by %llu ranks", part->name,
                            (unsigned long long)elements, (unsigned long long)tp);
        const enum kva_dtype dtype = is_conv(part) ? conv_dtype(call) : recurrent_dtype(call, family);
        if (!kva_add_product(bytes, elements / tp, kva_dtype_bytes(dtype)))
            return kva_fail(call->error, KVA_BAD_INPUT, NULL, NULL, "a state is more than 2^64 bytes");
    }
    return status;
}
