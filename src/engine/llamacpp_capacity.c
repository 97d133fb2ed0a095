// What fits: the free memory less weights and allowances, and the contexts that --fit would choose (common/fit.cpp).
#include "base/error.h"
#include "base/text.h"
#include "engine/budget.h"
#include "engine/llamacpp.h"

static const uint64_t UNIT = 256, MOST_CONTEXT = 1 << 30, MOST_SEQUENCES = 1 << 16;

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

// ---------------------------------------------------------------- what would fit

// A cache of n_ctx cells for n_seq_max sequences, in scratch memory.
struct probe {
    struct kva_call *call;
    struct kva_lcpp_memory memory;
};

static struct probe probe_of(struct kva_call *call, const struct kva_lcpp_memory *memory)
{
    struct probe probe = {call, *memory};
    probe.memory.sums_only = true;
    return probe;
}

static bool fits(struct probe *probe, uint64_t n_ctx, uint64_t n_seq_max)
{
    struct kva_call *call = probe->call;
    struct kva_error *error = call->error;
    call->error = NULL;  // what does not fit is no error
    const bool made = kva_lcpp_memory_fill(call, &probe->memory, n_ctx, n_seq_max) == KVA_OK;
    call->error = error;
    return made && most_of(&probe->memory) <= call->deployment->kv_bytes;
}

// One cache for all sequences: a single one may have all of it. Else each has a part.
static bool is_unified(const struct kva_call *call)
{
    return call->deployment->kv_unified == KVA_ON;
}

static bool context_fits(struct probe *probe, uint64_t units)
{
    const uint64_t n_seq_max = probe->call->deployment->max_sequences;
    uint64_t n_ctx;
    return kva_mul3(units, UNIT, is_unified(probe->call) ? 1 : n_seq_max, &n_ctx) && fits(probe, n_ctx, n_seq_max);
}

static bool sequences_fit(struct probe *probe, uint64_t sequences)
{
    const struct kva_deployment *deployment = probe->call->deployment;
    const bool spare = deployment->max_sequences > deployment->sequences;  // slots that nobody asked for
    const uint64_t slots = spare && is_unified(probe->call) ? kva_max(sequences, deployment->max_sequences) : sequences;
    uint64_t n_ctx;
    return kva_mul(deployment->context, sequences, &n_ctx) && fits(probe, n_ctx, slots);
}

// The largest number up to `most` that fits, where all smaller ones do; `least` is known to.
static uint64_t largest(struct probe *probe, bool (*fit)(struct probe *, uint64_t), uint64_t least, uint64_t most)
{
    uint64_t low = least, high = most + 1;
    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        *(fit(probe, middle) ? &low : &high) = middle;
    }
    return low;
}

static void find_capacity(struct kva_call *call, const struct kva_lcpp_memory *memory, struct kva_capacity *capacity)
{
    const struct kva_lcpp_behaviours *engine = call->behaviours;
    const struct kva_deployment *deployment = call->deployment;
    struct probe probe = probe_of(call, memory);
    capacity->sequences_at_context =
        largest(&probe, sequences_fit, 0, engine->most_sequences > 0 ? engine->most_sequences : MOST_SEQUENCES);
    // a batch that the asked context made shorter says nothing of a longer one
    const bool clamped = memory->model.windowed_cache && deployment->ubatch == deployment->batch_tokens &&
                         deployment->kv_tokens <= kva_max(deployment->ubatch, UNIT);
    capacity->max_context = clamped ? KVA_UNKNOWN : UNIT * largest(&probe, context_fits, 0, MOST_CONTEXT / UNIT);
}

// What does not fit is refused, but --fit moves layers to the CPU until it does.
enum kva_status kva_lcpp_capacity(struct kva_call *call, const struct kva_lcpp_memory *memory,
                                  struct kva_capacity *capacity)
{
    const struct kva_lcpp_behaviours *engine = call->behaviours;
    const struct kva_deployment *deployment = call->deployment;
    if (deployment->kv_bytes == 0)
        return KVA_OK;
    *capacity = (struct kva_capacity){
        .known = true, .budget = deployment->kv_bytes, .reserved = most_of(memory), .tokens = memory->cells.context};
    capacity->fits = capacity->reserved <= capacity->budget;
    find_capacity(call, memory, capacity);
    if (!capacity->fits && !engine->fit)
        capacity->refusal = "failed to allocate buffer for kv cache";
    return capacity->fits || !engine->fit
               ? KVA_OK
               : kva_assume(call, "it does not fit: --fit then moves layers to the CPU, which is not planned");
}

// ---------------------------------------------------------------- --fit

// common/fit.cpp: a context that nobody asked for shrinks until it fits, but not below fit_context a sequence.
enum kva_status kva_lcpp_fit(struct kva_call *call)
{
    const struct kva_lcpp_behaviours *engine = call->behaviours;
    struct kva_deployment *deployment = call->deployment;
    char before[KVA_HUMAN], after[KVA_HUMAN];
    if (!deployment->auto_context || !engine->fit || deployment->kv_bytes == 0)
        return KVA_OK;
    const uint64_t parts = is_unified(call) ? 1 : deployment->max_sequences, asked = deployment->kv_tokens;
    struct probe probe = probe_of(call, call->own);
    const uint64_t fitting = UNIT * largest(&probe, context_fits, 0, asked / parts / UNIT);
    const uint64_t context = kva_max(fitting, engine->fit_context);
    if (context >= asked / parts)
        return KVA_OK;
    deployment->kv_tokens = context * parts;
    deployment->context = kva_min(deployment->context, context);
    return kva_assume(call,
                      "n_ctx %s instead of %s: --fit shrinks it to what fits; its own estimate is a line between two "
                      "contexts and may be a little less",
                      kva_human_count(deployment->kv_tokens, after), kva_human_count(asked, before));
}

// Before --fit nothing is left free.
enum kva_status kva_lcpp_budget(struct kva_call *call)
{
    const struct kva_lcpp_behaviours *engine = call->behaviours;
    struct kva_deployment *deployment = call->deployment;
    const uint64_t margin = engine->fit ? engine->fit_margin << 20 : 0;
    enum kva_status status = kva_budget_remaining(call);
    if (status == KVA_OK && deployment->activation_bytes == 0)
        status = kva_assume(call, "no room for compute buffers: none was given (--activation-bytes)");
    if (status == KVA_OK && margin > 0) {
        kva_set_budget(deployment, (double)deployment->kv_bytes, (double)margin + (double)deployment->kv_short);
        status = kva_assume(call, "%llu MiB left free on each GPU: the margin of --fit",
                            (unsigned long long)engine->fit_margin);
    }
    return status == KVA_OK ? kva_lcpp_fit(call) : status;
}
