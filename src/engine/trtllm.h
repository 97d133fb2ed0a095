// TensorRT-LLM's PyTorch backend: blocks of a power of two of tokens, in pools of manager V1 (one for all layers, or
// one for each window that is asked for) or of manager V2 (one quota that groups of layers share).
#ifndef KVA_ENGINE_TRTLLM_H
#define KVA_ENGINE_TRTLLM_H

#include "engine/engine.h"

enum trtllm_auto { TRTLLM_AUTO_V1, TRTLLM_AUTO_BY_ARCHITECTURE };
enum trtllm_v1_windows { V1_WINDOWS_UNKNOWN, V1_WINDOWS_EQUAL_SHARES };
enum trtllm_states { TRTLLM_STATES_UNKNOWN, TRTLLM_STATES_SLOTS };
enum trtllm_index { TRTLLM_INDEX_NONE, TRTLLM_INDEX_BLOCKS };

// What differs by version, as data/engines/tensorrt-llm.yaml says.
struct trtllm {
    uint64_t tokens_per_block, max_batch, max_tokens_of_a_pass;
    double memory_fraction, v2_resume_share;
    int manager, v1_windows, states, index;
    bool has_v2, v2_windows;
};

enum { TRTLLM_MAX_WINDOWS = 64 };

// What a layer takes on one rank.
struct trtllm_layer {
    uint64_t row;     // bytes of one token
    uint64_t plain;   // the same without an NVFP4 cache's scales
    uint64_t window;  // tokens; the context where it has none
    uint64_t state;   // bytes of one sequence
    uint64_t conv, ssm;
    uint32_t stage;
};

struct trtllm_shape {
    bool v2;
    struct trtllm_layer *layers;  // [model->n_layers]
    uint64_t draft_row;           // bytes of one token, all draft layers; on the last stage
    uint64_t slots_beside;        // states beside those of live sequences
    bool states;
    uint64_t windows[TRTLLM_MAX_WINDOWS];  // distinct, ascending
    size_t n_windows;
};

// Bytes of a stage: of one token of layers of `window` (0: of all), of one sequence's states.
uint64_t trtllm_stage_row(const struct kva_call *call, const struct trtllm_shape *shape, uint64_t stage,
                          uint64_t window);
uint64_t trtllm_stage_plain_row(const struct kva_call *call, const struct trtllm_shape *shape, uint64_t stage,
                                uint64_t window);
uint64_t trtllm_stage_state(const struct kva_call *call, const struct trtllm_shape *shape, uint64_t stage);
uint64_t trtllm_max_batch(const struct kva_call *call);

// Errors: KVA_REFUSED (caches that the manager does not keep or that were not read), KVA_BAD_INPUT (states that do not
// divide, windows that are no list).
enum kva_status trtllm_shape_of(struct kva_call *call, struct trtllm_shape *shape);

// The pools of manager V1: one for each window.
struct trtllm_pools {
    uint64_t blocks[TRTLLM_MAX_WINDOWS];  // of shape->windows
    uint64_t slots;                       // states
};
enum kva_status trtllm_v1_pools(struct kva_call *call, const struct trtllm_shape *shape, struct trtllm_pools *pools);
enum kva_status trtllm_v1_allocate(struct kva_call *call, const struct trtllm_shape *shape,
                                   struct kva_engine_allocation *allocation);
enum kva_status trtllm_v1_print(struct kva_call *call, const struct trtllm_shape *shape);

// The quota of manager V2, and the tokens that it holds.
double trtllm_v2_tokens(const struct kva_call *call, const struct trtllm_shape *shape, uint64_t stage, double quota);
double trtllm_v2_quota(const struct kva_call *call, const struct trtllm_shape *shape, uint64_t stage, double tokens);
enum kva_status trtllm_v2_allocate(struct kva_call *call, const struct trtllm_shape *shape,
                                   struct kva_engine_allocation *allocation);
enum kva_status trtllm_v2_print(struct kva_call *call, const struct trtllm_shape *shape);

#endif
