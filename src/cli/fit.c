// kvatlas fit MODEL --gpu GPU: does it fit, what is the most that does, and what would make it fit.
#include <string.h>

#include "base/error.h"
#include "cli/cli.h"

enum { MOST_CONTEXTS = 256 };

struct fits {
    struct kva_fit *fits[KVA_MAX_ENGINES];
    size_t n_fits;
    struct kva_cli_refusals refused;
};

// "8k,32k,131072" into contexts[MOST_CONTEXTS].
static enum kva_status parse_contexts(const char *text, uint64_t *contexts, size_t *n, struct kva_error *error)
{
    for (const char *at = text;; at++) {
        char word[32];
        const size_t length = strcspn(at, ",");
        if (length >= sizeof word || *n == MOST_CONTEXTS)
            return kva_fail(error, KVA_BAD_INPUT, NULL, "--contexts", "'%.60s' is not a list of at most %d contexts",
                            text, (int)MOST_CONTEXTS);
        memcpy(word, at, length);
        word[length] = '\0';
        if (!kva_parse_count(word, &contexts[*n]) || contexts[*n] == 0)
            return kva_fail(error, KVA_BAD_INPUT, NULL, "--contexts", "'%s' is not a context; write 8k,32k,131072",
                            word);
        ++*n;
        at += length;
        if (*at == '\0')
            return KVA_OK;
    }
}

static enum kva_status fit_all(const struct kva_options *options, struct kva_atlas *atlas,
                               const struct kva_model *model, const struct kva_fit_options *how, struct fits *fits,
                               struct kva_error *error)
{
    struct kva_cli_asked asked;
    enum kva_status status = kva_cli_asked(options, &asked, error);
    for (size_t e = 0; status == KVA_OK && e < asked.n; e++) {
        struct kva_deployment deployment = options->deployment;
        deployment.engine = asked.names[e];
        status = kva_fit_make(atlas, model, &deployment, how, &fits->fits[fits->n_fits], error);
        if (status == KVA_OK)
            fits->n_fits++;
        else
            status = kva_cli_refused(&asked, e, error, &fits->refused);
    }
    if (status != KVA_OK || fits->n_fits > 0)
        return status;
    *error = fits->refused.refusals[0].error;
    return error->status;
}

// 0 when it fits under every engine that was named, or under all of those that plan the model at all.
static enum kva_status verdict(const struct fits *fits)
{
    if (fits->refused.partial != KVA_OK)
        return fits->refused.partial;
    for (size_t f = 0; f < fits->n_fits; f++)
        if (!fits->fits[f]->fits)
            return KVA_MISMATCH;
    return KVA_OK;
}

int kva_cli_fit(struct kva_options *options)
{
    struct kva_error error = {0};
    struct kva_atlas *atlas = NULL;
    struct kva_model *model = NULL;
    struct fits fits = {0};
    struct kva_text text = {0};
    uint64_t contexts[MOST_CONTEXTS];
    struct kva_fit_options how = {.sweep = options->sweep || options->contexts != NULL, .contexts = contexts};
    const struct kva_report_style style = kva_cli_style(options);
    enum kva_status status = KVA_OK;
    if (options->contexts != NULL)
        status = parse_contexts(options->contexts, contexts, &how.n_contexts, &error);
    if (status == KVA_OK)
        status = kva_cli_open(options, &atlas, &model, &error);
    if (status == KVA_OK)
        status = fit_all(options, atlas, model, &how, &fits, &error);
    const struct kva_fit_set set = {fits.fits, fits.n_fits, fits.refused.refusals, fits.refused.n};
    if (status == KVA_OK)
        status = kva_report_fits(&set, &style, &text, &error);
    if (status == KVA_OK)
        status = kva_cli_write(options, &text, &error);
    if (status != KVA_OK)
        kva_cli_fail(&error);
    else
        status = verdict(&fits);
    kva_text_free(&text);
    for (size_t f = 0; f < fits.n_fits; f++)
        kva_fit_free(fits.fits[f]);
    kva_cli_close(atlas, model);
    return (int)status;
}
