// The memory of a rank before there are caches: which GPU, and how much of the weights it holds.
#ifndef KVA_ENGINE_MEMORY_H
#define KVA_ENGINE_MEMORY_H

#include "engine/engine.h"

// deployment->gpu to gpu_facts and gpu_bytes, before the engine resolves anything: its defaults may depend on them.
// Errors: KVA_REFUSED (no such GPU, or one whose memory nobody knows while nothing else says what there is for caches).
enum kva_status kva_resolve_gpu(struct kva_call *call);

// deployment->weight_bytes of the rank that holds most, where it is not said: KVA_UNKNOWN when the model's are.
// Of tensor ranks each holds its share of every class of weights but the norms, which each holds whole. Of pipeline
// stages the first holds the embedding, the last the head (or the embedding again, where that is the head), and each
// its share of the layers, which are taken to be equally large.
enum kva_status kva_resolve_weights(struct kva_call *call);

// The same for any numbers of ranks. KVA_UNKNOWN: not known.
uint64_t kva_weights_on_rank(const struct kva_model *model, uint64_t tp, uint64_t pp);

#endif
