// TensorRT-LLM's settings: what data/engines/tensorrt-llm.yaml says of a version, a deployment's blanks, the budget.
#include "engine/trtllm.h"

#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/text.h"
#include "engine/budget.h"
#include "engine/cache_bytes.h"
#include "engine/resolve.h"

#define BEHAVIOURS_OF struct trtllm
#include "engine/behaviour_rows.h"

static const struct kva_behaviour BEHAVIOURS[] = {
    COUNT(tokens_per_block),
    COUNT(max_batch),
    COUNT(max_tokens_of_a_pass),
    REAL(memory_fraction),
    REAL(v2_resume_share),
    CHOICE(manager, "v1", "by_architecture"),
    CHOICE(v1_windows, "unknown", "equal_shares"),
    CHOICE(states, "unknown", "slots"),
    CHOICE(index, "none", "blocks_of_128"),
    FLAG(has_v2),
    FLAG(v2_windows),
};

uint64_t trtllm_max_batch(const struct kva_call *call)
{
    const struct trtllm *trtllm = call->behaviours;
    return call->deployment->max_sequences > 0 ? call->deployment->max_sequences : trtllm->max_batch;
}

// ---------------------------------------------------------------- blanks

static enum kva_status resolve_block(struct kva_call *call)
{
    const struct trtllm *trtllm = call->behaviours;
    struct kva_deployment *deployment = call->deployment;
    const uint64_t tokens = deployment->block_size;
    if (tokens == 0) {
        deployment->block_size = trtllm->tokens_per_block;
        return kva_assume(call, "blocks of %llu tokens: the default", (unsigned long long)deployment->block_size);
    }
    if (tokens < 2 || (tokens & (tokens - 1)) != 0)
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, "block_size",
                        "%llu is not a power of two above 1, as TensorRT-LLM's tokens_per_block must be",
                        (unsigned long long)tokens);
    return KVA_OK;
}

static enum kva_status pick_manager(struct kva_call *call)
{
    const struct trtllm *trtllm = call->behaviours;
    struct kva_deployment *deployment = call->deployment;
    const bool prefers = trtllm->manager == TRTLLM_AUTO_BY_ARCHITECTURE && kva_model_rule(call, "manager_v2") != NULL;
    const bool unsettled =
        trtllm->manager == TRTLLM_AUTO_BY_ARCHITECTURE && kva_model_rule(call, "manager_unsettled") != NULL;
    deployment->manager = prefers ? "v2" : "v1";
    if (unsettled && kva_model_has_cache(call->model, KVA_CACHE_STATE))
        return kva_fail(call->error, KVA_REFUSED, NULL, "manager",
                        "what is known of this version does not settle which manager %s gets; name one with "
                        "--kv-cache-manager",
                        call->model->architecture);
    if (unsettled)
        return kva_assume(call, "manager v1: this version may prefer v2 for %s, whose bytes of a token are the same",
                          call->model->architecture);
    return kva_assume(call, "manager %s: what auto is for this architecture and version", deployment->manager);
}

static enum kva_status resolve_manager(struct kva_call *call)
{
    const struct trtllm *trtllm = call->behaviours;
    struct kva_deployment *deployment = call->deployment;
    if (deployment->manager == NULL || strcmp(deployment->manager, "auto") == 0)
        return pick_manager(call);
    const bool v2 = strcmp(deployment->manager, "v2") == 0;
    if (!v2 && strcmp(deployment->manager, "v1") != 0)
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, "manager", "'%s' is not a manager; v1, v2 and auto are",
                        deployment->manager);
    if (v2 && !trtllm->has_v2)
        return kva_fail(call->error, KVA_REFUSED, NULL, "manager",
                        "this version is not known to have manager v2; v1 is what it has");
    return KVA_OK;
}

static enum kva_status check_ranks(struct kva_call *call)
{
    if (call->deployment->dcp > 1 || call->deployment->pcp > 1)
        return kva_fail(call->error, KVA_REFUSED, NULL, "dcp",
                        "how TensorRT-LLM deals out blocks for context parallelism was not read");
    const struct kva_value *heads = kva_model_value(call->model, "heads");
    const uint64_t tp = call->deployment->tp;
    if (call->deployment->dp_attention == KVA_ON) {
        call->attention_groups = tp;
        call->attention_tp = 1;
    } else if (heads != NULL && heads->count % tp != 0)
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, "tp",
                        "%llu attention heads cannot be divided among %llu tensor ranks",
                        (unsigned long long)heads->count, (unsigned long long)tp);
    return KVA_OK;
}

// What the engine is told to expect at most: windows of V2 and states are set aside for as many.
static enum kva_status resolve_batch(struct kva_call *call)
{
    const struct trtllm *trtllm = call->behaviours;
    struct kva_deployment *deployment = call->deployment;
    if (deployment->max_sequences > 0 ||
        (strcmp(deployment->manager, "v2") != 0 && !kva_model_has_cache(call->model, KVA_CACHE_STATE)))
        return KVA_OK;
    deployment->max_sequences = trtllm->max_batch;
    return kva_assume(call, "batches of at most %llu sequences: the default of max_batch_size",
                      (unsigned long long)deployment->max_sequences);
}

// Tokens of a pass, which windowed layers of V2 hold beside their windows.
static enum kva_status resolve_pass(struct kva_call *call)
{
    const struct trtllm *trtllm = call->behaviours;
    if (strcmp(call->deployment->manager, "v2") != 0 || call->deployment->batch_tokens > 0)
        return KVA_OK;
    call->deployment->batch_tokens = trtllm->max_tokens_of_a_pass;
    return kva_assume(call, "passes of %llu tokens: the default of max_num_tokens",
                      (unsigned long long)call->deployment->batch_tokens);
}

static enum kva_status resolve(struct kva_call *call)
{
    static kva_resolve_step *const STEPS[] = {kva_resolve_common, check_ranks,   resolve_block, resolve_manager,
                                              kva_resolve_draft,  resolve_batch, resolve_pass};
    return kva_resolve_steps(call, STEPS, sizeof STEPS / sizeof *STEPS);
}

// ---------------------------------------------------------------- the budget

// _util.py _cal_max_memory: (total - peak + the temporary cache) x fraction. The peak holds weights, activations and
// whatever else is there, the temporary cache among it.
static enum kva_status budget(struct kva_call *call)
{
    const struct trtllm *trtllm = call->behaviours;
    struct kva_deployment *deployment = call->deployment;
    uint64_t peak;
    enum kva_status status = kva_budget_taken(call, 0, &peak);
    if (status == KVA_OK && deployment->memory_fraction == 0) {
        deployment->memory_fraction = trtllm->memory_fraction;
        status = kva_assume(call, "free_gpu_memory_fraction %g: the default, of what weights and activations leave",
                            deployment->memory_fraction);
    }
    if (status == KVA_OK && deployment->activation_bytes == 0)
        status = kva_assume(call, "activations of a pass: none, as none were given; --activation-bytes takes them off");
    if (status == KVA_OK)
        kva_set_budget(deployment, (double)deployment->gpu_bytes * deployment->memory_fraction,
                       (double)peak * deployment->memory_fraction);
    return status;
}

// ---------------------------------------------------------------- the managers

static const char *why(const struct kva_call *call, const struct trtllm_shape *shape)
{
    for (size_t i = 0; i < call->model->n_layers; i++)
        for (size_t c = 0; c < call->model->layers[i].n_caches; c++) {
            const struct kva_cache *cache = &call->model->layers[i].caches[c];
            const bool whole = shape->layers[i].window >= call->deployment->context;
            if (cache->reads_layer >= 0)
                return "layers that read another layer's cache get blocks of their own";
            if (cache->kind == KVA_CACHE_CHUNKED)
                return "chunked layers keep the whole context";
            if (cache->kind == KVA_CACHE_SLIDING && shape->v2)
                return whole ? "windowed layers keep the whole context: this version derives no windows for them"
                             : "windowed layers keep the rows of a pass beside their windows";
            if (cache->kind == KVA_CACHE_SLIDING && shape->n_windows == 1)
                return "manager V1 keeps the whole context of windowed layers unless windows are asked for";
        }
    if (shape->states)
        return "there is a slot of states more than there are sequences";
    if (shape->v2)
        return "the quota is rounded up to whole grains of memory";
    return shape->n_windows > 1 ? "each window's pool gets an equal share of the bytes, whatever it needs"
                                : "the last block of a sequence is not full";
}

static enum kva_status allocate(struct kva_call *call, struct kva_engine_allocation *allocation)
{
    struct trtllm_shape *shape = call->own = kva_arena_alloc(call->arena, 1, sizeof *shape);
    if (shape == NULL)
        return kva_fail_memory(call->error, sizeof *shape);
    enum kva_status status = trtllm_shape_of(call, shape);
    if (status == KVA_OK)
        status = shape->v2 ? trtllm_v2_allocate(call, shape, allocation) : trtllm_v1_allocate(call, shape, allocation);
    if (status == KVA_OK)
        allocation->overpay_why = why(call, shape);
    return status;
}

static enum kva_status print_lines(struct kva_call *call, const struct kva_engine_allocation *allocation)
{
    const struct trtllm_shape *shape = call->own;
    if (!allocation->capacity.known)
        return KVA_OK;
    return shape->v2 ? trtllm_v2_print(call, shape) : trtllm_v1_print(call, shape);
}

const struct kva_engine kva_engine_trtllm = {
    .id = "tensorrt-llm",
    .any_architecture = true,
    .behaviours = BEHAVIOURS,
    .n_behaviours = sizeof BEHAVIOURS / sizeof *BEHAVIOURS,
    .behaviours_size = sizeof(struct trtllm),
    .resolve = resolve,
    .budget = budget,
    .allocate = allocate,
    .print_lines = print_lines,
};
