#ifndef KVA_REPORT_PLAN_JSON_H
#define KVA_REPORT_PLAN_JSON_H

#include "report/emit.h"

// {"schema": "kvatlas/plan/1", ...}, or {"schema": "kvatlas/plans/1", "plans": [...]} for several. Ends with a newline.
// compact: on one line.
void kva_plans_json(struct kva_plan *const *plans, size_t n_plans, bool compact, struct kva_text *out);

#endif
