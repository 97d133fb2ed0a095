// Which architecture a config is of, and what its keys say. An absent key means the class default and an explicit null
// means "derive", which need not be the same: mistral without sliding_window has a window of 4096, with null it has
// none. (Transformers, configuration_mistral.py.) A JSON saved by save_pretrained leaves out keys that equal the
// defaults, so defaults are part of the architecture file.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "model/atlas.h"
#include "model/build.h"
#include "model/expr.h"
#include "model/json.h"

// Parts of names that keys about caches have.
static const char *const RELEVANT[] = {
    "window",   "kv_",        "_kv",        "key_value", "layer_types", "layer_type",  "chunk",     "mamba",   "ssm",
    "state",    "conv",       "lora_rank",  "shared",    "share",       "pattern",     "compress",  "index",   "hybrid",
    "head_dim", "attn_layer", "block_type", "per_layer", "block_conf",  "linear_attn", "recurrent", "full_att"};
// Keys of every PretrainedConfig that only look the part. (Transformers, configuration_utils.py.)
static const char *const NEVER[] = {"output_hidden_states", "chunk_size_feed_forward", "cache_implementation",
                                    "tie_word_embeddings"};

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

static bool looks_relevant(const char *key)
{
    for (size_t i = 0; i < sizeof NEVER / sizeof *NEVER; i++)
        if (strcmp(key, NEVER[i]) == 0)
            return false;
    if (ends_with(key, "token_index") || ends_with(key, "token_id"))
        return false;
    for (size_t i = 0; i < sizeof RELEVANT / sizeof *RELEVANT; i++)
        if (strstr(key, RELEVANT[i]) != NULL)
            return true;
    return false;
}

// ---------------------------------------------------------------- which architecture

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

static void list_relevant(struct kva_text *out, json_t *object, const char *prefix)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        if (!looks_relevant(key) || out->length > 300)
            continue;
        kva_text_printf(out, "%s%s%.60s", out->length > 0 ? ", " : "", prefix, key);
    }
}

static enum kva_status refuse(struct kva_build *build, const char *model_type, const char *architecture)
{
    struct kva_text keys = {0};
    list_relevant(&keys, build->root, "");
    json_t *nested = json_object_get(build->root, "text_config");
    if (json_is_object(nested))
        list_relevant(&keys, nested, "text_config.");
    enum kva_status status =
        kva_fail(build->error, KVA_REFUSED, build->file, "model_type",
                 "the architecture \"%.80s\"%s%.60s%s is not known; keys here that would decide its caches: %s",
                 model_type, architecture[0] != '\0' ? " (" : "", architecture, architecture[0] != '\0' ? ")" : "",
                 keys.failed || keys.length == 0 ? "none found" : keys.bytes);
    kva_text_free(&keys);
    return status;
}

static enum kva_status find_architecture(struct kva_build *build)
{
    const json_t *type = json_object_get(build->root, "model_type");
    char found[KVA_JSON_FOUND];
    if (type != NULL && !json_is_string(type) && !json_is_null(type))
        return kva_build_fail(build, "model_type", "expected text, found %s", kva_json_found(type, found));
    const char *model_type = text_of(build->root, "model_type");
    const char *architecture = build->model->architecture;
    enum kva_status status = KVA_OK;
    if (model_type[0] != '\0')
        status = kva_arch_get(build->atlas, model_type, &build->arch, build->error);
    if (status == KVA_OK && build->arch == NULL && architecture[0] != '\0') {
        status = kva_arch_find(build->atlas, architecture, &build->arch, build->error);
        if (status == KVA_OK && build->arch != NULL)
            status = kva_build_warn(build, "the model_type \"%.80s\" is not known; read as %s, which \"%s\" belongs to",
                                    model_type, build->arch->model_type, architecture);
    }
    if (status != KVA_OK || build->arch != NULL)
        return status;
    if (model_type[0] == '\0' && architecture[0] == '\0')
        return kva_build_fail(build, "model_type", "is missing, the name of an architecture was expected");
    return refuse(build, model_type, architecture);
}

static enum kva_status descend(struct kva_build *build)
{
    build->wrapper = build->arch;
    build->text_key = build->wrapper->text_config;
    build->arch = NULL;
    json_t *nested = json_object_get(build->root, build->text_key);
    char found[KVA_JSON_FOUND];
    if (nested == NULL || json_is_null(nested)) {
        // The class then takes its text class's defaults: an empty object means the same.
        nested = json_object();
        if (nested == NULL || json_object_set_new(build->root, build->text_key, nested) != 0)
            return kva_build_memory(build);
    }
    if (!json_is_object(nested))
        return kva_fail(build->error, KVA_BAD_INPUT, build->file, build->text_key, "expected an object, found %s",
                        kva_json_found(nested, found));
    build->text = nested;
    const char *model_type = text_of(nested, "model_type");
    if (model_type[0] == '\0')
        model_type = build->wrapper->text_model_type;
    enum kva_status status = kva_arch_get(build->atlas, model_type, &build->arch, build->error);
    if (status != KVA_OK)
        return status;
    if (build->arch == NULL)
        return refuse(build, model_type, "");
    if (build->arch->text_config != NULL)
        return kva_build_fail(build, "model_type", "a wrapper inside a wrapper is not known");
    return KVA_OK;
}

enum kva_status kva_config_architecture(struct kva_build *build)
{
    const json_t *names = json_object_get(build->root, "architectures");
    const char *first = json_string_value(json_array_get(names, 0));
    struct kva_model *model = build->model;
    model->architecture = kva_arena_strdup(build->arena, first != NULL ? first : "");
    model->model_type = kva_arena_strdup(build->arena, text_of(build->root, "model_type"));
    if (model->architecture == NULL || model->model_type == NULL)
        return kva_build_memory(build);
    build->text = build->root;
    enum kva_status status = find_architecture(build);
    if (status == KVA_OK && build->arch->text_config != NULL)
        status = descend(build);
    if (status != KVA_OK)
        return status;
    model->arch = build->arch;
    model->family = build->arch->family;
    if (model->model_type[0] == '\0')
        model->model_type = build->arch->model_type;
    model->references = kva_arena_alloc(build->arena, build->arch->n_references + 1, sizeof *model->references);
    if (model->references == NULL)
        return kva_build_memory(build);
    for (unsigned i = 0; i < build->arch->n_references; i++) {
        const struct kva_reference *reference;
        status = kva_atlas_reference(build->atlas, build->arch->references[i], &reference, build->error);
        if (status != KVA_OK)
            return status;
        if (reference == NULL)
            continue;
        const char *line =
            kva_arena_printf(build->arena, "%s: %s, %s", reference->id, reference->title, reference->url);
        if (line == NULL)
            return kva_build_memory(build);
        model->references[model->n_references++] = line;
    }
    return KVA_OK;
}

// ---------------------------------------------------------------- values

static enum kva_status fail_type(struct kva_build *build, const struct kva_value *value, const char *expected,
                                 const json_t *found)
{
    char buffer[KVA_JSON_FOUND];
    return kva_build_fail(build, value->key, "expected %s, found %s", expected, kva_json_found(found, buffer));
}

// What the architecture file says instead of a value: a literal, or a formula for counts and flags.
static enum kva_status fill(struct kva_build *build, struct kva_value *value, const char *rule, enum kva_source source)
{
    value->source = source;
    value->rule = rule;
    int64_t result = 0;
    char *end;
    switch (value->type) {
    case KVA_TEXT:
        value->text = rule;
        return KVA_OK;
    case KVA_REAL:
        value->real = strtod(rule, &end);
        if (end == rule || *end != '\0' || !isfinite(value->real))
            return kva_fail(build->error, KVA_BAD_INPUT, build->arch->model_type, value->name,
                            "the architecture file's \"%s\" is not a number", rule);
        return KVA_OK;
    case KVA_COUNT:
    case KVA_FLAG: {
        enum kva_status status = kva_build_formula(build, rule, -1, &result);
        if (status == KVA_OK && result < 0)
            status = kva_build_fail(build, value->key, "%s = %s is %lld, which is no count", value->name, rule,
                                    (long long)result);
        value->count = (uint64_t)result;
        return status;
    }
    }
    return KVA_OK;
}

static enum kva_status take(struct kva_build *build, const struct kva_arch_key *key, struct kva_value *value,
                            const json_t *found)
{
    value->source = KVA_FROM_CONFIG;
    switch (key->type) {
    case KVA_COUNT:
        if (json_is_string(found) && key->automatic != NULL && strcmp(json_string_value(found), "auto") == 0)
            return fill(build, value, key->automatic, KVA_FROM_NULL);
        if (!json_is_integer(found) || json_integer_value(found) < 0)
            return fail_type(build, value, key->zero ? "an integer of 0 or more" : "a positive integer", found);
        value->count = (uint64_t)json_integer_value(found);
        return KVA_OK;
    case KVA_FLAG:
        if (!json_is_boolean(found))
            return fail_type(build, value, "true or false", found);
        value->count = json_is_true(found);
        return KVA_OK;
    case KVA_REAL:
        if (!json_is_number(found))
            return fail_type(build, value, "a number", found);
        value->real = json_number_value(found);
        return KVA_OK;
    case KVA_TEXT:
        if (!json_is_string(found))
            return fail_type(build, value, "text", found);
        value->text = kva_arena_strdup(build->arena, json_string_value(found));
        return value->text != NULL ? KVA_OK : kva_build_memory(build);
    }
    return KVA_OK;
}

static enum kva_status read_value(struct kva_build *build, const struct kva_arch_key *key, struct kva_value *value)
{
    value->name = key->name;
    value->type = key->type;
    value->key = key->n_keys > 0 ? key->keys[0] : key->name;
    const json_t *found = NULL;
    for (unsigned i = 0; i < key->n_keys && found == NULL; i++) {
        found = json_object_get(build->text, key->keys[i]);
        // Transformers ties by the outer config of a wrapper.
        if (found == NULL && build->wrapper != NULL && strcmp(key->keys[i], "tie_word_embeddings") == 0)
            found = json_object_get(build->root, key->keys[i]);
        if (found != NULL)
            value->key = key->keys[i];
    }
    enum kva_status status;
    if (found == NULL && key->absent == NULL)
        return kva_build_fail(build, value->key, "is missing and %s has no default for it", build->arch->model_type);
    if (found == NULL)
        status = fill(build, value, key->absent, KVA_FROM_DEFAULT);
    else if (json_is_null(found) && key->null != NULL)
        status = fill(build, value, key->null, KVA_FROM_NULL);
    else
        status = take(build, key, value, found);
    if (status == KVA_OK && key->type == KVA_COUNT && value->count == 0 && !key->zero)
        status = value->rule != NULL
                     ? kva_build_fail(build, value->key, "%s = %s is 0, a positive integer was expected", value->name,
                                      value->rule)
                     : kva_build_fail(build, value->key, "expected a positive integer, found the number 0");
    return status;
}

// dtype wins over torch_dtype, the outer config over the nested one. (Transformers, configuration_utils.py.)
static enum kva_status read_dtype(struct kva_build *build)
{
    static const char *const KEYS[] = {"dtype", "torch_dtype"};
    struct kva_model *model = build->model;
    json_t *const objects[] = {build->root, build->text};
    for (size_t o = 0; o < 2 && model->dtype_key == NULL; o++)
        for (size_t k = 0; k < 2 && model->dtype_key == NULL; k++) {
            const json_t *found = json_object_get(objects[o], KEYS[k]);
            if (found == NULL || json_is_null(found))
                continue;
            const char *path = o == 0 ? KEYS[k] : kva_build_path(build, KEYS[k]);
            char buffer[KVA_JSON_FOUND];
            const char *text = json_string_value(found);
            model->dtype = text != NULL ? kva_dtype_parse(text) : KVA_DTYPE_NONE;
            if (model->dtype == KVA_DTYPE_NONE)
                return kva_fail(build->error, KVA_BAD_INPUT, build->file, path,
                                "expected an element type such as \"bfloat16\", found %s",
                                kva_json_found(found, buffer));
            model->dtype_key = kva_arena_strdup(build->arena, path);
            if (model->dtype_key == NULL)
                return kva_build_memory(build);
        }
    if (build->options.dtype != KVA_DTYPE_NONE) {
        model->dtype = build->options.dtype;
        model->dtype_key = "--dtype";
    }
    if (model->dtype_key == NULL)
        model->dtype_key = "";
    return KVA_OK;
}

enum kva_status kva_config_values(struct kva_build *build)
{
    struct kva_model *model = build->model;
    const struct kva_arch *arch = build->arch;
    model->values = kva_arena_alloc(build->arena, arch->n_keys, sizeof *model->values);
    if (model->values == NULL)
        return kva_build_memory(build);
    for (unsigned i = 0; i < arch->n_keys; i++) {
        enum kva_status status = read_value(build, &arch->keys[i], &model->values[i]);
        if (status != KVA_OK)
            return status;
        model->n_values = i + 1;  // formulas see the names before them
    }
    const struct kva_value *layers = kva_model_value(model, "layers"), *context = kva_model_value(model, "context");
    if (layers->count > KVA_MAX_LAYERS)
        return kva_build_fail(build, layers->key, "expected at most %d layers, found the number %llu", KVA_MAX_LAYERS,
                              (unsigned long long)layers->count);
    model->context_limit = context->count;
    for (unsigned i = 0; i < arch->n_checks; i++) {
        int64_t holds;
        enum kva_status status = kva_build_formula(build, arch->checks[i].holds, -1, &holds);
        if (status != KVA_OK)
            return status;
        if (!holds)
            return kva_fail(build->error, KVA_BAD_INPUT, build->file, build->text_key, "%s", arch->checks[i].text);
    }
    return read_dtype(build);
}

// ---------------------------------------------------------------- keys that nobody read

static bool is_read(const struct kva_arch *arch, const char *key)
{
    for (unsigned i = 0; i < arch->n_keys; i++)
        for (unsigned k = 0; k < arch->keys[i].n_keys; k++)
            if (strcmp(arch->keys[i].keys[k], key) == 0)
                return true;
    for (unsigned i = 0; i < arch->n_inert; i++)
        if (strcmp(arch->inert[i], key) == 0)
            return true;
    return (arch->list != NULL && strcmp(arch->list->key, key) == 0) ||
           (arch->text_config != NULL && strcmp(arch->text_config, key) == 0);
}

static enum kva_status warn_of_strangers(struct kva_build *build, const struct kva_arch *arch, json_t *object)
{
    const char *key;
    json_t *value;
    enum kva_status status = KVA_OK;
    json_object_foreach(object, key, value)
    {
        if (status == KVA_OK && looks_relevant(key) && !is_read(arch, key) && !json_is_null(value))
            status = kva_build_warn(build,
                                    "the key \"%.80s\" looks as if it decided a cache, but architectures/%s.yaml does "
                                    "not read it",
                                    object == build->text ? kva_build_path(build, key) : key, arch->model_type);
    }
    return status;
}

enum kva_status kva_config_strangers(struct kva_build *build)
{
    enum kva_status status = warn_of_strangers(build, build->arch, build->text);
    if (status == KVA_OK && build->wrapper != NULL)
        status = warn_of_strangers(build, build->wrapper, build->root);
    return status;
}
