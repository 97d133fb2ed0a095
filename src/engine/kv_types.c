#include "engine/kv_types.h"

#include "base/checked.h"

struct kva_kv_type kva_plain_kv_type(enum kva_dtype dtype)
{
    const uint32_t bits = (uint32_t)kva_dtype_bytes(dtype) * 8;
    return (struct kva_kv_type){.k = {.bits = bits}, .v = {.bits = bits}, .slot_multiple = 1};
}

bool kva_side_bytes(const struct kva_side_format *side, uint64_t elements, uint64_t *bytes)
{
    uint64_t bits, total;
    if (!kva_mul(elements, side->bits, &bits))
        return false;
    total = bits / 8 + (bits % 8 != 0);
    if (side->group > 0 &&
        !kva_add_product(&total, elements / side->group + (elements % side->group != 0), side->group_bytes))
        return false;
    return elements == 0 ? (*bytes = 0, true) : kva_add(total, side->vector_bytes, bytes);
}

bool kva_kv_row_bytes(const struct kva_kv_type *type, uint64_t heads, uint64_t k_dim, uint64_t v_dim, uint64_t *bytes)
{
    uint64_t k, v, slot;
    return kva_side_bytes(&type->k, k_dim, &k) && kva_side_bytes(&type->v, v_dim, &v) && kva_add(k, v, &slot) &&
           kva_round_up(slot, kva_max(type->slot_multiple, 1), &slot) && kva_mul(slot, heads, bytes);
}
