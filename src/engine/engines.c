// The list of engines, and which version of one a person means.
#include <ctype.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "engine/engine.h"

static const struct kva_engine *const ENGINES[] = {
    &kva_engine_exact,    &kva_engine_full,        &kva_engine_vllm,   &kva_engine_sglang, &kva_engine_trtllm,
    &kva_engine_llamacpp, &kva_engine_ik_llamacpp, &kva_engine_ollama, &kva_engine_mlx,    &kva_engine_transformers};
static const size_t N_ENGINES = sizeof ENGINES / sizeof *ENGINES;

const struct kva_engine *kva_engine_at(size_t index)
{
    return index < N_ENGINES ? ENGINES[index] : NULL;
}

static bool has_versions(const struct kva_engine *engine)
{
    return engine->behaviours_size > 0;
}

static enum kva_status refuse_engine(const char *name, struct kva_error *error)
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

// ---------------------------------------------------------------- versions

static enum kva_status refuse_version(const struct kva_engine_file *file, const char *version, const char *why,
                                      struct kva_error *error)
{
    return kva_fail(error, KVA_REFUSED, NULL, "engine",
                    "%s %s %s: kvatlas knows %s to %s (kvatlas engines lists them); --nearest takes the nearest one",
                    file->name, version, why, file->versions[0].version, file->versions[file->n_versions - 1].version);
}

// The name of a behaviour that differs between two neighbours; NULL: none does.
static const char *difference(const struct kva_engine_file *file, size_t before)
{
    for (unsigned b = 0; b < file->n_behaviours; b++)
        for (unsigned v = 0; v < file->behaviours[b].n_values; v++) {
            const struct kva_value_row *row = &file->behaviours[b].values[v];
            if (kva_range_holds(file, row->since, row->until, before) !=
                kva_range_holds(file, row->since, row->until, before + 1))
                return file->behaviours[b].name;
        }
    return NULL;
}

// A version that is not listed but lies between two that are: the older one, where both behave alike.
static enum kva_status between(struct kva_call *call, const struct kva_engine_file *file, const char *version,
                               size_t before, bool nearest)
{
    const char *differs = difference(file, before);
    if (differs != NULL && !nearest)
        return kva_fail(call->error, KVA_REFUSED, NULL, "engine",
                        "%s %s lies between %s and %s, and which side of the change of '%s' it is on is not known; "
                        "name one of them, or --nearest for %s",
                        file->name, version, file->versions[before].version, file->versions[before + 1].version,
                        differs, file->versions[before].version);
    return kva_assume(call, "%s %s is planned as %s: %s", file->name, version, file->versions[before].version,
                      differs != NULL ? "--nearest" : "not listed itself, and the next known one behaves alike");
}

static enum kva_status find_version(struct kva_call *call, const struct kva_engine_file *file, const char *version,
                                    bool nearest, size_t *index)
{
    const size_t last = file->n_versions - 1;
    bool comparable;
    if (*version == '\0' || strcmp(version, "latest") == 0) {
        *index = last;
        return kva_assume(call, "version %s: the newest known one, none was named", file->versions[last].version);
    }
    *index = kva_version_index(file, version);
    if (*index != SIZE_MAX)
        return KVA_OK;
    const int to_first = kva_version_compare(version, file->versions[0].version, &comparable);
    if (!comparable)
        return refuse_version(file, version, "is not a version", call->error);
    const int to_last = kva_version_compare(version, file->versions[last].version, &comparable);
    if (to_first > 0 && to_last < 0) {
        *index = 0;
        while (kva_version_compare(file->versions[*index + 1].version, version, &comparable) < 0)
            ++*index;
        return between(call, file, version, *index, nearest);
    }
    if (!nearest)
        return refuse_version(
            file, version, to_first < 0 ? "is older than what is known" : "is newer than what is known", call->error);
    *index = to_first < 0 ? 0 : last;
    return kva_assume(call, "%s %s is planned as %s: the nearest known version", file->name, version,
                      file->versions[*index].version);
}

static enum kva_status open_version(struct kva_atlas *atlas, struct kva_call *call, const char *version, bool nearest)
{
    const struct kva_engine_file *file;
    size_t index = 0;
    enum kva_status status = kva_engine_file_read(atlas, call->engine, &file, call->error);
    if (status == KVA_OK)
        status = find_version(call, file, version, nearest, &index);
    if (status == KVA_OK)
        status = kva_engine_version_pick(atlas, call->engine, index, &call->version, call->error);
    if (status == KVA_OK)
        call->behaviours = call->version->behaviours;
    return status;
}

// Letters and digits alone count, whatever their case: "vLLM", "llamacpp" and "TensorRT_LLM" are clear enough.
static bool same_name(const char *id, const char *name, size_t length)
{
    const char *end = name + length;
    for (;;) {
        while (*id != '\0' && !isalnum((unsigned char)*id))
            id++;
        while (name < end && !isalnum((unsigned char)*name))
            name++;
        if (*id == '\0' || name == end)
            return *id == '\0' && name == end;
        if (tolower((unsigned char)*id++) != tolower((unsigned char)*name++))
            return false;
    }
}

enum kva_status kva_engine_find(const char *name, const struct kva_engine **engine, struct kva_error *error)
{
    const size_t length = strcspn(name, "@");
    for (size_t i = 0; i < N_ENGINES; i++)
        if (length > 0 && same_name(ENGINES[i]->id, name, length)) {
            *engine = ENGINES[i];
            return KVA_OK;
        }
    return refuse_engine(name, error);
}

enum kva_status kva_engine_open(struct kva_atlas *atlas, const char *name, bool nearest, struct kva_call *call)
{
    static const struct kva_engine_version BUILT_IN = {.version = ""};
    const char *version = strchr(name, '@');
    call->version = &BUILT_IN;
    enum kva_status status = kva_engine_find(name, &call->engine, call->error);
    if (status != KVA_OK)
        return status;
    if (version != NULL && !has_versions(call->engine))
        return kva_fail(call->error, KVA_REFUSED, NULL, "engine", "'%s': %s is built in and has no versions", name,
                        call->engine->id);
    if (has_versions(call->engine))
        status = open_version(atlas, call, version != NULL ? version + 1 : "", nearest);
    call->deployment->engine = call->engine->id;
    call->deployment->version = call->version->version;
    return status;
}
