#ifndef KVA_EMULATED_CUDA_BF16_H
#define KVA_EMULATED_CUDA_BF16_H

#include <stdint.h>
#include <string.h>

struct __nv_bfloat16 {
    uint16_t bits;
};

static inline float __bfloat162float(__nv_bfloat16 x)
{
    const uint32_t wide = (uint32_t)x.bits << 16;
    float f;
    memcpy(&f, &wide, 4);
    return f;
}

static inline __nv_bfloat16 __float2bfloat16_rn(float f)
{
    uint32_t wide;
    memcpy(&wide, &f, 4);
    if (f != f)
        return __nv_bfloat16{0x7fff};
    return __nv_bfloat16{(uint16_t)((wide + 0x7fff + (wide >> 16 & 1)) >> 16)};
}

#endif
