// Tokens of a block: what the attention backend forces or prefers (platforms/cuda.py, platforms/interface.py
// update_block_size_for_backend), and what makes an attention page as large as a state (models/config.py
// HybridAttentionMambaModelConfig, later interface.py _align_hybrid_block_size).
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "engine/parallel.h"
#include "engine/vllm.h"

enum { DEFAULT_BLOCK = 16, DEFAULT_CHUNK = 2048 };

static uint64_t count_rule(const struct kva_call *call, const char *name, const char *key)
{
    const char *value = kva_rule(call, name, key);
    return value != NULL ? strtoull(value, NULL, 10) : 0;
}

uint64_t vllm_capability(const struct kva_call *call)
{
    const struct kva_gpu *gpu = call->deployment->gpu_facts;
    return gpu != NULL && gpu->compute_major > 0 ? gpu->compute_major : 9;
}

const char *vllm_backend(const struct kva_call *call)
{
    const struct vllm_behaviours *behaves = vllm_behaves(call);
    if (call->deployment->attention_backend != NULL)
        return call->deployment->attention_backend;
    if (vllm_has(call, KVA_CACHE_INDEX))
        return "FLASHMLA_SPARSE";
    if (!vllm_has(call, KVA_CACHE_LATENT))
        return "FLASH_ATTN";
    const uint64_t capability = vllm_capability(call);
    if (capability == 10)
        return behaves->latent_backend_10;
    if (capability != 9)
        return "TRITON_MLA";
    // FLASH_ATTN_MLA keeps no quantized cache, so the next in the list is taken.
    return call->kv_format.k.bits < 16 ? "FLASHMLA" : behaves->latent_backend;
}

uint64_t vllm_backend_block(const struct kva_call *call)
{
    return kva_max(count_rule(call, "block", vllm_backend(call)), DEFAULT_BLOCK);
}

uint64_t vllm_default_block(const struct kva_call *call)
{
    const uint64_t asked = call->deployment->block_size, backend = vllm_backend_block(call);
    const bool forces = vllm_behaves(call)->latent_block == VLLM_LATENT_BLOCK_FORCED;
    if (asked == 0)
        return kva_max(DEFAULT_BLOCK, backend);
    return forces && vllm_has(call, KVA_CACHE_LATENT) && asked % backend != 0 ? backend : asked;
}

// ---------------------------------------------------------------- beside states

static uint64_t greatest_common(uint64_t a, uint64_t b)
{
    while (b != 0) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static bool least_common(uint64_t a, uint64_t b, uint64_t *multiple)
{
    return kva_mul(a / greatest_common(a, b), b, multiple);
}

static const struct vllm_spec *first_of(const struct vllm_layout *layout, bool state)
{
    for (size_t s = 0; s < layout->n_specs; s++)
        if ((layout->specs[s].kind == VLLM_STATE) == state && layout->specs[s].cache->kind != KVA_CACHE_INDEX)
            return &layout->specs[s];
    return NULL;
}

// What a block of attention beside states is a multiple of.
static uint64_t alignment(const struct kva_call *call, const struct vllm_spec *attention, uint64_t block)
{
    const struct vllm_behaviours *behaves = vllm_behaves(call);
    const bool latent = attention->kind == VLLM_LATENT;
    const uint64_t least = latent ? behaves->latent_align : 0;
    if (behaves->hybrid_align == VLLM_ALIGN_KERNEL)
        return kva_max(kva_max(vllm_backend_block(call), block), least);
    if (latent)
        return strcmp(vllm_backend(call), "CUTLASS_MLA") == 0 ? 128 : least;
    if (behaves->wide_head_align > 0 && vllm_capability(call) == 10 && attention->cache->k_dim == 256)
        return behaves->wide_head_align;
    return DEFAULT_BLOCK;
}

// Tokens of one chunk of the model's scan; 0: not known. Mamba-1 has none. (config/model.py get_mamba_chunk_size)
uint64_t vllm_chunk_tokens(const struct kva_call *call)
{
    const struct kva_value *value = kva_model_value(call->model, "chunk_size");
    if (call->deployment->mamba_block_size > 0)
        return call->deployment->mamba_block_size;
    if (value != NULL && value->count > 0)
        return value->count;
    return vllm_states_are(call, "mamba1") ? DEFAULT_CHUNK : 0;
}

// none, align: block = a * cdiv(state, a * token). all: block = chunk * cdiv(cdiv(state, token), chunk).
static bool aligned_block(const struct kva_call *call, const struct vllm_spec *attention, uint64_t state,
                          uint64_t raw_block, uint64_t *block)
{
    const struct vllm_behaviours *behaves = vllm_behaves(call);
    const uint64_t token = attention->token_bytes;
    uint64_t unit = alignment(call, attention, raw_block), page;
    if (vllm_mode(call) == VLLM_MODE_ALL) {
        if (!least_common(vllm_chunk_tokens(call), unit, &unit))
            return false;
        return kva_mul(kva_ceil_div(kva_ceil_div(state, token), unit), unit, block);
    }
    if (vllm_mode(call) == VLLM_MODE_ALIGN && behaves->delta_checkpoint > 0 && vllm_capability(call) == 9 &&
        vllm_states_are(call, "delta") && !least_common(unit, behaves->delta_checkpoint, &unit))
        return false;
    return kva_mul(unit, token, &page) && kva_mul(unit, kva_ceil_div(state, page), block) &&
           (!behaves->align_all || kva_round_up(*block, vllm_backend_block(call), block));
}

// Sliding layers choose a block of their own: the smallest or the largest that their backend takes.
static uint64_t window_block(const struct kva_call *call, uint64_t block)
{
    const uint64_t least = DEFAULT_BLOCK;
    switch (vllm_behaves(call)->window_block) {
    case VLLM_WINDOW_BLOCK_SMALLEST:
        return least;
    case VLLM_WINDOW_BLOCK_LARGEST:
        return kva_max(block / least * least, least);
    default:
        return block;
    }
}

static enum kva_status set_pages(struct kva_call *call, struct vllm_layout *layout, uint64_t state_page)
{
    for (size_t s = 0; s < layout->n_specs; s++) {
        struct vllm_spec *spec = &layout->specs[s];
        spec->block = spec->kind == VLLM_SLIDING ? window_block(call, layout->block) : layout->block;
        if (spec->kind == VLLM_STATE) {
            spec->block = vllm_mode(call) == VLLM_MODE_NONE ? call->deployment->context : layout->block;
            spec->page = kva_max(spec->page, state_page);
        } else if (!kva_mul(spec->block, spec->token_bytes, &spec->page))
            return kva_fail(call->error, KVA_BAD_INPUT, NULL, "block_size", "a block is more than 2^64 bytes");
    }
    return KVA_OK;
}

enum kva_status vllm_align_blocks(struct kva_call *call, struct vllm_layout *layout)
{
    const struct vllm_spec *attention = first_of(layout, false), *state = first_of(layout, true);
    layout->block = layout->raw_block = vllm_default_block(call);
    if (attention == NULL || state == NULL || attention->token_bytes == 0 || state->page == 0)
        return set_pages(call, layout, 0);
    layout->state_page = state->page;
    uint64_t aligned, page;
    if (!aligned_block(call, attention, state->page, layout->raw_block, &aligned) ||
        !kva_mul(kva_max(layout->raw_block, aligned), attention->token_bytes, &page))
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, "block_size", "a block is more than 2^64 bytes");
    layout->block = kva_max(layout->raw_block, aligned);
    return set_pages(call, layout, page);
}
