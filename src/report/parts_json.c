#include "report/parts_json.h"

void kva_emit_model(struct kva_emit *emit, const struct kva_model *model)
{
    kva_emit_open(emit, "model", '{');
    kva_emit_text(emit, "id", model->id);
    kva_emit_text(emit, "source", model->source);
    kva_emit_text(emit, "model_type", model->model_type);
    kva_emit_text(emit, "architecture", model->architecture);
    kva_emit_text(emit, "family", model->family);
    kva_emit_known(emit, "context_limit", model->context_limit);
    kva_emit_dtype(emit, "dtype", model->dtype);
    kva_emit_count(emit, "parameters", model->parameters);
    kva_emit_count(emit, "weight_bytes", model->weight_bytes);
    kva_emit_text(emit, "weight_source", model->weight_source);
    kva_emit_close(emit, '}');
}

void kva_emit_engine(struct kva_emit *emit, const struct kva_plan *plan, bool references)
{
    kva_emit_open(emit, "engine", '{');
    kva_emit_text(emit, "id", plan->deployment.engine);
    kva_emit_text(emit, "name", plan->engine_name);
    kva_emit_text(emit, "version", *plan->engine_version != '\0' ? plan->engine_version : NULL);
    if (references)
        kva_emit_texts(emit, "references", plan->engine_references, plan->n_engine_references);
    kva_emit_close(emit, '}');
}

void kva_emit_refused(struct kva_emit *emit, const struct kva_refusal *refusals, size_t n)
{
    kva_emit_open(emit, "refused", '[');
    for (size_t r = 0; r < n; r++) {
        char line[1024];
        kva_emit_open(emit, NULL, '{');
        kva_emit_text(emit, "engine", refusals[r].engine);
        kva_emit_count(emit, "status", (uint64_t)refusals[r].error.status);
        kva_emit_text(emit, "error", kva_error_line(&refusals[r].error, line, sizeof line));
        kva_emit_close(emit, '}');
    }
    kva_emit_close(emit, ']');
}
