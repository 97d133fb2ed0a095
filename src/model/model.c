// A model from the name that a person gives: finds the config, then runs the steps of build.h over it.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/file.h"
#include "model/atlas.h"
#include "model/build.h"
#include "model/expr.h"
#include "model/json.h"

enum { CONFIG_LIMIT = 16 << 20, MAX_WARNINGS = 32, PATH_LIMIT = 4096 };

// ---------------------------------------------------------------- what build.h promises

const char *kva_build_path(struct kva_build *build, const char *key)
{
    if (build->text_key == NULL)
        return key;
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
    if (model->n_warnings == MAX_WARNINGS)
        return KVA_OK;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    make_printable(text);
    if (model->warnings == NULL)
        model->warnings = kva_arena_alloc(build->arena, MAX_WARNINGS, sizeof *model->warnings);
    const char *copy = kva_arena_strdup(build->arena, text);
    if (model->warnings == NULL || copy == NULL)
        return kva_build_memory(build);
    model->warnings[model->n_warnings++] = copy;
    return KVA_OK;
}

bool kva_scope_lookup(void *user, const char *name, size_t length, int64_t *value)
{
    const struct kva_scope *scope = user;
    if (length == 1 && name[0] == 'i' && scope->layer >= 0) {
        *value = scope->layer;
        return true;
    }
    for (size_t i = 0; i < scope->model->n_values; i++) {
        const struct kva_value *found = &scope->model->values[i];
        if (strncmp(found->name, name, length) != 0 || found->name[length] != '\0')
            continue;
        if ((found->type != KVA_COUNT && found->type != KVA_FLAG) || found->count > INT64_MAX)
            return false;
        *value = (int64_t)found->count;
        return true;
    }
    return false;
}

enum kva_status kva_build_formula(struct kva_build *build, const char *formula, int64_t layer, int64_t *value)
{
    struct kva_scope scope = {build->model, layer};
    enum kva_status status = kva_expr_eval(formula, kva_scope_lookup, &scope, value, build->error);
    if (status != KVA_OK && build->error != NULL)
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

// ---------------------------------------------------------------- finding the config

// The bytes of a config and where they came from.
struct config {
    const char *bytes;
    size_t length;
    char *owned;
    struct kva_atlas_file file;
    char path[PATH_LIMIT];
    const char *directory;
};

struct near {
    const char *name;
    char found[256];
};

// Same letters but for case, whole or after the organisation.
static bool visit_near(void *user, const char *path)
{
    struct near *near = user;
    char id[256];
    size_t length = strlen(path), tail = strlen("/config.json"), head = strlen("models/");
    if (length <= head + tail || strcmp(path + length - tail, "/config.json") != 0 || length - head - tail >= sizeof id)
        return true;
    memcpy(id, path + head, length - head - tail);
    id[length - head - tail] = '\0';
    const char *base = strrchr(id, '/') != NULL ? strrchr(id, '/') + 1 : id;
    const char *wanted = strrchr(near->name, '/') != NULL ? strrchr(near->name, '/') + 1 : near->name;
    if (strcasecmp(base, wanted) != 0)
        return true;
    snprintf(near->found, sizeof near->found, "%s", id);
    return false;
}

static enum kva_status find_config(struct kva_atlas *atlas, const char *name, struct config *config,
                                   struct kva_error *error)
{
    int length = snprintf(config->path, sizeof config->path, "%s", name);
    if (length <= 0 || (size_t)length >= sizeof config->path - sizeof "/config.json")
        return kva_fail(error, KVA_BAD_INPUT, NULL, "MODEL", "%s",
                        length == 0 ? "is empty: a config.json, a directory or a catalogue name was expected"
                                    : "is too long for a path");
    if (kva_is_directory(name)) {
        config->directory = name;
        snprintf(config->path, sizeof config->path, "%s%sconfig.json", name, name[length - 1] == '/' ? "" : "/");
        if (!kva_is_file(config->path))
            return kva_fail(error, KVA_BAD_INPUT, name, NULL, "is a directory without a config.json");
    }
    if (kva_is_file(config->path)) {
        enum kva_status status = kva_file_read(config->path, CONFIG_LIMIT, &config->owned, &config->length, error);
        config->bytes = config->owned;
        return status;
    }
    char below[PATH_LIMIT + 32];
    bool found;
    snprintf(below, sizeof below, "models/%s/config.json", name);
    enum kva_status status = kva_atlas_read(atlas, below, &config->file, &found, error);
    if (status != KVA_OK)
        return status;
    if (found) {
        snprintf(config->path, sizeof config->path, "%s", config->file.name);
        config->bytes = config->file.bytes;
        config->length = config->file.length;
        return KVA_OK;
    }
    struct near near = {.name = name};
    kva_atlas_list(atlas, "models", visit_near, &near);
    return kva_fail(error, KVA_BAD_INPUT, NULL, name,
                    "no file, no directory and no model of the catalogue is called so%s%s%s",
                    near.found[0] != '\0' ? "; did you mean " : "", near.found, near.found[0] != '\0' ? "?" : "");
}

// ---------------------------------------------------------------- open and close

static enum kva_status run(struct kva_build *build)
{
    static enum kva_status (*const steps[])(struct kva_build *) = {kva_config_architecture, kva_config_values,
                                                                   kva_rules_layers,        kva_rope_read,
                                                                   kva_config_strangers,    kva_weights_read};
    enum kva_status status = KVA_OK;
    for (size_t i = 0; i < sizeof steps / sizeof *steps && status == KVA_OK; i++)
        status = steps[i](build);
    return status;
}

enum kva_status kva_model_open(struct kva_atlas *atlas, const char *name, const struct kva_model_options *options,
                               struct kva_model **model, struct kva_error *error)
{
    *model = NULL;
    struct config config = {0};
    struct kva_build build = {.atlas = atlas, .error = error};
    enum kva_status status = find_config(atlas, name, &config, error);
    if (status != KVA_OK)
        goto out;
    status = kva_json_parse(config.bytes, config.length, config.path, true, &build.root, error);
    if (status != KVA_OK)
        goto out;
    build.arena = kva_arena_new();
    if (build.arena != NULL)
        build.model = kva_arena_alloc(build.arena, 1, sizeof *build.model);
    if (build.model == NULL) {
        status = kva_fail_memory(error, sizeof *build.model);
        goto out;
    }
    build.model->arena = build.arena;
    build.model->id = kva_arena_strdup(build.arena, name);
    build.model->source = build.file = kva_arena_strdup(build.arena, config.path);
    build.directory = config.directory;
    if (options != NULL)
        build.options = *options;
    status = build.model->id != NULL && build.file != NULL ? run(&build) : kva_fail_memory(error, sizeof config.path);
out:
    json_decref(build.root);
    json_decref(build.defaults);
    free(config.owned);
    if (status == KVA_OK)
        *model = build.model;
    else {
        if (error != NULL) {
            make_printable(error->file);
            make_printable(error->key);
            make_printable(error->text);
        }
        kva_arena_free(build.arena);
    }
    kva_atlas_file_free(&config.file);
    return status;
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
