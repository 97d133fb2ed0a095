// Which layers share a block table (v1/core/kv_cache_utils.py get_kv_cache_groups): one group where all layers are
// alike, one mixed group where they keep the same tokens, else groups of equal size over pages of equal size.
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "engine/parallel.h"
#include "engine/vllm.h"

static enum kva_status too_large(struct kva_call *call)
{
    return kva_fail(call->error, KVA_BAD_INPUT, NULL, NULL, "a block is more than 2^64 bytes");
}

// The engine does not start, in its own words.
static enum kva_status refuse(struct kva_call *call, const char *line, uint32_t layer)
{
    const struct kva_quantity quantities[] = {kva_count_of("layer", layer)};
    const char *words = vllm_words(call, line, quantities, 1);
    return kva_fail(call->error, KVA_REFUSED, NULL, "engine", "vLLM %s does not start: %s", call->version->version,
                    words != NULL ? words : "NotImplementedError");
}

// ---------------------------------------------------------------- specs that are alike

// Two specs that one group may hold. (KVCacheSpec.merge)
static bool alike(const struct vllm_spec *a, const struct vllm_spec *b)
{
    const struct kva_cache *ca = a->cache, *cb = b->cache;
    const bool windowed = a->kind == VLLM_SLIDING || a->kind == VLLM_CHUNKED;
    if (a->kind != b->kind || a->block != b->block || a->page != b->page || (windowed && a->window != b->window))
        return false;
    if (a->kind == VLLM_STATE)
        return kva_cache_same_shape(ca, cb);
    return a->token_bytes == b->token_bytes && ca->kv_heads == cb->kv_heads && ca->k_dim == cb->k_dim &&
           ca->v_dim == cb->v_dim && (ca->kind == KVA_CACHE_INDEX) == (cb->kind == KVA_CACHE_INDEX);
}

// Specs that have become alike are made one.
static enum kva_status join_alike(struct kva_call *call, struct vllm_layout *layout)
{
    uint32_t *now = kva_arena_alloc(call->arena, layout->n_specs + 1, sizeof *now);
    size_t n = 0;
    if (now == NULL)
        return kva_fail_memory(call->error, layout->n_specs * sizeof *now);
    for (size_t s = 0; s < layout->n_specs; s++) {
        size_t like = 0;
        while (like < n && !alike(&layout->specs[like], &layout->specs[s]))
            like++;
        now[s] = (uint32_t)like;
        if (like < n)
            layout->specs[like].n_entries += layout->specs[s].n_entries;
        else
            layout->specs[n++] = layout->specs[s];
    }
    if (n == layout->n_specs)
        return KVA_OK;
    layout->n_specs = n;
    for (size_t e = 0; e < layout->n_entries; e++)
        layout->entries[e].spec = now[layout->entries[e].spec];
    return KVA_OK;
}

static bool keeps_all(enum vllm_kind kind)
{
    return kind == VLLM_FULL || kind == VLLM_LATENT;
}

// All layers need the same number of tokens of the same block size. (UniformTypeKVCacheSpecs.is_uniform_type)
static bool same_tokens(const struct vllm_layout *layout)
{
    const struct vllm_spec *first = &layout->specs[0];
    for (size_t s = 1; s < layout->n_specs; s++) {
        const struct vllm_spec *spec = &layout->specs[s];
        const bool windowed = first->kind == VLLM_SLIDING || first->kind == VLLM_CHUNKED;
        if (spec->block != first->block ||
            (keeps_all(first->kind) ? !keeps_all(spec->kind) : spec->kind != first->kind) ||
            (windowed && spec->window != first->window))
            return false;
    }
    return true;
}

static bool one_group(const struct kva_call *call, const struct vllm_layout *layout)
{
    return layout->n_specs <= 1 || (vllm_behaves(call)->mixed_group && same_tokens(layout));
}

// ---------------------------------------------------------------- windows kept whole

static bool has_kind(const struct vllm_layout *layout, enum vllm_kind kind)
{
    for (size_t s = 0; s < layout->n_specs; s++)
        if (layout->specs[s].kind == kind)
            return true;
    return false;
}

// Tokens of a block of the full layers; 0: they differ, or there are none.
static uint64_t full_block(const struct vllm_layout *layout)
{
    uint64_t block = 0;
    for (size_t s = 0; s < layout->n_specs; s++) {
        if (!keeps_all(layout->specs[s].kind))
            continue;
        if (block > 0 && block != layout->specs[s].block)
            return 0;
        block = layout->specs[s].block;
    }
    return block;
}

// Windowed layers become full ones. (unify_hybrid_kv_cache_specs, _promote_local_kv_cache_specs)
static enum kva_status promote(struct kva_call *call, struct vllm_layout *layout)
{
    const uint64_t block = vllm_behaves(call)->local_fallback ? full_block(layout) : 0;
    if (has_kind(layout, VLLM_FULL) || has_kind(layout, VLLM_LATENT))
        for (size_t s = 0; s < layout->n_specs; s++) {
            struct vllm_spec *spec = &layout->specs[s];
            if (spec->kind != VLLM_SLIDING && spec->kind != VLLM_CHUNKED)
                continue;
            spec->kind = VLLM_FULL;
            if (!vllm_behaves(call)->promotion_whole)
                spec->token_bytes = spec->bare_bytes;
            spec->block = block > 0 ? block : spec->block;
            if (!kva_mul(spec->block, spec->token_bytes, &spec->page))
                return too_large(call);
        }
    return join_alike(call, layout);
}

static enum kva_status without_hybrid_manager(struct kva_call *call, struct vllm_layout *layout)
{
    if (one_group(call, layout))
        return KVA_OK;
    layout->promoted = true;
    enum kva_status status = promote(call, layout);
    return status != KVA_OK || one_group(call, layout) ? status : refuse(call, "not_converted", 0);
}

// ---------------------------------------------------------------- pages of equal size

static uint64_t largest_page(const struct vllm_layout *layout)
{
    uint64_t page = 0;
    for (size_t s = 0; s < layout->n_specs; s++)
        page = kva_max(page, layout->specs[s].page);
    return page;
}

// page | P: P / page times the tokens in a block. Else padded to P, where the version and the kind allow.
static bool unify_page(const struct vllm_behaviours *behaves, struct vllm_spec *spec, uint64_t page)
{
    if (spec->page == page)
        return true;
    if (spec->kind == VLLM_STATE
            ? behaves->state_pad
            : page % spec->page != 0 && behaves->page_unify == VLLM_UNIFY_PAD && spec->kind != VLLM_LATENT) {
        spec->page = page;
        return true;
    }
    if (spec->kind == VLLM_STATE || page % spec->page != 0 || behaves->page_unify == VLLM_UNIFY_NONE)
        return false;
    spec->block *= page / spec->page;
    spec->page = page;
    return true;
}

static enum kva_status unify_pages(struct kva_call *call, struct vllm_layout *layout)
{
    const struct vllm_behaviours *behaves = vllm_behaves(call);
    const uint64_t page = largest_page(layout);
    struct vllm_spec *before = kva_arena_alloc(call->arena, layout->n_specs, sizeof *before);
    if (before == NULL)
        return kva_fail_memory(call->error, layout->n_specs * sizeof *before);
    memcpy(before, layout->specs, layout->n_specs * sizeof *before);
    for (size_t s = 0; s < layout->n_specs; s++) {
        if (unify_page(behaves, &layout->specs[s], page))
            continue;
        const uint32_t layer = before[s].layer->index;
        memcpy(layout->specs, before, layout->n_specs * sizeof *before);
        layout->fell_back = behaves->local_fallback && has_kind(layout, VLLM_LATENT) &&
                            has_kind(layout, VLLM_SLIDING) && !has_kind(layout, VLLM_CHUNKED);
        if (!layout->fell_back)
            return refuse(call, "not_unified", layer);
        enum kva_status status = promote(call, layout);
        return status != KVA_OK || one_group(call, layout) ? status : refuse(call, "not_unified", layer);
    }
    return join_alike(call, layout);
}

// ---------------------------------------------------------------- groups

// The size of all groups: the smallest count of layers of a kind, or the largest where that is hardly more.
static uint64_t group_size(const struct kva_call *call, const struct vllm_layout *layout)
{
    uint64_t least = UINT64_MAX, most = 0;
    for (size_t s = 0; s < layout->n_specs; s++) {
        least = kva_min(least, layout->specs[s].n_entries);
        most = kva_max(most, layout->specs[s].n_entries);
    }
    return (double)most < (double)least * vllm_behaves(call)->group_ratio ? most : least;
}

static void number_groups(struct vllm_layout *layout, uint64_t size)
{
    layout->n_groups = 0;
    for (size_t s = 0; s < layout->n_specs; s++) {
        struct vllm_spec *spec = &layout->specs[s];
        spec->first_group = (uint32_t)layout->n_groups;
        spec->n_groups = (uint32_t)kva_ceil_div(spec->n_entries, size);
        layout->n_groups += spec->n_groups;
    }
}

// layers[i::n], or layers[i * size : (i + 1) * size], over the whole model or over each stage. seen:
// [n_stages][n_specs]
static void assign_groups(const struct kva_call *call, struct vllm_layout *layout, uint64_t size, uint64_t *seen)
{
    const bool strided = vllm_behaves(call)->group_split == VLLM_SPLIT_STRIDED;
    for (size_t e = 0; e < layout->n_entries; e++) {
        struct vllm_entry *entry = &layout->entries[e];
        const struct vllm_spec *spec = &layout->specs[entry->spec];
        const uint64_t k = seen[(layout->by_stage ? entry->stage * layout->n_specs : 0) + entry->spec]++;
        entry->group = layout->mixed ? 0 : spec->first_group + (uint32_t)(strided ? k % spec->n_groups : k / size);
        layout->groups[entry->group].n_entries += !layout->by_stage || entry->stage == 0;
    }
}

// Bytes of one block on a rank of each stage: the fullest group's pages, or the sum of a mixed group's.
static enum kva_status measure_blocks(struct kva_call *call, struct vllm_layout *layout)
{
    for (size_t e = 0; e < layout->n_entries; e++) {
        const struct vllm_entry *entry = &layout->entries[e];
        layout->counts[entry->stage * layout->n_groups + entry->group]++;
        if (layout->mixed && !kva_add(layout->block_bytes[entry->stage], layout->specs[entry->spec].page,
                                      &layout->block_bytes[entry->stage]))
            return too_large(call);
    }
    for (uint32_t stage = 0; !layout->mixed && stage < layout->n_stages; stage++)
        for (size_t g = 0; g < layout->n_groups; g++) {
            uint64_t bytes;
            if (!kva_mul(layout->counts[stage * layout->n_groups + g], layout->specs[layout->groups[g].spec].page,
                         &bytes))
                return too_large(call);
            layout->block_bytes[stage] = kva_max(layout->block_bytes[stage], bytes);
        }
    return KVA_OK;
}

static enum kva_status make_groups(struct kva_call *call, struct vllm_layout *layout)
{
    const uint64_t size = layout->n_specs == 1 ? kva_max(layout->n_entries, 1) : group_size(call, layout);
    number_groups(layout, layout->mixed ? kva_max(layout->n_entries, 1) : size);
    if (layout->mixed)
        layout->n_groups = 1;
    uint64_t *seen = kva_arena_alloc(call->arena, layout->n_specs * layout->n_stages + 1, sizeof *seen);
    layout->groups = kva_arena_alloc(call->arena, layout->n_groups + 1, sizeof *layout->groups);
    layout->block_bytes = kva_arena_alloc(call->arena, layout->n_stages, sizeof *layout->block_bytes);
    layout->counts = kva_arena_alloc(call->arena, layout->n_stages * layout->n_groups + 1, sizeof *layout->counts);
    if (seen == NULL || layout->groups == NULL || layout->block_bytes == NULL || layout->counts == NULL)
        return kva_fail_memory(call->error, layout->n_groups * sizeof *layout->groups);
    for (uint32_t s = 0; !layout->mixed && s < layout->n_specs; s++)
        for (uint32_t g = 0; g < layout->specs[s].n_groups; g++)
            layout->groups[layout->specs[s].first_group + g].spec = s;
    assign_groups(call, layout, size, seen);
    return measure_blocks(call, layout);
}

// Early releases group the layers of each pipeline stage for itself, and insist that all stages come out alike. From
// here on the counts of layers are those of one stage.
static enum kva_status group_stages(struct kva_call *call, struct vllm_layout *layout)
{
    uint64_t *counts = kva_arena_alloc(call->arena, layout->n_stages * layout->n_specs, sizeof *counts);
    if (counts == NULL)
        return kva_fail_memory(call->error, layout->n_stages * layout->n_specs * sizeof *counts);
    for (size_t e = 0; e < layout->n_entries; e++)
        counts[layout->entries[e].stage * layout->n_specs + layout->entries[e].spec]++;
    for (uint32_t stage = 0; stage < layout->n_stages; stage++)
        for (size_t s = 0; s < layout->n_specs; s++)
            if (counts[stage * layout->n_specs + s] != counts[s])
                return kva_fail(call->error, KVA_REFUSED, NULL, "pp",
                                "vLLM %s groups the layers of each pipeline stage for itself; stages that hold "
                                "different layers are not planned",
                                call->version->version);
    for (size_t s = 0; s < layout->n_specs; s++)
        layout->specs[s].n_entries = counts[s];
    layout->by_stage = true;
    return KVA_OK;
}

// The layers as they were, for the versions that check each of them for itself.
static enum kva_status keep_raw(struct kva_call *call, struct vllm_layout *layout)
{
    layout->n_raw = layout->n_specs;
    layout->raw = kva_arena_alloc(call->arena, layout->n_specs + 1, sizeof *layout->raw);
    layout->raw_counts = kva_arena_alloc(call->arena, layout->n_stages * layout->n_raw + 1, sizeof(uint64_t));
    if (layout->raw == NULL || layout->raw_counts == NULL)
        return kva_fail_memory(call->error, layout->n_specs * sizeof *layout->raw);
    memcpy(layout->raw, layout->specs, layout->n_specs * sizeof *layout->raw);
    for (size_t e = 0; e < layout->n_entries; e++)
        layout->raw_counts[layout->entries[e].stage * layout->n_raw + layout->entries[e].spec]++;
    return KVA_OK;
}

enum kva_status vllm_groups_make(struct kva_call *call, struct vllm_layout *layout)
{
    enum kva_status status = keep_raw(call, layout);
    if (status == KVA_OK)
        status = join_alike(call, layout);
    if (status == KVA_OK && call->deployment->hybrid_manager == KVA_OFF)
        status = without_hybrid_manager(call, layout);
    if (status == KVA_OK && !one_group(call, layout))
        status = unify_pages(call, layout);
    if (status == KVA_OK && !one_group(call, layout) && layout->n_stages > 1 &&
        vllm_behaves(call)->group_split == VLLM_SPLIT_CONSECUTIVE)
        status = group_stages(call, layout);
    layout->mixed = status == KVA_OK && layout->n_specs > 1 && one_group(call, layout);
    return status == KVA_OK ? make_groups(call, layout) : status;
}
