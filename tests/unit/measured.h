// Tables of what real releases of an engine held: JSON lines of {"id", "config"}, then one line a run.
#ifndef TEST_MEASURED_H
#define TEST_MEASURED_H

#include <string.h>

#include "jsonl.h"
#include "unit.h"

enum { MEASURED_MODELS = 128 };

struct measured {
    FILE *file;
    struct kva_atlas *atlas;
    struct kva_model *models[MEASURED_MODELS];
    size_t n_models;
};

static inline void measured_open(struct measured *measured, const char *path)
{
    measured->n_models = 0;
    ck_assert_int_eq(kva_atlas_open(NULL, &measured->atlas, NULL), KVA_OK);
    measured->file = jsonl_open(path);
}

static inline void measured_close(struct measured *measured)
{
    for (size_t m = 0; m < measured->n_models; m++)
        kva_model_close(measured->models[m]);
    fclose(measured->file);
    kva_atlas_close(measured->atlas);
}

// The next run, or NULL; models on the way are read. The caller lets go of it.
static inline json_t *measured_next(struct measured *measured)
{
    for (json_t *row; (row = jsonl_next(measured->file)) != NULL; json_decref(row)) {
        if (json_object_get(row, "config") == NULL)
            return row;
        struct kva_error error = {0};
        char text[1024], *line = json_dumps(row, 0);
        ck_assert_ptr_nonnull(line);
        ck_assert_uint_lt(measured->n_models, MEASURED_MODELS);
        enum kva_status status = kva_model_from_json(measured->atlas, line, strlen(line), "measured", NULL,
                                                     &measured->models[measured->n_models], &error);
        ck_assert_msg(status == KVA_OK, "%s", kva_error_line(&error, text, sizeof text));
        free(line);
        measured->n_models++;
        if (json_object_get(row, "after_prefill") != NULL)
            return row;
    }
    return NULL;
}

static inline const struct kva_model *measured_model(const struct measured *measured, const char *id)
{
    for (size_t m = 0; m < measured->n_models; m++)
        if (strcmp(measured->models[m]->id, id) == 0)
            return measured->models[m];
    ck_abort_msg("no config of %s", id);
    return NULL;
}

static inline uint64_t measured_count(const json_t *row, const char *key, uint64_t otherwise)
{
    const json_t *value = json_object_get(row, key);
    return json_is_integer(value) ? (uint64_t)json_integer_value(value) : otherwise;
}

static inline const char *measured_text(const json_t *row, const char *key)
{
    return json_string_value(json_object_get(row, key));
}

// The engine's growing caches say no to what nobody measured.
static inline void measured_refused(struct kva_atlas *atlas, const struct kva_model *model,
                                    struct kva_deployment deployment, enum kva_status want)
{
    struct kva_plan *plan;
    struct kva_error error = {0};
    ck_assert_int_eq(kva_plan_make(atlas, model, &deployment, &plan, &error), want);
    ck_assert_str_ne(error.text, "");
}

// The layers that hold anything, in order: their bytes are those of `list` that are not 0. logical: what the engine
// calls their size.
static inline void measured_layers(const struct kva_plan *plan, const json_t *list, bool logical, const char *name)
{
    size_t at = 0;
    for (size_t i = 0; i < plan->n_layers; i++) {
        const uint64_t bytes = logical ? plan->layers[i].logical : plan->layers[i].allocated;
        if (bytes == 0)
            continue;
        while (at < json_array_size(list) && json_integer_value(json_array_get(list, at)) == 0)
            at++;
        const json_int_t want = json_integer_value(json_array_get(list, at));
        ck_assert_msg((json_int_t)bytes == want, "%s, layer %zu: %llu bytes, measured %lld", name, i,
                      (unsigned long long)bytes, (long long)want);
        at++;
    }
    while (at < json_array_size(list) && json_integer_value(json_array_get(list, at)) == 0)
        at++;
    ck_assert_msg(at == json_array_size(list), "%s: %zu of %zu layers", name, at, json_array_size(list));
}

#endif
