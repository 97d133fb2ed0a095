// The blanks that every engine fills alike: context, sequences, element types, ranks.
#ifndef KVA_ENGINE_RESOLVE_H
#define KVA_ENGINE_RESOLVE_H

#include "engine/engine.h"

// Context: the model's limit. Sequences: 1. Ranks: 1. Encoder input: as the context. Notes each. A context beyond the
// model's limit is planned and noted. Errors: KVA_BAD_INPUT (no context known, a fraction outside (0, 1], numbers
// beyond what any machine has).
enum kva_status kva_resolve_common(struct kva_call *call);

// One step after another, until one fails.
typedef enum kva_status kva_resolve_step(struct kva_call *call);
enum kva_status kva_resolve_steps(struct kva_call *call, kva_resolve_step *const *steps, size_t n);

// With speculative tokens and nobody saying how many draft layers: the model's own of multi-token prediction, or one,
// of the target's shape.
enum kva_status kva_resolve_draft(struct kva_call *call);

// The cache's element type, into call->kv_format: what kv_type names in the engine's file, a plain element type, or the
// model's. `auto` is the model's. Errors: KVA_BAD_INPUT, with the types that the engine takes.
enum kva_status kva_resolve_kv_type(struct kva_call *call);

// Where the GPU's memory is known and the bytes for caches are not given: the weights of one rank and the allowances
// beside them, then the engine's own budget, into deployment->kv_bytes. Leaves everything alone otherwise. Errors:
// KVA_REFUSED where the weights' size is not known.
enum kva_status kva_resolve_budget(struct kva_call *call);

#endif
