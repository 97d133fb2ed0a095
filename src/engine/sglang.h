// SGLang: pools of token slots that are sized at start, from the bytes that the weights leave or from a number of
// tokens; states in slots of their own.
#ifndef KVA_ENGINE_SGLANG_H
#define KVA_ENGINE_SGLANG_H

#include "engine/engine.h"

enum sglang_swa_split { SWA_SPLIT_NONE, SWA_SPLIT_LAYERS, SWA_SPLIT_BYTES, SWA_SPLIT_RATIO };
enum sglang_swa_cell { SWA_CELL_UNIFORM, SWA_CELL_EXACT, SWA_CELL_OVER };
enum sglang_swa_map { SWA_MAP_BOTH, SWA_MAP_FULL };
enum sglang_draft { DRAFT_HEADROOM, DRAFT_UNBUDGETED, DRAFT_BUDGETED };
enum sglang_dsa_cell { DSA_CELL_PLAIN, DSA_CELL_PACKED };
enum sglang_dsa_index { DSA_INDEX_NONE, DSA_INDEX_EVERY, DSA_INDEX_OWN };
enum sglang_fp4_workspace { FP4_WORKSPACE_NONE, FP4_WORKSPACE_EVERY, FP4_WORKSPACE_NVFP4 };
enum sglang_mamba_slots { MAMBA_SLOTS_UNKNOWN, MAMBA_SLOTS_SHARE, MAMBA_SLOTS_PADDED };
enum sglang_mamba_flag { MAMBA_FLAG_NO_RADIX, MAMBA_FLAG_ALWAYS };
enum sglang_draft_states {
    DRAFT_STATES_SLOTS,
    DRAFT_STATES_UNKNOWN,
    DRAFT_STATES_REQUESTS,
    DRAFT_STATES_CAPPED,
    DRAFT_STATES_CAPPED_PADDED
};
enum sglang_dsv4 { DSV4_NONE, DSV4_BY_WINDOW, DSV4_BY_REQUEST, DSV4_BY_PAGE };
enum sglang_max_running { MAX_RUNNING_PROFILED, MAX_RUNNING_ESTIMATE, MAX_RUNNING_HALF };
enum sglang_draft_columns { DRAFT_COLUMNS_NONE, DRAFT_COLUMNS_DRAFTS, DRAFT_COLUMNS_STEPS };
enum sglang_fraction { FRACTION_PARALLEL, FRACTION_SIZE, FRACTION_COMPUTED };

// What differs by version, as data/engines/sglang.yaml says.
struct sglang {
    uint64_t page_size;
    int swa_split, swa_cell, swa_map;
    bool swa_of_aligned, swa_pages, swa_floor, swa_request_cap;
    double swa_ratio;
    uint64_t swa_eviction_interval;
    int draft;
    bool draft_with_windows;
    int dsa_cell, dsa_index;
    bool dsa_blackwell_fp8;
    int fp4_workspace;
    int mamba_slots, mamba_flag, mamba_draft_states;
    uint64_t mamba_slots_no_radix;
    double mamba_ratio;
    uint64_t mamba_slots_per_request, mamba_tracking_slots;
    bool ssm_dtype_of_config;
    int dsv4;
    uint64_t dsv4_row;
    bool dsv4_index_padded;
    uint64_t max_prefill_tokens;  // --max-prefill-tokens where it is not given
    uint64_t draft_max_running;
    int max_running;
    uint64_t request_padding_rows;
    int request_draft_columns;
    int fraction;
    uint64_t fraction_draft_mib;
    bool fraction_prefill_graphs;
    uint64_t small_gpu_prefill, small_gpu_graphs, small_gpu_graphs_of_four;
    bool graphs_capped_by_requests;
};

// What one token or one slot takes on one rank of a pipeline stage.
struct sglang_stage {
    uint64_t n_layers, n_full, n_swa, n_state;
    uint64_t full_k, full_v, index;  // bytes of one token, all layers with full pools
    uint64_t swa_k, swa_v;           // the same of windowed layers with a pool of their own
    uint64_t conv, ssm;              // bytes of one slot, all layers with states
    uint64_t budget_index;           // of `index`, what the budget counts
    uint64_t budget_latent;          // of a sparse latent layer, what the budget counts; 0: full_k + full_v
    uint64_t workspace;              // bytes a token of one dequantized row
};

// What a layer takes on one rank: bytes of one token and of one slot.
struct sglang_layer {
    bool windowed;         // its rows are in the windowed pool
    uint64_t k, v, index;  // a token
    uint64_t conv, ssm;    // a slot
    uint32_t stage;
};

struct sglang_shape {
    struct sglang_stage *stages;  // [pp]
    uint64_t pp;
    struct sglang_layer *layers;  // [model->n_layers]
    bool hybrid;                  // windowed layers have a pool of their own
    bool latent;                  // one buffer holds keys and values
    bool states;
    uint64_t window;         // the largest, the current token included
    uint64_t engine_window;  // as the engine counts it
    uint64_t attention_tp;
    uint64_t full_row, swa_row;  // bytes of one token in one layer
    uint64_t index_row;          // bytes of one token's indexer key; 0: the model has none
    uint64_t draft_k, draft_v;   // bytes of one token, all draft layers
    uint64_t state_slot;         // bytes of one slot, all layers of the model
    uint64_t state_stage_slot;   // the same, of the stage that has most
    uint64_t slots_per_request;  // states that a running request may need
    const struct kva_cache *first_full;
};

// What the pools hold.
struct sglang_sizes {
    uint64_t tokens;       // as the engine prints it: of the full pool, or of the windowed one where there is no other
    uint64_t full, swa;    // token slots
    uint64_t slots;        // states, without the padding slot
    uint64_t requests;     // that may run
    uint64_t profiled;     // tokens before the flag caps them
    uint64_t draft_slots;  // requests with intermediate states
    bool capped_by_slots;  // fewer requests than asked for, since states are few
    const char *refusal;   // the engine's own words; NULL: it starts
};

// What allocate leaves for print_lines.
struct sglang_own {
    struct sglang_shape shape;
    struct sglang_sizes sizes;  // of the pool, where a budget or tokens were said
    bool sized;
};

// The engine's settings of a deployment with its blanks filled.
double sglang_swa_ratio(const struct kva_call *call);
// --max-running-requests or what SGLang sets in its place; 0: an estimate
uint64_t sglang_max_running(const struct kva_call *call);
bool sglang_radix_cache(const struct kva_call *call);
uint64_t sglang_data_ranks(const struct kva_call *call);  // of attention
uint64_t sglang_slots_per_request(const struct kva_call *call);

// Shape: what the layers take. Errors: KVA_REFUSED (caches that the engine does not keep or that were not read),
// KVA_BAD_INPUT (heads or states that do not divide).
enum kva_status sglang_shape_of(struct kva_call *call, struct sglang_shape *shape);
// Sizes from a budget of bytes (UINT64_MAX: none, the tokens alone decide).
enum kva_status sglang_sizes_of(struct kva_call *call, const struct sglang_shape *shape, uint64_t budget,
                                uint64_t max_tokens, struct sglang_sizes *sizes);
// The least sizes that hold the sequences asked for.
enum kva_status sglang_sizes_asked(struct kva_call *call, const struct sglang_shape *shape, struct sglang_sizes *sizes);
// Requests that may run with that many tokens, by the flag or the engine's estimate.
enum kva_status sglang_refuse_cap(struct kva_call *call, const char *whose, const char *flag, uint64_t tokens,
                                  double bytes, double budget, const char **refusal);
enum kva_status sglang_refuse_floor(struct kva_call *call, uint64_t window, uint64_t tokens, const char **refusal);
uint64_t sglang_request_cap(const struct kva_call *call, uint64_t window);
uint64_t sglang_requests(const struct kva_call *call, uint64_t tokens);
// Tokens that one sequence takes of the windowed pool at the context asked for.
uint64_t sglang_windowed_tokens(const struct kva_call *call, const struct sglang_shape *shape, uint64_t context);
// Bytes that the pools of a stage take, and of these what layers use.
bool sglang_stage_bytes(const struct kva_call *call, const struct sglang_shape *shape, const struct sglang_stage *stage,
                        const struct sglang_sizes *sizes, uint64_t *pools, uint64_t *used);
// Bytes of the table of the requests' tokens, and of that from full to windowed slots.
bool sglang_tables(const struct kva_call *call, const struct sglang_shape *shape, const struct sglang_sizes *sizes,
                   uint64_t *requests, uint64_t *windows);

// --mem-fraction-static and what it leaves.
enum kva_status sglang_budget(struct kva_call *call);
// Tokens of one prefill pass: the flag or the GPU's default.
uint64_t sglang_prefill_tokens(const struct kva_call *call);

enum kva_status sglang_allocate(struct kva_call *call, struct kva_engine_allocation *allocation);
enum kva_status sglang_print_lines(struct kva_call *call, const struct kva_engine_allocation *allocation);

// DeepSeek-V4's pools, which are none of the above.
bool sglang_is_dsv4(const struct kva_model *model);
enum kva_status sglang_dsv4_allocate(struct kva_call *call, struct kva_engine_allocation *allocation);
enum kva_status sglang_dsv4_print(struct kva_call *call);

#endif
