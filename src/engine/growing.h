// What engines share whose caches grow as tokens are processed, one sequence after the other: no pool, no budget, and
// no ranks that kvatlas knows of. (MLX-LM, Transformers.)
#ifndef KVA_ENGINE_GROWING_H
#define KVA_ENGINE_GROWING_H

#include "engine/cache_bytes.h"
#include "engine/engine.h"

// The value of rule `name` for the model: by its architecture, its model_type, or that with or without "_text"; NULL:
// none.
const char *kva_growing_rule(const struct kva_call *call, const char *name);

// Errors: KVA_REFUSED where no rule `native` holds for the model: the release has no class of its own for it.
enum kva_status kva_growing_native(struct kva_call *call);

// Caches have the type that the model computes in. `instead`: what makes them smaller. Errors: KVA_BAD_INPUT (another
// type was asked for).
enum kva_status kva_growing_model_dtype(struct kva_call *call, const char *instead);

// Errors: KVA_REFUSED (tp, pp, dcp or pcp: how caches are divided is not known).
enum kva_status kva_growing_one_rank(struct kva_call *call);

// deployment->prompt: all but the last token of the context. Errors: KVA_BAD_INPUT (a prompt longer than the context).
enum kva_status kva_growing_prompt(struct kva_call *call);

// Has it a window as far as the engine's own classes know? One that never binds because it is not less than the context
// limit counts, one that another key switches off does not.
static inline bool kva_growing_has_window(const struct kva_cache *cache)
{
    return kva_cache_has_window(cache) || cache->window_long;
}

// A latent row as the release keeps it, by rule `latents`: as it is (kept), or as the keys and values of each head
// (expanded). Errors: KVA_REFUSED (no rule, or the config does not tell the heads' sizes).
enum kva_status kva_growing_latent(struct kva_call *call, struct kva_cache *cache);

// Adds one sequence's state to *bytes: parts of convolutions with `columns` more columns than the architecture needs
// and in the model's type, the other parts in that of rule `recurrent`. Errors: KVA_BAD_INPUT, KVA_REFUSED (no rule).
enum kva_status kva_growing_state(struct kva_call *call, const struct kva_cache *cache, uint64_t columns,
                                  uint64_t *bytes);

// The refusal: how the release keeps `what` of the model is not known.
enum kva_status kva_growing_unknown(struct kva_call *call, const char *what);

// Why the caches take more than the architecture needs, the weightiest reason that is the same for these engines; NULL:
// none of them. ignores_windows: some layer with a window that binds keeps every token.
const char *kva_growing_overpay(const struct kva_call *call, bool ignores_windows);

#endif
