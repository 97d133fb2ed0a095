// A YAML file of the atlas by folder and name.
#include <stdio.h>
#include <string.h>

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
