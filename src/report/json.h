// JSON pieces that several writers use. A failed allocation gives NULL, which jansson's *_new functions pass on.
#ifndef KVA_REPORT_JSON_H
#define KVA_REPORT_JSON_H

#include <jansson.h>

#include "base/text.h"
#include "kvatlas.h"

json_t *kva_json_count(uint64_t count);   // null for KVA_UNKNOWN, and beyond 2^63 - 1, which JSON readers cannot hold
json_t *kva_json_text(const char *text);  // null for NULL
json_t *kva_json_texts(const char *const *texts, size_t n);
json_t *kva_json_dtype(enum kva_dtype dtype);  // null when unknown
json_t *kva_json_layer(int32_t layer);         // null below 0
json_t *kva_json_model(const struct kva_model *model);

// Sets a key, stealing `value`; marks *failed when either is missing.
void kva_json_set(json_t *object, const char *key, json_t *value, bool *failed);
void kva_json_append(json_t *array, json_t *value, bool *failed);

// Writes `value` (stolen; NULL: out of memory) with a last newline.
enum kva_status kva_json_write(json_t *value, struct kva_text *out, struct kva_error *error);

#endif
