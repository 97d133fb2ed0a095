// fit: whether a model fits on a GPU, what is the most that does, and what would make it fit.
#include <string.h>

#include "base/error.h"
#include "report/decode.h"
#include "report/fit_json.h"
#include "report/page.h"
#include "report/plan_words.h"
#include "report/words.h"

static const char *gpu_words(struct kva_page *page, const struct kva_plan *plan)
{
    const struct kva_deployment *deployment = &plan->deployment;
    const char *name = deployment->gpu_facts != NULL ? deployment->gpu_facts->id : "a GPU";
    char bytes[KVA_HUMAN];
    if (deployment->gpu_bytes == 0)
        return kva_page_words(page, "in %s for caches", kva_human_bytes(deployment->kv_bytes, bytes));
    return plan->ranks > 1 ? kva_page_words(page, "on %llu x %s", (unsigned long long)plan->ranks, name)
                           : kva_page_words(page, "on %s", name);
}

static void title(struct kva_page *page, const struct kva_plan *plan, const char *engine)
{
    kva_page_title(page, "%s %s%s%s: %s", plan->model->id, gpu_words(page, plan), *engine != '\0' ? " under " : "",
                   engine, kva_tokens_words(page, &plan->deployment));
}

static const char *count_words(struct kva_page *page, uint64_t count)
{
    char digits[KVA_HUMAN];
    return count == KVA_UNKNOWN ? "any"
           : count == 0         ? "none"
                                : kva_page_words(page, "%s", kva_human_count(count, digits));
}

// ---------------------------------------------------------------- one engine

static void memory_row(struct kva_table *table, const char *label, uint64_t bytes, const char *note)
{
    char human[KVA_HUMAN], digits[KVA_HUMAN];
    if (bytes == 0)
        return;
    kva_table_cell(table, "%s", label);
    kva_table_cell(table, "%s", bytes == KVA_UNKNOWN ? "unknown" : kva_human_bytes(bytes, human));
    kva_table_cell(table, "%s%s", bytes == KVA_UNKNOWN ? "" : kva_human_count(bytes, digits),
                   bytes == KVA_UNKNOWN ? "" : " B");
    kva_table_cell(table, "%s", note);
}

static void memory(struct kva_page *page, const struct kva_fit *fit)
{
    const struct kva_plan *plan = fit->plan;
    const struct kva_deployment *deployment = &plan->deployment;
    const char *why = kva_overpay_words(page, plan);
    struct kva_table table = kva_page_new_table(page);
    const bool titled = page->style->format == KVA_FORMAT_MARKDOWN;
    kva_table_column(&table, titled ? "memory of a GPU" : "", false);
    kva_table_column(&table, titled ? "size" : "", true);
    kva_table_column(&table, titled ? "bytes" : "", true);
    kva_table_column(&table, "", false);
    memory_row(&table, "memory", deployment->gpu_bytes,
               deployment->memory_fraction > 0
                   ? kva_page_words(page, "of which the engine's fraction is %g", deployment->memory_fraction)
                   : "");
    if (deployment->gpu_bytes > 0) {
        memory_row(&table, "weights", deployment->weight_bytes, "");
        memory_row(&table, "activations", deployment->activation_bytes, "an allowance or as said");
        memory_row(&table, "CUDA graphs", deployment->graph_bytes, "an allowance or as said");
        memory_row(&table, "other", deployment->other_bytes, "an allowance or as said");
    }
    if (!fit->weights_too_large)
        memory_row(&table, "left for caches", plan->capacity.budget, "");
    memory_row(&table, "these caches", plan->allocated - plan->outside,
               kva_page_words(page, "%.3f x need%s%s", plan->overpay_ratio, *why != '\0' ? ": " : "", why));
    memory_row(&table, "beside them", plan->outside, "tables of the engine, from what its fraction leaves");
    kva_page_table(page, &table);
}

static const char *context_ends(struct kva_page *page, const struct kva_fit *fit)
{
    const struct kva_deployment *deployment = &fit->plan->deployment;
    char sequences[KVA_HUMAN];
    return kva_page_words(page, "for %s sequence%s%s", kva_human_count(deployment->sequences, sequences),
                          deployment->sequences == 1 ? "" : "s", fit->limited_by_model ? ": the model's limit" : "");
}

static void answers(struct kva_page *page, const struct kva_fit *fit)
{
    char digits[KVA_HUMAN];
    struct kva_table table = kva_page_new_table(page);
    const bool titled = page->style->format == KVA_FORMAT_MARKDOWN;
    kva_table_column(&table, titled ? "the most that fits" : "", false);
    kva_table_column(&table, titled ? "number" : "", true);
    kva_table_column(&table, "", false);
    kva_table_cell(&table, "%s", "largest context");
    kva_table_cell(&table, "%s", count_words(page, fit->max_context));
    kva_table_cell(&table, "%s", context_ends(page, fit));
    kva_table_cell(&table, "%s", "most sequences");
    kva_table_cell(&table, "%s", count_words(page, fit->max_sequences));
    kva_table_cell(&table, "at %s tokens", kva_human_count(fit->plan->deployment.context, digits));
    kva_page_section(page, &table, "%s",
                     fit->fits                ? "It fits"
                     : fit->weights_too_large ? "It does not fit: the weights and allowances leave nothing for caches"
                                              : "It does not fit");
    kva_page_list(page, "The engine refuses to start", &fit->plan->capacity.refusal,
                  fit->plan->capacity.refusal != NULL ? 1 : 0);
}

static void knobs(struct kva_page *page, const struct kva_fit *fit)
{
    struct kva_table table = kva_page_new_table(page);
    if (fit->fits)
        return;
    kva_table_column(&table, "change", false);
    kva_table_column(&table, "now", false);
    kva_table_column(&table, "what it takes", false);
    for (size_t k = 0; k < fit->n_knobs; k++) {
        kva_table_cell(&table, "%s %s", fit->knobs[k].flag, fit->knobs[k].value);
        kva_table_cell(&table, "%s", fit->knobs[k].now);
        kva_table_cell(&table, "%s", fit->knobs[k].cost);
    }
    if (fit->n_knobs == 0)
        kva_page_paragraph(page, "No single change makes %s fit.", kva_engine_words(page, fit->plan));
    else
        kva_page_section(page, &table, "Any one of these makes %s fit", kva_engine_words(page, fit->plan));
}

static void one(struct kva_page *page, const struct kva_fit *fit)
{
    title(page, fit->plan, kva_engine_words(page, fit->plan));
    memory(page, fit);
    answers(page, fit);
    knobs(page, fit);
}

// ---------------------------------------------------------------- several engines

static void side_by_side(struct kva_page *page, const struct kva_fit_set *set)
{
    struct kva_table table = kva_page_new_table(page);
    kva_table_column(&table, "engine", false);
    kva_table_column(&table, "fits", false);
    kva_table_column(&table, "for caches", true);
    kva_table_column(&table, "allocated", true);
    kva_table_column(&table, "largest context", true);
    kva_table_column(&table, "most sequences", true);
    kva_table_column(&table, "overpay", true);
    kva_table_column(&table, "why", false);
    for (size_t f = 0; f < set->n_fits; f++) {
        const struct kva_fit *fit = set->fits[f];
        char human[KVA_HUMAN];
        kva_table_cell(&table, "%s", kva_engine_words(page, fit->plan));
        kva_table_cell(&table, "%s", fit->fits ? "yes" : "no");
        kva_table_cell(&table, "%s",
                       fit->weights_too_large ? "none" : kva_human_bytes(fit->plan->capacity.budget, human));
        kva_table_cell(&table, "%s", kva_human_bytes(fit->plan->allocated, human));
        kva_table_cell(&table, "%s", count_words(page, fit->max_context));
        kva_table_cell(&table, "%s", count_words(page, fit->max_sequences));
        kva_table_cell(&table, "%s", kva_human_bytes(fit->plan->overpay, human));
        kva_table_cell(&table, "%s",
                       fit->plan->capacity.refusal != NULL ? fit->plan->capacity.refusal
                                                           : kva_overpay_words(page, fit->plan));
    }
    title(page, set->fits[0]->plan, "");
    kva_page_table(page, &table);
    for (size_t f = 0; f < set->n_fits; f++)
        knobs(page, set->fits[f]);
}

// ---------------------------------------------------------------- sweeps

static void sweep(struct kva_page *page, const struct kva_fit_set *set)
{
    struct kva_table table = kva_page_new_table(page);
    kva_table_column(&table, "context", true);
    kva_table_column(&table, "engine", false);
    kva_table_column(&table, "need", true);
    kva_table_column(&table, "allocated", true);
    kva_table_column(&table, "for caches", true);
    kva_table_column(&table, "fits", false);
    kva_table_column(&table, "most sequences", true);
    for (size_t p = 0; p < set->fits[0]->n_points; p++)
        for (size_t f = 0; f < set->n_fits; f++) {
            const struct kva_fit_point *point = &set->fits[f]->points[p];
            char human[KVA_HUMAN];
            kva_table_count(&table, point->context);
            kva_table_cell(&table, "%s", kva_engine_words(page, set->fits[f]->plan));
            kva_table_cell(&table, "%s", point->planned ? kva_human_bytes(point->need, human) : "");
            kva_table_cell(&table, "%s", point->planned ? kva_human_bytes(point->allocated, human) : "");
            kva_table_cell(&table, "%s", point->planned ? kva_human_bytes(point->budget, human) : "");
            kva_table_cell(&table, "%s", point->fits ? "yes" : point->planned ? "no" : point->refusal);
            kva_table_cell(&table, "%s", point->planned ? count_words(page, point->max_sequences) : "");
        }
    kva_page_section(page, &table, "By context");
}

// ---------------------------------------------------------------- all of it

static void assumed(struct kva_page *page, const struct kva_fit_set *set)
{
    struct kva_plan **plans = kva_arena_alloc(page->arena, set->n_fits + 1, sizeof *plans);
    page->out->failed = page->out->failed || plans == NULL;
    for (size_t f = 0; plans != NULL && f < set->n_fits; f++)
        plans[f] = set->fits[f]->plan;
    if (plans != NULL)
        kva_page_assumed(page, plans, set->n_fits);
}

static enum kva_status write_page(struct kva_page *page, const void *given, struct kva_error *error)
{
    (void)error;
    const struct kva_fit_set *set = given;
    const struct kva_plan *first = set->fits[0]->plan;
    if (set->n_fits == 1 && set->n_refusals == 0)
        one(page, set->fits[0]);
    else
        side_by_side(page, set);
    sweep(page, set);
    kva_page_decode(page, first->decode);
    kva_page_list(page, "Warnings", first->model->warnings, first->model->n_warnings);
    assumed(page, set);
    kva_page_refused(page, set->refusals, set->n_refusals);
    return KVA_OK;
}

enum kva_status kva_report_fits(const struct kva_fit_set *set, const struct kva_report_style *style,
                                struct kva_text *out, struct kva_error *error)
{
    if (style->format != KVA_FORMAT_JSON)
        return kva_page_write(style, out, write_page, set, error);
    kva_fits_json(set, out);
    return out->failed ? kva_fail_memory(error, out->length) : KVA_OK;
}
