// What an engine reserves for a model's caches. An engine is a small table of functions; engines.c lists them all, and
// a new one is one file here plus its facts in data/engines/.
#ifndef KVA_ENGINE_ENGINE_H
#define KVA_ENGINE_ENGINE_H

#include "base/arena.h"
#include "kvatlas.h"

// What was decided for the person, as lines of text.
struct kva_assumptions {
    struct kva_arena *arena;
    const char *text[KVA_MAX_ASSUMED];
    size_t n;
};

__attribute__((format(printf, 3, 4))) enum kva_status kva_assume(struct kva_assumptions *assumptions,
                                                                 struct kva_error *error, const char *format, ...);

struct kva_engine_layer {
    uint64_t bytes;  // all sequences
    uint64_t rows;   // of one sequence; 0: no cache that holds rows
};

struct kva_engine_allocation {
    struct kva_engine_layer *layers;  // [model->n_layers]
    struct kva_pool *pools;
    size_t n_pools;
};

struct kva_engine {
    const char *id;       // "exact"
    const char *summary;  // one line for people
    bool versioned;       // takes "id@version"
    // Fills the blanks of *deployment and records each as an assumption.
    enum kva_status (*resolve)(const struct kva_model *model, struct kva_deployment *deployment,
                               struct kva_assumptions *assumptions, struct kva_error *error);
    // The allocation for a resolved deployment, in `arena`.
    enum kva_status (*allocate)(const struct kva_model *model, const struct kva_deployment *deployment,
                                struct kva_arena *arena, struct kva_engine_allocation *allocation,
                                struct kva_error *error);
};

extern const struct kva_engine kva_engine_exact;
extern const struct kva_engine kva_engine_full;

// name: "exact", "vllm@0.19.0"; *version points behind the @, or to "". Errors: KVA_REFUSED, naming the known ones.
enum kva_status kva_engine_find(const char *name, const struct kva_engine **engine, const char **version,
                                struct kva_error *error);

#endif
