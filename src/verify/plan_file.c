// A saved plan in place of a fresh one: a CI job pins the numbers that it has published and learns when they drift.
#include <inttypes.h>
#include <jansson.h>
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

static enum kva_status check_same(const struct reader *reader, const json_t *root, const struct kva_plan *plan)
{
    const json_t *deployment = json_object_get(root, "deployment");
    const char *schema = json_string_value(json_object_get(root, "schema"));
    const char *engine = json_string_value(json_object_get(json_object_get(root, "engine"), "id"));
    const char *type = json_string_value(json_object_get(json_object_get(root, "model"), "model_type"));
    if (schema == NULL || strcmp(schema, "kvatlas/plan/1") != 0)
        return kva_fail(reader->error, KVA_BAD_INPUT, reader->path, "schema", "\"kvatlas/plan/1\" was expected");
    if (engine == NULL || strcmp(engine, plan->deployment.engine) != 0)
        return kva_fail(reader->error, KVA_BAD_INPUT, reader->path, "engine.id", "the run's policy is \"%s\"",
                        plan->deployment.engine);
    if (type == NULL || strcmp(type, plan->model->model_type) != 0)
        return kva_fail(reader->error, KVA_BAD_INPUT, reader->path, "model.model_type", "the run's model is \"%s\"",
                        plan->model->model_type);
    if (json_integer_value(json_object_get(deployment, "context")) != (json_int_t)plan->deployment.context ||
        json_integer_value(json_object_get(deployment, "sequences")) != (json_int_t)plan->deployment.sequences)
        return kva_fail(reader->error, KVA_BAD_INPUT, reader->path, "deployment",
                        "the run has %" PRIu64 " sequences of %" PRIu64 " tokens", plan->deployment.sequences,
                        plan->deployment.context);
    return KVA_OK;
}

enum kva_status kva_plan_overlay(const char *path, struct kva_plan *plan, struct kva_error *error)
{
    json_error_t where;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &where);
    if (root == NULL) {
        const enum kva_status status = kva_fail(error, KVA_BAD_INPUT, path, NULL, "%s", where.text);
        if (error != NULL)
            error->line = where.line;
        return status;
    }
    struct reader reader = {.path = path, .error = error};
    reader.status = check_same(&reader, root, plan);
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
    json_decref(root);
    return reader.status;
}
