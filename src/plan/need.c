// The need of one cache, from the architecture alone.
#include "plan/need.h"

#include "base/checked.h"
#include "base/error.h"
#include "engine/kv_types.h"
#include "engine/parallel.h"

// need(full)    = kv_heads x (k_dim + v_dim) x bytes x context
// need(sliding) = kv_heads x (k_dim + v_dim) x bytes x min(window, context)
//                 x floor(context / ratio) where one row stands for `ratio` tokens
// need(cross)   = kv_heads x (k_dim + v_dim) x bytes x the encoder's length
// need(state)   = sum over its parts of elements x bytes
enum kva_status kva_need_format_bytes(const struct kva_cache *cache, uint64_t context, uint64_t dcp,
                                      const struct kva_kv_type *format, enum kva_dtype model_dtype, uint64_t *bytes,
                                      struct kva_error *error)
{
    if (cache->reads_layer >= 0 || cache->kind == KVA_CACHE_NONE) {
        *bytes = 0;
        return KVA_OK;
    }
    if (kva_cache_is_state(cache))
        return kva_cache_state_bytes(cache, model_dtype, bytes, error);
    uint64_t row;
    enum kva_status status = kva_cache_format_bytes(cache, format, &row, error);
    if (status != KVA_OK)
        return status;
    if (!kva_mul(row, kva_rows_on_rank(cache, kva_cache_rows(cache, context), dcp), bytes))
        return kva_fail(error, KVA_BAD_INPUT, NULL, "context", "%llu tokens of %llu bytes are more than 2^64 bytes",
                        (unsigned long long)context, (unsigned long long)row);
    return KVA_OK;
}

enum kva_status kva_need_bytes(const struct kva_cache *cache, uint64_t context, enum kva_dtype kv_dtype,
                               enum kva_dtype model_dtype, uint64_t *bytes, struct kva_error *error)
{
    const struct kva_kv_type plain = kva_plain_kv_type(kv_dtype);
    return kva_need_format_bytes(cache, context, 1, &plain, model_dtype, bytes, error);
}
