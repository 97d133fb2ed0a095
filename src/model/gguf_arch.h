// data/gguf/<general.architecture>.yaml: which model_type a GGUF architecture is, and which of its keys say what the
// keys of that model_type's config.json say. A GGUF header becomes a config, and the config is read as any other.
// Fields and formulas: docs/gguf-files.md.
#ifndef KVA_MODEL_GGUF_ARCH_H
#define KVA_MODEL_GGUF_ARCH_H

#include <jansson.h>

#include "model/atlas.h"
#include "model/gguf.h"

// keys: one fact of the header, under a name that formulas use.
struct kva_gguf_key {
    char *name;  // "kv_heads"
    char *key;   // "attention.head_count_kv", after the architecture's name; "general.*" and "tokenizer.*" stand alone;
                 // NULL: always computed from `absent`
    char *absent;  // formula: what llama.cpp takes when there is no such key; NULL: the key must be there
    bool length;   // its value is the length of the array
};

struct kva_gguf_label {
    char *when;   // formula; NULL: always
    char *label;  // "sliding_attention"
};

// types: the first whose `when` holds is the model_type.
struct kva_gguf_model_type {
    char *when;  // formula; NULL: always
    char *model_type;
};

// config: one key of the config that is made. A key "a.b" is nested; "a[]" and "a[].b" have an entry for each layer.
struct kva_gguf_entry {
    char *name;  // kvatlas's word for the key, where the architecture file of the model_type has it; else left out
    char *key;   // or the key itself
    // exactly one of
    char *count;  // formula
    char *flag;   // formula
    char *real;   // name of a key that holds a real number
    char *text;
    struct kva_gguf_label *labels;  // a list with the first label whose `when` holds, for each layer
    unsigned n_labels;
    char *layers;  // formula: the list of layers for which it holds
    bool null;

    char *when;      // formula: left out when it does not hold; NULL: always there
    char *at;        // formula: `count` is that of the first layer for which this holds; none: left out
    unsigned first;  // what `layers` calls the first layer: 0 or 1
};

struct kva_gguf_arch {
    char *architecture;
    struct kva_gguf_model_type *types;
    unsigned n_types;
    char **references;
    unsigned n_references;
    struct kva_gguf_key *keys;
    unsigned n_keys;
    struct kva_gguf_entry *config;
    unsigned n_config;
    char **inert;  // keys that decide no cache; "rope.*" stands for all that begin so
    unsigned n_inert;
};

// A header as its architecture file reads it.
struct kva_gguf_reading {
    const struct kva_gguf *gguf;
    const char *architecture;      // general.architecture
    struct kva_gguf_arch *arch;    // its own file
    struct kva_gguf_arch *common;  // data/gguf/common.yaml: what it does not say itself
    char file[256];                // as errors name it: "model.gguf (by gguf/llama.yaml)"
};

// Errors: KVA_REFUSED (no file for this architecture; the text names its keys), KVA_BAD_INPUT (no general.architecture,
// a file that breaks its schema), KVA_MACHINE. Release with kva_gguf_reading_close, also after an error.
enum kva_status kva_gguf_reading_open(struct kva_atlas *atlas, const struct kva_gguf *gguf,
                                      struct kva_gguf_reading *reading, struct kva_error *error);
void kva_gguf_reading_close(struct kva_gguf_reading *reading);

// A formula over the names of `keys`. layer -1: of the whole model; an array is then its largest item.
// `has_NAME`: whether the header has the key; `array_NAME`: whether it holds one item a layer; `count_NAME`: how many
// of them are not 0; `i`: the layer.
enum kva_status kva_gguf_formula(const struct kva_gguf_reading *reading, const char *formula, int64_t layer,
                                 int64_t *value, struct kva_error *error);
const struct kva_gguf_value *kva_gguf_named(const struct kva_gguf_reading *reading, const char *name);  // NULL: absent

// The config that says what the header says; sets gguf->shapes and marks strangers. *config is the caller's. Errors: as
// above; KVA_REFUSED also when data/architectures has no file of the model_type.
enum kva_status kva_gguf_config(struct kva_atlas *atlas, struct kva_gguf *gguf, json_t **config,
                                struct kva_error *error);

// Steps of build.h; nothing to do where the model is not from a GGUF. The second refuses layers that differ from what
// the header says of their keys and values.
struct kva_build;
enum kva_status kva_gguf_weights(struct kva_build *build);
enum kva_status kva_gguf_check(struct kva_build *build);
// Keeps the header's counts and lists in the model, for engines that read them themselves.
enum kva_status kva_gguf_keep(struct kva_build *build);

#endif
