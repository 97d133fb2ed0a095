#include "report/plan_words.h"

#include <string.h>

#include "base/text.h"

const char *kva_engine_words(struct kva_page *page, const struct kva_plan *plan)
{
    const char *words = *plan->engine_version == '\0'
                            ? plan->deployment.engine
                            : kva_arena_printf(page->arena, "%s %s", plan->engine_name, plan->engine_version);
    page->out->failed = page->out->failed || words == NULL;
    return words != NULL ? words : "";
}

const char *kva_overpay_words(struct kva_page *page, const struct kva_plan *plan)
{
    char peak[KVA_HUMAN];
    const char *why = plan->overpay_why;
    if (plan->allocated < plan->need)
        why = "less than the need, which counts every row in the cache's type";
    if (plan->peak <= plan->allocated)
        return why;
    why = kva_arena_printf(page->arena, "%s%sholds %s while a prompt is fed in", why, *why != '\0' ? "; " : "",
                           kva_human_bytes(plan->peak, peak));
    page->out->failed = page->out->failed || why == NULL;
    return why != NULL ? why : "";
}

static bool plan_assumes(const struct kva_plan *plan, const char *line)
{
    for (size_t a = 0; a < plan->n_assumed; a++)
        if (strcmp(plan->assumed[a], line) == 0)
            return true;
    return false;
}

// What all of them assumed, once, and then what each one did.
void kva_page_assumed(struct kva_page *page, struct kva_plan *const *plans, size_t n_plans)
{
    const char **lines = kva_arena_alloc(page->arena, n_plans * KVA_MAX_ASSUMED + 1, sizeof *lines);
    size_t n_lines = 0;
    page->out->failed = page->out->failed || lines == NULL;
    for (int common = 1; lines != NULL && common >= 0; common--)
        for (size_t p = 0; p < (common ? 1 : n_plans); p++) {
            const struct kva_plan *plan = plans[p];
            for (size_t a = 0; a < plan->n_assumed; a++) {
                bool by_all = true;
                for (size_t q = 0; q < n_plans; q++)
                    by_all = by_all && plan_assumes(plans[q], plan->assumed[a]);
                if (by_all && common)
                    lines[n_lines++] = plan->assumed[a];
                else if (!by_all && !common)
                    lines[n_lines++] =
                        kva_arena_printf(page->arena, "%s: %s", kva_engine_words(page, plan), plan->assumed[a]);
                page->out->failed = page->out->failed || (n_lines > 0 && lines[n_lines - 1] == NULL);
            }
        }
    if (!page->out->failed)
        kva_page_list(page, "Assumed", lines, n_lines);
}

const char *kva_tokens_words(struct kva_page *page, const struct kva_deployment *deployment)
{
    char sequences[KVA_HUMAN], context[KVA_HUMAN];
    return kva_page_words(page, "%s sequence%s of %s tokens, %s cache",
                          kva_human_count(deployment->sequences, sequences), deployment->sequences == 1 ? "" : "s",
                          kva_human_count(deployment->context, context),
                          deployment->kv_type != NULL ? deployment->kv_type : kva_dtype_name(deployment->kv_dtype));
}

void kva_page_refused(struct kva_page *page, const struct kva_refusal *refusals, size_t n)
{
    const char **lines = kva_arena_alloc(page->arena, n + 1, sizeof *lines);
    page->out->failed = page->out->failed || lines == NULL;
    for (size_t r = 0; lines != NULL && r < n; r++) {
        char line[1024];
        lines[r] =
            kva_page_words(page, "%s: %s", refusals[r].engine, kva_error_line(&refusals[r].error, line, sizeof line));
    }
    kva_page_list(page, "Not planned", lines, lines != NULL ? n : 0);
}
