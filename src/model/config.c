// Which architecture a config is of, which object in it is the text decoder's, and which keys nobody read.
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "model/atlas.h"
#include "model/build.h"
#include "model/json.h"

enum { MAX_NESTED = 4 };

// Parts of names that keys about caches have.
static const char *const RELEVANT[] = {
    "window",   "kv_",        "_kv",        "key_value", "layer_types", "layer_type",  "chunk",     "mamba",   "ssm",
    "state",    "conv",       "lora_rank",  "shared",    "share",       "pattern",     "compress",  "index",   "hybrid",
    "head_dim", "attn_layer", "block_type", "per_layer", "block_conf",  "linear_attn", "recurrent", "full_att"};
// Keys of every PretrainedConfig that only look the part. (Transformers, configuration_utils.py.)
static const char *const NEVER[] = {"output_hidden_states", "chunk_size_feed_forward", "cache_implementation",
                                    "ignore_index", "tie_word_embeddings"};

// Parts of names that keys about weights, experts and other towers have.
static const char *const NEVER_PARTS[] = {"expert", "multiplier", "vision", "image", "video", "audio", "_bias"};

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
    for (size_t i = 0; i < sizeof NEVER_PARTS / sizeof *NEVER_PARTS; i++)
        if (strstr(key, NEVER_PARTS[i]) != NULL)
            return false;
    for (size_t i = 0; i < sizeof RELEVANT / sizeof *RELEVANT; i++)
        if (strstr(key, RELEVANT[i]) != NULL)
            return true;
    return false;
}

// ---------------------------------------------------------------- paths

json_t *kva_build_find(struct kva_build *build, const char *path, enum kva_source *source)
{
    for (size_t i = 0; i < build->n_assumed; i++)
        if (strcmp(build->assumed[i].key, path) == 0) {
            build->assumed[i].used = true;
            if (source != NULL)
                *source = KVA_FROM_PERSON;
            return build->assumed[i].value;
        }
    if (source != NULL)
        *source = KVA_FROM_CONFIG;
    return path[0] == '/' ? kva_json_at(build->root, path + 1) : kva_json_at(build->text, path);
}

// Whether `path` starts at `key` of this object. outer: the object is the outermost config.
static bool starts_at(const char *path, const char *key, bool outer)
{
    if (path[0] == '/' && !outer)
        return false;
    path += path[0] == '/';
    size_t length = strlen(key);
    return strncmp(path, key, length) == 0 && (path[length] == '\0' || path[length] == '.');
}

static bool any_starts_at(char *const *paths, unsigned n, const char *key, bool outer)
{
    for (unsigned i = 0; i < n; i++)
        if (starts_at(paths[i], key, outer))
            return true;
    return false;
}

static bool is_read(const struct kva_arch *arch, const char *key, bool outer)
{
    for (unsigned i = 0; i < arch->n_keys; i++)
        if (any_starts_at(arch->keys[i].keys, arch->keys[i].n_keys, key, outer))
            return true;
    if (any_starts_at(arch->inert, arch->n_inert, key, outer) ||
        any_starts_at(arch->text_aliases, arch->n_text_aliases, key, outer))
        return true;
    return (arch->list != NULL && (starts_at(arch->list->key, key, outer) ||
                                   any_starts_at(arch->list->aliases, arch->list->n_aliases, key, outer))) ||
           (arch->text_config != NULL && starts_at(arch->text_config, key, outer));
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
    if (build->family != NULL) {
        status = kva_arch_get(build->atlas, build->family, &build->arch, build->error);
        if (status == KVA_OK && build->arch == NULL)
            return kva_fail(build->error, KVA_REFUSED, NULL, "--assume", "family=%.80s is not known", build->family);
        return status != KVA_OK ? status
                                : kva_build_warn(build, "the model_type \"%.80s\" is read as %s, as was asked for",
                                                 model_type, build->arch->model_type);
    }
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

// Where a config may hold its text decoder. (Transformers, configuration_utils.py, get_text_config; vLLM's llm_config.)
static const char *const NESTED[] = {"text_config", "decoder", "generator", "llm_config"};

// The first of them that is an object; *n: how many are.
static const char *any_nested(const json_t *object, size_t *n)
{
    const char *key = NULL;
    *n = 0;
    for (size_t i = 0; i < sizeof NESTED / sizeof *NESTED; i++)
        if (json_is_object(json_object_get(object, NESTED[i])) && (*n)++ == 0)
            key = NESTED[i];
    return key;
}

// The key of the nested config that is there; the first spelling when none is.
static const char *nested_key(struct kva_build *build, const struct kva_arch *wrapper)
{
    if (kva_json_at(build->text, wrapper->text_config) != NULL)
        return wrapper->text_config;
    for (unsigned a = 0; a < wrapper->n_text_aliases; a++)
        if (kva_json_at(build->text, wrapper->text_aliases[a]) != NULL)
            return wrapper->text_aliases[a];
    size_t n;
    const char *key = any_nested(build->text, &n);
    return key != NULL ? key : wrapper->text_config;
}

static const char *nested_type(const struct kva_arch *wrapper, const json_t *nested)
{
    const char *model_type = text_of(nested, "model_type");
    if (model_type[0] == '\0' && wrapper->text_model_type != NULL)
        model_type = wrapper->text_model_type;
    for (unsigned r = 0; r < wrapper->n_text_remap; r++)
        if (strcmp(wrapper->text_remap[r].from, model_type) == 0)
            return wrapper->text_remap[r].to;
    return model_type;
}

// The nested config where the file has none, or where the wrapper's class puts defaults of its own under it. Without
// such defaults the class takes its text class's, which an empty object stands for.
static enum kva_status make_nested(struct kva_build *build, const struct kva_arch *wrapper, json_t **nested)
{
    const char *defaults = *nested == NULL && wrapper->text_absent != NULL ? wrapper->text_absent : wrapper->text_under;
    json_error_t where;
    json_t *made = json_loads(defaults != NULL ? defaults : "{}", 0, &where);
    if (made == NULL)
        return kva_fail(build->error, KVA_BAD_INPUT, wrapper->model_type,
                        *nested == NULL ? "text_absent" : "text_under", "is not a JSON object: %s", where.text);
    if (build->made == NULL)
        build->made = json_array();
    if (json_array_append_new(build->made, made) != 0 || (*nested != NULL && json_object_update(made, *nested) != 0))
        return kva_build_memory(build);
    *nested = made;
    return KVA_OK;
}

// From a wrapper's config to the config that is nested in it.
static enum kva_status descend(struct kva_build *build)
{
    const struct kva_arch *wrapper = build->arch;
    const char *key = nested_key(build, wrapper);
    json_t *nested = kva_json_at(build->text, key);
    char found[KVA_JSON_FOUND];
    if (build->wrapper == NULL)
        build->wrapper = wrapper;
    if (wrapper->tensor_prefix != NULL)
        build->tensor_prefix = kva_arena_printf(build->arena, "%s%s", build->tensor_prefix, wrapper->tensor_prefix);
    if (build->tensor_prefix == NULL)
        return kva_build_memory(build);
    const char *path = kva_build_path(build, key);
    if (nested != NULL && !json_is_null(nested) && !json_is_object(nested))
        return kva_fail(build->error, KVA_BAD_INPUT, build->file, path, "expected an object, found %s",
                        kva_json_found(nested, found));
    bool flat = false;
    if (nested == NULL || json_is_null(nested)) {
        flat = wrapper->text_flat != NULL && json_object_get(build->text, wrapper->text_flat) != NULL;
        nested = NULL;
    }
    if (!flat && (nested == NULL || wrapper->text_under != NULL)) {
        const enum kva_status status = make_nested(build, wrapper, &nested);
        if (status != KVA_OK)
            return status;
    }
    const char *model_type = flat ? wrapper->text_model_type : nested_type(wrapper, nested);
    if (model_type == NULL || model_type[0] == '\0')
        return kva_fail(build->error, KVA_BAD_INPUT, build->file, kva_arena_printf(build->arena, "%s.model_type", path),
                        "is missing, the name of an architecture was expected");
    if (!flat) {
        build->text = nested;
        build->text_key = path;
    }
    enum kva_status status = kva_arch_get(build->atlas, model_type, &build->arch, build->error);
    if (status != KVA_OK)
        return status;
    return build->arch != NULL ? KVA_OK : refuse(build, model_type, "");
}

// A config that holds its decoder in an object although its type is no wrapper.
static enum kva_status descend_unasked(struct kva_build *build)
{
    size_t n;
    const char *key = any_nested(build->text, &n);
    if (n > 1)
        return kva_build_fail(build, key, "and another text decoder stand in one config: which one is meant?");
    if (key == NULL || build->arch->text_config != NULL || is_read(build->arch, key, true))
        return KVA_OK;
    json_t *nested = json_object_get(build->text, key);
    const char *model_type = text_of(nested, "model_type");
    const struct kva_arch *arch = build->arch;
    enum kva_status status = KVA_OK;
    if (model_type[0] != '\0')
        status = kva_arch_get(build->atlas, model_type, &arch, build->error);
    if (status != KVA_OK)
        return status;
    if (arch == NULL)
        return refuse(build, model_type, "");
    build->wrapper = build->arch;
    build->arch = arch;
    build->text = nested;
    build->text_key = key;
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
    build->tensor_prefix = "";
    enum kva_status status = find_architecture(build);
    if (status == KVA_OK)
        status = descend_unasked(build);
    for (int depth = 0; status == KVA_OK && build->arch->text_config != NULL; depth++)
        status = depth < MAX_NESTED
                     ? descend(build)
                     : kva_build_fail(build, "model_type", "is in more than %d wrappers, one in another", MAX_NESTED);
    if (status != KVA_OK)
        return status;
    if (build->arch->refused != NULL || (build->wrapper != NULL && build->wrapper->refused != NULL))
        return kva_fail(build->error, KVA_REFUSED, build->file, "model_type", "\"%.80s\" is known, but not planned: %s",
                        model->model_type,
                        build->arch->refused != NULL ? build->arch->refused : build->wrapper->refused);
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

// ---------------------------------------------------------------- keys that nobody read

static enum kva_status warn_of_strangers(struct kva_build *build, const struct kva_arch *arch, json_t *object)
{
    const char *key;
    json_t *value;
    enum kva_status status = KVA_OK;
    size_t strangers = 0;
    json_object_foreach(object, key, value)
    {
        if (status == KVA_OK && looks_relevant(key) && !json_is_null(value) &&
            !is_read(arch, key, object == build->root) && !(object == build->root && is_read(build->arch, key, true)) &&
            ++strangers <= KVA_STRANGERS_SAID)
            status = kva_build_warn(build,
                                    "the key \"%.80s\" looks as if it decided a cache, but architectures/%s.yaml does "
                                    "not read it",
                                    object == build->text ? kva_build_path(build, key) : key, arch->model_type);
    }
    if (status == KVA_OK && strangers > KVA_STRANGERS_SAID)
        status = kva_build_warn(build, "%zu more keys look as if they decided a cache, and are not read",
                                strangers - KVA_STRANGERS_SAID);
    return status;
}

enum kva_status kva_config_strangers(struct kva_build *build)
{
    enum kva_status status = warn_of_strangers(build, build->arch, build->text);
    if (status == KVA_OK && build->wrapper != NULL && build->text != build->root)
        status = warn_of_strangers(build, build->wrapper, build->root);
    return status;
}
