// explain: the formula of every number, with the values that went into it.
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/error.h"
#include "engine/cache_bytes.h"
#include "model/arch.h"
#include "plan/groups.h"
#include "report/page.h"
#include "report/values.h"
#include "report/words.h"

static const char *commas(struct kva_page *page, uint64_t count)
{
    char digits[KVA_HUMAN];
    const char *kept = kva_arena_strdup(page->arena, kva_human_count(count, digits));
    page->out->failed = page->out->failed || kept == NULL;
    return kept != NULL ? kept : "";
}

// One formula. Markdown shows it as code.
__attribute__((format(printf, 2, 3))) static void formula(struct kva_page *page, const char *format, ...)
{
    va_list arguments;
    bool markdown = page->style->format == KVA_FORMAT_MARKDOWN;
    va_start(arguments, format);
    kva_text_printf(page->out, markdown ? "- `%s`\n" : "  %s\n", kva_page_format(page, format, arguments));
    va_end(arguments);
}

// ---------------------------------------------------------------- one cache

// The architecture file's formula of a state's elements; NULL when the file is not at hand.
static const char *state_formula(const struct kva_model *model, const struct kva_layer *layer, const char *part)
{
    for (unsigned k = 0; model->arch != NULL && k < model->arch->n_kinds; k++) {
        const struct kva_arch_kind *kind = &model->arch->kinds[k];
        for (unsigned c = 0; strcmp(kind->name, layer->kind) == 0 && c <= kind->n_also; c++) {
            const struct kva_arch_cached *cached = c == 0 ? &kind->first : &kind->also[c - 1];
            for (unsigned s = 0; s < cached->n_state; s++)
                if (strcmp(cached->state[s].name, part) == 0)
                    return cached->state[s].elements;
        }
    }
    return NULL;
}

static void explain_state(struct kva_page *page, const struct kva_plan *plan, const struct kva_layer *layer,
                          const struct kva_cache *cache, const char *title, uint64_t bytes)
{
    struct kva_text terms = {0}, numbers = {0};
    for (size_t p = 0; p < cache->n_state; p++) {
        const struct kva_state_part *part = &cache->state[p];
        enum kva_dtype dtype = part->dtype != KVA_DTYPE_NONE ? part->dtype : plan->deployment.model_dtype;
        const char *elements = state_formula(plan->model, layer, part->name);
        const char *plus = p > 0 ? " + " : "";
        if (elements != NULL)
            kva_text_printf(&terms, "%s%s (%s) x bytes", plus, part->name, elements);
        else
            kva_text_printf(&terms, "%s%s x bytes", plus, part->name);
        kva_text_printf(&numbers, "%s%" PRIu64 " x %" PRIu64, plus, part->elements, kva_dtype_bytes(dtype));
    }
    page->out->failed = page->out->failed || terms.failed || numbers.failed;
    if (terms.length > 0 && numbers.length > 0)
        formula(page, "%s = %s = %s = %s B", title, terms.bytes, numbers.bytes, commas(page, bytes));
    kva_text_free(&terms);
    kva_text_free(&numbers);
}

static void explain_rows(struct kva_page *page, const struct kva_plan *plan, const char *name,
                         const struct kva_cache *cache, uint64_t bytes)
{
    const uint64_t element = kva_dtype_bytes(plan->deployment.kv_dtype), context = plan->deployment.context;
    if (kva_cache_has_window(cache))
        formula(page,
                "%s = kv_heads x (k_dim + v_dim) x bytes x min(window, context) = %u x (%u + %u) x %" PRIu64
                " x min(%" PRIu64 ", %" PRIu64 ") = %s B",
                name, cache->kv_heads, cache->k_dim, cache->v_dim, element, cache->window, context,
                commas(page, bytes));
    else if (cache->kind == KVA_CACHE_CROSS)
        formula(page,
                "%s = kv_heads x (k_dim + v_dim) x bytes x encoder length = %u x (%u + %u) x %" PRIu64 " x %" PRIu64
                " = %s B",
                name, cache->kv_heads, cache->k_dim, cache->v_dim, element, cache->length, commas(page, bytes));
    else if (cache->ratio > 1)
        formula(page,
                "%s = kv_heads x (k_dim + v_dim) x bytes x floor(context / ratio) = %u x (%u + %u) x %" PRIu64
                " x floor(%" PRIu64 " / %u) = %s B",
                name, cache->kv_heads, cache->k_dim, cache->v_dim, element, context, cache->ratio, commas(page, bytes));
    else
        formula(page,
                "%s = kv_heads x (k_dim + v_dim) x bytes x context = %u x (%u + %u) x %" PRIu64 " x %" PRIu64 " = %s B",
                name, cache->kv_heads, cache->k_dim, cache->v_dim, element, context, commas(page, bytes));
}

// "need(sliding)"; of one of several caches of a layer "need(csa: index)".
static const char *cache_title(struct kva_page *page, const char *what, const struct kva_layer *layer,
                               const struct kva_cache *cache)
{
    const char *title = layer->n_caches > 1 ? kva_arena_printf(page->arena, "%s(%s: %s)", what, layer->kind,
                                                               kva_cache_kind_name(cache->kind))
                                            : kva_arena_printf(page->arena, "%s(%s)", what, layer->kind);
    page->out->failed = page->out->failed || title == NULL;
    return title != NULL ? title : what;
}

static enum kva_status explain_cache(struct kva_page *page, const struct kva_plan *plan, const struct kva_layer *layer,
                                     const struct kva_cache *cache, struct kva_error *error)
{
    struct kva_cache owned = *cache;
    owned.reads_layer = -1;
    uint64_t bytes;
    const struct kva_deployment *d = &plan->deployment;
    if (cache->kind == KVA_CACHE_CROSS && cache->length == 0)
        owned.length = d->encoder_context;
    enum kva_status status = kva_need_bytes(&owned, d->context, d->kv_dtype, d->model_dtype, &bytes, error);
    if (status != KVA_OK)
        return status;
    if (cache->kind == KVA_CACHE_NONE)
        formula(page, "need(%s) = 0 B: it keeps nothing", layer->kind);
    else if (cache->reads_layer >= 0) {
        formula(page, "need(%s) = 0 B: it reads layer %d's cache", layer->kind, cache->reads_layer);
        explain_rows(page, plan, cache_title(page, "saved", layer, cache), &owned, bytes);
    } else if (kva_cache_is_state(cache))
        explain_state(page, plan, layer, cache, cache_title(page, "need", layer, cache), bytes);
    else {
        explain_rows(page, plan, cache_title(page, "need", layer, cache), &owned, bytes);
        if (cache->window_inert)
            formula(page, "its window of %s tokens is inert: it can never bind", commas(page, cache->window));
    }
    return KVA_OK;
}

static enum kva_status explain_group(struct kva_page *page, const struct kva_plan *plan,
                                     const struct kva_layer_group *group, struct kva_error *error)
{
    static const struct kva_cache NOTHING = {.reads_layer = -1};
    const struct kva_layer *layer = group->first;
    const char *ranges = kva_layer_ranges(page->arena, group->layers, group->n_layers);
    if (ranges == NULL)
        return kva_fail_memory(error, group->n_layers * 8);
    kva_page_heading(page, "%s: %zu layer%s (%s)", layer->kind, group->n_layers, group->n_layers == 1 ? "" : "s",
                     ranges);
    for (size_t c = 0; c == 0 || c < layer->n_caches; c++) {
        enum kva_status status =
            explain_cache(page, plan, layer, layer->n_caches > 0 ? &layer->caches[c] : &NOTHING, error);
        if (status != KVA_OK)
            return status;
    }
    const uint64_t total = group->sharing_saved > 0 ? group->sharing_saved : group->need;
    if (total > 0 && (group->n_layers > 1 || plan->deployment.sequences > 1))
        formula(page, "all of them = %zu layer%s x %" PRIu64 " sequence%s = %s B", group->n_layers,
                group->n_layers == 1 ? "" : "s", plan->deployment.sequences, plan->deployment.sequences == 1 ? "" : "s",
                commas(page, total));
    if (layer->why != NULL)
        formula(page, "because %s", layer->why);
    return KVA_OK;
}

// ---------------------------------------------------------------- totals

// "a + b + c" over the groups' needs, or over their savings.
static void total_of(struct kva_page *page, const char *name, const struct kva_layer_group *groups, size_t n_groups,
                     bool saved, uint64_t total)
{
    struct kva_text terms = {0};
    size_t n_terms = 0;
    for (size_t g = 0; g < n_groups; g++) {
        uint64_t bytes = saved ? groups[g].sharing_saved : groups[g].need;
        if (bytes > 0)
            kva_text_printf(&terms, "%s%s", n_terms++ > 0 ? " + " : "", commas(page, bytes));
    }
    page->out->failed = page->out->failed || terms.failed;
    if (n_terms > 1 && !terms.failed)
        formula(page, "%s = %s = %s B", name, terms.bytes, commas(page, total));
    else
        formula(page, "%s = %s B", name, commas(page, total));
    kva_text_free(&terms);
}

static void totals(struct kva_page *page, const struct kva_plan *plan, const struct kva_layer_group *groups,
                   size_t n_groups)
{
    const struct kva_model *model = plan->model;
    const struct kva_deployment *d = &plan->deployment;
    kva_page_heading(page, "Totals");
    total_of(page, "need", groups, n_groups, false, plan->need);
    for (size_t p = 0; p < plan->n_pools; p++)
        formula(page, "allocated(%s) = blocks x bytes each = %" PRIu64 " x %s = %s B", plan->pools[p].name,
                plan->pools[p].blocks, commas(page, plan->pools[p].page_bytes), commas(page, plan->pools[p].bytes));
    formula(page, "allocated under %s = the sum of its pools = %s B", d->engine, commas(page, plan->allocated));
    formula(page, "overpay = allocated - need = %s B; allocated / need = %.3f", commas(page, plan->overpay),
            plan->overpay_ratio);
    if (plan->sharing_saved > 0)
        total_of(page, "sharing saved", groups, n_groups, true, plan->sharing_saved);
    formula(page,
            "naive = layers x kv_heads x (k_dim + v_dim) x bytes x context x sequences = %zu x %" PRIu64 " x (%" PRIu64
            " + %" PRIu64 ") x %" PRIu64 " x %" PRIu64 " x %" PRIu64 " = %s B",
            model->n_layers, model->naive_kv_heads, model->naive_k_dim, model->naive_v_dim,
            kva_dtype_bytes(d->kv_dtype), d->context, d->sequences, commas(page, plan->naive));
    formula(page, "one more token, one sequence = one row of every cache that still grows = %s B",
            commas(page, plan->bytes_per_token));
}

static enum kva_status write_page(struct kva_page *page, const void *subject, struct kva_error *error)
{
    const struct kva_plan *plan = subject;
    struct kva_layer_group *groups;
    size_t n_groups;
    enum kva_status status = kva_layer_groups(plan->model, plan, page->arena, &groups, &n_groups, error);
    if (status != KVA_OK)
        return status;
    kva_page_title(page, "%s: %s tokens, %s sequence%s, %s cache (%" PRIu64 " bytes an element)", plan->model->id,
                   commas(page, plan->deployment.context), commas(page, plan->deployment.sequences),
                   plan->deployment.sequences == 1 ? "" : "s", kva_dtype_name(plan->deployment.kv_dtype),
                   kva_dtype_bytes(plan->deployment.kv_dtype));
    for (size_t g = 0; g < n_groups && status == KVA_OK; g++)
        status = explain_group(page, plan, &groups[g], error);
    if (status != KVA_OK)
        return status;
    totals(page, plan, groups, n_groups);
    kva_page_values(page, plan->model, true);
    kva_page_list(page, "References", plan->model->references, plan->model->n_references);
    const char *heading = kva_arena_printf(page->arena, "What %s %s was read in (kvatlas engines %s has the titles)",
                                           plan->engine_name, plan->engine_version, plan->deployment.engine);
    page->out->failed = page->out->failed || heading == NULL;
    if (heading != NULL)
        kva_page_list(page, heading, plan->engine_references, plan->n_engine_references);
    kva_page_list(page, "Warnings", plan->model->warnings, plan->model->n_warnings);
    kva_page_list(page, "Assumed", plan->assumed, plan->n_assumed);
    return KVA_OK;
}

enum kva_status kva_report_explain(const struct kva_plan *plan, const struct kva_report_style *style,
                                   struct kva_text *out, struct kva_error *error)
{
    if (style->format == KVA_FORMAT_JSON)
        return kva_fail(error, KVA_BAD_INPUT, NULL, "--format", "explain writes text or md");
    return kva_page_write(style, out, write_page, plan, error);
}
