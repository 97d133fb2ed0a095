// The tokens of a case: a file's, or seeded random ones.
#include <stdlib.h>

#include "base/checked.h"
#include "base/error.h"
#include "verify/verify.h"

enum { MAX_PROMPT = 1 << 28 };

// xorshift64*, https://vigna.di.unimi.it/ftp/papers/xorshift.pdf: any stream does, as long as it is the same
// everywhere.
static uint64_t next(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

static enum kva_status make_random(const struct kva_case *spec, uint64_t vocab, struct kva_prompt *prompt,
                                   struct kva_error *error)
{
    prompt->sequences = spec->sequences;
    if (!kva_mul(spec->prompt_length, spec->sequences, &prompt->total) || prompt->total > MAX_PROMPT)
        return kva_fail(error, KVA_BAD_INPUT, NULL, "--prompt-length", "asks for more than %d tokens in all",
                        MAX_PROMPT);
    prompt->tokens = malloc((prompt->total + 1) * sizeof *prompt->tokens);
    prompt->lengths = malloc(prompt->sequences * sizeof *prompt->lengths);
    if (prompt->tokens == NULL || prompt->lengths == NULL)
        return kva_fail_memory(error, prompt->total * sizeof *prompt->tokens);
    uint64_t state = spec->seed * 2 + 1;
    for (uint64_t i = 0; i < prompt->total; i++)
        prompt->tokens[i] = (uint32_t)((next(&state) >> 16) % vocab);
    for (uint64_t s = 0; s < prompt->sequences; s++)
        prompt->lengths[s] = spec->prompt_length;
    return KVA_OK;
}

enum kva_status kva_prompt_make(const struct kva_case *spec, uint64_t vocab, struct kva_prompt *prompt,
                                struct kva_error *error)
{
    *prompt = (struct kva_prompt){0};
    const char *file = spec->tokens_file != NULL ? spec->tokens_file : spec->reference;
    enum kva_status status = file != NULL
                                 ? kva_tokens_read(file, &prompt->tokens, &prompt->lengths, &prompt->sequences, error)
                                 : make_random(spec, vocab, prompt, error);
    if (status == KVA_OK && file != NULL && spec->sequences > 1 && prompt->sequences != spec->sequences)
        status = kva_fail(error, KVA_BAD_INPUT, file, NULL, "holds %llu sequences, --sequences asks for %llu",
                          (unsigned long long)prompt->sequences, (unsigned long long)spec->sequences);
    if (status != KVA_OK) {
        kva_prompt_free(prompt);
        return status;
    }
    prompt->total = prompt->longest = 0;
    for (uint64_t s = 0; s < prompt->sequences; s++) {
        prompt->total += prompt->lengths[s];
        prompt->longest = kva_max(prompt->longest, prompt->lengths[s]);
    }
    return KVA_OK;
}

void kva_prompt_free(struct kva_prompt *prompt)
{
    free(prompt->tokens);
    free(prompt->lengths);
    *prompt = (struct kva_prompt){0};
}
