// Suite files: lists of models, contexts, policies and types, written out as one case for each combination.
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "model/arch_schema.h"
#include "verify/verify.h"

enum { MAX_SUITE_BYTES = 1 << 20, MAX_CASES = 100000 };

// One entry of a suite: every list is multiplied out. Counts are text so that 32k may be written.
struct entry {
    char **models, **contexts, **policies, **dtypes;
    unsigned n_models, n_contexts, n_policies, n_dtypes;
    char **contexts_without_gpu;
    unsigned n_contexts_without_gpu;
    char *prompt, *decode, *sequences, *depth, *depth_without_gpu, *chunk, *seed, *prefill;
    char *weights, *reference, *tokens, *backend;
    double tolerance;
    bool no_prune;
};

struct document {
    struct entry *entries;
    unsigned n_entries;
};

#define LIST(key, member)                                                                                              \
    CYAML_FIELD_SEQUENCE_COUNT(key, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct entry, member, n_##member, &NAME, \
                               1, CYAML_UNLIMITED)
#define TEXT(key, member)                                                                                              \
    CYAML_FIELD_STRING_PTR(key, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct entry, member, 1, CYAML_UNLIMITED)

static const cyaml_schema_value_t NAME = {CYAML_VALUE_STRING(CYAML_FLAG_POINTER, char, 1, CYAML_UNLIMITED)};
static const cyaml_schema_field_t ENTRY_FIELDS[] = {
    CYAML_FIELD_SEQUENCE_COUNT("models", CYAML_FLAG_POINTER, struct entry, models, n_models, &NAME, 1, CYAML_UNLIMITED),
    LIST("contexts", contexts),
    LIST("contexts_without_gpu", contexts_without_gpu),
    LIST("policies", policies),
    LIST("dtypes", dtypes),
    TEXT("prompt", prompt),
    TEXT("decode", decode),
    TEXT("sequences", sequences),
    TEXT("depth", depth),
    TEXT("depth_without_gpu", depth_without_gpu),
    TEXT("chunk", chunk),
    TEXT("seed", seed),
    TEXT("prefill", prefill),
    TEXT("weights", weights),
    TEXT("reference", reference),
    TEXT("tokens", tokens),
    TEXT("backend", backend),
    CYAML_FIELD_FLOAT("tolerance", CYAML_FLAG_OPTIONAL, struct entry, tolerance),
    CYAML_FIELD_BOOL("no_prune", CYAML_FLAG_OPTIONAL, struct entry, no_prune),
    CYAML_FIELD_END};
static const cyaml_schema_value_t ENTRY = {CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct entry, ENTRY_FIELDS)};
static const cyaml_schema_field_t DOCUMENT_FIELDS[] = {CYAML_FIELD_SEQUENCE_COUNT("cases", CYAML_FLAG_POINTER,
                                                                                  struct document, entries, n_entries,
                                                                                  &ENTRY, 1, CYAML_UNLIMITED),
                                                       CYAML_FIELD_END};
static const cyaml_schema_value_t DOCUMENT = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct document, DOCUMENT_FIELDS)};

struct builder {
    struct kva_atlas_file file;
    struct kva_arena *arena;
    struct kva_suite *suite;
    size_t capacity;
    bool has_gpu;
    struct kva_error *error;
};

static enum kva_status fail(const struct builder *builder, const char *key, const char *value, const char *expected)
{
    const enum kva_status status =
        kva_fail(builder->error, KVA_BAD_INPUT, builder->file.name, key, "\"%s\": %s was expected", value, expected);
    if (builder->error != NULL)
        builder->error->line = kva_yaml_line(&builder->file, key, value);
    return status;
}

static enum kva_status count(const struct builder *builder, const char *key, const char *text, uint64_t *value)
{
    if (text != NULL && !kva_parse_count(text, value))
        return fail(builder, key, text, "a count such as 4096 or 32k");
    return KVA_OK;
}

// Paths in a suite are relative to the suite's own folder.
static const char *path(const struct builder *builder, const char *text)
{
    if (text == NULL)
        return NULL;
    const char *slash = strrchr(builder->file.name, '/');
    if (text[0] == '/' || slash == NULL || strcmp(text, "random") == 0)
        return kva_arena_strdup(builder->arena, text);
    return kva_arena_printf(builder->arena, "%.*s/%s", (int)(slash - builder->file.name), builder->file.name, text);
}

// A model is a path when there is one, else a name for the catalogue.
static const char *model_name(const struct builder *builder, const char *text)
{
    const char *local = path(builder, text);
    if (local != NULL && (kva_is_directory(local) || kva_is_file(local)))
        return local;
    return kva_arena_strdup(builder->arena, text);
}

static enum kva_status add(struct builder *builder, const struct kva_case *spec)
{
    struct kva_suite *suite = builder->suite;
    if (suite->n_cases == MAX_CASES)
        return kva_fail(builder->error, KVA_BAD_INPUT, builder->file.name, "cases", "multiply out to more than %d",
                        MAX_CASES);
    if (suite->n_cases == builder->capacity) {
        const size_t capacity = builder->capacity == 0 ? 16 : builder->capacity * 2;
        struct kva_case *cases = realloc(suite->cases, capacity * sizeof *cases);
        if (cases == NULL)
            return kva_fail_memory(builder->error, capacity * sizeof *cases);
        suite->cases = cases;
        builder->capacity = capacity;
    }
    suite->cases[suite->n_cases++] = *spec;
    return KVA_OK;
}

// What one entry says for all of its combinations.
static enum kva_status common(const struct builder *builder, const struct entry *entry, struct kva_case *spec)
{
    if (entry->tolerance < 0 || entry->tolerance > 1)
        return fail(builder, "tolerance", "tolerance", "a number above 0 and at most 1");
    *spec = (struct kva_case){.tolerance = entry->tolerance, .no_prune = entry->no_prune, .keep_logits = true};
    const char *depth = !builder->has_gpu && entry->depth_without_gpu != NULL ? entry->depth_without_gpu : entry->depth;
    const struct {
        const char *key, *text;
        uint64_t *value;
    } counts[] = {
        {"prompt", entry->prompt, &spec->prompt_length},
        {"decode", entry->decode, &spec->decode},
        {"sequences", entry->sequences, &spec->sequences},
        {"depth", depth, &spec->depth},
        {"chunk", entry->chunk, &spec->chunk},
        {"seed", entry->seed, &spec->seed},
        {"prefill", entry->prefill, &spec->prefill},
    };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        const enum kva_status status = count(builder, counts[i].key, counts[i].text, counts[i].value);
        if (status != KVA_OK)
            return status;
    }
    spec->weights = path(builder, entry->weights);
    spec->reference = path(builder, entry->reference);
    spec->tokens_file = path(builder, entry->tokens);
    spec->backend = entry->backend != NULL ? kva_arena_strdup(builder->arena, entry->backend) : NULL;
    if ((entry->weights != NULL && spec->weights == NULL) || (entry->reference != NULL && spec->reference == NULL) ||
        (entry->tokens != NULL && spec->tokens_file == NULL) || (entry->backend != NULL && spec->backend == NULL))
        return kva_fail_memory(builder->error, 0);
    return KVA_OK;
}

// The case of one combination; the prompt of a case without one fills its context but for the decoded tokens.
static enum kva_status combine(struct builder *builder, const struct entry *entry, const char *model, const char *dtype,
                               const char *context, const char *policy)
{
    struct kva_case spec;
    enum kva_status status = common(builder, entry, &spec);
    if (status == KVA_OK)
        status = count(builder, "contexts", context, &spec.context);
    if (status != KVA_OK)
        return status;
    spec.model = model_name(builder, model);
    spec.policy = policy != NULL ? kva_arena_strdup(builder->arena, policy) : "exact";
    if (spec.model == NULL || spec.policy == NULL)
        return kva_fail_memory(builder->error, 0);
    if (dtype != NULL && (spec.dtype = kva_dtype_parse(dtype)) == KVA_DTYPE_NONE)
        return fail(builder, "dtypes", dtype, "f32 or bf16");
    if (entry->prompt == NULL && spec.context > spec.decode)
        spec.prompt_length = spec.context - spec.decode;
    return add(builder, &spec);
}

static enum kva_status expand(struct builder *builder, const struct entry *entry)
{
    const bool small = !builder->has_gpu && entry->n_contexts_without_gpu > 0;
    char **contexts = small ? entry->contexts_without_gpu : entry->contexts;
    const unsigned n_contexts = small ? entry->n_contexts_without_gpu : entry->n_contexts;
    const unsigned contexts_or_one = n_contexts > 0 ? n_contexts : 1;
    const unsigned dtypes_or_one = entry->n_dtypes > 0 ? entry->n_dtypes : 1;
    const unsigned policies_or_one = entry->n_policies > 0 ? entry->n_policies : 1;
    for (unsigned m = 0; m < entry->n_models; m++)
        for (unsigned d = 0; d < dtypes_or_one; d++)
            for (unsigned c = 0; c < contexts_or_one; c++)
                for (unsigned p = 0; p < policies_or_one; p++) {
                    const enum kva_status status =
                        combine(builder, entry, entry->models[m], entry->n_dtypes > 0 ? entry->dtypes[d] : NULL,
                                n_contexts > 0 ? contexts[c] : NULL, entry->n_policies > 0 ? entry->policies[p] : NULL);
                    if (status != KVA_OK)
                        return status;
                }
    return KVA_OK;
}

enum kva_status kva_suite_read(const char *file, bool has_gpu, struct kva_suite *suite, struct kva_error *error)
{
    *suite = (struct kva_suite){0};
    struct builder builder = {.suite = suite, .has_gpu = has_gpu, .error = error};
    struct document *document = NULL;
    char *bytes = NULL, *name = strdup(file);
    size_t length;
    suite->memory = builder.arena = kva_arena_new();
    enum kva_status status = name == NULL || builder.arena == NULL ? kva_fail_memory(error, strlen(file)) : KVA_OK;
    if (status == KVA_OK)
        status = kva_file_read(file, MAX_SUITE_BYTES, &bytes, &length, error);
    if (status == KVA_OK) {
        builder.file = (struct kva_atlas_file){.bytes = bytes, .length = length, .name = name};
        status = kva_yaml_load(&builder.file, &DOCUMENT, (void **)&document, error);
    }
    for (unsigned i = 0; status == KVA_OK && i < document->n_entries; i++)
        status = expand(&builder, &document->entries[i]);
    if (document != NULL)
        kva_yaml_free(&DOCUMENT, document);
    free(bytes);
    free(name);
    if (status != KVA_OK)
        kva_suite_free(suite);
    return status;
}

void kva_suite_free(struct kva_suite *suite)
{
    free(suite->cases);
    kva_arena_free(suite->memory);
    *suite = (struct kva_suite){0};
}
