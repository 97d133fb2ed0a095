// gpus: the catalogue of accelerators.
#include "base/error.h"
#include "report/emit.h"
#include "report/page.h"
#include "report/words.h"

struct subject {
    const struct kva_gpu *const *gpus;
    size_t n_gpus;
};

// ---------------------------------------------------------------- JSON

static void emit_flag(struct kva_emit *emit, const char *key, bool known, bool flag)
{
    if (known)
        kva_emit_flag(emit, key, flag);
    else
        kva_emit_null(emit, key);
}

void kva_emit_gpu(struct kva_emit *emit, const char *key, const struct kva_gpu *gpu)
{
    kva_emit_open(emit, key, '{');
    kva_emit_text(emit, "id", gpu->id);
    kva_emit_text(emit, "name", gpu->name);
    kva_emit_text(emit, "vendor", gpu->vendor);
    kva_emit_known(emit, "total_bytes", gpu->total_bytes);
    kva_emit_text(emit, "total_basis", gpu->total_basis);
    kva_emit_known(emit, "reported_bytes", gpu->reported_bytes);
    kva_emit_known(emit, "sold_bytes", (uint64_t)gpu->sold_bytes);
    kva_emit_figure(emit, "bytes_per_second", gpu->bytes_per_second);
    kva_emit_figure(emit, "bf16_flops", gpu->bf16_flops);
    kva_emit_text(emit, "compute", gpu->compute);
    emit_flag(emit, "fp8", gpu->fp8_known, gpu->fp8);
    emit_flag(emit, "fp4", gpu->fp4_known, gpu->fp4);
    kva_emit_flag(emit, "unified", gpu->unified);
    kva_emit_texts(emit, "references", gpu->references, gpu->n_references);
    kva_emit_close(emit, '}');
}

static void emit_gpus(const struct subject *subject, struct kva_text *out)
{
    struct kva_emit emit = {.out = out};
    kva_emit_open(&emit, NULL, '{');
    kva_emit_text(&emit, "schema", "kvatlas/gpus/1");
    kva_emit_open(&emit, "gpus", '[');
    for (size_t i = 0; i < subject->n_gpus; i++)
        kva_emit_gpu(&emit, NULL, subject->gpus[i]);
    kva_emit_close(&emit, ']');
    kva_emit_close(&emit, '}');
    kva_text_add(out, "\n", 1);
}

// ---------------------------------------------------------------- text

static void figure(struct kva_table *table, double value, double unit)
{
    if (value > 0)
        kva_table_cell(table, "%.6g", value / unit);
    else
        kva_table_cell(table, "%s", "-");
}

static const char *yes(bool known, bool flag)
{
    return !known ? "-" : flag ? "yes" : "no";
}

static enum kva_status write_page(struct kva_page *page, const void *given, struct kva_error *error)
{
    (void)error;
    const struct subject *subject = given;
    struct kva_table table = kva_page_new_table(page);
    kva_page_title(page, "%zu accelerator%s", subject->n_gpus, subject->n_gpus == 1 ? "" : "s");
    kva_table_column(&table, "gpu", false);
    kva_table_column(&table, "name", false);
    kva_table_column(&table, "memory, bytes", true);
    kva_table_column(&table, "GiB", true);
    kva_table_column(&table, "known as", false);
    kva_table_column(&table, "GB/s", true);
    kva_table_column(&table, "bf16 TFLOP/s", true);
    kva_table_column(&table, "compute", true);
    kva_table_column(&table, "fp8", false);
    kva_table_column(&table, "fp4", false);
    for (size_t i = 0; i < subject->n_gpus; i++) {
        const struct kva_gpu *gpu = subject->gpus[i];
        kva_table_cell(&table, "%s", gpu->id);
        kva_table_cell(&table, "%s", gpu->name);
        kva_table_count(&table, gpu->total_bytes);
        if (gpu->total_bytes > 0)
            kva_table_cell(&table, "%.2f", (double)gpu->total_bytes / 0x1p30);
        else
            kva_table_cell(&table, "%s", "-");
        kva_table_cell(&table, "%s", gpu->total_basis != NULL ? gpu->total_basis : "-");
        figure(&table, gpu->bytes_per_second, 1e9);
        figure(&table, gpu->bf16_flops, 1e12);
        kva_table_cell(&table, "%s", gpu->compute != NULL ? gpu->compute : "-");
        kva_table_cell(&table, "%s", yes(gpu->fp8_known, gpu->fp8));
        kva_table_cell(&table, "%s", yes(gpu->fp4_known, gpu->fp4));
    }
    if (table.n_cells > 0)
        kva_page_table(page, &table);
    kva_page_paragraph(page,
                       "Memory is what the device property totalGlobalMem says, from which engines count: measured "
                       "on a device, printed by a log in GiB, derived from nvidia-smi's total and reserve, or a "
                       "lower bound. - is not known.");
    return KVA_OK;
}

enum kva_status kva_report_gpus(const struct kva_gpu *const *gpus, size_t n_gpus, const struct kva_report_style *style,
                                struct kva_text *out, struct kva_error *error)
{
    const struct subject subject = {gpus, n_gpus};
    if (style->format != KVA_FORMAT_JSON)
        return kva_page_write(style, out, write_page, &subject, error);
    emit_gpus(&subject, out);
    return out->failed ? kva_fail_memory(error, out->length) : KVA_OK;
}
