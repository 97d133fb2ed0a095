#ifndef KVA_REPORT_SHOW_JSON_H
#define KVA_REPORT_SHOW_JSON_H

#include <jansson.h>

#include "kvatlas.h"

// {"schema": "kvatlas/show/1", ...}; plan may be NULL. NULL: out of memory.
json_t *kva_show_json(const struct kva_model *model, const struct kva_plan *plan);

#endif
