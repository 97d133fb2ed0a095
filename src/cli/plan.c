// kvatlas plan MODEL: need, allocated, overpay and sharing saved, for one policy or for several side by side.
#include <string.h>

#include "cli/cli.h"

static bool is_all(const char *name)
{
    return name != NULL && strcmp(name, "all") == 0;
}

void kva_cli_plans_free(struct kva_cli_plans *plans)
{
    for (size_t p = 0; p < plans->n_plans; p++)
        kva_plan_free(plans->plans[p]);
    *plans = (struct kva_cli_plans){0};
}

// One engine. What it refuses is kept beside the plans where others were asked too.
static enum kva_status add(const struct kva_options *options, struct kva_atlas *atlas, const struct kva_model *model,
                           const char *engine, bool alone, struct kva_cli_plans *plans, struct kva_error *error)
{
    struct kva_deployment deployment = options->deployment;
    deployment.engine = engine;
    enum kva_status status = kva_plan_make(atlas, model, &deployment, &plans->plans[plans->n_plans], error);
    if (status == KVA_OK)
        plans->n_plans++;
    if (status == KVA_OK || status == KVA_MACHINE || alone || plans->n_refusals == KVA_MAX_ENGINES)
        return status;
    plans->refusals[plans->n_refusals++] = (struct kva_refusal){.engine = engine, .error = *error};
    *error = (struct kva_error){0};
    return KVA_OK;
}

enum kva_status kva_cli_plans(const struct kva_options *options, struct kva_atlas *atlas, const struct kva_model *model,
                              struct kva_cli_plans *plans, struct kva_error *error)
{
    const size_t n_asked = options->n_engines > 0 ? options->n_engines : 1;
    enum kva_status status = KVA_OK;
    bool all = false;
    for (size_t e = 0; status == KVA_OK && e < n_asked; e++) {
        const char *engine = options->n_engines > 0 ? options->engines[e] : NULL;
        if (!is_all(engine)) {
            status = add(options, atlas, model, engine, n_asked == 1, plans, error);
            continue;
        }
        all = true;
        for (size_t i = 0; status == KVA_OK && kva_engine_name(i) != NULL && plans->n_plans < KVA_MAX_ENGINES; i++)
            status = add(options, atlas, model, kva_engine_name(i), false, plans, error);
    }
    if (status != KVA_OK || plans->n_refusals == 0 || (plans->n_plans > 0 && all))
        return status;
    if (plans->n_plans > 0) {  // named, and not planned: what was planned is still shown
        plans->partial = plans->refusals[0].error.status;
        return KVA_OK;
    }
    *error = plans->refusals[0].error;
    return error->status;
}

struct kva_plan_set kva_cli_plan_set(const struct kva_cli_plans *plans)
{
    return (struct kva_plan_set){plans->plans, plans->n_plans, plans->refusals, plans->n_refusals};
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
    else if (plans.partial != KVA_OK || !all_fit(&plans))
        status = plans.partial != KVA_OK ? plans.partial : KVA_MISMATCH;
    kva_text_free(&text);
    kva_cli_plans_free(&plans);
    kva_cli_close(atlas, model);
    return (int)status;
}
