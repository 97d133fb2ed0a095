// kvatlas gpus [QUERY]: the accelerators that --gpu names.
#include <stdlib.h>

#include "cli/cli.h"

int kva_cli_gpus(struct kva_options *options)
{
    struct kva_error error = {0};
    struct kva_atlas *atlas = NULL;
    const struct kva_gpu **gpus = NULL;
    size_t n_gpus = 0;
    struct kva_text text = {0};
    const struct kva_report_style style = kva_cli_style(options);
    const char *query = options->n_arguments > 0 ? options->arguments[0] : NULL;
    enum kva_status status = kva_atlas_open(options->data, &atlas, &error);
    if (status == KVA_OK)
        status = kva_gpus_open(atlas, query, &gpus, &n_gpus, &error);
    if (status == KVA_OK)
        status = kva_report_gpus(gpus, n_gpus, &style, &text, &error);
    if (status == KVA_OK)
        status = kva_cli_write(options, &text, &error);
    if (status != KVA_OK)
        kva_cli_fail(&error);
    kva_text_free(&text);
    free(gpus);
    kva_atlas_close(atlas);
    return (int)status;
}
