// What engines with pools of token slots keep of a layer: one attention cache, and beside a latent one the keys of an
// indexer. (SGLang, TensorRT-LLM.)
#ifndef KVA_ENGINE_TOKEN_ROWS_H
#define KVA_ENGINE_TOKEN_ROWS_H

#include "engine/engine.h"

struct kva_token_rows {
    const struct kva_cache *attention;  // NULL: the layer keeps no rows
    const struct kva_cache *index;      // NULL: none
};
// Errors: KVA_REFUSED (encoder states, compressed rows, an indexer beside no latent, two caches: not read).
enum kva_status kva_token_rows_of(struct kva_call *call, const struct kva_layer *layer, struct kva_token_rows *rows);

// The refusal: how the engine keeps `what` of the layer was not read.
enum kva_status kva_refuse_layer(struct kva_call *call, const struct kva_layer *layer, const char *what);

#endif
