// plan as JSON: the keys of docs/json.md and a few more.
#include "report/plan_json.h"

#include "report/words.h"

static void emit_model(struct kva_emit *emit, const struct kva_model *model)
{
    kva_emit_open(emit, "model", '{');
    kva_emit_text(emit, "id", model->id);
    kva_emit_text(emit, "source", model->source);
    kva_emit_text(emit, "model_type", model->model_type);
    kva_emit_text(emit, "architecture", model->architecture);
    kva_emit_text(emit, "family", model->family);
    kva_emit_count(emit, "context_limit", model->context_limit > 0 ? model->context_limit : KVA_UNKNOWN);
    kva_emit_dtype(emit, "dtype", model->dtype);
    kva_emit_count(emit, "parameters", model->parameters);
    kva_emit_count(emit, "weight_bytes", model->weight_bytes);
    kva_emit_text(emit, "weight_source", model->weight_source);
    kva_emit_close(emit, '}');
}

static void emit_engine(struct kva_emit *emit, const struct kva_plan *plan)
{
    const char *version = plan->engine_version;
    kva_emit_open(emit, "engine", '{');
    kva_emit_text(emit, "id", plan->deployment.engine);
    kva_emit_text(emit, "version", version != NULL && *version != '\0' ? version : NULL);
    kva_emit_close(emit, '}');
}

static void emit_deployment(struct kva_emit *emit, const struct kva_deployment *deployment)
{
    kva_emit_open(emit, "deployment", '{');
    kva_emit_text(emit, "engine", deployment->engine);
    kva_emit_count(emit, "context", deployment->context);
    kva_emit_count(emit, "sequences", deployment->sequences);
    kva_emit_dtype(emit, "kv_dtype", deployment->kv_dtype);
    kva_emit_dtype(emit, "model_dtype", deployment->model_dtype);
    if (deployment->encoder_context > 0)
        kva_emit_count(emit, "encoder_context", deployment->encoder_context);
    kva_emit_close(emit, '}');
}

static void emit_bytes(struct kva_emit *emit, const struct kva_plan *plan)
{
    kva_emit_open(emit, "bytes", '{');
    kva_emit_count(emit, "naive", plan->naive);
    kva_emit_count(emit, "need", plan->need);
    kva_emit_count(emit, "allocated", plan->allocated);
    kva_emit_count(emit, "overpay", plan->overpay);
    kva_emit_count(emit, "sharing_saved", plan->sharing_saved);
    kva_emit_count(emit, "state", plan->state);
    kva_emit_close(emit, '}');
}

static void emit_layers(struct kva_emit *emit, const struct kva_plan *plan)
{
    kva_emit_open(emit, "layers", '[');
    for (size_t i = 0; i < plan->n_layers; i++) {
        const struct kva_layer_plan *layer = &plan->layers[i];
        kva_emit_open(emit, NULL, '{');
        kva_emit_count(emit, "index", layer->index);
        kva_emit_text(emit, "kind", plan->model->layers[i].kind);
        kva_emit_count(emit, "need", layer->need);
        kva_emit_count(emit, "allocated", layer->allocated);
        kva_emit_count(emit, "overpay", kva_layer_overpay(layer));
        kva_emit_count(emit, "sharing_saved", layer->sharing_saved);
        kva_emit_count(emit, "state", layer->state);
        kva_emit_count(emit, "rows", layer->rows);
        kva_emit_layer(emit, "reads_layer", layer->reads_layer);
        kva_emit_close(emit, '}');
    }
    kva_emit_close(emit, ']');
}

static void emit_pools(struct kva_emit *emit, const struct kva_plan *plan)
{
    kva_emit_open(emit, "pools", '[');
    for (size_t p = 0; p < plan->n_pools; p++) {
        const struct kva_pool *pool = &plan->pools[p];
        kva_emit_open(emit, NULL, '{');
        kva_emit_text(emit, "name", pool->name);
        kva_emit_open(emit, "layers", '[');
        for (size_t i = 0; i < pool->n_layers; i++)
            kva_emit_count(emit, NULL, pool->layers[i]);
        kva_emit_close(emit, ']');
        kva_emit_count(emit, "block_tokens", pool->block_tokens);
        kva_emit_count(emit, "page_bytes", pool->page_bytes);
        kva_emit_count(emit, "blocks", pool->blocks);
        kva_emit_count(emit, "bytes", pool->bytes);
        kva_emit_close(emit, '}');
    }
    kva_emit_close(emit, ']');
}

// What only a GPU's memory decides: nothing is known of it without one.
static void emit_capacity(struct kva_emit *emit)
{
    static const char *const KEYS[] = {"kv_budget_bytes", "tokens", "sequences_at_context", "max_context"};
    kva_emit_open(emit, "capacity", '{');
    for (size_t k = 0; k < sizeof KEYS / sizeof *KEYS; k++)
        kva_emit_null(emit, KEYS[k]);
    kva_emit_close(emit, '}');
}

static void emit_plan(struct kva_emit *emit, const struct kva_plan *plan)
{
    kva_emit_open(emit, NULL, '{');
    kva_emit_text(emit, "schema", "kvatlas/plan/1");
    emit_model(emit, plan->model);
    emit_engine(emit, plan);
    emit_deployment(emit, &plan->deployment);
    kva_emit_texts(emit, "assumed", plan->assumed, plan->n_assumed);
    emit_bytes(emit, plan);
    kva_emit_real(emit, "overpay_ratio", plan->overpay_ratio);
    kva_emit_count(emit, "bytes_per_token", plan->bytes_per_token);
    kva_emit_count(emit, "naive_bytes_per_token", plan->naive_bytes_per_token);
    emit_layers(emit, plan);
    emit_pools(emit, plan);
    emit_capacity(emit);
    kva_emit_texts(emit, "prints", NULL, 0);
    kva_emit_texts(emit, "gates", NULL, 0);
    kva_emit_texts(emit, "references", plan->model->references, plan->model->n_references);
    kva_emit_texts(emit, "warnings", plan->model->warnings, plan->model->n_warnings);
    kva_emit_close(emit, '}');
}

void kva_plans_json(struct kva_plan *const *plans, size_t n_plans, bool compact, struct kva_text *out)
{
    struct kva_emit emit = {.out = out, .compact = compact};
    if (n_plans == 1)
        emit_plan(&emit, plans[0]);
    else {
        kva_emit_open(&emit, NULL, '{');
        kva_emit_text(&emit, "schema", "kvatlas/plans/1");
        kva_emit_open(&emit, "plans", '[');
        for (size_t p = 0; p < n_plans; p++)
            emit_plan(&emit, plans[p]);
        kva_emit_close(&emit, ']');
        kva_emit_close(&emit, '}');
    }
    kva_text_add(out, "\n", 1);
}
