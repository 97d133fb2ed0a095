// A model from the name that a person gives: source.c finds the config, the steps of build.h run over it.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "model/build.h"
#include "model/expr.h"
#include "model/gguf_arch.h"
#include "model/json.h"
#include "model/source.h"

enum { WARNINGS = 16 };  // the list grows by so many

// ---------------------------------------------------------------- what build.h promises

const char *kva_build_path(struct kva_build *build, const char *key)
{
    if (key[0] == '/' || build->text_key == NULL)
        return key + (key[0] == '/');
    const char *path = kva_arena_printf(build->arena, "%s.%s", build->text_key, key);
    return path != NULL ? path : key;
}

enum kva_status kva_build_fail(struct kva_build *build, const char *key, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return kva_fail(build->error, KVA_BAD_INPUT, build->file, kva_build_path(build, key), "%s", text);
}

enum kva_status kva_build_memory(struct kva_build *build)
{
    return kva_fail(build->error, KVA_MACHINE, build->file, NULL, "out of host memory while the model was read");
}

// Text from a config goes to a terminal: one line, no control characters.
static void make_printable(char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            *text = '?';
}

enum kva_status kva_build_warn(struct kva_build *build, const char *format, ...)
{
    char text[512];
    struct kva_model *model = build->model;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    make_printable(text);
    if (model->n_warnings % WARNINGS == 0) {
        const char **more = kva_arena_alloc(build->arena, model->n_warnings + WARNINGS, sizeof *more);
        if (more == NULL)
            return kva_build_memory(build);
        if (model->n_warnings > 0)
            memcpy(more, model->warnings, model->n_warnings * sizeof *more);
        model->warnings = more;
    }
    const char *copy = kva_arena_strdup(build->arena, text);
    if (copy == NULL)
        return kva_build_memory(build);
    model->warnings[model->n_warnings++] = copy;
    return KVA_OK;
}

enum kva_status kva_build_formula(struct kva_build *build, const char *formula, int64_t layer, int64_t *value)
{
    const struct kva_model *model = build->model;
    const struct kva_program *program;
    enum kva_status status = kva_arch_formula(build->arch, formula, &program, build->error);
    if (status == KVA_OK) {
        const struct kva_scope scope = {model->values, model->n_values, layer, model->layers,
                                        layer >= 0 && model->layers != NULL ? model->layers[layer].kind : NULL};
        status = kva_program_run(program, &scope, value, build->error);
    }
    if (status == KVA_BAD_INPUT && build->error != NULL)
        snprintf(build->error->file, sizeof build->error->file, "%s (by architectures/%.60s.yaml)", build->file,
                 build->arch->model_type);
    return status;
}

enum kva_status kva_build_count(struct kva_build *build, const char *formula, int64_t layer, uint32_t minimum,
                                const char *what, uint32_t *count)
{
    int64_t value;
    enum kva_status status = kva_build_formula(build, formula, layer, &value);
    if (status != KVA_OK)
        return status;
    if (value < (int64_t)minimum || value > (int64_t)UINT32_MAX)
        return kva_build_fail(build, what, "%s is %lld, expected %u to %u", formula, (long long)value, minimum,
                              UINT32_MAX);
    *count = (uint32_t)value;
    return KVA_OK;
}

// ---------------------------------------------------------------- open and close

static enum kva_status run(struct kva_build *build)
{
    static enum kva_status (*const steps[])(struct kva_build *) = {
        kva_assume_read,      kva_config_architecture, kva_config_values, kva_rules_layers, kva_rope_read,
        kva_config_strangers, kva_assume_finish,       kva_gguf_check,    kva_gguf_keep,    kva_weights_read};
    enum kva_status status = KVA_OK;
    for (size_t i = 0; i < sizeof steps / sizeof *steps && status == KVA_OK; i++)
        status = steps[i](build);
    return status;
}

// Builds a model from a config (stolen) that came from *origin, or from the header `gguf` there.
static enum kva_status build_model(struct kva_atlas *atlas, const char *id, json_t *root, struct kva_gguf *gguf,
                                   const struct kva_origin *origin, const struct kva_model_options *options,
                                   struct kva_model **model, struct kva_error *error)
{
    struct kva_build build = {
        .atlas = atlas, .error = error, .root = root, .gguf = gguf, .directory = origin->directory};
    enum kva_status status = KVA_OK;
    build.arena = kva_arena_new();
    if (build.arena != NULL)
        build.model = kva_arena_alloc(build.arena, 1, sizeof *build.model);
    if (build.model == NULL) {
        status = kva_fail_memory(error, sizeof *build.model);
        goto out;
    }
    build.model->arena = build.arena;
    build.model->id = kva_arena_strdup(build.arena, id);
    build.model->source = build.file = kva_arena_strdup(build.arena, origin->path);
    if (options != NULL)
        build.options = *options;
    status = build.model->id != NULL && build.file != NULL ? run(&build) : kva_fail_memory(error, strlen(id));
    if (status == KVA_OK && origin->note[0] != '\0')
        status = kva_build_warn(&build, "%s", origin->note);
out:
    json_decref(build.root);
    json_decref(build.defaults);
    json_decref(build.made);
    for (size_t i = 0; i < build.n_assumed; i++)
        json_decref(build.assumed[i].value);
    if (status == KVA_OK)
        *model = build.model;
    else
        kva_arena_free(build.arena);
    return status;
}

static enum kva_status printable(enum kva_status status, struct kva_error *error)
{
    if (status != KVA_OK && error != NULL) {
        make_printable(error->file);
        make_printable(error->key);
        make_printable(error->text);
    }
    return status;
}

enum kva_status kva_model_open(struct kva_atlas *atlas, const char *name, const struct kva_model_options *options,
                               struct kva_model **model, struct kva_error *error)
{
    struct kva_origin origin;
    struct kva_gguf *gguf = NULL;
    json_t *root = NULL;
    *model = NULL;
    enum kva_status status = kva_origin_find(atlas, name, options != NULL && options->fetch, &origin, error);
    if (status == KVA_OK && origin.bytes == NULL && kva_gguf_is(origin.path)) {
        status = kva_gguf_read(origin.path, &gguf, error);
        if (status == KVA_OK)
            status = kva_gguf_config(atlas, gguf, &root, error);
    } else if (status == KVA_OK) {
        status = kva_origin_read(&origin, error);
        if (status == KVA_OK)
            status = kva_json_parse(origin.bytes, origin.length, origin.path, true, &root, error);
    }
    if (status == KVA_OK)
        status = build_model(atlas, name, root, gguf, &origin, options, model, error);
    kva_gguf_close(gguf);
    kva_origin_free(&origin);
    return printable(status, error);
}

// {"id": ..., "config": {...}}: replaces *root by the config. Returns the id, in `buffer` when it is a number.
static const char *unwrap(json_t **root, const char *id, char *buffer, size_t size)
{
    json_t *config = json_object_get(*root, "config"), *named = json_object_get(*root, "id");
    if (!json_is_object(config) || json_object_get(*root, "model_type") != NULL)
        return id;
    if (json_is_integer(named))
        snprintf(buffer, size, "%lld", (long long)json_integer_value(named));
    else
        snprintf(buffer, size, "%s", json_is_string(named) ? json_string_value(named) : id);
    json_incref(config);
    json_decref(*root);
    *root = config;
    return buffer;
}

enum kva_status kva_model_from_json(struct kva_atlas *atlas, const char *bytes, size_t length, const char *id,
                                    const struct kva_model_options *options, struct kva_model **model,
                                    struct kva_error *error)
{
    struct kva_origin origin;
    char named[512];
    json_t *root;
    *model = NULL;
    kva_origin_of_bytes(&origin, bytes, length, id);
    enum kva_status status = kva_json_parse(bytes, length, id, true, &root, error);
    if (status == KVA_OK) {
        id = unwrap(&root, id, named, sizeof named);
        status = build_model(atlas, id, root, NULL, &origin, options, model, error);
    }
    return printable(status, error);
}

void kva_model_close(struct kva_model *model)
{
    if (model != NULL)
        kva_arena_free(model->arena);  // the model itself lies in it
}

const struct kva_value *kva_model_value(const struct kva_model *model, const char *name)
{
    for (size_t i = 0; i < model->n_values; i++)
        if (strcmp(model->values[i].name, name) == 0)
            return &model->values[i];
    return NULL;
}
