// The element types of ggml's tensors: elements and bytes of a block. (ggml/src/ggml-common.h, ggml/include/ggml.h;
// gguf-py gguf/constants.py GGML_QUANT_SIZES.)
#ifndef KVA_MODEL_GGML_TYPES_H
#define KVA_MODEL_GGML_TYPES_H

#include "kvatlas.h"

struct kva_ggml_type {
    const char *name;          // "Q4_K"
    uint32_t elements, bytes;  // of one block
};

// NULL: no type of this number is known.
const struct kva_ggml_type *kva_ggml_type(uint32_t number);

#endif
