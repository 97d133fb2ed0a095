// YAML files of the atlas: by folder and name, or the only one of its kind.
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "model/yaml.h"

enum kva_status kva_yaml_named(struct kva_atlas *atlas, const char *folder, const char *name,
                               const cyaml_schema_value_t *schema, struct kva_atlas_file *file, void **loaded,
                               struct kva_error *error)
{
    char path[512];
    bool found;
    *loaded = NULL;
    *file = (struct kva_atlas_file){0};
    const int length = snprintf(path, sizeof path, "%s/%s.yaml", folder, name);
    if (length < 0 || (size_t)length >= sizeof path || strchr(name, '/') != NULL)
        return KVA_OK;
    const enum kva_status status = kva_atlas_read(atlas, path, file, &found, error);
    return status == KVA_OK && found ? kva_yaml_load(file, schema, loaded, error) : status;
}

enum kva_status kva_yaml_keep(struct kva_atlas *atlas, const struct kva_yaml_kept *kept, const void **loaded,
                              struct kva_error *error)
{
    void **slot = kva_atlas_keep(atlas, kept->name, kept->release), *read = NULL;
    *loaded = slot != NULL ? *slot : NULL;
    if (slot == NULL)
        return kva_fail_memory(error, sizeof *slot);
    if (*slot != NULL)
        return KVA_OK;
    struct kva_atlas_file file = {0};
    bool found;
    enum kva_status status = kva_atlas_read(atlas, kept->path, &file, &found, error);
    if (status == KVA_OK && !found)
        status = kva_fail(error, KVA_BAD_INPUT, kept->path, NULL, "is missing from the data directory");
    if (status == KVA_OK)
        status = kva_yaml_load(&file, kept->schema, &read, error);
    if (status == KVA_OK)
        status = kept->check(atlas, &file, read, error);
    if (status == KVA_OK)
        *loaded = *slot = read;
    else
        kva_yaml_free(kept->schema, read);
    kva_atlas_file_free(&file);
    return status;
}
