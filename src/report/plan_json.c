// plan as JSON: the keys of design.md, section 5, and a few more.
#include "report/plan_json.h"

#include "report/words.h"

static json_t *engine_json(const struct kva_plan *plan, bool *failed)
{
    json_t *object = json_object();
    const char *version = plan->engine_version;
    kva_json_set(object, "id", kva_json_text(plan->deployment.engine), failed);
    kva_json_set(object, "version", kva_json_text(version != NULL && *version != '\0' ? version : NULL), failed);
    return object;
}

static json_t *deployment_json(const struct kva_deployment *deployment, bool *failed)
{
    json_t *object = json_object();
    kva_json_set(object, "engine", kva_json_text(deployment->engine), failed);
    kva_json_set(object, "context", kva_json_count(deployment->context), failed);
    kva_json_set(object, "sequences", kva_json_count(deployment->sequences), failed);
    kva_json_set(object, "kv_dtype", kva_json_dtype(deployment->kv_dtype), failed);
    kva_json_set(object, "model_dtype", kva_json_dtype(deployment->model_dtype), failed);
    return object;
}

static json_t *bytes_json(const struct kva_plan *plan, bool *failed)
{
    json_t *object = json_object();
    kva_json_set(object, "naive", kva_json_count(plan->naive), failed);
    kva_json_set(object, "need", kva_json_count(plan->need), failed);
    kva_json_set(object, "allocated", kva_json_count(plan->allocated), failed);
    kva_json_set(object, "overpay", kva_json_count(plan->overpay), failed);
    kva_json_set(object, "sharing_saved", kva_json_count(plan->sharing_saved), failed);
    kva_json_set(object, "state", kva_json_count(plan->state), failed);
    return object;
}

static json_t *layers_json(const struct kva_plan *plan, bool *failed)
{
    json_t *array = json_array();
    for (size_t i = 0; i < plan->n_layers; i++) {
        const struct kva_layer_plan *layer = &plan->layers[i];
        json_t *object = json_object();
        kva_json_set(object, "index", json_integer(layer->index), failed);
        kva_json_set(object, "kind", kva_json_text(plan->model->layers[i].kind), failed);
        kva_json_set(object, "need", kva_json_count(layer->need), failed);
        kva_json_set(object, "allocated", kva_json_count(layer->allocated), failed);
        kva_json_set(object, "overpay", kva_json_count(kva_layer_overpay(layer)), failed);
        kva_json_set(object, "sharing_saved", kva_json_count(layer->sharing_saved), failed);
        kva_json_set(object, "state", kva_json_count(layer->state), failed);
        kva_json_set(object, "rows", kva_json_count(layer->rows), failed);
        kva_json_set(object, "reads_layer", kva_json_layer(layer->reads_layer), failed);
        kva_json_append(array, object, failed);
    }
    return array;
}

static json_t *pools_json(const struct kva_plan *plan, bool *failed)
{
    json_t *array = json_array();
    for (size_t p = 0; p < plan->n_pools; p++) {
        const struct kva_pool *pool = &plan->pools[p];
        json_t *object = json_object(), *layers = json_array();
        for (size_t i = 0; i < pool->n_layers; i++)
            kva_json_append(layers, json_integer(pool->layers[i]), failed);
        kva_json_set(object, "name", kva_json_text(pool->name), failed);
        kva_json_set(object, "layers", layers, failed);
        kva_json_set(object, "block_tokens", kva_json_count(pool->block_tokens), failed);
        kva_json_set(object, "page_bytes", kva_json_count(pool->page_bytes), failed);
        kva_json_set(object, "blocks", kva_json_count(pool->blocks), failed);
        kva_json_set(object, "bytes", kva_json_count(pool->bytes), failed);
        kva_json_append(array, object, failed);
    }
    return array;
}

// What only a GPU's memory decides: nothing is known of it without one.
static json_t *capacity_json(bool *failed)
{
    static const char *const KEYS[] = {"kv_budget_bytes", "tokens", "sequences_at_context", "max_context"};
    json_t *object = json_object();
    for (size_t k = 0; k < sizeof KEYS / sizeof *KEYS; k++)
        kva_json_set(object, KEYS[k], json_null(), failed);
    return object;
}

static json_t *plan_json(const struct kva_plan *plan, bool *failed)
{
    json_t *object = json_object();
    kva_json_set(object, "schema", kva_json_text("kvatlas/plan/1"), failed);
    kva_json_set(object, "model", kva_json_model(plan->model), failed);
    kva_json_set(object, "engine", engine_json(plan, failed), failed);
    kva_json_set(object, "deployment", deployment_json(&plan->deployment, failed), failed);
    kva_json_set(object, "assumed", kva_json_texts(plan->assumed, plan->n_assumed), failed);
    kva_json_set(object, "bytes", bytes_json(plan, failed), failed);
    kva_json_set(object, "overpay_ratio", json_real(plan->overpay_ratio), failed);
    kva_json_set(object, "bytes_per_token", kva_json_count(plan->bytes_per_token), failed);
    kva_json_set(object, "naive_bytes_per_token", kva_json_count(plan->naive_bytes_per_token), failed);
    kva_json_set(object, "layers", layers_json(plan, failed), failed);
    kva_json_set(object, "pools", pools_json(plan, failed), failed);
    kva_json_set(object, "capacity", capacity_json(failed), failed);
    kva_json_set(object, "prints", json_array(), failed);
    kva_json_set(object, "gates", json_array(), failed);
    kva_json_set(object, "references", kva_json_texts(plan->model->references, plan->model->n_references), failed);
    kva_json_set(object, "warnings", kva_json_texts(plan->model->warnings, plan->model->n_warnings), failed);
    return object;
}

json_t *kva_plans_json(struct kva_plan *const *plans, size_t n_plans)
{
    bool failed = false;
    json_t *object;
    if (n_plans == 1)
        object = plan_json(plans[0], &failed);
    else {
        json_t *array = json_array();
        for (size_t p = 0; p < n_plans; p++)
            kva_json_append(array, plan_json(plans[p], &failed), &failed);
        object = json_object();
        kva_json_set(object, "schema", kva_json_text("kvatlas/plans/1"), &failed);
        kva_json_set(object, "plans", array, &failed);
    }
    if (!failed)
        return object;
    json_decref(object);
    return NULL;
}
