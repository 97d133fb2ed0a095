#include "engine/parallel.h"

#include <stdlib.h>

#include "base/error.h"

struct kva_cache kva_cache_on_rank(const struct kva_cache *cache, uint64_t tp)
{
    struct kva_cache share = *cache;
    if (tp <= 1)
        return share;
    if (!kva_cache_is_replicated(cache))
        share.kv_heads = (uint32_t)kva_heads_ceil(cache->kv_heads, tp);
    for (size_t p = 0; p < share.n_state; p++)
        share.state[p].elements = kva_ceil_div(share.state[p].elements, tp);
    return share;
}

void kva_stages_even(uint64_t n_layers, uint64_t pp, uint64_t *sizes)
{
    for (uint64_t s = 0; s < pp; s++)
        sizes[s] = n_layers / pp + (s < n_layers % pp);
}

// vLLM distributed/utils.py get_pp_indices: partitions[-i] += 1 for i in 2 .. remainder + 1
void kva_stages_inner(uint64_t n_layers, uint64_t pp, uint64_t *sizes)
{
    for (uint64_t s = 0; s < pp; s++)
        sizes[s] = n_layers / pp;
    for (uint64_t i = 2; i <= n_layers % pp + 1; i++)
        sizes[pp - i]++;
}

enum kva_status kva_stages_parse(const char *text, uint64_t n_layers, uint64_t pp, uint64_t *sizes,
                                 struct kva_error *error)
{
    uint64_t sum = 0, n = 0;
    for (const char *at = text;; at++) {
        char *end;
        const unsigned long long layers = strtoull(at, &end, 10);
        if (end == at || *at == '-' || n == pp || layers > n_layers || (*end != ',' && *end != '\0'))
            return kva_fail(error, KVA_BAD_INPUT, NULL, "--pp-layer-partition",
                            "'%s' is not %llu numbers of layers, one for each stage, with commas between", text,
                            (unsigned long long)pp);
        sizes[n++] = layers;
        sum += layers;
        at = end;
        if (*end == '\0')
            break;
    }
    if (n != pp || sum != n_layers)
        return kva_fail(error, KVA_BAD_INPUT, NULL, "--pp-layer-partition",
                        "'%s' gives %llu layers to %llu stages; the model has %llu for %llu", text,
                        (unsigned long long)sum, (unsigned long long)n, (unsigned long long)n_layers,
                        (unsigned long long)pp);
    return KVA_OK;
}
