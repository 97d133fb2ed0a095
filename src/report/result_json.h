#ifndef KVA_REPORT_RESULT_JSON_H
#define KVA_REPORT_RESULT_JSON_H

#include "report/json.h"

enum kva_status kva_run_json(const struct kva_result *result, struct kva_text *out, struct kva_error *error);
enum kva_status kva_verify_json(const struct kva_result *results, size_t n, struct kva_text *out,
                                struct kva_error *error);

#endif
