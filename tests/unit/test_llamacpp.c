// Contexts that real llama.cpp made. engines/llamacpp-allocations.jsonl holds 1719 calls of llama_init_from_model in
// prebuilt CPU libraries of eight releases: the keys of a GGUF header (once for each model, and again where they
// change), the request, and what the library did: the lines it logged of its caches, n_ctx, from b6673 on the exact
// bytes of its memory breakdown; or that it refused.
#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gguf_meta.h"
#include "jsonl.h"
#include "unit.h"

#define RECORDS TEST_DATA "/engines/llamacpp-allocations.jsonl"

static struct kva_atlas *atlas;
static char header[64];

// ---------------------------------------------------------------- the models of the records

enum { MODELS = 128 };
static struct {
    char name[64];
    struct kva_model *model;
} models[MODELS];

static struct kva_model *model_of(const json_t *record)
{
    const char *name = json_string_value(json_object_get(record, "model"));
    json_t *meta = json_object_get(record, "meta");
    size_t m = 0;
    while (m < MODELS && models[m].model != NULL && strcmp(models[m].name, name) != 0)
        m++;
    ck_assert_uint_lt(m, MODELS);
    if (meta != NULL) {
        kva_model_close(models[m].model);
        snprintf(models[m].name, sizeof models[m].name, "%s", name);
        save_meta(meta, header);
        models[m].model = unit_open(atlas, header, NULL);
    }
    ck_assert_ptr_nonnull(models[m].model);
    return models[m].model;
}

// ---------------------------------------------------------------- one record

static uint64_t asked(const json_t *request, const char *key)
{
    return (uint64_t)json_integer_value(json_object_get(request, key));
}

static enum kva_switch switched(const json_t *request, const char *key)
{
    return asked(request, key) ? KVA_ON : KVA_OFF;
}

// In releases up to b6122 flash attention is a bool, and `auto` of the record was no argument.
static struct kva_deployment deployment_of(const json_t *record, char engine[64])
{
    const json_t *request = json_object_get(record, "request");
    const char *flash = json_string_value(json_object_get(request, "flash_attn"));
    snprintf(engine, 64, "llama.cpp@%s", json_string_value(json_object_get(record, "release")));
    return (struct kva_deployment){
        .engine = engine,
        .kv_tokens = asked(request, "n_ctx"),
        .sequences = asked(request, "n_seq_max"),
        .batch_tokens = asked(request, "n_batch"),
        .ubatch = asked(request, "n_ubatch"),
        .kv_type = json_string_value(json_object_get(request, "type_k")),
        .kv_type_v = json_string_value(json_object_get(request, "type_v")),
        .flash_attention = strcmp(flash, "auto") == 0 ? KVA_UNSET
                           : strcmp(flash, "on") == 0 ? KVA_ON
                                                      : KVA_OFF,
        .swa_full = switched(request, "swa_full"),
        .kv_unified = switched(request, "kv_unified"),
        .offload_kqv = switched(request, "offload_kqv"),
        .rs_seq = asked(request, "n_rs_seq"),
    };
}

static bool is_size(const struct kva_print_line *line)
{
    static const char *const IDS[] = {"kv_buffer",  "kv_size",           "state_buffer",
                                      "state_size", "compressor_buffer", "compressor_size"};
    for (size_t i = 0; i < sizeof IDS / sizeof *IDS; i++)
        if (strcmp(line->id, IDS[i]) == 0)
            return true;
    return false;
}

// The record of b5640 lacks the line "KV self size" of a recurrent cache.
static bool was_recorded(const struct kva_print_line *line)
{
    return is_size(line) && strstr(line->text, "llama_kv_cache_recurrent: KV self size") == NULL;
}

static size_t check_lines(const char *name, const struct kva_plan *plan, const json_t *lines)
{
    size_t n = 0;
    for (size_t p = 0; p < plan->n_prints; p++) {
        if (!was_recorded(&plan->prints[p]))
            continue;
        const char *printed = json_string_value(json_array_get(lines, n++));
        ck_assert_msg(printed != NULL && strcmp(plan->prints[p].text, printed) == 0,
                      "%s: predicted\n  %s\nbut llama.cpp printed\n  %s", name, plan->prints[p].text,
                      printed != NULL ? printed : "nothing");
    }
    ck_assert_msg(n == json_array_size(lines), "%s: %zu lines predicted, %zu printed", name, n, json_array_size(lines));
    return n;
}

struct tally {
    size_t created, lines, exact, n_ctx, refused;
};

static void check_created(const char *name, const json_t *record, const struct kva_plan *plan, struct tally *tally)
{
    const json_t *bytes = json_object_get(record, "bytes"), *n_ctx = json_object_get(record, "n_ctx");
    tally->lines += check_lines(name, plan, json_object_get(record, "lines"));
    tally->created++;
    if (n_ctx != NULL) {
        ck_assert_msg(plan->deployment.kv_tokens == (uint64_t)json_integer_value(n_ctx), "%s: n_ctx %llu, was %lld",
                      name, (unsigned long long)plan->deployment.kv_tokens, (long long)json_integer_value(n_ctx));
        tally->n_ctx++;
    }
    if (bytes != NULL) {
        ck_assert_msg(plan->allocated == (uint64_t)json_integer_value(bytes), "%s: %llu bytes, were %lld", name,
                      (unsigned long long)plan->allocated, (long long)json_integer_value(bytes));
        tally->exact++;
    }
}

static void check_record(const json_t *record, struct tally *tally)
{
    char engine[64], name[192], text[1024];
    const struct kva_model *model = model_of(record);
    const struct kva_deployment deployment = deployment_of(record, engine);
    struct kva_error error = {0};
    struct kva_plan *plan;
    snprintf(name, sizeof name, "%s %s n_ctx %llu x %llu %s/%s", engine,
             json_string_value(json_object_get(record, "model")), (unsigned long long)deployment.kv_tokens,
             (unsigned long long)deployment.sequences, deployment.kv_type, deployment.kv_type_v);
    const enum kva_status status = kva_plan_make(atlas, model, &deployment, &plan, &error);
    if (json_is_false(json_object_get(record, "created"))) {
        ck_assert_msg(status == KVA_BAD_INPUT, "%s: llama.cpp refused it, but it was planned", name);
        tally->refused++;
        return;
    }
    ck_assert_msg(status == KVA_OK, "%s: %s", name, kva_error_line(&error, text, sizeof text));
    check_created(name, record, plan, tally);
    kva_plan_free(plan);
}

START_TEST(contexts_are_those_that_llamacpp_made)
{
    struct tally tally = {0};
    FILE *file = jsonl_open(RECORDS);
    for (json_t *record; (record = jsonl_next(file)) != NULL; json_decref(record)) {
        check_record(record, &tally);
    }
    fclose(file);
    for (size_t m = 0; m < MODELS; m++)
        kva_model_close(models[m].model);
    // of 1719: 133 were refused, and of the 1586 whose caches were made 23 crashed afterwards, before they told n_ctx
    ck_assert_uint_eq(tally.refused, 133);
    ck_assert_uint_eq(tally.created, 1586);
    ck_assert_uint_eq(tally.n_ctx, 1563);
    ck_assert_uint_eq(tally.exact, 1403);
    ck_assert_uint_eq(tally.lines, 5222);
}
END_TEST

// ---------------------------------------------------------------- configs, defaults, refusals

static enum kva_status plan_flags(const char *model, const char *engine, const char *const flags[], size_t n,
                                  struct kva_plan **plan, struct kva_model **opened, struct kva_error *error)
{
    struct kva_deployment deployment = {.engine = engine};
    *opened = unit_open(atlas, model, NULL);
    for (size_t f = 0; f + 1 < n; f += 2)
        ck_assert_int_eq(kva_deployment_set(&deployment, flags[f], flags[f + 1], error), KVA_OK);
    return kva_plan_make(atlas, *opened, &deployment, plan, error);
}

#define FLAGS(...) (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)

// One plan that must be made, and the line that starts so.
static void prints(const char *model, const char *engine, const char *const flags[], size_t n, const char *line)
{
    struct kva_plan *plan;
    struct kva_model *opened;
    struct kva_error error = {0};
    char text[1024];
    bool found = false;
    const enum kva_status status = plan_flags(model, engine, flags, n, &plan, &opened, &error);
    ck_assert_msg(status == KVA_OK, "%s under %s: %s", model, engine, kva_error_line(&error, text, sizeof text));
    for (size_t p = 0; p < plan->n_prints; p++)
        found = found || strncmp(plan->prints[p].text, line, strlen(line)) == 0;
    ck_assert_msg(found, "%s under %s does not print: %s", model, engine, line);
    kva_plan_free(plan);
    kva_model_close(opened);
}

static void refuses(const char *model, const char *engine, const char *const flags[], size_t n,
                    enum kva_status expected, const char *why)
{
    struct kva_plan *plan = NULL;
    struct kva_model *opened;
    struct kva_error error = {0};
    ck_assert_int_eq(plan_flags(model, engine, flags, n, &plan, &opened, &error), expected);
    ck_assert_msg(strstr(error.text, why) != NULL, "%s under %s: '%s' was expected, not '%s'", model, engine, why,
                  error.text);
    kva_model_close(opened);
}

// The numbers are those that the library printed for headers of the same shapes.
START_TEST(a_config_is_taken_as_its_gguf)
{
    // 62 layers of 16 KV heads of 128, every sixth full
    prints("google/gemma-3-27b-it", "llama.cpp@v0.5.0", FLAGS("-c", "4096", "-np", "1"),
           "llama_kv_cache: size =  320.00 MiB (  4096 cells,  10 layers,  1/1 seqs)");
    prints("google/gemma-3-27b-it", "llama.cpp@v0.5.0", FLAGS("-c", "4096", "-np", "1"),
           "llama_kv_cache: size =  624.00 MiB (  1536 cells,  52 layers,  1/1 seqs)");
    // n_ctx 8192 for 4 sequences, unified and not
    prints("google/gemma-3-27b-it", "llama.cpp@v0.5.0", FLAGS("-c", "2048", "-np", "4", "-kvu", "on"),
           "llama_kv_cache: size = 1872.00 MiB (  4608 cells,  52 layers,  4/1 seqs)");
    prints("google/gemma-3-27b-it", "llama.cpp@v0.5.0", FLAGS("-c", "2048", "-np", "4"),
           "llama_kv_cache: size = 2496.00 MiB (  1536 cells,  52 layers,  4/4 seqs)");
    prints("openai/gpt-oss-20b", "llama.cpp@v0.5.0", FLAGS("-c", "4096", "-np", "1"),
           "llama_kv_cache: size =   18.00 MiB (   768 cells,  12 layers,  1/1 seqs)");
    prints(
        "deepseek-ai/DeepSeek-V3", "llama.cpp@v0.5.0", FLAGS("-c", "4096", "-np", "1"),
        "llama_kv_cache: size =  274.50 MiB (  4096 cells,  61 layers,  1/1 seqs), K (f16):  274.50 MiB, V (f16):    "
        "0.00 MiB");
    prints("deepseek-ai/DeepSeek-V2-Lite", "llama.cpp@b7698", FLAGS("-c", "8192", "-np", "1"),
           "llama_kv_cache: size =  459.00 MiB (  8192 cells,  27 layers,  1/1 seqs), K (f16):  243.00 MiB, V (f16):  "
           "216.00 MiB");
}
END_TEST

// A model plans alike whichever way it arrives: gguf-headers.jsonl holds the header that the converter would write for
// models of the catalogue.
START_TEST(a_header_plans_as_its_config)
{
    static const char *const RELEASES[] = {"b5415", "b5640", "b6122",  "b6673", "b7347",
                                           "b7698", "b8390", "v0.4.0", "v0.5.0"};
    FILE *file = jsonl_open(TEST_DATA "/gguf-headers.jsonl");
    size_t models_compared = 0, plans = 0;
    for (json_t *record; (record = jsonl_next(file)) != NULL; json_decref(record)) {
        const char *name = json_string_value(json_object_get(record, "model"));
        save_meta(json_object_get(record, "meta"), header);
        struct kva_model *gguf = unit_open(atlas, header, NULL), *config = unit_open(atlas, name, NULL);
        for (size_t r = 0; r < sizeof RELEASES / sizeof *RELEASES; r++) {
            char engine[64];
            snprintf(engine, sizeof engine, "llama.cpp@%s", RELEASES[r]);
            const struct kva_deployment deployment = {.engine = engine, .context = 8192, .sequences = 2};
            struct kva_plan *a = NULL, *b = NULL;
            const enum kva_status of_gguf = kva_plan_make(atlas, gguf, &deployment, &a, NULL);
            const enum kva_status of_config = kva_plan_make(atlas, config, &deployment, &b, NULL);
            ck_assert_msg(of_gguf == of_config, "%s under %s: %d from the header, %d from the config", name, engine,
                          of_gguf, of_config);
            if (of_gguf == KVA_OK) {
                ck_assert_msg(a->allocated == b->allocated, "%s under %s: %llu bytes from the header, %llu", name,
                              engine, (unsigned long long)a->allocated, (unsigned long long)b->allocated);
                plans++;
            }
            kva_plan_free(a);
            kva_plan_free(b);
        }
        models_compared++;
        kva_model_close(gguf);
        kva_model_close(config);
    }
    fclose(file);
    ck_assert_uint_gt(models_compared, 80);
    ck_assert_uint_gt(plans, 500);
}
END_TEST

// Windows of a config that llama.cpp does not know of.
START_TEST(windows_are_those_of_llamacpp)
{
    prints("microsoft/Phi-3-mini-4k-instruct", "llama.cpp@v0.5.0", FLAGS("-c", "4096", "-np", "1"),
           "llama_kv_cache: size = 1536.00 MiB (  4096 cells,  32 layers,  1/1 seqs)");
    // before iSWA every layer keeps the context: 62 x 16 x 128 x 2 x 2 bytes x 4096
    prints("google/gemma-3-27b-it", "llama.cpp@b5415", FLAGS("-c", "4096", "-np", "1"),
           "llama_kv_cache_unified: KV self size  = 1984.00 MiB, K (f16):  992.00 MiB, V (f16):  992.00 MiB");
}
END_TEST

START_TEST(blanks_are_filled_as_llama_server_does)
{
    // tools/server/server.cpp: four slots in one unified cache; in b7347 also where one was asked for
    prints("google/gemma-3-27b-it", "llama.cpp@v0.5.0", FLAGS("-c", "8192"),
           "llama_kv_cache: size = 1872.00 MiB (  4608 cells,  52 layers,  4/1 seqs)");
    prints("google/gemma-3-27b-it", "llama.cpp@b7347", FLAGS("-c", "8192", "-np", "1"),
           "llama_kv_cache: size = 1872.00 MiB (  4608 cells,  52 layers,  4/1 seqs)");
    prints("google/gemma-3-27b-it", "llama.cpp@b6673", FLAGS("-c", "8192"),
           "llama_kv_cache: size =  624.00 MiB (  1536 cells,  52 layers,  1/1 seqs)");
    // n_ctx 4096 up to b7347, then the model's
    prints("google/gemma-3-27b-it", "llama.cpp@b7347", FLAGS("-np", "1"),
           "llama_kv_cache_iswa: creating non-SWA KV cache, size = 4096 cells");
    prints("google/gemma-3-27b-it", "llama.cpp@b7698", FLAGS("-np", "1"),
           "llama_kv_cache_iswa: creating non-SWA KV cache, size = 131072 cells");
    // llama_context_default_params: n_ctx 512, swa_full
    prints("google/gemma-3-27b-it", "llama.cpp@v0.5.0", FLAGS("--llm-class", "on", "-c", "8192"),
           "llama_kv_cache_iswa: creating     SWA KV cache, size = 8192 cells");
    // -ctk leaves the values at f16
    prints("google/gemma-3-27b-it", "llama.cpp@v0.5.0", FLAGS("-c", "4096", "-np", "1", "-ctk", "q8_0"),
           "llama_kv_cache: size =  245.00 MiB (  4096 cells,  10 layers,  1/1 seqs), K (q8_0):   85.00 MiB, V (f16):  "
           "160.00 MiB");
}
END_TEST

START_TEST(what_llamacpp_refuses_is_refused)
{
    const char *gemma = "google/gemma-3-27b-it", *newest = "llama.cpp@v0.5.0";
    refuses(gemma, newest, FLAGS("-c", "4096", "-fa", "off", "-ctv", "q8_0"), KVA_BAD_INPUT,
            "V cache quantization requires flash_attn");
    refuses("deepseek-ai/DeepSeek-V3", newest, FLAGS("-c", "4096", "-ctk", "q8_0"), KVA_BAD_INPUT,
            "model does not support different K (q8_0) and V (f16) cache types");
    refuses(gemma, newest, FLAGS("-c", "4096", "-np", "257"), KVA_BAD_INPUT, "n_seq_max must be <= 256");
    refuses(gemma, newest, FLAGS("-c", "4096", "-ctk", "fp8"), KVA_BAD_INPUT, "is not a cache type of llama.cpp");
    refuses(gemma, newest, FLAGS("-c", "4096", "-tp", "2"), KVA_REFUSED, "layers over GPUs");
    refuses(gemma, newest, FLAGS("-c", "9223372036854775808", "-np", "2"), KVA_BAD_INPUT, "2^64");
    refuses("microsoft/Phi-4-mini-flash-reasoning", newest, FLAGS("-c", "4096"), KVA_REFUSED, "phi4flash");
    // architectures that came later
    refuses("zai-org/GLM-5", "llama.cpp@b7698", FLAGS("-c", "4096"), KVA_REFUSED, "does not load");
    refuses("openai/gpt-oss-20b", "llama.cpp@b5640", FLAGS("-c", "4096"), KVA_REFUSED, "does not load");
    refuses("deepseek-ai/DeepSeek-V3", "ik_llama.cpp", FLAGS("-c", "4096"), KVA_BAD_INPUT, "-mla");
}
END_TEST

// 131072 cells are 10240 MiB in the full layers of Gemma-3-27B, and four slots 1872 MiB in the others.
START_TEST(what_fits_is_found_to_the_cell)
{
    static const struct {
        const char *bytes;
        uint64_t context;
    } BUDGETS[] = {{"12700352512", 131072}, {"12700352511", 130816}, {"12721324032", 131328}};
    for (size_t b = 0; b < sizeof BUDGETS / sizeof *BUDGETS; b++) {
        struct kva_plan *plan;
        struct kva_model *model;
        struct kva_error error = {0};
        ck_assert_int_eq(plan_flags("google/gemma-3-27b-it", "llama.cpp@v0.5.0",
                                    FLAGS("-c", "65536", "--kv-bytes", BUDGETS[b].bytes), &plan, &model, &error),
                         KVA_OK);
        ck_assert_uint_eq(plan->capacity.max_context, BUDGETS[b].context);
        ck_assert_uint_eq(plan->capacity.tokens, 65536);
        ck_assert(plan->capacity.fits);
        kva_plan_free(plan);
        kva_model_close(model);
    }
    // --fit shrinks only what nobody asked for
    prints("google/gemma-3-27b-it", "llama.cpp@v0.5.0", FLAGS("--kv-bytes", "12700352511"),
           "llama_kv_cache_iswa: creating non-SWA KV cache, size = 130816 cells");
    prints("google/gemma-3-27b-it", "llama.cpp@v0.5.0", FLAGS("-c", "131072", "--kv-bytes", "12700352511"),
           "llama_kv_cache_iswa: creating non-SWA KV cache, size = 131072 cells");
}
END_TEST

static void open_atlas(void)
{
    ck_assert_int_eq(kva_atlas_open(NULL, &atlas, NULL), KVA_OK);
    snprintf(header, sizeof header, "/tmp/kva-llamacpp-XXXXXX");
    int handle = mkstemp(header);
    ck_assert_int_ge(handle, 0);
    close(handle);
}

static void close_atlas(void)
{
    unlink(header);
    kva_atlas_close(atlas);
}

int main(void)
{
    Suite *suite = suite_create("llama.cpp");
    TCase *tests = tcase_create("llama.cpp");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, open_atlas, close_atlas);
    tcase_add_test(tests, contexts_are_those_that_llamacpp_made);
    tcase_add_test(tests, a_config_is_taken_as_its_gguf);
    tcase_add_test(tests, a_header_plans_as_its_config);
    tcase_add_test(tests, windows_are_those_of_llamacpp);
    tcase_add_test(tests, blanks_are_filled_as_llama_server_does);
    tcase_add_test(tests, what_llamacpp_refuses_is_refused);
    tcase_add_test(tests, what_fits_is_found_to_the_cell);
    suite_add_tcase(suite, tests);
    return unit_run(suite);
}
