// `exact`: exactly what the architecture needs. Rings of min(window, context) rows, one cache for the layers that share
// it, fixed states.
#include "engine/budget.h"
#include "engine/cache_bytes.h"
#include "engine/policies.h"
#include "engine/resolve.h"

static enum kva_status allocate(struct kva_call *call, struct kva_engine_allocation *allocation)
{
    static const struct kva_policy POLICY = {.rows = kva_cache_rows, .shares = true};
    return kva_policy_allocate(call, &POLICY, allocation);
}

const struct kva_engine kva_engine_exact = {
    .id = "exact",
    .summary = "exactly the need: a window keeps its tokens, a shared cache is kept once",
    .resolve = kva_resolve_common,
    .budget = kva_budget_remaining,
    .allocate = allocate,
};
