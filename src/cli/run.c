// kvatlas run MODEL: execute it; predicted and measured side by side.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/case.h"
#include "cli/cli.h"
#include "report/result.h"

int kva_cli_run(struct kva_options *options)
{
    struct kva_error error = {0};
    struct kva_atlas *atlas = NULL;
    struct kva_result result = {0};
    struct kva_text text = {0};
    struct kva_report_style style = kva_cli_style(options);
    struct kva_case spec = kva_cli_case(options, options->arguments[0]);
    enum kva_status status = kva_cli_one_policy(options, &error);
    if (status == KVA_OK)
        status = kva_atlas_open(options->data, &atlas, &error);
    if (status == KVA_OK)
        status = kva_case_run(atlas, &spec, &result, &error);
    kva_cli_progress_end();
    if (status == KVA_OK && options->logits != NULL)
        status = kva_report_logits(&result, options->logits, &error);
    if (status == KVA_OK)
        status = kva_report_run(&result, &style, &text, &error);
    if (status == KVA_OK)
        status = kva_cli_write(options, &text, &error);
    if (status != KVA_OK)
        kva_cli_fail(&error);
    else if (!result.matches)
        status = KVA_MISMATCH;
    kva_text_free(&text);
    kva_result_free(&result);
    kva_atlas_close(atlas);
    return (int)status;
}
