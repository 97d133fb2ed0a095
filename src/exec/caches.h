// The caches of a run: sized from the shapes of the weights, so that what the plan says is compared with something
// that does not come from the plan.
#ifndef KVA_EXEC_CACHES_H
#define KVA_EXEC_CACHES_H

#include "exec/weights.h"

struct kva_layer_cache {
    void *k, *v;                // act [sequences, rows, k_width], [sequences, rows, v_width]; NULL: owns none
    uint64_t rows;              // tokens kept of each sequence
    uint64_t k_width, v_width;  // elements of one token's row
    void *conv, *recurrent;     // act [sequences, d_inner, K - 1], [sequences, d_inner, N]; NULL: no state
    int32_t reads_layer;        // -1: its own
};

struct kva_caches {
    struct kva_layer_cache *layers;  // [n_layers]
    size_t n_layers;
};

// exact: rings for windows, one cache for layers that share. Otherwise every attention layer gets a full-length cache
// of its own, and layers that share fill theirs with the rows of the layer they read.
enum kva_status kva_caches_alloc(const struct kva_model *model, const struct kva_weights *weights, bool exact,
                                 uint64_t context, uint64_t sequences, enum kva_dtype act, struct kva_ledger *ledger,
                                 struct kva_caches *caches, struct kva_error *error);
void kva_caches_release(struct kva_caches *caches);

#endif
