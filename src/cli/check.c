// kvatlas check LOG: an engine's startup log against the plan.
#include "base/error.h"
#include "cli/cli.h"

static enum kva_status write_files(const struct kva_options *options, const struct kva_check_result *result,
                                   struct kva_error *error)
{
    enum kva_status status = KVA_OK;
    const struct kva_report_style style = {.format = KVA_FORMAT_JSON};
    const struct kva_options json = {.output = options->json}, junit = {.output = options->junit};
    struct kva_text text = {0};
    if (options->json != NULL) {
        status = kva_report_check(result, &style, &text, error);
        if (status == KVA_OK)
            status = kva_cli_write(&json, &text, error);
        kva_text_free(&text);
    }
    if (status == KVA_OK && options->junit != NULL) {
        status = kva_report_check_junit(result, &text, error);
        if (status == KVA_OK)
            status = kva_cli_write(&junit, &text, error);
        kva_text_free(&text);
    }
    return status;
}

static enum kva_status check(const struct kva_options *options, struct kva_atlas *atlas,
                             struct kva_check_result *result, struct kva_error *error)
{
    struct kva_deployment deployment = options->deployment;
    const struct kva_model_options how = kva_cli_how(options);
    if (options->n_engines > 1)
        return kva_fail(error, KVA_BAD_INPUT, NULL, "--engine", "a log is of one engine");
    deployment.engine = options->n_engines > 0 ? options->engines[0] : NULL;
    return kva_check_log(
        atlas,
        &(struct kva_check_options){
            .log = options->arguments[0], .model = options->model, .how = &how, .deployment = &deployment},
        result, error);
}

int kva_cli_check(struct kva_options *options)
{
    static const enum kva_status STATUS[] = {[KVA_VERDICT_UNKNOWN] = KVA_REFUSED,
                                             [KVA_VERDICT_MATCH] = KVA_OK,
                                             [KVA_VERDICT_MISMATCH] = KVA_MISMATCH,
                                             [KVA_VERDICT_GIVEN] = KVA_REFUSED};
    struct kva_error error = {0};
    struct kva_atlas *atlas = NULL;
    struct kva_check_result result = {0};
    struct kva_text text = {0};
    const struct kva_report_style style = kva_cli_style(options);
    enum kva_status status = kva_atlas_open(options->data, &atlas, &error);
    if (status == KVA_OK)
        status = check(options, atlas, &result, &error);
    if (status == KVA_OK)
        status = kva_report_check(&result, &style, &text, &error);
    if (status == KVA_OK)
        status = kva_cli_write(options, &text, &error);
    if (status == KVA_OK)
        status = write_files(options, &result, &error);
    if (status != KVA_OK)
        kva_cli_fail(&error);
    else
        status = STATUS[result.verdict];
    kva_text_free(&text);
    kva_check_result_free(&result);
    kva_cli_close(atlas, NULL);
    return (int)status;
}
