// RMS norm, LayerNorm, norm by head, and the end of differential attention.
#include <math.h>

#include "kernels/cpu/cpu.h"

enum kva_status kva_cpu_norm(struct kva_device *device, const struct kva_norm_args *a, struct kva_error *error)
{
    (void)error;
    const enum kva_dtype in = a->x_f32 ? KVA_F32 : device->act;
    for (uint64_t r = 0; r < a->rows; r++) {
        const uint64_t x = r * a->x_stride, y = r * a->y_stride;
        double sum = 0, squares = 0;
        for (uint64_t i = 0; a->layer_norm && i < a->width; i++)
            sum += kva_load(in, a->x, x + i);
        const float mean = (float)(sum / (double)a->width);
        for (uint64_t i = 0; i < a->width; i++) {
            const float centred = kva_load(in, a->x, x + i) - mean;
            squares += (double)centred * centred;
        }
        const float scale = 1 / sqrtf((float)(squares / (double)a->width) + a->eps);
        for (uint64_t i = 0; i < a->width; i++) {
            float value =
                (kva_load(in, a->x, x + i) - mean) * scale * (kva_load(device->act, a->weight, i) + a->weight_offset);
            if (a->bias != NULL)
                value += kva_load(device->act, a->bias, i);
            kva_store(device->act, a->y, y + i, value);
        }
    }
    return KVA_OK;
}

enum kva_status kva_cpu_head_norm(struct kva_device *device, const struct kva_head_norm_args *a,
                                  struct kva_error *error)
{
    for (uint64_t h = 0; h < a->heads; h++) {
        const uint64_t offset = h * a->head_dim * kva_dtype_bytes(device->act);
        const struct kva_norm_args head = {.x = (char *)a->x + offset,
                                           .y = (char *)a->x + offset,
                                           .weight = a->weight,
                                           .rows = a->rows,
                                           .width = a->head_dim,
                                           .x_stride = a->stride,
                                           .y_stride = a->stride,
                                           .eps = a->eps,
                                           .weight_offset = a->weight_offset};
        kva_cpu_norm(device, &head, error);
    }
    return KVA_OK;
}

static float dot(const float *a, const float *b, uint64_t n)
{
    double sum = 0;
    for (uint64_t i = 0; i < n; i++)
        sum += (double)a[i] * b[i];
    return (float)sum;
}

enum kva_status kva_cpu_differential(struct kva_device *device, const struct kva_differential_args *a,
                                     struct kva_error *error)
{
    if (a->width > MAX_HEAD_WIDTH)
        return kva_fail(error, KVA_MACHINE, NULL, "differential", "a head of %llu elements is wider than %d",
                        (unsigned long long)a->width, MAX_HEAD_WIDTH);
    const float lambda = expf(dot(a->q1, a->k1, a->head_dim)) - expf(dot(a->q2, a->k2, a->head_dim)) + a->lambda_init;
    float mixed[MAX_HEAD_WIDTH];
    for (uint64_t r = 0; r < a->rows; r++)
        for (uint64_t j = 0; j < a->heads / 2; j++) {
            const uint64_t even = r * a->x_stride + 2 * j * a->width, odd = even + a->width;
            double squares = 0;
            for (uint64_t i = 0; i < a->width; i++) {
                mixed[i] = kva_load(device->act, a->x, even + i) - lambda * kva_load(device->act, a->x, odd + i);
                squares += (double)mixed[i] * mixed[i];
            }
            const float scale = 1 / sqrtf((float)(squares / (double)a->width) + a->eps) * (1 - a->lambda_init);
            for (uint64_t i = 0; i < a->width; i++)
                kva_store(device->act, a->y, r * a->y_stride + j * a->width + i,
                          mixed[i] * scale * kva_load(device->act, a->weight, i));
        }
    return KVA_OK;
}
