#include "engine/token_rows.h"

#include "base/error.h"
#include "engine/cache_bytes.h"

enum kva_status kva_refuse_layer(struct kva_call *call, const struct kva_layer *layer, const char *what)
{
    return kva_fail(call->error, KVA_REFUSED, NULL, "engine", "layer %u of %s keeps %s, and how %s does was not read",
                    layer->index, call->model->model_type, what, call->version->file->name);
}

enum kva_status kva_token_rows_of(struct kva_call *call, const struct kva_layer *layer, struct kva_token_rows *rows)
{
    *rows = (struct kva_token_rows){0};
    for (size_t c = 0; c < layer->n_caches; c++) {
        const struct kva_cache *cache = &layer->caches[c];
        const bool latent = rows->attention != NULL && rows->attention->kind == KVA_CACHE_LATENT;
        if (!kva_cache_has_rows(cache))
            continue;
        if (cache->kind == KVA_CACHE_CROSS)
            return kva_refuse_layer(call, layer, "encoder states");
        if (cache->ratio > 1 || (cache->kind == KVA_CACHE_INDEX && !latent))
            return kva_refuse_layer(call, layer, "compressed rows or an indexer of its own kind");
        if (cache->kind == KVA_CACHE_INDEX)
            rows->index = cache;
        else if (rows->attention != NULL)
            return kva_refuse_layer(call, layer, "two caches");
        else
            rows->attention = cache;
    }
    return KVA_OK;
}
