#include "engine/parallel.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

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

enum kva_status kva_heads_even(struct kva_call *call, uint64_t heads, uint64_t tp, uint64_t *share)
{
    *share = kva_heads_floor(heads, tp);
    if (heads == 0 || tp == 0 || heads % tp == 0 || tp % heads == 0)
        return KVA_OK;
    return kva_fail(call->error, KVA_BAD_INPUT, NULL, "tp",
                    "%llu KV heads cannot be divided among %llu ranks, nor repeated evenly on them",
                    (unsigned long long)heads, (unsigned long long)tp);
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
    for (uint64_t i = 2; pp > 0 && i <= n_layers % pp + 1; i++)
        sizes[pp - i]++;
}

void kva_stages_last(uint64_t n_layers, uint64_t pp, uint64_t *sizes)
{
    for (uint64_t s = 0; s < pp; s++)
        sizes[s] = n_layers / pp + (s >= pp - n_layers % pp);
}

// "31,31"
static enum kva_status parse(const char *text, uint64_t n_layers, uint64_t pp, uint64_t *sizes, struct kva_error *error)
{
    uint64_t sum = 0, n = 0;
    for (const char *at = text;; at++) {
        char *end;
        at += strspn(at, " ");
        const unsigned long long layers = strtoull(at, &end, 10);
        if (!isdigit((unsigned char)*at) || n == pp || layers > n_layers || (*end != ',' && *end != '\0'))
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

enum kva_status kva_stages_lay(struct kva_call *call, void (*spread)(uint64_t n_layers, uint64_t pp, uint64_t *sizes),
                               const uint32_t **stage_of)
{
    const uint64_t pp = kva_max(call->deployment->pp, 1);
    const size_t n_layers = call->model->n_layers;
    uint64_t *sizes = kva_arena_alloc(call->arena, pp, sizeof *sizes);
    uint32_t *stages = kva_arena_alloc(call->arena, n_layers + 1, sizeof *stages);
    if (sizes == NULL || stages == NULL)
        return kva_fail_memory(call->error, pp * sizeof *sizes + n_layers * sizeof *stages);
    enum kva_status status = KVA_OK;
    if (call->deployment->pp_partition != NULL)
        status = parse(call->deployment->pp_partition, n_layers, pp, sizes, call->error);
    else
        spread(n_layers, pp, sizes);
    size_t layer = 0;
    for (uint64_t stage = 0; status == KVA_OK && stage < pp; stage++)
        for (uint64_t i = 0; i < sizes[stage]; i++)
            stages[layer++] = (uint32_t)stage;
    *stage_of = stages;
    return status;
}
