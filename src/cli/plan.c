// kvatlas plan MODEL: need, allocated, overpay and sharing saved, for one policy or for several side by side.
#include "cli/cli.h"

enum kva_status kva_cli_plans(const struct kva_options *options, struct kva_atlas *atlas, const struct kva_model *model,
                              struct kva_plan **plans, size_t *n_plans, struct kva_error *error)
{
    struct kva_deployment deployment = options->deployment;
    do {
        deployment.engine = options->n_engines > 0 ? options->engines[*n_plans] : NULL;
        enum kva_status status = kva_plan_make(atlas, model, &deployment, &plans[*n_plans], error);
        if (status != KVA_OK)
            return status;
        ++*n_plans;
    } while (*n_plans < options->n_engines);
    return KVA_OK;
}

int kva_cli_plan(struct kva_options *options)
{
    if (options->ndjson)
        return kva_cli_stream(options);
    struct kva_error error = {0};
    struct kva_atlas *atlas = NULL;
    struct kva_model *model = NULL;
    struct kva_plan *plans[KVA_MAX_ENGINES] = {NULL};
    size_t n_plans = 0;
    struct kva_text text = {0};
    const struct kva_report_style style = kva_cli_style(options);
    enum kva_status status = kva_cli_open(options, &atlas, &model, &error);
    if (status == KVA_OK)
        status = kva_cli_plans(options, atlas, model, plans, &n_plans, &error);
    if (status == KVA_OK)
        status = kva_report_plans(plans, n_plans, &style, &text, &error);
    if (status == KVA_OK)
        status = kva_cli_write(options, &text, &error);
    if (status != KVA_OK)
        kva_cli_fail(&error);
    kva_text_free(&text);
    for (size_t p = 0; p < n_plans; p++)
        kva_plan_free(plans[p]);
    kva_cli_close(atlas, model);
    return (int)status;
}
