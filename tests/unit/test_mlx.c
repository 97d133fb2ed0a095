// What MLX-LM's caches hold is what its own releases held: mlx-measured.jsonl, made by tests/reference/make_mlx.py from
// 0.20.1 to 0.32.2, and the lengths that follow from mlx_lm/models/cache.py by hand.
#include "engine/mlx_growth.h"
#include "measured.h"

static struct kva_deployment deployment_of(const json_t *row, const char *engine)
{
    return (struct kva_deployment){.engine = engine,
                                   .context = measured_count(row, "tokens", 0),
                                   .prompt = measured_count(row, "prompt", 0),
                                   .sequences = measured_count(row, "sequences", 1),
                                   .batch_tokens = measured_count(row, "prefill_step_size", 0),
                                   .kv_bits = measured_count(row, "kv_bits", 0),
                                   .kv_group_size = measured_count(row, "kv_group_size", 0),
                                   .max_kv_size = measured_count(row, "max_kv_size", 0)};
}

// Models whose states are known from a later release on: refused before, though the release runs them.
static bool may_be_refused(const json_t *row)
{
    return strcmp(measured_text(row, "model"), "nemotron-h") == 0 &&
           strcmp(measured_text(row, "mlx_lm"), "0.27.1") == 0;
}

static double quantity_of(const struct kva_plan *plan, const char *name)
{
    for (size_t l = 0; l < plan->n_prints; l++)
        for (size_t q = 0; q < plan->prints[l].n_quantities; q++)
            if (strcmp(plan->prints[l].quantities[q].name, name) == 0)
                return plan->prints[l].quantities[q].real;
    ck_abort_msg("no %s is printed", name);
    return 0;
}

START_TEST(every_release_holds_what_was_measured)
{
    struct measured measured;
    measured_open(&measured, TEST_DATA "/engines/mlx-measured.jsonl");
    size_t planned = 0, refused = 0;
    for (json_t *row; (row = measured_next(&measured)) != NULL; json_decref(row)) {
        char engine[64], name[160], line[1024];
        snprintf(engine, sizeof engine, "mlx-lm@%s", measured_text(row, "mlx_lm"));
        snprintf(name, sizeof name, "%s, %s, prompt %llu, %llu tokens", engine, measured_text(row, "model"),
                 (unsigned long long)measured_count(row, "prompt", 0),
                 (unsigned long long)measured_count(row, "tokens", 0));
        struct kva_deployment deployment = deployment_of(row, engine);
        if (deployment.kv_bits > 0) {
            char start[32];
            snprintf(start, sizeof start, "%llu", (unsigned long long)measured_count(row, "quantized_kv_start", 0));
            ck_assert_int_eq(kva_deployment_set(&deployment, "--quantized-kv-start", start, NULL), KVA_OK);
        }
        struct kva_error error = {0};
        struct kva_plan *plan;
        const struct kva_model *model = measured_model(&measured, measured_text(row, "model"));
        const enum kva_status status = kva_plan_make(measured.atlas, model, &deployment, &plan, &error);
        if (json_object_get(row, "refused") != NULL || may_be_refused(row)) {
            ck_assert_msg(status == KVA_REFUSED, "%s: is not refused", name);
            refused++;
            continue;
        }
        ck_assert_msg(status == KVA_OK, "%s: %s", name, kva_error_line(&error, line, sizeof line));
        measured_layers(plan, json_object_get(row, "layers"), false, name);
        const uint64_t peak = measured_count(row, "peak", 0);
        ck_assert_msg(peak == 0 || peak == plan->peak, "%s: peak %llu, measured %llu", name,
                      (unsigned long long)plan->peak, (unsigned long long)peak);
        const uint64_t kept = measured_count(row, "kept", 0);
        if (kept > 0) {  // what the server keeps of each finished sequence
            const double printed = quantity_of(plan, "gigabytes") * 1e9 / (double)deployment.sequences;
            ck_assert_msg(printed > (double)kept - 0.5 && printed < (double)kept + 0.5, "%s: keeps %.0f, measured %llu",
                          name, printed, (unsigned long long)kept);
        }
        planned++;
        kva_plan_free(plan);
    }
    ck_assert_uint_ge(planned, 1050);
    ck_assert_uint_ge(refused, 10);
    measured_close(&measured);
}
END_TEST

// prompt passes of 2048, the last token alone; rows by the rules of KVCache.update_and_fetch
START_TEST(a_growing_cache_holds_steps_of_256)
{
    static const struct {
        uint64_t prompt, decoded, rows;
    } CASES[] = {{1, 0, 256},     {256, 0, 256},     {257, 0, 512},     {1000, 24, 1024},
                 {2049, 0, 2304}, {4096, 100, 4352}, {5000, 1000, 6144}};
    for (size_t c = 0; c < sizeof CASES / sizeof *CASES; c++) {
        struct kva_mlx_cache cache = {.class = KVA_MLX_GROWING};
        for (uint64_t left = CASES[c].prompt, tokens; left > 0; left -= tokens) {
            tokens = left == 1 ? 1 : left - 1 < 2048 ? left - 1 : 2048;
            kva_mlx_pass(&cache, tokens);
        }
        uint64_t most;
        ck_assert(kva_mlx_decode(&cache, CASES[c].decoded, &most));
        ck_assert_uint_eq(cache.rows, CASES[c].rows);
    }
}
END_TEST

// Decoding many tokens at once comes to the same rows as one pass after the other.
START_TEST(decoding_is_a_pass_for_each_token)
{
    static const struct kva_mlx_cache CACHES[] = {
        {.class = KVA_MLX_GROWING},
        {.class = KVA_MLX_ROTATING, .window = 100, .history = 99},
        {.class = KVA_MLX_ROTATING, .window = 700, .history = 700},
        {.class = KVA_MLX_CHUNKED, .window = 300, .chunk_trim = KVA_MLX_TRIM_TOKENS},
        {.class = KVA_MLX_CHUNKED, .window = 1000, .chunk_trim = KVA_MLX_TRIM_ALLOCATED_EXCESS},
        {.class = KVA_MLX_CHUNKED, .window = 512, .chunk_trim = KVA_MLX_TRIM_ALLOCATED_CHUNK},
    };
    static const uint64_t PASSES[] = {1, 77, 256, 300, 1500}, DECODED[] = {0, 1, 2, 255, 256, 257, 1000, 5000, 7777};
    for (size_t c = 0; c < sizeof CACHES / sizeof *CACHES; c++)
        for (size_t p = 0; p < sizeof PASSES / sizeof *PASSES; p++)
            for (size_t d = 0; d < sizeof DECODED / sizeof *DECODED; d++) {
                struct kva_mlx_cache at_once = CACHES[c];
                kva_mlx_pass(&at_once, PASSES[p]);
                struct kva_mlx_cache one_by_one = at_once;
                uint64_t most;
                ck_assert(kva_mlx_decode(&at_once, DECODED[d], &most));
                for (uint64_t t = 0; t < DECODED[d]; t++)
                    kva_mlx_pass(&one_by_one, 1);
                ck_assert_msg(at_once.rows == one_by_one.rows, "cache %zu, pass %zu, %llu tokens: %llu rows, not %llu",
                              c, p, (unsigned long long)DECODED[d], (unsigned long long)at_once.rows,
                              (unsigned long long)one_by_one.rows);
            }
}
END_TEST

static struct kva_plan *plan_of(struct kva_atlas *atlas, const struct kva_model *model,
                                struct kva_deployment deployment)
{
    struct kva_error error = {0};
    char line[1024];
    struct kva_plan *plan;
    const enum kva_status status = kva_plan_make(atlas, model, &deployment, &plan, &error);
    ck_assert_msg(status == KVA_OK, "%s", kva_error_line(&error, line, sizeof line));
    return plan;
}

// 10 x 16 x 6144 x 256 x 2 of full layers and 52 x 16 x 1024 x 256 x 2 of rotating ones
START_TEST(gemma_3_27b_after_5000_and_1000_tokens)
{
    struct kva_atlas *atlas;
    ck_assert_int_eq(kva_atlas_open(NULL, &atlas, NULL), KVA_OK);
    struct kva_model *model = unit_open(atlas, "google/gemma-3-27b-it", NULL);
    struct kva_plan *plan =
        plan_of(atlas, model, (struct kva_deployment){.engine = "mlx-lm@0.32.2", .context = 6000, .prompt = 5000});
    ck_assert_uint_eq(plan->allocated, 503316480 + 436207616);
    // of the full layers only the 6000 rows that hold tokens: 491520000 + 436207616
    ck_assert_str_eq(plan->prints[0].text, "Prompt Cache: 1 sequences, 0.93 GB");
    kva_plan_free(plan);
    kva_model_close(model);
    kva_atlas_close(atlas);
}
END_TEST

START_TEST(what_is_not_known_is_refused)
{
    struct kva_atlas *atlas;
    ck_assert_int_eq(kva_atlas_open(NULL, &atlas, NULL), KVA_OK);
    struct kva_model *gemma = unit_open(atlas, "google/gemma-3-27b-it", NULL);
    measured_refused(atlas, gemma, (struct kva_deployment){.engine = "mlx-lm", .context = 8192, .kv_bits = 4},
                     KVA_REFUSED);
    measured_refused(atlas, gemma, (struct kva_deployment){.engine = "mlx-lm", .context = 8192, .tp = 2}, KVA_REFUSED);
    measured_refused(atlas, gemma, (struct kva_deployment){.engine = "mlx-lm", .context = 8192, .kv_type = "fp8"},
                     KVA_BAD_INPUT);
    measured_refused(atlas, gemma, (struct kva_deployment){.engine = "mlx-lm", .context = 10, .prompt = 11},
                     KVA_BAD_INPUT);
    measured_refused(atlas, gemma, (struct kva_deployment){.engine = "mlx-lm@0.20.1", .context = 8192}, KVA_REFUSED);
    measured_refused(atlas, gemma,
                     (struct kva_deployment){.engine = "mlx-lm", .context = UINT64_C(1) << 40, .batch_tokens = 1},
                     KVA_BAD_INPUT);
    measured_refused(atlas, gemma,
                     (struct kva_deployment){.engine = "mlx-lm", .context = 8192, .sequences = UINT64_C(1) << 60},
                     KVA_BAD_INPUT);
    kva_model_close(gemma);
    kva_atlas_close(atlas);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mlx");
    TCase *tests = tcase_create("mlx");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, every_release_holds_what_was_measured);
    tcase_add_test(tests, a_growing_cache_holds_steps_of_256);
    tcase_add_test(tests, decoding_is_a_pass_for_each_token);
    tcase_add_test(tests, gemma_3_27b_after_5000_and_1000_tokens);
    tcase_add_test(tests, what_is_not_known_is_refused);
    suite_add_tcase(suite, tests);
    return unit_run(suite);
}
