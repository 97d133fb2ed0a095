// What the built-in policies have in common: a cache is one block of rows for each layer and sequence, a state is as
// large as it must be, and nothing is shared between sequences.
#ifndef KVA_ENGINE_POLICIES_H
#define KVA_ENGINE_POLICIES_H

#include "engine/engine.h"

struct kva_policy {
    uint64_t (*rows)(const struct kva_cache *cache, uint64_t context);  // of one sequence
    bool shares;  // a layer that reads another layer's cache owns none
};

// Blanks: the model's context limit, one sequence, the model's element type.
enum kva_status kva_policy_resolve(const struct kva_model *model, struct kva_deployment *deployment,
                                   struct kva_assumptions *assumptions, struct kva_error *error);

enum kva_status kva_policy_allocate(const struct kva_policy *policy, const struct kva_model *model,
                                    const struct kva_deployment *deployment, struct kva_arena *arena,
                                    struct kva_engine_allocation *allocation, struct kva_error *error);

#endif
