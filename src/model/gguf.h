// GGUF headers, versions 2 and 3, little-endian: metadata and tensor infos. The payload is neither read nor mapped (the
// last read may reach 64 KiB into it). Every count, length and offset is checked against the file before it is
// believed, and a header may be 256 MiB long at most. Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#ifndef KVA_MODEL_GGUF_H
#define KVA_MODEL_GGUF_H

#include "base/arena.h"
#include "kvatlas.h"

enum kva_gguf_type {
    KVA_GGUF_U8,
    KVA_GGUF_I8,
    KVA_GGUF_U16,
    KVA_GGUF_I16,
    KVA_GGUF_U32,
    KVA_GGUF_I32,
    KVA_GGUF_F32,
    KVA_GGUF_BOOL,
    KVA_GGUF_TEXT,
    KVA_GGUF_ARRAY,
    KVA_GGUF_U64,
    KVA_GGUF_I64,
    KVA_GGUF_F64,
    KVA_GGUF_N_TYPES,
};

// Arrays longer than this, arrays of text and texts of 1 KiB and more are stepped over: a tokenizer's.
#define KVA_GGUF_KEPT_ITEMS KVA_MAX_LAYERS

struct kva_gguf_value {
    const char *key;
    enum kva_gguf_type type;  // of an array: of its items
    bool is_array;
    uint64_t length;       // items of an array, bytes of a text
    int64_t integer;       // integers and bools; a U64 beyond INT64_MAX is INT64_MAX
    double real;           // F32, F64
    const char *text;      // NULL: stepped over
    const int64_t *items;  // of an array of integers or bools; NULL: stepped over, or of another type
    bool stranger;         // set by kva_gguf_config: a key of the architecture that its file does not name
};

struct kva_gguf_tensor {
    const char *name;
    uint32_t type;  // of ggml_types.h
    uint32_t n_dims;
    uint64_t dims[4];  // as the file has them: innermost first
    uint64_t elements;
    uint64_t bytes;   // KVA_UNKNOWN: kvatlas does not know the type
    uint64_t offset;  // in the payload of its file
};

// What the header says that a layer's keys and values measure.
struct kva_gguf_shape {
    int64_t kv_heads, k_dim, v_dim;
    int64_t k_dim_swa, v_dim_swa;  // of layers with a window, where they differ
    bool mla;                      // k_dim is the latent's
};

struct kva_gguf {
    const char *path;
    uint32_t version;
    struct kva_gguf_value *values;  // of the first file, by key
    size_t n_values;
    struct kva_gguf_tensor *tensors;  // of every file that is there, by name
    size_t n_tensors;
    uint64_t files, files_found;    // of a split model; else 1
    struct kva_gguf_shape *shapes;  // by layer; set by kva_gguf_config
    size_t n_shapes;
    struct kva_arena *arena;  // holds all of the above
};

// path: a .gguf file; of a split model any one of NAME-00001-of-0000N.gguf, whose first must be there. Errors:
// KVA_BAD_INPUT with the file and, where one is at fault, the key or tensor; KVA_MACHINE (I/O, memory).
enum kva_status kva_gguf_read(const char *path, struct kva_gguf **gguf, struct kva_error *error);
// The same from bytes that are the first `length` of a file of `size` bytes, which errors call `path`.
enum kva_status kva_gguf_parse(const char *path, const void *bytes, size_t length, uint64_t size,
                               struct kva_gguf **gguf, struct kva_error *error);
void kva_gguf_close(struct kva_gguf *gguf);

// Whether the file is there and is called .gguf, or begins as a GGUF does.
bool kva_gguf_is(const char *path);

const struct kva_gguf_value *kva_gguf_find(const struct kva_gguf *gguf, const char *key);  // NULL: no such key
// The text of a key, NULL when there is none or it is no text.
const char *kva_gguf_text(const struct kva_gguf *gguf, const char *key);

#endif
