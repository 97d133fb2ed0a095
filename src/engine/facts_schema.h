// The schema of data/engines/<id>.yaml, as tables for libcyaml.
#ifndef KVA_ENGINE_FACTS_SCHEMA_H
#define KVA_ENGINE_FACTS_SCHEMA_H

#include "engine/facts.h"
#include "model/yaml.h"

extern const cyaml_schema_value_t kva_engine_schema;  // -> struct kva_engine_file *

#endif
