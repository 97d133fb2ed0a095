// The sizes that every policy builds from: one row of a cache, one state, the rows that a window keeps.
#ifndef KVA_ENGINE_CACHE_BYTES_H
#define KVA_ENGINE_CACHE_BYTES_H

#include "engine/facts.h"
#include "kvatlas.h"

static inline bool kva_cache_is_state(const struct kva_cache *cache)
{
    return cache->kind == KVA_CACHE_STATE;
}

// Does it hold one row a token?
static inline bool kva_cache_has_rows(const struct kva_cache *cache)
{
    return cache->kind != KVA_CACHE_NONE && cache->kind != KVA_CACHE_STATE;
}

static inline bool kva_cache_has_window(const struct kva_cache *cache)
{
    return cache->kind == KVA_CACHE_SLIDING || cache->kind == KVA_CACHE_CHUNKED;
}

// Does a layer of the model have a cache of this kind?
bool kva_model_has_cache(const struct kva_model *model, enum kva_cache_kind kind);

// Does a layer of the model read another layer's cache?
bool kva_model_shares(const struct kva_model *model);
// Has a layer of the model a window that is shorter than `context`?
bool kva_model_window_binds(const struct kva_model *model, uint64_t context);

// An indexer's key in 8 bits with a float32 scale of every 128 elements, as engines keep it whatever the cache's type
// (vLLM DeepseekV32IndexerCache, SGLang NSATokenToKVPool).
static inline uint64_t kva_index_key_bytes(uint64_t dim)
{
    return dim + dim / 128 * 4;
}

// Rows that the architecture must keep at `context` tokens: all, floor(context / ratio), those of a window, or those of
// an encoder (0 while its length is not known).
uint64_t kva_cache_rows(const struct kva_cache *cache, uint64_t context);

// The same without windows.
uint64_t kva_cache_full_rows(const struct kva_cache *cache, uint64_t context);

// What one more token adds to a cache that still grows, on average where a row stands for several; 0 for a state and
// for encoder states. A layer that reads another's cache adds nothing. Errors: as kva_cache_format_bytes.
enum kva_status kva_cache_token_bytes(const struct kva_cache *cache, const struct kva_kv_type *format, uint64_t *bytes,
                                      struct kva_error *error);

// One row of keys and values in an engine's format, whose scales count. Errors: KVA_BAD_INPUT (type unknown, overflow),
// KVA_REFUSED (encoder states of which nobody says how long they are).
enum kva_status kva_cache_format_bytes(const struct kva_cache *cache, const struct kva_kv_type *format, uint64_t *bytes,
                                       struct kva_error *error);

// One sequence's state. Errors: KVA_BAD_INPUT (dtype unknown, overflow).
enum kva_status kva_cache_state_bytes(const struct kva_cache *cache, enum kva_dtype model_dtype, uint64_t *bytes,
                                      struct kva_error *error);

// Same kind and same sizes, whichever layer holds it.
bool kva_cache_same_shape(const struct kva_cache *a, const struct kva_cache *b);

const char *kva_cache_kind_name(enum kva_cache_kind kind);  // "sliding"

#endif
