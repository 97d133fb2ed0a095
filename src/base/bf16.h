// bfloat16: the upper half of a float32.
#ifndef KVA_BASE_BF16_H
#define KVA_BASE_BF16_H

#include <stdint.h>
#include <string.h>

static inline float kva_bf16_to_f32(uint16_t bits)
{
    const uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

// Round to nearest even; a NaN stays one.
static inline uint16_t kva_f32_to_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#endif
