// What several documents hold alike, as JSON: the model, the engine, who refused.
#ifndef KVA_REPORT_PARTS_JSON_H
#define KVA_REPORT_PARTS_JSON_H

#include "report/emit.h"
#include "report/report.h"

// "model": {...}
void kva_emit_model(struct kva_emit *emit, const struct kva_model *model);
// "engine": {...}; references: with those that its behaviours were read in.
void kva_emit_engine(struct kva_emit *emit, const struct kva_plan *plan, bool references);
// "refused": [{"engine", "status", "error"}]
void kva_emit_refused(struct kva_emit *emit, const struct kva_refusal *refusals, size_t n);

#endif
