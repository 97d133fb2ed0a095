// MLX-LM: which of its cache classes each of a model's caches gets, and what a row of it takes.
#ifndef KVA_ENGINE_MLX_H
#define KVA_ENGINE_MLX_H

#include "engine/engine.h"
#include "engine/mlx_growth.h"

enum history { HISTORY_WINDOW, HISTORY_WINDOW_LESS_ONE };
enum quantized_from { FROM_ABOVE, FROM_REACHED };
// all: or the run fails. growing: others stay as they are. able: those that have a way to; the rotating one's fails.
enum quantized_kinds { QUANTIZED_ALL, QUANTIZED_GROWING, QUANTIZED_ABLE_SUBCLASSES, QUANTIZED_ABLE };

// What differs by version, as data/engines/mlx-lm.yaml says.
struct mlx {
    uint64_t prefill_step, quantized_start, kept_prompts;
    bool last_token_alone;
    int rotating_history, chunk_trim, quantized_from, quantized_kinds;
};

enum { MLX_MOST_PASSES = 1 << 20 };  // that are followed one by one

// What the rules of the data file say of the model, looked up once.
struct mlx_choice {
    const char *windows, *indexes;
    bool own_cache;  // the model's file has a make_cache of its own
};
struct mlx_choice mlx_choose(const struct kva_call *call);

// Caches that grow alike.
struct mlx_cache {
    struct kva_mlx_cache growth;
    uint64_t plain_row, quantized_row;  // bytes of one row before and after quantization; 0: is never quantized
    uint64_t caches;                    // how many of them the model has
};

// mlx_lm/models/*.py make_cache; cache.py make_prompt_cache for a model that has none
struct kva_mlx_cache mlx_growth_of(const struct kva_call *call, const struct mlx_choice *choice,
                                   const struct kva_layer *layer, const struct kva_cache *cache);
// Errors: KVA_REFUSED (how the release keeps it, or quantizes it, is not known or fails), KVA_BAD_INPUT.
enum kva_status mlx_cache_of(struct kva_call *call, const struct mlx_choice *choice, const struct kva_layer *layer,
                             const struct kva_cache *cache, struct mlx_cache *out);
// Are the caches quantized once `offset` tokens have been processed?
bool mlx_is_quantized(const struct kva_call *call, uint64_t offset);

#endif
