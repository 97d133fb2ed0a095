// llama.cpp and what was made from it: what it reads of a model, how many cells each cache has, what tensors they are.
// All of it is allocated at start, for the whole context.
#ifndef KVA_ENGINE_LLAMACPP_H
#define KVA_ENGINE_LLAMACPP_H

#include "base/checked.h"
#include "engine/cache_bytes.h"
#include "engine/engine.h"

// The behaviours of data/engines/llama.cpp.yaml, ik_llama.cpp.yaml and ollama.yaml.
enum kva_lcpp_padding { KVA_LCPP_PAD_CACHE, KVA_LCPP_PAD_CONTEXT, KVA_LCPP_PAD_RUNNER };
enum kva_lcpp_block_check { KVA_LCPP_CHECK_NEVER, KVA_LCPP_CHECK_AUTO, KVA_LCPP_CHECK_ON };
enum kva_lcpp_latent { KVA_LCPP_LATENT_TWICE, KVA_LCPP_LATENT_ONCE, KVA_LCPP_LATENT_ASKED };
struct kva_lcpp_behaviours {
    int padding;          // enum kva_lcpp_padding
    int flash_attention;  // 0: off, 1: auto
    int block_check;      // enum kva_lcpp_block_check
    int latent;           // enum kva_lcpp_latent
    bool windows, streams, hybrid_times_sequences, mla_one_type, snapshots, one_slot_is_default, fit;
    uint64_t default_context, server_slots, most_sequences, fit_margin, fit_context, alignment, row_padding;
};

enum { KVA_N_LCPP_BEHAVIOURS = 18 };
extern const struct kva_behaviour kva_lcpp_behaviours[KVA_N_LCPP_BEHAVIOURS];

// What the engines of the family have in common: other facts, the same arithmetic.
#define KVA_LCPP_FAMILY                                                                                                \
    .any_context = true, .behaviours = kva_lcpp_behaviours, .n_behaviours = KVA_N_LCPP_BEHAVIOURS,                     \
    .behaviours_size = sizeof(struct kva_lcpp_behaviours), .resolve = kva_lcpp_resolve, .budget = kva_lcpp_budget,     \
    .allocate = kva_lcpp_allocate

// ---------------------------------------------------------------- the model, as llama.cpp reads it

struct kva_lcpp_layer {
    uint64_t k, v;              // elements of one cell: KV heads x head size (n_embd_k_gqa, n_embd_v_gqa)
    uint32_t k_head, v_head;    // elements of one head, which blocks of a quantized type must divide
    bool attends;               // its attention has keys and values, here or in another layer
    bool owns;                  // ... here
    bool windowed;              // is_swa
    uint64_t r, s;              // elements of the convolution's and the recurrent state (n_embd_r, n_embd_s)
    uint32_t index_k, index_v;  // of the indexer's cache; 0: none
    uint32_t ratio;             // DeepSeek-V4: tokens of one compressed row, 4 or 128; 0: none
};

struct kva_lcpp_model {
    const char *architecture;  // GGUF
    struct kva_lcpp_layer *layers;
    size_t n_layers;            // as many as the model's
    size_t logged_layers;       // that the log counts in recurrent memory
    uint64_t window;            // n_swa; 0: no layer has a window
    uint64_t keeps;             // tokens that Ollama keeps of it; 0: the window
    bool windowed_cache;        // the window has a cache of its own, be it without a layer
    bool latent;                // is_mla
    bool recurrent, attention;  // some layer has such a cache; both: a hybrid
    bool compressed;            // DeepSeek-V4's caches
    bool ignores_window;        // the model has windows that llama.cpp does not know
};

// How ik_llama.cpp was told to cache a latent (-mla): 0, as expanded heads; 1, and without flash attention its values a
// second time; 2 and 3.
uint64_t kva_lcpp_latent_mode(const struct kva_call *call);
// Errors: KVA_REFUSED (no such architecture at this version), KVA_BAD_INPUT (a rule of the data file).
enum kva_status kva_lcpp_model_read(struct kva_call *call, struct kva_lcpp_model *model);

// ---------------------------------------------------------------- the deployment

// Fills the blanks as llama-server does, or the C API; refuses what llama_init_from_model refuses.
enum kva_status kva_lcpp_resolve(struct kva_call *call);

// How many cells a stream of each cache has.
struct kva_lcpp_cells {
    uint64_t streams;  // n_stream
    uint64_t base;     // of one stream: n_ctx_seq
    uint64_t window;   // of one stream of the windowed cache
    uint64_t context;  // n_ctx as llama.cpp reports it
};
// n_ctx: as asked for. Errors: KVA_BAD_INPUT (it wraps, or no cell is left for a sequence).
enum kva_status kva_lcpp_cells(struct kva_call *call, const struct kva_lcpp_model *model, uint64_t n_ctx,
                               uint64_t n_seq_max, struct kva_lcpp_cells *cells);

// ---------------------------------------------------------------- the caches

enum kva_lcpp_kind {
    KVA_LCPP_KV,
    KVA_LCPP_FULL,  // beside a windowed one
    KVA_LCPP_WINDOW,
    KVA_LCPP_MAIN,  // beside an indexer's
    KVA_LCPP_INDEXER,
    KVA_LCPP_COMPRESSED,  // DeepSeek-V4
    KVA_LCPP_COMPRESSOR,  // the state that fills it
    KVA_LCPP_STATE,
};

struct kva_lcpp_tensors {
    uint32_t layer;
    uint64_t k, v;   // bytes of the two tensors, all streams; of a state R and S
    uint64_t given;  // bytes of its buffer that they take
};

struct kva_lcpp_cache {
    enum kva_lcpp_kind kind;
    const char *name;  // "SWA"
    uint64_t cells, streams;
    struct kva_lcpp_tensors *tensors;
    size_t n_tensors;
    uint64_t k, v;          // sums
    uint64_t *given;        // [devices]
    uint64_t ratio, width;  // KVA_LCPP_COMPRESSOR: `cells` x `width`
};

enum { KVA_LCPP_CACHES = 8 };  // DeepSeek-V4 has as many
struct kva_lcpp_memory {
    struct kva_lcpp_model model;
    struct kva_lcpp_cells cells;
    struct kva_lcpp_cache caches[KVA_LCPP_CACHES];
    size_t n;
    uint64_t n_seq_max;
    const uint32_t *device;  // [layers]
    size_t n_devices;
    bool sums_only;  // the caches have no `tensors`
};

// The call's own memory, with the model read; its layers are spread once the deployment is resolved.
enum kva_status kva_lcpp_memory_open(struct kva_call *call, struct kva_lcpp_memory **memory);
enum kva_status kva_lcpp_memory_spread(struct kva_call *call, struct kva_lcpp_memory *memory);
// Makes every cache of n_ctx cells for n_seq_max sequences, in place of those that were there.
enum kva_status kva_lcpp_memory_fill(struct kva_call *call, struct kva_lcpp_memory *memory, uint64_t n_ctx,
                                     uint64_t n_seq_max);

// How a buffer type rounds what it is asked for.
struct kva_lcpp_buffer {
    const char *name;      // "CUDA", "CPU"
    bool numbered;         // "CUDA0"
    uint64_t alignment;    // of each tensor; 1: none
    uint64_t row_padding;  // of the last row of a quantized tensor; 0: none
};
struct kva_lcpp_buffer kva_lcpp_buffer_of(const struct kva_call *call);
// "CUDA1", in the call's arena; NULL: out of memory.
const char *kva_lcpp_device_name(const struct kva_call *call, size_t device);
// The GPU that holds each layer when the GPUs have equal free memory, or as pp_partition says, [n_layers].
enum kva_status kva_lcpp_devices(struct kva_call *call, const uint32_t **device);

// ---------------------------------------------------------------- what a plan takes of them

enum kva_status kva_lcpp_allocate(struct kva_call *call, struct kva_engine_allocation *allocation);
// Layers, pools and the device that holds most, of caches that are made.
enum kva_status kva_lcpp_allocation_fill(struct kva_call *call, const struct kva_lcpp_memory *memory,
                                         struct kva_engine_allocation *allocation);
enum kva_status kva_lcpp_budget(struct kva_call *call);
// Shrinks a context that nobody asked for to what fits the budget, if there is one.
enum kva_status kva_lcpp_fit(struct kva_call *call);
enum kva_status kva_lcpp_capacity(struct kva_call *call, const struct kva_lcpp_memory *memory,
                                  struct kva_capacity *capacity);
enum kva_status kva_lcpp_print_lines(struct kva_call *call, const struct kva_engine_allocation *allocation);

#endif
