// The data directory, or the copy of it that is embedded in the library: one way to read either.
#ifndef KVA_MODEL_ATLAS_H
#define KVA_MODEL_ATLAS_H

#include "kvatlas.h"
#include "model/arch.h"

// One file below data/.
struct kva_atlas_file {
    const char *bytes;  // one zero follows them
    size_t length;
    char *name;   // as errors call it: "data/architectures/llama.yaml", or the path that was read
    char *owned;  // what kva_atlas_file_free frees; NULL: embedded
};

// path: below data/, "architectures/llama.yaml". *found false with KVA_OK: no such file. A path that could leave the
// directory (a component "..", an absolute path) is never found.
enum kva_status kva_atlas_read(struct kva_atlas *atlas, const char *path, struct kva_atlas_file *file, bool *found,
                               struct kva_error *error);
void kva_atlas_file_free(struct kva_atlas_file *file);

// Calls `visit` with the path, below data/, of each file below `folder` ("architectures", "models"), in no promised
// order, until it returns false.
typedef bool (*kva_atlas_visit)(void *user, const char *path);
void kva_atlas_list(struct kva_atlas *atlas, const char *folder, kva_atlas_visit visit, void *user);

// One entry of data/references.yaml.
struct kva_reference {
    char *id, *title, *url, *date;
};
// NULL with KVA_OK: no such id. Errors: KVA_BAD_INPUT when references.yaml breaks its schema.
enum kva_status kva_atlas_reference(struct kva_atlas *atlas, const char *id, const struct kva_reference **reference,
                                    struct kva_error *error);
// *missing: the first of ids [n] that names no entry; NULL with KVA_OK when all do. Errors as above.
enum kva_status kva_atlas_missing_reference(struct kva_atlas *atlas, char *const *ids, unsigned n, const char **missing,
                                            struct kva_error *error);

// What references.c keeps in the atlas.
struct kva_reference_shelf;
void kva_reference_shelf_free(struct kva_reference_shelf *shelf);
struct kva_reference_shelf **kva_atlas_reference_shelf(struct kva_atlas *atlas);

// The architecture file one of whose `architectures` is `name`; *arch NULL with KVA_OK: none.
enum kva_status kva_arch_find(struct kva_atlas *atlas, const char *name, const struct kva_arch **arch,
                              struct kva_error *error);

// Class names -> model types, of all architecture files. find: NULL when no file names the class.
struct kva_arch_names;
enum kva_status kva_arch_names_open(struct kva_atlas *atlas, struct kva_arch_names **names, struct kva_error *error);
void kva_arch_names_free(struct kva_arch_names *names);
const char *kva_arch_names_find(const struct kva_arch_names *names, const char *class_name);

// What arch.c keeps in the atlas.
struct kva_arch_cache;
void kva_arch_cache_free(struct kva_arch_cache *cache);
struct kva_arch_cache **kva_atlas_arch_cache(struct kva_atlas *atlas);

// The data that was built in, and no directory.
bool kva_atlas_is_built_in(const struct kva_atlas *atlas);

// What another room keeps in the atlas under `name` (a literal): the slot starts as NULL, and `release` gets what is in
// it when the atlas is closed. NULL: out of memory.
void **kva_atlas_keep(struct kva_atlas *atlas, const char *name, void (*release)(void *kept));

#endif
