// The schema of the YAML files that the model room reads, as tables for libcyaml.
#ifndef KVA_MODEL_ARCH_SCHEMA_H
#define KVA_MODEL_ARCH_SCHEMA_H

#include "model/atlas.h"
#include "model/yaml.h"

struct kva_references {
    struct kva_reference *entries;
    unsigned n_entries;
};

extern const cyaml_schema_value_t kva_arch_schema;        // -> struct kva_arch *
extern const cyaml_schema_value_t kva_references_schema;  // -> struct kva_references *

#endif
