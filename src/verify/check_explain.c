// Why numbers differ: the same plan with one thing changed, for each thing that is worth a try.
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "verify/check.h"

enum { MOST_LINES = 12 };

const char *kva_check_engine_name(const struct kva_check_call *call, size_t version)
{
    return kva_arena_printf(call->log->arena, "%s@%s", call->part->id, call->part->file->versions[version].version);
}

// ---------------------------------------------------------------- versions

// Do two neighbouring versions print the same numbers? Where every fact that holds for one holds for the other.
static bool behave_alike(const struct kva_engine_file *file, size_t a, size_t b)
{
#define SAME(row)                                                                                                      \
    (kva_range_holds(file, (row).since, (row).until, a) == kva_range_holds(file, (row).since, (row).until, b))
    for (unsigned i = 0; i < file->n_behaviours; i++)
        for (unsigned v = 0; v < file->behaviours[i].n_values; v++)
            if (!SAME(file->behaviours[i].values[v]))
                return false;
    for (unsigned i = 0; i < file->n_rules; i++)
        if (!SAME(file->rules[i]))
            return false;
    for (unsigned i = 0; i < file->n_kv_types; i++)
        if (!SAME(file->kv_types[i]))
            return false;
#undef SAME
    return true;
}

size_t kva_check_eras(const struct kva_check_call *call, const bool *allowed, size_t *indexes)
{
    const struct kva_engine_file *file = call->part->file;
    size_t n = 0, newest = SIZE_MAX;
    for (size_t v = 0; v < file->n_versions; v++) {
        if (v > 0 && newest != SIZE_MAX && !behave_alike(file, v - 1, v)) {
            indexes[n++] = newest;
            newest = SIZE_MAX;
        }
        if (allowed == NULL || allowed[v])
            newest = v;
    }
    if (newest != SIZE_MAX)
        indexes[n++] = newest;
    return n;
}

// The versions from the first that behaves as the one at `first` to the last that behaves as the one at `last`: "0.21.0
// to 0.25.1".
static const char *range_name(const struct kva_check_call *call, size_t first, size_t last)
{
    const struct kva_engine_file *file = call->part->file;
    while (first > 0 && behave_alike(file, first - 1, first))
        first--;
    while (last + 1 < file->n_versions && behave_alike(file, last, last + 1))
        last++;
    if (first == last)
        return file->versions[first].version;
    return kva_arena_printf(call->log->arena, "%s to %s", file->versions[first].version, file->versions[last].version);
}

// ---------------------------------------------------------------- lines

static enum kva_status add_line(struct kva_check_result *result, const char *line, struct kva_error *error)
{
    if (line == NULL)
        return kva_fail_memory(error, 128);
    if (result->n_explanation < MOST_LINES)
        result->explanation[result->n_explanation++] = line;
    return KVA_OK;
}

static enum kva_status try_one(const struct kva_check_call *call, const struct kva_deployment *deployment,
                               bool *matches, struct kva_error *error)
{
    struct kva_check_attempt attempt;
    enum kva_status status = kva_check_try(call, deployment, &attempt);
    if (status != KVA_OK && error != NULL)
        *error = attempt.error;
    *matches = kva_check_matches(&attempt);
    kva_check_attempt_free(&attempt);
    return status;
}

static enum kva_status add_versions(const struct kva_check_call *call, size_t first, size_t last,
                                    struct kva_check_result *result, struct kva_error *error)
{
    return add_line(result,
                    kva_arena_printf(call->log->arena, "every number matches under %s %s", call->part->name,
                                     range_name(call, first, last)),
                    error);
}

// Neighbours under which every number matches are told as one range.
static enum kva_status try_versions(const struct kva_check_call *call, const struct kva_deployment *deployment,
                                    struct kva_check_result *result, struct kva_error *error)
{
    size_t *indexes = kva_arena_alloc(call->log->arena, call->part->file->n_versions, sizeof *indexes);
    if (indexes == NULL)
        return kva_fail_memory(error, sizeof *indexes);
    const size_t n = kva_check_eras(call, NULL, indexes);
    size_t first = SIZE_MAX;  // of the eras that match
    enum kva_status status = KVA_OK;
    for (size_t i = 0; i <= n && status == KVA_OK; i++) {
        struct kva_deployment other = *deployment;
        bool matches = false;
        if (i < n) {
            other.engine = kva_check_engine_name(call, indexes[i]);
            status = other.engine != NULL ? try_one(call, &other, &matches, error) : kva_fail_memory(error, 64);
        }
        if (status == KVA_OK && !matches && first != SIZE_MAX)
            status = add_versions(call, indexes[first], indexes[i - 1], result, error);
        first = !matches ? SIZE_MAX : first != SIZE_MAX ? first : i;
    }
    return status;
}

static enum kva_status try_switches(const struct kva_check_call *call, const struct kva_deployment *deployment,
                                    struct kva_check_result *result, struct kva_error *error)
{
    enum kva_status status = KVA_OK;
    for (unsigned s = 0; s < call->log->facts->n_switches; s++) {
        const struct kva_log_switch *tried = &call->log->facts->switches[s];
        for (unsigned v = 0; strcmp(tried->engine, call->part->id) == 0 && v < tried->n_values && status == KVA_OK;
             v++) {
            struct kva_deployment other = *deployment;
            bool matches;
            if (kva_deployment_set(&other, tried->flag, tried->values[v], error) != KVA_OK)
                return KVA_BAD_INPUT;
            status = try_one(call, &other, &matches, error);
            if (status == KVA_OK && matches)
                status = add_line(result,
                                  kva_arena_printf(call->log->arena, "every number matches with %s %s", tried->flag,
                                                   tried->values[v]),
                                  error);
        }
    }
    return status;
}

enum kva_status kva_check_explain(const struct kva_check_call *call, const struct kva_deployment *deployment,
                                  struct kva_check_result *result, struct kva_error *error)
{
    result->explanation = kva_arena_alloc(call->log->arena, MOST_LINES, sizeof *result->explanation);
    if (result->explanation == NULL)
        return kva_fail_memory(error, MOST_LINES * sizeof *result->explanation);
    enum kva_status status = try_versions(call, deployment, result, error);
    return status == KVA_OK ? try_switches(call, deployment, result, error) : status;
}
