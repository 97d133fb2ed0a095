// A deployment's blanks as generate() and QuantizedCache fill them.
#include <string.h>

#include "base/error.h"
#include "engine/growing.h"
#include "engine/resolve.h"
#include "engine/transformers.h"

static bool is(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

static enum kva_status resolve_name(struct kva_call *call)
{
    static const char *const NAMES[] = {"dynamic", "static", "sliding_window", "hybrid", "hybrid_chunked", "quantized"};
    struct kva_deployment *deployment = call->deployment;
    const char *own = kva_growing_rule(call, "default_cache");
    const bool is_dynamic = deployment->cache_implementation != NULL && is(deployment->cache_implementation, "dynamic");
    if (deployment->static_cache == KVA_ON && is_dynamic)
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, "static_cache",
                        "a static cache and --cache-implementation dynamic contradict each other");
    if (deployment->static_cache == KVA_OFF && deployment->cache_implementation != NULL &&
        is(deployment->cache_implementation, "static"))
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, "static_cache",
                        "no static cache and --cache-implementation static contradict each other");
    if (deployment->cache_implementation == NULL && deployment->static_cache == KVA_ON)
        deployment->cache_implementation = "static";
    if (deployment->cache_implementation == NULL) {
        deployment->cache_implementation = own != NULL ? own : "dynamic";
        return kva_assume(
            call, "cache_implementation %s: what generate() takes unless a generation_config.json says otherwise",
            deployment->cache_implementation);
    }
    for (size_t n = 0; n < sizeof NAMES / sizeof *NAMES; n++)
        if (is(deployment->cache_implementation, NAMES[n]))
            return KVA_OK;
    return kva_fail(call->error, KVA_BAD_INPUT, NULL, "cache_implementation",
                    "'%s' is not dynamic, static, sliding_window, hybrid, hybrid_chunked or quantized",
                    deployment->cache_implementation);
}

static enum kva_status fill(struct kva_call *call, const char *what, uint64_t *field, uint64_t value)
{
    if (*field > 0)
        return KVA_OK;
    *field = value;
    return kva_assume(call, "%s %llu: QuantizedCache's default", what, (unsigned long long)value);
}

static enum kva_status resolve_quantization(struct kva_call *call)
{
    const struct kva_transformers *behaviours = call->behaviours;
    struct kva_deployment *deployment = call->deployment;
    enum kva_status status = KVA_OK;
    if (deployment->cache_backend == NULL) {
        deployment->cache_backend = "quanto";
        status = kva_assume(call, "quantized by quanto: the default of Transformers 4");
    }
    if (status == KVA_OK)
        status = fill(call, "nbits", &deployment->kv_bits, behaviours->quantized_bits);
    if (status == KVA_OK)
        status = fill(call, "q_group_size", &deployment->kv_group_size, behaviours->quantized_group);
    if (status == KVA_OK)
        status = fill(call, "residual_length", &deployment->residual_length, behaviours->quantized_residual);
    if (status != KVA_OK)
        return status;
    const bool quanto = is(deployment->cache_backend, "quanto"), hqq = is(deployment->cache_backend, "hqq");
    if (!quanto && !hqq)
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, "cache_backend", "'%s' is not quanto or hqq",
                        deployment->cache_backend);
    const uint64_t bits = deployment->kv_bits;
    if (bits != 2 && bits != 4 && (quanto || bits != 8))
        return kva_fail(call->error, KVA_REFUSED, NULL, "kv_bits", "%llu bits: kvatlas knows 2 and 4%s",
                        (unsigned long long)bits, hqq ? ", and 8 of hqq" : ", all that quanto takes");
    if (deployment->kv_group_size % (8 / bits) != 0)
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, "kv_group_size",
                        "%llu elements of %llu bits are no whole bytes", (unsigned long long)deployment->kv_group_size,
                        (unsigned long long)bits);
    return KVA_OK;
}

enum kva_status kva_transformers_resolve(struct kva_call *call)
{
    const struct kva_transformers *behaviours = call->behaviours;
    enum kva_transformers_cache kind = KVA_TRANSFORMERS_DYNAMIC;
    enum kva_status status = kva_growing_native(call);
    if (status == KVA_OK)
        status = kva_resolve_common(call);
    if (status == KVA_OK)
        status = kva_growing_model_dtype(call, "--cache-implementation quantized makes it smaller");
    if (status == KVA_OK)
        status = kva_growing_one_rank(call);
    if (status == KVA_OK)
        status = kva_growing_prompt(call);
    if (status == KVA_OK)
        status = resolve_name(call);
    if (status == KVA_OK)
        status = kva_transformers_class(call, &kind);
    if (status == KVA_OK && kind == KVA_TRANSFORMERS_DYNAMIC && behaviours->first_update == FIRST_UPDATE_KEPT &&
        call->deployment->prompt == call->deployment->context && kva_growing_rule(call, "fused") == NULL)
        status = kva_assume(call, "right after the prompt: keys and values are not cut from a longer projection");
    return status == KVA_OK && kind == KVA_TRANSFORMERS_QUANTIZED ? resolve_quantization(call) : status;
}
