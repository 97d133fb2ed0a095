// What reports on plans say alike.
#ifndef KVA_REPORT_PLAN_WORDS_H
#define KVA_REPORT_PLAN_WORDS_H

#include "report/page.h"

// "vLLM 0.33.0"; a built-in policy by its id. In the page's arena.
const char *kva_engine_words(struct kva_page *page, const struct kva_plan *plan);

// Why the engine takes more than the need (or less), and what it holds for a moment. "" when there is nothing to say.
const char *kva_overpay_words(struct kva_page *page, const struct kva_plan *plan);

// What all of the plans assumed, once, and then what each one did, with its engine's name.
void kva_page_assumed(struct kva_page *page, struct kva_plan *const *plans, size_t n_plans);

// "1 sequence of 131,072 tokens, bf16 cache"
const char *kva_tokens_words(struct kva_page *page, const struct kva_deployment *deployment);

// A list of who refused, and why.
void kva_page_refused(struct kva_page *page, const struct kva_refusal *refusals, size_t n);

#endif
