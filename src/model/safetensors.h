// safetensors checkpoints: one file, or shards named by model.safetensors.index.json. Only headers are read here; the
// payload stays in the map. Every header is checked before it is believed: its length against the file, its JSON, the
// offsets of every tensor against the payload, against each other (no overlap, no hole) and against shape x dtype.
// Source of the format: https://github.com/huggingface/safetensors#format
#ifndef KVA_MODEL_SAFETENSORS_H
#define KVA_MODEL_SAFETENSORS_H

#include "kvatlas.h"

struct kva_st_tensor {
    const char *name;
    const char *file;  // which shard, for errors
    enum kva_dtype dtype;
    uint32_t n_dims;
    uint64_t dims[8];
    uint64_t bytes;
    const unsigned char *data;  // inside the map; NULL when opened for headers only
};

struct kva_safetensors;

// path: a .safetensors file, or a directory that holds model.safetensors, or model.safetensors.index.json with its
// shards, or exactly one *.safetensors file. headers_only: nothing is mapped and shards may be missing (then those
// tensors are not listed). Errors: KVA_BAD_INPUT with the file and tensor at fault, KVA_MACHINE.
enum kva_status kva_safetensors_open(const char *path, bool headers_only, struct kva_safetensors **checkpoint,
                                     struct kva_error *error);
void kva_safetensors_close(struct kva_safetensors *checkpoint);

size_t kva_safetensors_count(const struct kva_safetensors *checkpoint);
const struct kva_st_tensor *kva_safetensors_at(const struct kva_safetensors *checkpoint, size_t index);
const struct kva_st_tensor *kva_safetensors_find(const struct kva_safetensors *checkpoint, const char *name);
// The index file's metadata.total_size; 0 when there is none.
uint64_t kva_safetensors_index_bytes(const struct kva_safetensors *checkpoint);
// True when every shard that the index names was there.
bool kva_safetensors_complete(const struct kva_safetensors *checkpoint);
// Whether a directory holds a checkpoint (or its index) at all.
bool kva_safetensors_present(const char *directory);

#endif
