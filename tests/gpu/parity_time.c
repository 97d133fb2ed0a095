// parity --time: how near the large shapes come to the device's own ceilings. Inputs are random and, where they would
// fit the L2 cache, rotate.
#include "parity.h"

#include <math.h>
#include <string.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *random_memory(struct parity *p, uint64_t n, enum kva_dtype dtype)
{
    void *memory = parity_raw(p, n * (dtype == KVA_BF16 ? 2 : 4));
    const struct kva_fill_args a = {.y = memory,
                                    .dtype = dtype,
                                    .elements = n,
                                    .seed = p->random++,
                                    .period = 1,
                                    .fill = KVA_FILL_UNIFORM,
                                    .scale = 1.0f};
    struct kva_error error = {0};
    parity_called(p, p->kernels->fill(p->device, &a, &error), &error, "fill");
    return memory;
}

typedef enum kva_status (*timed)(struct parity *p, const void *args, int i, struct kva_error *error);

// Seconds of one call: the best of three stretches of `runs`, after one that warms up.
static double seconds_of(struct parity *p, timed call, const void *args, int runs)
{
    struct kva_error error = {0};
    double best = INFINITY;
    for (int stretch = 0; stretch < 4; stretch++) {
        const double begin = now();
        for (int i = 0; i < runs; i++)
            if (call(p, args, i, &error) != KVA_OK) {
                parity_called(p, KVA_MACHINE, &error, "timed call");
                return INFINITY;
            }
        if (p->kernels->sync(p->device, &error) != KVA_OK) {
            parity_called(p, KVA_MACHINE, &error, "timed call");
            return INFINITY;
        }
        const double each = (now() - begin) / runs;
        if (stretch > 0 && each < best)
            best = each;
    }
    return best;
}

static void print_time(struct parity *p, const char *what, double seconds, double bytes, double flops)
{
    printf("time   %-4s %-44s %10.2f us %8.0f GB/s %8.1f TFLOP/s\n", p->act == KVA_BF16 ? "bf16" : "f32", what,
           seconds * 1e6, bytes / seconds * 1e-9, flops / seconds * 1e-12);
    fflush(stdout);
}

struct rotated_linear {
    struct kva_linear_args a;
    uint64_t weight_bytes;
    int copies;
};

static enum kva_status call_linear(struct parity *p, const void *args, int i, struct kva_error *error)
{
    const struct rotated_linear *l = args;
    struct kva_linear_args a = l->a;
    a.weight = (const char *)a.weight + (uint64_t)(i % l->copies) * l->weight_bytes;
    return p->kernels->linear(p->device, &a, error);
}

static void time_linear(struct parity *p, uint64_t rows, uint64_t n_in, uint64_t n_out)
{
    const uint64_t size = p->act == KVA_BF16 ? 2 : 4;
    struct rotated_linear l = {.weight_bytes = n_in * n_out * size};
    l.copies = (int)(1 + (512u << 20) / l.weight_bytes);
    l.a = (struct kva_linear_args){.rows = rows, .n_in = n_in, .n_out = n_out, .x_stride = n_in, .y_stride = n_out};
    l.a.x = random_memory(p, rows * n_in, p->act);
    l.a.y = random_memory(p, rows * n_out, p->act);
    l.a.weight = random_memory(p, n_in * n_out * (uint64_t)l.copies, p->act);
    char what[64];
    snprintf(what, sizeof what, "linear %llu x %llu -> %llu", (unsigned long long)rows, (unsigned long long)n_in,
             (unsigned long long)n_out);
    const double seconds = seconds_of(p, call_linear, &l, rows > 64 ? 20 : 200);
    print_time(p, what, seconds, (double)(l.weight_bytes + size * rows * (n_in + n_out)),
               2.0 * (double)rows * (double)n_in * (double)n_out);
    parity_release(p);
}

static enum kva_status call_attention(struct parity *p, const void *args, int i, struct kva_error *error)
{
    (void)i;
    return p->kernels->attention(p->device, args, error);
}

static void time_attention(struct parity *p, uint32_t rows, uint32_t past, uint32_t heads, uint32_t kv_heads,
                           uint32_t dim, uint32_t window, bool paired, int runs)
{
    const struct kva_span span = {0, 0, rows, past};
    const uint64_t size = p->act == KVA_BF16 ? 2 : 4, kv = (uint64_t)kv_heads * dim, length = (uint64_t)past + rows;
    const uint32_t width = paired ? 2 * dim : dim;
    struct kva_attention_args a = {.q_stride = heads * dim,
                                   .k_stride = kv,
                                   .v_stride = kv,
                                   .out_stride = heads * width,
                                   .cache_rows = length,
                                   .fresh = true,
                                   .paired = paired,
                                   .host_spans = &span,
                                   .n_spans = 1,
                                   .heads = heads,
                                   .kv_heads = kv_heads,
                                   .k_dim = dim,
                                   .v_dim = dim,
                                   .window = window,
                                   .scale = 0.08f};
    a.q = random_memory(p, rows * a.q_stride, p->act);
    a.k = random_memory(p, rows * kv, p->act);
    a.v = random_memory(p, rows * kv, p->act);
    a.cache_k = random_memory(p, length * kv, p->act);
    a.cache_v = random_memory(p, length * kv, p->act);
    a.out = random_memory(p, rows * a.out_stride, p->act);
    a.spans = parity_bytes(p, &span, sizeof span);
    a.scratch = parity_raw(p, (uint64_t)heads * KVA_ATTENTION_SPLITS * (width + 2) * 4);
    double visible = 0.0;  // query-key pairs
    for (uint32_t r = 0; r < rows; r++)
        visible += window > 0 && past + r + 1 > window ? (double)window : (double)past + r + 1;
    const double keys = window > 0 && window + rows < length ? (double)window + rows : (double)length;
    char what[80];
    snprintf(what, sizeof what, "attention %u rows at %u, %u/%u x %u%s%s", rows, past, heads, kv_heads, dim,
             paired ? " paired" : "", window > 0 ? ", window" : "");
    print_time(p, what, seconds_of(p, call_attention, &a, runs),
               (double)size * (2.0 * keys * (double)kv + 2.0 * rows * heads * dim),
               2.0 * visible * heads * (double)(dim + width));
    parity_release(p);
}

static enum kva_status call_scan(struct parity *p, const void *args, int i, struct kva_error *error)
{
    (void)i;
    return p->kernels->scan(p->device, args, error);
}

static enum kva_status call_conv(struct parity *p, const void *args, int i, struct kva_error *error)
{
    (void)i;
    return p->kernels->conv(p->device, args, error);
}

static void time_mamba(struct parity *p, uint32_t rows)
{
    const uint64_t channels = 5120, n_state = 16, size = p->act == KVA_BF16 ? 2 : 4;
    const struct kva_span span = {0, 0, rows, 0};
    void *x = random_memory(p, rows * channels, p->act), *y = random_memory(p, rows * channels, p->act);
    const void *spans = parity_bytes(p, &span, sizeof span);
    const struct kva_scan_args scan = {.x = x,
                                       .dt = random_memory(p, rows * channels, p->act),
                                       .b = random_memory(p, rows * n_state, p->act),
                                       .c = random_memory(p, rows * n_state, p->act),
                                       .a_log = random_memory(p, channels * n_state, KVA_F32),
                                       .d = random_memory(p, channels, p->act),
                                       .dt_bias = random_memory(p, channels, p->act),
                                       .y = y,
                                       .state = random_memory(p, channels * n_state, p->act),
                                       .channels = channels,
                                       .n_state = n_state,
                                       .x_stride = channels,
                                       .dt_stride = channels,
                                       .bc_stride = n_state,
                                       .y_stride = channels,
                                       .spans = spans,
                                       .host_spans = &span,
                                       .n_spans = 1};
    const struct kva_conv_args conv = {.x = x,
                                       .weight = random_memory(p, channels * 4, p->act),
                                       .bias = random_memory(p, channels, p->act),
                                       .y = y,
                                       .state = random_memory(p, channels * 3, p->act),
                                       .channels = channels,
                                       .taps = 4,
                                       .x_stride = channels,
                                       .y_stride = channels,
                                       .spans = spans,
                                       .host_spans = &span,
                                       .n_spans = 1};
    char what[64];
    snprintf(what, sizeof what, "scan %u rows, 5120 x 16", rows);
    print_time(p, what, seconds_of(p, call_scan, &scan, 50), 3.0 * (double)(size * rows * channels),
               6.0 * rows * (double)(channels * n_state));
    snprintf(what, sizeof what, "conv %u rows, 5120 x 4", rows);
    print_time(p, what, seconds_of(p, call_conv, &conv, 50), 2.0 * (double)(size * rows * channels),
               8.0 * rows * (double)channels);
    parity_release(p);
}

static enum kva_status call_norm(struct parity *p, const void *args, int i, struct kva_error *error)
{
    (void)i;
    return p->kernels->norm(p->device, args, error);
}

static enum kva_status call_glu(struct parity *p, const void *args, int i, struct kva_error *error)
{
    (void)i;
    return p->kernels->glu(p->device, args, error);
}

static void time_rows(struct parity *p, uint64_t rows)
{
    const uint64_t width = 3072, ffn = 8192, size = p->act == KVA_BF16 ? 2 : 4;
    struct kva_norm_args norm = {
        .rows = rows, .width = width, .x_stride = width, .y_stride = width, .x_f32 = true, .eps = 1e-5f};
    norm.x = random_memory(p, rows * width, KVA_F32);
    norm.y = random_memory(p, rows * width, p->act);
    norm.weight = random_memory(p, width, p->act);
    struct kva_glu_args glu = {.rows = rows, .width = ffn, .gate_up_stride = 2 * ffn, .y_stride = ffn};
    glu.gate_up = random_memory(p, rows * 2 * ffn, p->act);
    glu.y = random_memory(p, rows * ffn, p->act);
    char what[64];
    snprintf(what, sizeof what, "rms norm %llu x 3072", (unsigned long long)rows);
    print_time(p, what, seconds_of(p, call_norm, &norm, 100), (double)(rows * width * (4 + size)), 0.0);
    snprintf(what, sizeof what, "glu %llu x 8192", (unsigned long long)rows);
    print_time(p, what, seconds_of(p, call_glu, &glu, 100), (double)(3 * rows * ffn * size), 0.0);
    parity_release(p);
}

void parity_time(struct parity *p)
{
    struct kva_error error = {0};
    double read_rate = 0.0, flop_rate = 0.0;
    if (parity_called(p, p->kernels->ceilings(p->device, 8192, &read_rate, &flop_rate, &error), &error, "ceilings"))
        printf("time   %-4s ceilings: %.0f GB/s read, %.1f TFLOP/s\n", p->act == KVA_BF16 ? "bf16" : "f32",
               read_rate * 1e-9, flop_rate * 1e-12);
    static const uint64_t shapes[][2] = {{3072, 5120}, {3072, 3072},   {3072, 8192}, {3072, 16384},
                                         {8192, 3072}, {3072, 200064}, {2560, 10240}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        time_linear(p, 1, shapes[i][0], shapes[i][1]);
    time_linear(p, 4, 3072, 16384);
    time_linear(p, 8, 3072, 16384);
    time_linear(p, 2048, 3072, 16384);
    time_linear(p, 2048, 8192, 3072);
    time_rows(p, 1);
    time_rows(p, 8192);
    time_mamba(p, 1);
    time_mamba(p, 8192);
    time_attention(p, 1, 4095, 24, 8, 128, 0, false, 200);
    time_attention(p, 1, 32767, 24, 8, 128, 0, false, 200);
    time_attention(p, 1, 131071, 24, 8, 128, 0, false, 50);
    time_attention(p, 1, 32767, 40, 20, 64, 0, true, 100);
    const int runs = p->act == KVA_BF16 ? 5 : 1;
    time_attention(p, 2048, 0, 24, 8, 128, 0, false, runs);
    if (p->act != KVA_BF16)
        return;
    time_attention(p, 8192, 0, 24, 8, 128, 0, false, runs);
    time_attention(p, 8192, 24576, 24, 8, 128, 0, false, runs);
    time_attention(p, 8192, 0, 40, 20, 64, 0, true, runs);
    time_attention(p, 8192, 24576, 40, 20, 64, 2047, true, runs);
    time_attention(p, 8192, 0, 16, 8, 256, 0, false, runs);
}
