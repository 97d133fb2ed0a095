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
    struct kva_arch_names *names;  // NULL: nobody asked for a class yet
};

static void free_arch(struct kva_arch *arch)
{
    if (arch != NULL)
        kva_programs_free(arch->programs);
    kva_yaml_free(&kva_arch_schema, arch);
}

void kva_arch_cache_free(struct kva_arch_cache *cache)
{
    if (cache == NULL)
        return;
    for (struct entry *entry = cache->entries; entry != NULL;) {
        struct entry *next = entry->next;
        free_arch(entry->arch);
        free(entry->model_type);
        free(entry);
        entry = next;
    }
    kva_arch_names_free(cache->names);
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

static enum kva_status check_cached(const struct kva_arch *arch, const struct kva_arch_kind *kind,
                                    const struct kva_arch_cached *cached, const struct kva_atlas_file *file,
                                    struct kva_error *error)
{
    enum kva_status status = KVA_OK;
    if (cached->n_state > KVA_MAX_STATE_PARTS)
        return FAIL_AT(kind->name, "state", "has %u parts, at most %d are allowed", cached->n_state,
                       KVA_MAX_STATE_PARTS);
    if ((cached->cache == KVA_CACHE_STATE) != (cached->n_state > 0))
        return FAIL_AT(kind->name, "state", "%s the kind \"%s\", which %s a state",
                       cached->n_state > 0 ? "stands in" : "is missing from", kind->name,
                       cached->n_state > 0 ? "does not cache" : "caches");
    if ((cached->cache == KVA_CACHE_LATENT || cached->cache == KVA_CACHE_INDEX) && cached->k_dim == NULL)
        return FAIL_AT(kind->name, "k_dim", "is missing from the kind \"%s\"", kind->name);
    for (unsigned s = 0; s < cached->n_state && status == KVA_OK; s++)
        status = check_named(arch, "dtype_key", cached->state[s].dtype_key, file, error);
    return status;
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
    if (arch->mtp != NULL && !has_kind(arch, arch->mtp->kind))
        return FAIL_AT("mtp", "mtp", "names the kind \"%s\", which is not one of `kinds`", arch->mtp->kind);
    enum kva_status status = KVA_OK;
    for (unsigned i = 0; i < arch->n_kinds && status == KVA_OK; i++) {
        const struct kva_arch_kind *kind = &arch->kinds[i];
        if (kind->n_also >= KVA_MAX_CACHES)
            return FAIL_AT(kind->name, "also", "has %u caches, at most %d are allowed", kind->n_also,
                           KVA_MAX_CACHES - 1);
        status = check_cached(arch, kind, &kind->first, file, error);
        for (unsigned c = 0; c < kind->n_also && status == KVA_OK; c++)
            status = check_cached(arch, kind, &kind->also[c], file, error);
    }
    return status;
}

static enum kva_status check_tensors(const struct kva_arch *arch, const struct kva_atlas_file *file,
                                     struct kva_error *error)
{
    if (arch->tensors_when != NULL && arch->n_tensors == 0)
        return FAIL_AT("tensors_when", "tensors_when", "stands without `tensors`");
    for (unsigned t = 0; t < arch->n_tensors; t++) {
        const struct kva_arch_tensor *tensor = &arch->tensors[t];
        const char *brace = strpbrk(tensor->name, "{}"), *more = brace != NULL ? strpbrk(brace + 1, "{") : NULL;
        if (brace != NULL && (strncmp(brace, "{i}", 3) != 0 || strpbrk(brace + 3, "{}") != more ||
                              (more != NULL && (strncmp(more, "{e}", 3) != 0 || strpbrk(more + 3, "{}") != NULL))))
            return FAIL_AT(tensor->name, "name", "\"%s\" may hold {i} once, then {e}, and no other brace",
                           tensor->name);
        if ((more != NULL) != (tensor->each != NULL))
            return FAIL_AT(tensor->name, "each", "\"%s\": {e} behind {i} and `each` go together", tensor->name);
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
    const char *missing;
    enum kva_status status = kva_atlas_missing_reference(atlas, arch->references, arch->n_references, &missing, error);
    if (status != KVA_OK)
        return status;
    if (missing != NULL)
        return FAIL_AT(missing, "references", "name \"%s\", which is not in references.yaml", missing);
    if (arch->text_config != NULL)
        return KVA_OK;
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
    if (arch->rope == NULL ? arch->decoder != NULL : !arch->rope->none && arch->rope->theta == NULL)
        return FAIL_AT("rope", "rope", "needs `none: true` or a `theta`");
    status = check_kinds(arch, file, error);
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

// ---------------------------------------------------------------- formulas

static bool resolve_name(void *user, const char *name, size_t length, uint32_t *slot)
{
    const struct kva_arch *arch = user;
    for (unsigned i = 0; i < arch->n_keys; i++)
        if (strncmp(arch->keys[i].name, name, length) == 0 && arch->keys[i].name[length] == '\0') {
            *slot = i;  // values stand in the order of `keys`
            return true;
        }
    return false;
}

enum kva_status kva_arch_formula(const struct kva_arch *arch, const char *formula, const struct kva_program **program,
                                 struct kva_error *error)
{
    return kva_programs_get(arch->programs, formula, resolve_name, (void *)arch, program, error);
}

// What compile_all goes through; `formula` NULL is none.
struct compiler {
    const struct kva_arch *arch;
    struct kva_error *error;
    enum kva_status status;
};

static void compile(struct compiler *c, const char *formula)
{
    const struct kva_program *program;
    if (formula != NULL && c->status == KVA_OK)
        c->status = kva_arch_formula(c->arch, formula, &program, c->error);
}

static void compile_cached(struct compiler *c, const struct kva_arch_cached *cached)
{
    const char *const formulas[] = {cached->when,   cached->kv_heads, cached->k_dim, cached->v_dim,
                                    cached->window, cached->ratio,    cached->length};
    for (size_t i = 0; i < sizeof formulas / sizeof *formulas; i++)
        compile(c, formulas[i]);
    for (unsigned s = 0; s < cached->n_state; s++)
        compile(c, cached->state[s].elements);
}

// Every formula of the file, so that a typing error shows when the file is read and not when a config needs it.
static enum kva_status compile_all(const struct kva_arch *arch, struct kva_error *error)
{
    struct compiler c = {arch, error, KVA_OK};
    for (unsigned i = 0; i < arch->n_keys; i++) {
        const struct kva_arch_key *key = &arch->keys[i];
        if (key->type != KVA_COUNT && key->type != KVA_FLAG)
            continue;
        compile(&c, key->absent);
        compile(&c, key->null);
        compile(&c, key->other);
        compile(&c, key->automatic);
    }
    for (unsigned i = 0; i < arch->n_checks; i++)
        compile(&c, arch->checks[i].holds);
    for (unsigned i = 0; i < arch->n_kinds; i++) {
        compile(&c, arch->kinds[i].reads);
        compile_cached(&c, &arch->kinds[i].first);
        for (unsigned a = 0; a < arch->kinds[i].n_also; a++)
            compile_cached(&c, &arch->kinds[i].also[a]);
    }
    for (unsigned i = 0; i < arch->n_rules; i++)
        compile(&c, arch->rules[i].when);
    compile(&c, arch->tensors_when);
    for (unsigned i = 0; i < arch->n_tensors; i++) {
        compile(&c, arch->tensors[i].when);
        compile(&c, arch->tensors[i].each);
        for (unsigned d = 0; d < arch->tensors[i].n_shape; d++)
            compile(&c, arch->tensors[i].shape[d]);
    }
    compile(&c, arch->mtp != NULL ? arch->mtp->layers : NULL);
    if (arch->decoder != NULL) {
        compile(&c, arch->decoder->memory_layer);
        compile(&c, arch->decoder->prune_from);
        compile(&c, arch->decoder->not_run_when);
    }
    return c.status;
}

// ---------------------------------------------------------------- loading

static enum kva_status load(struct kva_atlas *atlas, const char *model_type, struct kva_arch **arch,
                            struct kva_error *error)
{
    struct kva_atlas_file file;
    struct kva_arch *loaded;
    *arch = NULL;
    enum kva_status status =
        kva_yaml_named(atlas, "architectures", model_type, &kva_arch_schema, &file, (void **)&loaded, error);
    if (status != KVA_OK || loaded == NULL) {
        kva_atlas_file_free(&file);
        return status;
    }
    status = check(atlas, loaded, model_type, &file, error);
    if (status == KVA_OK && (loaded->programs = kva_programs_new()) == NULL)
        status = kva_fail_memory(error, sizeof *loaded);
    if (status == KVA_OK && (status = compile_all(loaded, error)) == KVA_BAD_INPUT && error != NULL) {
        snprintf(error->file, sizeof error->file, "%s", file.name);
        error->line = kva_yaml_line(&file, "keys", error->key);
    }
    if (status == KVA_OK)
        *arch = loaded;
    else
        free_arch(loaded);
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
    for (struct entry **link = &cache->entries, *entry; (entry = *link) != NULL; link = &entry->next)
        if (strcmp(entry->model_type, model_type) == 0) {
            *link = entry->next;  // to the front: the next config is often of the same type
            entry->next = cache->entries;
            cache->entries = entry;
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
        free_arch(loaded);
        return kva_fail_memory(error, sizeof *entry);
    }
    entry->arch = loaded;
    entry->next = cache->entries;
    cache->entries = entry;
    *arch = loaded;
    return KVA_OK;
}

enum kva_status kva_arch_find(struct kva_atlas *atlas, const char *name, const struct kva_arch **arch,
                              struct kva_error *error)
{
    *arch = NULL;
    struct kva_arch_cache *cache;
    enum kva_status status = open_cache(atlas, &cache, error);
    if (status == KVA_OK && cache->names == NULL)
        status = kva_arch_names_open(atlas, &cache->names, error);
    const char *model_type = status == KVA_OK ? kva_arch_names_find(cache->names, name) : NULL;
    return model_type != NULL ? kva_arch_get(atlas, model_type, arch, error) : status;
}
