// kvatlas explain MODEL: the formula of every number, with references.
#include "base/error.h"
#include "cli/cli.h"

int kva_cli_explain(struct kva_options *options)
{
    struct kva_error error = {0};
    struct kva_atlas *atlas = NULL;
    struct kva_model *model = NULL;
    struct kva_plan *plan = NULL;
    struct kva_text text = {0};
    const struct kva_report_style style = kva_cli_style(options);
    struct kva_deployment deployment = options->deployment;
    deployment.engine = options->engines[0];
    enum kva_status status = KVA_OK;
    if (options->n_engines > 1)
        status =
            kva_fail(&error, KVA_BAD_INPUT, NULL, "--engine", "explain takes one, %zu were given", options->n_engines);
    if (status == KVA_OK)
        status = kva_cli_open(options, &atlas, &model, &error);
    if (status == KVA_OK)
        status = kva_plan_make(atlas, model, &deployment, &plan, &error);
    if (status == KVA_OK)
        status = kva_report_explain(plan, &style, &text, &error);
    if (status == KVA_OK)
        status = kva_cli_write(options, &text, &error);
    if (status != KVA_OK)
        kva_cli_fail(&error);
    kva_text_free(&text);
    kva_plan_free(plan);
    kva_cli_close(atlas, model);
    return (int)status;
}
