// A saved plan in place of a fresh one: a CI job pins the numbers that it has published and learns when they drift.
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "verify/verify.h"

struct reader {
    const char *path;
    struct kva_error *error;
    enum kva_status status;
};

static uint64_t count(struct reader *reader, const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (json_is_integer(value) && json_integer_value(value) >= 0)
        return (uint64_t)json_integer_value(value);
    if (reader->status == KVA_OK)
        reader->status = kva_fail(reader->error, KVA_BAD_INPUT, reader->path, key, "a count was expected");
    return 0;
}

static const char *engine_of(const json_t *plan)
{
    return json_string_value(json_object_get(json_object_get(plan, "engine"), "id"));
}

// The plan number `index` of a document that holds one or several; NULL: there is none.
static const json_t *plan_at(const json_t *root, size_t index)
{
    const char *schema = json_string_value(json_object_get(root, "schema"));
    if (schema != NULL && strcmp(schema, "kvatlas/plan/1") == 0)
        return index == 0 ? root : NULL;
    if (schema != NULL && strcmp(schema, "kvatlas/plans/1") == 0)
        return json_array_get(json_object_get(root, "plans"), index);
    return NULL;
}

static enum kva_status load(const char *path, json_t **root, struct kva_error *error)
{
    json_error_t where;
    *root = json_load_file(path, JSON_REJECT_DUPLICATES, &where);
    if (*root == NULL) {
        const enum kva_status status = kva_fail(error, KVA_BAD_INPUT, path, NULL, "%s", where.text);
        if (error != NULL && where.line > 0)
            error->line = where.line;
        return status;
    }
    if (plan_at(*root, 0) != NULL)
        return KVA_OK;
    json_decref(*root);
    *root = NULL;
    return kva_fail(error, KVA_BAD_INPUT, path, "schema", "\"kvatlas/plan/1\" or \"kvatlas/plans/1\" was expected");
}

static enum kva_status check_same(const struct reader *reader, const json_t *root, const struct kva_plan *plan)
{
    const json_t *deployment = json_object_get(root, "deployment");
    const char *type = json_string_value(json_object_get(json_object_get(root, "model"), "model_type"));
    const char *dtype = json_string_value(json_object_get(deployment, "kv_dtype"));
    const json_int_t context = json_integer_value(json_object_get(deployment, "context"));
    const json_int_t sequences = json_integer_value(json_object_get(deployment, "sequences"));
    if (type == NULL || strcmp(type, plan->model->model_type) != 0)
        return kva_fail(reader->error, KVA_BAD_INPUT, reader->path, "model.model_type",
                        "is \"%s\", the run's is \"%s\"", type != NULL ? type : "", plan->model->model_type);
    if (dtype == NULL || strcmp(dtype, kva_dtype_name(plan->deployment.kv_dtype)) != 0)
        return kva_fail(reader->error, KVA_BAD_INPUT, reader->path, "deployment.kv_dtype",
                        "is \"%s\", the run's is \"%s\"", dtype != NULL ? dtype : "",
                        kva_dtype_name(plan->deployment.kv_dtype));
    if (context != (json_int_t)plan->deployment.context || sequences != (json_int_t)plan->deployment.sequences)
        return kva_fail(reader->error, KVA_BAD_INPUT, reader->path, "deployment",
                        "is for %lld x %lld tokens (sequences x context), the run is %" PRIu64 " x %" PRIu64,
                        (long long)sequences, (long long)context, plan->deployment.sequences, plan->deployment.context);
    return KVA_OK;
}

enum kva_status kva_plan_file_read(const char *path, char engines[][32], size_t room, size_t *n, uint64_t *context,
                                   uint64_t *sequences, struct kva_error *error)
{
    json_t *root;
    enum kva_status status = load(path, &root, error);
    if (status != KVA_OK)
        return status;
    const json_t *plan;
    for (*n = 0; *n < room && (plan = plan_at(root, *n)) != NULL; ++*n)
        snprintf(engines[*n], sizeof engines[*n], "%s", engine_of(plan) != NULL ? engine_of(plan) : "");
    const json_t *deployment = json_object_get(plan_at(root, 0), "deployment");
    const json_int_t tokens = json_integer_value(json_object_get(deployment, "context"));
    const json_int_t count = json_integer_value(json_object_get(deployment, "sequences"));
    *context = tokens > 0 ? (uint64_t)tokens : 0;
    *sequences = count > 0 ? (uint64_t)count : 0;
    json_decref(root);
    return KVA_OK;
}

enum kva_status kva_plan_overlay(const char *path, struct kva_plan *plan, struct kva_error *error)
{
    json_t *file;
    struct reader reader = {.path = path, .error = error};
    reader.status = load(path, &file, error);
    if (reader.status != KVA_OK)
        return reader.status;
    const json_t *root = NULL;
    for (size_t i = 0; (root = plan_at(file, i)) != NULL; i++)
        if (engine_of(root) != NULL && strcmp(engine_of(root), plan->deployment.engine) == 0)
            break;
    reader.status = root != NULL ? check_same(&reader, root, plan)
                                 : kva_fail(error, KVA_BAD_INPUT, path, "engine.id", "no plan here is for \"%s\"",
                                            plan->deployment.engine);
    const json_t *layers = json_object_get(root, "layers"), *bytes = json_object_get(root, "bytes");
    if (reader.status == KVA_OK && json_array_size(layers) != plan->n_layers)
        reader.status = kva_fail(error, KVA_BAD_INPUT, path, "layers", "has %zu entries, the model has %zu layers",
                                 json_array_size(layers), plan->n_layers);
    for (size_t i = 0; i < plan->n_layers && reader.status == KVA_OK; i++) {
        plan->layers[i].allocated = count(&reader, json_array_get(layers, i), "allocated");
        plan->layers[i].need = count(&reader, json_array_get(layers, i), "need");
    }
    if (reader.status == KVA_OK) {
        plan->allocated = count(&reader, bytes, "allocated");
        plan->need = count(&reader, bytes, "need");
        plan->naive = count(&reader, bytes, "naive");
    }
    json_decref(file);
    return reader.status;
}
