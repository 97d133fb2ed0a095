// `exact`: exactly what the architecture needs. Rings of min(window, context) rows, one cache for the layers that share
// it, fixed states.
#include "engine/cache_bytes.h"
#include "engine/policies.h"

static enum kva_status allocate(const struct kva_model *model, const struct kva_deployment *deployment,
                                struct kva_arena *arena, struct kva_engine_allocation *allocation,
                                struct kva_error *error)
{
    static const struct kva_policy POLICY = {.rows = kva_cache_rows, .shares = true};
    return kva_policy_allocate(&POLICY, model, deployment, arena, allocation, error);
}

const struct kva_engine kva_engine_exact = {
    .id = "exact",
    .summary = "exactly the need: rings for windows, one cache for sharing layers, fixed states",
    .resolve = kva_policy_resolve,
    .allocate = allocate,
};
