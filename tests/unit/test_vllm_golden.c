// The vLLM policy against vLLM itself: engines/vllm-golden.jsonl holds what the planner of 39 releases answered when
// tests/reference/make_vllm.py ran it. Models of the catalogue are planned as anyone would; the few written geometries
// are built from the layers of their row.
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "jsonl.h"
#include "unit.h"

enum { MODELS = 64, LAYERS = 64, MANY = 16384 };

static struct kva_atlas *atlas;

// ---------------------------------------------------------------- written geometries

static const char *const TYPES[][2] = {
    {"mistral-7b-v0.1", "mistral"},    {"gpt-oss-20b-eagle", "gpt_oss"},      {"gemma-3n-e4b", "gemma3n"},
    {"whisper-large-v3", "whisper"},   {"qwen3-next-80b", "qwen3_next"},      {"qwen3-next-80b-mtp", "qwen3_next"},
    {"deepseek-v3.2", "deepseek_v32"}, {"qwen3-next-80b-fp32", "qwen3_next"},
};

static const struct {
    const char *name;
    enum kva_cache_kind kind;
} KINDS[] = {{"full", KVA_CACHE_FULL},     {"sliding", KVA_CACHE_SLIDING}, {"chunked", KVA_CACHE_CHUNKED},
             {"latent", KVA_CACHE_LATENT}, {"index", KVA_CACHE_INDEX},     {"cross", KVA_CACHE_CROSS},
             {"state", KVA_CACHE_STATE}};

static uint32_t number(const json_t *object, const char *key)
{
    return (uint32_t)json_integer_value(json_object_get(object, key));
}

static struct kva_cache cache_of(const json_t *row)
{
    const char *name = json_string_value(json_object_get(row, "kind"));
    struct kva_cache cache = {.kv_heads = number(row, "kv_heads"), .k_dim = number(row, "k_dim"), .reads_layer = -1};
    size_t k = 0;
    while (k < sizeof KINDS / sizeof *KINDS - 1 && strcmp(KINDS[k].name, name) != 0)
        k++;
    cache.kind = KINDS[k].kind;
    cache.v_dim = number(row, "v_dim");
    cache.window = number(row, "window");
    cache.length = cache.kind == KVA_CACHE_CROSS ? 1500 : 0;
    if (cache.kind == KVA_CACHE_INDEX)
        cache.k_dim = 128;                // of the row's 132 bytes, 4 are the scale
    if (cache.kind == KVA_CACHE_STATE) {  // a gated delta net
        const uint64_t keys = (uint64_t)number(row, "k_heads") * number(row, "k_dim"), v_heads = number(row, "v_heads");
        cache = (struct kva_cache){.kind = KVA_CACHE_STATE, .reads_layer = -1, .n_state = 2};
        cache.state[0] = (struct kva_state_part){
            .name = "conv", .elements = (number(row, "kernel") - 1) * (2 * keys + v_heads * number(row, "v_dim"))};
        cache.state[1] = (struct kva_state_part){.name = "recurrent",
                                                 .elements = v_heads * number(row, "k_dim") * number(row, "v_dim")};
    }
    return cache;
}

// "0-4,6-10:2" are layers 0 to 4, 6, 8 and 10.
static void add_layers(struct kva_layer *layers, size_t *n_layers, const char *text, const struct kva_cache *cache)
{
    while (*text != '\0') {
        char *rest;
        unsigned long first = strtoul(text, &rest, 10), last = first, step = 1;
        if (*rest == '-')
            last = strtoul(rest + 1, &rest, 10);
        if (*rest == ':')
            step = strtoul(rest + 1, &rest, 10);
        ck_assert_uint_lt(last, LAYERS);
        for (unsigned long i = first; i <= last; i += step) {
            struct kva_layer *layer = &layers[i];
            layer->index = (uint32_t)i;
            layer->kind = "layer";
            layer->caches[layer->n_caches++] = *cache;
            *n_layers = i >= *n_layers ? i + 1 : *n_layers;
        }
        text = *rest == ',' ? rest + 1 : rest;
    }
}

static struct kva_model *written(const json_t *row, const char *name)
{
    static struct kva_model model;
    static struct kva_layer layers[LAYERS];
    static struct kva_value kernel = {.name = "d_conv", .count = 4};
    const json_t *parts = json_object_get(row, "layers");
    memset(layers, 0, sizeof layers);
    model = (struct kva_model){.id = name,
                               .source = "a row",
                               .model_type = "",
                               .architecture = "",
                               .family = "test",
                               .context_limit = number(json_object_get(row, "deployment"), "max_model_len"),
                               .dtype = KVA_BF16,
                               .dtype_key = "torch_dtype",
                               .naive_kv_heads = 1,
                               .naive_k_dim = 1,
                               .layers = layers,
                               .values = &kernel,
                               .n_values = 1};
    for (size_t t = 0; t < sizeof TYPES / sizeof *TYPES; t++)
        if (strcmp(TYPES[t][0], name) == 0)
            model.model_type = TYPES[t][1];
    for (size_t p = 0; p < json_array_size(parts); p++) {
        const json_t *part = json_array_get(parts, p);
        const struct kva_cache cache = cache_of(part);
        add_layers(layers, &model.n_layers, json_string_value(json_object_get(part, "layers")), &cache);
    }
    return &model;
}

static const struct kva_model *model_of(const json_t *row)
{
    static struct {
        char name[64];
        struct kva_model *model;
    } opened[MODELS];
    const char *name = json_string_value(json_object_get(row, "model"));
    size_t m = 0;
    if (strchr(name, '/') == NULL)
        return written(row, name);
    while (m < MODELS - 1 && opened[m].model != NULL && strcmp(opened[m].name, name) != 0)
        m++;
    if (opened[m].model == NULL) {
        snprintf(opened[m].name, sizeof opened[m].name, "%s", name);
        opened[m].model = unit_open(atlas, name, NULL);
    }
    return opened[m].model;
}

// ---------------------------------------------------------------- deployments

static void set(struct kva_deployment *deployment, const char *flag, const json_t *value)
{
    static char texts[8][32];
    static size_t next;
    char *text = texts[next++ % 8];
    struct kva_error error = {0};
    if (json_is_string(value))
        snprintf(text, sizeof *texts, "%s", json_string_value(value));
    else if (json_is_boolean(value))
        snprintf(text, sizeof *texts, "%s", json_is_true(value) ? "on" : "off");
    else
        snprintf(text, sizeof *texts, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    ck_assert_msg(kva_deployment_set(deployment, flag, text, &error) == KVA_OK, "%s=%s: %s", flag, text, error.text);
}

static struct kva_deployment deployment_of(const json_t *row, const char *engine)
{
    static const char *const FLAGS[][2] = {
        {"max_model_len", "context"},
        {"max_num_batched_tokens", "batch-size"},
        {"available_bytes", "kv-bytes"},
        {"pp", "pp"},
        {"tp", "tp"},
        {"dcp", "dcp"},
        {"kv_type", "kv-dtype"},
        {"num_gpu_blocks_override", "kv-blocks"},
        {"block_size", "block-size"},
        {"spec_tokens", "spec-tokens"},
        {"hybrid_manager", "hybrid-manager"},
        {"prefix_caching", "prefix-caching"},
        {"async", "async-scheduling"},
    };
    const json_t *given = json_object_get(row, "deployment");
    struct kva_deployment deployment = {.engine = engine};
    for (size_t f = 0; f < sizeof FLAGS / sizeof *FLAGS; f++)
        if (json_object_get(given, FLAGS[f][0]) != NULL)
            set(&deployment, FLAGS[f][1], json_object_get(given, FLAGS[f][0]));
    if (json_is_true(json_object_get(given, "auto_fit")))
        deployment.auto_context = true;
    // what turns the hybrid manager off for chunked attention, and scales of a checkpoint, are not the planner's
    if (json_object_get(given, "hybrid_manager") == NULL)
        deployment.hybrid_manager = KVA_ON;
    if (json_object_get(given, "kv_type") == NULL)
        deployment.kv_dtype = KVA_BF16;
    if (strcmp(json_string_value(json_object_get(row, "name")), "qwen3-next-80b-fp32") == 0)
        deployment.state_dtype = KVA_F32;
    return deployment;
}

// ---------------------------------------------------------------- rows

// A budget of 0 bytes cannot be asked for.
static bool is_left_out(const json_t *row)
{
    return json_integer_value(json_object_get(json_object_get(row, "deployment"), "available_bytes")) == 0;
}

// What the model's config, not its planner, logs.
static bool is_of_planner(const char *line)
{
    static const char *const OTHERS[] = {"Mamba cache mode", "Warning:", "Hybrid or", "Disabling"};
    for (size_t o = 0; o < sizeof OTHERS / sizeof *OTHERS; o++)
        if (strncmp(line, OTHERS[o], strlen(OTHERS[o])) == 0)
            return false;
    return true;
}

static void show(const struct kva_plan *plan, char *all)
{
    size_t length = 0;
    all[0] = '\0';
    for (size_t p = 0; p < plan->n_prints && length < MANY; p++)
        length += (size_t)snprintf(all + length, MANY - length, "%s\n", plan->prints[p].text);
}

static void check_started(const json_t *row, const char *what, const struct kva_plan *plan)
{
    char all[MANY];
    const json_t *result = json_object_get(row, "result"), *lines = json_object_get(result, "lines");
    const json_t *ranks = json_object_get(result, "allocated_bytes");
    uint64_t most = 0;
    show(plan, all);
    ck_assert_msg(plan->capacity.refusal == NULL, "%s: refused: %s", what, plan->capacity.refusal);
    for (size_t l = 0; l < json_array_size(lines); l++) {
        const char *line = json_string_value(json_array_get(lines, l));
        ck_assert_msg(!is_of_planner(line) || strstr(all, line) != NULL, "%s: '%s' was expected in\n%s", what, line,
                      all);
    }
    for (size_t r = 0; r < json_array_size(ranks); r++) {
        const uint64_t bytes = (uint64_t)json_integer_value(json_array_get(ranks, r));
        most = bytes > most ? bytes : most;
    }
    ck_assert_msg(plan->capacity.reserved == most, "%s: %" PRIu64 " bytes reserved", what, plan->capacity.reserved);
    if (json_object_get(result, "auto_fit") != NULL)
        ck_assert_msg(number(result, "auto_fit") == plan->deployment.context, "%s: fitted %" PRIu64, what,
                      plan->deployment.context);
}

static void check_row(const json_t *row)
{
    const char *version = json_string_value(json_object_get(row, "version"));
    const json_t *refused = json_object_get(json_object_get(row, "result"), "error");
    char engine[32], what[128];
    struct kva_error error = {0};
    struct kva_plan *plan;
    snprintf(engine, sizeof engine, "vllm@%s", version);
    snprintf(what, sizeof what, "%s on vLLM %s", json_string_value(json_object_get(row, "name")), version);
    const struct kva_model *model = model_of(row);
    const struct kva_deployment deployment = deployment_of(row, engine);
    const enum kva_status status = kva_plan_make(atlas, model, &deployment, &plan, &error);
    if (refused == NULL) {
        ck_assert_msg(status == KVA_OK, "%s: %s", what, error.text);
        check_started(row, what, plan);
    } else {
        const char *said = status == KVA_OK ? plan->capacity.refusal : error.text;
        const char *type = json_string_value(json_object_get(json_object_get(row, "result"), "error_type"));
        ck_assert_msg(said != NULL, "%s: started", what);
        ck_assert_msg(strcmp(type, "AssertionError") == 0 || strstr(said, json_string_value(refused)) != NULL,
                      "%s: '%s' was expected, not '%s'", what, json_string_value(refused), said);
    }
    if (status == KVA_OK)
        kva_plan_free(plan);
}

START_TEST(planner_of_every_release)
{
    size_t compared = 0, left_out = 0;
    ck_assert_int_eq(kva_atlas_open(NULL, &atlas, NULL), KVA_OK);
    FILE *file = jsonl_open(TEST_DATA "/engines/vllm-golden.jsonl");
    for (json_t *row; (row = jsonl_next(file)) != NULL; json_decref(row)) {
        if (is_left_out(row))
            left_out++;
        else {
            check_row(row);
            compared++;
        }
    }
    fclose(file);
    kva_atlas_close(atlas);
    ck_assert_uint_eq(compared, 917);
    ck_assert_uint_eq(left_out, 11);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("vllm golden");
    TCase *golden = tcase_create("golden");
    tcase_set_timeout(golden, 120);
    tcase_add_test(golden, planner_of_every_release);
    suite_add_tcase(suite, golden);
    return unit_run(suite);
}
