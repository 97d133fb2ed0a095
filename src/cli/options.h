// What a person typed, parsed once. options.c holds the one table of flags; each command says which of them it takes.
#ifndef KVA_CLI_OPTIONS_H
#define KVA_CLI_OPTIONS_H

#include "kvatlas.h"
#include "report/report.h"

#define KVA_MAX_ENGINES 16
#define KVA_MAX_ASSUME 32

// One bit a flag.
enum kva_flag {
    KVA_FLAG_CONTEXT,
    KVA_FLAG_SEQUENCES,
    KVA_FLAG_ENGINE,
    KVA_FLAG_DTYPE,
    KVA_FLAG_FORMAT,
    KVA_FLAG_OUTPUT,
    KVA_FLAG_LAYERS,
    KVA_FLAG_WHY,
    KVA_FLAG_DATA,
    KVA_FLAG_NO_COLOR,
    KVA_FLAG_BACKEND,
    KVA_FLAG_WEIGHTS,
    KVA_FLAG_TOKENS,
    KVA_FLAG_PROMPT_LENGTH,
    KVA_FLAG_PREFILL,
    KVA_FLAG_DECODE,
    KVA_FLAG_LOGITS,
    KVA_FLAG_SEED,
    KVA_FLAG_CHUNK,
    KVA_FLAG_NO_PRUNE,
    KVA_FLAG_PROFILE,
    KVA_FLAG_DEPTH,
    KVA_FLAG_JSON,
    KVA_FLAG_JUNIT,
    KVA_FLAG_REFERENCE,
    KVA_FLAG_PLAN,
    KVA_FLAG_FETCH,
    KVA_FLAG_ASSUME,
    KVA_FLAG_NDJSON,
    KVA_FLAG_FAMILY,
    KVA_FLAG_TYPE,
    KVA_FLAG_MODEL,
    KVA_FLAG_SWEEP,
    KVA_FLAG_CONTEXTS,
    KVA_FLAG_DECODE_COST,
    KVA_N_FLAGS,
    KVA_FLAG_DEPLOYMENT = KVA_N_FLAGS  // whatever kva_deployment_set knows
};
#define KVA_FLAG_BIT(flag) (UINT64_C(1) << (flag))

// Counts are 0 and texts NULL when not given; no count can be given as 0 except --seed, --prefill and --decode.
struct kva_options {
    const struct kva_command *command;
    const char *const *arguments;  // [n_arguments] what is not a flag: models, suites
    size_t n_arguments;
    uint64_t given;  // KVA_FLAG_BITs

    struct kva_deployment deployment;      // of commands with KVA_FLAG_DEPLOYMENT
    uint64_t context, sequences;           // of the others
    const char *engines[KVA_MAX_ENGINES];  // --engine, --policy: in the order given
    size_t n_engines;
    const char *assume[KVA_MAX_ASSUME];  // --assume KEY=VALUE, in the order given
    size_t n_assume;
    enum kva_dtype dtype;
    enum kva_format format;
    const char *output;  // NULL: standard output
    bool layers, why, no_color;
    const char *data;  // directory that takes the place of the embedded facts

    const char *backend, *weights, *tokens, *logits, *json, *junit, *reference, *plan;
    uint64_t prompt_length, prefill, decode, seed, chunk, depth;
    bool no_prune, profile, fetch, ndjson;
    bool sweep, decode_cost;
    const char *contexts;       // of a sweep: "8k,32k"
    const char *family, *type;  // of a model of the catalogue
    const char *model;          // what a log is of

    void *memory;  // what kva_options_free releases
};

static inline bool kva_given(const struct kva_options *options, enum kva_flag flag)
{
    return (options->given & KVA_FLAG_BIT(flag)) != 0;
}

// arguments: what follows the command's name. *help: --help was among them; nothing else is then checked. Errors:
// KVA_BAD_INPUT (an unknown flag, with the nearest known one; a flag that this command does not take; a value that is
// not one), KVA_MACHINE.
enum kva_status kva_options_parse(const struct kva_command *command, int n, char **arguments,
                                  struct kva_options *options, bool *help, struct kva_error *error);
void kva_options_free(struct kva_options *options);

// The flags of a command, one line each.
void kva_options_help(uint64_t flags, struct kva_text *out);

#endif
