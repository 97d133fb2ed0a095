// Norms, rotary embedding, the elementwise operations, gather, argmax and fill.
#include "parity.h"

#include <math.h>
#include <string.h>

typedef unsigned long long u64;

static void check_norm(struct parity *p, uint64_t rows, uint64_t width, bool x_f32, bool layer_norm, bool with_bias)
{
    const uint64_t x_stride = width + 4, y_stride = width + 8;
    const enum kva_dtype x_type = x_f32 ? KVA_F32 : p->act;
    double *x, *weight, *bias = NULL, *expected = parity_doubles(p, rows * y_stride);
    struct kva_norm_args a = {.rows = rows,
                              .width = width,
                              .x_stride = x_stride,
                              .y_stride = y_stride,
                              .x_f32 = x_f32,
                              .layer_norm = layer_norm,
                              .eps = 1e-5f,
                              .weight_offset = with_bias ? 0.0f : 1.0f};
    a.x = parity_input(p, rows * x_stride, x_type, 3.0, &x);
    a.weight = parity_input(p, width, p->act, 1.0, &weight);
    if (with_bias)
        a.bias = parity_input(p, width, p->act, 1.0, &bias);
    a.y = parity_poisoned(p, rows * y_stride, p->act);
    for (uint64_t r = 0; r < rows; r++) {
        double mean = 0.0, squares = 0.0;
        for (uint64_t i = 0; layer_norm && i < width; i++)
            mean += x[r * x_stride + i] / (double)width;
        for (uint64_t i = 0; i < width; i++)
            squares += (x[r * x_stride + i] - mean) * (x[r * x_stride + i] - mean);
        for (uint64_t i = 0; i < y_stride; i++)
            expected[r * y_stride + i] = i >= width ? NAN
                                                    : (x[r * x_stride + i] - mean) /
                                                              sqrt(squares / (double)width + (double)a.eps) *
                                                              (weight[i] + (double)a.weight_offset) +
                                                          (with_bias ? bias[i] : 0.0);
    }
    struct kva_error error = {0};
    if (parity_called(p, p->kernels->norm(p->device, &a, &error), &error, "norm")) {
        double *out = parity_download(p, a.y, rows * y_stride, p->act);
        bool inside = true;
        for (uint64_t r = 0; r < rows; r++)
            for (uint64_t i = width; i < y_stride; i++) {
                inside = inside && isnan(out[r * y_stride + i]);
                out[r * y_stride + i] = expected[r * y_stride + i] = 0.0;
            }
        parity_compare(p, out, expected, rows * y_stride, parity_limit(p, 1e-6, 3e-3), "%s %llu x %llu%s%s",
                       layer_norm ? "layer norm" : "rms norm", (u64)rows, (u64)width, x_f32 ? ", x f32" : "",
                       inside ? "" : ", WROTE BEYOND ITS ROW");
        if (!inside)
            p->failed++;
    }
    parity_release(p);
}

static void check_head_norm(struct parity *p, uint64_t rows, uint64_t heads, uint64_t dim)
{
    const uint64_t stride = heads * dim + 16;
    double *x, *weight;
    struct kva_head_norm_args a = {
        .rows = rows, .stride = stride, .heads = heads, .head_dim = dim, .eps = 1e-6f, .weight_offset = 1.0f};
    a.x = parity_input(p, rows * stride, p->act, 2.0, &x);
    a.weight = parity_input(p, dim, p->act, 1.0, &weight);
    for (uint64_t r = 0; r < rows; r++)
        for (uint64_t h = 0; h < heads; h++) {
            double *head = x + r * stride + h * dim, squares = 0.0;
            for (uint64_t i = 0; i < dim; i++)
                squares += head[i] * head[i];
            for (uint64_t i = 0; i < dim; i++)
                head[i] *= (weight[i] + 1.0) / sqrt(squares / (double)dim + (double)a.eps);
        }
    struct kva_error error = {0};
    if (parity_called(p, p->kernels->head_norm(p->device, &a, &error), &error, "head_norm"))
        parity_compare(p, parity_download(p, a.x, rows * stride, p->act), x, rows * stride, parity_limit(p, 1e-6, 3e-3),
                       "head_norm %llu x %llu x %llu", (u64)rows, (u64)heads, (u64)dim);
    parity_release(p);
}

static void check_rope(struct parity *p, uint64_t rows, uint64_t heads, uint64_t dim, uint64_t rotary, float scale)
{
    const uint64_t stride = heads * dim + 8, half = rotary / 2;
    double *x, *frequencies = parity_doubles(p, half);
    uint32_t positions[64];
    for (uint64_t r = 0; r < rows; r++)
        positions[r] = r == 0 ? 131071 : (uint32_t)parity_below(p, 131072);
    for (uint64_t j = 0; j < half; j++)
        frequencies[j] = (double)(float)pow(10000.0, -2.0 * (double)j / (double)rotary);
    struct kva_rope_args a = {
        .rows = rows, .stride = stride, .heads = heads, .head_dim = dim, .rotary_dim = rotary, .scale = scale};
    a.x = parity_input(p, rows * stride, p->act, 1.0, &x);
    a.positions = parity_bytes(p, positions, rows * sizeof positions[0]);
    a.inverse_frequencies = parity_upload(p, frequencies, half, KVA_F32);
    for (uint64_t r = 0; r < rows; r++)
        for (uint64_t h = 0; h < heads; h++)
            for (uint64_t j = 0; j < half; j++) {
                double *first = x + r * stride + h * dim + j, *second = first + half;
                const float angle = (float)positions[r] * (float)frequencies[j];  // the models' float32 product
                const double c = cos((double)angle) * (double)scale, s = sin((double)angle) * (double)scale;
                const double one = *first, two = *second;
                *first = one * c - two * s;
                *second = two * c + one * s;
            }
    struct kva_error error = {0};
    if (parity_called(p, p->kernels->rope(p->device, &a, &error), &error, "rope"))
        parity_compare(p, parity_download(p, a.x, rows * stride, p->act), x, rows * stride, parity_limit(p, 1e-6, 3e-3),
                       "rope %llu x %llu x %llu, rotary %llu", (u64)rows, (u64)heads, (u64)dim, (u64)rotary);
    parity_release(p);
}

static double activation(double x, uint32_t kind)
{
    if (kind == KVA_GLU_SILU)
        return x / (1.0 + exp(-x));
    if (kind == KVA_GLU_GELU)
        return 0.5 * x * (1.0 + erf(x * sqrt(0.5)));
    return 0.5 * x * (1.0 + tanh(sqrt(2.0 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}

static void check_glu(struct parity *p, uint64_t rows, uint64_t width, uint32_t kind)
{
    const uint64_t in_stride = 2 * width + 8, y_stride = width + 8;
    double *x, *expected = parity_doubles(p, rows * width), *out = parity_doubles(p, rows * width);
    struct kva_glu_args a = {
        .rows = rows, .width = width, .gate_up_stride = in_stride, .y_stride = y_stride, .activation = kind};
    a.gate_up = parity_input(p, rows * in_stride, p->act, 4.0, &x);
    a.y = parity_poisoned(p, rows * y_stride, p->act);
    struct kva_error error = {0};
    if (parity_called(p, p->kernels->glu(p->device, &a, &error), &error, "glu")) {
        const double *all = parity_download(p, a.y, rows * y_stride, p->act);
        for (uint64_t r = 0; r < rows; r++)
            for (uint64_t i = 0; i < width; i++) {
                expected[r * width + i] = activation(x[r * in_stride + i], kind) * x[r * in_stride + width + i];
                out[r * width + i] = all[r * y_stride + i];
            }
        parity_compare(p, out, expected, rows * width, parity_limit(p, 1e-6, 3e-3), "glu %u, %llu x %llu", kind,
                       (u64)rows, (u64)width);
    }
    parity_release(p);
}

static void check_gate(struct parity *p, uint64_t rows, uint64_t width)
{
    double *gate, *x, *expected = parity_doubles(p, rows * width);
    struct kva_gate_args a = {
        .rows = rows, .width = width, .gate_stride = width + 8, .x_stride = width + 16, .y_stride = width};
    a.gate = parity_input(p, rows * a.gate_stride, p->act, 4.0, &gate);
    a.x = parity_input(p, rows * a.x_stride, p->act, 1.0, &x);
    a.y = parity_poisoned(p, rows * width, p->act);
    for (uint64_t r = 0; r < rows; r++)
        for (uint64_t i = 0; i < width; i++)
            expected[r * width + i] = activation(gate[r * a.gate_stride + i], KVA_GLU_SILU) * x[r * a.x_stride + i];
    struct kva_error error = {0};
    if (parity_called(p, p->kernels->gate(p->device, &a, &error), &error, "gate"))
        parity_compare(p, parity_download(p, a.y, rows * width, p->act), expected, rows * width,
                       parity_limit(p, 1e-6, 3e-3), "gate %llu x %llu", (u64)rows, (u64)width);
    parity_release(p);
}

static void check_adds(struct parity *p, uint64_t rows, uint64_t width, bool x_f32)
{
    const uint64_t stride = width + 4;
    const enum kva_dtype type = x_f32 ? KVA_F32 : p->act;
    double *x, *bias, *y, *z;
    void *device_x = parity_input(p, rows * stride, type, 1.0, &x);
    const void *device_bias = parity_input(p, width, p->act, 1.0, &bias);
    void *device_y = parity_input(p, rows * width, KVA_F32, 1.0, &y);
    const void *device_z = parity_input(p, rows * width, p->act, 1.0, &z);
    for (uint64_t r = 0; r < rows; r++)
        for (uint64_t i = 0; i < width; i++) {
            x[r * stride + i] += bias[i];
            y[r * width + i] += z[r * width + i];
        }
    struct kva_error error = {0};
    if (parity_called(p, p->kernels->add_bias(p->device, device_x, device_bias, rows, width, stride, x_f32, &error),
                      &error, "add_bias"))
        parity_compare(p, parity_download(p, device_x, rows * stride, type), x, rows * stride,
                       x_f32 ? 1e-6 : parity_limit(p, 1e-6, 3e-3), "add_bias %llu x %llu%s", (u64)rows, (u64)width,
                       x_f32 ? ", x f32" : "");
    if (parity_called(p, p->kernels->add(p->device, device_y, device_z, rows, width, &error), &error, "add"))
        parity_compare(p, parity_download(p, device_y, rows * width, KVA_F32), y, rows * width, 1e-6, "add %llu x %llu",
                       (u64)rows, (u64)width);
    parity_release(p);
}

static void check_embed(struct parity *p, uint64_t rows, uint64_t width)
{
    const uint64_t vocabulary = 97;
    double *table, *expected = parity_doubles(p, rows * width);
    const void *device_table = parity_input(p, vocabulary * width, p->act, 1.0, &table);
    float *out = parity_poisoned(p, rows * width, KVA_F32);
    uint32_t tokens[256];
    for (uint64_t r = 0; r < rows; r++) {
        tokens[r] = r == 0 ? (uint32_t)vocabulary - 1 : (uint32_t)parity_below(p, vocabulary);
        for (uint64_t i = 0; i < width; i++)
            expected[r * width + i] = table[tokens[r] * width + i] * 1.5;
    }
    struct kva_error error = {0};
    if (parity_called(p,
                      p->kernels->embed(p->device, device_table, parity_bytes(p, tokens, rows * sizeof tokens[0]), out,
                                        rows, width, 1.5f, &error),
                      &error, "embed"))
        parity_compare(p, parity_download(p, out, rows * width, KVA_F32), expected, rows * width, 1e-7,
                       "embed %llu x %llu", (u64)rows, (u64)width);
    parity_release(p);
}

static void check_gather(struct parity *p, uint64_t rows, uint64_t words, uint64_t padding)
{
    const uint64_t from_rows = 50, from_stride = words + padding, to_stride = words + 2 * padding;
    double *from, *expected = parity_doubles(p, rows * to_stride);
    const void *device_from = parity_input(p, from_rows * from_stride, KVA_F32, 1.0, &from);
    void *to = parity_poisoned(p, rows * to_stride, KVA_F32);
    uint32_t index[64];
    for (uint64_t r = 0; r < rows; r++) {
        index[r] = (uint32_t)parity_below(p, from_rows);
        for (uint64_t i = 0; i < to_stride; i++)
            expected[r * to_stride + i] = i < words ? from[index[r] * from_stride + i] : NAN;
    }
    struct kva_error error = {0};
    if (parity_called(p,
                      p->kernels->gather(p->device, to, 4 * to_stride, device_from, 4 * from_stride,
                                         parity_bytes(p, index, rows * sizeof index[0]), rows, 4 * words, &error),
                      &error, "gather"))
        parity_same(p, parity_download(p, to, rows * to_stride, KVA_F32), expected, rows * to_stride,
                    "gather %llu rows of %llu bytes", (u64)rows, (u64)(4 * words));
    parity_release(p);
}

static void check_softcap(struct parity *p, uint64_t n)
{
    double *x;
    float *device_x = parity_input(p, n, KVA_F32, 90.0, &x);
    for (uint64_t i = 0; i < n; i++)
        x[i] = 30.0 * tanh(x[i] / 30.0);
    struct kva_error error = {0};
    if (parity_called(p, p->kernels->softcap(p->device, device_x, n, 30.0f, &error), &error, "softcap"))
        parity_compare(p, parity_download(p, device_x, n, KVA_F32), x, n, 1e-6, "softcap %llu", (u64)n);
    parity_release(p);
}

static void check_argmax(struct parity *p, uint64_t rows, uint64_t width)
{
    double *x, *expected = parity_doubles(p, rows), *found = parity_doubles(p, rows);
    parity_input(p, rows * width, KVA_F32, 1.0, &x);
    for (uint64_t r = 0; r < rows; r++) {
        uint64_t best = parity_below(p, width);
        x[r * width + best] = 2.0;
        const uint64_t same = parity_below(p, width);  // a tie: the lower index wins
        x[r * width + same] = 2.0;
        best = same < best ? same : best;
        if (r == 1)
            for (uint64_t i = 0; i < width; i++)
                x[r * width + i] = (best = 0, -INFINITY);
        if (r >= 2) {  // one element that is no number, wherever it stands: there is no choice
            x[r * width + (r == 2 ? 0 : parity_below(p, width))] = r % 2 == 0 ? NAN : INFINITY;
            best = KVA_NO_TOKEN;
        }
        expected[r] = (double)best;
    }
    uint32_t *tokens = parity_poisoned(p, rows, KVA_F32), host[64];
    struct kva_error error = {0};
    if (parity_called(
            p, p->kernels->argmax(p->device, parity_upload(p, x, rows * width, KVA_F32), rows, width, tokens, &error),
            &error, "argmax") &&
        parity_called(p, p->kernels->download(p->device, host, tokens, rows * sizeof host[0], &error), &error,
                      "download")) {
        for (uint64_t r = 0; r < rows; r++)
            found[r] = (double)host[r];
        parity_same(p, found, expected, rows, "argmax %llu x %llu", (u64)rows, (u64)width);
    }
    parity_release(p);
}

static double uniform(uint64_t seed, uint64_t index)
{
    uint64_t z = seed * 0x9E3779B97F4A7C15u + (index + 1) * 0xD1B54A32D192ED03u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    z ^= z >> 31;
    return (double)((int64_t)(z >> 40) - 8388608) / 8388608.0;
}

static void check_fill(struct parity *p, uint64_t n, enum kva_dtype dtype, enum kva_fill fill)
{
    struct kva_fill_args a = {
        .dtype = dtype, .elements = n, .seed = 12345, .period = 16, .fill = fill, .mean = 0.25f, .scale = 0.03f};
    a.y = parity_poisoned(p, n, dtype);
    double *expected = parity_doubles(p, n);
    for (uint64_t i = 0; i < n; i++) {
        const float value = fill == KVA_FILL_A_LOG ? (float)log((double)(1 + i % 16))
                                                   : fmaf(a.scale, (float)uniform(a.seed, i), a.mean);
        expected[i] = parity_rounded((double)value, dtype);
    }
    struct kva_error error = {0};
    if (parity_called(p, p->kernels->fill(p->device, &a, &error), &error, "fill"))
        parity_same(p, parity_download(p, a.y, n, dtype), expected, n, "fill %s %s, %llu",
                    fill == KVA_FILL_A_LOG ? "a_log" : "uniform", dtype == KVA_BF16 ? "bf16" : "f32", (u64)n);
    parity_release(p);
}

// Differential attention's end.
static void check_differential(struct parity *p, uint64_t rows, uint64_t heads, uint64_t head_dim)
{
    const uint64_t width = 2 * head_dim, pairs = heads / 2;
    double *x, *weight, *vectors[4], *expected = parity_doubles(p, rows * pairs * width), lambdas[2];
    struct kva_differential_args a = {.rows = rows,
                                      .heads = heads,
                                      .width = width,
                                      .head_dim = head_dim,
                                      .x_stride = heads * width,
                                      .y_stride = pairs * width,
                                      .lambda_init = 0.35f,
                                      .eps = 1e-5f};
    a.x = parity_input(p, rows * heads * width, p->act, 1.0, &x);
    a.weight = parity_input(p, width, p->act, 1.0, &weight);
    a.q1 = parity_input(p, head_dim, KVA_F32, 0.2, &vectors[0]);
    a.k1 = parity_input(p, head_dim, KVA_F32, 0.2, &vectors[1]);
    a.q2 = parity_input(p, head_dim, KVA_F32, 0.2, &vectors[2]);
    a.k2 = parity_input(p, head_dim, KVA_F32, 0.2, &vectors[3]);
    a.y = parity_poisoned(p, rows * pairs * width, p->act);
    for (int i = 0; i < 2; i++) {
        lambdas[i] = 0.0;
        for (uint64_t d = 0; d < head_dim; d++)
            lambdas[i] += vectors[2 * i][d] * vectors[2 * i + 1][d];
    }
    const double lambda = exp(lambdas[0]) - exp(lambdas[1]) + (double)a.lambda_init;
    for (uint64_t j = 0; j < rows * pairs; j++) {
        const double *first = x + 2 * j * width, *second = first + width;
        double squares = 0.0;
        for (uint64_t i = 0; i < width; i++)
            squares += (first[i] - lambda * second[i]) * (first[i] - lambda * second[i]);
        for (uint64_t i = 0; i < width; i++)
            expected[j * width + i] = (first[i] - lambda * second[i]) / sqrt(squares / (double)width + (double)a.eps) *
                                      weight[i] * (1.0 - (double)a.lambda_init);
    }
    struct kva_error error = {0};
    if (parity_called(p, p->kernels->differential(p->device, &a, &error), &error, "differential"))
        parity_compare(p, parity_download(p, a.y, rows * pairs * width, p->act), expected, rows * pairs * width,
                       parity_limit(p, 1e-6, 3e-3), "differential %llu x %llu x %llu", (u64)rows, (u64)heads,
                       (u64)width);
    parity_release(p);
}

void parity_elementwise(struct parity *p)
{
    static const uint64_t widths[] = {3072, 64, 37};
    for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
        const uint64_t width = widths[w], rows = width > 1000 ? 3 : 9;
        for (int x_f32 = 0; x_f32 < 2; x_f32++) {
            check_norm(p, rows, width, x_f32 == 1, false, false);
            check_norm(p, rows, width, x_f32 == 1, true, true);
            check_adds(p, rows, width, x_f32 == 1);
        }
        check_embed(p, rows, width);
        check_gate(p, rows, width);
        for (uint32_t kind = KVA_GLU_SILU; kind <= KVA_GLU_GELU; kind++)
            check_glu(p, rows, width, kind);
    }
    check_head_norm(p, 5, 6, 128);
    check_head_norm(p, 3, 5, 20);
    check_rope(p, 7, 6, 128, 128, 1.0f);
    check_rope(p, 7, 6, 128, 96, 1.19f);
    check_rope(p, 5, 3, 20, 10, 1.0f);
    check_differential(p, 5, 8, 64);
    check_differential(p, 3, 6, 10);
    check_gather(p, 11, 64, 4);
    check_gather(p, 11, 5, 1);
    check_softcap(p, 1001);
    check_argmax(p, 6, 5000);
    check_argmax(p, 6, 33);
    check_fill(p, 3001, KVA_F32, KVA_FILL_UNIFORM);
    check_fill(p, 3001, KVA_BF16, KVA_FILL_UNIFORM);
    check_fill(p, 3001, KVA_F32, KVA_FILL_A_LOG);
}
