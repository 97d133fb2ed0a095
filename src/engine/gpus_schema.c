#include "engine/gpus_schema.h"

#include "model/schema_words.h"

#define NUMBER(key, member) CYAML_FIELD_UINT(key, CYAML_FLAG_OPTIONAL, struct kva_gpu_row, member)
#define REAL(key, member) CYAML_FIELD_FLOAT(key, CYAML_FLAG_OPTIONAL, struct kva_gpu_row, member)
#define MAYBE(key, member)                                                                                             \
    CYAML_FIELD_BOOL_PTR(key, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct kva_gpu_row, member)

static const cyaml_schema_field_t GPU_FIELDS[] = {
    TEXT("id", struct kva_gpu_row, id),
    NAMES("names", CYAML_FLAG_OPTIONAL, struct kva_gpu_row, names, n_names, 1),
    TEXT("vendor", struct kva_gpu_row, vendor),
    TEXT("name", struct kva_gpu_row, name),
    NUMBER("sold_gb", sold_gb),
    NUMBER("reported_mib", reported_mib),
    NUMBER("total_bytes", total_bytes),
    TEXT_OPTIONAL("total", struct kva_gpu_row, total),
    REAL("bandwidth_gbs", bandwidth_gbs),
    REAL("bf16_tflops", bf16_tflops),
    TEXT_OPTIONAL("compute", struct kva_gpu_row, compute),
    MAYBE("fp8", fp8),
    MAYBE("fp4", fp4),
    FLAG_OPTIONAL("unified", struct kva_gpu_row, unified),
    NAMES("references", CYAML_FLAG_DEFAULT, struct kva_gpu_row, references, n_references, 1),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t GPU = MAPPING(struct kva_gpu_row, GPU_FIELDS);

static const cyaml_schema_field_t FILE_FIELDS[] = {
    LIST("gpus", struct kva_gpu_file, gpus, n_gpus, &GPU),
    CYAML_FIELD_END,
};
const cyaml_schema_value_t kva_gpus_schema = DOCUMENT(struct kva_gpu_file, FILE_FIELDS);
