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
    static char line[65536];
    struct tally tally = {0};
    FILE *file = fopen(RECORDS, "r");
    ck_assert_ptr_nonnull(file);
    while (fgets(line, sizeof line, file) != NULL) {
        json_t *record = json_loads(line, 0, NULL);
        ck_assert_ptr_nonnull(record);
        check_record(record, &tally);
        json_decref(record);
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
    suite_add_tcase(suite, tests);
    return unit_run(suite);
}
