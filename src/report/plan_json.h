#ifndef KVA_REPORT_PLAN_JSON_H
#define KVA_REPORT_PLAN_JSON_H

#include "report/emit.h"
#include "report/report.h"

// {"schema": "kvatlas/plan/1", ...}, or {"schema": "kvatlas/plans/1", "plans": [...], "refused": [...]} for several.
// Ends with a newline. compact: on one line.
void kva_plans_json(const struct kva_plan_set *set, bool compact, struct kva_text *out);

#endif
