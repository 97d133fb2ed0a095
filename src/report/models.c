// models: the catalogue.
#include "base/error.h"
#include "report/emit.h"
#include "report/page.h"

static void emit_models(const struct kva_catalogue *catalogue, struct kva_text *out)
{
    struct kva_emit emit = {.out = out};
    kva_emit_open(&emit, NULL, '{');
    kva_emit_text(&emit, "schema", "kvatlas/models/1");
    kva_emit_open(&emit, "models", '[');
    for (size_t i = 0; i < catalogue->n_entries; i++) {
        const struct kva_catalogue_entry *entry = &catalogue->entries[i];
        kva_emit_open(&emit, NULL, '{');
        kva_emit_text(&emit, "id", entry->id);
        kva_emit_text(&emit, "model_type", entry->model_type);
        kva_emit_text(&emit, "architecture", entry->architecture);
        kva_emit_text(&emit, "family", entry->family);
        kva_emit_count(&emit, "layers", entry->layers > 0 ? entry->layers : KVA_UNKNOWN);
        kva_emit_count(&emit, "context_limit", entry->context_limit > 0 ? entry->context_limit : KVA_UNKNOWN);
        kva_emit_text(&emit, "pattern", entry->pattern);
        kva_emit_text(&emit, "source", entry->source);
        kva_emit_text(&emit, "fidelity", entry->fidelity);
        kva_emit_text(&emit, "notes", entry->notes);
        kva_emit_text(&emit, "problem", entry->problem);
        kva_emit_close(&emit, '}');
    }
    kva_emit_close(&emit, ']');
    kva_emit_close(&emit, '}');
    kva_text_add(out, "\n", 1);
}

static enum kva_status write_page(struct kva_page *page, const void *subject, struct kva_error *error)
{
    const struct kva_catalogue *catalogue = subject;
    struct kva_table table = kva_page_new_table(page);
    const char **problems = kva_arena_alloc(page->arena, catalogue->n_entries + 1, sizeof *problems);
    size_t n_problems = 0;
    if (problems == NULL)
        return kva_fail_memory(error, catalogue->n_entries * sizeof *problems);
    kva_page_title(page, "%zu model%s of the catalogue", catalogue->n_entries, catalogue->n_entries == 1 ? "" : "s");
    kva_table_column(&table, "model", false);
    kva_table_column(&table, "family", false);
    kva_table_column(&table, "model_type", false);
    kva_table_column(&table, "layers", true);
    kva_table_column(&table, "context limit", true);
    for (size_t i = 0; i < catalogue->n_entries; i++) {
        const struct kva_catalogue_entry *entry = &catalogue->entries[i];
        if (entry->problem != NULL) {
            problems[n_problems] = kva_arena_printf(page->arena, "%s: %s", entry->id, entry->problem);
            if (problems[n_problems++] == NULL)
                return kva_fail_memory(error, 0);
            continue;
        }
        kva_table_cell(&table, "%s", entry->id);
        kva_table_cell(&table, "%s", entry->family);
        kva_table_cell(&table, "%s", entry->model_type);
        kva_table_count(&table, entry->layers);
        kva_table_count(&table, entry->context_limit);
    }
    if (table.n_cells > 0)
        kva_page_table(page, &table);
    kva_page_list(page, "Cannot be read", problems, n_problems);
    return KVA_OK;
}

enum kva_status kva_report_models(const struct kva_catalogue *catalogue, const struct kva_report_style *style,
                                  struct kva_text *out, struct kva_error *error)
{
    if (style->format != KVA_FORMAT_JSON)
        return kva_page_write(style, out, write_page, catalogue, error);
    emit_models(catalogue, out);
    return out->failed ? kva_fail_memory(error, out->length) : KVA_OK;
}
