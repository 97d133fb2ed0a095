// Weights that a config says are quantized: how many bytes each matrix takes (data/quantization.yaml).
#ifndef KVA_MODEL_QUANTIZATION_H
#define KVA_MODEL_QUANTIZATION_H

#include "model/build.h"

struct kva_quantization;

// What the config's quantization_config, `config`, means; NULL with KVA_OK: not known, and neither are the bytes.
// Errors: KVA_BAD_INPUT (quantization.yaml breaks its schema), KVA_MACHINE.
enum kva_status kva_quantization_read(struct kva_build *build, const json_t *config,
                                      struct kva_quantization **quantization);
// Frees what the model's arena does not hold: no tensor can be asked for any more. NULL: nothing.
void kva_quantization_close(struct kva_quantization *quantization);

// The bytes of a tensor: as it stands, unless this method converts it. name: with {i} for the layer. False: they wrap.
bool kva_quantization_bytes(const struct kva_quantization *quantization, const char *prefix, const char *name,
                            const char *weight_class, struct kva_tensor *tensor);

// The element type of what it keeps, where the config names none; KVA_DTYPE_NONE: not known.
enum kva_dtype kva_quantization_dtype(const struct kva_quantization *quantization);

// Whether it converts the same tensor in one layer and not in another.
bool kva_quantization_varies(const struct kva_quantization *quantization);

// "mxfp4 (experts in blocks of 32 with one exponent byte)"
const char *kva_quantization_words(struct kva_build *build, const struct kva_quantization *quantization);

#endif
