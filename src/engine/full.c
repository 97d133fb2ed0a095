// `full`: windows and sharing are ignored, so that each attention layer keeps all of the context; states are as they
// are.
#include "engine/budget.h"
#include "engine/cache_bytes.h"
#include "engine/policies.h"
#include "engine/resolve.h"

static enum kva_status allocate(struct kva_call *call, struct kva_engine_allocation *allocation)
{
    static const struct kva_policy POLICY = {.rows = kva_cache_full_rows, .shares = false};
    return kva_policy_allocate(call, &POLICY, allocation);
}

const struct kva_engine kva_engine_full = {
    .id = "full",
    .summary = "every attention layer keeps all tokens, whatever windows and sharing say",
    .resolve = kva_resolve_common,
    .budget = kva_budget_remaining,
    .allocate = allocate,
};
