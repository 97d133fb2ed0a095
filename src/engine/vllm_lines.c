// The lines that vLLM's log will hold, and the words with which it refuses.
#include <string.h>

#include "base/text.h"
#include "engine/vllm.h"

const char *vllm_words(struct kva_call *call, const char *id, const struct kva_quantity *quantities, size_t n)
{
    for (size_t l = 0; l < call->version->n_lines; l++) {
        if (strcmp(call->version->lines[l]->id, id) != 0)
            continue;
        struct kva_text text = {0};
        const char *missing, *words = NULL;
        if (kva_line_render(call->version->lines[l]->text, quantities, n, &text, &missing) && !text.failed)
            words = kva_arena_strdup(call->arena, text.length > 0 ? text.bytes : "");
        kva_text_free(&text);
        return words;
    }
    return NULL;
}

static enum kva_status print_blocks(struct kva_call *call, const struct vllm_layout *layout)
{
    enum { USUAL = 16 };
    const char *name = kva_rule(call, "backend_name", vllm_backend(call));
    const struct kva_quantity backend[] = {kva_count_of("block", layout->raw_block),
                                           kva_text_of("backend", name != NULL ? name : vllm_backend(call))};
    const bool noted = layout->raw_block != USUAL && layout->raw_block == vllm_backend_block(call);
    return noted ? kva_print(call, "backend_block", backend, 2) : KVA_OK;
}

// Bytes of a state as padded to an attention page.
static uint64_t padded_state(const struct vllm_layout *layout)
{
    for (size_t s = 0; s < layout->n_raw; s++)
        if (layout->raw[s].kind == VLLM_STATE)
            return layout->raw[s].page;
    return layout->state_page;
}

// What the alignment of attention pages with states says.
static enum kva_status print_states(struct kva_call *call, const struct vllm_layout *layout)
{
    static const char *const MODES[] = {"none", "align", "all"};
    enum kva_status status = KVA_OK;
    if (layout->state_page == 0)
        return KVA_OK;
    const uint64_t page = padded_state(layout);
    const char *architecture = call->model->architecture;
    architecture = *architecture != '\0' ? architecture : call->model->model_type;
    const struct kva_quantity mode[] = {kva_text_of("mode", MODES[vllm_mode(call)]),
                                        kva_text_of("architecture", architecture)};
    const struct kva_quantity block[] = {kva_count_of("block", layout->block)};
    const struct kva_quantity padding[] = {
        kva_real_of("percent", 100 * (double)(page - layout->state_page) / (double)layout->state_page)};
    const bool drafts = vllm_behaves(call)->state_default == VLLM_CACHED_ALL_NO_DRAFT &&
                        call->deployment->spec_tokens > 0 &&
                        kva_rule(call, "state_cached", call->model->model_type) != NULL;
    status = kva_print(call, "states", NULL, 0);
    if (status == KVA_OK && vllm_mode_is_default(call))
        status = kva_print(call, drafts ? "state_mode_drafts" : "state_mode", mode, 2);
    if (status == KVA_OK && vllm_mode(call) != VLLM_MODE_NONE)
        status = kva_print(call, "states_cached", mode, 2);
    if (status == KVA_OK && layout->block > layout->raw_block)
        status = kva_print(call, "state_block", block, 1);
    if (status == KVA_OK && page > layout->state_page)
        status = kva_print(call, "state_padding", padding, 1);
    return status;
}

// Groups that are not full: a bucket of n layers in groups of `size` lacks size - n % size.
static enum kva_status print_padding(struct kva_call *call, const struct vllm_layout *layout)
{
    uint64_t size = 0;
    const bool pads = !layout->mixed && layout->check_bytes == 0;  // tuples leave their places empty in silence
    enum kva_status status = KVA_OK;
    for (size_t g = 0; g < layout->n_groups; g++)
        size = layout->groups[g].n_entries > size ? layout->groups[g].n_entries : size;
    for (size_t s = 0; status == KVA_OK && size > 0 && pads && s < layout->n_specs; s++) {
        const uint64_t n = layout->specs[s].n_entries, lacking = n % size > 0 ? size - n % size : 0;
        const struct kva_quantity quantities[] = {kva_count_of("layers", lacking),
                                                  kva_real_of("percent", (double)lacking / (double)n * 100)};
        if (lacking > 0)
            status = kva_print(call, "padding", quantities, 2);
    }
    return status;
}

// What vLLM calls available is below 0 where weights and activations take more than it may have.
static double available_gib(const struct kva_deployment *deployment)
{
    return (deployment->kv_short > 0 ? -(double)deployment->kv_short : (double)deployment->kv_bytes) / VLLM_GIB;
}

static enum kva_status print_auto_fit(struct kva_call *call)
{
    const struct kva_deployment *deployment = call->deployment;
    const bool reduced = deployment->context < call->model->context_limit;
    const struct kva_quantity quantities[] = {kva_count_of("limit", call->model->context_limit),
                                              kva_count_of("length", deployment->context),
                                              kva_real_of("budget", available_gib(deployment))};
    return deployment->auto_context ? kva_print(call, reduced ? "auto_fit_reduced" : "auto_fit_full", quantities, 3)
                                    : KVA_OK;
}

static enum kva_status print_size(struct kva_call *call, uint64_t tokens, double concurrency)
{
    const struct kva_quantity quantities[] = {kva_count_of("tokens", tokens),
                                              kva_count_of("context", call->deployment->context),
                                              kva_real_of("concurrency", concurrency)};
    return kva_print(call, "capacity", quantities, 3);
}

// Ranks that differ print sizes that differ, where each prints its own; each size once.
static enum kva_status print_sizes(struct kva_call *call, const struct vllm_layout *layout,
                                   const struct vllm_pool *pool)
{
    enum kva_status status = KVA_OK;
    uint64_t last = UINT64_MAX;
    if (vllm_behaves(call)->capacity_once || call->deployment->kv_blocks > 0 || pool->counted == 0)
        return print_size(call, pool->tokens, pool->concurrency);
    for (uint32_t stage = 0; status == KVA_OK && stage < layout->n_stages; stage++) {
        const uint64_t block = layout->block_bytes[stage];
        const uint64_t blocks = block > 0 ? call->deployment->kv_bytes / block : last;
        const double concurrency = (double)blocks / (double)pool->counted;
        if (blocks != last)
            status = print_size(call, vllm_printed_tokens(call, layout, blocks, concurrency), concurrency);
        last = blocks;
    }
    return status;
}

static enum kva_status print_capacity(struct kva_call *call, const struct vllm_layout *layout,
                                      const struct vllm_pool *pool)
{
    const struct kva_deployment *deployment = call->deployment;
    const struct kva_quantity shards[] = {kva_count_of("dcp", deployment->dcp), kva_count_of("pcp", deployment->pcp),
                                          kva_count_of("shards", deployment->dcp * deployment->pcp)};
    enum kva_status status = KVA_OK;
    if (deployment->dcp * deployment->pcp > 1)
        status = kva_print(call, "shards", shards, 3);
    return status == KVA_OK ? print_sizes(call, layout, pool) : status;
}

enum kva_status vllm_print_lines(struct kva_call *call, const struct kva_engine_allocation *allocation)
{
    const struct kva_deployment *deployment = call->deployment;
    (void)allocation;
    if (vllm_is_v0(call))
        return vllm_v0_print_lines(call);
    const struct vllm_layout *layout = &vllm_own(call)->layout;
    const struct vllm_pool *pool = &vllm_own(call)->pool;
    const struct kva_quantity budget[] = {kva_real_of("budget", available_gib(deployment))};
    const struct kva_quantity override[] = {kva_count_of("blocks", pool->given),
                                            kva_count_of("override", deployment->kv_blocks)};
    enum kva_status status = print_blocks(call, layout);
    if (status == KVA_OK)
        status = print_states(call, layout);
    if (status == KVA_OK && deployment->kv_bytes > 0 && deployment->memory_fraction > 0)
        status = kva_print(call, "available", budget, 1);
    if (status == KVA_OK && layout->promoted)
        status = kva_print(call, "hybrid_off", NULL, 0);
    if (status == KVA_OK && layout->fell_back)
        status = kva_print(call, "fell_back", NULL, 0);
    if (status == KVA_OK)
        status = print_padding(call, layout);
    if (status != KVA_OK || !vllm_has_budget(call) || layout->n_groups == 0)
        return status;
    if (deployment->kv_blocks > 0 && deployment->kv_bytes > 0)
        status = kva_print(call, "override", override, 2);
    if (status == KVA_OK && pool->refusal == NULL)
        status = print_auto_fit(call);
    return status == KVA_OK && pool->refusal == NULL ? print_capacity(call, layout, pool) : status;
}
