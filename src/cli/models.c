// kvatlas models [QUERY]: the catalogue, all of it or what matches.
#include "cli/cli.h"

int kva_cli_models(struct kva_options *options)
{
    struct kva_error error = {0};
    struct kva_atlas *atlas = NULL;
    struct kva_catalogue *catalogue = NULL;
    struct kva_text text = {0};
    const struct kva_report_style style = kva_cli_style(options);
    const struct kva_catalogue_query query = {.text = options->n_arguments > 0 ? options->arguments[0] : NULL,
                                              .family = options->family,
                                              .model_type = options->type};
    enum kva_status status = kva_atlas_open(options->data, &atlas, &error);
    if (status == KVA_OK)
        status = kva_catalogue_open(atlas, &query, &catalogue, &error);
    if (status == KVA_OK)
        status = kva_report_models(catalogue, &style, &text, &error);
    if (status == KVA_OK)
        status = kva_cli_write(options, &text, &error);
    if (status != KVA_OK)
        kva_cli_fail(&error);
    kva_text_free(&text);
    kva_catalogue_close(catalogue);
    kva_atlas_close(atlas);
    return (int)status;
}
