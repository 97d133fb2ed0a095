#include "exec/caches.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/error.h"

struct sizing {
    const struct kva_model *model;
    const struct kva_weights *weights;
    bool exact;
    uint64_t context, sequences, element;
};

// Width of one token's key and value rows, from the projections' rows.
static bool attention_widths(const struct kva_weights *weights, size_t layer, uint64_t *k_width, uint64_t *v_width)
{
    const struct kva_weight *k = kva_layer_weight(weights, layer, KVA_ROLE_K);
    const struct kva_weight *v = kva_layer_weight(weights, layer, KVA_ROLE_V);
    const struct kva_weight *fused = kva_layer_weight(weights, layer, KVA_ROLE_QKV);
    const struct kva_weight *o = kva_layer_weight(weights, layer, KVA_ROLE_O);
    if (k->data != NULL && v->data != NULL) {
        *k_width = k->dims[0];
        *v_width = v->dims[0];
        return true;
    }
    // the output projection's columns are the query rows; what is left is keys and values in equal parts
    if (fused->data == NULL || o->data == NULL || fused->dims[0] <= o->dims[1] ||
        (fused->dims[0] - o->dims[1]) % 2 != 0)
        return false;
    *k_width = *v_width = (fused->dims[0] - o->dims[1]) / 2;
    return true;
}

static enum kva_status size_attention(const struct sizing *sizing, size_t index, struct kva_layer_cache *cache,
                                      uint64_t *bytes, struct kva_error *error)
{
    const struct kva_cache *declared = &sizing->model->layers[index].caches[0];  // full or sliding: kva_shape_read
    cache->reads_layer = declared->reads_layer;
    if (cache->reads_layer >= 0 && sizing->exact)
        return KVA_OK;
    const size_t owner = cache->reads_layer >= 0 ? (size_t)cache->reads_layer : index;
    if (!attention_widths(sizing->weights, owner, &cache->k_width, &cache->v_width))
        return kva_fail(error, KVA_BAD_INPUT, sizing->model->source, NULL,
                        "layer %zu: the weights have no key and value projections to size its cache from", owner);
    const bool ring = sizing->exact && declared->kind == KVA_CACHE_SLIDING;
    cache->rows = ring ? kva_min(declared->window, sizing->context) : sizing->context;
    if (!kva_mul3(sizing->sequences, cache->rows, (cache->k_width + cache->v_width) * sizing->element, bytes))
        return kva_fail(error, KVA_BAD_INPUT, NULL, "--context", "the cache of layer %zu does not fit 64 bits", index);
    return KVA_OK;
}

static enum kva_status size_state(const struct sizing *sizing, size_t index, uint64_t *conv, uint64_t *recurrent,
                                  struct kva_error *error)
{
    const struct kva_weight *taps = kva_layer_weight(sizing->weights, index, KVA_ROLE_SSM_CONV);
    const struct kva_weight *a_log = kva_layer_weight(sizing->weights, index, KVA_ROLE_SSM_A_LOG);
    if (taps->data == NULL || a_log->data == NULL || taps->n_dims != 3 || a_log->n_dims != 2)
        return kva_fail(error, KVA_BAD_INPUT, sizing->model->source, NULL,
                        "layer %zu: the weights have no convolution and A_log to size its state from", index);
    if (!kva_mul3(taps->dims[0], taps->dims[2] - 1, sizing->sequences * sizing->element, conv) ||
        !kva_mul3(a_log->dims[0], a_log->dims[1], sizing->sequences * sizing->element, recurrent))
        return kva_fail(error, KVA_BAD_INPUT, NULL, "--sequences", "the state of layer %zu does not fit 64 bits",
                        index);
    return KVA_OK;
}

enum kva_status kva_caches_alloc(const struct kva_model *model, const struct kva_weights *weights, bool exact,
                                 uint64_t context, uint64_t sequences, enum kva_dtype act, struct kva_ledger *ledger,
                                 struct kva_caches *caches, struct kva_error *error)
{
    const struct sizing sizing = {model, weights, exact, context, sequences, kva_dtype_bytes(act)};
    caches->n_layers = model->n_layers;
    caches->layers = calloc(model->n_layers, sizeof *caches->layers);
    if (caches->layers == NULL)
        return kva_fail_memory(error, model->n_layers * sizeof *caches->layers);
    enum kva_status status = KVA_OK;
    for (size_t i = 0; i < model->n_layers && status == KVA_OK; i++) {
        struct kva_layer_cache *cache = &caches->layers[i];
        cache->reads_layer = -1;
        uint64_t bytes = 0, conv = 0, recurrent = 0;
        if (model->layers[i].mixer == KVA_MIXER_ATTENTION)
            status = size_attention(&sizing, i, cache, &bytes, error);
        else if (model->layers[i].mixer == KVA_MIXER_MAMBA1) {
            status = size_state(&sizing, i, &conv, &recurrent, error);
            bytes = conv + recurrent;
        }
        if (status != KVA_OK || bytes == 0)
            continue;
        void *memory;
        status = kva_ledger_alloc(ledger, (int32_t)i, KVA_CACHE, bytes, &memory, error);
        if (status != KVA_OK)
            continue;
        if (recurrent > 0) {
            cache->conv = memory;
            cache->recurrent = (char *)memory + conv;
        } else {
            cache->k = memory;
            cache->v = (char *)memory + sequences * cache->rows * cache->k_width * sizing.element;
        }
    }
    return status;
}

void kva_caches_release(struct kva_caches *caches)
{
    free(caches->layers);
    caches->layers = NULL;
}
