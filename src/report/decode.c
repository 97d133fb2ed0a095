#include "report/decode.h"

#include <stdio.h>

#include "report/words.h"

static void bytes_cell(struct kva_table *table, uint64_t bytes)
{
    if (bytes == KVA_UNKNOWN)
        kva_table_cell(table, "%s", "unknown");
    else
        kva_table_bytes(table, bytes);
}

// "8.12 Gflop": decimal, as vendors count.
static void flops_cell(struct kva_table *table, uint64_t flops)
{
    static const char *const UNITS[] = {"", "k", "M", "G", "T", "P"};
    double value = (double)flops;
    size_t unit = 0;
    for (; value >= 1000 && unit + 1 < sizeof UNITS / sizeof *UNITS; unit++)
        value /= 1000;
    if (flops == KVA_UNKNOWN)
        kva_table_cell(table, "%s", "unknown");
    else if (flops == 0)
        kva_table_cell(table, "%s", "-");
    else
        kva_table_cell(table, "%.4g %sflop", value, UNITS[unit]);
}

static void intensity_cell(struct kva_table *table, double intensity)
{
    if (intensity > 0)
        kva_table_cell(table, "%.2f", intensity);
    else
        kva_table_cell(table, "%s", "-");
}

static void kind_row(struct kva_table *table, const struct kva_decode_kind *kind)
{
    kva_table_cell(table, "%s", kind->name);
    kva_table_count(table, kind->layers);
    bytes_cell(table, kind->weight_bytes);
    bytes_cell(table, kind->cache_read);
    bytes_cell(table, kind->cache_written);
    flops_cell(table, kind->flops);
    intensity_cell(table, kind->intensity);
    kva_table_cell(table, "%s", kind->grows);
}

static void kinds(struct kva_page *page, const struct kva_decode *decode)
{
    struct kva_table table = kva_page_new_table(page);
    char context[KVA_HUMAN], sequences[KVA_HUMAN];
    kva_table_column(&table, "kind", false);
    kva_table_column(&table, "layers", true);
    kva_table_column(&table, "weights", true);
    kva_table_column(&table, "cache read", true);
    kva_table_column(&table, "written", true);
    kva_table_column(&table, "computed", true);
    kva_table_column(&table, "flop/byte", true);
    kva_table_column(&table, "reads grow", false);
    size_t layers = 0;
    for (size_t k = 0; k < decode->n_kinds; k++) {
        kind_row(&table, &decode->kinds[k]);
        layers += decode->kinds[k].layers;
    }
    const struct kva_decode_kind all = {.name = "all",
                                        .grows = "",
                                        .layers = layers,
                                        .weight_bytes = decode->weight_bytes,
                                        .cache_read = decode->cache_read,
                                        .cache_written = decode->cache_written,
                                        .flops = decode->flops,
                                        .intensity = decode->intensity};
    kind_row(&table, &all);
    kva_page_section(page, &table, "One decoded token at %s tokens, %s sequence%s at a time",
                     kva_human_count(decode->context, context), kva_human_count(decode->sequences, sequences),
                     decode->sequences == 1 ? "" : "s");
}

static void roofline(struct kva_page *page, const struct kva_decode *decode)
{
    const struct kva_gpu *gpu = decode->gpu;
    char bytes[KVA_HUMAN];
    if (gpu == NULL || decode->tokens_per_second <= 0)
        return;
    kva_page_paragraph(
        page, "%s: a step moves %s in %.3f ms at %.0f GB/s%s. At best %.0f token/s%s, bound by %s.", gpu->id,
        kva_human_bytes(decode->step_bytes, bytes), decode->memory_seconds * 1e3, gpu->bytes_per_second / 1e9,
        decode->compute_seconds > 0 ? kva_page_words(page, " and computes in %.3f ms", decode->compute_seconds * 1e3)
                                    : "",
        decode->tokens_per_second, decode->sequences > 1 ? " of all sequences" : "",
        decode->compute_bound ? "computing" : "memory");
}

void kva_page_decode(struct kva_page *page, const struct kva_decode *decode)
{
    if (decode == NULL)
        return;
    kinds(page, decode);
    roofline(page, decode);
    kva_page_list(page, "How it is counted", decode->notes, decode->n_notes);
}

// ---------------------------------------------------------------- JSON

static void emit_kind(struct kva_emit *emit, const struct kva_decode_kind *kind)
{
    kva_emit_open(emit, NULL, '{');
    kva_emit_text(emit, "kind", kind->name);
    kva_emit_count(emit, "layers", kind->layers);
    kva_emit_count(emit, "weight_bytes", kind->weight_bytes);
    kva_emit_count(emit, "cache_read", kind->cache_read);
    kva_emit_count(emit, "cache_written", kind->cache_written);
    kva_emit_count(emit, "flops", kind->flops);
    kva_emit_figure(emit, "intensity", kind->intensity);
    kva_emit_text(emit, "reads_grow", kind->grows);
    kva_emit_close(emit, '}');
}

void kva_emit_decode(struct kva_emit *emit, const struct kva_decode *decode)
{
    if (decode == NULL)
        return;
    kva_emit_open(emit, "decode", '{');
    kva_emit_count(emit, "context", decode->context);
    kva_emit_count(emit, "sequences", decode->sequences);
    kva_emit_count(emit, "weight_bytes", decode->weight_bytes);
    kva_emit_count(emit, "cache_read", decode->cache_read);
    kva_emit_count(emit, "cache_written", decode->cache_written);
    kva_emit_count(emit, "flops", decode->flops);
    kva_emit_count(emit, "step_bytes", decode->step_bytes);
    kva_emit_count(emit, "step_flops", decode->step_flops);
    kva_emit_figure(emit, "intensity", decode->intensity);
    kva_emit_open(emit, "kinds", '[');
    for (size_t k = 0; k < decode->n_kinds; k++)
        emit_kind(emit, &decode->kinds[k]);
    kva_emit_close(emit, ']');
    kva_emit_open(emit, "roofline", '{');
    kva_emit_text(emit, "gpu", decode->gpu != NULL ? decode->gpu->id : NULL);
    kva_emit_figure(emit, "memory_seconds", decode->memory_seconds);
    kva_emit_figure(emit, "compute_seconds", decode->compute_seconds);
    kva_emit_figure(emit, "tokens_per_second", decode->tokens_per_second);
    kva_emit_figure(emit, "balance", decode->balance);
    kva_emit_text(emit, "bound", decode->tokens_per_second <= 0 ? NULL : decode->compute_bound ? "compute" : "memory");
    kva_emit_close(emit, '}');
    kva_emit_texts(emit, "notes", decode->notes, decode->n_notes);
    kva_emit_close(emit, '}');
}
