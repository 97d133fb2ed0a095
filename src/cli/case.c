#include "cli/case.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/error.h"

// Long work shows itself on standard error, on a terminal only.
static void progress(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)user;
    if (total > 0 && isatty(STDERR_FILENO)) {
        fprintf(stderr, "\r%-10s %3" PRIu64 " %%", what, (uint64_t)((double)done / (double)total * 100));
        fflush(stderr);
    }
}

void kva_cli_progress_end(void)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K");
}

struct kva_case kva_cli_case(const struct kva_options *options, const char *model)
{
    return (struct kva_case){.model = model,
                             .depth = options->depth,
                             .backend = options->backend,
                             .dtype = options->dtype,
                             .policy = options->n_engines > 0 ? options->engines[0] : NULL,
                             .context = options->context,
                             .sequences = options->sequences,
                             .prompt_length = options->prompt_length,
                             .decode = options->decode,
                             .tokens_file = options->tokens,
                             .prefill = options->prefill,
                             .reference_form = kva_given(options, KVA_FLAG_PREFILL) || options->logits != NULL,
                             .reference = options->reference,
                             .plan_file = options->plan,
                             .weights = options->weights,
                             .seed = options->seed,
                             .chunk = options->chunk,
                             .no_prune = options->no_prune,
                             .profile = options->profile,
                             .progress = progress};
}

enum kva_status kva_cli_one_policy(const struct kva_options *options, struct kva_error *error)
{
    if (options->n_engines > 1)
        return kva_fail(error, KVA_BAD_INPUT, NULL, "--policy", "run executes one policy; verify compares several");
    return KVA_OK;
}
