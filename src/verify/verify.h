// Shared by the verify room's files.
#ifndef KVA_VERIFY_H
#define KVA_VERIFY_H

#include "kvatlas.h"

// Replaces what *plan predicts by what a saved plan (`kvatlas plan --format json`) says. Errors: KVA_BAD_INPUT with
// file and key: not such a plan, or of another model, engine, context or number of sequences.
enum kva_status kva_plan_overlay(const char *path, struct kva_plan *plan, struct kva_error *error);

// Token ids of a case: [sum of lengths] and [sequences].
struct kva_prompt {
    uint32_t *tokens;
    uint64_t *lengths;
    uint64_t sequences, total, longest;
};
enum kva_status kva_prompt_make(const struct kva_case *spec, uint64_t vocab, struct kva_prompt *prompt,
                                struct kva_error *error);
void kva_prompt_free(struct kva_prompt *prompt);

// Level 5: the largest absolute difference to the reference's logits, into *result.
enum kva_status kva_reference_compare(const struct kva_case *spec, struct kva_result *result, struct kva_error *error);

// How many of `tokens` a reference decodes after: tokens less the rows of its decode_logits. 0: it cannot be told.
uint64_t kva_reference_prefill(const char *path, uint64_t tokens);

#endif
