// Mamba-1: causal convolution and selective scan. Source of both: https://arxiv.org/abs/2312.00752, algorithm 2.
#include <math.h>

#include "kernels/cpu/cpu.h"

static float silu(float x)
{
    return x / (1 + expf(-x));
}

enum kva_status kva_cpu_conv(struct kva_device *device, const struct kva_conv_args *a, struct kva_error *error)
{
    if (a->taps > MAX_TAPS)
        return kva_fail(error, KVA_MACHINE, NULL, "conv", "%llu taps are more than %d", (unsigned long long)a->taps,
                        MAX_TAPS);
    const uint64_t past = a->taps - 1;
    for (uint32_t s = 0; s < a->n_spans; s++) {
        const struct kva_span *span = &a->host_spans[s];
        for (uint64_t channel = 0; channel < a->channels; channel++) {
            const uint64_t state = (span->sequence * a->channels + channel) * past;
            float inputs[MAX_TAPS] = {0};  // the last K inputs, oldest first
            for (uint64_t t = 0; span->past > 0 && t < past; t++)
                inputs[t + 1] = kva_load(device->act, a->state, state + t);
            for (uint64_t row = span->first_row; row < (uint64_t)span->first_row + span->rows; row++) {
                memmove(inputs, inputs + 1, past * sizeof *inputs);
                inputs[past] = kva_load(device->act, a->x, row * a->x_stride + channel);
                float sum = a->bias != NULL ? kva_load(device->act, a->bias, channel) : 0;
                for (uint64_t t = 0; t < a->taps; t++)
                    sum += inputs[t] * kva_load(device->act, a->weight, channel * a->taps + t);
                kva_store(device->act, a->y, row * a->y_stride + channel, silu(sum));
            }
            for (uint64_t t = 0; t < past; t++)
                kva_store(device->act, a->state, state + t, inputs[t + 1]);
        }
    }
    return KVA_OK;
}

static float softplus(float x)
{
    return x > 20 ? x : log1pf(expf(x));
}

enum kva_status kva_cpu_scan(struct kva_device *device, const struct kva_scan_args *a, struct kva_error *error)
{
    if (a->n_state > MAX_STATE)
        return kva_fail(error, KVA_MACHINE, NULL, "scan", "%llu state elements are more than %d",
                        (unsigned long long)a->n_state, MAX_STATE);
    float h[MAX_STATE], decay[MAX_STATE];
    for (uint32_t s = 0; s < a->n_spans; s++) {
        const struct kva_span *span = &a->host_spans[s];
        for (uint64_t channel = 0; channel < a->channels; channel++) {
            const uint64_t state = (span->sequence * a->channels + channel) * a->n_state;
            for (uint64_t n = 0; n < a->n_state; n++) {
                h[n] = span->past > 0 ? kva_load(device->act, a->state, state + n) : 0;
                decay[n] = -expf(a->a_log[channel * a->n_state + n]);
            }
            const float d = kva_load(device->act, a->d, channel);
            const float dt_bias = kva_load(device->act, a->dt_bias, channel);
            for (uint64_t row = span->first_row; row < (uint64_t)span->first_row + span->rows; row++) {
                const float x = kva_load(device->act, a->x, row * a->x_stride + channel);
                const float dt = softplus(kva_load(device->act, a->dt, row * a->dt_stride + channel) + dt_bias);
                float y = 0;
                for (uint64_t n = 0; n < a->n_state; n++) {
                    h[n] = expf(dt * decay[n]) * h[n] + dt * kva_load(device->act, a->b, row * a->bc_stride + n) * x;
                    y += h[n] * kva_load(device->act, a->c, row * a->bc_stride + n);
                }
                kva_store(device->act, a->y, row * a->y_stride + channel, y + d * x);
            }
            for (uint64_t n = 0; n < a->n_state; n++)
                kva_store(device->act, a->state, state + n, h[n]);
        }
    }
    return KVA_OK;
}
