// show: what each layer of a model caches, and why.
#include <string.h>

#include "base/error.h"
#include "engine/cache_bytes.h"
#include "engine/kv_types.h"
#include "plan/groups.h"
#include "report/json.h"
#include "report/page.h"
#include "report/show_json.h"
#include "report/values.h"
#include "report/words.h"

struct subject {
    const struct kva_model *model;
    const struct kva_plan *plan;
};

static void fact(struct kva_table *table, const char *label, const char *text)
{
    kva_table_cell(table, "%s", label);
    kva_table_cell(table, "%s", text != NULL ? text : "");
    table->failed = table->failed || text == NULL;
}

static const char *known_count(struct kva_arena *arena, uint64_t count, const char *unit)
{
    char digits[KVA_HUMAN];
    return count == KVA_UNKNOWN ? "unknown" : kva_arena_printf(arena, "%s%s", kva_human_count(count, digits), unit);
}

static void identity(struct kva_page *page, const struct kva_model *model)
{
    struct kva_arena *arena = page->arena;
    struct kva_table table = kva_page_new_table(page);
    kva_table_column(&table, "", false);
    kva_table_column(&table, "", false);
    bool named = model->architecture != NULL && *model->architecture != '\0';
    fact(&table, "family", kva_arena_printf(arena, "%s (%s)", model->family, model->model_type));
    if (named)
        fact(&table, "architecture", model->architecture);
    fact(&table, "source", model->source);
    fact(&table, "layers", known_count(arena, model->n_layers, ""));
    if (model->mtp_layers > 0)
        fact(&table, "multi-token prediction",
             kva_arena_printf(arena, "%llu layer%s more, counted only with --assume mtp=on",
                              (unsigned long long)model->mtp_layers, model->mtp_layers == 1 ? "" : "s"));
    fact(&table, "context limit",
         known_count(arena, model->context_limit > 0 ? model->context_limit : KVA_UNKNOWN, " tokens"));
    fact(&table, "dtype",
         model->dtype == KVA_DTYPE_NONE || model->dtype_key == NULL
             ? kva_dtype_name(model->dtype)
             : kva_arena_printf(arena, "%s (%s)", kva_dtype_name(model->dtype), model->dtype_key));
    fact(&table, "parameters", known_count(arena, model->parameters, ""));
    const char *weights = kva_bytes_exactly(arena, model->weight_bytes);
    if (model->weight_bytes != KVA_UNKNOWN && weights != NULL && model->weight_source != NULL)
        weights = kva_arena_printf(arena, "%s, from the %s", weights, model->weight_source);
    fact(&table, "weights", weights);
    size_t size = model->n_layers * 8 + 8;
    char *pattern = kva_arena_alloc(arena, size, 1);
    fact(&table, "pattern", pattern != NULL ? kva_model_pattern(model, pattern, size) : NULL);
    kva_page_table(page, &table);
}

// ---------------------------------------------------------------- layers

static void cache_sizes(struct kva_table *table, enum kva_dtype dtype, const struct kva_cache *cache)
{
    uint64_t bytes = 0;
    bool state = kva_cache_is_state(cache), rows = kva_cache_has_rows(cache) && cache->reads_layer < 0;
    const struct kva_kv_type plain = kva_plain_kv_type(dtype);
    bool known = (state ? kva_cache_state_bytes(cache, dtype, &bytes, NULL)
                        : kva_cache_token_bytes(cache, &plain, &bytes, NULL)) == KVA_OK;
    kva_table_count(table, rows ? cache->kv_heads : 0);
    kva_table_cell(table, rows ? "%u + %u" : "-", cache->k_dim, cache->v_dim);
    if (!known) {
        kva_table_cell(table, "%s", rows ? "unknown" : "-");
        kva_table_cell(table, "%s", state ? "unknown" : "-");
        return;
    }
    kva_table_bytes(table, rows ? bytes : 0);
    kva_table_bytes(table, state ? bytes : 0);
}

static void group_rows(struct kva_page *page, struct kva_table *table, enum kva_dtype dtype,
                       const struct kva_layer_group *group)
{
    static const struct kva_cache NOTHING = {.reads_layer = -1};
    const struct kva_layer *layer = group->first;
    for (size_t c = 0; c == 0 || c < layer->n_caches; c++) {
        const struct kva_cache *cache = layer->n_caches > 0 ? &layer->caches[c] : &NOTHING;
        const char *keeps = kva_cache_words(page->arena, cache);
        const char *ranges = kva_layer_ranges(page->arena, group->layers, group->n_layers);
        table->failed = table->failed || keeps == NULL || ranges == NULL;
        if (table->failed)
            return;
        if (c == 0)
            kva_table_cell(table, "%zu", group->n_layers);
        else
            kva_table_cell(table, "%s", "");
        kva_table_cell(table, "%s", c == 0 ? layer->kind : "");
        kva_table_cell(table, "%s", keeps);
        cache_sizes(table, dtype, cache);
        kva_table_cell(table, "%s", c == 0 ? ranges : "");
    }
}

static void layers(struct kva_page *page, enum kva_dtype dtype, const struct kva_layer_group *groups, size_t n_groups)
{
    struct kva_table table = kva_page_new_table(page);
    kva_table_column(&table, "layers", true);
    kva_table_column(&table, "kind", false);
    kva_table_column(&table, "keeps", false);
    kva_table_column(&table, "kv heads", true);
    kva_table_column(&table, "k + v", true);
    kva_table_column(&table, "a token", true);
    kva_table_column(&table, "fixed", true);
    kva_table_column(&table, "which", false);
    for (size_t g = 0; g < n_groups; g++)
        group_rows(page, &table, dtype, &groups[g]);
    kva_page_section(page, &table, "What each layer caches, for one sequence");
}

static void rules(struct kva_page *page, const struct kva_layer_group *groups, size_t n_groups)
{
    struct kva_table table = kva_page_new_table(page);
    kva_table_column(&table, page->style->format == KVA_FORMAT_MARKDOWN ? "kind" : "", false);
    kva_table_column(&table, page->style->format == KVA_FORMAT_MARKDOWN ? "rule" : "", false);
    for (size_t g = 0; g < n_groups; g++) {
        const char *why = groups[g].first->why;
        bool said = why == NULL;
        for (size_t h = 0; h < g && !said; h++)
            said = groups[h].first->why != NULL && strcmp(groups[h].first->why, why) == 0 &&
                   strcmp(groups[h].first->kind, groups[g].first->kind) == 0;
        if (said)
            continue;
        kva_table_cell(&table, "%s", groups[g].first->kind);
        kva_table_cell(&table, "%s", why);
    }
    kva_page_section(page, &table, "Why");
}

// ---------------------------------------------------------------- totals

static void weight_classes(struct kva_page *page, const struct kva_model *model)
{
    struct kva_table table = kva_page_new_table(page);
    kva_table_column(&table, "weights", false);
    kva_table_column(&table, "tensors", true);
    kva_table_column(&table, "parameters", true);
    kva_table_column(&table, "bytes", true);
    for (size_t w = 0; w < model->n_weight_classes; w++) {
        kva_table_cell(&table, "%s", model->weight_classes[w].name);
        kva_table_count(&table, model->weight_classes[w].tensors);
        kva_table_count(&table, model->weight_classes[w].parameters);
        kva_table_bytes(&table, model->weight_classes[w].bytes);
    }
    kva_page_section(page, &table, "Weights");
}

static void at_limit(struct kva_page *page, const struct kva_plan *plan)
{
    char context[KVA_HUMAN];
    struct kva_table table = kva_page_new_table(page);
    bool titled = page->style->format == KVA_FORMAT_MARKDOWN;
    kva_table_column(&table, titled ? "what" : "", false);
    kva_table_column(&table, titled ? "bytes" : "", false);
    fact(&table, "need", kva_bytes_exactly(page->arena, plan->need));
    fact(&table, "one more token", kva_bytes_exactly(page->arena, plan->bytes_per_token));
    fact(&table, "naive", kva_bytes_exactly(page->arena, plan->naive));
    kva_page_section(page, &table, "One sequence of %s tokens, %s cache",
                     kva_human_count(plan->deployment.context, context), kva_dtype_name(plan->deployment.kv_dtype));
}

static enum kva_status write_page(struct kva_page *page, const void *subject, struct kva_error *error)
{
    const struct kva_model *model = ((const struct subject *)subject)->model;
    const struct kva_plan *plan = ((const struct subject *)subject)->plan;
    struct kva_layer_group *groups;
    size_t n_groups;
    enum kva_status status = kva_layer_groups(model, NULL, page->arena, &groups, &n_groups, error);
    if (status != KVA_OK)
        return status;
    kva_page_title(page, "%s", model->id);
    identity(page, model);
    // a config without a dtype is planned with an assumed one, which is said below: the same here
    layers(page, model->dtype == KVA_DTYPE_NONE && plan != NULL ? plan->deployment.kv_dtype : model->dtype, groups,
           n_groups);
    rules(page, groups, n_groups);
    if (plan != NULL)
        at_limit(page, plan);
    kva_page_values(page, model, page->style->why);
    if (page->style->why) {
        weight_classes(page, model);
        kva_page_list(page, "References", model->references, model->n_references);
    }
    kva_page_list(page, "Warnings", model->warnings, model->n_warnings);
    if (plan != NULL)
        kva_page_list(page, "Assumed", plan->assumed, plan->n_assumed);
    return KVA_OK;
}

enum kva_status kva_report_show(const struct kva_model *model, const struct kva_plan *plan,
                                const struct kva_report_style *style, struct kva_text *out, struct kva_error *error)
{
    if (style->format == KVA_FORMAT_JSON)
        return kva_json_write(kva_show_json(model, plan), out, error);
    const struct subject subject = {model, plan};
    return kva_page_write(style, out, write_page, &subject, error);
}
