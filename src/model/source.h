// Where a model's description lies: from the name that a person gives to a file, or to the bytes of a config.
//
// MODEL is, in this order: "-" (standard input), a directory, a file, a catalogue name, a Hugging Face id in the local
// cache. ID@REVISION names a revision and is looked up in the cache only. With `fetch`, an id is asked of the hub.
#ifndef KVA_MODEL_SOURCE_H
#define KVA_MODEL_SOURCE_H

#include "kvatlas.h"
#include "model/atlas.h"

enum { KVA_ORIGIN_PATH = 4096, KVA_CONFIG_LIMIT = 16 << 20 };

struct kva_origin {
    char path[KVA_ORIGIN_PATH];  // as errors name it: a path, a URL, "standard input"
    const char *directory;       // where the checkpoint's files lie, NULL: nowhere
    const char *bytes;           // of the config; NULL: `path` is a file that nobody read yet
    size_t length;
    char note[256];  // what a person should know about how it was found; "" when nothing

    // what kva_origin_free releases
    char *owned;
    struct kva_atlas_file file;
    char folder[KVA_ORIGIN_PATH];  // what `directory` points to, unless MODEL is one
    bool temporary;                // `folder` was made for this origin
};

// Errors: KVA_BAD_INPUT that says what was looked for and where; with `fetch` also KVA_MACHINE (no network, no
// libcurl). Release *origin with kva_origin_free, also after an error.
enum kva_status kva_origin_find(struct kva_atlas *atlas, const char *name, bool fetch, struct kva_origin *origin,
                                struct kva_error *error);
// Bytes that the caller has and keeps. path: what errors call them.
void kva_origin_of_bytes(struct kva_origin *origin, const char *bytes, size_t length, const char *path);
// Reads the file unless its bytes are there.
enum kva_status kva_origin_read(struct kva_origin *origin, struct kva_error *error);
void kva_origin_free(struct kva_origin *origin);

#endif
