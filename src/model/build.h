// A model while it is being built: what the files of this room hand to each other. model.c runs the steps in order:
// config.c (which architecture, values, dtype), rules.c (layers), rope.c, tensors.c (weights from the config),
// weights.c (weights from a checkpoint beside it).
#ifndef KVA_MODEL_BUILD_H
#define KVA_MODEL_BUILD_H

#include <jansson.h>

#include "base/arena.h"
#include "kvatlas.h"
#include "model/arch.h"
#include "model/expr.h"

// One "KEY=VALUE" that the person says instead of the config.
struct kva_assumption {
    const char *key;  // a key of the config, or kvatlas's word for it
    json_t *value;
    bool used;
};

struct kva_build {
    struct kva_atlas *atlas;
    struct kva_model *model;
    struct kva_arena *arena;  // model->arena
    struct kva_model_options options;
    const char *file;                       // the config that is read, as errors name it
    const char *directory;                  // the directory MODEL names, NULL when it names something else
    json_t *root;                           // the config
    struct kva_gguf *gguf;                  // the header that the config was made from; NULL: none
    json_t *text;                           // the object of the text decoder: root, or nested in it (borrowed)
    json_t *made;                           // array: nested configs that the file does not have as such
    const char *text_key;                   // "text_config", or NULL when text is root
    const struct kva_arch *wrapper, *arch;  // wrapper NULL when text is root
    const char *tensor_prefix;              // of the wrappers; ""
    struct kva_assumption *assumed;
    size_t n_assumed;
    const char *family;                     // the model_type to read the config as; NULL: its own
    bool mtp;                               // layers of multi-token prediction are counted
    json_t *defaults;                       // rope_parameters of the class, when the config has none
    const char **classes;                   // the weight class of each of model->tensors
    struct kva_quantization *quantization;  // of the weights; NULL: none, or one that is not known
    struct kva_error *error;
};

// "num_hidden_layers", or "text_config.num_hidden_layers". Never NULL.
const char *kva_build_path(struct kva_build *build, const char *key);
__attribute__((format(printf, 3, 4))) enum kva_status kva_build_fail(struct kva_build *build, const char *key,
                                                                     const char *format, ...);
enum kva_status kva_build_memory(struct kva_build *build);
enum { KVA_STRANGERS_SAID = 16 };  // of keys that nobody reads so many are named, and then the number of the others
__attribute__((format(printf, 2, 3))) enum kva_status kva_build_warn(struct kva_build *build, const char *format, ...);

// What the config, or the person, says of a key (a path as in docs/architecture-files.md, without *); NULL: nothing.
// *source: KVA_FROM_CONFIG or KVA_FROM_PERSON; may be NULL.
json_t *kva_build_find(struct kva_build *build, const char *path, enum kva_source *source);

// Evaluates one of the architecture file's formulas; errors name that file.
enum kva_status kva_build_formula(struct kva_build *build, const char *formula, int64_t layer, int64_t *value);
// The same, for a result that must lie in minimum .. UINT32_MAX; `what` names it.
enum kva_status kva_build_count(struct kva_build *build, const char *formula, int64_t layer, uint32_t minimum,
                                const char *what, uint32_t *count);

enum kva_status kva_assume_read(struct kva_build *build);          // the options' assumptions
enum kva_status kva_assume_finish(struct kva_build *build);        // one that decided nothing is an error
enum kva_status kva_config_architecture(struct kva_build *build);  // sets wrapper, arch, text
enum kva_status kva_config_values(struct kva_build *build);        // values, dtype, context, checks
enum kva_status kva_config_strangers(struct kva_build *build);     // warns of keys that nobody read
enum kva_status kva_rules_layers(struct kva_build *build);
enum kva_status kva_rope_read(struct kva_build *build);
enum kva_status kva_tensors_expand(struct kva_build *build);
enum kva_status kva_weights_read(struct kva_build *build);

// How a wrapper's checkpoint writes a text tensor's name: the prefix, and *name behind it. A prefix that begins with
// "model." stands where the name has its own, and not before a name without one (lm_head.weight).
const char *kva_tensor_prefix(const char *prefix, const char **name);

// Adds `tensors` tensors to the weight class of that name, which is made when it is new. bytes may be KVA_UNKNOWN.
enum kva_status kva_class_add(struct kva_build *build, const char *name, uint64_t tensors, uint64_t parameters,
                              uint64_t bytes);

#endif
