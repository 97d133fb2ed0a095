// The blanks of a deployment as vLLM fills them (engine/arg_utils.py, config/vllm.py, platforms/), and what it refuses.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/text.h"
#include "engine/budget.h"
#include "engine/parallel.h"
#include "engine/resolve.h"
#include "engine/vllm.h"

// ---------------------------------------------------------------- what it does not run

static enum kva_status refuse_unplanned(struct kva_call *call)
{
    const struct kva_model *model = call->model;
    const char *removed = kva_rule(call, "removed", model->architecture);
    const char *unplanned = kva_rule(call, "unplanned", model->model_type);
    if (removed != NULL)
        return kva_fail(call->error, KVA_REFUSED, NULL, "architecture", "vLLM %s does not run it: %s",
                        call->version->version, removed);
    if (unplanned != NULL)
        return kva_fail(call->error, KVA_REFUSED, NULL, "model_type", "not planned for vLLM: %s", unplanned);
    if (vllm_is_latent_type(call) && !vllm_has(call, KVA_CACHE_LATENT) && !vllm_has_tuples(call))
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, "kv_type", "%s is a layout of latent attention",
                        call->deployment->kv_type);
    if (!vllm_behaves(call)->cross && vllm_has(call, KVA_CACHE_CROSS))
        return kva_fail(call->error, KVA_REFUSED, NULL, "architecture",
                        "vLLM %s runs encoder-decoder models on its older engine, which is not planned for them",
                        call->version->version);
    return KVA_OK;
}

// config/model.py verify_with_parallel_config: without latent attention a rank deals out rows only where KV heads are
// replicated, among the ranks that hold the same one.
static enum kva_status check_grouped_heads(struct kva_call *call)
{
    const struct kva_value *heads = kva_model_value(call->model, "heads");
    const struct kva_value *kv_heads = kva_model_value(call->model, "kv_heads");
    const uint64_t tp = call->deployment->tp, dcp = call->deployment->dcp;
    if (vllm_has(call, KVA_CACHE_LATENT) || heads == NULL || kv_heads == NULL || kv_heads->count == 0)
        return KVA_OK;
    if (tp <= kv_heads->count)
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, "dcp",
                        "tensor parallel size %llu must be greater than total num kv heads %llu when enable decode "
                        "context parallel for GQA/MQA",
                        (unsigned long long)tp, (unsigned long long)kv_heads->count);
    if (dcp > tp / kv_heads->count)
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, "dcp",
                        "decode context parallel size must less than or equal to max dcp size %llu",
                        (unsigned long long)(tp / kv_heads->count));
    if (heads->count / kv_heads->count % dcp != 0)
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, "dcp",
                        "Total number of query heads per kv head (%llu) must be divisible by dcp world size (%llu)",
                        (unsigned long long)(heads->count / kv_heads->count), (unsigned long long)dcp);
    return KVA_OK;
}

static enum kva_status check_ranks(struct kva_call *call)
{
    const struct kva_deployment *deployment = call->deployment;
    const struct kva_value *heads = kva_model_value(call->model, "heads");
    const uint64_t tp = deployment->tp, dcp = deployment->dcp;
    if (heads != NULL && heads->count % tp != 0)
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, "tp",
                        "Total number of attention heads (%llu) must be divisible by tensor parallel size (%llu).",
                        (unsigned long long)heads->count, (unsigned long long)tp);
    if (dcp > 1 && !vllm_behaves(call)->dcp)
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, "dcp", "vLLM %s has no decode context parallelism",
                        call->version->version);
    if (tp % dcp != 0)
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, "dcp", "tp_size=%llu must be divisible by dcp_size=%llu.",
                        (unsigned long long)tp, (unsigned long long)dcp);
    if (dcp > 1 && (vllm_has(call, KVA_CACHE_SLIDING) || vllm_has(call, KVA_CACHE_CHUNKED)) &&
        deployment->hybrid_manager != KVA_OFF)
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, "dcp", "DCP not support sliding window.");
    return dcp > 1 ? check_grouped_heads(call) : KVA_OK;
}

// ---------------------------------------------------------------- blocks and groups

static enum kva_status resolve_block(struct kva_call *call)
{
    enum { MOST = 1 << 24 };
    struct kva_deployment *deployment = call->deployment;
    if (vllm_has_tuples(call))
        return vllm_tuples_resolve(call);
    const uint64_t asked = deployment->block_size, block = vllm_default_block(call);
    if (asked > MOST)
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, "block_size", "more than %d tokens", MOST);
    if (deployment->skip_layers != NULL)
        return kva_fail(call->error, KVA_REFUSED, NULL, "skip_layers",
                        "layers that keep the model's type beside a quantized cache are not planned for vLLM");
    if (vllm_has(call, KVA_CACHE_LATENT) && deployment->gpu_facts == NULL && asked == 0 &&
        deployment->attention_backend == NULL) {
        enum kva_status status =
            kva_assume(call, "attention backend %s: a GPU of compute capability 9, none was named", vllm_backend(call));
        if (status != KVA_OK)
            return status;
    }
    if (block % vllm_backend_block(call) != 0)
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, "--block-size",
                        "blocks of %llu tokens: %s takes multiples of %llu", (unsigned long long)block,
                        vllm_backend(call), (unsigned long long)vllm_backend_block(call));
    deployment->block_size = block;
    if (deployment->attention_backend != NULL && kva_rule(call, "block", vllm_backend(call)) == NULL)
        return kva_assume(call,
                          "blocks of %llu tokens: attention backend %s is not known to kvatlas, which may want others",
                          (unsigned long long)block, vllm_backend(call));
    if (asked == 0)
        return kva_assume(call, "blocks of %llu tokens: what %s takes", (unsigned long long)block, vllm_backend(call));
    return asked == block ? KVA_OK
                          : kva_assume(call, "blocks of %llu tokens: %s takes no %llu", (unsigned long long)block,
                                       vllm_backend(call), (unsigned long long)asked);
}

// config/vllm.py: chunked attention turns the hybrid manager off, and draft models with it always do.
static enum kva_status resolve_hybrid(struct kva_call *call)
{
    const struct vllm_behaviours *behaves = vllm_behaves(call);
    struct kva_deployment *deployment = call->deployment;
    const bool chunked =
        vllm_has(call, KVA_CACHE_CHUNKED) || kva_rule(call, "chunk_key", call->model->model_type) != NULL;
    const bool drafts = deployment->spec_tokens > 0;
    if (deployment->hybrid_manager == KVA_ON && chunked && drafts && behaves->hybrid_forced == VLLM_FORCED_REFUSED)
        return kva_fail(call->error, KVA_REFUSED, NULL, "hybrid_manager",
                        "Hybrid KV cache manager was explicitly enabled but is not supported in this configuration: "
                        "chunked attention with a draft model");
    if (deployment->hybrid_manager == KVA_ON && chunked && !drafts && behaves->chunked_off)
        return kva_assume(call, "hybrid manager on: with chunked attention that also takes "
                                "VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE=1");
    const bool off = chunked && (drafts || (behaves->chunked_off && deployment->hybrid_manager != KVA_ON));
    if (deployment->hybrid_manager != KVA_UNSET && !off)
        return KVA_OK;
    const bool silent = deployment->hybrid_manager == KVA_OFF;
    deployment->hybrid_manager = off ? KVA_OFF : KVA_ON;
    return off && !silent ? kva_assume(call, "hybrid manager off: vLLM %s turns it off for chunked attention",
                                       call->version->version)
                          : KVA_OK;
}

// ---------------------------------------------------------------- states

static const char BY_DEFAULT_ALIGN[] = "align", BY_DEFAULT_ALL[] = "all";

bool vllm_mode_is_default(const struct kva_call *call)
{
    const char *mode = call->deployment->mamba_cache_mode;
    return mode == BY_DEFAULT_ALIGN || mode == BY_DEFAULT_ALL;
}

// The cache mode of states where prefix caching is on. (models/config.py MambaModelConfig)
static const char *default_mode(const struct kva_call *call)
{
    const bool listed = kva_rule(call, "state_cached", call->model->model_type) != NULL;
    switch (vllm_behaves(call)->state_default) {
    case VLLM_CACHED_OFF:
        return "none";
    case VLLM_CACHED_LISTED:
        return listed ? BY_DEFAULT_ALL : "none";
    case VLLM_CACHED_ALL:
        return listed ? BY_DEFAULT_ALL : BY_DEFAULT_ALIGN;
    case VLLM_CACHED_ALL_NO_DRAFT:
        return listed && call->deployment->spec_tokens == 0 ? BY_DEFAULT_ALL : BY_DEFAULT_ALIGN;
    default:
        return BY_DEFAULT_ALIGN;
    }
}

static enum kva_status resolve_mode(struct kva_call *call)
{
    const struct vllm_behaviours *behaves = vllm_behaves(call);
    struct kva_deployment *deployment = call->deployment;
    const char *asked = deployment->mamba_cache_mode;
    const bool modes = behaves->state_need == VLLM_STATE_MODE;
    const bool listed = kva_rule(call, "state_cached", call->model->model_type) != NULL;
    if (asked != NULL && (!modes || (strcmp(asked, "none") != 0 && strcmp(asked, "align") != 0 &&
                                     (strcmp(asked, "all") != 0 || !behaves->mode_all))))
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, "mamba_cache_mode", "'%s' is not a mode of vLLM %s", asked,
                        call->version->version);
    deployment->mamba_cache_mode = asked != NULL && strcmp(asked, "none") != 0 ? asked : default_mode(call);
    if (strcmp(deployment->mamba_cache_mode, "all") == 0 && !listed)
        deployment->mamba_cache_mode = "align";
    if (strcmp(deployment->mamba_cache_mode, "none") == 0) {
        deployment->prefix_caching = KVA_OFF;
        return kva_assume(call, "prefix caching off: vLLM %s does not cache these states", call->version->version);
    }
    if (strcmp(deployment->mamba_cache_mode, "all") == 0 && vllm_chunk_tokens(call) == 0)
        return kva_fail(call->error, KVA_REFUSED, NULL, "mamba_block_size",
                        "states are cached at every block, which is a multiple of the model's chunk size: kvatlas does "
                        "not know it; give --mamba-block-size");
    return kva_assume(call, "states cached in mode %s", deployment->mamba_cache_mode);
}

static enum kva_status resolve_states(struct kva_call *call)
{
    const struct vllm_behaviours *behaves = vllm_behaves(call);
    struct kva_deployment *deployment = call->deployment;
    const struct kva_model *model = call->model;
    if (!vllm_has(call, KVA_CACHE_STATE) || vllm_has_tuples(call)) {
        if (deployment->prefix_caching == KVA_UNSET)
            deployment->prefix_caching = KVA_ON;
        return KVA_OK;
    }
    const bool listed = kva_rule(call, "state_drafts", model->model_type) != NULL;
    if (deployment->spec_tokens > 0 && behaves->draft_states != VLLM_DRAFT_STATES_YES &&
        (behaves->draft_states == VLLM_DRAFT_STATES_NO || !listed))
        return kva_fail(call->error, KVA_REFUSED, NULL, "spec_tokens", "vLLM %s does not start: %s",
                        call->version->version, "Mamba with speculative decoding is not supported yet.");
    const bool attends =
        vllm_has(call, KVA_CACHE_FULL) || vllm_has(call, KVA_CACHE_LATENT) || vllm_has(call, KVA_CACHE_SLIDING);
    if (deployment->prefix_caching == KVA_UNSET)
        deployment->prefix_caching = behaves->state_prefix_default && attends ? KVA_ON : KVA_OFF;
    if (deployment->prefix_caching == KVA_ON)
        return resolve_mode(call);
    deployment->mamba_cache_mode = "none";
    return kva_assume(call, "prefix caching off, one state a request: vLLM %s with states", call->version->version);
}

// ---------------------------------------------------------------- tokens in flight

static bool has_gib(const struct kva_deployment *deployment, uint64_t gib)
{
    return (double)deployment->gpu_bytes / VLLM_GIB >= (double)gib;
}

// Names are the catalogue's, whatever the person typed. Without a GPU: yes.
static bool is_large_gpu(const struct kva_call *call)
{
    const struct kva_deployment *deployment = call->deployment;
    const struct vllm_behaviours *behaves = vllm_behaves(call);
    const bool excepted =
        deployment->gpu_facts != NULL && strstr(deployment->gpu_facts->id, behaves->batch_large_not) != NULL;
    return deployment->gpu_bytes == 0 || (has_gib(deployment, behaves->batch_large_gib) && !excepted);
}

// engine/arg_utils.py get_batch_defaults: by the GPU's memory, its name, and who asks.
static uint64_t default_batch(const struct kva_call *call)
{
    const struct vllm_behaviours *behaves = vllm_behaves(call);
    const bool llm = call->deployment->llm_class == KVA_ON;
    if (behaves->batch_huge > 0 && has_gib(call->deployment, behaves->batch_huge_gib))
        return behaves->batch_huge;
    if (is_large_gpu(call))
        return llm ? behaves->batch_large_llm : behaves->batch_large_server;
    return llm ? behaves->batch_llm : behaves->batch_server;
}

static uint64_t default_sequences(const struct kva_call *call)
{
    const struct vllm_behaviours *behaves = vllm_behaves(call);
    if (call->deployment->max_sequences > 0)
        return call->deployment->max_sequences;
    return is_large_gpu(call) ? behaves->sequences_large : behaves->sequences_other;
}

static enum kva_status resolve_batch(struct kva_call *call)
{
    struct kva_deployment *deployment = call->deployment;
    char human[KVA_HUMAN], gib[64] = "";
    uint64_t most;
    if (deployment->async_scheduling == KVA_UNSET)
        deployment->async_scheduling = vllm_behaves(call)->async_default ? KVA_ON : KVA_OFF;
    if (deployment->batch_tokens > 0)
        return KVA_OK;
    deployment->batch_tokens = default_batch(call);
    if (deployment->chunked_prefill == KVA_OFF)
        deployment->batch_tokens = kva_max(deployment->batch_tokens, deployment->context);
    if (kva_mul(default_sequences(call), deployment->context, &most))
        deployment->batch_tokens = kva_min(deployment->batch_tokens, most);
    if (deployment->gpu_bytes == 0)
        snprintf(gib, sizeof gib, " on a GPU of %" PRIu64 " GiB or more", vllm_behaves(call)->batch_large_gib);
    return kva_assume(call, "%s tokens a batch: vLLM's default for %s%s",
                      kva_human_count(deployment->batch_tokens, human),
                      deployment->llm_class == KVA_ON ? "its LLM class" : "its server", gib);
}

static enum kva_status resolve_encoder(struct kva_call *call)
{
    struct kva_deployment *deployment = call->deployment;
    char human[KVA_HUMAN];
    if (!vllm_has(call, KVA_CACHE_CROSS) || deployment->encoder_tokens > 0)
        return KVA_OK;
    deployment->encoder_tokens = deployment->batch_tokens;
    if (vllm_behaves(call)->encoder == VLLM_ENCODER_LENGTH)
        deployment->encoder_tokens = vllm_encoder_length(call);
    return kva_assume(call, "%s encoder tokens a request: %s", kva_human_count(deployment->encoder_tokens, human),
                      vllm_behaves(call)->encoder == VLLM_ENCODER_LENGTH ? "the encoder's length"
                                                                         : "as many as a batch has tokens");
}

// ---------------------------------------------------------------- budget

// --max-model-len auto: the longest that the budget admits. (_auto_fit_max_model_len)
static enum kva_status fit_context(struct kva_call *call)
{
    struct vllm_layout layout = {0};
    struct kva_deployment *deployment = call->deployment;
    if (!deployment->auto_context || !vllm_has_budget(call))
        return KVA_OK;
    enum kva_status status = vllm_layout_make(call, &layout);
    if (status != KVA_OK)
        return status;
    deployment->context = vllm_longest(call, &layout, deployment->context);
    if (deployment->context > 0)
        return KVA_OK;
    const char *words = vllm_words(call, "auto_fit_none", NULL, 0);
    return kva_fail(call->error, KVA_MISMATCH, NULL, "context", "%s", words != NULL ? words : "nothing fits");
}

enum kva_status vllm_budget(struct kva_call *call)
{
    const struct vllm_behaviours *behaves = vllm_behaves(call);
    struct kva_deployment *deployment = call->deployment;
    if (deployment->memory_fraction == 0)
        deployment->memory_fraction = behaves->memory_fraction;
    // requested = ceil(total * utilization); available = requested - weights - activations - other [- CUDA graphs]
    double requested = (double)deployment->gpu_bytes * deployment->memory_fraction;
    requested = behaves->requested_ceil ? ceil(requested) : requested;
    uint64_t taken;
    enum kva_status status =
        kva_budget_taken(call, behaves->graphs == VLLM_GRAPHS_COUNTED ? deployment->graph_bytes : 0, &taken);
    if (status != KVA_OK)
        return status;
    kva_set_budget(deployment, requested, (double)taken);
    status = kva_assume(call, "%g of the GPU's memory for vLLM", deployment->memory_fraction);
    if (status == KVA_OK && deployment->activation_bytes == 0)
        status = kva_assume(call, "no activations: vLLM measures them at start; --activation-bytes allows for them");
    return status == KVA_OK ? fit_context(call) : status;
}

// A budget in bytes takes the place of the fraction; one of blocks stands on its own.
static enum kva_status resolve_budget(struct kva_call *call)
{
    struct kva_deployment *deployment = call->deployment;
    if (deployment->auto_context && !vllm_behaves(call)->auto_fit)
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, "context", "vLLM %s does not fit the context itself",
                        call->version->version);
    if (deployment->auto_context && !vllm_has_budget(call) && deployment->gpu_bytes == 0)
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, "context",
                        "'auto' fits the context to a budget: name a GPU or give --kv-bytes");
    enum kva_status status = KVA_OK;
    if (deployment->spec_tokens > 0 && deployment->draft_layers == 0)
        status = kva_assume(call, "no draft layers: --draft-layers counts those of EAGLE or of multi-token prediction");
    if (status != KVA_OK || deployment->kv_bytes == 0)
        return status;
    deployment->memory_fraction = 0;
    return fit_context(call);
}

// What is asked of the model again and again.
static enum kva_status look_at_model(struct kva_call *call)
{
    const struct kva_model *model = call->model;
    struct vllm_own *own = call->own = kva_arena_alloc(call->arena, 1, sizeof *own);
    if (own == NULL)
        return kva_fail_memory(call->error, sizeof *own);
    for (size_t i = 0; i < model->n_layers; i++)
        for (size_t c = 0; c < model->layers[i].n_caches; c++)
            if (model->layers[i].caches[c].reads_layer < 0)
                own->kinds |= UINT32_C(1) << model->layers[i].caches[c].kind;
    own->states = vllm_has(call, KVA_CACHE_STATE) ? kva_rule(call, "state", model->model_type) : NULL;
    return KVA_OK;
}

enum kva_status vllm_resolve(struct kva_call *call)
{
    static kva_resolve_step *const STEPS[] = {
        kva_resolve_common, look_at_model,  refuse_unplanned, resolve_block,   resolve_hybrid,
        check_ranks,        resolve_states, resolve_batch,    resolve_encoder, resolve_budget,
    };
    return vllm_is_v0(call) ? vllm_v0_resolve(call) : kva_resolve_steps(call, STEPS, sizeof STEPS / sizeof *STEPS);
}
