// vLLM's KV-cache planner: what each layer caches on one rank (specs), which layers share block tables (groups), how
// many blocks a request needs and a budget gives (capacity). Every difference between releases is a value of struct
// vllm_behaviours, filled from data/engines/vllm.yaml, which says what each of them is about.
#ifndef KVA_ENGINE_VLLM_H
#define KVA_ENGINE_VLLM_H

#include <string.h>

#include "engine/engine.h"

#define VLLM_GIB 0x1p30

enum vllm_page_unify { VLLM_UNIFY_NONE, VLLM_UNIFY_SCALE, VLLM_UNIFY_PAD };
enum vllm_group_split { VLLM_SPLIT_CONSECUTIVE, VLLM_SPLIT_STRIDED };
enum vllm_window_block { VLLM_WINDOW_BLOCK_PRIMARY, VLLM_WINDOW_BLOCK_SMALLEST, VLLM_WINDOW_BLOCK_LARGEST };
enum vllm_latent_block { VLLM_LATENT_BLOCK_FORCED, VLLM_LATENT_BLOCK_PREFERRED };
enum vllm_hybrid_align { VLLM_ALIGN_FIXED, VLLM_ALIGN_KERNEL };
enum vllm_state_need { VLLM_STATE_PAGE, VLLM_STATE_LENGTH, VLLM_STATE_MODE };
enum vllm_state_default {
    VLLM_CACHED_OFF,
    VLLM_CACHED_LISTED,
    VLLM_CACHED_ALL,
    VLLM_CACHED_ALL_NO_DRAFT,
    VLLM_CACHED_ALIGN
};
enum vllm_draft_states { VLLM_DRAFT_STATES_NO, VLLM_DRAFT_STATES_LISTED, VLLM_DRAFT_STATES_YES };
enum vllm_state_dtype { VLLM_STATE_DTYPE_KV, VLLM_STATE_DTYPE_MODEL };
enum vllm_forced { VLLM_FORCED_IGNORED, VLLM_FORCED_REFUSED };
enum vllm_in_flight { VLLM_IN_FLIGHT_BATCH, VLLM_IN_FLIGHT_CONCURRENT };
enum vllm_runner { VLLM_RUNNER_V1, VLLM_RUNNER_DENSE, VLLM_RUNNER_LISTED, VLLM_RUNNER_V2 };
enum vllm_tuples { VLLM_TUPLES_NONE, VLLM_TUPLES_WHOLE, VLLM_TUPLES_SLOTS, VLLM_TUPLES_PACKED, VLLM_TUPLES_PATTERNS };
enum vllm_encoder { VLLM_ENCODER_LENGTH, VLLM_ENCODER_BATCH };
enum vllm_graphs { VLLM_GRAPHS_IGNORED, VLLM_GRAPHS_ASKED, VLLM_GRAPHS_COUNTED };
enum vllm_check { VLLM_CHECK_SPECS, VLLM_CHECK_FIRST_GROUP, VLLM_CHECK_GROUPS };
enum vllm_check_scope { VLLM_CHECK_WORKER, VLLM_CHECK_WHOLE };
enum vllm_tokens { VLLM_TOKENS_CONFIGURED, VLLM_TOKENS_BLOCKS, VLLM_TOKENS_CONCURRENCY };
enum vllm_concurrency { VLLM_CONCURRENCY_FIRST_PAGE, VLLM_CONCURRENCY_EACH_PAGE };

struct vllm_behaviours {
    double group_ratio, memory_fraction;
    int page_unify, group_split, window_block, latent_block, hybrid_align, state_need, state_default;
    int draft_states, state_dtype, hybrid_forced, in_flight, runner, encoder, graphs, check, check_scope, tokens;
    int concurrency, tuples;
    bool mixed_group, state_pad, local_fallback, promotion_whole, nvfp4_windows, capacity_once, align_all,
        state_prefix_default, mode_all, mode_all_drafts;
    bool delta_conv_drafts, mamba2_conv_drafts, kda_conv_drafts, short_conv_drafts, delta_state_dtype;
    bool recurrent_choice, cross, chunked_off, dcp, pcp, async_default, requested_ceil, kv_bytes_flag;
    bool check_null_block, check_override, auto_fit, tuples_auto;
    uint64_t batch_huge_gib, batch_huge, batch_large_gib, batch_large_llm, batch_large_server, batch_llm, batch_server;
    uint64_t sequences_large, sequences_other;
    const char *batch_large_not;
    uint64_t wide_head_align, latent_align, mamba2_checkpoint, delta_checkpoint;
    const char *latent_backend, *latent_backend_10;
};

static inline const struct vllm_behaviours *vllm_behaves(const struct kva_call *call)
{
    return call->behaviours;
}

// ---------------------------------------------------------------- the layout of the pool

enum vllm_kind { VLLM_FULL, VLLM_LATENT, VLLM_SLIDING, VLLM_CHUNKED, VLLM_STATE, VLLM_CROSS };

// A KVCacheSpec: what one cache of a layer takes on one rank.
struct vllm_spec {
    enum vllm_kind kind;
    const struct kva_layer *layer;  // the first that has it
    const struct kva_cache *cache;
    uint64_t block;        // tokens of a page
    uint64_t token_bytes;  // bytes of one token; 0 for a state
    uint64_t bare_bytes;   // of attention: the same with values as wide as keys, without scales
    uint64_t page;         // bytes of a block, padding included
    uint64_t window;       // tokens of a window or a chunk; 0: none
    uint64_t n_entries;    // caches with this spec
    uint32_t first_group, n_groups;
};

// One cache of one layer, in the order of layers; caches of a draft model come last.
struct vllm_entry {
    uint32_t layer;  // index in model->layers; UINT32_MAX: of a draft model
    uint32_t spec, group, stage;
};

// Layers that share one block table.
struct vllm_group {
    uint32_t spec;       // of its layers; in a mixed group, of the first
    uint64_t n_entries;  // layers, over all pipeline stages
    uint64_t page;       // of a group of tuples: bytes of all its layers
};

struct vllm_layout {
    struct vllm_spec *specs;
    struct vllm_spec *raw;  // [n_raw] the same before windows were promoted and pages unified
    size_t n_specs, n_raw;
    struct vllm_entry *entries;
    size_t n_entries;
    struct vllm_group *groups;
    size_t n_groups;
    bool by_stage;                   // groups of each pipeline stage for itself: counts are of one stage
    bool mixed;                      // one group, whose layers have pages of different size
    bool promoted;                   // the hybrid manager is off: windowed layers are allocated as full ones
    bool fell_back;                  // the same, because pages could not be unified
    uint64_t block;                  // tokens of a block of the primary attention layers
    uint64_t raw_block, state_page;  // before alignment with states; bytes of one state before padding, 0: none
    uint32_t n_stages;
    uint64_t *block_bytes;  // [n_stages] bytes of one block on a rank of that stage
    uint64_t check_bytes;   // of tuples: bytes of a block as the check counts them; 0: as block_bytes
    uint64_t *counts;       // [n_stages][n_groups] layers
    uint64_t *raw_counts;   // [n_stages][n_raw] layers
};

// vllm_specs.c: the caches of a rank, before any of them is aligned with another.
enum kva_status vllm_specs_collect(struct kva_call *call, struct vllm_layout *layout);
uint64_t vllm_encoder_length(const struct kva_call *call);  // rows of a cross cache

// Whether the cache's type is a layout of latent rows, "fp8_ds_mla" or "nvfp4_ds_mla".
bool vllm_is_latent_type(const struct kva_call *call);

// vllm_state.c: bytes of one state on one rank.
enum kva_status vllm_state_bytes(struct kva_call *call, const struct kva_cache *cache, uint64_t *bytes);

// vllm_blocks.c: tokens of a block, by attention backend and by what stands beside it.
const char *vllm_backend(const struct kva_call *call);     // of latent attention, or as given; NULL: FLASH_ATTN
uint64_t vllm_capability(const struct kva_call *call);     // compute capability, major
uint64_t vllm_backend_block(const struct kva_call *call);  // the least that the backend takes
uint64_t vllm_default_block(const struct kva_call *call);  // where none is given, or where the backend forces it
uint64_t vllm_chunk_tokens(const struct kva_call *call);
enum kva_status vllm_align_blocks(struct kva_call *call, struct vllm_layout *layout);

// vllm_groups.c: promotion of windows, unification of pages, groups.
enum kva_status vllm_groups_make(struct kva_call *call, struct vllm_layout *layout);

// vllm_tuples.c: DeepSeek-V4, whose layers have caches of several sizes each.
bool vllm_has_tuples(const struct kva_call *call);
enum kva_status vllm_tuples_resolve(struct kva_call *call);
enum kva_status vllm_tuples_make(struct kva_call *call, struct vllm_layout *layout);

// ---------------------------------------------------------------- requests and capacity

enum vllm_mode { VLLM_MODE_NONE, VLLM_MODE_ALIGN, VLLM_MODE_ALL };
enum vllm_mode vllm_mode(const struct kva_call *call);  // of a resolved deployment

bool vllm_mode_is_default(const struct kva_call *call);  // nobody asked for it

// What decides how many blocks a request needs, beside its length.
struct vllm_request {
    uint64_t in_flight;    // tokens that are scheduled and not yet settled
    uint64_t shards;       // ranks that share the rows of full attention
    uint64_t encoder;      // encoder tokens
    uint64_t states;       // of one request, in each group of states; 0: one for each block of its length
    uint64_t more_states;  // further states beside those
};

// vllm_request.c
struct vllm_request vllm_request_of(const struct kva_call *call);
// Blocks of one request of `length` tokens in a group of this spec.
uint64_t vllm_blocks(const struct vllm_request *request, const struct vllm_spec *spec, uint64_t length);
// The same in all groups.
uint64_t vllm_blocks_of_all(const struct vllm_request *request, const struct vllm_layout *layout, uint64_t length);

// vllm_capacity.c: what a budget holds, and whether the engine starts.
struct vllm_pool {
    uint64_t blocks;      // of every rank
    uint64_t given;       // the same before a number given by hand takes its place
    uint64_t budget;      // bytes of the rank that has the fewest blocks
    uint32_t stage;       // of that rank
    uint64_t need;        // blocks of one request at the context
    uint64_t counted;     // the same as concurrency counts them
    double concurrency;   // requests at the context
    uint64_t tokens;      // as printed
    uint64_t longest;     // what the engine itself would offer; 0: not even one token
    const char *refusal;  // NULL: it starts
};
// Only with a budget or a number of blocks; the rest of the deployment is resolved.
// The printed size of a pool of `blocks` of which a request takes `counted`.
uint64_t vllm_printed_tokens(const struct kva_call *call, const struct vllm_layout *layout, uint64_t blocks,
                             double concurrency);
enum kva_status vllm_pool_fill(struct kva_call *call, const struct vllm_layout *layout, struct vllm_pool *pool);
// The longest length that every stage admits, at most `limit`; 0: not even one token.
uint64_t vllm_longest(const struct kva_call *call, const struct vllm_layout *layout, uint64_t limit);

// What one call's functions leave each other.
struct vllm_own {
    uint32_t kinds;      // bits of enum kva_cache_kind: caches of the model that a layer owns
    const char *states;  // how its states are laid out, "mamba2"; NULL: not known, or none
    struct vllm_layout layout;
    struct vllm_pool pool;
};
static inline struct vllm_own *vllm_own(const struct kva_call *call)
{
    return call->own;
}
static inline bool vllm_has(const struct kva_call *call, enum kva_cache_kind kind)
{
    return (vllm_own(call)->kinds >> kind & 1) != 0;
}
static inline bool vllm_states_are(const struct kva_call *call, const char *layout)
{
    return vllm_own(call)->states != NULL && strcmp(vllm_own(call)->states, layout) == 0;
}

// vllm_resolve.c
enum kva_status vllm_resolve(struct kva_call *call);
enum kva_status vllm_budget(struct kva_call *call);
enum kva_status vllm_allocate(struct kva_call *call, struct kva_engine_allocation *allocation);

// vllm.c
enum kva_status vllm_layout_make(struct kva_call *call, struct vllm_layout *layout);
static inline bool vllm_has_budget(const struct kva_call *call)
{
    return call->deployment->kv_bytes > 0 || call->deployment->kv_blocks > 0;
}

// vllm_lines.c
enum kva_status vllm_print_lines(struct kva_call *call, const struct kva_engine_allocation *allocation);
// The engine's words, from the line `id` of its data file; NULL: out of memory, or it has no such line.
const char *vllm_words(struct kva_call *call, const char *id, const struct kva_quantity *quantities, size_t n);

// vllm_v0.c: the engine before V1, for the one model that runs on nothing else.
bool vllm_is_v0(const struct kva_call *call);
enum kva_status vllm_v0_resolve(struct kva_call *call);
enum kva_status vllm_v0_allocate(struct kva_call *call, struct kva_engine_allocation *allocation);
enum kva_status vllm_v0_print_lines(struct kva_call *call);

#endif
