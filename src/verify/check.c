// An engine's log held against the plan: which engine, which model, which flags; then number by number.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/text.h"
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
    struct kva_text names = {0};
    for (size_t e = 0; e < log->n_engines; e++)
        if (is_read(log, e))
            kva_text_printf(&names, "%s%s", names.length == 0 ? "" : ", ", log->engines[e].name);
    enum kva_status status =
        names.failed
            ? kva_fail_memory(error, 256)
            : kva_fail(error, KVA_BAD_INPUT, strcmp(path, "-") == 0 ? "standard input" : path, NULL,
                       "none of %" PRIu64 " lines is one that an engine prints of its caches; the startup logs "
                       "of %s are known",
                       log->lines, names.bytes);
    kva_text_free(&names);
    return status;
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

// ---------------------------------------------------------------- deployment

static void note_difference(void *user, const char *flag)
{
    kva_log_note(user, "the log says otherwise of %s than the command line, which wins", flag);
}

// What the log says of `key`, as a count; 1: nothing.
static uint64_t said_count(const struct kva_log *log, const struct kva_log_engine_part *part, const char *key)
{
    uint64_t count;
    for (unsigned s = 0; s < log->facts->n_settings; s++)
        if (log->settings[s].line > 0 && strcmp(log->facts->settings[s].key, key) == 0 &&
            strcmp(log->facts->settings[s].engine, part->id) == 0 && kva_parse_count(log->settings[s].value, &count))
            return kva_max(count, 1);
    return 1;
}

// The flags that the log holds, then the caller's over them.
static void merge(struct kva_log *log, const struct kva_log_engine_part *part, const struct kva_deployment *asked,
                  struct kva_deployment *deployment)
{
    struct kva_deployment said = {0};
    for (unsigned s = 0; s < log->facts->n_settings; s++) {
        const struct kva_log_setting *setting = &log->facts->settings[s];
        if (log->settings[s].line == 0 || setting->flag == NULL || strcmp(setting->engine, part->id) != 0)
            continue;
        const char *value = log->settings[s].value;
        char divided[32];
        uint64_t count;
        if (setting->per != NULL && kva_parse_count(value, &count)) {
            snprintf(divided, sizeof divided, "%" PRIu64, count / said_count(log, part, setting->per));
            value = divided;
        }
        struct kva_error error = {0};
        if (kva_deployment_set(&said, setting->flag, value, &error) != KVA_OK)
            kva_log_note(log, "line %" PRIu64 ": %s=%s is not understood and left out", log->settings[s].line,
                         setting->key, log->settings[s].value);
    }
    *deployment = asked != NULL ? *asked : (struct kva_deployment){0};
    kva_deployment_fill(deployment, &said, note_difference, log);
}

// ---------------------------------------------------------------- numbers that the log gives

// Any size that is printed as `value` GiB.
static void bound(struct kva_check_call *call, const struct kva_log_value *value)
{
    const int decimals = value->kind == KVA_PLACE_REAL      ? value->decimals
                         : strchr(value->text, '.') != NULL ? (int)strlen(strchr(value->text, '.') + 1)
                                                            : 0;
    const double half = 0.5 * pow(10, -decimals);
    if (!(value->real >= 0) || value->real > 0x1p30)
        return;
    const uint64_t low = value->real > half ? (uint64_t)ceil((value->real - half) * 0x1p30) : 1;
    const uint64_t high = (uint64_t)floor((value->real + half) * 0x1p30);
    if (!call->bounded) {
        call->low = low;
        call->high = high;
    } else if (low <= call->high && high >= call->low) {  // said twice, with other decimals
        call->low = kva_max(call->low, low);
        call->high = kva_min(call->high, high);
    }
    call->bounded = true;
}

static void take_exact(struct kva_check_call *call, const struct kva_log_given *given, size_t statement, size_t value,
                       struct kva_deployment *deployment)
{
    const struct kva_log_value *said = &call->statements[statement].values[value];
    const char *text = said->text;
    char digits[32];
    if (said->kind == KVA_PLACE_COUNT) {
        snprintf(digits, sizeof digits, "%" PRIu64, said->count);
        text = digits;
    }
    struct kva_deployment changed = *deployment;
    struct kva_error error = {0};
    if (kva_deployment_set(&changed, given->flag, text, &error) != KVA_OK) {
        kva_log_note(call->log, "line %" PRIu64 ": %s %s is not understood and left out", said->line, said->name,
                     said->text);
        return;
    }
    *deployment = changed;
    call->given[statement][value] = true;
}

static bool same_flag(const char *a, const char *b)
{
    bool negated;
    return a != NULL && kva_deployment_flag_find(a, &negated) == kva_deployment_flag_find(b, &negated);
}

static void take_given(struct kva_check_call *call, const struct kva_log_given *given,
                       const struct kva_deployment *before, struct kva_deployment *deployment)
{
    bool taken = false;
    const bool rounded = given->unit != NULL && same_flag(call->searched, given->flag);
    for (size_t s = 0; s < call->n_statements; s++) {
        if (strcmp(call->statements[s].id, given->line) != 0)
            continue;
        if (given->set != NULL) {
            if (!kva_deployment_says(before, given->flag))
                (void)kva_deployment_set(deployment, given->flag, given->set, NULL);
            return;
        }
        for (size_t v = 0; v < call->statements[s].n_values; v++) {
            if (strcmp(call->statements[s].values[v].name, given->quantity) != 0 ||
                kva_deployment_says(before, given->flag))
                continue;
            if (rounded) {
                bound(call, &call->statements[s].values[v]);
                call->given[s][v] = true;
            } else if (!taken && !kva_deployment_says(deployment, given->flag)) {
                take_exact(call, given, s, v, deployment);
                taken = true;
            } else if (taken)  // another pool's line says it once more
                call->given[s][v] = given->unit == NULL && call->statements[s].values[v].kind == KVA_PLACE_WORD;
        }
    }
}

// What nobody stated and the plan cannot know.
static void take_all_given(struct kva_check_call *call, struct kva_deployment *deployment)
{
    const struct kva_deployment before = *deployment;
    call->searched = call->part->facts != NULL ? call->part->facts->searched : NULL;
    for (unsigned g = 0; g < call->log->facts->n_given; g++) {
        const struct kva_log_given *given = &call->log->facts->given[g];
        if (strcmp(given->engine, call->part->id) == 0 &&
            !(deployment->auto_context && same_flag("--context", given->flag)))
            take_given(call, given, &before, deployment);
    }
    if (call->searched != NULL && kva_deployment_says(deployment, call->searched))
        call->searched = NULL;
}

// ---------------------------------------------------------------- versions

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

struct candidates {
    const char **engines;  // "vllm@0.19.0"
    size_t n;
    bool known;  // somebody named the version
};

static enum kva_status add_candidate(struct candidates *candidates, const char *engine, struct kva_error *error)
{
    if (engine == NULL)
        return kva_fail_memory(error, 64);
    candidates->engines[candidates->n++] = engine;
    return KVA_OK;
}

// Where the version is not known: one of each kind that prints lines as they were read, newest first.
static enum kva_status add_eras(const struct kva_check_call *call, struct candidates *candidates,
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
                                      struct candidates *candidates, struct kva_error *error)
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

static enum kva_status find_candidates(const struct kva_check_call *call, const char *asked,
                                       struct candidates *candidates, struct kva_error *error)
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
static enum kva_status try_candidates(const struct kva_check_call *call, const struct candidates *candidates,
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
    if (status == KVA_OK && best->plan == NULL)
        status = best->error.status;
    if (status != KVA_OK && error != NULL)
        *error = best->error;
    return status;
}

// ---------------------------------------------------------------- numbers

static enum kva_status set_predicted(const struct kva_check_call *call, struct kva_check_number *number,
                                     const struct kva_log_value *value, const struct kva_quantity *quantity)
{
    if (quantity->type == KVA_QUANTITY_TEXT) {
        number->predicted = quantity->text;
        return KVA_OK;
    }
    number->predicted_value = quantity->type == KVA_QUANTITY_COUNT ? (double)quantity->count : quantity->real;
    number->difference = value->real - number->predicted_value;
    if (value->kind == KVA_PLACE_REAL)  // as it would be printed
        number->predicted = kva_arena_printf(call->log->arena, "%.*f", value->decimals, number->predicted_value);
    else if (quantity->type == KVA_QUANTITY_COUNT)
        number->predicted = kva_arena_printf(call->log->arena, "%" PRIu64, quantity->count);
    else
        number->predicted = kva_arena_printf(call->log->arena, "%g", number->predicted_value);
    if (value->kind == KVA_PLACE_REAL && number->predicted != NULL)
        number->difference = value->real - strtod(number->predicted, NULL);
    return number->predicted != NULL ? KVA_OK : KVA_MACHINE;
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
                                          .printed_value = value->real};
            const bool given = call->given[s][v] || (s == attempt->found_by && v == attempt->found_value);
            const bool predicted = kva_check_predicted(call, attempt->plan, attempt->shift, s, v, &quantity);
            if (predicted && set_predicted(call, number, value, &quantity) != KVA_OK)
                return kva_fail_memory(error, 64);
            const bool refused = kva_check_refused(call, attempt->plan, s);
            if (refused && !given)
                number->predicted = "refused";
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

static void note_version(const struct kva_check_call *call, const struct candidates *candidates,
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
    struct candidates candidates = {0};
    struct kva_check_attempt attempt = {0};
    enum kva_status status = kva_check_gather(call, error);
    if (status != KVA_OK)
        return status;
    merge(call->log, call->part, asked, &deployment);
    take_all_given(call, &deployment);
    status = find_candidates(call, asked != NULL ? asked->engine : NULL, &candidates, error);
    if (status == KVA_OK)
        status = try_candidates(call, &candidates, &deployment, &attempt, error);
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
    if (name == NULL) {
        name = part->model;
        kva_log_note(log, "model %s: line %" PRIu64 " names it", name, part->model_line);
    } else if (part->model_line > 0 && strcmp(name, part->model) != 0)
        kva_log_note(log, "line %" PRIu64 " names the model %s; %s was asked for", part->model_line, part->model, name);
    return kva_model_open(atlas, name, options->how, &result->model, error);
}

enum kva_status kva_check_log(struct kva_atlas *atlas, const struct kva_check_options *options,
                              struct kva_check_result *result, struct kva_error *error)
{
    *result = (struct kva_check_result){0};
    const struct kva_deployment *asked = options->deployment;
    struct kva_arena *arena = kva_arena_new();
    struct kva_log *log = arena != NULL ? kva_arena_alloc(arena, 1, sizeof *log) : NULL;
    struct kva_check_call call = {.atlas = atlas, .log = log};
    result->arena = arena;
    if (log == NULL) {
        kva_check_result_free(result);
        return kva_fail_memory(error, sizeof *log);
    }
    enum kva_status status = kva_log_read(atlas, options->log, arena, log, error);
    if (status == KVA_OK)
        status = choose_engine(log, asked != NULL ? asked->engine : NULL, options->log, &call.part, error);
    if (status == KVA_OK)
        status = check_policy(call.part, error);
    if (status == KVA_OK)
        status = open_model(atlas, options, log, call.part, result, error);
    call.model = result->model;
    if (status == KVA_OK)
        status = compare_all(&call, asked, result, error);
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
