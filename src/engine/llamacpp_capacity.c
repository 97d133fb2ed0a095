// What fits: the free memory less weights and allowances, and the contexts that --fit would choose (common/fit.cpp).
#include "base/error.h"
#include "base/text.h"
#include "engine/budget.h"
#include "engine/llamacpp.h"

static const uint64_t UNIT = 256, MOST_CONTEXT = 1 << 30, MOST_SEQUENCES = 1 << 16;

// Before --fit nothing is left free.
enum kva_status kva_lcpp_budget(struct kva_call *call)
{
    const struct kva_lcpp_behaviours *engine = call->behaviours;
    struct kva_deployment *deployment = call->deployment;
    const uint64_t margin = engine->fit ? engine->fit_margin << 20 : 0;
    enum kva_status status = kva_budget_remaining(call);
    if (status != KVA_OK || margin == 0)
        return status;
    deployment->kv_bytes = deployment->kv_bytes > margin ? deployment->kv_bytes - margin : 1;
    return kva_assume(call, "%llu MiB left free on each GPU: the margin of --fit",
                      (unsigned long long)engine->fit_margin);
}

// Bytes of the device that holds most.
static uint64_t most_of(const struct kva_lcpp_memory *memory)
{
    uint64_t most = 0;
    for (size_t d = 0; d < memory->n_devices; d++) {
        uint64_t bytes = 0;
        for (size_t c = 0; c < memory->n; c++)
            if (!kva_add(bytes, memory->caches[c].given[d], &bytes))
                return UINT64_MAX;
        most = kva_max(most, bytes);
    }
    return most;
}

// Does a context of so many tokens for each of so many sequences fit?
struct probe {
    struct kva_call *call;
    struct kva_lcpp_memory *memory;
    uint64_t tokens, sequences;
};

static bool fits(const struct probe *probe)
{
    struct kva_error *error = probe->call->error;
    const struct kva_deployment *deployment = probe->call->deployment;
    uint64_t n_ctx;
    if (!kva_mul(probe->tokens, probe->sequences, &n_ctx))
        return false;
    probe->call->error = NULL;  // what does not fit is no error
    const bool made = kva_lcpp_memory_fill(probe->call, probe->memory, n_ctx, probe->sequences) == KVA_OK;
    probe->call->error = error;
    return made && most_of(probe->memory) <= deployment->kv_bytes;
}

// The largest multiple of `unit` up to unit * most for which `*number` of the probe fits; 0: none.
static uint64_t largest(struct probe *probe, uint64_t *number, uint64_t unit, uint64_t most)
{
    uint64_t low = 0, high = most + 1;  // fits, does not fit
    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        *number = middle * unit;
        if (fits(probe))
            low = middle;
        else
            high = middle;
    }
    return low * unit;
}

static enum kva_status find_capacity(struct kva_call *call, const struct kva_lcpp_memory *memory,
                                     struct kva_capacity *capacity)
{
    const struct kva_lcpp_behaviours *engine = call->behaviours;
    const struct kva_deployment *deployment = call->deployment;
    struct kva_lcpp_memory scratch = *memory;
    scratch.sums_only = true;
    struct probe probe = {call, &scratch, deployment->context, 1};
    capacity->sequences_at_context =
        largest(&probe, &probe.sequences, 1, engine->most_sequences > 0 ? engine->most_sequences : MOST_SEQUENCES);
    // a batch that the asked context made shorter says nothing of a longer one
    const bool clamped = memory->model.windowed_cache && deployment->ubatch == deployment->batch_tokens &&
                         deployment->kv_tokens <= kva_max(deployment->ubatch, UNIT);
    probe.sequences = 1;
    capacity->max_context = clamped ? KVA_UNKNOWN : largest(&probe, &probe.tokens, UNIT, MOST_CONTEXT / UNIT);
    return KVA_OK;
}

enum kva_status kva_lcpp_capacity(struct kva_call *call, const struct kva_lcpp_memory *memory,
                                  struct kva_capacity *capacity)
{
    const struct kva_deployment *deployment = call->deployment;
    if (deployment->kv_bytes == 0)
        return KVA_OK;
    *capacity = (struct kva_capacity){
        .known = true, .budget = deployment->kv_bytes, .reserved = most_of(memory), .tokens = memory->cells.context};
    capacity->fits = capacity->reserved <= capacity->budget;
    if (!capacity->fits)
        capacity->refusal = "failed to allocate buffer for kv cache";
    return find_capacity(call, memory, capacity);
}

// common/fit.cpp: a context that nobody asked for shrinks until it fits, but not below fit_context a sequence.
enum kva_status kva_lcpp_fit(struct kva_call *call, struct kva_lcpp_memory *memory)
{
    const struct kva_lcpp_behaviours *engine = call->behaviours;
    struct kva_deployment *deployment = call->deployment;
    char before[KVA_HUMAN], after[KVA_HUMAN];
    if (!deployment->auto_context || !engine->fit || deployment->kv_bytes == 0 ||
        most_of(memory) <= deployment->kv_bytes)
        return KVA_OK;
    const bool unified = deployment->kv_unified == KVA_ON;
    const uint64_t parts = unified ? 1 : deployment->max_sequences, asked = deployment->kv_tokens;
    struct kva_lcpp_memory scratch = *memory;
    scratch.sums_only = true;
    uint64_t low = engine->fit_context, high = asked / parts;
    while (high > low + UNIT) {
        const uint64_t middle = (low + (high - low) / 2) / UNIT * UNIT;
        struct kva_error *error = call->error;
        call->error = NULL;
        const bool made = kva_lcpp_memory_fill(call, &scratch, middle * parts, deployment->max_sequences) == KVA_OK;
        call->error = error;
        if (middle <= low)
            break;
        if (made && most_of(&scratch) <= deployment->kv_bytes)
            low = middle;
        else
            high = middle;
    }
    if (low * parts >= asked)
        return KVA_OK;
    deployment->kv_tokens = low * parts;
    deployment->context = kva_min(deployment->context, low);
    enum kva_status status = kva_lcpp_memory_fill(call, memory, deployment->kv_tokens, deployment->max_sequences);
    return status == KVA_OK
               ? kva_assume(call,
                            "n_ctx %s instead of %s: what --fit finds room for, by halving rather than by its "
                            "interpolation",
                            kva_human_count(deployment->kv_tokens, after), kva_human_count(asked, before))
               : status;
}
