// kvatlas verify [SUITE|MODEL...]: run and compare, for CI.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/case.h"
#include "cli/cli.h"
#include "report/result.h"

struct cases {
    struct kva_case *cases;
    size_t n;
    struct kva_suite *suites;  // [n_arguments], what the cases' strings live in
    size_t n_suites;
    char pinned[KVA_MAX_ENGINES][32];  // policies of a saved plan
};

static enum kva_status append(struct cases *cases, const struct kva_case *more, size_t n, struct kva_error *error)
{
    struct kva_case *grown = realloc(cases->cases, (cases->n + n + 1) * sizeof *grown);
    if (grown == NULL)
        return kva_fail_memory(error, (cases->n + n) * sizeof *grown);
    cases->cases = grown;
    memcpy(grown + cases->n, more, n * sizeof *more);
    cases->n += n;
    return KVA_OK;
}

static bool is_suite(const char *argument)
{
    const char *ending = strrchr(argument, '.');
    return ending != NULL && (strcmp(ending, ".yaml") == 0 || strcmp(ending, ".yml") == 0);
}

// A model on the command line runs under each policy that was named, under those of the saved plan that it is held
// against, or under exact and full.
static enum kva_status add_model(const struct kva_options *options, const char *model, struct cases *cases,
                                 struct kva_error *error)
{
    static const char *const BOTH[] = {"exact", "full"};
    size_t n = options->n_engines > 0 ? options->n_engines : 2, n_pinned = 0;
    uint64_t context = 0, sequences = 0;
    if (options->plan != NULL) {
        const enum kva_status status =
            kva_plan_file_read(options->plan, cases->pinned, KVA_MAX_ENGINES, &n_pinned, &context, &sequences, error);
        if (status != KVA_OK)
            return status;
        n = options->n_engines > 0 ? n : n_pinned;
    }
    for (size_t i = 0; i < n; i++) {
        struct kva_case spec = kva_cli_case(options, model);
        spec.policy = options->n_engines > 0 ? options->engines[i] : n_pinned > 0 ? cases->pinned[i] : BOTH[i];
        spec.context = spec.context > 0 ? spec.context : context;
        spec.sequences = spec.sequences > 0 ? spec.sequences : sequences;
        spec.keep_logits = true;
        const enum kva_status status = append(cases, &spec, 1, error);
        if (status != KVA_OK)
            return status;
    }
    return KVA_OK;
}

// A suite says of each case how it runs; flags that say it too are for models.
static enum kva_status check_flags_of_suite(const struct kva_options *options, const char *suite,
                                            struct kva_error *error)
{
    static const struct {
        enum kva_flag flag;
        const char *name;
    } OF_MODELS[] = {
        {KVA_FLAG_CONTEXT, "--context"},
        {KVA_FLAG_SEQUENCES, "--sequences"},
        {KVA_FLAG_ENGINE, "--policy"},
        {KVA_FLAG_DTYPE, "--dtype"},
        {KVA_FLAG_WEIGHTS, "--weights"},
        {KVA_FLAG_SEED, "--seed"},
        {KVA_FLAG_CHUNK, "--chunk"},
        {KVA_FLAG_NO_PRUNE, "--no-prune"},
        {KVA_FLAG_DEPTH, "--depth"},
        {KVA_FLAG_TOKENS, "--tokens"},
        {KVA_FLAG_PREFILL, "--prefill"},
        {KVA_FLAG_DECODE, "--decode"},
        {KVA_FLAG_REFERENCE, "--reference"},
        {KVA_FLAG_PLAN, "--plan"},
        {KVA_FLAG_PROMPT_LENGTH, "--prompt-length"},
    };
    for (size_t i = 0; i < sizeof OF_MODELS / sizeof *OF_MODELS; i++)
        if (kva_given(options, OF_MODELS[i].flag))
            return kva_fail(error, KVA_BAD_INPUT, NULL, OF_MODELS[i].name,
                            "is for models: %s says it of each of its cases", suite);
    return KVA_OK;
}

static enum kva_status collect(const struct kva_options *options, struct cases *cases, struct kva_error *error)
{
    const char *backend = options->backend;
    const bool has_gpu = (backend == NULL || strcmp(backend, "cuda") == 0) && kva_backend_answers("cuda");
    cases->suites = calloc(options->n_arguments + 1, sizeof *cases->suites);
    if (cases->suites == NULL)
        return kva_fail_memory(error, options->n_arguments * sizeof *cases->suites);
    enum kva_status status = KVA_OK;
    for (size_t i = 0; i < options->n_arguments && status == KVA_OK; i++) {
        if (!is_suite(options->arguments[i])) {
            status = add_model(options, options->arguments[i], cases, error);
            continue;
        }
        status = check_flags_of_suite(options, options->arguments[i], error);
        if (status != KVA_OK)
            continue;
        struct kva_suite *suite = &cases->suites[cases->n_suites];
        status = kva_suite_read(options->arguments[i], has_gpu, suite, error);
        if (status != KVA_OK)
            continue;
        cases->n_suites++;
        for (size_t c = 0; c < suite->n_cases; c++) {
            if (backend != NULL)
                suite->cases[c].backend = backend;
            suite->cases[c].progress = kva_cli_case(options, NULL).progress;
        }
        status = append(cases, suite->cases, suite->n_cases, error);
    }
    if (status == KVA_OK && cases->n == 0)
        status = kva_fail(error, KVA_BAD_INPUT, NULL, "verify",
                          "name a suite file (.yaml) or a model; data/suites holds suites to start from");
    return status;
}

// Two cases that differ in nothing but the policy.
static bool same_but_policy(const struct kva_result *a, const struct kva_result *b)
{
    return strcmp(a->spec.model, b->spec.model) == 0 && strcmp(a->spec.policy, b->spec.policy) != 0 &&
           strcmp(a->spec.weights, b->spec.weights) == 0 && strcmp(a->device.backend, b->device.backend) == 0 &&
           a->spec.dtype == b->spec.dtype && a->spec.context == b->spec.context &&
           a->spec.sequences == b->spec.sequences && a->spec.depth == b->spec.depth && a->spec.seed == b->spec.seed &&
           a->spec.decode == b->spec.decode && a->prompt_tokens == b->prompt_tokens &&
           a->spec.prefill == b->spec.prefill && a->spec.chunk == b->spec.chunk &&
           a->spec.no_prune == b->spec.no_prune && a->spec.reference_form == b->spec.reference_form;
}

// Runs every case. Returns the worst status of those that could not run; each has then been reported.
static enum kva_status run_all(struct kva_atlas *atlas, const struct cases *cases, struct kva_result *results,
                               size_t *n, struct kva_error *error)
{
    enum kva_status worst = KVA_OK;
    for (*n = 0; *n < cases->n;) {
        if (isatty(STDERR_FILENO))
            fprintf(stderr, "\r\033[Kcase %zu of %zu: %s\n", *n + 1, cases->n, cases->cases[*n].model);
        struct kva_result *last = &results[*n];
        const enum kva_status status = kva_case_run(atlas, &cases->cases[(*n)++], last, error);
        kva_cli_progress_end();
        // one case that cannot run does not take the others' results away
        if (status != KVA_OK) {
            kva_cli_fail(error);
            worst = status > worst ? status : worst;
            continue;
        }
        for (size_t i = 0; i + 1 < *n; i++)
            if (results[i].status == KVA_OK && results[i].lossless == KVA_NOT_CHECKED &&
                same_but_policy(&results[i], last))
                kva_result_compare_lossless(&results[i], last);
    }
    return worst;
}

static enum kva_status write_files(const struct kva_options *options, const struct kva_result *results, size_t n,
                                   struct kva_error *error)
{
    enum kva_status status = KVA_OK;
    struct kva_report_style style = {.format = KVA_FORMAT_JSON};
    struct kva_options json = {.output = options->json}, junit = {.output = options->junit};
    struct kva_text text = {0};
    if (options->json != NULL) {
        status = kva_report_verify(results, n, &style, &text, error);
        if (status == KVA_OK)
            status = kva_cli_write(&json, &text, error);
        kva_text_free(&text);
    }
    if (status == KVA_OK && options->junit != NULL) {
        status = kva_report_junit(results, n, &text, error);
        if (status == KVA_OK)
            status = kva_cli_write(&junit, &text, error);
        kva_text_free(&text);
    }
    return status;
}

int kva_cli_verify(struct kva_options *options)
{
    struct kva_error error = {0};
    struct kva_atlas *atlas = NULL;
    struct cases cases = {0};
    struct kva_result *results = NULL;
    struct kva_text text = {0};
    struct kva_report_style style = kva_cli_style(options);
    size_t n = 0;
    bool matches = true;
    enum kva_status status = collect(options, &cases, &error);
    if (status == KVA_OK)
        status = kva_atlas_open(options->data, &atlas, &error);
    if (status == KVA_OK && (results = calloc(cases.n + 1, sizeof *results)) == NULL)
        status = kva_fail_memory(&error, cases.n * sizeof *results);
    enum kva_status unable = KVA_OK;
    if (status == KVA_OK)
        unable = run_all(atlas, &cases, results, &n, &error);
    if (status == KVA_OK)
        status = kva_report_verify(results, n, &style, &text, &error);
    if (status == KVA_OK)
        status = kva_cli_write(options, &text, &error);
    if (status == KVA_OK)
        status = write_files(options, results, n, &error);
    for (size_t i = 0; i < n; i++) {
        matches &= results[i].matches || results[i].status != KVA_OK;
        kva_result_free(&results[i]);
    }
    if (status != KVA_OK)
        kva_cli_fail(&error);
    else if (unable != KVA_OK)
        status = unable;
    else if (!matches)
        status = KVA_MISMATCH;
    kva_text_free(&text);
    for (size_t i = 0; i < cases.n_suites; i++)
        kva_suite_free(&cases.suites[i]);
    free(cases.suites);
    free(cases.cases);
    free(results);
    kva_atlas_close(atlas);
    return (int)status;
}
