// Which versions of an engine a log may be of, and the one that its numbers are held against.
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "verify/check.h"

// "0.11.0rc2.dev98+gabc" is a build on the way from 0.11.0rc2: planned as that.
static const char *release_of(struct kva_log *log, const char *version)
{
    size_t length = strcspn(version, "+");
    const char *dev = strstr(version, ".dev");
    if (dev != NULL && (size_t)(dev - version) < length)
        length = (size_t)(dev - version);
    if (version[length] != '\0')
        kva_log_note(log, "%s is taken as %.*s", version, (int)length, version);
    return kva_arena_strndup(log->arena, version, length);
}

static enum kva_status add_candidate(struct kva_check_candidates *candidates, const char *engine,
                                     struct kva_error *error)
{
    if (engine == NULL)
        return kva_fail_memory(error, 64);
    candidates->engines[candidates->n++] = engine;
    return KVA_OK;
}

// Where the version is not known: one of each kind that prints lines as they were read, newest first.
static enum kva_status add_eras(const struct kva_check_call *call, struct kva_check_candidates *candidates,
                                struct kva_error *error)
{
    size_t *indexes = kva_arena_alloc(call->log->arena, call->part->file->n_versions, sizeof *indexes);
    if (indexes == NULL)
        return kva_fail_memory(error, sizeof *indexes);
    enum kva_status status = KVA_OK;
    for (size_t i = kva_check_eras(call, call->part->versions, indexes); i-- > 0 && status == KVA_OK;)
        status = add_candidate(candidates, kva_check_engine_name(call, indexes[i]), error);
    return status;
}

// A version between two that are listed and differ: both are tried.
static enum kva_status add_neighbours(const struct kva_check_call *call, const char *version,
                                      struct kva_check_candidates *candidates, struct kva_error *error)
{
    const struct kva_engine_file *file = call->part->file;
    bool comparable;
    for (size_t v = 0; v + 1 < file->n_versions; v++) {
        if (kva_version_compare(file->versions[v].version, version, &comparable) >= 0 || !comparable ||
            kva_version_compare(file->versions[v + 1].version, version, &comparable) <= 0)
            continue;
        kva_log_note(call->log, "%s %s is not listed: it is held against its neighbours %s and %s", call->part->name,
                     version, file->versions[v].version, file->versions[v + 1].version);
        enum kva_status status = add_candidate(candidates, kva_check_engine_name(call, v + 1), error);
        return status == KVA_OK ? add_candidate(candidates, kva_check_engine_name(call, v), error) : status;
    }
    return KVA_OK;
}

enum kva_status kva_check_candidates(const struct kva_check_call *call, const char *asked,
                                     struct kva_check_candidates *candidates, struct kva_error *error)
{
    const struct kva_log_engine_part *part = call->part;
    const char *at = asked != NULL ? strchr(asked, '@') : NULL, *version = NULL;
    candidates->engines = kva_arena_alloc(call->log->arena, part->file->n_versions + 2, sizeof *candidates->engines);
    if (candidates->engines == NULL)
        return kva_fail_memory(error, sizeof *candidates->engines);
    if (at != NULL)
        version = at + 1;
    else if (part->version_line > 0)
        version = release_of(call->log, part->version);
    candidates->known = version != NULL;
    if (at != NULL && part->version_line > 0 && strcmp(part->version, version) != 0)
        kva_log_note(call->log, "line %" PRIu64 " says version %s; the command line says %s and wins",
                     part->version_line, part->version, version);
    if (version == NULL)
        return add_eras(call, candidates, error);
    enum kva_status status =
        kva_version_index(part->file, version) == SIZE_MAX ? add_neighbours(call, version, candidates, error) : KVA_OK;
    if (status == KVA_OK && candidates->n == 0)
        status = add_candidate(candidates, kva_arena_printf(call->log->arena, "%s@%s", part->id, version), error);
    return status;
}

// The first version under which every number comes out, else the first that can be planned.
enum kva_status kva_check_try_candidates(const struct kva_check_call *call,
                                         const struct kva_check_candidates *candidates,
                                         struct kva_deployment *deployment, struct kva_check_attempt *best,
                                         struct kva_error *error)
{
    enum kva_status status = KVA_OK;
    *best = (struct kva_check_attempt){0};
    for (size_t c = 0; c < candidates->n && status == KVA_OK && !kva_check_matches(best); c++) {
        struct kva_check_attempt attempt;
        deployment->engine = candidates->engines[c];
        status = kva_check_try(call, deployment, &attempt);
        const bool first = c == 0 || (best->plan == NULL && attempt.plan != NULL);
        const bool take = first || kva_check_matches(&attempt) ||
                          (attempt.plan != NULL && best->mismatches == 0 && best->matches == 0 && attempt.matches > 0);
        kva_check_attempt_free(take ? best : &attempt);
        if (take)
            *best = attempt;
    }
    if (best->plan != NULL && status == KVA_OK)
        return KVA_OK;
    kva_check_attempt_free(best);
    if (error != NULL)
        *error = best->error;
    return best->error.status != KVA_OK ? best->error.status : KVA_BAD_INPUT;
}
