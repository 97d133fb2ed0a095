// An engine's log held against the plan: which engine, which model, which flags; then number by number.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "verify/check.h"

const char *kva_verdict_name(enum kva_verdict verdict)
{
    static const char *const NAMES[] = {[KVA_VERDICT_UNKNOWN] = "unknown",
                                        [KVA_VERDICT_MATCH] = "match",
                                        [KVA_VERDICT_MISMATCH] = "mismatch",
                                        [KVA_VERDICT_GIVEN] = "given"};
    return NAMES[verdict];
}

// ---------------------------------------------------------------- engine

// Is any line of this engine known?
static bool is_read(const struct kva_log *log, size_t engine)
{
    for (size_t k = 0; k < log->vocabulary->n_known; k++)
        if (log->vocabulary->known[k].engine == engine)
            return true;
    return false;
}

static enum kva_status nothing_recognised(const struct kva_log *log, const char *path, struct kva_error *error)
{
    char names[256] = "";
    for (size_t e = 0, length = 0; e < log->n_engines; e++) {
        if (is_read(log, e) && length < sizeof names)
            length += (size_t)snprintf(names + length, sizeof names - length, "%s%s", length == 0 ? "" : ", ",
                                       log->engines[e].name);
    }
    return kva_fail(error, KVA_BAD_INPUT, strcmp(path, "-") == 0 ? "standard input" : path, NULL,
                    "none of %" PRIu64 " lines is one that an engine prints of its caches; the startup logs of %s are "
                    "known",
                    log->lines, names);
}

static enum kva_status two_engines(const struct kva_log_engine_part *a, const struct kva_log_engine_part *b,
                                   const char *path, struct kva_error *error)
{
    return kva_fail(error, KVA_BAD_INPUT, strcmp(path, "-") == 0 ? "standard input" : path, NULL,
                    "holds numbers of %s (line %" PRIu64 ") and of %s (line %" PRIu64 "): name the one to check with "
                    "--engine",
                    a->name, a->first_line, b->name, b->first_line);
}

// The engine whose numbers the log holds; the caller's word decides.
static enum kva_status choose_engine(const struct kva_log *log, const char *asked, const char *path,
                                     const struct kva_log_engine_part **part, struct kva_error *error)
{
    const size_t length = asked != NULL ? strcspn(asked, "@") : 0;
    const struct kva_log_engine_part *best = NULL;
    for (size_t e = 0; e < log->n_engines; e++) {
        const struct kva_log_engine_part *here = &log->engines[e];
        if (asked != NULL && (strlen(here->id) != length || strncmp(here->id, asked, length) != 0))
            continue;
        if (asked != NULL) {
            *part = here;
            return here->n_statements > 0 ? KVA_OK : nothing_recognised(log, path, error);
        }
        if (here->n_statements == 0)
            continue;
        // a line that two engines print alike tells nothing
        if (best != NULL && best->told > 0 && here->told > 0)
            return two_engines(best, here, path, error);
        if (best == NULL || here->told > best->told)
            best = here;
    }
    *part = best;
    if (asked != NULL)
        return kva_fail(error, KVA_REFUSED, NULL, "engine", "'%s' is not an engine whose log is known", asked);
    return best != NULL ? KVA_OK : nothing_recognised(log, path, error);
}

static enum kva_status check_policy(const struct kva_log_engine_part *part, struct kva_error *error)
{
    return part->engine != NULL ? KVA_OK
                                : kva_fail(error, KVA_REFUSED, NULL, "engine",
                                           "line %" PRIu64 " is %s's, and kvatlas does not know what it allocates",
                                           part->first_line, part->name);
}

// ---------------------------------------------------------------- numbers

// A number is written as the line would print it: a real one to its decimals, a count with the separators of the
// line's.
static enum kva_status set_predicted(const struct kva_check_call *call, struct kva_check_number *number,
                                     const struct kva_log_value *value, const struct kva_quantity *quantity)
{
    char human[KVA_HUMAN];
    if (quantity->type == KVA_QUANTITY_TEXT) {
        number->predicted = quantity->text;
        return KVA_OK;
    }
    const double real = quantity->type == KVA_QUANTITY_COUNT ? (double)quantity->count : quantity->real;
    if (value->kind == KVA_PLACE_REAL)
        number->predicted = kva_arena_printf(call->log->arena, "%.*f", value->decimals, real);
    else if (quantity->type == KVA_QUANTITY_COUNT && number->printed != NULL && strchr(number->printed, ',') != NULL)
        number->predicted = kva_arena_strdup(call->log->arena, kva_human_count(quantity->count, human));
    else if (quantity->type == KVA_QUANTITY_COUNT)
        number->predicted = kva_arena_printf(call->log->arena, "%" PRIu64, quantity->count);
    else
        number->predicted = kva_arena_printf(call->log->arena, "%g", real);
    if (number->predicted == NULL)
        return KVA_MACHINE;
    number->compared = number->numeric;
    number->predicted_value = value->kind == KVA_PLACE_REAL ? strtod(number->predicted, NULL) : real;
    number->difference = value->real - number->predicted_value;
    return KVA_OK;
}

static enum kva_status judge(const struct kva_check_call *call, const struct kva_check_attempt *attempt,
                             struct kva_check_result *result, struct kva_error *error)
{
    size_t n = 0;
    for (size_t s = 0; s < call->n_statements; s++)
        n += call->statements[s].n_values;
    result->numbers = kva_arena_alloc(call->log->arena, n + 1, sizeof *result->numbers);
    if (result->numbers == NULL)
        return kva_fail_memory(error, n * sizeof *result->numbers);
    for (size_t s = 0; s < call->n_statements; s++)
        for (size_t v = 0; v < call->statements[s].n_values; v++) {
            const struct kva_log_value *value = &call->statements[s].values[v];
            struct kva_check_number *number = &result->numbers[result->n_numbers++];
            struct kva_quantity quantity;
            *number =
                (struct kva_check_number){.line = value->line,
                                          .text = value->line_text,
                                          .id = call->statements[s].id,
                                          .quantity = value->name,
                                          .printed = value->text,
                                          .numeric = value->kind == KVA_PLACE_COUNT || value->kind == KVA_PLACE_REAL,
                                          .whole = value->kind == KVA_PLACE_COUNT,
                                          .printed_value = value->real};
            const bool given = call->given[s][v] || (s == attempt->found_by && v == attempt->found_value);
            const bool predicted = kva_check_predicted(call, attempt->plan, attempt->shift, s, v, &quantity);
            if (predicted && set_predicted(call, number, value, &quantity) != KVA_OK)
                return kva_fail_memory(error, 64);
            const bool refused = kva_check_refused(call, attempt->plan, s);
            if (refused && !given) {
                number->predicted = "refused";
                number->compared = false;
            }
            number->verdict = given                                      ? KVA_VERDICT_GIVEN
                              : refused                                  ? KVA_VERDICT_MISMATCH
                              : !predicted                               ? KVA_VERDICT_UNKNOWN
                              : kva_check_compare(value, &quantity) == 0 ? KVA_VERDICT_MATCH
                                                                         : KVA_VERDICT_MISMATCH;
        }
    result->verdict = attempt->mismatches > 0 ? KVA_VERDICT_MISMATCH
                      : attempt->matches > 0  ? KVA_VERDICT_MATCH
                                              : KVA_VERDICT_UNKNOWN;
    return KVA_OK;
}

static void note_version(const struct kva_check_call *call, const struct kva_check_candidates *candidates,
                         const struct kva_check_result *result)
{
    if (result->plan->capacity.refusal != NULL)
        kva_log_note(call->log, "the plan says that the engine does not start: %.300s", result->plan->capacity.refusal);
    if (candidates->known)
        return;
    if (result->verdict == KVA_VERDICT_MATCH)
        kva_log_note(call->log, "the version is not known: %s is the newest with which every number matches",
                     result->version);
    else
        kva_log_note(call->log, "the version is not known: %s is the newest that prints lines like these",
                     result->version);
}

static enum kva_status compare_all(struct kva_check_call *call, const struct kva_deployment *asked,
                                   struct kva_check_result *result, struct kva_error *error)
{
    struct kva_deployment deployment;
    struct kva_check_candidates candidates = {0};
    struct kva_check_attempt attempt = {0};
    enum kva_status status = kva_check_gather(call, error);
    if (status != KVA_OK)
        return status;
    kva_check_merge(call->log, call->part, asked, &deployment);
    kva_check_take_given(call, &deployment);
    status = kva_check_candidates(call, asked != NULL ? asked->engine : NULL, &candidates, error);
    if (status == KVA_OK)
        status = kva_check_try_candidates(call, &candidates, &deployment, &attempt, error);
    if (status != KVA_OK)
        return status;
    result->plan = attempt.plan;
    result->engine = call->part->id;
    result->engine_name = attempt.plan->engine_name;
    result->version = attempt.plan->engine_version;
    result->version_known = candidates.known;
    status = judge(call, &attempt, result, error);
    if (status == KVA_OK)
        note_version(call, &candidates, result);
    if (status == KVA_OK && result->verdict == KVA_VERDICT_MISMATCH) {
        deployment.engine = kva_arena_printf(call->log->arena, "%s@%s", result->engine, result->version);
        status = deployment.engine != NULL ? kva_check_explain(call, &deployment, result, error)
                                           : kva_fail_memory(error, 64);
    }
    return status;
}

// ---------------------------------------------------------------- the whole

// A log is not trusted: it names models, directories, config.json and GGUF files, and not standard input or other
// files.
static bool may_be_opened(const char *name)
{
    const char *last = strrchr(name, '/');
    const char *dot = strrchr(name, '.');
    last = last != NULL ? last + 1 : name;
    return *name != '-' &&
           (!kva_is_file(name) || strcmp(last, "config.json") == 0 || (dot != NULL && strcmp(dot, ".gguf") == 0));
}

static enum kva_status open_model(struct kva_atlas *atlas, const struct kva_check_options *options, struct kva_log *log,
                                  const struct kva_log_engine_part *part, struct kva_check_result *result,
                                  struct kva_error *error)
{
    const char *name = options->model;
    if (name == NULL && log->metadata.n > 0) {
        kva_log_note(log, "model %s: the log holds its header", log->metadata.name);
        return kva_log_metadata_model(atlas, &log->metadata, options->how, &result->model, error);
    }
    if (name == NULL && part->model_line == 0)
        return kva_fail(error, KVA_BAD_INPUT, NULL, "model",
                        "the log does not name the model; name it with --model MODEL");
    if (name == NULL && !may_be_opened(part->model))
        return kva_fail(error, KVA_BAD_INPUT, NULL, "model",
                        "line %" PRIu64 " names '%.100s', which is no model that a log may open; name it with --model",
                        part->model_line, part->model);
    if (name == NULL) {
        name = part->model;
        kva_log_note(log, "model %s: line %" PRIu64 " names it", name, part->model_line);
    } else if (part->model_line > 0 && strcmp(name, part->model) != 0)
        kva_log_note(log, "line %" PRIu64 " names the model %s; %s was asked for", part->model_line, part->model, name);
    return kva_model_open(atlas, name, options->how, &result->model, error);
}

static enum kva_status check_log(struct kva_check_call *call, const struct kva_check_options *options,
                                 struct kva_check_result *result, struct kva_error *error)
{
    const struct kva_deployment *asked = options->deployment;
    enum kva_status status = kva_log_read(call->atlas, options->log, call->log->arena, call->log, error);
    if (status == KVA_OK)
        status = choose_engine(call->log, asked != NULL ? asked->engine : NULL, options->log, &call->part, error);
    if (status != KVA_OK || call->part == NULL)
        return status;
    status = check_policy(call->part, error);
    if (status == KVA_OK)
        status = open_model(call->atlas, options, call->log, call->part, result, error);
    call->model = result->model;
    return status == KVA_OK ? compare_all(call, asked, result, error) : status;
}

enum kva_status kva_check_log(struct kva_atlas *atlas, const struct kva_check_options *options,
                              struct kva_check_result *result, struct kva_error *error)
{
    *result = (struct kva_check_result){.arena = kva_arena_new()};
    struct kva_log *log = result->arena != NULL ? kva_arena_alloc(result->arena, 1, sizeof *log) : NULL;
    if (log == NULL) {
        kva_check_result_free(result);
        return kva_fail_memory(error, sizeof *log);
    }
    log->arena = result->arena;
    struct kva_check_call call = {.atlas = atlas, .log = log};
    enum kva_status status = check_log(&call, options, result, error);
    result->notes = log->notes;
    result->n_notes = log->n_notes;
    kva_log_free(log);
    if (status != KVA_OK)
        kva_check_result_free(result);
    return status;
}

void kva_check_result_free(struct kva_check_result *result)
{
    kva_plan_free(result->plan);
    if (result->model != NULL)
        kva_model_close(result->model);
    kva_arena_free(result->arena);
    *result = (struct kva_check_result){0};
}
