// plan as JSON: the keys of docs/json.md and a few more.
#include "report/plan_json.h"

#include "report/decode.h"
#include "report/parts_json.h"
#include "report/words.h"

// What was said and what was filled in; a field of which nothing is known is left out.
static void emit_deployment(struct kva_emit *emit, const struct kva_deployment *deployment)
{
    kva_emit_open(emit, "deployment", '{');
    kva_emit_text(emit, "engine", deployment->engine);
    kva_emit_dtype(emit, "kv_dtype", deployment->kv_dtype);
    for (size_t f = 0; f < kva_n_deployment_flags(); f++) {
        struct kva_quantity value;
        if (!kva_deployment_get(deployment, f, &value))
            continue;
        if (value.type == KVA_QUANTITY_COUNT)
            kva_emit_count(emit, value.name, value.count);
        else if (value.type == KVA_QUANTITY_REAL)
            kva_emit_real(emit, value.name, value.real);
        else
            kva_emit_text(emit, value.name, value.text);
    }
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
    kva_emit_count(emit, "unassigned", plan->unassigned);
    kva_emit_count(emit, "outside", plan->outside);
    kva_emit_count(emit, "peak", plan->peak > plan->allocated ? plan->peak : plan->allocated);
    kva_emit_close(emit, '}');
    kva_emit_open(emit, "total", '{');
    kva_emit_count(emit, "ranks", plan->ranks);
    kva_emit_count(emit, "need", plan->total_need);
    kva_emit_count(emit, "allocated", plan->total_allocated);
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
        kva_emit_count(emit, "logical", layer->logical);
        kva_emit_count(emit, "stage", layer->stage);
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

// What only a budget decides: nothing is known of it without one.
static void emit_capacity(struct kva_emit *emit, const struct kva_plan *plan)
{
    const struct kva_capacity *capacity = &plan->capacity;
    kva_emit_open(emit, "capacity", '{');
    const uint64_t budget = plan->deployment.kv_short > 0 ? 0 : capacity->budget;
    kva_emit_count(emit, "kv_budget_bytes", capacity->known ? budget : KVA_UNKNOWN);
    kva_emit_text(emit, "budget_basis", !capacity->known ? NULL : capacity->estimated ? "allowances" : "given");
    kva_emit_count(emit, "missing_bytes", plan->deployment.kv_short);
    kva_emit_count(emit, "reserved_bytes", capacity->known ? capacity->reserved : KVA_UNKNOWN);
    kva_emit_count(emit, "tokens", capacity->known ? capacity->tokens : KVA_UNKNOWN);
    kva_emit_count(emit, "sequences_at_context", capacity->known ? capacity->sequences_at_context : KVA_UNKNOWN);
    kva_emit_count(emit, "max_context", capacity->known ? capacity->max_context : KVA_UNKNOWN);
    if (capacity->known)
        kva_emit_flag(emit, "fits", capacity->fits);
    else
        kva_emit_null(emit, "fits");
    kva_emit_text(emit, "refusal", capacity->refusal);
    kva_emit_close(emit, '}');
}

static void emit_prints(struct kva_emit *emit, const struct kva_plan *plan)
{
    kva_emit_open(emit, "prints", '[');
    for (size_t p = 0; p < plan->n_prints; p++)
        kva_emit_text(emit, NULL, plan->prints[p].text);
    kva_emit_close(emit, ']');
}

static void emit_plan(struct kva_emit *emit, const struct kva_plan *plan)
{
    kva_emit_open(emit, NULL, '{');
    kva_emit_text(emit, "schema", "kvatlas/plan/1");
    kva_emit_model(emit, plan->model);
    kva_emit_engine(emit, plan, true);
    emit_deployment(emit, &plan->deployment);
    kva_emit_texts(emit, "assumed", plan->assumed, plan->n_assumed);
    emit_bytes(emit, plan);
    kva_emit_real(emit, "overpay_ratio", plan->overpay_ratio);
    kva_emit_text(emit, "overpay_why", plan->overpay_why);
    kva_emit_count(emit, "bytes_per_token", plan->bytes_per_token);
    kva_emit_count(emit, "naive_bytes_per_token", plan->naive_bytes_per_token);
    emit_layers(emit, plan);
    emit_pools(emit, plan);
    emit_capacity(emit, plan);
    emit_prints(emit, plan);
    kva_emit_decode(emit, plan->decode);
    kva_emit_texts(emit, "gates", NULL, 0);
    kva_emit_texts(emit, "references", plan->model->references, plan->model->n_references);
    kva_emit_texts(emit, "warnings", plan->model->warnings, plan->model->n_warnings);
    kva_emit_close(emit, '}');
}

void kva_plans_json(const struct kva_plan_set *set, bool compact, struct kva_text *out)
{
    struct kva_emit emit = {.out = out, .compact = compact};
    if (set->n_plans == 1 && set->n_refusals == 0)
        emit_plan(&emit, set->plans[0]);
    else {
        kva_emit_open(&emit, NULL, '{');
        kva_emit_text(&emit, "schema", "kvatlas/plans/1");
        kva_emit_open(&emit, "plans", '[');
        for (size_t p = 0; p < set->n_plans; p++)
            emit_plan(&emit, set->plans[p]);
        kva_emit_close(&emit, ']');
        kva_emit_refused(&emit, set->refusals, set->n_refusals);
        kva_emit_close(&emit, '}');
    }
    kva_text_add(out, "\n", 1);
}
