// Answers of fit, held against plans (a value works and the next one does not) and against numbers worked out by hand.
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "unit.h"

static struct kva_atlas *atlas;

static struct kva_fit *fitted(const struct kva_model *model, const struct kva_deployment *deployment,
                              const struct kva_fit_options *options)
{
    struct kva_error error = {0};
    struct kva_fit *fit;
    char line[1024];
    ck_assert_msg(kva_fit_make(atlas, model, deployment, options, &fit, &error) == KVA_OK, "%s",
                  kva_error_line(&error, line, sizeof line));
    return fit;
}

static bool fits(const struct kva_model *model, const struct kva_deployment *deployment)
{
    struct kva_plan *plan;
    if (kva_plan_make(atlas, model, deployment, &plan, NULL) != KVA_OK)
        return false;
    const bool answer = plan->capacity.fits;
    kva_plan_free(plan);
    return answer;
}

static const struct kva_fit_knob *knob(const struct kva_fit *fit, const char *flag)
{
    for (size_t k = 0; k < fit->n_knobs; k++)
        if (strcmp(fit->knobs[k].flag, flag) == 0)
            return &fit->knobs[k];
    return NULL;
}

// ---------------------------------------------------------------- the most that fits

// Phi-4-mini-instruct keeps 131,072 bytes a token: 1 GiB holds 8,192 tokens exactly.
START_TEST(the_largest_context_is_exact)
{
    struct kva_model *model = unit_open(atlas, "microsoft/Phi-4-mini-instruct", NULL);
    struct kva_deployment deployment = {.engine = "exact", .kv_bytes = UINT64_C(1) << 30, .context = 65536};
    struct kva_fit *fit = fitted(model, &deployment, NULL);
    ck_assert(!fit->fits && !fit->limited_by_model);
    ck_assert_uint_eq(fit->max_context, 8192);
    ck_assert_uint_eq(fit->max_sequences, 0);
    ck_assert_str_eq(knob(fit, "--context")->value, "8192");
    ck_assert_str_eq(knob(fit, "--kv-bytes")->value, "8589934592");  // 65,536 x 131,072
    kva_fit_free(fit);
    deployment.kv_bytes--;  // a byte less holds a token less
    fit = fitted(model, &deployment, NULL);
    ck_assert_uint_eq(fit->max_context, 8191);
    kva_fit_free(fit);
    deployment.kv_bytes++;
    deployment.context = 1000;
    fit = fitted(model, &deployment, NULL);
    ck_assert(fit->fits);
    ck_assert_uint_eq(fit->n_knobs, 0);
    ck_assert_uint_eq(fit->max_sequences, 8);  // floor(8,192 / 1,000)
    kva_fit_free(fit);
    kva_model_close(model);
}
END_TEST

// Gemma-3-27B: 10 full layers of 8,192 bytes a token and 52 windows of 1,024 tokens of 8,192 bytes (both in bf16: 16
// heads x (128 + 128) x 2). In 1 GiB the windows, once full, take 52 x 8 MiB; what is left grows by 81,920 bytes a
// token.
START_TEST(a_curve_with_a_knee_is_solved_on_both_sides)
{
    struct kva_model *model = unit_open(atlas, "google/gemma-3-27b-it", NULL);
    struct kva_deployment deployment = {
        .engine = "exact", .kv_bytes = UINT64_C(1) << 30, .context = 4096, .kv_dtype = KVA_BF16};
    struct kva_fit *fit = fitted(model, &deployment, NULL);
    ck_assert_uint_eq(fit->max_context, ((UINT64_C(1) << 30) - 52 * 1024 * UINT64_C(8192)) / 81920);
    kva_fit_free(fit);
    // below the knee every layer grows: 62 x 8,192 bytes a token
    deployment.kv_bytes = 500 * 62 * UINT64_C(8192) + 1;
    fit = fitted(model, &deployment, NULL);
    ck_assert_uint_eq(fit->max_context, 500);
    kva_fit_free(fit);
    kva_model_close(model);
}
END_TEST

// Of every engine that there is and takes a budget.
START_TEST(every_answer_fits_and_the_next_does_not)
{
    static const char *const MODELS[] = {"google/gemma-3-27b-it", "microsoft/Phi-4-mini-flash-reasoning",
                                         "openai/gpt-oss-20b", "meta-llama/Llama-3.1-8B-Instruct"};
    static const uint64_t SEQUENCES[] = {1, 7, 64};
    size_t answers = 0;
    for (size_t m = 0; m < sizeof MODELS / sizeof *MODELS; m++) {
        struct kva_model *model = unit_open(atlas, MODELS[m], NULL);
        for (size_t e = 0; kva_engine_name(e) != NULL; e++)
            for (size_t s = 0; s < sizeof SEQUENCES / sizeof *SEQUENCES; s++) {
                struct kva_deployment deployment = {
                    .engine = kva_engine_name(e), .gpu = "h100", .context = 3000, .sequences = SEQUENCES[s]};
                struct kva_fit *fit;
                if (kva_fit_make(atlas, model, &deployment, NULL, &fit, NULL) != KVA_OK)
                    continue;
                answers++;
                struct kva_deployment tried = deployment;
                if (fit->max_context > 0) {
                    tried.context = fit->max_context;
                    ck_assert_msg(fits(model, &tried), "%s %s %llu", MODELS[m], deployment.engine,
                                  (unsigned long long)tried.context);
                }
                tried.context = fit->max_context + 1;
                ck_assert_msg(fit->limited_by_model || !fits(model, &tried), "%s %s %llu", MODELS[m], deployment.engine,
                              (unsigned long long)tried.context);
                tried = deployment;
                tried.sequences = fit->max_sequences;
                ck_assert(fit->max_sequences == 0 || fits(model, &tried));
                tried.sequences++;
                ck_assert_msg(fit->max_sequences == KVA_UNKNOWN || !fits(model, &tried), "%s %s %llu sequences",
                              MODELS[m], deployment.engine, (unsigned long long)tried.sequences);
                for (size_t k = 0; k < fit->n_knobs; k++) {
                    tried = deployment;
                    ck_assert_int_eq(kva_deployment_set(&tried, fit->knobs[k].flag, fit->knobs[k].value, NULL), KVA_OK);
                    ck_assert_msg(fits(model, &tried), "%s %s %s %s", MODELS[m], deployment.engine, fit->knobs[k].flag,
                                  fit->knobs[k].value);
                }
                kva_fit_free(fit);
            }
        kva_model_close(model);
    }
    ck_assert_uint_ge(answers, 4 * 3 * 2);
}
END_TEST

START_TEST(a_context_beyond_the_model_is_answered_and_said)
{
    struct kva_model *model = unit_open(atlas, "microsoft/Phi-4-mini-instruct", NULL);
    const struct kva_deployment deployment = {.engine = "exact", .gpu = "h200", .context = 262144};
    struct kva_fit *fit = fitted(model, &deployment, NULL);
    ck_assert(fit->fits && !fit->limited_by_model);
    ck_assert_uint_eq(fit->max_context, 262144);
    bool said = false;
    for (size_t a = 0; a < fit->plan->n_assumed; a++)
        said = said || strstr(fit->plan->assumed[a], "beyond the model's limit") != NULL;
    ck_assert(said);
    kva_fit_free(fit);
    kva_model_close(model);
}
END_TEST

// ---------------------------------------------------------------- knobs

START_TEST(knobs_work_and_come_in_the_order_of_what_they_cost)
{
    struct kva_model *model = unit_open(atlas, "google/gemma-3-27b-it", NULL);
    const struct kva_deployment asked = {
        .engine = "exact", .gpu = "h100", .memory_fraction = 0.85, .context = 65536, .sequences = 5};
    struct kva_fit *fit = fitted(model, &asked, NULL);
    ck_assert(!fit->fits);
    static const char *const ORDER[] = {"--memory-fraction", "--kv-dtype", "--sequences", "--context",
                                        "--weight-bytes",    "--tp",       "--pp",        "--gpu"};
    size_t at = 0;
    for (size_t k = 0; k < fit->n_knobs; k++) {
        struct kva_deployment turned = asked;
        ck_assert_int_eq(kva_deployment_set(&turned, fit->knobs[k].flag, fit->knobs[k].value, NULL), KVA_OK);
        ck_assert_msg(fits(model, &turned), "%s %s", fit->knobs[k].flag, fit->knobs[k].value);
        while (at < sizeof ORDER / sizeof *ORDER && strcmp(ORDER[at], fit->knobs[k].flag) != 0)
            at++;
        ck_assert_msg(at < sizeof ORDER / sizeof *ORDER, "%s comes too late", fit->knobs[k].flag);
    }
    // and the mildest value that works: a little less of it does not
    struct kva_deployment turned = asked;
    turned.context = strtoull(knob(fit, "--context")->value, NULL, 10) + 1;
    ck_assert(!fits(model, &turned));
    turned = asked;
    turned.sequences = strtoull(knob(fit, "--sequences")->value, NULL, 10) + 1;
    ck_assert(!fits(model, &turned));
    turned = asked;
    turned.weight_bytes = strtoull(knob(fit, "--weight-bytes")->value, NULL, 10) + 1;
    ck_assert(!fits(model, &turned));
    kva_fit_free(fit);
    kva_model_close(model);
}
END_TEST

// 54,018,692,608 bytes of weights are more than the 25,383,256,719 of an RTX 4090.
START_TEST(weights_alone_can_be_too_large)
{
    struct kva_model *model = unit_open(atlas, "google/gemma-3-27b-it", NULL);
    const struct kva_deployment deployment = {.engine = "exact", .gpu = "4090", .context = 4096};
    struct kva_fit *fit = fitted(model, &deployment, NULL);
    ck_assert(!fit->fits && fit->weights_too_large);
    ck_assert_uint_eq(fit->max_context, 0);
    ck_assert_ptr_null(knob(fit, "--context"));
    ck_assert_str_eq(knob(fit, "--tp")->value, "4");  // 2 x 24 GB hold the weights, and then nothing
    kva_fit_free(fit);
    kva_model_close(model);
}
END_TEST

START_TEST(what_cannot_be_answered_is_refused)
{
    struct kva_model *model = unit_open(atlas, "microsoft/Phi-4-mini-instruct", NULL);
    struct kva_deployment deployment = {.engine = "exact"};
    struct kva_error error = {0};
    struct kva_fit *fit;
    ck_assert_int_eq(kva_fit_make(atlas, model, &deployment, NULL, &fit, &error), KVA_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(error.text, "--gpu"));
    deployment.gpu = "h1000";
    ck_assert_int_eq(kva_fit_make(atlas, model, &deployment, NULL, &fit, &error), KVA_REFUSED);
    deployment.gpu = "h100";
    static const double FRACTIONS[] = {-0.5, 1.5, 90, NAN, INFINITY};
    for (size_t f = 0; f < sizeof FRACTIONS / sizeof *FRACTIONS; f++) {
        deployment.memory_fraction = FRACTIONS[f];
        ck_assert_int_eq(kva_fit_make(atlas, model, &deployment, NULL, &fit, &error), KVA_BAD_INPUT);
        ck_assert_ptr_null(fit);
    }
    deployment.memory_fraction = 0;
    deployment.pp = 33;  // 32 layers
    ck_assert_int_eq(kva_fit_make(atlas, model, &deployment, NULL, &fit, &error), KVA_BAD_INPUT);
    deployment.pp = 0;
    deployment.tp = UINT64_MAX;
    ck_assert_int_eq(kva_fit_make(atlas, model, &deployment, NULL, &fit, &error), KVA_BAD_INPUT);
    deployment.tp = 3;  // does not divide 8 heads: a rank holds 3 of them
    ck_assert_int_eq(kva_fit_make(atlas, model, &deployment, NULL, &fit, &error), KVA_OK);
    ck_assert_uint_eq(fit->plan->allocated, 131072 / 8 * 3 * UINT64_C(131072));
    kva_fit_free(fit);
    kva_model_close(model);
}
END_TEST

START_TEST(a_sweep_ends_at_the_models_limit)
{
    struct kva_model *model = unit_open(atlas, "microsoft/Phi-4-mini-instruct", NULL);
    const struct kva_deployment deployment = {.engine = "exact", .kv_bytes = UINT64_C(4) << 30};
    const uint64_t contexts[] = {5, 32768, 32769};
    struct kva_fit_options options = {.sweep = true};
    struct kva_fit *fit = fitted(model, &deployment, &options);
    ck_assert_uint_eq(fit->n_points, 8);  // 1,024 to 131,072
    ck_assert_uint_eq(fit->points[0].context, 1024);
    ck_assert_uint_eq(fit->points[7].context, 131072);
    ck_assert_uint_eq(fit->points[0].max_sequences, 32);  // 4 GiB / (1,024 x 128 KiB)
    ck_assert(fit->points[5].fits && !fit->points[6].fits);
    kva_fit_free(fit);
    options.contexts = contexts;
    options.n_contexts = 3;
    fit = fitted(model, &deployment, &options);
    ck_assert_uint_eq(fit->n_points, 3);
    ck_assert(fit->points[1].fits && !fit->points[2].fits);
    ck_assert_uint_eq(fit->points[2].need, UINT64_C(32769) * 131072);
    kva_fit_free(fit);
    kva_model_close(model);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fit");
    TCase *cases = tcase_create("fit");
    tcase_add_test(cases, the_largest_context_is_exact);
    tcase_add_test(cases, a_curve_with_a_knee_is_solved_on_both_sides);
    tcase_add_test(cases, every_answer_fits_and_the_next_does_not);
    tcase_add_test(cases, a_context_beyond_the_model_is_answered_and_said);
    tcase_add_test(cases, knobs_work_and_come_in_the_order_of_what_they_cost);
    tcase_add_test(cases, weights_alone_can_be_too_large);
    tcase_add_test(cases, what_cannot_be_answered_is_refused);
    tcase_add_test(cases, a_sweep_ends_at_the_models_limit);
    suite_add_tcase(suite, cases);
    return unit_run_on(suite, &atlas);
}
