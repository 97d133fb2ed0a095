#include "engine/resolve.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/text.h"
#include "engine/allowances.h"
#include "engine/bounds.h"
#include "engine/cache_bytes.h"
#include "engine/memory.h"
#include "engine/parallel.h"

static enum kva_status resolve_context(struct kva_call *call)
{
    const struct kva_model *model = call->model;
    struct kva_deployment *deployment = call->deployment;
    char asked[KVA_HUMAN], limit[KVA_HUMAN];
    kva_human_count(model->context_limit, limit);
    if (deployment->auto_context && !call->engine->picks_context)
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, "--context",
                        "auto is no context of %s; kvatlas fit finds the largest one", call->engine->id);
    if (deployment->context == 0) {
        if (model->context_limit == 0)
            return kva_fail(call->error, KVA_BAD_INPUT, model->source, "context",
                            "the config states no context limit, so a context must be given");
        deployment->context = model->context_limit;
        return deployment->auto_context
                   ? KVA_OK
                   : kva_assume(call, "context %s tokens: the model's limit, none was asked for", limit);
    }
    if (model->context_limit > 0 && deployment->context > model->context_limit)
        return kva_assume(call, "context %s tokens is beyond the model's limit of %s: planned as asked",
                          kva_human_count(deployment->context, asked), limit);
    return KVA_OK;
}

// Encoder states are as long as the encoder's input, which the context does not tell.
static enum kva_status resolve_encoder(struct kva_call *call)
{
    const struct kva_model *model = call->model;
    char rows[KVA_HUMAN];
    bool asks = false;
    for (size_t i = 0; i < model->n_layers; i++)
        for (size_t c = 0; c < model->layers[i].n_caches; c++)
            asks =
                asks || (model->layers[i].caches[c].kind == KVA_CACHE_CROSS && model->layers[i].caches[c].length == 0);
    if (!asks || call->deployment->encoder_context > 0)
        return KVA_OK;
    call->deployment->encoder_context = call->deployment->context;
    return kva_assume(call, "encoder input %s tokens: as long as the context, none was given",
                      kva_human_count(call->deployment->encoder_context, rows));
}

static enum kva_status resolve_ranks(struct kva_call *call)
{
    struct kva_deployment *deployment = call->deployment;
    uint64_t *ranks[] = {&deployment->tp, &deployment->pp, &deployment->dp, &deployment->dcp, &deployment->pcp};
    static const char *const NAMES[] = {"--tp", "--pp", "--dp", "--dcp", "--pcp"};
    enum { MOST = 4096 };
    for (size_t r = 0; r < sizeof ranks / sizeof *ranks; r++) {
        *ranks[r] = kva_max(*ranks[r], 1);
        if (*ranks[r] > MOST)
            return kva_fail(call->error, KVA_BAD_INPUT, NULL, NAMES[r], "%llu ranks are more than %d",
                            (unsigned long long)*ranks[r], MOST);
    }
    if (deployment->pp > call->model->n_layers && call->model->n_layers > 0)
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, "pp",
                        "%llu stages for %zu layers: a stage needs one at least", (unsigned long long)deployment->pp,
                        call->model->n_layers);
    return KVA_OK;
}

static enum kva_status check_fraction(struct kva_call *call)
{
    const double fraction = call->deployment->memory_fraction;
    if (isnan(fraction) || fraction < 0 || fraction > 1)
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, "--memory-fraction",
                        "%g is not a fraction of the GPU's memory; write 0.9 for nine tenths", fraction);
    return KVA_OK;
}

enum kva_status kva_resolve_common(struct kva_call *call)
{
    const struct kva_model *model = call->model;
    enum kva_status status = check_fraction(call);
    if (status == KVA_OK && model->n_layers < model->all_layers)
        status = kva_assume(call, "the first %zu of %zu layers: as asked", model->n_layers, model->all_layers);
    if (status == KVA_OK)
        status = resolve_context(call);
    if (status == KVA_OK)
        status = kva_resolve_kv_type(call);
    if (status == KVA_OK)
        status = resolve_encoder(call);
    if (status == KVA_OK)
        status = resolve_ranks(call);
    if (status == KVA_OK && call->deployment->sequences == 0) {
        call->deployment->sequences = 1;
        status = kva_assume(call, "1 sequence: none was asked for");
    }
    // the built-in policies check each of their products instead
    const bool policy = call->engine->behaviours_size == 0;
    return status == KVA_OK && !policy ? kva_check_bounds(call) : status;
}

enum kva_status kva_resolve_steps(struct kva_call *call, kva_resolve_step *const *steps, size_t n)
{
    enum kva_status status = KVA_OK;
    for (size_t s = 0; status == KVA_OK && s < n; s++)
        status = steps[s](call);
    return status;
}

enum kva_status kva_resolve_draft(struct kva_call *call)
{
    struct kva_deployment *deployment = call->deployment;
    if (deployment->spec_tokens == 0 || deployment->draft_layers > 0)
        return KVA_OK;
    deployment->draft_layers = kva_max(call->model->mtp_layers, 1);
    return kva_assume(call, "%llu draft layer%s of the target's shape: %s",
                      (unsigned long long)deployment->draft_layers, deployment->draft_layers == 1 ? "" : "s",
                      call->model->mtp_layers > 0 ? "the model's own" : "as EAGLE's");
}

// ---------------------------------------------------------------- element types

// What the engine runs a model in whose config says float32 (rule float32_as, by model_type or for any): most never run
// one in float32 unless told to.
static enum kva_dtype float32_as(const struct kva_call *call)
{
    const char *as = kva_rule(call, "float32_as", call->model->model_type);
    if (as == NULL)
        as = kva_rule(call, "float32_as", "any");
    return as != NULL ? kva_dtype_parse(as) : KVA_F32;
}

static enum kva_status resolve_model_dtype(struct kva_call *call)
{
    struct kva_deployment *deployment = call->deployment;
    if (deployment->model_dtype != KVA_DTYPE_NONE)
        return KVA_OK;
    deployment->model_dtype = call->model->dtype;
    const bool said = call->model->dtype_key != NULL && strcmp(call->model->dtype_key, "--dtype") == 0;
    if (call->model->dtype == KVA_F32 && !said && (deployment->model_dtype = float32_as(call)) != KVA_F32)
        return kva_assume(call, "dtype %s: what %s runs a float32 model in unless --dtype says otherwise",
                          kva_dtype_name(deployment->model_dtype), call->version->file->name);
    if (call->model->dtype == KVA_F32 && !said && call->engine->any_architecture)
        return kva_assume(call,
                          "dtype f32 as the config says: whether %s runs it in fewer bytes is not known (--dtype)",
                          call->version->file->name);
    if (deployment->model_dtype != KVA_DTYPE_NONE)
        return KVA_OK;
    deployment->model_dtype = KVA_BF16;
    return kva_assume(call, "dtype bf16: the config names none");
}

// `typed` as the engine's file or as a plain element type spells it.
static enum kva_status find_format(struct kva_call *call, const char *flag, const char *typed,
                                   struct kva_kv_type *format)
{
    const struct kva_kv_type *known = kva_kv_type_find(call, typed);
    const enum kva_dtype plain = kva_dtype_parse(typed);
    if (known != NULL)
        *format = *known;
    else if (plain != KVA_DTYPE_NONE && call->version->n_kv_types == 0)
        *format = kva_plain_kv_type(plain);
    else if (call->version->n_kv_types == 0)
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, flag,
                        "'%s' is not an element type; f32, f16, bf16, fp8, int8 and auto are", typed);
    else {
        const char *names = kva_kv_type_names(call);
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, flag, "'%s' is not a cache type of %s %s; it takes auto, %s",
                        typed, call->version->file->name, call->version->version, names != NULL ? names : "");
    }
    return KVA_OK;
}

static bool is_auto(const char *typed)
{
    return typed == NULL || strcmp(typed, "auto") == 0;
}

// Scales that a checkpoint brings choose the type of the cache where the engine has a rule kv_scales for its method.
// (vLLM utils/torch_utils.py resolve_kv_cache_dtype_string; SGLang mem_cache/kv_cache_dtype.py)
static enum kva_status take_scales(struct kva_call *call)
{
    struct kva_deployment *deployment = call->deployment;
    const char *scales = call->model->kv_scales, *method = call->model->quant_method;
    const char *takes = scales != NULL ? kva_rule(call, "kv_scales", method) : NULL;
    const bool silent = deployment->kv_dtype == KVA_DTYPE_NONE && is_auto(deployment->kv_type);
    if (takes == NULL && scales != NULL && silent && call->engine->any_architecture)
        return kva_assume(call,
                          "the checkpoint has scales for a cache of %s; whether %s %s takes them is not known: it is "
                          "planned without, --kv-dtype %s with them",
                          scales, call->version->file->name, call->version->version, scales);
    if (scales != NULL && strcmp(scales, "fp8") == 0 && kva_kv_type_find(call, scales) == NULL)
        scales = "fp8_e4m3";  // as engines name it that have no word for either
    if (takes == NULL || (!silent && strcmp(takes, "always") != 0) || kva_kv_type_find(call, scales) == NULL)
        return KVA_OK;
    deployment->kv_type = scales;
    return kva_assume(call, "KV dtype %s: the checkpoint has scales for it, of %s%s", scales, method,
                      silent ? "" : ", whatever is asked for");
}

enum kva_status kva_resolve_kv_type(struct kva_call *call)
{
    struct kva_deployment *deployment = call->deployment;
    const char *key = call->model->dtype_key;
    key = key != NULL && *key != '\0' ? key : "the model";
    enum kva_status status = take_scales(call);
    if (status == KVA_OK)
        status = resolve_model_dtype(call);
    if (status != KVA_OK)
        return status;
    if (is_auto(deployment->kv_type) && deployment->kv_dtype == KVA_DTYPE_NONE) {
        deployment->kv_dtype = deployment->model_dtype;
        status = kva_assume(call, "KV dtype %s: %s%s", kva_dtype_name(deployment->kv_dtype),
                            call->model->dtype == deployment->model_dtype ? "from " : "the model's",
                            call->model->dtype == deployment->model_dtype ? key : "");
    } else if (!is_auto(deployment->kv_type))
        deployment->kv_dtype = kva_dtype_parse(deployment->kv_type);
    if (is_auto(deployment->kv_type))
        deployment->kv_type = kva_dtype_name(deployment->kv_dtype);
    else if (status == KVA_OK) {
        status = find_format(call, "--kv-dtype", deployment->kv_type, &call->kv_format);
        if (status != KVA_OK)
            return status;
    }
    if (call->kv_format.k.bits == 0)
        call->kv_format = kva_plain_kv_type(deployment->kv_dtype);
    if (status == KVA_OK && !is_auto(deployment->kv_type_v)) {
        struct kva_kv_type values;
        status = find_format(call, "--cache-type-v", deployment->kv_type_v, &values);
        if (status == KVA_OK)
            call->kv_format.v = values.v;
    }
    return status;
}

// ---------------------------------------------------------------- memory

enum kva_status kva_resolve_budget(struct kva_call *call)
{
    const struct kva_deployment *deployment = call->deployment;
    if (deployment->gpu_bytes == 0 || call->engine->budget == NULL)
        return KVA_OK;
    enum kva_status status = kva_resolve_weights(call);
    if (status == KVA_OK)
        status = kva_allowances_fill(call);
    if (status != KVA_OK || deployment->kv_bytes > 0)
        return status;
    if (deployment->weight_bytes == KVA_UNKNOWN)
        return kva_fail(
            call->error, KVA_REFUSED, NULL, "--weight-bytes",
            "the size of the weights is not known; give --weight-bytes or the bytes for caches, --kv-bytes");
    return call->engine->budget(call);
}
