// One GGUF file while it is read: what gguf_file.c hands to gguf.c.
#ifndef KVA_MODEL_GGUF_FILE_H
#define KVA_MODEL_GGUF_FILE_H

#include "model/gguf.h"
#include "model/gguf_cursor.h"

#define KVA_GGUF_MAX_TENSORS 262144

struct kva_gguf_file {
    struct kva_cursor *cursor;
    struct kva_arena *arena;
    struct kva_error *error;
    const char *name;  // as errors call it
    uint32_t version;
    uint64_t n_values, n_tensors, alignment, kept_items;
    struct kva_gguf_value *values;    // by key
    struct kva_gguf_tensor *tensors;  // by offset
};

enum kva_status kva_gguf_file_read(struct kva_gguf_file *file, struct kva_cursor *cursor, struct kva_arena *arena);
const struct kva_gguf_value *kva_gguf_file_find(const struct kva_gguf_value *values, size_t n, const char *key);

static inline bool kva_gguf_is_real(enum kva_gguf_type type)
{
    return type == KVA_GGUF_F32 || type == KVA_GGUF_F64;
}

#endif
