// The header of a GGUF file as llama.cpp prints it when it loads one: enough to plan the model without the file.
#ifndef KVA_VERIFY_LOG_METADATA_H
#define KVA_VERIFY_LOG_METADATA_H

#include "base/text.h"

struct kva_log_metadata {
    struct kva_text pairs;  // keys and values as a GGUF file holds them
    uint64_t n;
    char name[128];  // general.name; "" when there is none
    char cut[128];   // a key of the architecture whose value the log cuts off; "" when there is none
};

// One printed pair: "llama.block_count", "u32", "32". The pair with index 0 starts another file.
void kva_log_metadata_take(struct kva_log_metadata *metadata, uint64_t index, const char *key, const char *type,
                           const char *value);
void kva_log_metadata_free(struct kva_log_metadata *metadata);

// The model that the header describes. Errors: KVA_BAD_INPUT (a value that decides about caches is cut off), and those
// of kva_model_open.
enum kva_status kva_log_metadata_model(struct kva_atlas *atlas, const struct kva_log_metadata *metadata,
                                       const struct kva_model_options *how, struct kva_model **model,
                                       struct kva_error *error);

#endif
