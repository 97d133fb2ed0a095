// How many blocks a request needs: max_memory_usage_bytes of each spec over its page (v1/kv_cache_interface.py).
#include <string.h>

#include "base/checked.h"
#include "engine/parallel.h"
#include "engine/vllm.h"

enum vllm_mode vllm_mode(const struct kva_call *call)
{
    const char *mode = call->deployment->mamba_cache_mode;
    if (mode == NULL || call->deployment->prefix_caching != KVA_ON || strcmp(mode, "none") == 0)
        return VLLM_MODE_NONE;
    return strcmp(mode, "all") == 0 ? VLLM_MODE_ALL : VLLM_MODE_ALIGN;
}

// Does the model run on the second model runner? (config/vllm.py use_v2_model_runner)
static bool second_runner(const struct kva_call *call)
{
    const struct kva_model *model = call->model;
    const struct kva_value *experts = kva_model_value(model, "experts");
    const bool listed = kva_rule(call, "runner", model->architecture) != NULL;
    switch (vllm_behaves(call)->runner) {
    case VLLM_RUNNER_DENSE:
        return !vllm_has(call, KVA_CACHE_STATE) && (listed || experts == NULL || experts->count == 0);
    case VLLM_RUNNER_LISTED:
        return listed || (!vllm_has(call, KVA_CACHE_STATE) && (experts == NULL || experts->count == 0));
    default:
        return vllm_behaves(call)->runner == VLLM_RUNNER_V2;
    }
}

// Batches in flight: pp + 1 or 2 with asynchronous scheduling, else pp. (config/vllm.py max_concurrent_batches)
static uint64_t concurrent_batches(const struct kva_call *call)
{
    const uint64_t pp = call->deployment->pp;
    if (call->deployment->async_scheduling != KVA_ON)
        return pp;
    if (second_runner(call))
        return pp + 1;
    return pp <= 1 ? 2 : pp;
}

static uint64_t in_flight(const struct kva_call *call)
{
    uint64_t tokens = call->deployment->batch_tokens;
    if (vllm_behaves(call)->in_flight == VLLM_IN_FLIGHT_CONCURRENT &&
        !kva_mul(tokens, concurrent_batches(call), &tokens))
        return UINT64_MAX;
    return tokens;
}

// none: 1 state, and one for each speculative token; align: 2; all: one for each block.
static void count_states(const struct kva_call *call, struct vllm_request *request)
{
    const struct vllm_behaviours *behaves = vllm_behaves(call);
    const uint64_t drafts = call->deployment->spec_tokens;
    const bool mamba2 = vllm_states_are(call, "mamba2");
    const bool delta = vllm_states_are(call, "delta") && vllm_capability(call) == 9;
    request->states = 1;
    if (behaves->state_need == VLLM_STATE_PAGE)
        return;
    if (behaves->state_need == VLLM_STATE_LENGTH || vllm_mode(call) == VLLM_MODE_ALL) {
        request->states = vllm_mode(call) == VLLM_MODE_ALL ? 0 : 1;
        request->more_states = behaves->mode_all_drafts ? drafts : 0;
        return;
    }
    request->more_states = drafts;
    if (vllm_mode(call) != VLLM_MODE_ALIGN)
        return;
    request->states = 2;
    request->more_states += (mamba2 ? behaves->mamba2_checkpoint : 0) + (delta && behaves->delta_checkpoint > 0);
}

struct vllm_request vllm_request_of(const struct kva_call *call)
{
    const struct kva_deployment *deployment = call->deployment;
    struct vllm_request request = {.in_flight = in_flight(call),
                                   .shards = deployment->dcp * (vllm_behaves(call)->pcp ? deployment->pcp : 1),
                                   .encoder = deployment->encoder_tokens};
    count_states(call, &request);
    return request;
}

static uint64_t saturating_add(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return kva_add(a, b, &sum) ? sum : UINT64_MAX;
}

uint64_t vllm_blocks(const struct vllm_request *request, const struct vllm_spec *spec, uint64_t length)
{
    switch (spec->kind) {
    case VLLM_SLIDING:  // cdiv(min(W - 1 + T, L), B) + 1: a window may begin inside a block
        return kva_ceil_div(kva_min(saturating_add(spec->window - 1, request->in_flight), length), spec->block) + 1;
    case VLLM_CHUNKED:  // cdiv(min(C + T, L), B)
        return kva_ceil_div(kva_min(saturating_add(spec->window, request->in_flight), length), spec->block);
    case VLLM_STATE:
        return (request->states > 0 ? request->states : kva_ceil_div(length, spec->block)) + request->more_states;
    case VLLM_CROSS:
        return kva_ceil_div(request->encoder, spec->block);
    default:  // cdiv(cdiv(L, ranks), B)
        return kva_ceil_div(kva_ceil_div(length, request->shards), spec->block);
    }
}

uint64_t vllm_blocks_of_all(const struct vllm_request *request, const struct vllm_layout *layout, uint64_t length)
{
    uint64_t blocks = 0;
    for (size_t s = 0; s < layout->n_specs; s++) {
        const struct vllm_spec *spec = &layout->specs[s];
        const uint64_t of_spec = vllm_blocks(request, spec, length);
        if (layout->mixed)
            blocks = kva_max(blocks, of_spec);
        else if (!kva_add_product(&blocks, of_spec, spec->n_groups))
            return UINT64_MAX;
    }
    return blocks;
}
