// What an engine reserves for a model's caches. Each fills in struct kva_engine below; whatever differs by version is a
// value of data/engines/<id>.yaml, which is read once into a struct of the engine's own.
// C switches on such a value and never on a version. engines.c lists all engines.
#ifndef KVA_ENGINE_ENGINE_H
#define KVA_ENGINE_ENGINE_H

#include "base/arena.h"
#include "base/error.h"
#include "engine/kv_types.h"
#include "kvatlas.h"

// What was decided for the person, as lines of text.
struct kva_assumptions {
    const char *text[KVA_MAX_ASSUMED];
    size_t n;
};

struct kva_prints {
    struct kva_print_line *lines;
    size_t n, room;
};

// What every function of an engine is given.
struct kva_call {
    struct kva_atlas *atlas;  // NULL: built-in policies alone, and no catalogue of GPUs
    const struct kva_engine *engine;
    const struct kva_engine_version *version;
    const void *behaviours;  // the engine's struct, filled for this version
    const struct kva_model *model;
    struct kva_deployment *deployment;
    struct kva_kv_type kv_format;  // bytes of the cache's rows; set by kva_resolve_kv_type
    // With data-parallel attention: the ranks that share the heads of a sequence, and how many such groups there are,
    // all among the tp ranks. Set by resolve; 0: tp and dp.
    uint64_t attention_tp, attention_groups;
    bool budget_given;        // kv_bytes was said, and is not what a GPU leaves
    struct kva_arena *arena;  // lives as long as the plan
    struct kva_assumptions assumptions;
    struct kva_prints prints;
    void *own;  // the engine's: what one of its functions leaves for the next, in the arena
    struct kva_error *error;
};

__attribute__((format(printf, 2, 3))) enum kva_status kva_assume(struct kva_call *call, const char *format, ...);

// The refusal of sizes that would wrap.
static inline enum kva_status kva_too_large(const struct kva_call *call)
{
    return kva_fail(call->error, KVA_BAD_INPUT, NULL, NULL, "the caches are more than 2^64 bytes");
}

struct kva_engine_layer {
    uint64_t bytes;    // of one rank, all sequences asked for
    uint64_t logical;  // what the engine itself calls the size of this cache; 0: as `bytes`
    uint64_t rows;     // of one sequence; 0: no cache that holds rows
    uint32_t stage;    // of pipeline parallelism
};

struct kva_engine_allocation {
    struct kva_engine_layer *layers;  // [model->n_layers], zeroed by the caller
    struct kva_pool *pools;
    size_t n_pools;
    uint32_t stage;           // the one that holds most
    uint64_t unassigned;      // bytes on a rank of that stage that no layer uses
    uint64_t outside, peak;   // see struct kva_plan
    uint64_t total;           // all ranks; 0: layers of all stages + unassigned of each, times tp x dp
    const char *overpay_why;  // NULL: nothing to say
    struct kva_capacity capacity;
};

struct kva_engine {
    const char *id;       // "vllm"; with behaviours: the name of its data file
    const char *summary;  // of an engine without a data file
    const struct kva_behaviour *behaviours;
    size_t n_behaviours;
    size_t behaviours_size;  // of the struct that they fill; 0: a built-in policy, without versions
    bool any_context;        // starts with a context beyond the model's limit as with any other
    bool any_architecture;   // plans an architecture whether or not the version runs it: nobody checked
    bool picks_context;      // takes `auto` for the context: the largest that fits its budget
    // Fills the blanks of call->deployment and records each with kva_assume. Refuses contradictions.
    enum kva_status (*resolve)(struct kva_call *call);
    // From the GPU's memory, the weights and the allowances to deployment->kv_bytes. NULL: the engine sets no budget.
    // Only called when gpu_bytes is known and kv_bytes is not given.
    enum kva_status (*budget)(struct kva_call *call);
    // The allocation for a resolved deployment.
    enum kva_status (*allocate)(struct kva_call *call, struct kva_engine_allocation *allocation);
    // The lines that it will print, with kva_print. NULL: it prints none.
    enum kva_status (*print_lines)(struct kva_call *call, const struct kva_engine_allocation *allocation);
};

extern const struct kva_engine kva_engine_exact;
extern const struct kva_engine kva_engine_full;
extern const struct kva_engine kva_engine_llamacpp;
extern const struct kva_engine kva_engine_ik_llamacpp;
extern const struct kva_engine kva_engine_ollama;
extern const struct kva_engine kva_engine_vllm;
extern const struct kva_engine kva_engine_sglang;
extern const struct kva_engine kva_engine_trtllm;
extern const struct kva_engine kva_engine_mlx;
extern const struct kva_engine kva_engine_transformers;

// The engines that there are, in the order that people see. NULL past the last.
const struct kva_engine *kva_engine_at(size_t index);

// The engine that `name` names, whatever stands behind an @. Errors: KVA_REFUSED, with what is known.
enum kva_status kva_engine_find(const char *name, const struct kva_engine **engine, struct kva_error *error);

// name: "exact", "vllm@0.19.0", "vllm" (the newest known version). Sets call->engine, version and behaviours, and the
// deployment's engine and version; notes in the assumptions a version that nobody named. Errors: KVA_REFUSED (not
// known, with what is known), KVA_BAD_INPUT (the data file).
enum kva_status kva_engine_open(struct kva_atlas *atlas, const char *name, bool nearest, struct kva_call *call);

// ---------------------------------------------------------------- what engines look up of their version

// The value of rule `name` for `key` (an architecture, a model_type, a backend); NULL: none.
const char *kva_rule(const struct kva_call *call, const char *name, const char *key);
// The same for the model: by its architecture, or where the config names none by its model_type.
const char *kva_model_rule(const struct kva_call *call, const char *name);
// The type that its cache flag calls `name`; NULL: none.
const struct kva_kv_type *kva_kv_type_find(const struct kva_call *call, const char *name);
// "fp8, fp8_e4m3 and int8": what the cache flag takes at this version, in the call's arena; NULL: out of memory.
const char *kva_kv_type_names(const struct kva_call *call);

// Renders the template(s) of line `id` at this version from named quantities into call->prints. A version without such
// a line prints nothing. The quantities are copied; their texts must live as long as the arena. Errors: KVA_BAD_INPUT
// (a template names a quantity that is not given), KVA_MACHINE.
enum kva_status kva_print(struct kva_call *call, const char *id, const struct kva_quantity *quantities, size_t n);
static inline struct kva_quantity kva_count_of(const char *name, uint64_t count)
{
    return (struct kva_quantity){.name = name, .type = KVA_QUANTITY_COUNT, .count = count, .real = (double)count};
}
static inline struct kva_quantity kva_real_of(const char *name, double real)
{
    return (struct kva_quantity){.name = name, .type = KVA_QUANTITY_REAL, .real = real};
}
static inline struct kva_quantity kva_text_of(const char *name, const char *text)
{
    return (struct kva_quantity){.name = name, .type = KVA_QUANTITY_TEXT, .text = text};
}
// Is every {...} of a template {name:format}?
bool kva_line_is_well_formed(const char *text);
// One template with its quantities filled in, in `out`. false: a placeholder names none of them (*missing says which).
bool kva_line_render(const char *text, const struct kva_quantity *quantities, size_t n, struct kva_text *out,
                     const char **missing);

#endif
