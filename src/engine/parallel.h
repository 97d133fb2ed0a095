// What one rank holds of a model: its share of heads and states, and the layers of its pipeline stage.
#ifndef KVA_ENGINE_PARALLEL_H
#define KVA_ENGINE_PARALLEL_H

#include "base/checked.h"
#include "engine/cache_bytes.h"
#include "engine/engine.h"

// KV heads of one of `tp` ranks. Engines differ where tp does not divide the heads.
static inline uint64_t kva_heads_floor(uint64_t heads, uint64_t tp)  // at least one head: fewer heads are replicated
{
    return heads == 0 ? 0 : kva_max(heads / kva_max(tp, 1), 1);
}
// The same where one must divide the other, as models assert. Errors: KVA_BAD_INPUT (anything between).
enum kva_status kva_heads_even(struct kva_call *call, uint64_t heads, uint64_t tp, uint64_t *share);
static inline uint64_t kva_heads_ceil(uint64_t heads, uint64_t tp)
{
    return heads / kva_max(tp, 1) + (heads % kva_max(tp, 1) != 0);
}
static inline uint64_t kva_ceil_div(uint64_t a, uint64_t b)  // b > 0
{
    return a / b + (a % b != 0);
}

// Are its rows the same on every rank, whatever tp is? (One compressed row, one key of an indexer.)
static inline bool kva_cache_is_replicated(const struct kva_cache *cache)
{
    return cache->kind == KVA_CACHE_LATENT || cache->kind == KVA_CACHE_INDEX || cache->shared_kv;
}

// The smallest share of a cache that a rank of `tp` can work with: ceil(heads / tp) heads, ceil(elements / tp) of each
// part of a state, a replicated row whole. This is what the need of a rank counts.
struct kva_cache kva_cache_on_rank(const struct kva_cache *cache, uint64_t tp);

// Rows of one of `dcp` ranks: caches that grow are dealt out row by row, the others are whole on each.
static inline uint64_t kva_rows_on_rank(const struct kva_cache *cache, uint64_t rows, uint64_t dcp)
{
    const bool grows =
        cache->kind == KVA_CACHE_FULL || cache->kind == KVA_CACHE_LATENT || cache->kind == KVA_CACHE_INDEX;
    return grows ? kva_ceil_div(rows, kva_max(dcp, 1)) : rows;
}

// Layers of each of `pp` stages, sizes[pp]: as even as can be, the first stages take the rest.
void kva_stages_even(uint64_t n_layers, uint64_t pp, uint64_t *sizes);
// The same where the rest goes to the stages before the last, from the back (vLLM's get_pp_indices).
void kva_stages_inner(uint64_t n_layers, uint64_t pp, uint64_t *sizes);
// The same where the last stages take the rest (SGLang's get_pp_indices).
void kva_stages_last(uint64_t n_layers, uint64_t pp, uint64_t *sizes);
// The stage of each layer, [n_layers] in the call's arena: spread so, or as the deployment's pp_partition says. Errors:
// KVA_BAD_INPUT (not pp numbers of layers, or not as many as there are), KVA_MACHINE.
enum kva_status kva_stages_lay(struct kva_call *call, void (*spread)(uint64_t n_layers, uint64_t pp, uint64_t *sizes),
                               const uint32_t **stage_of);

#endif
