// What Transformers' cache classes hold (cache_utils.py). logical: what the tensors count. held: what the storages
// behind them take; a view keeps the whole tensor alive that it was cut from.
#ifndef KVA_ENGINE_TRANSFORMERS_H
#define KVA_ENGINE_TRANSFORMERS_H

#include "engine/engine.h"

enum { WINDOWS_IGNORED, WINDOWS_VIEW };             // dynamic_windows
enum { FIRST_UPDATE_KEPT, FIRST_UPDATE_COPIED };    // first_update
enum { STATIC_ROWS_LENGTH, STATIC_ROWS_LESS_ONE };  // static_rows
// static_windows: only the static cache, and it is long; a class for each name, and models that want one; a class for
// each name, any model; whatever the name, layers with a window are cut to it
enum { STATIC_WINDOWS_NEVER, STATIC_WINDOWS_BY_NAME, STATIC_WINDOWS_BY_LAYER_TYPES, STATIC_WINDOWS_FROM_CONFIG };
enum { HYBRID_IS_STATIC, HYBRID_IS_DYNAMIC };                 // hybrid_name
enum { QUANTIZED_NONE, QUANTIZED_ANY, QUANTIZED_FULL_ONLY };  // quantized_layers

struct kva_transformers {
    int dynamic_windows, first_update, static_rows, static_windows, hybrid_name, quantized_layers;
    bool capabilities_listed;  // static and quantized caches only for models that say they can
    bool states_in_cache;      // states are layers of the common cache
    bool sharing_dropped;      // layers that read another's cache have none
    uint64_t quantized_bits, quantized_group, quantized_residual;
};

enum kva_transformers_cache {
    KVA_TRANSFORMERS_DYNAMIC,
    KVA_TRANSFORMERS_STATIC_LONG,     // every layer as long as the text may get
    KVA_TRANSFORMERS_STATIC_WINDOWS,  // layers with a window cut to it
    KVA_TRANSFORMERS_STATIC_CHUNKS,   // layers with a window as long as that, even where the text is shorter
    KVA_TRANSFORMERS_STATIC_ALL,      // every layer cut to the window of those that have one
    KVA_TRANSFORMERS_QUANTIZED,
};

// Fills the deployment's blanks. Errors: KVA_REFUSED, KVA_BAD_INPUT (names and switches that contradict each other).
enum kva_status kva_transformers_resolve(struct kva_call *call);

// Which cache generate() makes; deployment->cache_implementation is resolved. Errors: KVA_REFUSED (not one that the
// release makes for this model).
enum kva_status kva_transformers_class(struct kva_call *call, enum kva_transformers_cache *kind);
// How many of the model's layers have a window, as far as Transformers' own classes know.
size_t kva_transformers_windowed_layers(const struct kva_model *model);
// The window of the layers that have one; 0: none has, or they differ.
uint64_t kva_transformers_only_window(const struct kva_model *model);

struct kva_transformers_size {
    uint64_t logical, held, rows;
};

// Rows of one cache of one sequence after deployment->context tokens, of which deployment->prompt were one pass.
void kva_transformers_rows(const struct kva_call *call, enum kva_transformers_cache kind, uint64_t window,
                           struct kva_transformers_size *rows);

// Bytes of a quantized cache of `elements` elements a row in keys and values each, all sequences. Errors: KVA_REFUSED
// (groups that do not divide, packing that is not known).
enum kva_status kva_transformers_quantized(struct kva_call *call, uint64_t k_elements, uint64_t v_elements,
                                           struct kva_transformers_size *size);

// DeepSeek-V4's layers: a window of keys that are also the values, compressed rows, and tokens that wait to be
// compressed. One sequence.
enum kva_status kva_transformers_compressed(struct kva_call *call, const struct kva_layer *layer,
                                            struct kva_transformers_size *size);

#endif
