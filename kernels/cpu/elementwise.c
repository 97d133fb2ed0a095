// Operations on one element or one row at a time.
#include <math.h>

#include "kernels/cpu/cpu.h"

// A counter-based generator (the finaliser of splitmix64, https://prng.di.unimi.it/splitmix64.c): element `index`
// depends on nothing but the seed and itself, so every backend makes the same weights. In [-1, 1), 24 bits.
static float uniform(uint64_t seed, uint64_t index)
{
    uint64_t z = seed * UINT64_C(0x9E3779B97F4A7C15) + (index + 1) * UINT64_C(0xD1B54A32D192ED03);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    z ^= z >> 31;
    return (float)((int32_t)(uint32_t)(z >> 40) - 8388608) / 8388608.0f;
}

enum kva_status kva_cpu_fill(struct kva_device *device, const struct kva_fill_args *a, struct kva_error *error)
{
    (void)device, (void)error;
    for (uint64_t i = 0; i < a->elements; i++)
        kva_store(a->dtype, a->y, i,
                  a->fill == KVA_FILL_A_LOG ? (float)log((double)(1 + i % a->period))
                                            : fmaf(a->scale, uniform(a->seed, i), a->mean));
    return KVA_OK;
}

enum kva_status kva_cpu_embed(struct kva_device *device, const void *table, const uint32_t *tokens, float *out,
                              uint64_t rows, uint64_t width, float scale, struct kva_error *error)
{
    (void)error;
    for (uint64_t r = 0; r < rows; r++)
        for (uint64_t i = 0; i < width; i++)
            out[r * width + i] = kva_load(device->act, table, tokens[r] * width + i) * scale;
    return KVA_OK;
}

enum kva_status kva_cpu_add_bias(struct kva_device *device, void *x, const void *bias, uint64_t rows, uint64_t width,
                                 uint64_t stride, bool x_f32, struct kva_error *error)
{
    (void)error;
    const enum kva_dtype dtype = x_f32 ? KVA_F32 : device->act;
    for (uint64_t r = 0; r < rows; r++)
        for (uint64_t i = 0; i < width; i++)
            kva_store(dtype, x, r * stride + i, kva_load(dtype, x, r * stride + i) + kva_load(device->act, bias, i));
    return KVA_OK;
}

enum kva_status kva_cpu_add(struct kva_device *device, float *x, const void *y, uint64_t rows, uint64_t width,
                            struct kva_error *error)
{
    (void)error;
    for (uint64_t i = 0; i < rows * width; i++)
        x[i] += kva_load(device->act, y, i);
    return KVA_OK;
}

static float activate(uint32_t activation, float x)
{
    switch (activation) {
    case KVA_GLU_SILU:
        return x / (1 + expf(-x));
    case KVA_GLU_GELU_TANH:
        return 0.5f * x * (1 + tanhf(0.79788456080286536f * (x + 0.044715f * x * x * x)));
    default:
        return 0.5f * x * (1 + erff(x * 0.70710678118654752f));
    }
}

enum kva_status kva_cpu_glu(struct kva_device *device, const struct kva_glu_args *a, struct kva_error *error)
{
    (void)error;
    for (uint64_t r = 0; r < a->rows; r++)
        for (uint64_t i = 0; i < a->width; i++) {
            const float gate = kva_load(device->act, a->gate_up, r * a->gate_up_stride + i);
            const float up = kva_load(device->act, a->gate_up, r * a->gate_up_stride + a->width + i);
            kva_store(device->act, a->y, r * a->y_stride + i, activate(a->activation, gate) * up);
        }
    return KVA_OK;
}

enum kva_status kva_cpu_gate(struct kva_device *device, const struct kva_gate_args *a, struct kva_error *error)
{
    (void)error;
    for (uint64_t r = 0; r < a->rows; r++)
        for (uint64_t i = 0; i < a->width; i++)
            kva_store(device->act, a->y, r * a->y_stride + i,
                      activate(KVA_GLU_SILU, kva_load(device->act, a->gate, r * a->gate_stride + i)) *
                          kva_load(device->act, a->x, r * a->x_stride + i));
    return KVA_OK;
}

enum kva_status kva_cpu_gather(struct kva_device *device, void *to, uint64_t to_stride, const void *from,
                               uint64_t from_stride, const uint32_t *rows_index, uint64_t rows, uint64_t bytes,
                               struct kva_error *error)
{
    (void)device, (void)error;
    for (uint64_t r = 0; r < rows; r++)
        memcpy((char *)to + r * to_stride, (const char *)from + rows_index[r] * from_stride, bytes);
    return KVA_OK;
}

enum kva_status kva_cpu_softcap(struct kva_device *device, float *x, uint64_t elements, float cap,
                                struct kva_error *error)
{
    (void)device, (void)error;
    for (uint64_t i = 0; i < elements; i++)
        x[i] = cap * tanhf(x[i] / cap);
    return KVA_OK;
}

enum kva_status kva_cpu_argmax(struct kva_device *device, const float *x, uint64_t rows, uint64_t width,
                               uint32_t *tokens, struct kva_error *error)
{
    (void)device, (void)error;
    for (uint64_t r = 0; r < rows; r++) {
        uint64_t best = 0;
        bool numbers = true;
        for (uint64_t i = 0; i < width; i++) {
            numbers = numbers && x[r * width + i] < INFINITY;
            if (x[r * width + i] > x[r * width + best])
                best = i;
        }
        tokens[r] = numbers ? (uint32_t)best : KVA_NO_TOKEN;
    }
    return KVA_OK;
}
