// Bytes of rows in the formats that caches are kept in.
#ifndef KVA_ENGINE_KV_TYPES_H
#define KVA_ENGINE_KV_TYPES_H

#include "engine/facts.h"

// Bytes of one vector of `elements` elements: ceil(elements * bits / 8) + ceil(elements / group) * group_bytes +
// vector_bytes. False: it wraps.
bool kva_side_bytes(const struct kva_side_format *side, uint64_t elements, uint64_t *bytes);
// Keys and values of one row of `heads` heads, each head's slot rounded up as the type says.
bool kva_kv_row_bytes(const struct kva_kv_type *type, uint64_t heads, uint64_t k_dim, uint64_t v_dim, uint64_t *bytes);

// The format of a plain element type; 0 bits for KVA_DTYPE_NONE.
struct kva_kv_type kva_plain_kv_type(enum kva_dtype dtype);

#endif
