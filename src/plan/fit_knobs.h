// Which one change of a deployment turns a no into a yes.
#ifndef KVA_PLAN_FIT_KNOBS_H
#define KVA_PLAN_FIT_KNOBS_H

#include "base/arena.h"
#include "plan/search.h"

// search->deployment: as the person said it. plan: of it, and it does not fit. What works, in the order of what it
// costs, in `arena`. Errors: KVA_MACHINE.
enum kva_status kva_fit_knobs(struct kva_search *search, const struct kva_plan *plan, struct kva_arena *arena,
                              struct kva_fit_knob **knobs, size_t *n, struct kva_error *error);

#endif
