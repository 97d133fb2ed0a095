#ifndef KVA_REPORT_FIT_JSON_H
#define KVA_REPORT_FIT_JSON_H

#include "report/report.h"

// {"schema": "kvatlas/fit/1", ...}, or {"schema": "kvatlas/fits/1", "fits": [...], "refused": [...]} for several. Ends
// with a newline.
void kva_fits_json(const struct kva_fit_set *set, struct kva_text *out);

#endif
