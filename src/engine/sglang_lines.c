// The lines of SGLang's log, in the order in which it prints them. Its GB are GiB.
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "engine/sglang.h"

static double gib(uint64_t bytes_of_one, uint64_t n)
{
    return (double)bytes_of_one * (double)n / 0x1p30;
}

static const char *torch_name(const struct kva_call *call)
{
    static const struct {
        enum kva_dtype dtype;
        const char *name;
    } NAMES[] = {{KVA_BF16, "torch.bfloat16"},
                 {KVA_F16, "torch.float16"},
                 {KVA_F32, "torch.float32"},
                 {KVA_F8_E4M3, "torch.float8_e4m3fn"},
                 {KVA_F8_E5M2, "torch.float8_e5m2"}};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (NAMES[i].dtype == call->deployment->kv_dtype)
            return NAMES[i].name;
    return call->kv_format.k.bits == 4 ? "torch.float4_e2m1fn_x2" : "torch.float8_e4m3fn";
}

// One pool's line: its tokens without the padding page, its bytes with it.
static enum kva_status print_pool(struct kva_call *call, bool one_buffer, uint64_t tokens, uint64_t k, uint64_t v)
{
    const uint64_t slots = tokens + call->deployment->block_size;
    const struct kva_quantity quantities[] = {
        kva_count_of("tokens", tokens),           kva_text_of("dtype", torch_name(call)),
        kva_real_of("k_gib", gib(k, slots)),      kva_real_of("v_gib", gib(v, slots)),
        kva_real_of("kv_gib", gib(k + v, slots)),
    };
    return kva_print(call, one_buffer ? "latent" : "kv", quantities, sizeof quantities / sizeof *quantities);
}

static enum kva_status print_states(struct kva_call *call, const struct sglang_stage *stage,
                                    const struct sglang_sizes *sizes)
{
    const uint64_t drafts = call->deployment->spec_tokens;
    const uint64_t draft_slots = sizes->draft_slots > 0 ? (sizes->draft_slots + 1) * drafts : 0;
    const struct kva_quantity quantities[] = {
        kva_count_of("slots", sizes->slots),
        kva_real_of("conv_gib", gib(stage->conv, sizes->slots + 1)),
        kva_real_of("ssm_gib", gib(stage->ssm, sizes->slots + 1)),
        kva_real_of("draft_ssm_gib", gib(stage->ssm, draft_slots)),
        kva_real_of("draft_conv_gib", gib(stage->conv, draft_slots)),
    };
    return kva_print(call, draft_slots > 0 ? "mamba_draft" : "mamba", quantities,
                     sizeof quantities / sizeof *quantities);
}

static enum kva_status print_window_tokens(struct kva_call *call, const struct sglang_sizes *sizes)
{
    const struct kva_quantity quantities[] = {kva_count_of("full", sizes->full), kva_count_of("swa", sizes->swa)};
    return kva_print(call, sizes->full > 0 ? "swa_tokens" : "all_swa_tokens", quantities, 2);
}

static enum kva_status print_window_pool(struct kva_call *call, const struct sglang_stage *stage,
                                         const struct sglang_sizes *sizes)
{
    const uint64_t page = call->deployment->block_size;
    const double full = gib(stage->full_k + stage->full_v, sizes->full + page);
    const double swa = gib(stage->swa_k + stage->swa_v, sizes->swa + page);
    const struct kva_quantity quantities[] = {kva_real_of("gib", full + swa), kva_count_of("swa", sizes->swa),
                                              kva_count_of("full", sizes->full)};
    return kva_print(call, "swa_pool", quantities, 3);
}

static enum kva_status print_caps(struct kva_call *call, const struct sglang_shape *shape,
                                  const struct sglang_sizes *sizes)
{
    const struct kva_deployment *deployment = call->deployment;
    const struct kva_quantity tokens[] = {kva_count_of("asked", deployment->kv_tokens),
                                          kva_count_of("profiled", sizes->profiled)};
    const struct kva_quantity states[] = {kva_count_of("requests", sizes->requests),
                                          kva_count_of("slots", sizes->slots),
                                          kva_count_of("per_request", shape->slots_per_request)};
    enum kva_status status = KVA_OK;
    if (deployment->kv_bytes > 0 && deployment->kv_tokens > sizes->profiled)
        status = kva_print(call, "capped_tokens", tokens, 2);
    if (status == KVA_OK && sizes->capped_by_slots)
        status = kva_print(call, "mamba_cap", states, 3);
    return status;
}

static enum kva_status print_summary(struct kva_call *call, const struct sglang_sizes *sizes)
{
    const struct sglang *sglang = call->behaviours;
    const struct kva_quantity quantities[] = {
        kva_count_of("tokens", sizes->tokens),
        kva_count_of("chunk", sglang_prefill_tokens(call)),
        kva_count_of("prefill", sglang->max_prefill_tokens),
        kva_count_of("requests", sizes->requests),
        kva_count_of("context", call->deployment->context),
    };
    // without the GPU's size the default of the prefill chunk is not known
    if (call->deployment->gpu_bytes == 0 && call->deployment->batch_tokens == 0)
        return KVA_OK;
    return kva_print(call, "summary", quantities, sizeof quantities / sizeof *quantities);
}

enum kva_status sglang_print_lines(struct kva_call *call, const struct kva_engine_allocation *allocation)
{
    const struct sglang_own *own = call->own;
    const struct sglang_shape *shape = &own->shape;
    const struct sglang_sizes *sizes = &own->sizes;
    if (!allocation->capacity.known || allocation->capacity.refusal != NULL)
        return KVA_OK;
    const struct sglang_stage *stage = &shape->stages[0];  // rank 0 is of the first stage
    enum kva_status status = print_caps(call, shape, sizes);
    if (status == KVA_OK && shape->hybrid)
        status = print_window_tokens(call, sizes);
    if (status == KVA_OK && stage->n_state > 0)
        status = print_states(call, stage, sizes);
    if (status == KVA_OK && stage->n_swa > 0)
        status = print_pool(call, false, sizes->swa, stage->swa_k, stage->swa_v);
    if (status == KVA_OK && stage->n_full > 0)
        status = print_pool(call, shape->latent, sizes->full, stage->full_k + stage->index, stage->full_v);
    if (status == KVA_OK && shape->hybrid)
        status = print_window_pool(call, stage, sizes);
    if (status == KVA_OK && shape->draft_k + shape->draft_v > 0)
        status = print_pool(call, shape->latent, sizes->tokens, shape->draft_k, shape->draft_v);
    return status == KVA_OK ? print_summary(call, sizes) : status;
}
