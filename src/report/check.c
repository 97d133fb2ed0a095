// check: every number of an engine's log beside what the plan prints in its place.
#include <inttypes.h>
#include <math.h>

#include "base/error.h"
#include "report/emit.h"
#include "report/page.h"
#include "report/xml.h"

static const char *or_dash(const char *text)
{
    return text != NULL ? text : "-";
}

static void difference(struct kva_table *table, const struct kva_check_number *number)
{
    if (!number->compared || number->verdict == KVA_VERDICT_GIVEN)
        kva_table_cell(table, "-");
    else
        kva_table_cell(table, "%.12g", number->difference);
}

static enum kva_status write_page(struct kva_page *page, const void *subject, struct kva_error *error)
{
    const struct kva_check_result *result = subject;
    struct kva_table table = kva_page_new_table(page);
    (void)error;
    kva_page_title(page, "%s %s, %s: %s", result->engine_name, result->version, result->model->id,
                   result->verdict == KVA_VERDICT_MATCH      ? "every number is as predicted"
                   : result->verdict == KVA_VERDICT_MISMATCH ? "numbers differ from the plan"
                                                             : "nothing could be compared");
    kva_table_column(&table, "line", true);
    kva_table_column(&table, "number", false);
    kva_table_column(&table, "printed", true);
    kva_table_column(&table, "predicted", true);
    kva_table_column(&table, "difference", true);
    kva_table_column(&table, "verdict", false);
    for (size_t n = 0; n < result->n_numbers; n++) {
        const struct kva_check_number *number = &result->numbers[n];
        kva_table_cell(&table, "%" PRIu64, number->line);
        kva_table_cell(&table, "%s %s", number->id, number->quantity);
        kva_table_cell(&table, "%s", number->printed);
        kva_table_cell(&table, "%s", or_dash(number->predicted));
        difference(&table, number);
        kva_table_cell(&table, "%s", kva_verdict_name(number->verdict));
    }
    kva_page_table(page, &table);
    if (result->verdict == KVA_VERDICT_MISMATCH && result->n_explanation == 0)
        kva_page_list(page, "What would explain it", (const char *const[]){"no single change that was tried"}, 1);
    kva_page_list(page, "What would explain it", result->explanation, result->n_explanation);
    kva_page_list(page, "Read from the log", result->notes, result->n_notes);
    kva_page_list(page, "Assumed", result->plan->assumed, result->plan->n_assumed);
    return KVA_OK;
}

// ---------------------------------------------------------------- JSON

// A count stays one as far as a double tells it exactly.
static void emit_value(struct kva_emit *emit, const char *key, double value, bool whole)
{
    if (whole && value == floor(value) && fabs(value) <= 0x1p53)
        kva_emit_integer(emit, key, (int64_t)value);
    else
        kva_emit_real(emit, key, value);
}

static void emit_number(struct kva_emit *emit, const struct kva_check_number *number)
{
    kva_emit_open(emit, NULL, '{');
    kva_emit_count(emit, "line", number->line);
    kva_emit_text(emit, "text", number->text);
    kva_emit_text(emit, "id", number->id);
    kva_emit_text(emit, "quantity", number->quantity);
    if (number->numeric)
        emit_value(emit, "printed", number->printed_value, number->whole);
    else
        kva_emit_text(emit, "printed", number->printed);
    if (number->compared) {
        emit_value(emit, "predicted", number->predicted_value, number->whole);
        emit_value(emit, "difference", number->difference, number->whole);
    } else {
        kva_emit_text(emit, "predicted", number->predicted);
        kva_emit_null(emit, "difference");
    }
    kva_emit_text(emit, "verdict", kva_verdict_name(number->verdict));
    kva_emit_close(emit, '}');
}

static void emit_result(const struct kva_check_result *result, struct kva_text *out)
{
    struct kva_emit emit = {.out = out};
    kva_emit_open(&emit, NULL, '{');
    kva_emit_text(&emit, "schema", "kvatlas/check/1");
    kva_emit_open(&emit, "engine", '{');
    kva_emit_text(&emit, "id", result->engine);
    kva_emit_text(&emit, "version", result->version);
    kva_emit_text(&emit, "version_source", result->version_known ? "stated" : "inferred");
    kva_emit_close(&emit, '}');
    kva_emit_open(&emit, "model", '{');
    kva_emit_text(&emit, "id", result->model->id);
    kva_emit_text(&emit, "source", result->model->source);
    kva_emit_text(&emit, "model_type", result->model->model_type);
    kva_emit_text(&emit, "architecture", result->model->architecture);
    kva_emit_close(&emit, '}');
    kva_emit_open(&emit, "numbers", '[');
    for (size_t n = 0; n < result->n_numbers; n++)
        emit_number(&emit, &result->numbers[n]);
    kva_emit_close(&emit, ']');
    kva_emit_texts(&emit, "explanation", result->explanation, result->n_explanation);
    kva_emit_texts(&emit, "notes", result->notes, result->n_notes);
    kva_emit_texts(&emit, "assumed", result->plan->assumed, result->plan->n_assumed);
    kva_emit_text(&emit, "verdict", kva_verdict_name(result->verdict));
    kva_emit_close(&emit, '}');
    kva_text_add(out, "\n", 1);
}

enum kva_status kva_report_check(const struct kva_check_result *result, const struct kva_report_style *style,
                                 struct kva_text *out, struct kva_error *error)
{
    if (style->format != KVA_FORMAT_JSON)
        return kva_page_write(style, out, write_page, result, error);
    emit_result(result, out);
    return out->failed ? kva_fail_memory(error, out->length) : KVA_OK;
}

// ---------------------------------------------------------------- JUnit

static void testcase(struct kva_text *out, const struct kva_check_result *result, const struct kva_check_number *number)
{
    kva_text_printf(out, "    <testcase classname=\"kvatlas.check\" name=\"");
    kva_xml_escaped(out, number->id);
    kva_text_printf(out, " ");
    kva_xml_escaped(out, number->quantity);
    kva_text_printf(out, " (line %" PRIu64 ")\"", number->line);
    if (number->verdict == KVA_VERDICT_MISMATCH) {
        kva_text_printf(out, ">\n      <failure message=\"printed ");
        kva_xml_escaped(out, number->printed);
        kva_text_printf(out, ", predicted ");
        kva_xml_escaped(out, or_dash(number->predicted));
        for (size_t e = 0; e < result->n_explanation; e++) {
            kva_text_printf(out, "; ");
            kva_xml_escaped(out, result->explanation[e]);
        }
        kva_text_printf(out, "\"/>\n    </testcase>\n");
    } else if (number->verdict == KVA_VERDICT_MATCH)
        kva_text_printf(out, "/>\n");
    else
        kva_text_printf(out, ">\n      <skipped message=\"%s\"/>\n    </testcase>\n",
                        number->verdict == KVA_VERDICT_GIVEN ? "taken from the log" : "nothing is predicted");
}

enum kva_status kva_report_check_junit(const struct kva_check_result *result, struct kva_text *out,
                                       struct kva_error *error)
{
    size_t failures = 0, skipped = 0;
    for (size_t n = 0; n < result->n_numbers; n++) {
        failures += result->numbers[n].verdict == KVA_VERDICT_MISMATCH;
        skipped +=
            result->numbers[n].verdict != KVA_VERDICT_MISMATCH && result->numbers[n].verdict != KVA_VERDICT_MATCH;
    }
    kva_text_printf(
        out,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
        "  <testsuite name=\"kvatlas check\" tests=\"%zu\" failures=\"%zu\" errors=\"0\" skipped=\"%zu\">\n",
        result->n_numbers, failures, skipped);
    for (size_t n = 0; n < result->n_numbers; n++)
        testcase(out, result, &result->numbers[n]);
    kva_text_printf(out, "  </testsuite>\n</testsuites>\n");
    return out->failed ? kva_fail_memory(error, out->length) : KVA_OK;
}
