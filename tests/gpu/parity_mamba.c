// The short convolution and the selective scan, on ragged spans, with the states they leave.
#include "parity.h"

#include <math.h>
#include <string.h>

typedef unsigned long long u64;

static const struct kva_span spans[] = {{1, 0, 1, 9}, {3, 1, 2, 0}, {0, 3, 70, 5}, {2, 73, 130, 0}, {4, 203, 33, 0}};
enum { N_SPANS = 5, ROWS = 236 };

// A span with past 0 begins with zeros; what the state's memory held is random here, and must not matter.
static void begin(double *state, uint64_t per_sequence)
{
    for (int s = 0; s < N_SPANS; s++)
        for (uint64_t i = 0; spans[s].past == 0 && i < per_sequence; i++)
            state[spans[s].sequence * per_sequence + i] = 0.0;
}

// States of all sequences: NaN on the device, and zero in *values, where a sequence begins.
static void *random_state(struct parity *p, uint64_t elements, double **values)
{
    double *placed = parity_doubles(p, N_SPANS * elements);
    *values = parity_doubles(p, N_SPANS * elements);
    for (int s = 0; s < N_SPANS; s++)
        for (uint64_t i = spans[s].sequence * elements; i < (spans[s].sequence + 1) * elements; i++) {
            (*values)[i] = spans[s].past > 0 ? parity_rounded(parity_random(p), p->act) : 0.0;
            placed[i] = spans[s].past > 0 ? (*values)[i] : NAN;
        }
    return parity_upload(p, placed, N_SPANS * elements, p->act);
}

static void check_conv(struct parity *p, uint64_t channels, uint64_t taps, bool with_bias)
{
    const uint64_t x_stride = channels + 3, y_stride = channels + 5, kept = taps - 1;
    double *x, *weight, *bias = NULL, *state, *expected = parity_doubles(p, ROWS * channels);
    double *out = parity_doubles(p, ROWS * channels);
    struct kva_conv_args a = {.channels = channels,
                              .taps = taps,
                              .x_stride = x_stride,
                              .y_stride = y_stride,
                              .host_spans = spans,
                              .n_spans = N_SPANS};
    a.x = parity_input(p, ROWS * x_stride, p->act, 1.0, &x);
    a.weight = parity_input(p, channels * taps, p->act, 1.0, &weight);
    if (with_bias)
        a.bias = parity_input(p, channels, p->act, 1.0, &bias);
    a.state = random_state(p, channels * kept, &state);
    a.y = parity_poisoned(p, ROWS * y_stride, p->act);
    a.spans = parity_bytes(p, spans, sizeof spans);
    begin(state, channels * kept);
    for (int s = 0; s < N_SPANS; s++)
        for (uint64_t c = 0; c < channels; c++) {
            double *kept_inputs = state + (spans[s].sequence * channels + c) * kept;
            double inputs[8 + 256];
            memcpy(inputs, kept_inputs, kept * sizeof inputs[0]);
            for (uint64_t r = 0; r < spans[s].rows; r++) {
                inputs[kept + r] = x[(spans[s].first_row + r) * x_stride + c];
                double sum = with_bias ? bias[c] : 0.0;
                for (uint64_t k = 0; k < taps; k++)
                    sum += weight[c * taps + k] * inputs[r + k];
                expected[(spans[s].first_row + r) * channels + c] = sum / (1.0 + exp(-sum));
            }
            memcpy(kept_inputs, inputs + spans[s].rows, kept * sizeof inputs[0]);
        }
    struct kva_error error = {0};
    if (parity_called(p, p->kernels->conv(p->device, &a, &error), &error, "conv")) {
        const double *all = parity_download(p, a.y, ROWS * y_stride, p->act);
        for (uint64_t r = 0; r < ROWS; r++)
            memcpy(out + r * channels, all + r * y_stride, channels * sizeof *out);
        parity_compare(p, out, expected, ROWS * channels, parity_limit(p, 2e-6, 3e-3), "conv %llu channels, %llu taps",
                       (u64)channels, (u64)taps);
        parity_same(p, parity_download(p, a.state, N_SPANS * channels * kept, p->act), state, N_SPANS * channels * kept,
                    "conv state %llu channels, %llu taps", (u64)channels, (u64)taps);
    }
    parity_release(p);
}

static void check_scan(struct parity *p, uint64_t channels, uint64_t n_state)
{
    const uint64_t stride = channels + 2, bc_stride = 2 * n_state + 3;
    double *x, *dt, *bc, *a_log, *d, *dt_bias, *state;
    double *expected = parity_doubles(p, ROWS * channels), *out = parity_doubles(p, ROWS * channels);
    const uint64_t size = p->act == KVA_BF16 ? 2 : 4;
    struct kva_scan_args a = {.channels = channels,
                              .n_state = n_state,
                              .x_stride = stride,
                              .dt_stride = stride,
                              .bc_stride = bc_stride,
                              .y_stride = stride,
                              .host_spans = spans,
                              .n_spans = N_SPANS};
    a.x = parity_input(p, ROWS * stride, p->act, 1.0, &x);
    a.dt = parity_input(p, ROWS * stride, p->act, 3.0, &dt);
    a.b = parity_input(p, ROWS * bc_stride, p->act, 1.0, &bc);
    a.c = (const char *)a.b + n_state * size;
    a.a_log = parity_input(p, channels * n_state, KVA_F32, 1.5, &a_log);
    a.d = parity_input(p, channels, p->act, 1.0, &d);
    a.dt_bias = parity_input(p, channels, p->act, 1.0, &dt_bias);
    a.state = random_state(p, channels * n_state, &state);
    a.y = parity_poisoned(p, ROWS * stride, p->act);
    a.spans = parity_bytes(p, spans, sizeof spans);
    begin(state, channels * n_state);
    for (int s = 0; s < N_SPANS; s++)
        for (uint64_t c = 0; c < channels; c++)
            for (uint64_t r = 0; r < spans[s].rows; r++) {
                const uint64_t row = spans[s].first_row + r;
                const double step = log1p(exp(dt[row * stride + c] + dt_bias[c])), in = x[row * stride + c];
                double sum = d[c] * in;
                for (uint64_t n = 0; n < n_state; n++) {
                    double *h = &state[(spans[s].sequence * channels + c) * n_state + n];
                    *h = exp(-step * exp(a_log[c * n_state + n])) * *h + step * bc[row * bc_stride + n] * in;
                    sum += bc[row * bc_stride + n_state + n] * *h;
                }
                expected[row * channels + c] = sum;
            }
    struct kva_error error = {0};
    if (parity_called(p, p->kernels->scan(p->device, &a, &error), &error, "scan")) {
        const double *all = parity_download(p, a.y, ROWS * stride, p->act);
        for (uint64_t r = 0; r < ROWS; r++)
            memcpy(out + r * channels, all + r * stride, channels * sizeof *out);
        parity_compare(p, out, expected, ROWS * channels, parity_limit(p, 3e-6, 3e-3),
                       "scan %llu channels, %llu states", (u64)channels, (u64)n_state);
        parity_compare(p, parity_download(p, a.state, N_SPANS * channels * n_state, p->act), state,
                       N_SPANS * channels * n_state, parity_limit(p, 3e-6, 3e-3),
                       "scan state %llu channels, %llu states", (u64)channels, (u64)n_state);
    }
    parity_release(p);
}

void parity_mamba(struct parity *p)
{
    check_conv(p, 130, 4, true);
    check_conv(p, 37, 4, false);
    check_conv(p, 16, 2, true);
    check_conv(p, 16, 8, true);
    check_scan(p, 70, 16);
    check_scan(p, 37, 8);
    check_scan(p, 5, 3);
    check_scan(p, 19, 40);
    check_scan(p, 8, 64);
}
