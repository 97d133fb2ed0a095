// Budgets that engines without a rule of their own share: what the weights and the allowances leave of a GPU.
#ifndef KVA_ENGINE_BUDGET_H
#define KVA_ENGINE_BUDGET_H

#include "engine/engine.h"

// kv_bytes = may - taken; where more is taken, kv_short says by how much and kv_bytes is 1, in which nothing fits.
void kva_set_budget(struct kva_deployment *deployment, double may, double taken);

// Weights, activations, what else is there, and `graphs` bytes of CUDA graphs. Errors: KVA_BAD_INPUT (it wraps).
enum kva_status kva_budget_taken(struct kva_call *call, uint64_t graphs, uint64_t *taken);

// kv_bytes = gpu_bytes x memory_fraction (1 when not said) - weights - activations - graphs - other.
enum kva_status kva_budget_remaining(struct kva_call *call);

// The capacity of an engine that allocates each sequence its caches and no more: reserved is what it allocates, it fits
// when that is within the budget; nothing is known without one. Sets allocation->stage. Needs the layers of
// *allocation.
enum kva_status kva_budget_simple(struct kva_call *call, struct kva_engine_allocation *allocation);

// Pools of an engine that has none: layers of one kind and size make one. Needs the layers and the stage of
// *allocation.
enum kva_status kva_layer_pools(struct kva_call *call, struct kva_engine_allocation *allocation);

// allocation->total of all ranks, from the bytes of one rank of each stage: times tp and dp, where ranks of
// data-parallel attention are among the tp ranks.
enum kva_status kva_allocation_total(struct kva_call *call, uint64_t of_stages,
                                     struct kva_engine_allocation *allocation);

// Bytes of one rank of the stage that holds most; sets allocation->stage to it.
enum kva_status kva_allocation_largest(struct kva_call *call, struct kva_engine_allocation *allocation,
                                       uint64_t *bytes);

#endif
