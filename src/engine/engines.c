// The list of engines.
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "engine/engine.h"

static const struct kva_engine *const ENGINES[] = {&kva_engine_exact, &kva_engine_full};
static const size_t N_ENGINES = sizeof ENGINES / sizeof *ENGINES;

static enum kva_status refuse(const char *name, struct kva_error *error)
{
    struct kva_text known = {0};
    for (size_t i = 0; i < N_ENGINES; i++)
        kva_text_printf(&known, "%s%s", i == 0 ? "" : i + 1 < N_ENGINES ? ", " : " and ", ENGINES[i]->id);
    enum kva_status status = known.failed ? kva_fail_memory(error, 256)
                                          : kva_fail(error, KVA_REFUSED, NULL, "engine",
                                                     "'%s' is not known; known are %s", name, known.bytes);
    kva_text_free(&known);
    return status;
}

enum kva_status kva_engine_find(const char *name, const struct kva_engine **engine, const char **version,
                                struct kva_error *error)
{
    size_t length = strcspn(name, "@");
    for (size_t i = 0; i < N_ENGINES; i++) {
        if (strlen(ENGINES[i]->id) != length || strncmp(ENGINES[i]->id, name, length) != 0)
            continue;
        if (name[length] == '@' && !ENGINES[i]->versioned)
            return kva_fail(error, KVA_REFUSED, NULL, "engine", "'%s': %s is built in and has no versions", name,
                            ENGINES[i]->id);
        *engine = ENGINES[i];
        *version = name[length] == '@' ? name + length + 1 : "";
        return KVA_OK;
    }
    return refuse(name, error);
}
