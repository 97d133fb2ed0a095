// Layers that hold the same caches, for whoever reads a plan: 9 mamba layers, 8 windows, one full layer.
#ifndef KVA_PLAN_GROUPS_H
#define KVA_PLAN_GROUPS_H

#include "base/arena.h"
#include "kvatlas.h"

struct kva_layer_group {
    const struct kva_layer *first;
    uint32_t *layers;  // in order
    size_t n_layers;
    uint64_t need, allocated, sharing_saved;  // of all of them, all sequences; 0 without a plan
};

// Groups in the order of their first layer, in `arena`. plan may be NULL. Errors: KVA_MACHINE.
enum kva_status kva_layer_groups(const struct kva_model *model, const struct kva_plan *plan, struct kva_arena *arena,
                                 struct kva_layer_group **groups, size_t *n_groups, struct kva_error *error);

#endif
