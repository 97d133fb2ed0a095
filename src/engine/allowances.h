// data/allowances.yaml: what of a GPU is neither weights nor caches, as a stated guess.
#ifndef KVA_ENGINE_ALLOWANCES_H
#define KVA_ENGINE_ALLOWANCES_H

#include "engine/engine.h"

// Fills the deployment's activation_bytes, graph_bytes and other_bytes where they are not said, and notes each. Nothing
// happens without an atlas. Errors: KVA_BAD_INPUT (a file that breaks its schema), KVA_MACHINE.
enum kva_status kva_allowances_fill(struct kva_call *call);

#endif
