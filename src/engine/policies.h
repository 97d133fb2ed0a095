// What the built-in policies have in common: a cache is one block of rows for each layer and sequence, a state is as
// large as it must be, and nothing is shared between sequences.
#ifndef KVA_ENGINE_POLICIES_H
#define KVA_ENGINE_POLICIES_H

#include "engine/engine.h"

struct kva_policy {
    uint64_t (*rows)(const struct kva_cache *cache, uint64_t context);  // of one sequence
    bool shares;  // a layer that reads another layer's cache owns none
};

enum kva_status kva_policy_allocate(struct kva_call *call, const struct kva_policy *policy,
                                    struct kva_engine_allocation *allocation);

#endif
