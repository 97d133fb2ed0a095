#include "engine/budget.h"

#include "base/checked.h"
#include "base/error.h"

void kva_set_budget(struct kva_deployment *deployment, double may, double taken)
{
    deployment->kv_bytes = kva_max(kva_whole(may - taken), 1);
    deployment->kv_short = may - taken >= 1 ? 0 : kva_whole(taken - may);
}

enum kva_status kva_budget_taken(struct kva_call *call, uint64_t graphs, uint64_t *taken)
{
    const struct kva_deployment *deployment = call->deployment;
    *taken = deployment->weight_bytes;
    return kva_add(*taken, deployment->activation_bytes, taken) && kva_add(*taken, deployment->other_bytes, taken) &&
                   kva_add(*taken, graphs, taken)
               ? KVA_OK
               : kva_fail(call->error, KVA_BAD_INPUT, NULL, "--weight-bytes",
                          "weights and allowances are more than 2^64 bytes");
}

enum kva_status kva_budget_remaining(struct kva_call *call)
{
    struct kva_deployment *deployment = call->deployment;
    const double fraction = deployment->memory_fraction > 0 ? deployment->memory_fraction : 1;
    uint64_t taken;
    enum kva_status status = kva_budget_taken(call, deployment->graph_bytes, &taken);
    if (status == KVA_OK)
        kva_set_budget(deployment, (double)kva_whole((double)deployment->gpu_bytes * fraction), (double)taken);
    return status;
}

enum kva_status kva_allocation_total(struct kva_call *call, uint64_t of_stages,
                                     struct kva_engine_allocation *allocation)
{
    const struct kva_deployment *deployment = call->deployment;
    const uint64_t replicas = call->attention_groups > 0 ? 1 : deployment->dp;
    return kva_mul3(of_stages, deployment->tp, replicas, &allocation->total) ? KVA_OK : kva_too_large(call);
}

enum kva_status kva_allocation_largest(struct kva_call *call, struct kva_engine_allocation *allocation, uint64_t *bytes)
{
    const uint64_t pp = kva_max(call->deployment->pp, 1);
    uint64_t *stages = kva_arena_alloc(call->arena, pp, sizeof *stages);
    if (stages == NULL)
        return kva_fail_memory(call->error, pp * sizeof *stages);
    for (size_t i = 0; i < call->model->n_layers; i++) {
        const struct kva_engine_layer *layer = &allocation->layers[i];
        if (!kva_add(stages[layer->stage], layer->bytes, &stages[layer->stage]))
            return kva_too_large(call);
    }
    for (uint64_t s = 0; s < pp; s++)
        if (stages[s] > stages[allocation->stage])
            allocation->stage = (uint32_t)s;
    *bytes = stages[allocation->stage];
    return KVA_OK;
}

enum kva_status kva_budget_simple(struct kva_call *call, struct kva_engine_allocation *allocation)
{
    uint64_t bytes;
    enum kva_status status = kva_allocation_largest(call, allocation, &bytes);
    if (status != KVA_OK || call->deployment->kv_bytes == 0)
        return status;
    struct kva_capacity *capacity = &allocation->capacity;
    // what is held for a moment must fit as well
    const uint64_t held = kva_max(bytes, allocation->peak);
    const uint64_t budget = call->deployment->kv_bytes, each = held / call->deployment->sequences;
    *capacity = (struct kva_capacity){
        .known = true, .budget = budget, .reserved = bytes, .fits = held <= budget, .max_context = KVA_UNKNOWN};
    capacity->sequences_at_context = each > 0 ? budget / each : KVA_UNKNOWN;
    if (!kva_mul(kva_min(capacity->sequences_at_context, UINT64_C(1) << 40), call->deployment->context,
                 &capacity->tokens))
        capacity->tokens = KVA_UNKNOWN;
    return KVA_OK;
}
