// data/references.yaml: the sources of all facts. It names hundreds and a model has two or three, so that only the
// lines asked for are parsed: a cold start would otherwise spend most of its time on the others.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "model/arch_schema.h"
#include "model/atlas.h"

struct part {
    struct part *next;
    struct kva_references *entries;
};

struct kva_reference_shelf {
    struct part *parts;  // the whole file, or lines of it
    bool whole;
};

void kva_reference_shelf_free(struct kva_reference_shelf *shelf)
{
    for (struct part *part = shelf != NULL ? shelf->parts : NULL; part != NULL;) {
        struct part *next = part->next;
        kva_yaml_free(&kva_references_schema, part->entries);
        free(part);
        part = next;
    }
    free(shelf);
}

static const struct kva_reference *find(const struct kva_reference_shelf *shelf, const char *id)
{
    for (const struct part *part = shelf->parts; part != NULL; part = part->next)
        for (unsigned i = 0; i < part->entries->n_entries; i++)
            if (strcmp(part->entries->entries[i].id, id) == 0)
                return &part->entries->entries[i];
    return NULL;
}

static enum kva_status load(struct kva_reference_shelf *shelf, const struct kva_atlas_file *file,
                            struct kva_error *error)
{
    struct part *part = calloc(1, sizeof *part);
    if (part == NULL)
        return kva_fail_memory(error, sizeof *part);
    const enum kva_status status = kva_yaml_load(file, &kva_references_schema, (void **)&part->entries, error);
    if (status != KVA_OK) {
        free(part);
        return status;
    }
    part->next = shelf->parts;
    shelf->parts = part;
    return KVA_OK;
}

// Parses the line "  - {id: ID, ...}" by itself. Nothing happens where no line looks like that.
static void load_line(struct kva_reference_shelf *shelf, const struct kva_atlas_file *file, const char *id)
{
    char start[160], text[2048];
    const int length = snprintf(start, sizeof start, "\n  - {id: %s,", id);
    const char *line = length > 0 && (size_t)length < sizeof start ? strstr(file->bytes, start) : NULL;
    if (line == NULL)
        return;
    const int n = snprintf(text, sizeof text, "references:%.*s\n", (int)(1 + strcspn(line + 1, "\n")), line);
    if (n > 0 && (size_t)n < sizeof text)
        load(shelf, &(struct kva_atlas_file){.bytes = text, .length = (size_t)n, .name = file->name}, NULL);
}

enum kva_status kva_atlas_reference(struct kva_atlas *atlas, const char *id, const struct kva_reference **reference,
                                    struct kva_error *error)
{
    struct kva_reference_shelf **slot = kva_atlas_reference_shelf(atlas);
    struct kva_atlas_file file;
    bool found;
    *reference = NULL;
    if (*slot == NULL && (*slot = calloc(1, sizeof **slot)) == NULL)
        return kva_fail_memory(error, sizeof **slot);
    struct kva_reference_shelf *shelf = *slot;
    *reference = find(shelf, id);
    if (*reference != NULL || shelf->whole)
        return KVA_OK;
    enum kva_status status = kva_atlas_read(atlas, "references.yaml", &file, &found, error);
    if (status == KVA_OK && !found)
        status = kva_fail(error, KVA_BAD_INPUT, "references.yaml", NULL, "is missing from the data directory");
    if (status == KVA_OK) {
        load_line(shelf, &file, id);
        *reference = find(shelf, id);
    }
    if (status == KVA_OK && *reference == NULL) {  // written in another way, or not there: the whole file tells
        status = load(shelf, &file, error);
        shelf->whole = status == KVA_OK;
        *reference = find(shelf, id);
    }
    kva_atlas_file_free(&file);
    return status;
}

enum kva_status kva_atlas_missing_reference(struct kva_atlas *atlas, char *const *ids, unsigned n, const char **missing,
                                            struct kva_error *error)
{
    *missing = NULL;
    for (unsigned i = 0; i < n; i++) {
        const struct kva_reference *reference;
        enum kva_status status = kva_atlas_reference(atlas, ids[i], &reference, error);
        if (status != KVA_OK)
            return status;
        if (reference == NULL) {
            *missing = ids[i];
            return KVA_OK;
        }
    }
    return KVA_OK;
}
