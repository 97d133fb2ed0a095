// Verification itself: that what matches is called a match, and that one byte too many or too few is found.
#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "kvatlas.h"
#include "report/result.h"
#include "unit.h"

static struct kva_atlas *atlas;

static void setup(void)
{
    struct kva_error error;
    ck_assert_int_eq(kva_atlas_open(NULL, &atlas, &error), KVA_OK);
}

static void teardown(void)
{
    kva_atlas_close(atlas);
}

static const char SAMBAY[] = TEST_DATA "/hf-tiny/sambay-8";

// Under valgrind the process's mapped pages are valgrind's too, so that the system's account tells nothing of ours.
static bool account_is_shared(void)
{
    char line[512];
    bool shared = false;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && !shared && fgets(line, sizeof line, maps) != NULL)
        shared = strstr(line, "vgpreload") != NULL;
    if (maps != NULL)
        fclose(maps);
    return shared;
}

static void run(struct kva_result *result, const char *policy)
{
    const struct kva_case spec = {.model = SAMBAY,
                                  .backend = "cpu",
                                  .policy = policy,
                                  .dtype = KVA_F32,
                                  .prompt_length = 40,
                                  .decode = 5,
                                  .keep_logits = true};
    struct kva_error error = {0};
    ck_assert_msg(kva_case_run(atlas, &spec, result, &error) == KVA_OK, "%s", error.text);
    if (account_is_shared()) {
        result->measured.process = result->predicted.process;
        kva_result_judge(result);
    }
}

START_TEST(an_honest_plan_matches_under_both_policies_and_loses_nothing)
{
    struct kva_result exact, full;
    run(&exact, "exact");
    run(&full, "full");
    ck_assert_msg(exact.matches && full.matches, "%s%s", exact.explanation, full.explanation);
    ck_assert_int_eq(exact.lossless, KVA_NOT_CHECKED);
    kva_result_compare_lossless(&exact, &full);
    ck_assert_int_eq(exact.lossless, KVA_HOLDS);
    ck_assert_int_eq(full.lossless, KVA_HOLDS);
    // SambaY with 8 layers: 3 states, 2 windows of 8, 1 full at layer 5; 2 layers own nothing (design, section 1)
    size_t caches = 0;
    for (size_t i = 0; i < exact.n_ledger; i++)
        caches += exact.ledger[i].purpose == KVA_CACHE;
    ck_assert_uint_eq(caches, 6);
    kva_result_free(&exact);
    kva_result_free(&full);
}
END_TEST

START_TEST(one_byte_changed_in_any_layer_of_a_plan_is_found)
{
    struct kva_result result;
    run(&result, "exact");
    for (size_t i = 0; i < result.plan->n_layers; i++) {
        result.plan->layers[i].allocated++;
        kva_result_judge(&result);
        ck_assert_msg(!result.matches && result.asked == KVA_FAILS, "layer %zu: one byte more was not found", i);
        ck_assert_ptr_nonnull(strstr(result.explanation, "layer"));
        result.plan->layers[i].allocated--;
    }
    kva_result_judge(&result);
    ck_assert(result.matches);
    uint64_t *const numbers[] = {&result.predicted.weights, &result.predicted.cache, &result.predicted.activations,
                                 &result.predicted.workspace};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        ++*numbers[i];
        kva_result_judge(&result);
        ck_assert_msg(!result.matches, "number %zu: one byte more was not found", i);
        --*numbers[i];
    }
    result.predicted.process += result.process_tolerance + 1;
    kva_result_judge(&result);
    ck_assert(!result.matches && result.given == KVA_FAILS);
    kva_result_free(&result);
}
END_TEST

START_TEST(a_logit_changed_in_its_last_bit_is_not_lossless)
{
    struct kva_result exact, full;
    run(&exact, "exact");
    run(&full, "full");
    uint32_t bits;
    memcpy(&bits, &full.logits[17], sizeof bits);
    bits ^= 1;
    memcpy(&full.logits[17], &bits, sizeof bits);
    kva_result_compare_lossless(&exact, &full);
    ck_assert_int_eq(exact.lossless, KVA_FAILS);
    ck_assert(!exact.matches && !full.matches);
    kva_result_free(&exact);
    kva_result_free(&full);
}
END_TEST

START_TEST(another_models_logits_are_not_right)
{
    const struct kva_case spec = {.model = TEST_DATA "/hf-tiny/llama",
                                  .backend = "cpu",
                                  .dtype = KVA_F32,
                                  .prefill = 30,
                                  .tokens_file = TEST_DATA "/hf-tiny/llama/expected.safetensors",
                                  .reference = TEST_DATA "/hf-tiny/qwen3/expected.safetensors"};
    struct kva_result result;
    struct kva_error error = {0};
    ck_assert_msg(kva_case_run(atlas, &spec, &result, &error) == KVA_OK, "%s", error.text);
    ck_assert_int_eq(result.right, KVA_FAILS);
    ck_assert(!result.matches);
    kva_result_free(&result);
}
END_TEST

// ---------------------------------------------------------------- suites and token files

static const char *temporary(char *name, const char *ending, const char *text)
{
    struct kva_error error = {0};
    snprintf(name, 64, "/tmp/kvatlas-test-%ld-%d%s", (long)getpid(), rand(), ending);
    ck_assert_msg(kva_file_write(name, text, strlen(text), &error) == KVA_OK, "%s", error.text);
    return name;
}

START_TEST(a_suite_is_multiplied_out)
{
    char name[64];
    struct kva_suite suite;
    struct kva_error error = {0};
    temporary(name, ".yaml",
              "cases:\n"
              "  - models: [microsoft/Phi-4-mini-instruct, google/gemma-3-4b-it]\n"
              "    contexts: [32k, 128k]\n"
              "    contexts_without_gpu: [512]\n"
              "    policies: [exact, full]\n"
              "    decode: 8\n"
              "    depth_without_gpu: 2\n");
    ck_assert_msg(kva_suite_read(name, true, &suite, &error) == KVA_OK, "%s", error.text);
    ck_assert_uint_eq(suite.n_cases, 8);
    ck_assert_uint_eq(suite.cases[0].context, 32768);
    ck_assert_uint_eq(suite.cases[0].prompt_length, 32760);
    ck_assert_uint_eq(suite.cases[0].depth, 0);
    ck_assert_str_eq(suite.cases[1].policy, "full");
    ck_assert_uint_eq(suite.cases[2].context, 131072);
    kva_suite_free(&suite);
    ck_assert_int_eq(kva_suite_read(name, false, &suite, &error), KVA_OK);
    ck_assert_uint_eq(suite.n_cases, 4);
    ck_assert_uint_eq(suite.cases[0].context, 512);
    ck_assert_uint_eq(suite.cases[0].depth, 2);
    kva_suite_free(&suite);
    remove(name);
}
END_TEST

static const struct {
    const char *text, *key;
} BAD_SUITES[] = {
    {"cases:\n  - models: [a]\n    contexts: [many]\n", "contexts"},
    {"cases:\n  - models: [a]\n    contxts: [1]\n", "contxts"},
    {"cases:\n  - contexts: [1]\n", "models"},
    {"cases:\n  - models: [a]\n    dtypes: [float7]\n", "dtypes"},
    {"cases:\n  - models: [a]\n    decode: -1\n", "decode"},
    {"cases: 7\n", "cases"},
    {"", ""},
    {"cases: [", ""},
    {"a: &a [*a, *a]\ncases: *a\n", ""},
};

START_TEST(a_suite_that_is_not_one_is_refused_with_its_place)
{
    char name[64];
    struct kva_suite suite;
    struct kva_error error = {0};
    temporary(name, ".yaml", BAD_SUITES[_i].text);
    ck_assert_int_eq(kva_suite_read(name, true, &suite, &error), KVA_BAD_INPUT);
    ck_assert_str_eq(error.file, name);
    ck_assert_msg(strstr(error.key, BAD_SUITES[_i].key) != NULL || strstr(error.text, BAD_SUITES[_i].key) != NULL,
                  "\"%s\" / \"%s\" does not name %s", error.key, error.text, BAD_SUITES[_i].key);
    remove(name);
}
END_TEST

START_TEST(token_files_hold_one_sequence_a_line)
{
    char name[64];
    uint32_t *tokens;
    uint64_t *lengths, sequences;
    struct kva_error error = {0};
    temporary(name, ".txt", "[1, 2, 3]\n\n4 5\n4294967295\n");
    ck_assert_int_eq(kva_tokens_read(name, &tokens, &lengths, &sequences, &error), KVA_OK);
    ck_assert_uint_eq(sequences, 3);
    ck_assert_uint_eq(lengths[0], 3);
    ck_assert_uint_eq(lengths[1], 2);
    ck_assert_uint_eq(tokens[5], UINT32_MAX);
    free(tokens);
    free(lengths);
    remove(name);
}
END_TEST

static const char *const BAD_TOKENS[] = {"", "\n\n", "1 2 x", "-1", "4294967296", "99999999999999999999999999", "1.5"};

START_TEST(token_files_that_are_not_are_refused)
{
    char name[64];
    uint32_t *tokens;
    uint64_t *lengths, sequences;
    struct kva_error error = {0};
    temporary(name, ".txt", BAD_TOKENS[_i]);
    ck_assert_int_eq(kva_tokens_read(name, &tokens, &lengths, &sequences, &error), KVA_BAD_INPUT);
    remove(name);
}
END_TEST

START_TEST(logits_are_written_in_the_form_that_they_are_read)
{
    char name[64];
    struct kva_result result;
    struct kva_error error = {0};
    const struct kva_case spec = {.model = SAMBAY,
                                  .backend = "cpu",
                                  .dtype = KVA_F32,
                                  .prefill = 30,
                                  .reference_form = true,
                                  .tokens_file = TEST_DATA "/hf-tiny/sambay-8/expected.safetensors"};
    ck_assert_int_eq(kva_case_run(atlas, &spec, &result, &error), KVA_OK);
    temporary(name, ".safetensors", "");
    ck_assert_msg(kva_report_logits(&result, name, &error) == KVA_OK, "%s", error.text);
    // what was written is what the next run is compared with: no difference at all
    struct kva_case again = spec;
    struct kva_result second;
    again.reference = name;
    again.tolerance = 1e-30;
    ck_assert_msg(kva_case_run(atlas, &again, &second, &error) == KVA_OK, "%s", error.text);
    ck_assert_int_eq(second.right, KVA_HOLDS);
    ck_assert(second.right_difference == 0);
    kva_result_free(&result);
    kva_result_free(&second);
    remove(name);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("verify");
    TCase *verdicts = tcase_create("verdicts");
    tcase_add_checked_fixture(verdicts, setup, teardown);
    tcase_set_timeout(verdicts, 120);
    tcase_add_test(verdicts, an_honest_plan_matches_under_both_policies_and_loses_nothing);
    tcase_add_test(verdicts, one_byte_changed_in_any_layer_of_a_plan_is_found);
    tcase_add_test(verdicts, a_logit_changed_in_its_last_bit_is_not_lossless);
    tcase_add_test(verdicts, another_models_logits_are_not_right);
    tcase_add_test(verdicts, logits_are_written_in_the_form_that_they_are_read);
    suite_add_tcase(suite, verdicts);
    TCase *files = tcase_create("files");
    tcase_add_test(files, a_suite_is_multiplied_out);
    tcase_add_loop_test(files, a_suite_that_is_not_one_is_refused_with_its_place, 0,
                        sizeof BAD_SUITES / sizeof *BAD_SUITES);
    tcase_add_test(files, token_files_hold_one_sequence_a_line);
    tcase_add_loop_test(files, token_files_that_are_not_are_refused, 0, sizeof BAD_TOKENS / sizeof *BAD_TOKENS);
    suite_add_tcase(suite, files);
    return unit_run(suite);
}
