// Rotary embedding, scaled dot-product attention over a cache and a pass's own rows, and the cache's update.
#include <math.h>

#include "base/checked.h"
#include "kernels/cpu/cpu.h"

enum kva_status kva_cpu_rope(struct kva_device *device, const struct kva_rope_args *a, struct kva_error *error)
{
    (void)error;
    const uint64_t half = a->rotary_dim / 2;
    for (uint64_t r = 0; r < a->rows; r++)
        for (uint64_t j = 0; j < half; j++) {
            // the angle is a float32 product, as in the reference implementations
            const float angle = (float)a->positions[r] * a->inverse_frequencies[j];
            const float cosine = cosf(angle) * a->scale, sine = sinf(angle) * a->scale;
            for (uint64_t h = 0; h < a->heads; h++) {
                const uint64_t at = r * a->stride + h * a->head_dim + j;
                const float x = kva_load(device->act, a->x, at), y = kva_load(device->act, a->x, at + half);
                kva_store(device->act, a->x, at, x * cosine - y * sine);
                kva_store(device->act, a->x, at + half, y * cosine + x * sine);
            }
        }
    return KVA_OK;
}

// Where the key (or value) row of a position lies: in elements, of the pass's rows or of the cache.
static uint64_t row_of(const struct kva_attention_args *a, const struct kva_span *span, uint64_t position,
                       uint64_t stride, uint64_t width, bool *in_cache)
{
    *in_cache = !(a->fresh && position >= span->past);
    if (!*in_cache)
        return (span->first_row + position - span->past) * stride;
    return (span->sequence * a->cache_rows + position % a->cache_rows) * width;
}

// One head of one query row, keys in the order of their positions, softmax kept running: the same order whatever the
// cache's shape, so that a ring and a full-length cache give the same bits.
static void attend(const struct kva_device *device, const struct kva_attention_args *a, const struct kva_span *span,
                   uint64_t row, uint32_t head)
{
    const uint32_t group = a->heads / a->kv_heads;
    const uint32_t key_head = a->paired ? 2 * (head / 2 / group) + head % 2 : head / group;
    const uint32_t value_head = a->paired ? 2 * (head / 2 / group) : head / group;
    const uint64_t width = a->paired ? 2 * (uint64_t)a->v_dim : a->v_dim;
    const uint64_t k_width = (uint64_t)a->kv_heads * a->k_dim, v_width = (uint64_t)a->kv_heads * a->v_dim;
    const uint64_t last = span->past + row;
    const uint64_t first = a->window > 0 && last + 1 > a->window ? last + 1 - a->window : 0;
    float q_buffer[MAX_HEAD_WIDTH], k_buffer[MAX_HEAD_WIDTH], v_buffer[MAX_HEAD_WIDTH], sum[MAX_HEAD_WIDTH] = {0};
    const float *q = kva_row(device->act, a->q, (span->first_row + row) * a->q_stride + (uint64_t)head * a->k_dim,
                             a->k_dim, q_buffer);
    float largest = -INFINITY, total = 0;
    for (uint64_t position = first; position <= last; position++) {
        bool in_cache;
        uint64_t at = row_of(a, span, position, a->k_stride, k_width, &in_cache);
        const float *k =
            kva_row(device->act, in_cache ? a->cache_k : a->k, at + (uint64_t)key_head * a->k_dim, a->k_dim, k_buffer);
        float score = 0;
        for (uint32_t i = 0; i < a->k_dim; i++)
            score += q[i] * k[i];
        score *= a->scale;
        if (a->softcap > 0)
            score = a->softcap * tanhf(score / a->softcap);
        const float above = score > largest ? score : largest;
        const float keep = expf(largest - above), weight = expf(score - above);
        at = row_of(a, span, position, a->v_stride, v_width, &in_cache);
        const float *v =
            kva_row(device->act, in_cache ? a->cache_v : a->v, at + (uint64_t)value_head * a->v_dim, width, v_buffer);
        for (uint64_t i = 0; i < width; i++)
            sum[i] = sum[i] * keep + weight * v[i];
        total = total * keep + weight;
        largest = above;
    }
    const uint64_t out = (span->first_row + row) * a->out_stride + (uint64_t)head * width;
    for (uint64_t i = 0; i < width; i++)
        kva_store(device->act, a->out, out + i, sum[i] / total);
}

enum kva_status kva_cpu_attention(struct kva_device *device, const struct kva_attention_args *a,
                                  struct kva_error *error)
{
    if (a->k_dim > MAX_HEAD_WIDTH || (a->paired ? 2 * a->v_dim : a->v_dim) > MAX_HEAD_WIDTH)
        return kva_fail(error, KVA_MACHINE, NULL, "attention", "a head of %u elements is wider than %d",
                        a->k_dim > a->v_dim ? a->k_dim : a->v_dim, MAX_HEAD_WIDTH);
    for (uint32_t s = 0; s < a->n_spans; s++)
        for (uint32_t row = 0; row < a->host_spans[s].rows; row++)
            for (uint32_t head = 0; head < a->heads; head++)
                attend(device, a, &a->host_spans[s], row, head);
    return KVA_OK;
}

enum kva_status kva_cpu_cache_write(struct kva_device *device, const struct kva_cache_write_args *a,
                                    struct kva_error *error)
{
    (void)error;
    const uint64_t size = kva_dtype_bytes(device->act);
    for (uint32_t s = 0; s < a->n_spans; s++) {
        const struct kva_span *span = &a->host_spans[s];
        const uint64_t skip = span->rows > a->cache_rows ? span->rows - a->cache_rows : 0;
        for (uint64_t row = skip; row < span->rows; row++) {
            const uint64_t slot = span->sequence * a->cache_rows + (span->past + row) % a->cache_rows;
            memcpy((char *)a->cache_k + slot * a->k_width * size,
                   (const char *)a->k + (span->first_row + row) * a->k_stride * size, a->k_width * size);
            memcpy((char *)a->cache_v + slot * a->v_width * size,
                   (const char *)a->v + (span->first_row + row) * a->v_stride * size, a->v_width * size);
        }
    }
    return KVA_OK;
}
