// data/gpus.yaml as libcyaml reads it.
#ifndef KVA_ENGINE_GPUS_SCHEMA_H
#define KVA_ENGINE_GPUS_SCHEMA_H

#include "model/yaml.h"

struct kva_gpu_row {
    char *id, *vendor, *name, *total, *compute;
    char **names;
    unsigned n_names;
    uint32_t sold_gb, reported_mib;
    uint64_t total_bytes;
    double bandwidth_gbs, bf16_tflops;
    bool *fp8, *fp4;  // NULL: not known
    bool unified;
    char **references;
    unsigned n_references;
};

struct kva_gpu_file {
    struct kva_gpu_row *gpus;
    unsigned n_gpus;
};

extern const cyaml_schema_value_t kva_gpus_schema;

#endif
