// DeepSeek-V4 (models/deepseek_v4/attention.py, compressor.py, v1/attention/backends/mla/sparse_swa.py): every layer
// has a window; compressed layers also have one row for 4 or 128 tokens, indexer keys, and the states of the
// compressors, which are kept like windows. Layers of one kind stand in tuples of pages of different size; groups hold
// whole tuples (v1/core/kv_cache_utils.py group_and_unify_kv_cache_specs, later _get_packed_kv_cache_groups).
#include "base/checked.h"
#include "base/error.h"
#include "engine/parallel.h"
#include "engine/vllm.h"

enum {
    BLOCK = 256,    // tokens of a block of compressed rows
    ROW = 584,      // bytes of a row: 448 in 8 bits, 64 rotary elements in 16, scales
    ROW_DIM = 512,  // elements of it
    ALIGN = 576,    // what FlashMLA wants pages to be a multiple of
    WINDOW_BLOCK = 64,
    FINE = 4,
    COARSE = 128,
    FINE_BLOCK = 4,  // tokens of a block of the compressors' states
    COARSE_BLOCK = 8,
};

enum spec { FINE_ROWS, FINE_INDEX, COARSE_ROWS, WINDOW, FINE_STATE, FINE_INDEX_STATE, COARSE_STATE, N_SPECS };

// Specs that need blocks at the same pace make a family; its groups hold a tuple of one layer of each.
static const struct family {
    enum spec first, end;
} FAMILIES[] = {{FINE_ROWS, WINDOW}, {WINDOW, FINE_STATE}, {FINE_STATE, COARSE_STATE}, {COARSE_STATE, N_SPECS}};
enum { N_FAMILIES = sizeof FAMILIES / sizeof *FAMILIES };

static uint64_t aligned(uint64_t bytes)
{
    return kva_ceil_div(bytes, ALIGN) * ALIGN;
}

static enum kva_status refuse(struct kva_call *call, const struct kva_layer *layer, const char *what)
{
    return kva_fail(call->error, KVA_REFUSED, NULL, NULL, "layer %u: %s, which vLLM does not lay out for this model",
                    layer->index, what);
}

// ---------------------------------------------------------------- specs

static void add(struct vllm_layout *layout, enum spec spec, const struct kva_layer *layer,
                const struct kva_cache *cache, uint32_t at)
{
    struct vllm_spec *added = &layout->specs[spec];
    if (added->n_entries++ == 0) {
        added->layer = layer;
        added->cache = cache;
    }
    layout->entries[layout->n_entries++] = (struct vllm_entry){.layer = at, .spec = (uint32_t)spec};
}

static enum kva_status add_cache(struct kva_call *call, struct vllm_layout *layout, const struct kva_layer *layer,
                                 const struct kva_cache *cache, uint32_t ratio, uint32_t at)
{
    const bool rows = cache->kind == KVA_CACHE_FULL && cache->shared_kv && cache->k_dim == ROW_DIM;
    if (cache->kind == KVA_CACHE_SLIDING && cache->shared_kv && cache->k_dim == ROW_DIM)
        add(layout, WINDOW, layer, cache, at);
    else if (rows && ratio == FINE)
        add(layout, FINE_ROWS, layer, cache, at);
    else if (rows && ratio == COARSE)
        add(layout, COARSE_ROWS, layer, cache, at);
    else if (cache->kind == KVA_CACHE_INDEX && ratio == FINE)
        add(layout, FINE_INDEX, layer, cache, at);
    else if (cache->kind == KVA_CACHE_STATE && ratio == FINE) {
        add(layout, FINE_STATE, layer, cache, at);
        add(layout, FINE_INDEX_STATE, layer, cache, at);
    } else if (cache->kind == KVA_CACHE_STATE && ratio == COARSE)
        add(layout, COARSE_STATE, layer, cache, at);
    else
        return refuse(call, layer, "a cache of another shape");
    return KVA_OK;
}

// Tokens that a compressed row of the layer stands for; 0: it has none.
static uint32_t ratio_of(const struct kva_layer *layer)
{
    for (size_t c = 0; c < layer->n_caches; c++)
        if (layer->caches[c].ratio > 1)
            return layer->caches[c].ratio;
    return 0;
}

static enum kva_status collect(struct kva_call *call, struct vllm_layout *layout)
{
    const struct kva_model *model = call->model;
    layout->entries = kva_arena_alloc(call->arena, model->n_layers * (KVA_MAX_CACHES + 1) + 1, sizeof *layout->entries);
    layout->specs = kva_arena_alloc(call->arena, N_SPECS, sizeof *layout->specs);
    if (layout->entries == NULL || layout->specs == NULL)
        return kva_fail_memory(call->error, model->n_layers * sizeof *layout->entries);
    layout->n_specs = N_SPECS;
    for (size_t i = 0; i < model->n_layers; i++) {
        const struct kva_layer *layer = &model->layers[i];
        for (size_t c = 0; c < layer->n_caches; c++) {
            enum kva_status status = add_cache(call, layout, layer, &layer->caches[c], ratio_of(layer), (uint32_t)i);
            if (status != KVA_OK)
                return status;
        }
    }
    if (layout->specs[FINE_ROWS].n_entries == 0 || layout->specs[FINE_INDEX].n_entries == 0 ||
        layout->specs[COARSE_ROWS].n_entries == 0)
        return kva_fail(call->error, KVA_REFUSED, NULL, NULL, "vLLM lays out layers of both compressed kinds only");
    return KVA_OK;
}

static void set_spec(struct vllm_spec *spec, enum vllm_kind kind, uint64_t block, uint64_t window, uint64_t bytes)
{
    spec->kind = kind;
    spec->block = block;
    spec->window = window;
    spec->page = aligned(bytes);
}

// Rows of 584 bytes; keys of an indexer in 8 bits with a 32-bit scale; states in 32 bits, twice as wide where windows
// of two compressed rows overlap.
static void size_specs(struct vllm_layout *layout)
{
    struct vllm_spec *specs = layout->specs;
    const uint64_t index = specs[FINE_INDEX].cache->k_dim, window = specs[WINDOW].cache->window;
    set_spec(&specs[FINE_ROWS], VLLM_LATENT, BLOCK, 0, BLOCK / FINE * ROW);
    set_spec(&specs[FINE_INDEX], VLLM_LATENT, BLOCK, 0, BLOCK / FINE * kva_index_key_bytes(index));
    set_spec(&specs[COARSE_ROWS], VLLM_LATENT, BLOCK, 0, BLOCK / COARSE * ROW);
    set_spec(&specs[WINDOW], VLLM_SLIDING, WINDOW_BLOCK, window, WINDOW_BLOCK * ROW);
    set_spec(&specs[FINE_STATE], VLLM_SLIDING, FINE_BLOCK, 2 * FINE, FINE_BLOCK * 2 * 2 * ROW_DIM * sizeof(float));
    set_spec(&specs[FINE_INDEX_STATE], VLLM_SLIDING, FINE_BLOCK, 2 * FINE, FINE_BLOCK * 2 * 2 * index * sizeof(float));
    set_spec(&specs[COARSE_STATE], VLLM_SLIDING, COARSE_BLOCK, COARSE, COARSE_BLOCK * 2 * ROW_DIM * sizeof(float));
}

// Early releases pad every page to one of the compressed rows' sizes.
static bool pad_specs(struct vllm_layout *layout)
{
    for (size_t s = WINDOW; s < N_SPECS; s++) {
        uint64_t best = UINT64_MAX;
        for (size_t r = FINE_ROWS; r < WINDOW; r++)
            if (layout->specs[r].page >= layout->specs[s].page)
                best = kva_min(best, layout->specs[r].page);
        if (best == UINT64_MAX)
            return false;
        layout->specs[s].page = best;
    }
    return true;
}

// ---------------------------------------------------------------- groups

static uint64_t tuples(const struct vllm_layout *layout, const struct family *family)
{
    uint64_t most = 0;
    for (int s = family->first; s < (int)family->end; s++)
        most = kva_max(most, layout->specs[s].n_entries);
    return most;
}

static bool balanced(const struct vllm_layout *layout, const struct family *family)
{
    for (int s = family->first; s < (int)family->end; s++)
        if (layout->specs[s].n_entries != layout->specs[family->first].n_entries)
            return false;
    return true;
}

// The size in [least, the largest] that pads the counts least; of equals the larger. (_approximate_gcd)
static uint64_t common_size(const uint64_t *counts, size_t n, uint64_t least)
{
    uint64_t largest = 0, best = kva_max(least, 1), best_padding = UINT64_MAX;
    for (size_t i = 0; i < n; i++)
        largest = kva_max(largest, counts[i]);
    for (uint64_t size = best; size <= largest; size++) {
        uint64_t padding = 0;
        for (size_t i = 0; i < n; i++)
            padding += (size - counts[i] % size) % size;
        if (padding <= best_padding) {
            best_padding = padding;
            best = size;
        }
    }
    return best;
}

// How many groups each family makes. Compressed rows make one, and so does whatever later releases find unbalanced.
static void count_groups(const struct kva_call *call, struct vllm_layout *layout)
{
    const bool patterns = vllm_behaves(call)->tuples == VLLM_TUPLES_PATTERNS;
    uint64_t counts[N_FAMILIES], n = 0, least = patterns ? 0 : tuples(layout, &FAMILIES[0]);
    bool split[N_FAMILIES];
    for (size_t f = 0; f < N_FAMILIES; f++) {
        const bool several = FAMILIES[f].end - FAMILIES[f].first > 1;
        split[f] = patterns ? balanced(layout, &FAMILIES[f]) : f > 0;
        if (patterns && split[f] && several)
            least = kva_max(least, tuples(layout, &FAMILIES[f]));
        if (tuples(layout, &FAMILIES[f]) > 0 && (split[f] || !patterns))
            counts[n++] = tuples(layout, &FAMILIES[f]);
    }
    const uint64_t size = common_size(counts, n, least);
    layout->n_groups = 0;
    for (size_t f = 0; f < N_FAMILIES; f++) {
        const uint64_t groups = split[f] ? kva_ceil_div(tuples(layout, &FAMILIES[f]), size) : 1;
        for (int s = FAMILIES[f].first; s < (int)FAMILIES[f].end; s++) {
            layout->specs[s].first_group = (uint32_t)layout->n_groups;
            layout->specs[s].n_groups = s == (int)FAMILIES[f].first ? (uint32_t)groups : 0;  // counted once
        }
        layout->n_groups += groups;
    }
}

static const struct family *family_of(enum spec spec)
{
    const struct family *family = FAMILIES;
    while (spec >= family->end)
        family++;
    return family;
}

static enum kva_status fill_groups(struct kva_call *call, struct vllm_layout *layout)
{
    uint64_t seen[N_SPECS] = {0};
    layout->groups = kva_arena_alloc(call->arena, layout->n_groups, sizeof *layout->groups);
    layout->counts = kva_arena_alloc(call->arena, layout->n_groups * N_SPECS, sizeof *layout->counts);
    layout->block_bytes = kva_arena_alloc(call->arena, 1, sizeof *layout->block_bytes);
    if (layout->groups == NULL || layout->counts == NULL || layout->block_bytes == NULL)
        return kva_fail_memory(call->error, layout->n_groups * sizeof *layout->groups);
    for (size_t e = 0; e < layout->n_entries; e++) {
        struct vllm_entry *entry = &layout->entries[e];
        const struct family *family = family_of((enum spec)entry->spec);
        const struct vllm_spec *first = &layout->specs[family->first];
        entry->group = first->first_group + (uint32_t)(seen[entry->spec]++ % first->n_groups);
        struct vllm_group *group = &layout->groups[entry->group];
        group->spec = (uint32_t)family->first;
        group->n_entries++;
        group->page += layout->specs[entry->spec].page;
        layout->counts[entry->group * N_SPECS + entry->spec]++;
    }
    return KVA_OK;
}

// Layers of a group with pages of this size.
static uint64_t of_page(const struct vllm_layout *layout, size_t group, uint64_t page)
{
    uint64_t n = 0;
    for (size_t s = 0; s < N_SPECS; s++)
        if (layout->specs[s].page == page)
            n += layout->counts[group * N_SPECS + s];
    return n;
}

// The sum over the sizes of pages of compressed rows: of one layer each (weighted false), or of as many as the fullest
// group has of it.
static uint64_t sum_pages(const struct vllm_layout *layout, bool weighted)
{
    uint64_t bytes = 0;
    for (size_t s = FINE_ROWS; s < WINDOW; s++) {
        const uint64_t page = layout->specs[s].page;
        uint64_t most = 0;
        bool counted = false;
        for (size_t r = FINE_ROWS; r < s; r++)
            counted = counted || layout->specs[r].page == page;
        for (size_t g = 0; g < layout->n_groups; g++)
            most = kva_max(most, of_page(layout, g, page));
        bytes += counted ? 0 : page * (weighted ? most : 1);
    }
    return bytes;
}

static uint64_t fullest_tuples(const struct vllm_layout *layout)
{
    uint64_t most = 0;
    for (size_t g = 0; g < layout->n_groups; g++)
        for (size_t s = 0; s < N_SPECS; s++)
            most = kva_max(most, of_page(layout, g, layout->specs[s].page));
    return most;
}

// Bytes of a block: tuples of all sizes, or slots of each size, or the largest group's pages one after another.
static void measure(const struct kva_call *call, struct vllm_layout *layout)
{
    const int how = vllm_behaves(call)->tuples;
    const uint64_t in_tuples = fullest_tuples(layout) * sum_pages(layout, false);
    uint64_t largest = 0;
    for (size_t g = 0; g < layout->n_groups; g++)
        largest = kva_max(largest, layout->groups[g].page);
    layout->block_bytes[0] = how == VLLM_TUPLES_WHOLE   ? in_tuples
                             : how == VLLM_TUPLES_SLOTS ? sum_pages(layout, true)
                                                        : largest;
    layout->check_bytes = how == VLLM_TUPLES_PATTERNS ? largest : in_tuples;
}

bool vllm_has_tuples(const struct kva_call *call)
{
    return kva_rule(call, "tuples", call->model->model_type) != NULL;
}

// What is laid out only in one way. The cache is fp8_ds_mla, which 8 bits become.
enum kva_status vllm_tuples_resolve(struct kva_call *call)
{
    struct kva_deployment *deployment = call->deployment;
    const struct kva_kv_type *packed = kva_kv_type_find(call, "fp8"), *named = kva_kv_type_find(call, "fp8_ds_mla");
    const bool is_8 = call->kv_format.k.bits == 8 && call->kv_format.k.group == 0 &&
                      (call->kv_format.k.vector_bytes == 0 ||
                       (named != NULL && call->kv_format.k.vector_bytes == named->k.vector_bytes));
    if (vllm_behaves(call)->tuples == VLLM_TUPLES_NONE)
        return kva_fail(call->error, KVA_REFUSED, NULL, "model_type", "vLLM %s does not run DeepSeek-V4",
                        call->version->version);
    if (deployment->pp > 1 || deployment->draft_layers > 0 || deployment->hybrid_manager == KVA_OFF ||
        deployment->dcp > 1 || vllm_capability(call) == 10)
        return kva_fail(call->error, KVA_REFUSED, NULL, "model_type",
                        "DeepSeek-V4 is planned for vLLM on one pipeline stage with its hybrid manager, FlashMLA and "
                        "no draft model only");
    if (deployment->block_size != 0 && deployment->block_size != BLOCK)
        return kva_fail(call->error, KVA_REFUSED, NULL, "block_size", "vLLM keeps DeepSeek-V4 in blocks of %d", BLOCK);
    deployment->block_size = BLOCK;
    if (!is_8 && !vllm_behaves(call)->tuples_auto)
        return kva_fail(call->error, KVA_REFUSED, NULL, "kv_type",
                        "DeepseekV4 fp8_ds_mla layout only supports fp8 kv-cache; give --kv-cache-dtype fp8");
    if (packed != NULL && call->kv_format.k.bits != 8)
        call->kv_format = *packed;
    return kva_assume(call, "cache type fp8_ds_mla, blocks of %d tokens: FlashMLA", BLOCK);
}

enum kva_status vllm_tuples_make(struct kva_call *call, struct vllm_layout *layout)
{
    enum kva_status status = collect(call, layout);
    if (status != KVA_OK)
        return status;
    size_specs(layout);
    if (vllm_behaves(call)->tuples < VLLM_TUPLES_PACKED && !pad_specs(layout))
        return kva_fail(call->error, KVA_REFUSED, NULL, NULL, "vLLM %s does not start: a window's page is too large",
                        call->version->version);
    layout->n_stages = 1;
    layout->block = layout->raw_block = BLOCK;
    count_groups(call, layout);
    status = fill_groups(call, layout);
    if (status == KVA_OK)
        measure(call, layout);
    return status;
}
