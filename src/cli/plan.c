// kvatlas plan MODEL: need, allocated, overpay and sharing saved, for one policy or for several side by side.
#include "cli/cli.h"

void kva_cli_plans_free(struct kva_cli_plans *plans)
{
    for (size_t p = 0; p < plans->n_plans; p++)
        kva_plan_free(plans->plans[p]);
    *plans = (struct kva_cli_plans){0};
}

enum kva_status kva_cli_plans(const struct kva_options *options, struct kva_atlas *atlas, const struct kva_model *model,
                              struct kva_cli_plans *plans, struct kva_error *error)
{
    struct kva_cli_asked asked;
    enum kva_status status = kva_cli_asked(options, &asked, error);
    for (size_t e = 0; status == KVA_OK && e < asked.n; e++) {
        struct kva_deployment deployment = options->deployment;
        deployment.engine = asked.names[e];
        status = kva_plan_make(atlas, model, &deployment, &plans->plans[plans->n_plans], error);
        if (status == KVA_OK)
            plans->n_plans++;
        else
            status = kva_cli_refused(&asked, e, error, &plans->refused);
    }
    if (status != KVA_OK || plans->n_plans > 0)
        return status;
    *error = plans->refused.refusals[0].error;
    return error->status;
}

struct kva_plan_set kva_cli_plan_set(const struct kva_cli_plans *plans)
{
    return (struct kva_plan_set){plans->plans, plans->n_plans, plans->refused.refusals, plans->refused.n};
}

// With a budget a plan says whether it fits, and so does the exit status.
static bool all_fit(const struct kva_cli_plans *plans)
{
    bool fit = true;
    for (size_t p = 0; p < plans->n_plans; p++)
        fit = fit && (!plans->plans[p]->capacity.known || plans->plans[p]->capacity.fits);
    return fit;
}

int kva_cli_plan(struct kva_options *options)
{
    if (options->ndjson)
        return kva_cli_stream(options);
    struct kva_error error = {0};
    struct kva_atlas *atlas = NULL;
    struct kva_model *model = NULL;
    struct kva_cli_plans plans = {0};
    struct kva_text text = {0};
    const struct kva_report_style style = kva_cli_style(options);
    enum kva_status status = kva_cli_open(options, &atlas, &model, &error);
    if (status == KVA_OK)
        status = kva_cli_plans(options, atlas, model, &plans, &error);
    const bool decode = options->decode_cost || options->deployment.gpu != NULL;
    for (size_t p = 0; status == KVA_OK && decode && p < plans.n_plans; p++)
        status = kva_decode_cost(plans.plans[p], &error);
    const struct kva_plan_set set = kva_cli_plan_set(&plans);
    if (status == KVA_OK)
        status = kva_report_plans(&set, &style, &text, &error);
    if (status == KVA_OK)
        status = kva_cli_write(options, &text, &error);
    if (status != KVA_OK)
        kva_cli_fail(&error);
    else
        status = plans.refused.partial != KVA_OK ? plans.refused.partial : all_fit(&plans) ? KVA_OK : KVA_MISMATCH;
    kva_text_free(&text);
    kva_cli_plans_free(&plans);
    kva_cli_close(atlas, model);
    return (int)status;
}
