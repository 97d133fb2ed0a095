// The need of one cache in an engine's format.
#ifndef KVA_PLAN_NEED_H
#define KVA_PLAN_NEED_H

#include "engine/kv_types.h"

// As kva_need_bytes, on one of `dcp` ranks of decode-context parallelism.
enum kva_status kva_need_format_bytes(const struct kva_cache *cache, uint64_t context, uint64_t dcp,
                                      const struct kva_kv_type *format, enum kva_dtype model_dtype, uint64_t *bytes,
                                      struct kva_error *error);

#endif
