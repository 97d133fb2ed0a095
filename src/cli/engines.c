// kvatlas engines [ENGINE]: which engines and versions are known, and how one of them behaves, with references.
#include "cli/cli.h"

int kva_cli_engines(struct kva_options *options)
{
    struct kva_error error = {0};
    struct kva_atlas *atlas = NULL;
    struct kva_engine_info *infos[KVA_MAX_ENGINES] = {NULL};
    size_t n_infos = 0;
    struct kva_text text = {0};
    const struct kva_report_style style = kva_cli_style(options);
    enum kva_status status = kva_atlas_open(options->data, &atlas, &error);
    if (status == KVA_OK && options->n_arguments > 0) {
        status = kva_engine_info_open(atlas, options->arguments[0], &infos[0], &error);
        n_infos = status == KVA_OK;
    }
    while (status == KVA_OK && options->n_arguments == 0 && n_infos < KVA_MAX_ENGINES &&
           kva_engine_name(n_infos) != NULL) {
        status = kva_engine_info_open(atlas, kva_engine_name(n_infos), &infos[n_infos], &error);
        n_infos += status == KVA_OK;
    }
    if (status == KVA_OK)
        status = kva_report_engines(infos, n_infos, &style, &text, &error);
    if (status == KVA_OK)
        status = kva_cli_write(options, &text, &error);
    if (status != KVA_OK)
        kva_cli_fail(&error);
    kva_text_free(&text);
    for (size_t i = 0; i < n_infos; i++)
        kva_engine_info_free(infos[i]);
    kva_atlas_close(atlas);
    return (int)status;
}
