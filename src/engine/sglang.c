// SGLang's settings: what data/engines/sglang.yaml says of a version, and a deployment's blanks.
#include "engine/sglang.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "engine/resolve.h"

#define BEHAVIOURS_OF struct sglang
#include "engine/behaviour_rows.h"

static const struct kva_behaviour BEHAVIOURS[] = {
    COUNT(page_size),
    CHOICE(swa_split, "none", "layers", "bytes", "ratio"),
    CHOICE(swa_cell, "uniform", "exact", "over"),
    CHOICE(swa_map, "both", "full"),
    FLAG(swa_of_aligned),
    FLAG(swa_pages),
    FLAG(swa_floor),
    FLAG(swa_request_cap),
    REAL(swa_ratio),
    COUNT(swa_eviction_interval),
    CHOICE(draft, "headroom", "unbudgeted", "budgeted"),
    FLAG(draft_with_windows),
    CHOICE(dsa_cell, "plain", "packed"),
    CHOICE(dsa_index, "none", "every", "own"),
    FLAG(dsa_blackwell_fp8),
    CHOICE(fp4_workspace, "none", "every", "nvfp4"),
    CHOICE(mamba_slots, "unknown", "share", "padded"),
    CHOICE(mamba_flag, "no_radix", "always"),
    CHOICE(mamba_draft_states, "slots", "unknown", "requests", "capped", "capped_padded"),
    COUNT(mamba_slots_no_radix),
    REAL(mamba_ratio),
    COUNT(mamba_slots_per_request),
    COUNT(mamba_tracking_slots),
    FLAG(ssm_dtype_of_config),
    CHOICE(dsv4, "none", "by_window", "by_request", "by_page"),
    COUNT(dsv4_row),
    FLAG(dsv4_index_padded),
    COUNT(draft_max_running),
    COUNT(max_prefill_tokens),
    CHOICE(max_running, "profiled", "estimate", "half"),
    COUNT(request_padding_rows),
    CHOICE(request_draft_columns, "none", "drafts", "steps"),
    CHOICE(fraction, "parallel", "size", "computed"),
    COUNT(fraction_draft_mib),
    FLAG(fraction_prefill_graphs),
    COUNT(small_gpu_prefill),
    COUNT(small_gpu_graphs),
    COUNT(small_gpu_graphs_of_four),
    FLAG(graphs_capped_by_requests),
};

// ---------------------------------------------------------------- settings

uint64_t sglang_data_ranks(const struct kva_call *call)
{
    return call->deployment->dp_attention == KVA_ON ? call->deployment->dp : 1;
}

double sglang_swa_ratio(const struct kva_call *call)
{
    const struct sglang *sglang = call->behaviours;
    const char *own = kva_model_rule(call, "swa_ratio");
    if (call->deployment->swa_ratio > 0)
        return call->deployment->swa_ratio;
    return own != NULL ? strtod(own, NULL) : sglang->swa_ratio;
}

uint64_t sglang_max_running(const struct kva_call *call)
{
    const struct sglang *sglang = call->behaviours;
    const char *own = kva_model_rule(call, "max_running");
    if (call->deployment->max_sequences > 0)
        return call->deployment->max_sequences;
    if (own != NULL)
        return strtoull(own, NULL, 10);
    return call->deployment->spec_tokens > 0 ? sglang->draft_max_running : 0;
}

bool sglang_radix_cache(const struct kva_call *call)
{
    return call->deployment->prefix_caching != KVA_OFF && kva_model_rule(call, "no_radix") == NULL;
}

// model_runner_kv_cache_mixin.py _calculate_mamba_ratio
uint64_t sglang_slots_per_request(const struct kva_call *call)
{
    const struct sglang *sglang = call->behaviours;
    const char *own = kva_model_rule(call, "tracking_slots");
    const uint64_t tracking = own != NULL ? strtoull(own, NULL, 10) : sglang->mamba_tracking_slots;
    return sglang_radix_cache(call) ? sglang->mamba_slots_per_request + tracking : 1;
}

// ---------------------------------------------------------------- blanks

static bool is_sparse_latent(const struct kva_model *model)
{
    for (size_t i = 0; i < model->n_layers; i++)
        for (size_t c = 0; c + 1 < model->layers[i].n_caches; c++)
            if (model->layers[i].caches[c].kind == KVA_CACHE_LATENT &&
                model->layers[i].caches[c + 1].kind == KVA_CACHE_INDEX)
                return true;
    return false;
}

// _deepseek_v4_kv_cache_dtype
static enum kva_status resolve_dsv4_type(struct kva_call *call, bool said)
{
    static const char *const TAKEN[] = {"fp8_e4m3", "bf16", "bfloat16"};
    const char *type = call->deployment->kv_type;
    if (!said) {
        call->deployment->kv_type = "fp8_e4m3";
        return kva_assume(call, "KV dtype fp8_e4m3: what SGLang sets for %s", call->model->architecture);
    }
    for (size_t t = 0; type != NULL && t < sizeof TAKEN / sizeof *TAKEN; t++)
        if (strcmp(type, TAKEN[t]) == 0)
            return KVA_OK;
    return type == NULL ? KVA_OK
                        : kva_fail(call->error, KVA_BAD_INPUT, NULL, "--kv-cache-dtype",
                                   "%.40s is not supported for %s", type, call->model->architecture);
}

// Sparse latent attention: fp8 on Blackwell, bf16 before it, whatever the model's type.
static enum kva_status resolve_kv_type(struct kva_call *call)
{
    const struct sglang *sglang = call->behaviours;
    struct kva_deployment *deployment = call->deployment;
    const bool said = deployment->kv_dtype != KVA_DTYPE_NONE ||
                      (deployment->kv_type != NULL && strcmp(deployment->kv_type, "auto") != 0);
    if (sglang_is_dsv4(call->model))
        return resolve_dsv4_type(call, said);
    if (said || !sglang->dsa_blackwell_fp8 || !is_sparse_latent(call->model) || deployment->gpu_facts == NULL ||
        deployment->gpu_facts->compute_major < 10)
        return KVA_OK;
    deployment->kv_type = "fp8_e4m3";
    return kva_assume(call, "KV dtype fp8_e4m3: what sparse latent attention takes on Blackwell");
}

// "64,32": a backend's sizes; the first is the one that it falls back to.
static bool takes(const char *sizes, uint64_t page)
{
    for (const char *at = sizes; at != NULL; at = strchr(at, ',') != NULL ? strchr(at, ',') + 1 : NULL)
        if (strtoull(at, NULL, 10) == page)
            return true;
    return false;
}

static enum kva_status resolve_page(struct kva_call *call)
{
    const struct sglang *sglang = call->behaviours;
    struct kva_deployment *deployment = call->deployment;
    const uint64_t asked = deployment->block_size;
    const char *own = kva_model_rule(call, "architecture_pages");
    const char *backend = kva_rule(call, "backend_pages", deployment->attention_backend);
    const uint64_t page = own != NULL ? strtoull(own, NULL, 10) : asked > 0 ? asked : sglang->page_size;
    deployment->block_size = backend != NULL && !takes(backend, page) ? strtoull(backend, NULL, 10) : page;
    const unsigned long long tokens = deployment->block_size;
    if (asked == deployment->block_size)
        return KVA_OK;
    if (backend != NULL && deployment->block_size != page)
        return kva_assume(call, "pages of %llu tokens: what the backend %s takes", tokens,
                          deployment->attention_backend);
    if (own != NULL)
        return kva_assume(call, "pages of %llu tokens: what SGLang sets for %s", tokens, call->model->architecture);
    return kva_assume(call, "pages of %llu token%s: the default; an attention backend may want other ones", tokens,
                      tokens == 1 ? "" : "s");
}

static enum kva_status check_ranks(struct kva_call *call)
{
    const struct kva_deployment *deployment = call->deployment;
    if (deployment->dcp > 1 || deployment->pcp > 1)
        return kva_fail(call->error, KVA_REFUSED, NULL, "dcp",
                        "how SGLang deals out rows for context parallelism was not read");
    if (deployment->dp_attention == KVA_ON && deployment->tp % deployment->dp != 0)
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, "dp_attention",
                        "%llu tensor ranks cannot be divided among %llu ranks of data-parallel attention",
                        (unsigned long long)deployment->tp, (unsigned long long)deployment->dp);
    if (deployment->dp_attention == KVA_ON) {
        call->attention_groups = deployment->dp;
        call->attention_tp = deployment->tp / deployment->dp;
    }
    return KVA_OK;
}

static enum kva_status check_ratios(struct kva_call *call)
{
    const struct kva_deployment *deployment = call->deployment;
    if (deployment->swa_ratio != 0 && !(deployment->swa_ratio >= 0.001 && deployment->swa_ratio <= 1))
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, "swa_ratio", "%g is not at least 0.001 and at most 1",
                        deployment->swa_ratio);
    if (!(deployment->mamba_ratio >= 0 && deployment->mamba_ratio < 1e6))
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, "mamba_ratio", "%g is not a ratio of bytes",
                        deployment->mamba_ratio);
    return KVA_OK;
}

static enum kva_status resolve_requests(struct kva_call *call)
{
    const uint64_t most = sglang_max_running(call);
    if (call->deployment->max_sequences > 0 || most == 0)
        return KVA_OK;
    return kva_assume(call, "at most %llu requests: what SGLang sets %s%s", (unsigned long long)most,
                      kva_model_rule(call, "max_running") != NULL ? "for " : "with draft tokens",
                      kva_model_rule(call, "max_running") != NULL ? call->model->architecture : "");
}

static enum kva_status resolve(struct kva_call *call)
{
    static kva_resolve_step *const STEPS[] = {resolve_kv_type, kva_resolve_common, check_ranks,     check_ratios,
                                              resolve_page,    kva_resolve_draft,  resolve_requests};
    return kva_resolve_steps(call, STEPS, sizeof STEPS / sizeof *STEPS);
}

static enum kva_status allocate(struct kva_call *call, struct kva_engine_allocation *allocation)
{
    return sglang_is_dsv4(call->model) ? sglang_dsv4_allocate(call, allocation) : sglang_allocate(call, allocation);
}

static enum kva_status print_lines(struct kva_call *call, const struct kva_engine_allocation *allocation)
{
    return sglang_is_dsv4(call->model) ? sglang_dsv4_print(call) : sglang_print_lines(call, allocation);
}

const struct kva_engine kva_engine_sglang = {
    .id = "sglang",
    .any_architecture = true,
    .behaviours = BEHAVIOURS,
    .n_behaviours = sizeof BEHAVIOURS / sizeof *BEHAVIOURS,
    .behaviours_size = sizeof(struct sglang),
    .resolve = resolve,
    .budget = sglang_budget,
    .allocate = allocate,
    .print_lines = print_lines,
};
