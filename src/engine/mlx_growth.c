#include "engine/mlx_growth.h"

#include "base/checked.h"

enum { MOST_STEPS = 1 << 20 };  // single steps that are followed one by one

static uint64_t whole_steps(uint64_t tokens)
{
    return tokens / KVA_MLX_STEP * KVA_MLX_STEP + (tokens % KVA_MLX_STEP != 0 ? KVA_MLX_STEP : 0);
}

// cache.py KVCache.update_and_fetch: when the tokens do not fit, cut to what is held if that is not a whole number of
// steps, then add whole steps for the new ones.
static uint64_t grown(uint64_t rows, uint64_t held, uint64_t tokens)
{
    if (rows > 0 && held + tokens <= rows)
        return rows;
    return (held % KVA_MLX_STEP != 0 ? held : rows) + whole_steps(tokens);
}

// RotatingKVCache._update_concat for many tokens: what is held in order, cut to the history, and the whole pass.
// _update_in_place for one: grows to the window by steps, and is cut to it.
static void rotate(struct kva_mlx_cache *cache, uint64_t tokens)
{
    if (tokens > 1) {
        cache->rows = kva_min(kva_min(cache->rows, cache->offset), cache->history) + tokens;
        return;
    }
    if (cache->offset >= cache->rows && cache->rows < cache->window)
        cache->rows += kva_min(KVA_MLX_STEP, cache->window - kva_min(cache->offset, cache->window));
    cache->rows = kva_min(cache->rows, cache->window);
}

// ChunkedKVCache.maybe_trim_front, which the model calls before each pass.
static void trim_front(struct kva_mlx_cache *cache)
{
    const int64_t rows = (int64_t)cache->rows, chunk = (int64_t)cache->window;
    int64_t dropped = 0;
    if (cache->chunk_trim == KVA_MLX_TRIM_TOKENS && cache->held > chunk) {
        dropped = cache->held - chunk;
        cache->rows = cache->window;
    } else if (cache->chunk_trim == KVA_MLX_TRIM_ALLOCATED_EXCESS && rows >= chunk) {
        dropped = rows - chunk;
        cache->rows = cache->window;
    } else if (cache->chunk_trim == KVA_MLX_TRIM_ALLOCATED_CHUNK && rows >= chunk) {
        dropped = chunk;
        cache->rows -= cache->window;
    }
    cache->held -= dropped;
}

// The same as `grown` where more may have been dropped than was held. (Python slices count from the end then.)
static uint64_t grown_chunk(const struct kva_mlx_cache *cache, uint64_t tokens)
{
    const int64_t held = cache->held, rows = (int64_t)cache->rows;
    if (rows > 0 && held + (int64_t)tokens <= rows)
        return cache->rows;
    const int64_t kept = held % KVA_MLX_STEP == 0 ? rows
                         : held >= 0              ? (held < rows ? held : rows)
                                                  : (rows + held > 0 ? rows + held : 0);
    return (uint64_t)kept + whole_steps(tokens);
}

void kva_mlx_pass(struct kva_mlx_cache *cache, uint64_t tokens)
{
    switch (cache->class) {
    case KVA_MLX_GROWING:
        cache->rows = grown(cache->rows, cache->offset, tokens);
        break;
    case KVA_MLX_ROTATING:
        rotate(cache, tokens);
        break;
    case KVA_MLX_CHUNKED:
        trim_front(cache);
        cache->rows = grown_chunk(cache, tokens);
        cache->held += (int64_t)tokens;
        break;
    }
    cache->offset += tokens;
}

// A chunked cache that has dropped something comes back to the same rows: after every token where tokens are counted,
// else after every step of KVA_MLX_STEP.
static bool decode_chunked(struct kva_mlx_cache *cache, uint64_t tokens, uint64_t *most)
{
    if (cache->chunk_trim != KVA_MLX_TRIM_ALLOCATED_CHUNK && tokens > cache->window + 4 * KVA_MLX_STEP) {
        const uint64_t settled = cache->window + 3 * KVA_MLX_STEP, cycles = (tokens - settled) / KVA_MLX_STEP;
        cache->offset += cycles * KVA_MLX_STEP;
        tokens -= cycles * KVA_MLX_STEP;
    }
    if (tokens > MOST_STEPS)
        return false;
    for (uint64_t t = 0; t < tokens; t++) {
        kva_mlx_pass(cache, 1);
        *most = kva_max(*most, cache->rows);
    }
    return true;
}

bool kva_mlx_decode(struct kva_mlx_cache *cache, uint64_t tokens, uint64_t *most)
{
    *most = 0;
    if (tokens == 0)
        return true;
    if (cache->class == KVA_MLX_CHUNKED)
        return decode_chunked(cache, tokens, most);
    const uint64_t end = cache->offset + tokens;
    if (cache->class == KVA_MLX_ROTATING && cache->rows >= cache->window)
        cache->rows = cache->window;
    else {
        const uint64_t free = cache->rows > cache->offset ? cache->rows - cache->offset : 0;
        if (tokens > free) {
            cache->rows = grown(cache->rows, cache->offset + free, 1);
            cache->rows += whole_steps(tokens - free) - KVA_MLX_STEP;
        }
        if (cache->class == KVA_MLX_ROTATING)
            cache->rows = kva_min(cache->rows, cache->window);
    }
    cache->offset = end;
    *most = cache->rows;
    return true;
}
