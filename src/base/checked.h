// Checked arithmetic on byte counts: every function returns false, and leaves *out alone, when the result would wrap.
#ifndef KVA_BASE_CHECKED_H
#define KVA_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool kva_add(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        return false;
    *out = sum;
    return true;
}

static inline bool kva_mul(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t product;
    if (__builtin_mul_overflow(a, b, &product))
        return false;
    *out = product;
    return true;
}

static inline bool kva_mul3(uint64_t a, uint64_t b, uint64_t c, uint64_t *out)
{
    uint64_t ab;
    return kva_mul(a, b, &ab) && kva_mul(ab, c, out);
}

// *total += a * b
static inline bool kva_add_product(uint64_t *total, uint64_t a, uint64_t b)
{
    uint64_t product;
    return kva_mul(a, b, &product) && kva_add(*total, product, total);
}

// Rounds up to a multiple of `unit` (> 0).
static inline bool kva_round_up(uint64_t bytes, uint64_t unit, uint64_t *out)
{
    uint64_t padded;
    if (!kva_add(bytes, unit - 1, &padded))
        return false;
    *out = padded / unit * unit;
    return true;
}

// x towards zero, as a count: 0 below 1 (and for what is no number), 2^63 from there on.
static inline uint64_t kva_whole(double x)
{
    return x >= 0x1p63 ? UINT64_C(1) << 63 : x >= 1 ? (uint64_t)x : 0;
}

static inline uint64_t kva_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}
static inline uint64_t kva_max(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

#endif
