// One case from beginning to end: open, plan, run, measure, compare.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/error.h"
#include "model/safetensors.h"
#include "model/source.h"
#include "verify/verify.h"

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

// Whether a directory or a snapshot of the cache brings its own weights. directory: [KVA_ORIGIN_PATH]
static bool has_weights(struct kva_atlas *atlas, const char *model, char *directory)
{
    struct kva_origin origin;
    if (strcmp(model, "-") == 0)  // standard input can be read only once
        return false;
    const bool found = kva_origin_find(atlas, model, false, &origin, NULL) == KVA_OK && origin.directory != NULL &&
                       kva_safetensors_present(origin.directory);
    if (found)
        snprintf(directory, KVA_ORIGIN_PATH, "%s", origin.directory);
    kva_origin_free(&origin);
    return found;
}

static enum kva_status open_model(struct kva_atlas *atlas, struct kva_result *result, struct kva_error *error)
{
    struct kva_case *spec = &result->spec;
    struct kva_model_options options = {.dtype = spec->dtype, .layers = spec->depth};
    char directory[KVA_ORIGIN_PATH];
    const bool own = spec->weights == NULL && has_weights(atlas, spec->model, directory);
    if (spec->weights == NULL && !own)
        spec->weights = "random";
    if (options.dtype == KVA_DTYPE_NONE && !own && strcmp(spec->weights, "random") == 0)
        options.dtype = KVA_BF16;
    enum kva_status status = kva_model_open(atlas, spec->model, &options, &result->model, error);
    if (status != KVA_OK)
        return status;
    if (own)
        spec->weights = kva_arena_strdup(result->model->arena, directory);
    if (spec->weights == NULL)
        return kva_fail_memory(error, strlen(directory));
    spec->dtype = result->model->dtype;
    if (spec->dtype == KVA_DTYPE_NONE)
        return kva_fail(error, KVA_BAD_INPUT, result->model->source, "dtype",
                        "the config names no dtype: say --dtype f32 or bf16");
    const struct kva_value *vocab = kva_model_value(result->model, "vocab");
    if (vocab == NULL || vocab->count == 0)
        return kva_fail(error, KVA_REFUSED, result->model->source, "vocab_size",
                        "the executor has no recipe for \"%s\"", result->model->model_type);
    result->vocab = vocab->count;
    return KVA_OK;
}

// Fills the blanks that the prompt decides.
static enum kva_status resolve(struct kva_result *result, const struct kva_prompt *prompt, struct kva_error *error)
{
    struct kva_case *spec = &result->spec;
    spec->sequences = prompt->sequences;
    result->prompt_tokens = prompt->total;
    if (spec->policy == NULL)
        spec->policy = "exact";
    if (spec->reference_form) {
        if (spec->sequences != 1)
            return kva_fail(error, KVA_BAD_INPUT, NULL, "--logits", "takes one sequence, there are %" PRIu64,
                            spec->sequences);
        if (spec->prefill == 0 && spec->reference != NULL)
            spec->prefill = kva_reference_prefill(spec->reference, prompt->total);
        if (spec->prefill == 0)
            spec->prefill = kva_max(prompt->total, 2) - 1;
        if (spec->prefill > prompt->total)
            return kva_fail(error, KVA_BAD_INPUT, NULL, "--prefill", "%" PRIu64 " is more than the %" PRIu64 " tokens",
                            spec->prefill, prompt->total);
        if (spec->decode > 0)
            return kva_fail(error, KVA_BAD_INPUT, NULL, "--decode",
                            "chooses tokens, but --prefill, --logits and --reference run the tokens that are given");
    }
    uint64_t needed;
    if (!kva_add(prompt->longest, spec->decode, &needed))
        return kva_fail(error, KVA_BAD_INPUT, NULL, "--decode", "is too many tokens");
    if (spec->context == 0)
        spec->context = needed;
    if (spec->context < needed)
        return kva_fail(error, KVA_BAD_INPUT, NULL, "--context",
                        "%" PRIu64 " tokens do not hold a prompt of %" PRIu64 " and %" PRIu64 " decoded tokens",
                        spec->context, prompt->longest, spec->decode);
    return KVA_OK;
}

static enum kva_status make_plan(struct kva_atlas *atlas, struct kva_result *result, struct kva_error *error)
{
    const struct kva_case *spec = &result->spec;
    const struct kva_deployment deployment = {.engine = spec->policy,
                                              .context = spec->context,
                                              .sequences = spec->sequences,
                                              .kv_dtype = spec->dtype,
                                              .model_dtype = spec->dtype};
    enum kva_status status = kva_plan_make(atlas, result->model, &deployment, &result->plan, error);
    if (status == KVA_OK && spec->plan_file != NULL)
        status = kva_plan_overlay(spec->plan_file, result->plan, error);
    return status;
}

// Host memory for what is kept, taken before the device is opened: on the CPU the account is the process's own.
static enum kva_status alloc_kept(struct kva_result *result, struct kva_error *error)
{
    const struct kva_case *spec = &result->spec;
    uint64_t bytes, generated;
    if (!kva_mul(spec->decode, spec->sequences, &generated) || !kva_add(generated, spec->sequences, &generated))
        return kva_fail(error, KVA_BAD_INPUT, NULL, "--decode", "is too many tokens");
    if (spec->reference_form) {
        result->logit_rows = result->prompt_tokens;
        result->decode_rows = result->prompt_tokens - spec->prefill;
    } else if (spec->keep_logits)
        result->logit_rows = (1 + spec->decode) * spec->sequences;
    if (!kva_mul3(result->logit_rows + result->decode_rows, result->vocab, sizeof(float), &bytes))
        return kva_fail(error, KVA_BAD_INPUT, NULL, "--logits", "the logits do not fit 64 bits");
    if (result->logit_rows > 0)
        result->logits = calloc(result->logit_rows * result->vocab, sizeof(float));
    if (result->decode_rows > 0)
        result->decode_logits = calloc(result->decode_rows * result->vocab, sizeof(float));
    result->generated = calloc(spec->decode * spec->sequences + 1, sizeof *result->generated);
    if ((result->logit_rows > 0 && result->logits == NULL) ||
        (result->decode_rows > 0 && result->decode_logits == NULL) || result->generated == NULL)
        return kva_fail_memory(error, bytes);
    return KVA_OK;
}

static struct kva_run_options run_options(const struct kva_result *result)
{
    const struct kva_case *spec = &result->spec;
    return (struct kva_run_options){.backend = spec->backend,
                                    .dtype = spec->dtype,
                                    .policy = spec->policy,
                                    .context = spec->context,
                                    .sequences = spec->sequences,
                                    .chunk = spec->chunk,
                                    .weights = spec->weights,
                                    .seed = spec->seed,
                                    .no_prune = spec->no_prune,
                                    .all_logits = spec->reference_form,
                                    .profile = spec->profile,
                                    .progress = spec->progress,
                                    .user = spec->user};
}

// Prompt, then greedy decoding. Each decoded token's own logits are kept when asked for.
static enum kva_status generate(struct kva_session *session, const struct kva_prompt *prompt, struct kva_result *result,
                                struct kva_error *error)
{
    const struct kva_case *spec = &result->spec;
    const uint64_t row = spec->sequences * result->vocab;
    uint32_t *tokens = calloc(spec->sequences, sizeof *tokens);
    uint64_t *ones = calloc(spec->sequences, sizeof *ones);
    enum kva_status status = tokens == NULL || ones == NULL ? kva_fail_memory(error, spec->sequences * 12) : KVA_OK;
    for (uint64_t s = 0; s < spec->sequences && ones != NULL; s++)
        ones[s] = 1;
    double start = now();
    if (status == KVA_OK)
        status = kva_session_pass(session, prompt->tokens, prompt->lengths, result->logits, error);
    if (status == KVA_OK)
        status = kva_session_sync(session, error);
    result->prefill_seconds = now() - start;
    result->pruned_rows = kva_session_pruned_rows(session);
    memcpy(result->prefill_stages, kva_session_stages(session), sizeof result->prefill_stages);
    kva_session_stages_reset(session);
    start = now();
    for (uint64_t step = 0; step < spec->decode && status == KVA_OK; step++) {
        status = kva_session_greedy(session, tokens, error);
        for (uint64_t s = 0; s < spec->sequences; s++)
            result->generated[s * spec->decode + step] = tokens[s];
        if (status == KVA_OK)
            status = kva_session_pass(session, tokens, ones,
                                      result->logits != NULL ? result->logits + (step + 1) * row : NULL, error);
    }
    if (status == KVA_OK)
        status = kva_session_sync(session, error);
    result->decode_seconds = now() - start;
    memcpy(result->decode_stages, kva_session_stages(session), sizeof result->decode_stages);
    free(tokens);
    free(ones);
    return status;
}

// The reference form: one whole pass, then a prefill and a decode of the same tokens with the cache.
static enum kva_status follow_reference(struct kva_session *session, const struct kva_prompt *prompt,
                                        struct kva_result *result, struct kva_error *error)
{
    const uint64_t prefill = result->spec.prefill, vocab = result->vocab, one = 1;
    enum kva_status status = kva_session_pass(session, prompt->tokens, prompt->lengths, result->logits, error);
    if (status == KVA_OK)
        status = kva_session_reset(session, error);
    if (status != KVA_OK || result->decode_rows == 0)
        return status;
    float *rows = malloc(prefill * vocab * sizeof *rows);
    if (rows == NULL)
        return kva_fail_memory(error, prefill * vocab * sizeof *rows);
    status = kva_session_pass(session, prompt->tokens, &prefill, rows, error);
    if (status == KVA_OK)
        memcpy(result->decode_logits, rows + (prefill - 1) * vocab, vocab * sizeof *rows);
    free(rows);
    for (uint64_t row = 1; row < result->decode_rows && status == KVA_OK; row++)
        status = kva_session_pass(session, prompt->tokens + prefill + row - 1, &one,
                                  result->decode_logits + row * vocab, error);
    return status;
}

static enum kva_status measure(struct kva_session *session, struct kva_result *result, struct kva_error *error)
{
    size_t n;
    const struct kva_allocation *ledger = kva_session_ledger(session, &n);
    uint64_t *const sums[KVA_N_PURPOSES] = {
        [KVA_WEIGHTS] = &result->measured.weights,
        [KVA_CACHE] = &result->measured.cache,
        [KVA_ACTIVATIONS] = &result->measured.activations,
        [KVA_WORKSPACE] = &result->measured.workspace,
    };
    result->ledger = malloc((n + 1) * sizeof *ledger);
    if (result->ledger == NULL)
        return kva_fail_memory(error, (n + 1) * sizeof *ledger);
    for (size_t i = 0; i < n; i++) {
        result->ledger[i] = ledger[i];
        *sums[ledger[i].purpose] += ledger[i].asked;
    }
    result->n_ledger = n;
    return KVA_OK;
}

static enum kva_status predict(struct kva_session *session, struct kva_result *result, struct kva_error *error)
{
    const struct kva_footprint_options options = {.rows = kva_session_rows(session),
                                                  .logit_rows = kva_session_logit_rows(session),
                                                  .page_bytes = result->device.page_bytes,
                                                  .workspace = kva_session_workspace(session)};
    struct kva_footprint *footprint = &result->footprint;
    const enum kva_status status = kva_footprint(result->plan, &options, footprint, error);
    if (status != KVA_OK)
        return status;
    result->predicted = (struct kva_numbers){.weights = footprint->weights,
                                             .cache = footprint->cache,
                                             .activations = footprint->activations,
                                             .workspace = footprint->workspace,
                                             .process = result->device.context_bytes + footprint->given};
    result->process_tolerance = footprint->allocations * result->device.page_bytes;
    return KVA_OK;
}

static enum kva_status run(const struct kva_prompt *prompt, struct kva_result *result, struct kva_error *error)
{
    struct kva_run_options options = run_options(result);
    struct kva_session *session;
    // before anything is opened the page size is not known: the message's sum leaves rounding out
    struct kva_footprint before;
    const struct kva_footprint_options rough = {
        .rows = kva_max(options.chunk > 0 ? options.chunk : 1, options.sequences), .logit_rows = 1, .page_bytes = 1};
    if (kva_footprint(result->plan, &rough, &before, NULL) == KVA_OK)
        options.predicted_bytes = before.given;
    const double start = now();
    enum kva_status status = kva_session_open(result->model, &options, &session, error);
    if (status != KVA_OK)
        return status;
    result->load_seconds = now() - start;
    result->device = *kva_session_device(session);
    status = predict(session, result, error);
    if (status == KVA_OK)
        status = result->spec.reference_form ? follow_reference(session, prompt, result, error)
                                             : generate(session, prompt, result, error);
    result->measured.process = kva_session_device_used(session);
    if (status == KVA_OK)
        status = measure(session, result, error);
    kva_session_close(session);
    return status;
}

enum kva_status kva_case_run(struct kva_atlas *atlas, const struct kva_case *spec, struct kva_result *result,
                             struct kva_error *error)
{
    *result = (struct kva_result){.spec = *spec, .live_cache_bytes = KVA_UNKNOWN};
    struct kva_prompt prompt = {0};
    result->spec.reference_form |= spec->reference != NULL;
    if (result->spec.sequences == 0)
        result->spec.sequences = 1;
    if (result->spec.prompt_length == 0)
        result->spec.prompt_length = 16;
    enum kva_status status = open_model(atlas, result, error);
    if (status == KVA_OK)
        status = kva_prompt_make(&result->spec, result->vocab, &prompt, error);
    if (status == KVA_OK)
        status = resolve(result, &prompt, error);
    if (status == KVA_OK)
        status = make_plan(atlas, result, error);
    if (status == KVA_OK)
        status = alloc_kept(result, error);
    if (status == KVA_OK)
        status = run(&prompt, result, error);
    if (status == KVA_OK && spec->reference != NULL)
        status = kva_reference_compare(&result->spec, result, error);
    kva_prompt_free(&prompt);
    if (status != KVA_OK) {
        kva_result_free(result);
        *result = (struct kva_result){.status = status, .spec = *spec};
        if (error != NULL)
            result->error = *error;
        return status;
    }
    kva_result_judge(result);
    return KVA_OK;
}

void kva_result_free(struct kva_result *result)
{
    kva_plan_free(result->plan);
    kva_model_close(result->model);
    free(result->ledger);
    free(result->generated);
    free(result->logits);
    free(result->decode_logits);
    *result = (struct kva_result){0};
}
