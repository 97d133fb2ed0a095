// What commands share: opening a model, where results go, how errors look.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "cli/cli.h"

int kva_cli_fail(const struct kva_error *error)
{
    char line[1024];
    fprintf(stderr, "kvatlas: %s\n", kva_error_line(error, line, sizeof line));
    return (int)error->status;
}

struct kva_model_options kva_cli_how(const struct kva_options *options)
{
    return (struct kva_model_options){.dtype = options->dtype,
                                      .layers = options->depth,
                                      .fetch = options->fetch,
                                      .assume = options->assume,
                                      .n_assume = options->n_assume};
}

enum kva_status kva_cli_open(const struct kva_options *options, struct kva_atlas **atlas, struct kva_model **model,
                             struct kva_error *error)
{
    const struct kva_model_options how = kva_cli_how(options);
    enum kva_status status = kva_atlas_open(options->data, atlas, error);
    if (status == KVA_OK)
        status = kva_model_open(*atlas, options->arguments[0], &how, model, error);
    return status;
}

void kva_cli_close(struct kva_atlas *atlas, struct kva_model *model)
{
    if (model != NULL)
        kva_model_close(model);
    if (atlas != NULL)
        kva_atlas_close(atlas);
}

struct kva_report_style kva_cli_style(const struct kva_options *options)
{
    const char *no_color = getenv("NO_COLOR");
    bool terminal = options->output == NULL && isatty(STDOUT_FILENO);
    bool plain = options->no_color || (no_color != NULL && *no_color != '\0');
    return (struct kva_report_style){.format = options->format,
                                     .terminal = terminal && !plain,
                                     .colour = terminal && !plain,
                                     .layers = options->layers,
                                     .why = options->why};
}

enum kva_status kva_cli_write(const struct kva_options *options, const struct kva_text *text, struct kva_error *error)
{
    if (text->failed)
        return kva_fail_memory(error, text->length);
    if (options->output != NULL)
        return kva_file_write(options->output, text->bytes, text->length, error);
    if (fwrite(text->bytes, 1, text->length, stdout) != text->length || fflush(stdout) != 0)
        return kva_fail(error, KVA_MACHINE, NULL, NULL, "cannot write to standard output: %s", strerror(errno));
    return KVA_OK;
}
