#ifndef KVA_REPORT_PLAN_JSON_H
#define KVA_REPORT_PLAN_JSON_H

#include "report/json.h"

// {"schema": "kvatlas/plan/1", ...}, or {"schema": "kvatlas/plans/1", "plans": [...]} for several. NULL: out of memory.
json_t *kva_plans_json(struct kva_plan *const *plans, size_t n_plans);

#endif
