#include "engine/growing.h"

#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/text.h"
#include "engine/cache_bytes.h"

// A config that wraps a text model names itself "gemma3" and the text model "gemma3_text"; a release may know either.
const char *kva_growing_rule(const struct kva_call *call, const char *name)
{
    static const char SUFFIX[] = "_text";
    const size_t suffix = sizeof SUFFIX - 1;
    const char *type = call->model->model_type;
    const char *value = kva_rule(call, name, call->model->architecture);
    if (value == NULL)
        value = kva_rule(call, name, type);
    char other[128];
    const size_t length = strlen(type);
    if (value != NULL || length + suffix >= sizeof other)
        return value;
    if (length > suffix && strcmp(type + length - suffix, SUFFIX) == 0)
        snprintf(other, sizeof other, "%.*s", (int)(length - suffix), type);
    else
        snprintf(other, sizeof other, "%s%s", type, SUFFIX);
    return kva_rule(call, name, other);
}

enum kva_status kva_growing_native(struct kva_call *call)
{
    if (kva_growing_rule(call, "native") != NULL)
        return KVA_OK;
    return kva_fail(call->error, KVA_REFUSED, NULL, "engine", "%s %s has no model of its own for model_type '%s'",
                    call->version->file->name, call->version->version, call->model->model_type);
}

enum kva_status kva_growing_model_dtype(struct kva_call *call, const char *instead)
{
    const enum kva_dtype dtype = call->deployment->kv_dtype;
    if (dtype == KVA_F32 || dtype == KVA_F16 || dtype == KVA_BF16)
        return KVA_OK;
    return kva_fail(call->error, KVA_BAD_INPUT, NULL, "kv_type",
                    "%s keeps keys and values in the type that the model computes in (f32, f16, bf16), not in '%s'; %s",
                    call->version->file->name, call->deployment->kv_type, instead);
}

enum kva_status kva_growing_one_rank(struct kva_call *call)
{
    const struct kva_deployment *deployment = call->deployment;
    const uint64_t ranks[] = {deployment->tp, deployment->pp, deployment->dcp, deployment->pcp};
    static const char *const NAMES[] = {"tp", "pp", "dcp", "pcp"};
    for (size_t r = 0; r < sizeof ranks / sizeof *ranks; r++)
        if (ranks[r] > 1)
            return kva_fail(call->error, KVA_REFUSED, NULL, NAMES[r],
                            "how %s divides caches among %llu ranks is not known to kvatlas", call->version->file->name,
                            (unsigned long long)ranks[r]);
    return KVA_OK;
}

enum kva_status kva_growing_prompt(struct kva_call *call)
{
    struct kva_deployment *deployment = call->deployment;
    char prompt[KVA_HUMAN], context[KVA_HUMAN];
    kva_human_count(deployment->context, context);
    if (deployment->prompt > deployment->context)
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, "prompt",
                        "a prompt of %s tokens is longer than the context of %s",
                        kva_human_count(deployment->prompt, prompt), context);
    if (deployment->prompt > 0)
        return KVA_OK;
    deployment->prompt = deployment->context > 1 ? deployment->context - 1 : deployment->context;
    return kva_assume(call, "a prompt of %s tokens, the rest of the context decoded: none was given",
                      kva_human_count(deployment->prompt, prompt));
}

enum kva_status kva_growing_latent(struct kva_call *call, struct kva_cache *cache)
{
    const struct kva_model *model = call->model;
    const char *rule = kva_growing_rule(call, "latents");
    if (rule == NULL)
        return kva_fail(call->error, KVA_REFUSED, NULL, NULL, "how %s %s keeps the latent rows of %s is not known",
                        call->version->file->name, call->version->version, model->model_type);
    if (strcmp(rule, "kept") == 0)
        return KVA_OK;
    if (kva_model_value(model, "v_head_dim") == NULL || model->naive_kv_heads == 0 || model->naive_k_dim == 0 ||
        model->naive_v_dim == 0 || model->naive_kv_heads > UINT32_MAX || model->naive_k_dim > UINT32_MAX ||
        model->naive_v_dim > UINT32_MAX)
        return kva_fail(call->error, KVA_REFUSED, NULL, NULL, "the config does not tell the heads behind a latent row");
    cache->kind = KVA_CACHE_FULL;
    cache->kv_heads = (uint32_t)model->naive_kv_heads;
    cache->k_dim = (uint32_t)model->naive_k_dim;
    cache->v_dim = (uint32_t)model->naive_v_dim;
    return KVA_OK;
}

// Columns of a convolution's state as the architecture counts them: its width less one.
static uint64_t conv_columns(const struct kva_model *model)
{
    static const char *const NAMES[] = {"d_conv", "conv_kernel", "conv_window", "kernel"};
    for (size_t n = 0; n < sizeof NAMES / sizeof *NAMES; n++) {
        const struct kva_value *width = kva_model_value(model, NAMES[n]);
        if (width != NULL && width->type == KVA_COUNT)
            return width->count > 0 ? width->count - 1 : 0;
    }
    return 0;
}

// The type of recurrent states; false: no rule tells.
static bool recurrent_dtype(const struct kva_call *call, enum kva_dtype *dtype)
{
    const char *rule = kva_growing_rule(call, "recurrent");
    *dtype = rule != NULL ? kva_dtype_parse(rule) : KVA_DTYPE_NONE;
    if (*dtype == KVA_DTYPE_NONE)
        *dtype = call->deployment->model_dtype;
    return rule != NULL;
}

static bool is_conv(const struct kva_state_part *part)
{
    return strstr(part->name, "conv") != NULL;
}

enum kva_status kva_growing_unknown(struct kva_call *call, const char *what)
{
    return kva_fail(call->error, KVA_REFUSED, NULL, NULL, "how %s %s keeps %s of %s is not known",
                    call->version->file->name, call->version->version, what, call->model->model_type);
}

enum kva_status kva_growing_state(struct kva_call *call, const struct kva_cache *cache, uint64_t columns,
                                  uint64_t *bytes)
{
    enum kva_dtype recurrent;
    if (!recurrent_dtype(call, &recurrent))
        return kva_growing_unknown(call, "the states");
    for (size_t p = 0; p < cache->n_state; p++) {
        const struct kva_state_part *part = &cache->state[p];
        const bool conv = is_conv(part);
        const uint64_t held = conv && columns > 0 ? conv_columns(call->model) : 1;
        if (held == 0 || part->elements % held != 0)
            return kva_fail(call->error, KVA_REFUSED, NULL, NULL, "the width of the %s state is not known", part->name);
        const uint64_t each = part->elements / held;
        const uint64_t element = kva_dtype_bytes(conv ? call->deployment->model_dtype : recurrent);
        uint64_t elements = part->elements;
        if ((conv && !kva_add_product(&elements, each, columns)) || !kva_add_product(bytes, elements, element))
            return kva_fail(call->error, KVA_BAD_INPUT, NULL, NULL, "the %s state is more than 2^64 bytes", part->name);
    }
    return KVA_OK;
}

// ---------------------------------------------------------------- why

static bool state_is_wider(const struct kva_call *call)
{
    const struct kva_model *model = call->model;
    enum kva_dtype dtype;
    if (!recurrent_dtype(call, &dtype))
        return false;
    for (size_t i = 0; i < model->n_layers; i++)
        for (size_t c = 0; c < model->layers[i].n_caches; c++)
            for (size_t p = 0; p < model->layers[i].caches[c].n_state; p++) {
                const struct kva_state_part *part = &model->layers[i].caches[c].state[p];
                const enum kva_dtype needed =
                    part->dtype != KVA_DTYPE_NONE ? part->dtype : call->deployment->model_dtype;
                if (!is_conv(part) && kva_dtype_bytes(dtype) > kva_dtype_bytes(needed))
                    return true;
            }
    return false;
}

const char *kva_growing_overpay(const struct kva_call *call, bool ignores_windows)
{
    const char *latents = kva_growing_rule(call, "latents");
    if (kva_model_has_cache(call->model, KVA_CACHE_LATENT) && latents != NULL && strcmp(latents, "kept") != 0)
        return "latent rows are kept as the keys and values of each head";
    if (ignores_windows)
        return "windowed layers keep every token: this release has no windowed cache for this model";
    return state_is_wider(call) ? "recurrent states are kept in a wider type than the config's" : NULL;
}
