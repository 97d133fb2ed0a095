// Writers for runs: one case with all that it showed, or a suite of them for CI.
#ifndef KVA_REPORT_RESULT_H
#define KVA_REPORT_RESULT_H

#include "report/report.h"

// One run, predicted and measured side by side.
enum kva_status kva_report_run(const struct kva_result *result, const struct kva_report_style *style,
                               struct kva_text *out, struct kva_error *error);

// A suite: a row a case.
enum kva_status kva_report_verify(const struct kva_result *results, size_t n, const struct kva_report_style *style,
                                  struct kva_text *out, struct kva_error *error);
enum kva_status kva_report_junit(const struct kva_result *results, size_t n, struct kva_text *out,
                                 struct kva_error *error);

// Writes `logits` and, when there are any, `decode_logits` (float32) as a safetensors file, the form of the reference
// fixtures.
enum kva_status kva_report_logits(const struct kva_result *result, const char *path, struct kva_error *error);

const char *kva_check_name(enum kva_check check);  // "holds", "fails", "not checked"

#endif
