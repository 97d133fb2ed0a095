// `full`: every attention layer its own cache as long as the context. No windows, no sharing; states as they are.
#include "engine/cache_bytes.h"
#include "engine/policies.h"

static enum kva_status allocate(const struct kva_model *model, const struct kva_deployment *deployment,
                                struct kva_arena *arena, struct kva_engine_allocation *allocation,
                                struct kva_error *error)
{
    static const struct kva_policy POLICY = {.rows = kva_cache_full_rows, .shares = false};
    return kva_policy_allocate(&POLICY, model, deployment, arena, allocation, error);
}

const struct kva_engine kva_engine_full = {
    .id = "full",
    .summary = "every attention layer its own full-length cache: no windows, no sharing",
    .resolve = kva_policy_resolve,
    .allocate = allocate,
};
