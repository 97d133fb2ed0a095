// engines: which there are, and what is believed of one of them, version by version.
#include <string.h>

#include "base/error.h"
#include "report/emit.h"
#include "report/page.h"

struct subject {
    struct kva_engine_info *const *infos;
    size_t n_infos;
};

// ---------------------------------------------------------------- JSON

static void emit_behaviours(struct kva_emit *emit, const struct kva_engine_info *info)
{
    kva_emit_open(emit, "behaviours", '[');
    for (size_t b = 0; b < info->n_behaviours; b++) {
        const struct kva_engine_behaviour *behaviour = &info->behaviours[b];
        kva_emit_open(emit, NULL, '{');
        kva_emit_text(emit, "name", behaviour->name);
        kva_emit_text(emit, "about", behaviour->about);
        kva_emit_open(emit, "values", '[');
        for (size_t v = 0; v < behaviour->n_values; v++) {
            kva_emit_open(emit, NULL, '{');
            kva_emit_text(emit, "since", behaviour->values[v].since);
            kva_emit_text(emit, "until", behaviour->values[v].until);
            kva_emit_text(emit, "value", behaviour->values[v].value);
            kva_emit_texts(emit, "references", behaviour->values[v].references, behaviour->values[v].n_references);
            kva_emit_close(emit, '}');
        }
        kva_emit_close(emit, ']');
        kva_emit_close(emit, '}');
    }
    kva_emit_close(emit, ']');
}

static void emit_engine(struct kva_emit *emit, const struct kva_engine_info *info)
{
    kva_emit_open(emit, NULL, '{');
    kva_emit_text(emit, "id", info->id);
    kva_emit_text(emit, "name", info->name);
    kva_emit_text(emit, "summary", info->summary);
    kva_emit_open(emit, "versions", '[');
    for (size_t v = 0; v < info->n_versions; v++) {
        kva_emit_open(emit, NULL, '{');
        kva_emit_text(emit, "version", info->versions[v]);
        kva_emit_text(emit, "date", info->dates[v]);
        kva_emit_close(emit, '}');
    }
    kva_emit_close(emit, ']');
    emit_behaviours(emit, info);
    kva_emit_texts(emit, "kv_types", info->kv_types, info->n_kv_types);
    kva_emit_texts(emit, "lines", info->lines, info->n_lines);
    kva_emit_texts(emit, "references", info->references, info->n_references);
    kva_emit_close(emit, '}');
}

static void emit_engines(const struct subject *subject, struct kva_text *out)
{
    struct kva_emit emit = {.out = out};
    kva_emit_open(&emit, NULL, '{');
    kva_emit_text(&emit, "schema", "kvatlas/engines/1");
    kva_emit_open(&emit, "engines", '[');
    for (size_t i = 0; i < subject->n_infos; i++)
        emit_engine(&emit, subject->infos[i]);
    kva_emit_close(&emit, ']');
    kva_emit_close(&emit, '}');
    kva_text_add(out, "\n", 1);
}

// ---------------------------------------------------------------- pages

static const char *range_words(struct kva_page *page, const char *since, const char *until)
{
    const char *words = strcmp(since, until) == 0 ? since : kva_arena_printf(page->arena, "%s .. %s", since, until);
    page->out->failed = page->out->failed || words == NULL;
    return words != NULL ? words : "";
}

static void overview(struct kva_page *page, const struct subject *subject)
{
    struct kva_table table = kva_page_new_table(page);
    kva_page_title(page, "%zu engines", subject->n_infos);
    kva_table_column(&table, "engine", false);
    kva_table_column(&table, "versions", false);
    kva_table_column(&table, "what it is", false);
    for (size_t i = 0; i < subject->n_infos; i++) {
        const struct kva_engine_info *info = subject->infos[i];
        kva_table_cell(&table, "%s", info->id);
        kva_table_cell(&table, "%s",
                       info->n_versions > 0 ? range_words(page, info->versions[0], info->versions[info->n_versions - 1])
                                            : "built in");
        kva_table_cell(&table, "%s", info->summary);
    }
    kva_page_table(page, &table);
}

static const char *joined(struct kva_page *page, const char *const *texts, size_t n)
{
    struct kva_text text = {0};
    for (size_t i = 0; i < n; i++)
        kva_text_printf(&text, "%s%s", i > 0 ? ", " : "", texts[i]);
    const char *kept = text.failed ? NULL : kva_arena_strdup(page->arena, text.length > 0 ? text.bytes : "");
    kva_text_free(&text);
    page->out->failed = page->out->failed || kept == NULL;
    return kept != NULL ? kept : "";
}

static void behaviours(struct kva_page *page, const struct kva_engine_info *info)
{
    for (size_t b = 0; b < info->n_behaviours; b++) {
        const struct kva_engine_behaviour *behaviour = &info->behaviours[b];
        struct kva_table table = kva_page_new_table(page);
        kva_table_column(&table, "versions", false);
        kva_table_column(&table, "value", false);
        kva_table_column(&table, "read in", false);
        for (size_t v = 0; v < behaviour->n_values; v++) {
            const struct kva_engine_range *value = &behaviour->values[v];
            kva_table_cell(&table, "%s", range_words(page, value->since, value->until));
            kva_table_cell(&table, "%s", value->value);
            kva_table_cell(&table, "%s", joined(page, value->references, value->n_references));
        }
        kva_page_section(page, &table, "%s: %s", behaviour->name, behaviour->about);
    }
}

static void one(struct kva_page *page, const struct kva_engine_info *info)
{
    struct kva_table versions = kva_page_new_table(page);
    kva_page_title(page, "%s (%s): %s", info->name, info->id, info->summary);
    kva_table_column(&versions, "version", false);
    kva_table_column(&versions, "date", false);
    for (size_t v = 0; v < info->n_versions; v++) {
        kva_table_cell(&versions, "%s", info->versions[v]);
        kva_table_cell(&versions, "%s", info->dates[v]);
    }
    kva_page_section(page, &versions, "Versions");
    behaviours(page, info);
    kva_page_list(page, "Cache types", info->kv_types, info->n_kv_types);
    kva_page_list(page, "Lines that the newest version prints", info->lines, info->n_lines);
    kva_page_list(page, "References", info->references, info->n_references);
}

static enum kva_status write_page(struct kva_page *page, const void *given, struct kva_error *error)
{
    (void)error;
    const struct subject *subject = given;
    if (subject->n_infos == 1)
        one(page, subject->infos[0]);
    else
        overview(page, subject);
    return KVA_OK;
}

enum kva_status kva_report_engines(struct kva_engine_info *const *infos, size_t n_infos,
                                   const struct kva_report_style *style, struct kva_text *out, struct kva_error *error)
{
    const struct subject subject = {infos, n_infos};
    if (style->format != KVA_FORMAT_JSON)
        return kva_page_write(style, out, write_page, &subject, error);
    emit_engines(&subject, out);
    return out->failed ? kva_fail_memory(error, out->length) : KVA_OK;
}
