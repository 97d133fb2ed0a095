// One way to read a YAML file of data/: by a schema, with file, line and key in every complaint.
#ifndef KVA_MODEL_YAML_H
#define KVA_MODEL_YAML_H

#include <cyaml/cyaml.h>

#include "kvatlas.h"
#include "model/atlas.h"

// Parses one file. Errors: KVA_BAD_INPUT with file, line and key (unknown key, missing key, wrong type, not YAML).
enum kva_status kva_yaml_load(const struct kva_atlas_file *file, const cyaml_schema_value_t *schema, void **loaded,
                              struct kva_error *error);
// FOLDER/NAME.yaml of the atlas. *loaded NULL with KVA_OK: no such file. *file is for errors of further checks; free it
// with kva_atlas_file_free.
enum kva_status kva_yaml_named(struct kva_atlas *atlas, const char *folder, const char *name,
                               const cyaml_schema_value_t *schema, struct kva_atlas_file *file, void **loaded,
                               struct kva_error *error);
// A file of which there is one, read when it is first asked for and kept in the atlas until that is closed.
struct kva_yaml_kept {
    const char *name;  // in the atlas
    const char *path;  // below data/
    const cyaml_schema_value_t *schema;
    void (*release)(void *kept);  // kva_yaml_free with `schema`
    // What a schema cannot say. Errors as for kva_yaml_load.
    enum kva_status (*check)(struct kva_atlas *atlas, const struct kva_atlas_file *file, const void *loaded,
                             struct kva_error *error);
};
// Errors: KVA_BAD_INPUT (no such file, and as for kva_yaml_load), KVA_MACHINE.
enum kva_status kva_yaml_keep(struct kva_atlas *atlas, const struct kva_yaml_kept *kept, const void **loaded,
                              struct kva_error *error);
void kva_yaml_free(const cyaml_schema_value_t *schema, void *loaded);

// The line on which the word `value` first stands, from the top-level section `section` on. 0: nowhere.
int kva_yaml_line(const struct kva_atlas_file *file, const char *section, const char *value);
// 'value' `what`, at the line on which the value first stands.
enum kva_status kva_yaml_wrong(const struct kva_atlas_file *file, const char *key, const char *what, const char *value,
                               struct kva_error *error);

#endif
