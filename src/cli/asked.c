// Which engines a command is to answer for: --engine as it was typed, with `all` spelled out.
#include <string.h>

#include "base/error.h"
#include "cli/cli.h"

static enum kva_status add(struct kva_cli_asked *asked, const char *name, bool by_name, struct kva_error *error)
{
    if (asked->n == KVA_MAX_ENGINES)
        return kva_fail(error, KVA_BAD_INPUT, NULL, "--engine", "more than %d engines", KVA_MAX_ENGINES);
    asked->names[asked->n] = name;
    asked->by_name[asked->n++] = by_name;
    return KVA_OK;
}

enum kva_status kva_cli_asked(const struct kva_options *options, struct kva_cli_asked *asked, struct kva_error *error)
{
    enum kva_status status = KVA_OK;
    *asked = (struct kva_cli_asked){0};
    if (options->n_engines == 0)
        return add(asked, NULL, true, error);
    for (size_t e = 0; status == KVA_OK && e < options->n_engines; e++) {
        if (strcmp(options->engines[e], "all") != 0)
            status = add(asked, options->engines[e], true, error);
        else
            for (size_t i = 0; status == KVA_OK && kva_engine_name(i) != NULL; i++)
                status = add(asked, kva_engine_name(i), false, error);
    }
    return status;
}

enum kva_status kva_cli_refused(const struct kva_cli_asked *asked, size_t engine, const struct kva_error *error,
                                struct kva_cli_refusals *refusals)
{
    if (error->status == KVA_MACHINE)
        return KVA_MACHINE;
    const char *name = asked->names[engine] != NULL ? asked->names[engine] : "exact";
    refusals->refusals[refusals->n++] = (struct kva_refusal){.engine = name, .error = *error};
    if (asked->by_name[engine] && refusals->partial == KVA_OK)
        refusals->partial = error->status;
    return KVA_OK;
}
