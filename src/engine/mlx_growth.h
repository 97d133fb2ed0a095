// How many rows MLX-LM's cache classes hold after a prompt and the tokens that follow it (mlx_lm/models/cache.py).
// Nothing is set aside at start: every pass over some tokens makes a cache grow, and may drop what a window left
// behind.
#ifndef KVA_ENGINE_MLX_GROWTH_H
#define KVA_ENGINE_MLX_GROWTH_H

#include <stdbool.h>
#include <stdint.h>

enum { KVA_MLX_STEP = 256 };  // rows that a cache grows by

enum kva_mlx_class { KVA_MLX_GROWING, KVA_MLX_ROTATING, KVA_MLX_CHUNKED };

// What a chunked cache drops before a pass.
enum kva_mlx_chunk_trim {
    KVA_MLX_TRIM_ALLOCATED_CHUNK,   // a chunk of rows, once a chunk is allocated
    KVA_MLX_TRIM_ALLOCATED_EXCESS,  // all rows beyond a chunk that are allocated, used or not
    KVA_MLX_TRIM_TOKENS,            // the tokens beyond a chunk, and the rows that hold none
};

struct kva_mlx_cache {
    enum kva_mlx_class class;
    uint64_t window;   // most rows of a rotating cache, tokens of a chunk
    uint64_t history;  // old rows that a rotating cache keeps before a pass of many tokens
    enum kva_mlx_chunk_trim chunk_trim;
    uint64_t rows;    // allocated
    uint64_t offset;  // tokens seen
    int64_t held;     // tokens of a chunked cache: the offset less the position it starts at
};

// One pass over `tokens` tokens.
void kva_mlx_pass(struct kva_mlx_cache *cache, uint64_t tokens);

// `tokens` passes over one token each. *most: the most rows between them. False: too many passes to follow.
bool kva_mlx_decode(struct kva_mlx_cache *cache, uint64_t tokens, uint64_t *most);

#endif
