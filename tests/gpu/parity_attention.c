// Attention and the cache: every path (decode, prefill, mixed; fast dims and others), rings, windows, pairs, softcap.
#include "parity.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct attention_case {
    const char *name;
    uint32_t heads, kv_heads, k_dim, v_dim;
    bool paired, fresh;
    uint64_t window;
    float softcap;
    uint64_t cache_rows;  // 0: as many as the longest sequence; with a window, a ring of exactly `window` is run too
    uint32_t n_spans;
    uint32_t rows[4], past[4];
    uint32_t padding;  // extra elements of every stride
};

// Everything one case runs on; the history of a sequence is k and v at every position.
struct attention_data {
    uint32_t width, rows, longest;
    struct kva_span spans[4];
    double *q, *history_k[4], *history_v[4];
    void *device_q;
};

static void make_data(struct parity *p, const struct attention_case *c, struct attention_data *d)
{
    memset(d, 0, sizeof *d);
    d->width = c->paired ? 2 * c->v_dim : c->v_dim;
    for (uint32_t s = 0; s < c->n_spans; s++) {
        // sequences in another order than spans
        d->spans[s] = (struct kva_span){c->n_spans - 1 - s, d->rows, c->rows[s], c->past[s]};
        d->rows += c->rows[s];
        const uint32_t length = c->past[s] + c->rows[s];
        d->longest = length > d->longest ? length : d->longest;
        d->history_k[s] = parity_doubles(p, (uint64_t)length * c->kv_heads * c->k_dim);
        d->history_v[s] = parity_doubles(p, (uint64_t)length * c->kv_heads * c->v_dim);
        for (uint64_t i = 0; i < (uint64_t)length * c->kv_heads * c->k_dim; i++)
            d->history_k[s][i] = parity_rounded(parity_random(p), p->act);
        for (uint64_t i = 0; i < (uint64_t)length * c->kv_heads * c->v_dim; i++)
            d->history_v[s][i] = parity_rounded(parity_random(p), p->act);
    }
    d->device_q = parity_input(p, (uint64_t)d->rows * (c->heads * c->k_dim + c->padding), p->act, 3.0, &d->q);
}

// Rows of this pass (NaN when they must not be read) and the cache as earlier passes left it, NaN in slots never
// written.
static void place(struct parity *p, const struct attention_case *c, const struct attention_data *d,
                  double *const history[4], uint32_t width, uint64_t cache_rows, void **rows, void **cache)
{
    const uint64_t stride = width + c->padding, n_cache = c->n_spans * cache_rows * width;
    double *fresh = parity_doubles(p, d->rows * stride), *cached = parity_doubles(p, n_cache);
    for (uint64_t i = 0; i < d->rows * stride; i++)
        fresh[i] = NAN;
    for (uint64_t i = 0; i < n_cache; i++)
        cached[i] = NAN;
    for (uint32_t s = 0; s < c->n_spans; s++) {
        const struct kva_span *span = &d->spans[s];
        for (uint32_t r = 0; c->fresh && r < span->rows; r++)
            memcpy(fresh + (span->first_row + r) * stride, history[s] + (uint64_t)(span->past + r) * width,
                   width * sizeof *fresh);
        const uint32_t written = c->fresh ? span->past : span->past + span->rows;
        for (uint32_t t = 0; t < written; t++)
            memcpy(cached + (span->sequence * cache_rows + t % cache_rows) * width, history[s] + (uint64_t)t * width,
                   width * sizeof *cached);
    }
    *rows = parity_upload(p, fresh, d->rows * stride, p->act);
    *cache = parity_upload(p, cached, n_cache, p->act);
}

static double *expect(struct parity *p, const struct attention_case *c, const struct attention_data *d, double scale)
{
    const uint32_t group = c->heads / c->kv_heads;
    double *out = parity_doubles(p, (uint64_t)d->rows * c->heads * d->width);
    double *weights = parity_doubles(p, d->longest);
    for (uint32_t s = 0; s < c->n_spans; s++)
        for (uint32_t r = 0; r < c->rows[s]; r++)
            for (uint32_t h = 0; h < c->heads; h++) {
                const uint64_t row = d->spans[s].first_row + r, position = c->past[s] + r;
                const double *q = d->q + row * (c->heads * c->k_dim + c->padding) + h * c->k_dim;
                const uint32_t key_head = c->paired ? 2 * (h / 2 / group) + h % 2 : h / group;
                const uint32_t value_head = c->paired ? 2 * (h / 2 / group) : key_head;
                const uint64_t first = c->window > 0 && position + 1 > c->window ? position + 1 - c->window : 0;
                double total = 0.0, most = -INFINITY;
                for (uint64_t t = first; t <= position; t++) {
                    const double *k = d->history_k[s] + (t * c->kv_heads + key_head) * c->k_dim;
                    double dot = 0.0;
                    for (uint32_t i = 0; i < c->k_dim; i++)
                        dot += q[i] * k[i];
                    dot *= scale;
                    weights[t] = c->softcap > 0.0f ? (double)c->softcap * tanh(dot / (double)c->softcap) : dot;
                    most = weights[t] > most ? weights[t] : most;
                }
                for (uint64_t t = first; t <= position; t++)
                    total += weights[t] = exp(weights[t] - most);
                double *o = out + (row * c->heads + h) * d->width;
                for (uint64_t t = first; t <= position; t++)
                    for (uint32_t i = 0; i < d->width; i++)  // neighbouring value heads lie side by side
                        o[i] += weights[t] / total * d->history_v[s][(t * c->kv_heads + value_head) * c->v_dim + i];
            }
    return out;
}

static double *attend(struct parity *p, const struct attention_case *c, const struct attention_data *d,
                      uint64_t cache_rows, float scale)
{
    const uint32_t k_width = c->kv_heads * c->k_dim, v_width = c->kv_heads * c->v_dim;
    void *k, *v, *cache_k, *cache_v;
    place(p, c, d, d->history_k, k_width, cache_rows, &k, &cache_k);
    place(p, c, d, d->history_v, v_width, cache_rows, &v, &cache_v);
    const uint64_t out_stride = (uint64_t)c->heads * d->width + c->padding;
    void *out = parity_poisoned(p, d->rows * out_stride, p->act);
    struct kva_attention_args a = {.q = d->device_q,
                                   .k = k,
                                   .v = v,
                                   .cache_k = cache_k,
                                   .cache_v = cache_v,
                                   .out = out,
                                   .q_stride = c->heads * c->k_dim + c->padding,
                                   .k_stride = k_width + c->padding,
                                   .v_stride = v_width + c->padding,
                                   .out_stride = out_stride,
                                   .cache_rows = cache_rows,
                                   .fresh = c->fresh,
                                   .paired = c->paired,
                                   .spans = parity_bytes(p, d->spans, c->n_spans * sizeof d->spans[0]),
                                   .host_spans = d->spans,
                                   .n_spans = c->n_spans,
                                   .heads = c->heads,
                                   .kv_heads = c->kv_heads,
                                   .k_dim = c->k_dim,
                                   .v_dim = c->v_dim,
                                   .window = c->window,
                                   .scale = scale,
                                   .softcap = c->softcap};
    a.scratch = parity_poisoned(p, (uint64_t)c->n_spans * c->heads * KVA_ATTENTION_SPLITS * (d->width + 2), KVA_F32);
    struct kva_error error = {0};
    if (!parity_called(p, p->kernels->attention(p->device, &a, &error), &error, c->name))
        return NULL;
    const double *all = parity_download(p, out, d->rows * out_stride, p->act);
    double *dense = parity_doubles(p, (uint64_t)d->rows * c->heads * d->width);
    for (uint64_t r = 0; r < d->rows; r++)
        memcpy(dense + r * c->heads * d->width, all + r * out_stride, c->heads * d->width * sizeof *dense);
    for (uint64_t r = 0; r < d->rows; r++)
        for (uint64_t i = (uint64_t)c->heads * d->width; i < out_stride; i++)
            if (!isnan(all[r * out_stride + i])) {
                parity_result(p, false, "attention %s: wrote beyond its row", c->name);
                return dense;
            }
    return dense;
}

static void run_case(struct parity *p, const struct attention_case *c)
{
    struct attention_data d;
    make_data(p, c, &d);
    const float scale = 1.0f / sqrtf((float)c->k_dim);
    const uint64_t n = (uint64_t)d.rows * c->heads * d.width;
    const double *expected = expect(p, c, &d, (double)scale);
    const uint64_t cache_rows = c->cache_rows > 0 ? c->cache_rows : d.longest;
    const double *full = attend(p, c, &d, cache_rows, scale);
    if (full != NULL)
        parity_compare(p, full, expected, n, parity_limit(p, 2e-6, 5e-3), "attention %s", c->name);
    if (full != NULL && c->window > 0 && c->window < cache_rows) {
        const double *ring = attend(p, c, &d, c->window, scale);
        if (ring != NULL)
            parity_same(p, ring, full, n, "attention %s, ring of %llu against %llu rows", c->name,
                        (unsigned long long)c->window, (unsigned long long)cache_rows);
    }
    parity_release(p);
}

static void run_cases(struct parity *p)
{
    static const struct attention_case cases[] = {
        {"decode 128", 24, 8, 128, 128, false, false, 0, 0, 0, 2, {1, 1}, {700, 0}, 0},
        {"decode 128 fresh", 6, 2, 128, 128, false, true, 0, 0, 0, 3, {1, 1, 1}, {300, 63, 64}, 8},
        {"decode 128 window fresh", 6, 2, 128, 128, false, true, 130, 0, 0, 3, {1, 1, 1}, {300, 129, 130}, 0},
        {"decode 128 window", 6, 2, 128, 128, false, false, 130, 0, 0, 3, {1, 1, 1}, {300, 129, 131}, 0},
        {"decode 128 long window", 4, 1, 128, 128, false, true, 600, 0, 0, 1, {1}, {1500}, 0},
        {"decode softcap", 4, 2, 64, 64, false, true, 0, 5.0f, 0, 2, {1, 1}, {200, 15}, 0},
        {"decode 16 of one", 20, 1, 16, 16, false, true, 0, 0, 0, 2, {1, 1}, {150, 3}, 0},
        {"decode 32", 4, 2, 32, 32, false, true, 0, 0, 0, 1, {1}, {77}, 0},
        {"decode 96", 4, 2, 96, 96, false, true, 0, 0, 0, 1, {1}, {177}, 0},
        {"decode 256", 4, 1, 256, 256, false, true, 0, 0, 0, 1, {1}, {177}, 0},
        {"decode paired 64", 8, 4, 64, 64, true, true, 0, 0, 0, 2, {1, 1}, {177, 18}, 0},
        {"decode paired 16", 8, 4, 16, 16, true, true, 20, 0, 0, 2, {1, 1}, {177, 18}, 0},
        {"decode odd dims", 4, 2, 20, 12, false, true, 0, 0, 0, 1, {1}, {140}, 3},
        {"decode tiny ring", 4, 2, 64, 64, false, true, 5, 0, 0, 1, {1}, {140}, 0},
        {"prefill 128", 6, 2, 128, 128, false, true, 0, 0, 0, 1, {300}, {0}, 0},
        {"prefill 128 past", 3, 1, 128, 128, false, true, 0, 0, 0, 2, {70, 2}, {100, 37}, 8},
        {"prefill 128 not fresh", 3, 1, 128, 128, false, false, 0, 0, 0, 2, {70, 2}, {100, 37}, 0},
        {"prefill 128 window", 3, 1, 128, 128, false, true, 40, 0, 0, 2, {200, 33}, {0, 150}, 0},
        {"prefill 128 window past", 3, 1, 128, 128, false, true, 100, 0, 0, 2, {150, 90}, {250, 99}, 0},
        {"prefill softcap", 2, 1, 64, 64, false, true, 0, 5.0f, 0, 1, {90}, {10}, 0},
        {"prefill 16", 4, 2, 16, 16, false, true, 0, 0, 0, 2, {65, 64}, {0, 7}, 0},
        {"prefill 16 window", 4, 2, 16, 16, false, true, 8, 0, 0, 2, {65, 20}, {0, 33}, 0},
        {"prefill 32", 4, 2, 32, 32, false, true, 0, 0, 0, 1, {100}, {3}, 0},
        {"prefill 96", 2, 1, 96, 96, false, true, 0, 0, 0, 1, {140}, {31}, 0},
        {"prefill 256", 2, 1, 256, 256, false, true, 50, 0, 0, 1, {100}, {31}, 0},
        {"prefill paired 64", 8, 4, 64, 64, true, true, 0, 0, 0, 1, {100}, {31}, 0},
        {"prefill paired 16", 8, 4, 16, 16, true, true, 16, 0, 0, 2, {50, 3}, {31, 0}, 0},
        {"prefill odd dims", 4, 2, 20, 12, false, true, 9, 0, 0, 2, {30, 11}, {31, 0}, 1},
        {"prefill paired odd", 4, 2, 24, 8, true, true, 0, 0, 0, 1, {30}, {5}, 0},
        {"prefill wide", 2, 1, 192, 130, false, true, 0, 0, 0, 1, {20}, {5}, 0},
        {"mixed", 6, 2, 64, 64, false, true, 0, 0, 0, 4, {1, 40, 1, 7}, {90, 3, 0, 130}, 0},
        {"mixed window", 6, 2, 64, 64, false, true, 32, 0, 0, 4, {1, 40, 1, 7}, {90, 3, 0, 130}, 0},
        {"a cache longer than needed", 6, 2, 64, 64, false, true, 0, 0, 512, 3, {1, 40, 0}, {90, 3, 5}, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        run_case(p, &cases[i]);
}

// Slots that no row goes to keep what they held.
static void check_cache_write(struct parity *p, uint64_t k_width, uint64_t v_width, uint64_t cache_rows)
{
    const struct kva_span spans[] = {{2, 0, 1, 77}, {0, 1, 50, 3}, {1, 51, 5, 14}};
    const uint64_t rows = 56, n_spans = 3, padding = k_width % 8 == 0 ? 8 : 1;
    const uint64_t k_stride = k_width + padding, v_stride = v_width + padding;
    double *k, *v, *cache_k, *cache_v;
    void *device_k = parity_input(p, rows * k_stride, p->act, 1.0, &k);
    void *device_v = parity_input(p, rows * v_stride, p->act, 1.0, &v);
    void *device_cache_k = parity_input(p, n_spans * cache_rows * k_width, p->act, 1.0, &cache_k);
    void *device_cache_v = parity_input(p, n_spans * cache_rows * v_width, p->act, 1.0, &cache_v);
    for (uint64_t s = 0; s < n_spans; s++)
        for (uint64_t r = 0; r < spans[s].rows; r++) {
            const uint64_t slot = spans[s].sequence * cache_rows + (spans[s].past + r) % cache_rows;
            memcpy(cache_k + slot * k_width, k + (spans[s].first_row + r) * k_stride, k_width * sizeof *k);
            memcpy(cache_v + slot * v_width, v + (spans[s].first_row + r) * v_stride, v_width * sizeof *v);
        }
    const struct kva_cache_write_args a = {.k = device_k,
                                           .v = device_v,
                                           .cache_k = device_cache_k,
                                           .cache_v = device_cache_v,
                                           .k_stride = k_stride,
                                           .v_stride = v_stride,
                                           .k_width = k_width,
                                           .v_width = v_width,
                                           .cache_rows = cache_rows,
                                           .spans = parity_bytes(p, spans, sizeof spans),
                                           .host_spans = spans,
                                           .n_spans = 3};
    struct kva_error error = {0};
    if (parity_called(p, p->kernels->cache_write(p->device, &a, &error), &error, "cache_write")) {
        parity_same(p, parity_download(p, device_cache_k, n_spans * cache_rows * k_width, p->act), cache_k,
                    n_spans * cache_rows * k_width, "cache_write k, width %llu, %llu rows", (unsigned long long)k_width,
                    (unsigned long long)cache_rows);
        parity_same(p, parity_download(p, device_cache_v, n_spans * cache_rows * v_width, p->act), cache_v,
                    n_spans * cache_rows * v_width, "cache_write v, width %llu, %llu rows", (unsigned long long)v_width,
                    (unsigned long long)cache_rows);
    }
    parity_release(p);
}

void parity_attention(struct parity *p)
{
    check_cache_write(p, 64, 32, 100);
    check_cache_write(p, 1024, 1024, 16);
    check_cache_write(p, 20, 12, 7);
    run_cases(p);
}
