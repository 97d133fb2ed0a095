// TensorRT-LLM's settings: what data/engines/tensorrt-llm.yaml says of a version, a deployment's blanks, the budget.
#include "engine/trtllm.h"
#include "engine/budget.h"

#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/text.h"
#include "engine/bounds.h"
#include "engine/resolve.h"

static const char *const MANAGER[] = {"v1", "by_architecture", NULL};
static const char *const V1_WINDOWS[] = {"unknown", "equal_shares", NULL};
static const char *const STATES[] = {"unknown", "slots", NULL};
static const char *const INDEX[] = {"none", "blocks_of_128", NULL};

#define COUNT(member)                                                                                                  \
    {                                                                                                                  \
#member, KVA_BEHAVIOUR_COUNT, offsetof(struct trtllm, member), NULL                                            \
    }
#define REAL(member)                                                                                                   \
    {                                                                                                                  \
#member, KVA_BEHAVIOUR_REAL, offsetof(struct trtllm, member), NULL                                             \
    }
#define FLAG(member)                                                                                                   \
    {                                                                                                                  \
#member, KVA_BEHAVIOUR_FLAG, offsetof(struct trtllm, member), NULL                                             \
    }
#define CHOICE(member, choices)                                                                                        \
    {                                                                                                                  \
#member, KVA_BEHAVIOUR_CHOICE, offsetof(struct trtllm, member), choices                                        \
    }
static const struct kva_behaviour BEHAVIOURS[] = {
    COUNT(tokens_per_block),
    COUNT(max_batch),
    COUNT(max_tokens_of_a_pass),
    REAL(memory_fraction),
    REAL(v2_resume_share),
    CHOICE(manager, MANAGER),
    CHOICE(v1_windows, V1_WINDOWS),
    CHOICE(states, STATES),
    CHOICE(index, INDEX),
    FLAG(has_v2),
    FLAG(v2_windows),
};

const char *trtllm_rule(const struct kva_call *call, const char *name)
{
    const struct kva_model *model = call->model;
    const bool named = model->architecture != NULL && *model->architecture != '\0';
    return kva_rule(call, name, named ? model->architecture : model->model_type);
}

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

static bool has_states(const struct kva_model *model)
{
    for (size_t i = 0; i < model->n_layers; i++)
        for (size_t c = 0; c < model->layers[i].n_caches; c++)
            if (model->layers[i].caches[c].kind == KVA_CACHE_STATE)
                return true;
    return false;
}

static enum kva_status pick_manager(struct kva_call *call)
{
    const struct trtllm *trtllm = call->behaviours;
    struct kva_deployment *deployment = call->deployment;
    const bool prefers = trtllm->manager == TRTLLM_AUTO_BY_ARCHITECTURE && trtllm_rule(call, "manager_v2") != NULL;
    const bool unsettled =
        trtllm->manager == TRTLLM_AUTO_BY_ARCHITECTURE && trtllm_rule(call, "manager_unsettled") != NULL;
    deployment->manager = prefers ? "v2" : "v1";
    if (unsettled && has_states(call->model))
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

static enum kva_status resolve_draft(struct kva_call *call)
{
    struct kva_deployment *deployment = call->deployment;
    if (deployment->spec_tokens == 0 || deployment->draft_layers > 0)
        return KVA_OK;
    deployment->draft_layers = kva_max(call->model->mtp_layers, 1);
    return kva_assume(call, "%llu draft layer%s of the target's shape: %s",
                      (unsigned long long)deployment->draft_layers, deployment->draft_layers == 1 ? "" : "s",
                      call->model->mtp_layers > 0 ? "the model's own" : "as EAGLE's");
}

// What the engine is told to expect at most: windows of V2 and states are set aside for as many.
static enum kva_status resolve_batch(struct kva_call *call)
{
    const struct trtllm *trtllm = call->behaviours;
    struct kva_deployment *deployment = call->deployment;
    if (deployment->max_sequences > 0 || (strcmp(deployment->manager, "v2") != 0 && !has_states(call->model)))
        return KVA_OK;
    deployment->max_sequences = trtllm->max_batch;
    return kva_assume(call, "batches of at most %llu sequences: the default of max_batch_size",
                      (unsigned long long)deployment->max_sequences);
}

static enum kva_status resolve(struct kva_call *call)
{
    const struct trtllm *trtllm = call->behaviours;
    enum kva_status status = kva_resolve_common(call);
    if (status == KVA_OK)
        status = kva_check_bounds(call);
    if (status == KVA_OK)
        status = check_ranks(call);
    if (status == KVA_OK)
        status = resolve_block(call);
    if (status == KVA_OK)
        status = resolve_manager(call);
    if (status == KVA_OK)
        status = resolve_draft(call);
    if (status == KVA_OK)
        status = resolve_batch(call);
    if (status == KVA_OK && strcmp(call->deployment->manager, "v2") == 0 && call->deployment->batch_tokens == 0) {
        call->deployment->batch_tokens = trtllm->max_tokens_of_a_pass;
        status = kva_assume(call, "passes of %llu tokens: the default of max_num_tokens",
                            (unsigned long long)call->deployment->batch_tokens);
    }
    return status;
}

// ---------------------------------------------------------------- the budget

// _util.py _cal_max_memory: (total - peak + the temporary cache) x fraction. The peak holds weights, activations and
// whatever else is there, the temporary cache among it.
static enum kva_status budget(struct kva_call *call)
{
    const struct trtllm *trtllm = call->behaviours;
    struct kva_deployment *deployment = call->deployment;
    uint64_t peak;
    if (deployment->weight_bytes == KVA_UNKNOWN)
        return kva_fail(
            call->error, KVA_REFUSED, NULL, "weight_bytes",
            "the size of the weights is not known; give --weight-bytes or the bytes for caches, --kv-bytes");
    if (!kva_add(deployment->weight_bytes, deployment->activation_bytes, &peak) ||
        !kva_add(peak, deployment->other_bytes, &peak))
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, "weight_bytes",
                        "weights and allowances are more than 2^64 bytes");
    enum kva_status status = KVA_OK;
    if (deployment->memory_fraction == 0) {
        deployment->memory_fraction = trtllm->memory_fraction;
        status = kva_assume(call, "free_gpu_memory_fraction %g: the default, of what weights and activations leave",
                            deployment->memory_fraction);
    }
    if (status == KVA_OK && deployment->activation_bytes == 0)
        status = kva_assume(call, "activations of a pass: none, as none were given; --activation-bytes takes them off");
    kva_set_budget(deployment, (double)deployment->gpu_bytes * deployment->memory_fraction,
                   (double)peak * deployment->memory_fraction);
    return status;
}

// ---------------------------------------------------------------- the managers

static enum kva_status allocate(struct kva_call *call, struct kva_engine_allocation *allocation)
{
    struct trtllm_shape shape;
    enum kva_status status = trtllm_shape_of(call, &shape);
    if (status == KVA_OK)
        status = shape.v2 ? trtllm_v2_allocate(call, &shape, allocation) : trtllm_v1_allocate(call, &shape, allocation);
    return status;
}

static enum kva_status print_lines(struct kva_call *call, const struct kva_engine_allocation *allocation)
{
    struct trtllm_shape shape;
    if (!allocation->capacity.known)
        return KVA_OK;
    enum kva_status status = trtllm_shape_of(call, &shape);
    if (status == KVA_OK)
        status = shape.v2 ? trtllm_v2_print(call, &shape) : trtllm_v1_print(call, &shape);
    return status;
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
