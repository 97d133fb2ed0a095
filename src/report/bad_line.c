// A line of a stream that could not be planned.
#include "base/error.h"
#include "report/emit.h"
#include "report/report.h"

enum kva_status kva_report_bad_line(uint64_t line, const char *id, const struct kva_error *bad, struct kva_text *out,
                                    struct kva_error *error)
{
    struct kva_emit emit = {.out = out, .compact = true};
    kva_emit_open(&emit, NULL, '{');
    kva_emit_text(&emit, "schema", "kvatlas/error/1");
    kva_emit_count(&emit, "line", line);
    kva_emit_text(&emit, "id", id);
    kva_emit_open(&emit, "error", '{');
    kva_emit_count(&emit, "status", bad->status);
    kva_emit_text(&emit, "key", bad->key[0] != '\0' ? bad->key : NULL);
    kva_emit_text(&emit, "text", bad->text);
    kva_emit_close(&emit, '}');
    kva_emit_close(&emit, '}');
    kva_text_add(out, "\n", 1);
    return out->failed ? kva_fail_memory(error, out->length) : KVA_OK;
}
