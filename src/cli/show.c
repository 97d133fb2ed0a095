// kvatlas show MODEL: what each layer caches, and why.
#include "cli/cli.h"

int kva_cli_show(struct kva_options *options)
{
    struct kva_error error = {0};
    struct kva_atlas *atlas = NULL;
    struct kva_model *model = NULL;
    struct kva_plan *plan = NULL;
    struct kva_text text = {0};
    const struct kva_report_style style = kva_cli_style(options);
    enum kva_status status = kva_cli_open(options, &atlas, &model, &error);
    if (status == KVA_OK && model->context_limit > 0)
        status =
            kva_plan_make(atlas, model, &(struct kva_deployment){.engine = "exact", .sequences = 1}, &plan, &error);
    if (status == KVA_OK)
        status = kva_report_show(model, plan, &style, &text, &error);
    if (status == KVA_OK)
        status = kva_cli_write(options, &text, &error);
    if (status != KVA_OK)
        kva_cli_fail(&error);
    kva_text_free(&text);
    kva_plan_free(plan);
    kva_cli_close(atlas, model);
    return (int)status;
}
