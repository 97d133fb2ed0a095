// Inverse frequencies of rotary embeddings. Source: Transformers' modeling_rope_utils.py, ROPE_INIT_FUNCTIONS.
#ifndef KVA_EXEC_ROPE_TABLE_H
#define KVA_EXEC_ROPE_TABLE_H

#include "kvatlas.h"

// Elements of a head that rotate: head_dim x partial, rounded down.
uint64_t kva_rope_dim(const struct kva_rope *rope, uint64_t head_dim);

// table: [kva_rope_dim / 2] floats. tokens: how many the run's context holds; dynamic and longrope choose by it.
// *scale: what cos and sin are multiplied by. Errors: KVA_BAD_INPUT (a longrope list of the wrong length).
enum kva_status kva_rope_table(const struct kva_rope *rope, uint64_t head_dim, uint64_t tokens, float *table,
                               float *scale, struct kva_error *error);

#endif
