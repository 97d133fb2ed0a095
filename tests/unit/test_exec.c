// The executor against independent implementations: Hugging Face Transformers 5.17 and a float64 SambaY
// (tests/data/hf-tiny, tests/data/reference: each folder's measured.json says how its logits were made).
#include <check.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "exec/rope_table.h"
#include "kvatlas.h"
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

struct fixture {
    const char *folder;
    uint64_t prefill;  // measured.json
    // 0: 1e-4 at f32, 3e-2 of the logits' standard deviation at bf16. sambay-12 multiplies small differences: rounding
    // its weights to bf16 moves its logits by 0.11 of their deviation before any arithmetic is rounded (README there).
    double f32_tolerance, bf16_tolerance;
};

static const struct fixture FIXTURES[] = {
    {.folder = "hf-tiny/llama", .prefill = 30},
    {.folder = "hf-tiny/llama-rope3", .prefill = 30},
    {.folder = "hf-tiny/llama-tied-mha", .prefill = 30},
    {.folder = "hf-tiny/mistral-full", .prefill = 30},
    {.folder = "hf-tiny/qwen2", .prefill = 30},
    {.folder = "hf-tiny/qwen3", .prefill = 30},
    {.folder = "hf-tiny/phi3-window", .prefill = 30},
    {.folder = "hf-tiny/phi4-mini-longrope", .prefill = 30},
    {.folder = "hf-tiny/gemma2", .prefill = 30},
    {.folder = "hf-tiny/gemma3", .prefill = 30},
    {.folder = "hf-tiny/sambay-8", .prefill = 30},
    {.folder = "reference/llama-linear", .prefill = 30},
    {.folder = "reference/llama-dynamic", .prefill = 30},
    {.folder = "reference/llama-yarn", .prefill = 30},
    {.folder = "reference/llama-yarn-attention", .prefill = 30},
    {.folder = "reference/llama-llama3", .prefill = 30},
    {.folder = "reference/llama-bias", .prefill = 1},
    {.folder = "reference/llama-sharded", .prefill = 30},
    {.folder = "reference/phi3-longrope-short", .prefill = 30},
    {.folder = "reference/phi3-partial", .prefill = 30},
    {.folder = "reference/phi3-short-prompt", .prefill = 3},
    {.folder = "reference/qwen3-window", .prefill = 30},
    {.folder = "reference/qwen2-window", .prefill = 6},
    {.folder = "reference/mistral-window", .prefill = 7},
    {.folder = "reference/gemma3-linear", .prefill = 30},
    {.folder = "reference/gemma2-softcap", .prefill = 30},
    {.folder = "reference/gemma3-wrapper", .prefill = 30},
    {.folder = "reference/sambay-12", .prefill = 41, .f32_tolerance = 5e-4, .bf16_tolerance = 0.15},
    {.folder = "reference/sambay-8-short-prompt", .prefill = 2},
};
enum { N_FIXTURES = sizeof FIXTURES / sizeof *FIXTURES };

static char *path(char *buffer, const char *folder, const char *file)
{
    snprintf(buffer, 512, "%s/%s%s%s", TEST_DATA, folder, file[0] != '\0' ? "/" : "", file);
    return buffer;
}

static void expect_right(const struct fixture *fixture, enum kva_dtype dtype, const char *policy, uint64_t chunk)
{
    char folder[512], reference[512];
    const struct kva_case spec = {
        .model = path(folder, fixture->folder, ""),
        .backend = "cpu",
        .dtype = dtype,
        .policy = policy,
        .prefill = fixture->prefill,
        .chunk = chunk,
        .tolerance = dtype == KVA_F32 ? fixture->f32_tolerance : fixture->bf16_tolerance,
        .reference =
            path(reference, fixture->folder, dtype == KVA_F32 ? "expected.safetensors" : "expected-bf16.safetensors"),
    };
    struct kva_result result;
    struct kva_error error = {0};
    char line[1024];
    ck_assert_msg(kva_case_run(atlas, &spec, &result, &error) == KVA_OK, "%s: %s", fixture->folder,
                  kva_error_line(&error, line, sizeof line));
    ck_assert_msg(result.right == KVA_HOLDS, "%s %s %s: logits differ by %g, %g is allowed", fixture->folder, policy,
                  kva_dtype_name(dtype), result.right_difference, result.right_tolerance);
    ck_assert_msg(result.asked == KVA_HOLDS, "%s %s: %s", fixture->folder, policy, result.explanation);
    kva_result_free(&result);
}

START_TEST(logits_at_f32_equal_the_reference_under_exact)
{
    expect_right(&FIXTURES[_i], KVA_F32, "exact", 0);
}
END_TEST

START_TEST(logits_at_f32_equal_the_reference_under_full)
{
    expect_right(&FIXTURES[_i], KVA_F32, "full", 0);
}
END_TEST

// chunks of 5 rows: windows are crossed inside and between chunks
START_TEST(logits_do_not_depend_on_the_chunk)
{
    expect_right(&FIXTURES[_i], KVA_F32, "exact", 5);
}
END_TEST

START_TEST(logits_at_bf16_equal_the_reference_on_the_same_rounded_weights)
{
    expect_right(&FIXTURES[_i], KVA_BF16, "exact", 0);
}
END_TEST

// ---------------------------------------------------------------- batches

static json_t *load_batch(const char *name)
{
    char file[512];
    json_error_t where;
    json_t *batch = json_load_file(path(file, "reference", name), 0, &where);
    ck_assert_msg(batch != NULL, "%s: %s", file, where.text);
    return batch;
}

static uint64_t flatten(const json_t *rows, uint32_t *tokens, uint64_t *lengths)
{
    uint64_t n = 0;
    for (size_t s = 0; s < json_array_size(rows); s++) {
        const json_t *row = json_array_get(rows, s);
        lengths[s] = json_array_size(row);
        for (size_t i = 0; i < lengths[s]; i++)
            tokens[n++] = (uint32_t)json_integer_value(json_array_get(row, i));
    }
    return n;
}

// Prompts of 5, 17 and 30 tokens in one batch: each continues as the reference continued it alone.
static void expect_batch(const char *name, const char *policy, bool no_prune)
{
    json_t *batch = load_batch(name);
    char folder[512], model_folder[256];
    uint32_t tokens[256], chosen[3];
    uint64_t lengths[3], ones[3] = {1, 1, 1};
    struct kva_error error = {0};
    struct kva_model *model;
    struct kva_session *session;
    const json_t *greedy = json_object_get(batch, "greedy"), *logits = json_object_get(batch, "last_logits");
    snprintf(model_folder, sizeof model_folder, "reference/%s", json_string_value(json_object_get(batch, "model")));
    flatten(json_object_get(batch, "prompts"), tokens, lengths);
    path(folder, model_folder, "");
    ck_assert_int_eq(kva_model_open(atlas, folder, NULL, &model, &error), KVA_OK);
    const struct kva_run_options options = {.backend = "cpu",
                                            .dtype = KVA_F32,
                                            .policy = policy,
                                            .context = 36,
                                            .sequences = 3,
                                            .weights = folder,
                                            .chunk = 13,
                                            .no_prune = no_prune};
    ck_assert_msg(kva_session_open(model, &options, &session, &error) == KVA_OK, "%s", error.text);
    const uint64_t vocab = kva_session_vocab(session);
    float *last = calloc(3 * vocab, sizeof *last);
    ck_assert_ptr_nonnull(last);
    ck_assert_msg(kva_session_pass(session, tokens, lengths, last, &error) == KVA_OK, "%s", error.text);
    for (size_t s = 0; s < 3; s++)
        for (size_t i = 0; i < vocab; i++)
            ck_assert_msg(fabs(json_number_value(json_array_get(json_array_get(logits, s), i)) -
                               (double)last[s * vocab + i]) < 1e-4,
                          "%s: logit %zu of sequence %zu", name, i, s);
    for (size_t step = 0; step < json_array_size(json_array_get(greedy, 0)); step++) {
        ck_assert_int_eq(kva_session_greedy(session, chosen, &error), KVA_OK);
        for (size_t s = 0; s < 3; s++)
            ck_assert_uint_eq(chosen[s], json_integer_value(json_array_get(json_array_get(greedy, s), step)));
        ck_assert_msg(kva_session_pass(session, chosen, ones, NULL, &error) == KVA_OK, "%s", error.text);
    }
    free(last);
    kva_session_close(session);
    kva_model_close(model);
    json_decref(batch);
}

START_TEST(a_batch_of_different_lengths_continues_as_each_would_alone)
{
    static const char *const NAMES[] = {"batch-llama.json", "batch-gemma3.json", "batch-sambay.json"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        expect_batch(NAMES[i], "exact", false);
        expect_batch(NAMES[i], "full", false);
    }
}
END_TEST

START_TEST(pruning_changes_no_last_logit)
{
    expect_batch("batch-sambay.json", "exact", true);
    expect_batch("batch-sambay.json", "full", true);
}
END_TEST

static const struct kva_case SAMBAY_PROMPT = {.backend = "cpu", .dtype = KVA_F32, .prompt_length = 24, .decode = 3};

START_TEST(pruning_reports_the_rows_that_it_saved)
{
    char folder[512];
    struct kva_case spec = SAMBAY_PROMPT;
    struct kva_result result;
    struct kva_error error;
    spec.model = path(folder, "hf-tiny/sambay-8", "");
    ck_assert_int_eq(kva_case_run(atlas, &spec, &result, &error), KVA_OK);
    ck_assert_uint_eq(result.pruned_rows, 23);  // all but the prompt's last position
    kva_result_free(&result);
    spec.no_prune = true;
    ck_assert_int_eq(kva_case_run(atlas, &spec, &result, &error), KVA_OK);
    ck_assert_uint_eq(result.pruned_rows, 0);
    kva_result_free(&result);
}
END_TEST

// ---------------------------------------------------------------- rotary tables

// tests/data/reference/rope.json: a config, and the table that Transformers' ROPE_INIT_FUNCTIONS make of it.
static void expect_rope(const json_t *entry)
{
    const char *name = json_string_value(json_object_get(entry, "name"));
    const char *layer_type = json_string_value(json_object_get(entry, "layer_type"));
    const json_t *expected = json_object_get(entry, "inv_freq"), *tokens = json_object_get(entry, "seq_len");
    char folder[] = "/tmp/kvatlas-rope-XXXXXX", file[64];
    struct kva_error error = {0};
    struct kva_model *model;
    float table[512], scale;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(file, sizeof file, "%s/config.json", folder);
    // the tables' configs state what rotary embedding looks at, which the number of key heads is not
    json_t *config = json_object_get(entry, "config");
    if (json_object_get(config, "num_key_value_heads") == NULL)
        json_object_set(config, "num_key_value_heads", json_object_get(config, "num_attention_heads"));
    ck_assert_int_eq(json_dump_file(config, file, 0), 0);
    ck_assert_msg(kva_model_open(atlas, file, NULL, &model, &error) == KVA_OK, "%s: %s: %s", name, error.key,
                  error.text);
    remove(file);
    remove(folder);
    const bool local = layer_type != NULL && strcmp(layer_type, "sliding_attention") == 0;
    const struct kva_rope *rope = local ? &model->rope_local : &model->rope_main;
    const uint64_t head_dim = kva_model_value(model, "head_dim")->count;
    ck_assert_uint_eq(kva_rope_dim(rope, head_dim) / 2, json_array_size(expected));
    const uint64_t length = json_is_null(tokens) ? 1 : (uint64_t)json_integer_value(tokens);
    ck_assert_msg(kva_rope_table(rope, head_dim, length, table, &scale, &error) == KVA_OK, "%s: %s", name, error.text);
    ck_assert_msg(fabs(json_number_value(json_object_get(entry, "attention_scaling")) - (double)scale) < 1e-6,
                  "%s: cos and sin are scaled by %g", name, (double)scale);
    for (size_t i = 0; i < json_array_size(expected); i++) {
        const double value = json_number_value(json_array_get(expected, i));
        ck_assert_msg(fabs(value - (double)table[i]) <= 1e-6 * value, "%s, %d tokens: frequency %zu is %.9g, not %.9g",
                      name, (int)length, i, (double)table[i], value);
    }
    kva_model_close(model);
}

START_TEST(rotary_tables_are_those_of_transformers)
{
    char file[512];
    json_error_t where;
    size_t compared = 0;
    json_t *root = json_load_file(path(file, "reference", "rope.json"), 0, &where);
    ck_assert_msg(root != NULL, "%s: %s", file, where.text);
    const json_t *tables = json_object_get(root, "tables");
    for (size_t i = 0; i < json_array_size(tables); i++) {
        const json_t *entry = json_array_get(tables, i);
        const char *type = json_string_value(json_object_get(json_object_get(entry, "config"), "model_type"));
        if (strcmp(type, "gemma4_text") == 0)  // no architecture file yet
            continue;
        expect_rope(entry);
        compared++;
    }
    ck_assert_uint_ge(compared, 50);
    json_decref(root);
}
END_TEST

// ---------------------------------------------------------------- memory and bad input

static enum kva_status open_session(const char *folder, const struct kva_run_options *options, struct kva_error *error)
{
    struct kva_model *model;
    struct kva_session *session;
    struct kva_model_options depth = {.dtype = options->dtype};
    enum kva_status status = kva_model_open(atlas, folder, &depth, &model, error);
    if (status != KVA_OK)
        return status;
    status = kva_session_open(model, options, &session, error);
    if (status == KVA_OK)
        kva_session_close(session);
    kva_model_close(model);
    return status;
}

// 4e9 tokens x 2^20 sequences of a tiny model: far beyond any machine
START_TEST(a_context_beyond_memory_says_which_allocation_failed)
{
    char folder[512];
    struct kva_error error = {0};
    const struct kva_run_options options = {.backend = "cpu",
                                            .dtype = KVA_F32,
                                            .policy = "exact",
                                            .context = 4000000000,
                                            .sequences = 1 << 20,
                                            .weights = "random",
                                            .predicted_bytes = 12345};
    ck_assert_int_eq(open_session(path(folder, "hf-tiny/llama", ""), &options, &error), KVA_MACHINE);
    ck_assert_str_eq(error.key, "layer 0 cache");
    ck_assert_ptr_nonnull(strstr(error.text, "bytes asked"));
    ck_assert_ptr_nonnull(strstr(error.text, "bytes free"));
    ck_assert_ptr_nonnull(strstr(error.text, "predicted to take 12345 bytes"));
}
END_TEST

START_TEST(weights_of_another_model_are_refused_with_the_tensor_named)
{
    char folder[512], weights[512];
    struct kva_error error = {0};
    struct kva_run_options options = {.backend = "cpu",
                                      .dtype = KVA_F32,
                                      .policy = "exact",
                                      .context = 8,
                                      .sequences = 1,
                                      .weights = path(weights, "hf-tiny/llama-tied-mha", "")};
    ck_assert_int_eq(open_session(path(folder, "hf-tiny/llama", ""), &options, &error), KVA_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(error.file, "llama-tied-mha"));
    ck_assert_str_ne(error.key, "");
    options.weights = path(weights, "hf-tiny/nothing-here", "");
    ck_assert_int_eq(open_session(folder, &options, &error), KVA_BAD_INPUT);
    options.weights = "random";
    options.backend = "abacus";
    ck_assert_int_eq(open_session(folder, &options, &error), KVA_BAD_INPUT);
    options.backend = "cpu";
    options.dtype = KVA_F16;
    ck_assert_int_eq(open_session(folder, &options, &error), KVA_BAD_INPUT);
}
END_TEST

// The last four bytes of the file are one element of the last norm, through which every logit passes.
START_TEST(weights_that_hold_a_nan_choose_no_token)
{
    char model[512], name[512], folder[] = "/tmp/kvatlas-nan-XXXXXX", file[64], *bytes;
    size_t length;
    const float nan = NAN;
    struct kva_result result;
    struct kva_error error = {0};
    ck_assert_int_eq(kva_file_read(path(name, "hf-tiny/llama", "model.safetensors"), 1 << 20, &bytes, &length, &error),
                     KVA_OK);
    memcpy(bytes + length - sizeof nan, &nan, sizeof nan);
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(file, sizeof file, "%s/model.safetensors", folder);
    ck_assert_int_eq(kva_file_write(file, bytes, length, &error), KVA_OK);
    free(bytes);
    const struct kva_case spec = {.model = path(model, "hf-tiny/llama", ""),
                                  .backend = "cpu",
                                  .weights = folder,
                                  .prompt_length = 4,
                                  .decode = 2};
    ck_assert_int_eq(kva_case_run(atlas, &spec, &result, &error), KVA_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(error.text, "not all numbers"));
    kva_result_free(&result);
    remove(file);
    remove(folder);
}
END_TEST

START_TEST(an_architecture_without_a_recipe_is_refused)
{
    char folder[512];
    struct kva_error error = {0};
    const struct kva_run_options options = {
        .backend = "cpu", .dtype = KVA_F32, .policy = "exact", .context = 8, .sequences = 1, .weights = "random"};
    ck_assert_int_eq(open_session(path(folder, "hf-tiny/gpt-oss", ""), &options, &error), KVA_REFUSED);
}
END_TEST

START_TEST(more_tokens_than_the_caches_hold_are_refused_and_so_are_unknown_ones)
{
    char folder[512];
    struct kva_error error = {0};
    struct kva_model *model;
    struct kva_session *session;
    const uint32_t tokens[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, unknown = 96;  // vocab_size of the fixture is 96
    const uint64_t nine = 9, one = 1;
    const struct kva_run_options options = {
        .backend = "cpu", .dtype = KVA_F32, .policy = "exact", .context = 8, .sequences = 1, .weights = "random"};
    ck_assert_int_eq(kva_model_open(atlas, path(folder, "hf-tiny/llama", ""), NULL, &model, &error), KVA_OK);
    ck_assert_int_eq(kva_session_open(model, &options, &session, &error), KVA_OK);
    ck_assert_int_eq(kva_session_pass(session, tokens, &nine, NULL, &error), KVA_BAD_INPUT);
    ck_assert_int_eq(kva_session_pass(session, &unknown, &one, NULL, &error), KVA_BAD_INPUT);
    ck_assert_int_eq(kva_session_pass(session, tokens, &one, NULL, &error), KVA_OK);
    kva_session_close(session);
    kva_model_close(model);
}
END_TEST

START_TEST(random_weights_follow_the_seed)
{
    char folder[512];
    struct kva_case spec = SAMBAY_PROMPT;
    struct kva_result a, b, c;
    struct kva_error error;
    spec.model = path(folder, "hf-tiny/sambay-8", "");
    spec.weights = "random";
    spec.keep_logits = true;
    ck_assert_int_eq(kva_case_run(atlas, &spec, &a, &error), KVA_OK);
    ck_assert_int_eq(kva_case_run(atlas, &spec, &b, &error), KVA_OK);
    spec.seed = 1;
    ck_assert_int_eq(kva_case_run(atlas, &spec, &c, &error), KVA_OK);
    ck_assert_mem_eq(a.logits, b.logits, a.logit_rows * a.vocab * sizeof(float));
    ck_assert_mem_ne(a.logits, c.logits, a.logit_rows * a.vocab * sizeof(float));
    for (uint64_t i = 0; i < a.logit_rows * a.vocab; i++)
        ck_assert(isfinite(a.logits[i]));
    kva_result_free(&a);
    kva_result_free(&b);
    kva_result_free(&c);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("exec");
    TCase *logits = tcase_create("logits");
    tcase_add_checked_fixture(logits, setup, teardown);
    tcase_set_timeout(logits, 120);
    tcase_add_loop_test(logits, logits_at_f32_equal_the_reference_under_exact, 0, N_FIXTURES);
    tcase_add_loop_test(logits, logits_at_f32_equal_the_reference_under_full, 0, N_FIXTURES);
    tcase_add_loop_test(logits, logits_do_not_depend_on_the_chunk, 0, N_FIXTURES);
    tcase_add_loop_test(logits, logits_at_bf16_equal_the_reference_on_the_same_rounded_weights, 0, N_FIXTURES);
    tcase_add_test(logits, a_batch_of_different_lengths_continues_as_each_would_alone);
    tcase_add_test(logits, pruning_changes_no_last_logit);
    tcase_add_test(logits, pruning_reports_the_rows_that_it_saved);
    tcase_add_test(logits, rotary_tables_are_those_of_transformers);
    tcase_add_test(logits, random_weights_follow_the_seed);
    suite_add_tcase(suite, logits);
    TCase *refusals = tcase_create("refusals");
    tcase_add_checked_fixture(refusals, setup, teardown);
    tcase_set_timeout(refusals, 120);
    tcase_add_test(refusals, a_context_beyond_memory_says_which_allocation_failed);
    tcase_add_test(refusals, weights_of_another_model_are_refused_with_the_tensor_named);
    tcase_add_test(refusals, weights_that_hold_a_nan_choose_no_token);
    tcase_add_test(refusals, an_architecture_without_a_recipe_is_refused);
    tcase_add_test(refusals, more_tokens_than_the_caches_hold_are_refused_and_so_are_unknown_ones);
    suite_add_tcase(suite, refusals);
    return unit_run(suite);
}
