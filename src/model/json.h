// JSON from files that were written elsewhere: size and depth are bounded, duplicate keys are refused by name.
#ifndef KVA_MODEL_JSON_H
#define KVA_MODEL_JSON_H

#include <jansson.h>

#include "kvatlas.h"

// Parses one JSON object. `file` is named in errors. lenient: what Python's json module writes and JSON does not have
// (NaN, Infinity, -Infinity) and numbers beyond 64 bits are read as text, so that they do no harm in keys that nobody
// reads and give an ordinary type error in keys that are read. Errors: KVA_BAD_INPUT with line and, for a duplicate,
// key; KVA_MACHINE.
enum kva_status kva_json_parse(const char *bytes, size_t length, const char *file, bool lenient, json_t **root,
                               struct kva_error *error);

// The value at a dotted path below `object`, "attn_config.kv_n_heads"; NULL: none.
json_t *kva_json_at(const json_t *object, const char *path);

#define KVA_JSON_FOUND 96
// What a value is, for errors: "the text \"abc\"", "the number -3", "a list". Returns buffer (KVA_JSON_FOUND bytes).
const char *kva_json_found(const json_t *value, char *buffer);

#endif
