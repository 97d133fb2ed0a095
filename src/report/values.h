#ifndef KVA_REPORT_VALUES_H
#define KVA_REPORT_VALUES_H

#include "report/page.h"

// A table of what was read from the config and of what was filled in: all of it, or only the latter.
void kva_page_values(struct kva_page *page, const struct kva_model *model, bool all);

#endif
