// Hugging Face ids, and the cache that huggingface_hub keeps on this machine:
//   HUB/models--ORG--NAME/refs/REVISION         the commit that a branch or tag is at
//   HUB/models--ORG--NAME/snapshots/COMMIT/...  its files, as links into ../../blobs
#ifndef KVA_MODEL_HUB_H
#define KVA_MODEL_HUB_H

#include "kvatlas.h"

// ORG/NAME or NAME, and what follows an @.
struct kva_hub_id {
    char repository[192];
    char revision[192];  // "main" when none was named
    bool has_revision;
};
// False: no such id can exist.
bool kva_hub_parse(const char *name, struct kva_hub_id *id);

// HF_HUB_CACHE, else HF_HOME/hub, else XDG_CACHE_HOME/huggingface/hub, else ~/.cache/huggingface/hub.
// (huggingface_hub, constants.py.) False: none of them is set, not even HOME, or it is too long for `path`.
bool kva_hub_cache(char *path, size_t size);
// The folder of a repository in the cache, whether it is there or not. False: as kva_hub_cache.
bool kva_hub_folder(const struct kva_hub_id *id, char *path, size_t size);

// The snapshot of a revision. *found false with KVA_OK: the cache knows nothing of the repository. Errors:
// KVA_BAD_INPUT: the repository is there, its revision is not.
enum kva_status kva_hub_snapshot(const struct kva_hub_id *id, char *path, size_t size, bool *found,
                                 struct kva_error *error);

#endif
