// The catalogue: data/models/ORG/NAME/config.json, and beside each a source.yaml that says where it was seen.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/error.h"
#include "model/arch_schema.h"
#include "model/atlas.h"

enum { PATTERN = 4096 };

// source.yaml
struct origin {
    char *source, *fidelity, *read, *notes;
};

static const cyaml_schema_field_t ORIGIN_FIELDS[] = {
    CYAML_FIELD_STRING_PTR("source", CYAML_FLAG_POINTER, struct origin, source, 1, CYAML_UNLIMITED),
    CYAML_FIELD_STRING_PTR("fidelity", CYAML_FLAG_POINTER, struct origin, fidelity, 1, CYAML_UNLIMITED),
    CYAML_FIELD_STRING_PTR("read", CYAML_FLAG_POINTER, struct origin, read, 1, CYAML_UNLIMITED),
    CYAML_FIELD_STRING_PTR("notes", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct origin, notes, 0, CYAML_UNLIMITED),
    CYAML_FIELD_END};
static const cyaml_schema_value_t ORIGIN = {CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct origin, ORIGIN_FIELDS)};

struct listing {
    struct kva_atlas *atlas;
    const struct kva_catalogue_query *query;
    struct kva_arena *arena;
    struct kva_catalogue_entry *entries;
    size_t n, capacity;
    enum kva_status status;
    struct kva_error *error;
};

static bool contains(const char *text, const char *part)
{
    const size_t length = strlen(part);
    for (; *text != '\0'; text++)
        if (strncasecmp(text, part, length) == 0)
            return true;
    return length == 0;
}

static bool matches(const struct kva_catalogue_query *query, const struct kva_catalogue_entry *entry)
{
    if (query == NULL)
        return true;
    if (query->family != NULL && strcasecmp(query->family, entry->family) != 0)
        return false;
    if (query->model_type != NULL && strcasecmp(query->model_type, entry->model_type) != 0)
        return false;
    return query->text == NULL || contains(entry->id, query->text) || contains(entry->model_type, query->text) ||
           contains(entry->architecture, query->text) || contains(entry->family, query->text);
}

static const char *keep(struct listing *listing, const char *text)
{
    const char *copy = kva_arena_strdup(listing->arena, text != NULL ? text : "");
    if (copy == NULL)
        listing->status = kva_fail_memory(listing->error, 0);
    return copy != NULL ? copy : "";
}

// What the model says of itself, or why it cannot be read.
static void read_config(struct listing *listing, const struct kva_atlas_file *file, struct kva_catalogue_entry *entry)
{
    const struct kva_model_options options = {.no_tensors = true};
    struct kva_error problem;
    struct kva_model *model;
    char pattern[PATTERN];
    entry->model_type = entry->architecture = entry->family = entry->pattern = "";
    const enum kva_status status =
        kva_model_from_json(listing->atlas, file->bytes, file->length, entry->id, &options, &model, &problem);
    if (status == KVA_MACHINE) {
        listing->status = status;
        if (listing->error != NULL)
            *listing->error = problem;
        return;
    }
    if (status != KVA_OK) {
        entry->problem =
            kva_arena_printf(listing->arena, "%s%s%s", problem.key, problem.key[0] != '\0' ? ": " : "", problem.text);
        if (entry->problem == NULL)
            listing->status = kva_fail_memory(listing->error, sizeof problem);
        return;
    }
    entry->model_type = keep(listing, model->model_type);
    entry->architecture = keep(listing, model->architecture);
    entry->family = keep(listing, model->family);
    entry->pattern = keep(listing, kva_model_pattern(model, pattern, sizeof pattern));
    entry->layers = model->n_layers;
    entry->context_limit = model->context_limit;
    kva_model_close(model);
}

static void read_source(struct listing *listing, const char *config, struct kva_catalogue_entry *entry)
{
    char path[512];
    struct kva_atlas_file file;
    struct origin *origin = NULL;
    bool found;
    entry->source = entry->fidelity = entry->notes = "";
    snprintf(path, sizeof path, "%.*s/source.yaml", (int)(strrchr(config, '/') - config), config);
    listing->status = kva_atlas_read(listing->atlas, path, &file, &found, listing->error);
    if (listing->status != KVA_OK || !found)
        return;
    listing->status = kva_yaml_load(&file, &ORIGIN, (void **)&origin, listing->error);
    if (listing->status == KVA_OK) {
        entry->source = keep(listing, origin->source);
        entry->fidelity = keep(listing, origin->fidelity);
        entry->notes = keep(listing, origin->notes);
    }
    kva_yaml_free(&ORIGIN, origin);
    kva_atlas_file_free(&file);
}

static struct kva_catalogue_entry *add(struct listing *listing)
{
    if (listing->n == listing->capacity) {
        const size_t capacity = listing->capacity == 0 ? 64 : 2 * listing->capacity;
        struct kva_catalogue_entry *grown = kva_arena_alloc(listing->arena, capacity, sizeof *grown);
        if (grown == NULL)
            return NULL;
        if (listing->n > 0)
            memcpy(grown, listing->entries, listing->n * sizeof *grown);
        listing->entries = grown;
        listing->capacity = capacity;
    }
    return &listing->entries[listing->n++];
}

static bool visit(void *user, const char *path)
{
    struct listing *listing = user;
    const size_t length = strlen(path), head = strlen("models/"), tail = strlen("/config.json");
    struct kva_atlas_file file;
    bool found;
    if (length <= head + tail || length > 400 || strcmp(path + length - tail, "/config.json") != 0)
        return true;
    listing->status = kva_atlas_read(listing->atlas, path, &file, &found, listing->error);
    if (listing->status != KVA_OK || !found)
        return listing->status == KVA_OK;
    struct kva_catalogue_entry entry = {.id = kva_arena_strndup(listing->arena, path + head, length - head - tail)};
    if (entry.id == NULL)
        listing->status = kva_fail_memory(listing->error, length);
    else
        read_config(listing, &file, &entry);
    kva_atlas_file_free(&file);
    if (listing->status != KVA_OK || !matches(listing->query, &entry))
        return listing->status == KVA_OK;
    read_source(listing, path, &entry);
    struct kva_catalogue_entry *added = listing->status == KVA_OK ? add(listing) : NULL;
    if (added != NULL)
        *added = entry;
    else if (listing->status == KVA_OK)
        listing->status = kva_fail_memory(listing->error, sizeof entry);
    return listing->status == KVA_OK;
}

static int compare(const void *a, const void *b)
{
    const char *first = ((const struct kva_catalogue_entry *)a)->id,
               *second = ((const struct kva_catalogue_entry *)b)->id;
    const int order = strcasecmp(first, second);
    return order != 0 ? order : strcmp(first, second);
}

enum kva_status kva_catalogue_open(struct kva_atlas *atlas, const struct kva_catalogue_query *query,
                                   struct kva_catalogue **catalogue, struct kva_error *error)
{
    *catalogue = NULL;
    struct listing listing = {.atlas = atlas, .query = query, .arena = kva_arena_new(), .error = error};
    struct kva_catalogue *made = listing.arena != NULL ? kva_arena_alloc(listing.arena, 1, sizeof *made) : NULL;
    if (made == NULL) {
        kva_arena_free(listing.arena);
        return kva_fail_memory(error, sizeof *made);
    }
    kva_atlas_list(atlas, "models", visit, &listing);
    if (listing.status != KVA_OK) {
        kva_arena_free(listing.arena);
        return listing.status;
    }
    if (listing.n > 0)
        qsort(listing.entries, listing.n, sizeof *listing.entries, compare);
    *made = (struct kva_catalogue){listing.entries, listing.n, listing.arena};
    *catalogue = made;
    return KVA_OK;
}

void kva_catalogue_close(struct kva_catalogue *catalogue)
{
    if (catalogue != NULL)
        kva_arena_free(catalogue->arena);  // the catalogue itself lies in it
}
