// fit as JSON: {"schema": "kvatlas/fit/1", ...}.
#include "report/fit_json.h"

#include "report/decode.h"
#include "report/parts_json.h"

// Of one rank. What nobody said and no engine asked for is null.
static void emit_memory(struct kva_emit *emit, const struct kva_deployment *deployment)
{
    kva_emit_open(emit, "memory", '{');
    kva_emit_known(emit, "gpu_bytes", deployment->gpu_bytes);
    kva_emit_figure(emit, "memory_fraction", deployment->memory_fraction);
    kva_emit_known(emit, "weight_bytes", deployment->weight_bytes);
    kva_emit_known(emit, "activation_bytes", deployment->activation_bytes);
    kva_emit_known(emit, "graph_bytes", deployment->graph_bytes);
    kva_emit_known(emit, "other_bytes", deployment->other_bytes);
    kva_emit_close(emit, '}');
}

static void emit_capacity(struct kva_emit *emit, const struct kva_fit *fit)
{
    const struct kva_capacity *capacity = &fit->plan->capacity;
    kva_emit_open(emit, "capacity", '{');
    kva_emit_count(emit, "kv_budget_bytes", fit->weights_too_large ? 0 : capacity->budget);
    kva_emit_count(emit, "reserved_bytes", capacity->reserved);
    kva_emit_count(emit, "tokens", capacity->tokens);
    kva_emit_count(emit, "max_context", fit->max_context);
    kva_emit_flag(emit, "limited_by_model", fit->limited_by_model);
    kva_emit_count(emit, "max_sequences", fit->max_sequences);
    kva_emit_text(emit, "refusal", capacity->refusal);
    kva_emit_close(emit, '}');
}

static void emit_knobs(struct kva_emit *emit, const struct kva_fit *fit)
{
    kva_emit_open(emit, "knobs", '[');
    for (size_t k = 0; k < fit->n_knobs; k++) {
        const struct kva_fit_knob *knob = &fit->knobs[k];
        kva_emit_open(emit, NULL, '{');
        kva_emit_text(emit, "flag", knob->flag);
        kva_emit_text(emit, "value", knob->value);
        kva_emit_text(emit, "now", *knob->now != '\0' ? knob->now : NULL);
        kva_emit_text(emit, "cost", knob->cost);
        kva_emit_close(emit, '}');
    }
    kva_emit_close(emit, ']');
}

static void emit_sweep(struct kva_emit *emit, const struct kva_fit *fit)
{
    kva_emit_open(emit, "sweep", '[');
    for (size_t p = 0; p < fit->n_points; p++) {
        const struct kva_fit_point *point = &fit->points[p];
        kva_emit_open(emit, NULL, '{');
        kva_emit_count(emit, "context", point->context);
        kva_emit_flag(emit, "fits", point->fits);
        kva_emit_count(emit, "need", point->planned ? point->need : KVA_UNKNOWN);
        kva_emit_count(emit, "allocated", point->planned ? point->allocated : KVA_UNKNOWN);
        kva_emit_count(emit, "kv_budget_bytes", point->planned ? point->budget : KVA_UNKNOWN);
        kva_emit_count(emit, "max_sequences", point->planned ? point->max_sequences : KVA_UNKNOWN);
        kva_emit_text(emit, "refusal", point->refusal);
        kva_emit_close(emit, '}');
    }
    kva_emit_close(emit, ']');
}

static void emit_fit(struct kva_emit *emit, const struct kva_fit *fit)
{
    const struct kva_plan *plan = fit->plan;
    kva_emit_open(emit, NULL, '{');
    kva_emit_text(emit, "schema", "kvatlas/fit/1");
    kva_emit_model(emit, plan->model);
    kva_emit_engine(emit, plan, false);
    if (plan->deployment.gpu_facts != NULL)
        kva_emit_gpu(emit, "gpu", plan->deployment.gpu_facts);
    else
        kva_emit_null(emit, "gpu");
    kva_emit_flag(emit, "fits", fit->fits);
    kva_emit_count(emit, "context", plan->deployment.context);
    kva_emit_count(emit, "sequences", plan->deployment.sequences);
    kva_emit_text(emit, "kv_type", plan->deployment.kv_type);
    kva_emit_count(emit, "ranks", plan->ranks);
    emit_memory(emit, &plan->deployment);
    kva_emit_open(emit, "bytes", '{');
    kva_emit_count(emit, "need", plan->need);
    kva_emit_count(emit, "allocated", plan->allocated);
    kva_emit_count(emit, "overpay", plan->overpay);
    kva_emit_close(emit, '}');
    kva_emit_text(emit, "overpay_why", *plan->overpay_why != '\0' ? plan->overpay_why : NULL);
    emit_capacity(emit, fit);
    emit_knobs(emit, fit);
    emit_sweep(emit, fit);
    kva_emit_decode(emit, plan->decode);
    kva_emit_texts(emit, "assumed", plan->assumed, plan->n_assumed);
    kva_emit_texts(emit, "warnings", plan->model->warnings, plan->model->n_warnings);
    kva_emit_close(emit, '}');
}

void kva_fits_json(const struct kva_fit_set *set, struct kva_text *out)
{
    struct kva_emit emit = {.out = out};
    if (set->n_fits == 1 && set->n_refusals == 0)
        emit_fit(&emit, set->fits[0]);
    else {
        kva_emit_open(&emit, NULL, '{');
        kva_emit_text(&emit, "schema", "kvatlas/fits/1");
        kva_emit_open(&emit, "fits", '[');
        for (size_t f = 0; f < set->n_fits; f++)
            emit_fit(&emit, set->fits[f]);
        kva_emit_close(&emit, ']');
        kva_emit_refused(&emit, set->refusals, set->n_refusals);
        kva_emit_close(&emit, '}');
    }
    kva_text_add(out, "\n", 1);
}
