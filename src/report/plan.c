// plan: what a model needs beside what a policy allocates.
#include <string.h>

#include "base/error.h"
#include "report/decode.h"
#include "report/page.h"
#include "report/plan_json.h"
#include "report/plan_words.h"
#include "report/words.h"

static uint64_t largest(const struct kva_plan_set *subject)
{
    uint64_t most = 0;
    for (size_t p = 0; p < subject->n_plans; p++) {
        const struct kva_plan *plan = subject->plans[p];
        most = plan->naive > most ? plan->naive : most;
        most = plan->allocated > most ? plan->allocated : most;
    }
    return most;
}

static void title(struct kva_page *page, const struct kva_plan *plan, const char *policy)
{
    char ranks[KVA_HUMAN];
    kva_page_title(page, "%s%s%s: %s%s%s%s", plan->model->id, *policy != '\0' ? " under " : "", policy,
                   kva_tokens_words(page, &plan->deployment), plan->ranks > 1 ? ", one of " : "",
                   plan->ranks > 1 ? kva_human_count(plan->ranks, ranks) : "", plan->ranks > 1 ? " ranks" : "");
}

// ---------------------------------------------------------------- one plan

static void figure(struct kva_page *page, struct kva_table *table, const char *label, uint64_t bytes, const char *bar,
                   const char *note)
{
    char human[KVA_HUMAN], digits[KVA_HUMAN];
    table->failed = table->failed || bar == NULL || note == NULL;
    if (table->failed)
        return;
    kva_table_cell(table, "%s", label);
    kva_table_cell(table, "%s", kva_human_bytes(bytes, human));
    kva_table_cell(table, "%s B", kva_human_count(bytes, digits));
    if (page->style->terminal)
        kva_table_cell(table, "%s", bar);
    kva_table_cell(table, "%s", note);
}

static void figure_columns(struct kva_page *page, struct kva_table *table)
{
    bool titled = page->style->format == KVA_FORMAT_MARKDOWN;
    kva_table_column(table, titled ? "what" : "", false);
    kva_table_column(table, titled ? "size" : "", true);
    kva_table_column(table, titled ? "bytes" : "", true);
    if (page->style->terminal)
        kva_table_column(table, "", false);
    kva_table_column(table, "", false);
}

// What the architecture alone decides, whatever the policy.
static void architecture_figures(struct kva_page *page, struct kva_table *table, const struct kva_plan *plan)
{
    char digits[KVA_HUMAN];
    if (plan->sharing_saved > 0)
        figure(page, table, "sharing saved", plan->sharing_saved, "",
               "what layers that read another layer's cache would need of their own");
    if (plan->state > 0)
        figure(page, table, "state", plan->state, "", "the part of need that no context makes larger");
    figure(page, table, "one more token", plan->bytes_per_token, "",
           kva_arena_printf(page->arena, "of one sequence; naive: %s B",
                            kva_human_count(plan->naive_bytes_per_token, digits)));
}

static void figures(struct kva_page *page, const struct kva_plan *plan, uint64_t most)
{
    const char *why = kva_overpay_words(page, plan);
    struct kva_arena *arena = page->arena;
    struct kva_table table = kva_page_new_table(page);
    char digits[KVA_HUMAN];
    figure_columns(page, &table);
    figure(page, &table, "naive", plan->naive, kva_page_bar(page, plan->naive, most),
           kva_arena_printf(arena, "%s layers, every one taken for full attention",
                            kva_human_count(plan->model->n_layers, digits)));
    figure(page, &table, "need", plan->need, kva_page_bar(page, plan->need, most), "what the architecture must keep");
    figure(page, &table, "allocated", plan->allocated, kva_page_bar(page, plan->allocated, most),
           kva_arena_printf(arena, "what %s sets aside for them", kva_engine_words(page, plan)));
    figure(page, &table, "overpay", plan->overpay, "",
           kva_arena_printf(arena, "allocated is %.3f x need%s%s", plan->overpay_ratio, *why != '\0' ? ": " : "", why));
    if (plan->unassigned > 0)
        figure(page, &table, "unassigned", plan->unassigned, "", "the part of allocated that no layer uses");
    if (plan->ranks > 1)
        figure(page, &table, "all ranks", plan->total_allocated, "",
               kva_arena_printf(arena, "for a need of %s B", kva_human_count(plan->total_need, digits)));
    architecture_figures(page, &table, plan);
    kva_page_table(page, &table);
}

static void pools(struct kva_page *page, const struct kva_plan *plan, const char *heading)
{
    struct kva_table table = kva_page_new_table(page);
    kva_table_column(&table, "pool", false);
    kva_table_column(&table, "blocks", true);
    kva_table_column(&table, "tokens each", true);
    kva_table_column(&table, "bytes each", true);
    kva_table_column(&table, "bytes", true);
    kva_table_column(&table, "layers", false);
    for (size_t p = 0; p < plan->n_pools; p++) {
        const struct kva_pool *pool = &plan->pools[p];
        const char *ranges = kva_layer_ranges(page->arena, pool->layers, pool->n_layers);
        table.failed = table.failed || ranges == NULL;
        kva_table_cell(&table, "%s", pool->name);
        kva_table_count(&table, pool->blocks);
        kva_table_count(&table, pool->block_tokens);
        kva_table_bytes(&table, pool->page_bytes);
        kva_table_bytes(&table, pool->bytes);
        kva_table_cell(&table, "%s", ranges != NULL ? ranges : "");
    }
    kva_page_section(page, &table, "%s", heading);
}

static void layers(struct kva_page *page, const struct kva_plan *plan)
{
    struct kva_table table = kva_page_new_table(page);
    kva_table_column(&table, "layer", true);
    kva_table_column(&table, "kind", false);
    kva_table_column(&table, "rows", true);
    kva_table_column(&table, "need", true);
    kva_table_column(&table, "allocated", true);
    kva_table_column(&table, "overpay", true);
    kva_table_column(&table, "sharing saved", true);
    kva_table_column(&table, "reads", false);
    for (size_t i = 0; i < plan->n_layers; i++) {
        const struct kva_layer_plan *layer = &plan->layers[i];
        kva_table_cell(&table, "%u", layer->index);
        kva_table_cell(&table, "%s", plan->model->layers[i].kind);
        kva_table_count(&table, layer->rows);
        kva_table_bytes(&table, layer->need);
        kva_table_bytes(&table, layer->allocated);
        kva_table_bytes(&table, kva_layer_overpay(layer));
        kva_table_bytes(&table, layer->sharing_saved);
        if (layer->reads_layer >= 0)
            kva_table_cell(&table, "layer %d", layer->reads_layer);
        else
            kva_table_cell(&table, "%s", "");
    }
    kva_page_section(page, &table, "Layers under %s, all sequences", kva_engine_words(page, plan));
}

static void count_row(struct kva_table *table, const char *label, uint64_t count, const char *note)
{
    char digits[KVA_HUMAN];
    if (count == KVA_UNKNOWN)
        return;
    kva_table_cell(table, "%s", label);
    kva_table_cell(table, "%s", kva_human_count(count, digits));
    kva_table_cell(table, "%s", note);
}

static void capacity(struct kva_page *page, const struct kva_plan *plan)
{
    const struct kva_capacity *capacity = &plan->capacity;
    struct kva_table table = kva_page_new_table(page);
    if (!capacity->known)
        return;
    bool titled = page->style->format == KVA_FORMAT_MARKDOWN;
    kva_table_column(&table, titled ? "what" : "", false);
    kva_table_column(&table, titled ? "number" : "", true);
    kva_table_column(&table, "", false);
    if (plan->deployment.kv_short > 0)
        count_row(&table, "missing", plan->deployment.kv_short,
                  "bytes: weights and allowances alone take more than there is");
    else {
        count_row(&table, "budget", capacity->budget, "bytes for caches on one rank");
        count_row(&table, "reserved", capacity->reserved, "of these, taken at start");
    }
    count_row(&table, "tokens", capacity->tokens, "as the engine counts them");
    count_row(&table, "sequences", capacity->sequences_at_context, "at this context");
    count_row(&table, "context", capacity->max_context, "the largest that the engine would start with");
    kva_page_section(page, &table, "Capacity: %s", capacity->fits ? "it fits" : "it does not fit");
    kva_page_list(page, "It refuses to start", &capacity->refusal, capacity->refusal != NULL ? 1 : 0);
}

static void prints(struct kva_page *page, const struct kva_plan *plan)
{
    const char **lines = kva_arena_alloc(page->arena, plan->n_prints + 1, sizeof *lines);
    page->out->failed = page->out->failed || lines == NULL;
    if (lines == NULL)
        return;
    for (size_t p = 0; p < plan->n_prints; p++)
        lines[p] = plan->prints[p].text;
    kva_page_list(page,
                  kva_page_words(page, "%s will print%s", kva_engine_words(page, plan),
                                 plan->capacity.estimated ? ", if weights and allowances are as assumed" : ""),
                  lines, plan->n_prints);
}

static void one(struct kva_page *page, const struct kva_plan *plan, uint64_t most)
{
    title(page, plan, kva_engine_words(page, plan));
    figures(page, plan, most);
    pools(page, plan, "Pools");
    capacity(page, plan);
    prints(page, plan);
    kva_page_decode(page, plan->decode);
    if (page->style->layers)
        layers(page, plan);
    kva_page_list(page, "Warnings", plan->model->warnings, plan->model->n_warnings);
    kva_page_list(page, "Assumed", plan->assumed, plan->n_assumed);
}

// ---------------------------------------------------------------- several plans

static void comparison_row(struct kva_page *page, struct kva_table *table, const char *name, uint64_t bytes,
                           uint64_t most)
{
    char human[KVA_HUMAN];
    const char *bar = kva_page_bar(page, bytes, most);
    table->failed = table->failed || bar == NULL;
    kva_table_cell(table, "%s", name);
    kva_table_cell(table, "%s", kva_human_bytes(bytes, human));
    kva_table_bytes(table, bytes);
    if (page->style->terminal)
        kva_table_cell(table, "%s", bar != NULL ? bar : "");
}

static void comparison(struct kva_page *page, const struct kva_plan_set *subject, uint64_t most)
{
    struct kva_table table = kva_page_new_table(page);
    const struct kva_plan *first = subject->plans[0];
    char digits[KVA_HUMAN];
    kva_table_column(&table, "policy", false);
    kva_table_column(&table, "allocated", true);
    kva_table_column(&table, "bytes", true);
    if (page->style->terminal)
        kva_table_column(&table, "", false);
    kva_table_column(&table, "overpay", true);
    kva_table_column(&table, "allocated / need", true);
    kva_table_column(&table, "why", false);
    comparison_row(page, &table, "(naive)", first->naive, most);
    for (int empty = 0; empty < 3; empty++)
        kva_table_cell(&table, "%s", "");
    comparison_row(page, &table, "(need)", first->need, most);
    for (int empty = 0; empty < 3; empty++)
        kva_table_cell(&table, "%s", "");
    for (size_t p = 0; p < subject->n_plans; p++) {
        const struct kva_plan *plan = subject->plans[p];
        comparison_row(page, &table, kva_engine_words(page, plan), plan->allocated, most);
        kva_table_bytes(&table, plan->overpay);
        kva_table_cell(&table, "%.3f", plan->overpay_ratio);
        const char *why = kva_overpay_words(page, plan);
        if (plan->need == first->need)
            kva_table_cell(&table, "%s", why);
        else
            kva_table_cell(&table, "%s cache, of which the need is %s B%s%s", plan->deployment.kv_type,
                           kva_human_count(plan->need, digits), *why != '\0' ? ": " : "", why);
    }
    title(page, first, "");
    kva_page_table(page, &table);
}

static void side_by_side(struct kva_page *page, const struct kva_plan_set *subject, uint64_t most)
{
    const struct kva_plan *first = subject->plans[0];
    struct kva_table table = kva_page_new_table(page);
    comparison(page, subject, most);
    figure_columns(page, &table);
    architecture_figures(page, &table, first);
    kva_page_section(page, &table, "Under any of them");
    // two are compared pool by pool; of more a person wants the table first, and --layers for the rest
    enum { POOLS_OF = 2 };
    for (size_t p = 0; p < subject->n_plans && (subject->n_plans <= POOLS_OF || page->style->layers); p++) {
        pools(page, subject->plans[p], kva_page_words(page, "Pools of %s", kva_engine_words(page, subject->plans[p])));
        if (page->style->layers)
            layers(page, subject->plans[p]);
    }
    kva_page_decode(page, first->decode);
    kva_page_list(page, "Warnings", first->model->warnings, first->model->n_warnings);
    kva_page_assumed(page, subject->plans, subject->n_plans);
}

static enum kva_status write_page(struct kva_page *page, const void *given, struct kva_error *error)
{
    (void)error;
    const struct kva_plan_set *subject = given;
    uint64_t most = largest(subject);
    if (subject->n_plans == 1 && subject->n_refusals == 0)
        one(page, subject->plans[0], most);
    else
        side_by_side(page, subject, most);
    kva_page_refused(page, subject->refusals, subject->n_refusals);
    return KVA_OK;
}

enum kva_status kva_report_plans(const struct kva_plan_set *set, const struct kva_report_style *style,
                                 struct kva_text *out, struct kva_error *error)
{
    if (style->format != KVA_FORMAT_JSON)
        return kva_page_write(style, out, write_page, set, error);
    kva_plans_json(set, style->compact, out);
    return out->failed ? kva_fail_memory(error, out->length) : KVA_OK;
}
