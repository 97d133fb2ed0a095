// JUnit XML, the dialect that CI systems read: https://github.com/testmoapp/junitxml
#include <inttypes.h>

#include "base/error.h"
#include "report/result.h"
#include "report/xml.h"

static void unable(struct kva_text *out, const struct kva_result *result)
{
    char line[1024];
    kva_text_printf(out, "    <testcase classname=\"kvatlas.verify\" name=\"");
    kva_xml_escaped(out, result->spec.model);
    kva_text_printf(out, " %s\">\n      <error message=\"", result->spec.policy != NULL ? result->spec.policy : "");
    kva_xml_escaped(out, kva_error_line(&result->error, line, sizeof line));
    kva_text_printf(out, "\"/>\n    </testcase>\n");
}

static void testcase(struct kva_text *out, const struct kva_result *result)
{
    if (result->status != KVA_OK) {
        unable(out, result);
        return;
    }
    kva_text_printf(out, "    <testcase classname=\"kvatlas.verify\" name=\"");
    kva_xml_escaped(out, result->model->id);
    kva_text_printf(out, " %s %s %" PRIu64 "x%" PRIu64 " %s\" time=\"%.3f\"", result->spec.policy,
                    kva_dtype_name(result->spec.dtype), result->spec.sequences, result->spec.context,
                    result->device.backend, result->load_seconds + result->prefill_seconds + result->decode_seconds);
    if (result->matches) {
        kva_text_printf(out, "/>\n");
        return;
    }
    kva_text_printf(out, ">\n      <failure message=\"");
    kva_xml_escaped(out, result->explanation);
    kva_text_printf(out, "\"/>\n    </testcase>\n");
}

enum kva_status kva_report_junit(const struct kva_result *results, size_t n, struct kva_text *out,
                                 struct kva_error *error)
{
    size_t failures = 0, errors = 0;
    for (size_t i = 0; i < n; i++) {
        errors += results[i].status != KVA_OK ? 1 : 0;
        failures += results[i].status == KVA_OK && !results[i].matches ? 1 : 0;
    }
    kva_text_printf(out,
                    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
                    "  <testsuite name=\"kvatlas verify\" tests=\"%zu\" failures=\"%zu\" errors=\"%zu\">\n",
                    n, failures, errors);
    for (size_t i = 0; i < n; i++)
        testcase(out, &results[i]);
    kva_text_printf(out, "  </testsuite>\n</testsuites>\n");
    return out->failed ? kva_fail_memory(error, out->length) : KVA_OK;
}
