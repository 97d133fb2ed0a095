// Architecture files: loaded once each, checked beyond their schema, and kept in the atlas.
#include "model/arch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "model/arch_schema.h"
#include "model/atlas.h"
#include "model/expr.h"

struct entry {
    struct entry *next;
    char *model_type;
    struct kva_arch *arch;  // NULL: known not to exist
};

struct kva_arch_cache {
    struct entry *entries;
    struct kva_references *references;
};

void kva_arch_cache_free(struct kva_arch_cache *cache)
{
    if (cache == NULL)
        return;
    for (struct entry *entry = cache->entries; entry != NULL;) {
        struct entry *next = entry->next;
        kva_yaml_free(&kva_arch_schema, entry->arch);
        free(entry->model_type);
        free(entry);
        entry = next;
    }
    kva_yaml_free(&kva_references_schema, cache->references);
    free(cache);
}

static enum kva_status open_cache(struct kva_atlas *atlas, struct kva_arch_cache **cache, struct kva_error *error)
{
    struct kva_arch_cache **slot = kva_atlas_arch_cache(atlas);
    if (*slot == NULL)
        *slot = calloc(1, sizeof **slot);
    *cache = *slot;
    return *slot != NULL ? KVA_OK : kva_fail_memory(error, sizeof **slot);
}

enum kva_status kva_atlas_reference(struct kva_atlas *atlas, const char *id, const struct kva_reference **reference,
                                    struct kva_error *error)
{
    *reference = NULL;
    struct kva_arch_cache *cache;
    enum kva_status status = open_cache(atlas, &cache, error);
    if (status != KVA_OK)
        return status;
    if (cache->references == NULL) {
        struct kva_atlas_file file;
        bool found;
        status = kva_atlas_read(atlas, "references.yaml", &file, &found, error);
        if (status == KVA_OK && !found)
            status = kva_fail(error, KVA_BAD_INPUT, "references.yaml", NULL, "is missing from the data directory");
        if (status == KVA_OK)
            status = kva_yaml_load(&file, &kva_references_schema, (void **)&cache->references, error);
        kva_atlas_file_free(&file);
        if (status != KVA_OK)
            return status;
    }
    for (unsigned i = 0; i < cache->references->n_entries; i++)
        if (strcmp(cache->references->entries[i].id, id) == 0)
            *reference = &cache->references->entries[i];
    return KVA_OK;
}

// A failure that names the line on which `value` first stands.
#define FAIL_AT(value, key, ...)                                                                                       \
    fail_at(kva_fail(error, KVA_BAD_INPUT, file->name, key, __VA_ARGS__), file, key, value, error)
static enum kva_status fail_at(enum kva_status status, const struct kva_atlas_file *file, const char *section,
                               const char *value, struct kva_error *error)
{
    if (error != NULL)
        error->line = kva_yaml_line(file, section, value);
    return status;
}

static bool has_kind(const struct kva_arch *arch, const char *name)
{
    for (unsigned i = 0; i < arch->n_kinds; i++)
        if (strcmp(arch->kinds[i].name, name) == 0)
            return true;
    return false;
}

static const struct kva_arch_key *find_key(const struct kva_arch *arch, const char *name)
{
    for (unsigned i = 0; i < arch->n_keys; i++)
        if (strcmp(arch->keys[i].name, name) == 0)
            return &arch->keys[i];
    return NULL;
}

static enum kva_status check_named(const struct kva_arch *arch, const char *where, const char *name,
                                   const struct kva_atlas_file *file, struct kva_error *error)
{
    if (name == NULL || find_key(arch, name) != NULL)
        return KVA_OK;
    return FAIL_AT(name, where, "names \"%s\", which is not one of `keys`", name);
}

static enum kva_status check_kinds(const struct kva_arch *arch, const struct kva_atlas_file *file,
                                   struct kva_error *error)
{
    for (unsigned i = 0; i < arch->n_rules; i++)
        if (!has_kind(arch, arch->rules[i].kind))
            return FAIL_AT(arch->rules[i].kind, "rules", "name the kind \"%s\", which is not one of `kinds`",
                           arch->rules[i].kind);
    for (unsigned i = 0; arch->list != NULL && i < arch->list->n_labels; i++)
        if (!has_kind(arch, arch->list->labels[i].kind))
            return FAIL_AT(arch->list->labels[i].kind, "list", "names the kind \"%s\", which is not one of `kinds`",
                           arch->list->labels[i].kind);
    for (unsigned t = 0; t < arch->n_tensors; t++)
        for (unsigned i = 0; i < arch->tensors[t].n_kinds; i++)
            if (!has_kind(arch, arch->tensors[t].kinds[i]))
                return FAIL_AT(arch->tensors[t].name, "kinds", "name \"%s\", which is not one of `kinds`",
                               arch->tensors[t].kinds[i]);
    for (unsigned i = 0; i < arch->n_kinds; i++) {
        const struct kva_arch_kind *kind = &arch->kinds[i];
        if (kind->n_state > KVA_MAX_STATE_PARTS)
            return FAIL_AT(kind->name, "state", "has %u parts, at most %d are allowed", kind->n_state,
                           KVA_MAX_STATE_PARTS);
        if (kind->cache == KVA_CACHE_STATE && kind->n_state == 0)
            return FAIL_AT(kind->name, "state", "is missing from the kind \"%s\", which caches a state", kind->name);
    }
    return KVA_OK;
}

static enum kva_status check_tensors(const struct kva_arch *arch, const struct kva_atlas_file *file,
                                     struct kva_error *error)
{
    for (unsigned t = 0; t < arch->n_tensors; t++) {
        const struct kva_arch_tensor *tensor = &arch->tensors[t];
        const char *brace = strpbrk(tensor->name, "{}");
        if (brace != NULL && (strncmp(brace, "{i}", 3) != 0 || strpbrk(brace + 3, "{}") != NULL))
            return FAIL_AT(tensor->name, "name", "\"%s\" may hold {i} once and no other brace", tensor->name);
        if (brace == NULL && tensor->n_kinds > 0)
            return FAIL_AT(tensor->name, "kinds", "\"%s\" is of no layer, so it cannot be of some kinds only",
                           tensor->name);
    }
    return KVA_OK;
}

// What the schema cannot say: names that must name something, and sections that must be there together.
static enum kva_status check(struct kva_atlas *atlas, const struct kva_arch *arch, const char *model_type,
                             const struct kva_atlas_file *file, struct kva_error *error)
{
    if (strcmp(arch->model_type, model_type) != 0)
        return FAIL_AT("model_type", "model_type", "is \"%s\", but the file is named for \"%s\"", arch->model_type,
                       model_type);
    for (unsigned i = 0; i < arch->n_references; i++) {
        const struct kva_reference *reference;
        enum kva_status status = kva_atlas_reference(atlas, arch->references[i], &reference, error);
        if (status != KVA_OK)
            return status;
        if (reference == NULL)
            return FAIL_AT(arch->references[i], "references", "name \"%s\", which is not in references.yaml",
                           arch->references[i]);
    }
    if (arch->text_config != NULL)
        return arch->text_model_type != NULL
                   ? KVA_OK
                   : FAIL_AT("text_config", "text_model_type", "is missing, `text_config` needs it");
    static const char *const NEEDED[] = {"layers", "context"};
    for (size_t i = 0; i < sizeof NEEDED / sizeof *NEEDED; i++)
        if (find_key(arch, NEEDED[i]) == NULL || find_key(arch, NEEDED[i])->type != KVA_COUNT)
            return FAIL_AT("keys", "keys", "have no count named \"%s\"", NEEDED[i]);
    for (unsigned i = 0; i < arch->n_keys; i++) {
        const struct kva_arch_key *key = &arch->keys[i];
        if (find_key(arch, key->name) != key)
            return FAIL_AT("keys", key->name, "stands twice in `keys`");
        if (key->n_keys == 0 && key->absent == NULL)
            return FAIL_AT(key->name, key->name, "has neither `keys` nor a formula in `absent`");
    }
    if (arch->n_kinds == 0 || arch->n_rules == 0)
        return FAIL_AT("model_type", arch->n_kinds == 0 ? "kinds" : "rules", "is missing");
    if (arch->rope == NULL || (!arch->rope->none && arch->rope->theta == NULL))
        return FAIL_AT("rope", "rope", "needs `none: true` or a `theta`");
    enum kva_status status = check_kinds(arch, file, error);
    if (status == KVA_OK)
        status = check_tensors(arch, file, error);
    const struct kva_arch_decoder *decoder = arch->decoder;
    if (status == KVA_OK && decoder != NULL) {
        const char *const named[] = {decoder->norm_eps, decoder->activation, decoder->attention_scalar,
                                     decoder->attention_softcap, decoder->final_softcap};
        for (size_t i = 0; i < sizeof named / sizeof *named && status == KVA_OK; i++)
            status = check_named(arch, "decoder", named[i], file, error);
    }
    return status;
}

static enum kva_status load(struct kva_atlas *atlas, const char *model_type, struct kva_arch **arch,
                            struct kva_error *error)
{
    char path[512];
    struct kva_atlas_file file;
    bool found;
    *arch = NULL;
    int length = snprintf(path, sizeof path, "architectures/%s.yaml", model_type);
    if (length < 0 || (size_t)length >= sizeof path || strchr(model_type, '/') != NULL)
        return KVA_OK;
    enum kva_status status = kva_atlas_read(atlas, path, &file, &found, error);
    if (status != KVA_OK || !found)
        return status;
    struct kva_arch *loaded = NULL;
    status = kva_yaml_load(&file, &kva_arch_schema, (void **)&loaded, error);
    if (status == KVA_OK)
        status = check(atlas, loaded, model_type, &file, error);
    if (status == KVA_OK)
        *arch = loaded;
    else
        kva_yaml_free(&kva_arch_schema, loaded);
    kva_atlas_file_free(&file);
    return status;
}

enum kva_status kva_arch_get(struct kva_atlas *atlas, const char *model_type, const struct kva_arch **arch,
                             struct kva_error *error)
{
    *arch = NULL;
    struct kva_arch_cache *cache;
    enum kva_status status = open_cache(atlas, &cache, error);
    if (status != KVA_OK)
        return status;
    for (struct entry *entry = cache->entries; entry != NULL; entry = entry->next)
        if (strcmp(entry->model_type, model_type) == 0) {
            *arch = entry->arch;
            return KVA_OK;
        }
    struct kva_arch *loaded;
    status = load(atlas, model_type, &loaded, error);
    if (status != KVA_OK || loaded == NULL)  // an unknown type is not remembered: a caller could ask for any number
        return status;
    struct entry *entry = calloc(1, sizeof *entry);
    if (entry != NULL)
        entry->model_type = strdup(model_type);
    if (entry == NULL || entry->model_type == NULL) {
        free(entry);
        kva_yaml_free(&kva_arch_schema, loaded);
        return kva_fail_memory(error, sizeof *entry);
    }
    entry->arch = loaded;
    entry->next = cache->entries;
    cache->entries = entry;
    *arch = loaded;
    return KVA_OK;
}

struct search {
    struct kva_atlas *atlas;
    const char *name;
    const struct kva_arch *found;
    enum kva_status status;
    struct kva_error *error;
};

static bool visit(void *user, const char *path)
{
    struct search *search = user;
    char model_type[256];
    const char *base = strrchr(path, '/') + 1, *end = strstr(base, ".yaml");
    if (end == NULL || end[strlen(".yaml")] != '\0' || (size_t)(end - base) >= sizeof model_type)
        return true;
    memcpy(model_type, base, (size_t)(end - base));
    model_type[end - base] = '\0';
    const struct kva_arch *arch;
    search->status = kva_arch_get(search->atlas, model_type, &arch, search->error);
    for (unsigned i = 0; search->status == KVA_OK && arch != NULL && i < arch->n_architectures; i++)
        if (strcmp(arch->architectures[i], search->name) == 0)
            search->found = arch;
    return search->status == KVA_OK && search->found == NULL;
}

enum kva_status kva_arch_find(struct kva_atlas *atlas, const char *name, const struct kva_arch **arch,
                              struct kva_error *error)
{
    struct search search = {.atlas = atlas, .name = name, .error = error};
    kva_atlas_list(atlas, "architectures", visit, &search);
    *arch = search.found;
    return search.status;
}
