// What a config means. References: the configuration classes of Transformers 5.17, executed or read (named beside each
// test), the published config.json files of the catalogue, and for Phi-4-mini-flash its own published code.
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model/arch.h"
#include "unit.h"

static struct kva_atlas *atlas;
static char folder[64], config[96];

static void setup(void)
{
    strcpy(folder, "/tmp/kva-model-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(config, sizeof config, "%s/config.json", folder);
}

static void teardown(void)
{
    static const char *const BELOW[] = {"config.json", "references.yaml", "architectures/toy.yaml", "architectures"};
    char path[160];
    for (size_t i = 0; i < sizeof BELOW / sizeof *BELOW; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, BELOW[i]);
        remove(path);
    }
    rmdir(folder);
}

static void write_at(const char *path, const char *text, size_t length)
{
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(text, 1, length, file), length);
    fclose(file);
}

static struct kva_model *open_text(const char *json)
{
    write_at(config, json, strlen(json));
    return unit_open(atlas, config, NULL);
}

static void has_pattern(const char *json, const char *pattern)
{
    char buffer[1024];
    struct kva_model *model = open_text(json);
    ck_assert_str_eq(kva_model_pattern(model, buffer, sizeof buffer), pattern);
    kva_model_close(model);
}

// A config that is refused: by which status, naming which key, saying what.
static void refused(const char *json, size_t length, enum kva_status status, const char *key, const char *says)
{
    struct kva_error error = {0};
    struct kva_model *model;
    write_at(config, json, length);
    enum kva_status got = kva_model_open(atlas, config, NULL, &model, &error);
    ck_assert_msg(got == status, "%.60s: status %d: %s", json, got, error.text);
    ck_assert_str_eq(error.file, config);
    if (key != NULL)
        ck_assert_msg(strcmp(error.key, key) == 0, "%.60s: key %s: %s", json, error.key, error.text);
    ck_assert_msg(strstr(error.text, says) != NULL, "%.60s: %s", json, error.text);
    ck_assert_ptr_null(model);
}

static void bad(const char *json, const char *key, const char *says)
{
    refused(json, strlen(json), KVA_BAD_INPUT, key, says);
}

// ---------------------------------------------------------------- published models

static size_t count_kind(const struct kva_model *model, enum kva_cache_kind kind)
{
    size_t n = 0;
    for (size_t i = 0; i < model->n_layers; i++)
        n += model->layers[i].n_caches > 0 && model->layers[i].caches[0].reads_layer < 0 &&
             model->layers[i].caches[0].kind == kind;
    return n;
}

START_TEST(phi_4_mini_has_a_window_that_never_binds)
{
    char buffer[64];
    struct kva_model *model = unit_open(atlas, "microsoft/Phi-4-mini-instruct", NULL);
    ck_assert_str_eq(kva_model_pattern(model, buffer, sizeof buffer), "F32");
    ck_assert_uint_eq(model->context_limit, 131072);
    for (size_t i = 0; i < model->n_layers; i++) {
        const struct kva_cache *cache = &model->layers[i].caches[0];
        ck_assert_int_eq(cache->kind, KVA_CACHE_FULL);
        ck_assert(cache->window_inert);
        ck_assert_uint_eq(cache->window, 262144);
        ck_assert_uint_eq(cache->kv_heads, 8);
        ck_assert_uint_eq(cache->k_dim, 128);
        ck_assert_uint_eq(cache->v_dim, 128);
    }
    ck_assert_int_eq(model->rope_main.type, KVA_ROPE_LONGROPE);
    ck_assert_uint_eq(model->rope_main.n_long_factor, 48);
    ck_assert_double_eq(model->rope_main.long_factor[47], 47.77);
    ck_assert_double_eq(model->rope_main.factor, 32);  // 131072 / 4096
    ck_assert_int_eq(model->dtype, KVA_BF16);
    ck_assert_uint_eq(model->n_warnings, 0);
    kva_model_close(model);
}
END_TEST

START_TEST(phi_3_mini_4k_has_a_window_of_2047_everywhere)
{
    char buffer[64];
    struct kva_model *model = unit_open(atlas, "microsoft/Phi-3-mini-4k-instruct", NULL);
    ck_assert_str_eq(kva_model_pattern(model, buffer, sizeof buffer), "S32");
    ck_assert_uint_eq(model->layers[31].caches[0].window, 2047);
    ck_assert_uint_eq(model->layers[31].caches[0].kv_heads, 32);
    ck_assert_uint_eq(model->layers[31].caches[0].k_dim, 96);
    kva_model_close(model);
}
END_TEST

START_TEST(phi_4_mini_flash_shares_one_full_cache)
{
    char buffer[256];
    struct kva_model *model = unit_open(atlas, "microsoft/Phi-4-mini-flash-reasoning", NULL);
    ck_assert_str_eq(kva_model_pattern(model, buffer, sizeof buffer),
                     "R1 S1 R1 S1 R1 S1 R1 S1 R1 S1 R1 S1 R1 S1 R1 S1 R1 F1 G1 X1 G1 X1 G1 X1 G1 X1 G1 X1 G1 X1 G1 X1");
    ck_assert_uint_eq(count_kind(model, KVA_CACHE_STATE), 9);
    ck_assert_uint_eq(count_kind(model, KVA_CACHE_SLIDING), 8);
    ck_assert_uint_eq(count_kind(model, KVA_CACHE_FULL), 1);
    size_t reading = 0, without = 0;
    for (size_t i = 0; i < model->n_layers; i++) {
        const struct kva_layer *layer = &model->layers[i];
        without += layer->n_caches == 0;
        if (layer->n_caches == 1 && layer->caches[0].reads_layer >= 0) {
            reading++;
            ck_assert_int_eq(layer->caches[0].reads_layer, 17);
            ck_assert_uint_eq(layer->caches[0].kv_heads, 20);
            ck_assert_uint_eq(layer->caches[0].k_dim, 64);
        }
    }
    ck_assert_uint_eq(reading, 7);
    ck_assert_uint_eq(without, 7);
    ck_assert_uint_eq(model->layers[1].caches[0].window, 512);
    // d_inner 5120: K - 1 = 3 columns, N = 16
    ck_assert_uint_eq(model->layers[0].caches[0].n_state, 2);
    ck_assert_uint_eq(model->layers[0].caches[0].state[0].elements, 5120 * 3);
    ck_assert_uint_eq(model->layers[0].caches[0].state[1].elements, 5120 * 16);
    ck_assert_int_eq(model->layers[0].caches[0].state[1].dtype, KVA_DTYPE_NONE);
    ck_assert_int_eq(model->rope_main.type, KVA_ROPE_NONE);
    kva_model_close(model);
}
END_TEST

START_TEST(sparse_gemma_3_files_mean_the_class_defaults)
{
    struct kva_model *model = unit_open(atlas, "google/gemma-3-27b-it", NULL);
    ck_assert_uint_eq(count_kind(model, KVA_CACHE_SLIDING), 52);
    ck_assert_uint_eq(count_kind(model, KVA_CACHE_FULL), 10);
    ck_assert_uint_eq(model->layers[0].caches[0].window, 1024);
    ck_assert_str_eq(model->dtype_key, "torch_dtype");
    const struct kva_value *context = kva_model_value(model, "context");
    ck_assert_int_eq(context->source, KVA_FROM_DEFAULT);
    ck_assert_uint_eq(context->count, 131072);
    ck_assert_int_eq(model->rope_main.type, KVA_ROPE_LINEAR);
    ck_assert_double_eq(model->rope_main.theta, 1e6);
    ck_assert_int_eq(model->rope_local.type, KVA_ROPE_DEFAULT);
    ck_assert_double_eq(model->rope_local.theta, 1e4);
    kva_model_close(model);
    model =
        unit_open(atlas, "google/gemma-3-4b-it", NULL);  // heads, KV heads, head_dim, context and pattern are absent
    ck_assert_uint_eq(model->n_layers, 34);
    ck_assert_uint_eq(model->layers[0].caches[0].kv_heads, 4);
    ck_assert_uint_eq(model->layers[0].caches[0].k_dim, 256);
    kva_model_close(model);
}
END_TEST

START_TEST(every_catalogue_model_opens)
{
    static const struct {
        const char *name, *pattern;
    } MODELS[] = {
        {"google/gemma-3-1b-it", "S5 F1 S5 F1 S5 F1 S5 F1 S2"},
        {"google/gemma-2-2b-it", NULL},
        {"openai/gpt-oss-20b", NULL},
        {"meta-llama/Llama-3.1-8B-Instruct", "F32"},
        {"mistralai/Mistral-7B-Instruct-v0.3", "F32"},
        {"Qwen/Qwen2.5-0.5B", "F24"},
        {"Qwen/Qwen3-0.6B", "F28"},
    };
    char buffer[256];
    for (size_t i = 0; i < sizeof MODELS / sizeof *MODELS; i++) {
        struct kva_model *model = unit_open(atlas, MODELS[i].name, NULL);
        if (MODELS[i].pattern != NULL)
            ck_assert_str_eq(kva_model_pattern(model, buffer, sizeof buffer), MODELS[i].pattern);
        ck_assert_uint_ge(model->n_references, 1);
        kva_model_close(model);
    }
    struct kva_model *model = unit_open(atlas, "openai/gpt-oss-20b", NULL);
    ck_assert_uint_eq(count_kind(model, KVA_CACHE_SLIDING), 12);
    ck_assert_uint_eq(count_kind(model, KVA_CACHE_FULL), 12);
    ck_assert_uint_eq(model->layers[0].caches[0].window, 128);
    kva_model_close(model);
}
END_TEST

// ---------------------------------------------------------------- rules

// The patterns that the classes make of their own defaults (tests/data/golden-patterns.json, executed).
START_TEST(class_defaults)
{
    has_pattern("{\"model_type\": \"qwen2\"}", "F32");
    has_pattern("{\"model_type\": \"qwen3\"}", "F32");
    has_pattern("{\"model_type\": \"gemma2\"}",
                "S1 F1 S1 F1 S1 F1 S1 F1 S1 F1 S1 F1 S1 F1 S1 F1 S1 F1 S1 F1 S1 F1 S1 F1 S1 F1");
    has_pattern("{\"model_type\": \"gemma3_text\"}", "S5 F1 S5 F1 S5 F1 S5 F1 S2");
    has_pattern("{\"model_type\": \"gemma3\"}", "S5 F1 S5 F1 S5 F1 S5 F1 S2");
    has_pattern("{\"model_type\": \"gpt_oss\"}",
                "S1 F1 S1 F1 S1 F1 S1 F1 S1 F1 S1 F1 S1 F1 S1 F1 S1 F1 S1 F1 S1 F1 S1 F1 S1 F1 S1 F1 S1 F1 S1 F1 S1 F1 "
                "S1 F1");
    has_pattern("{\"model_type\": \"llama\"}", "F32");
    has_pattern("{\"model_type\": \"phi3\"}", "F32");
}
END_TEST

// Check vectors: Transformers 5.17 classes with these overrides, executed.
START_TEST(rules_of_the_families)
{
    has_pattern("{\"model_type\": \"qwen2\", \"use_sliding_window\": true, \"num_hidden_layers\": 32, "
                "\"max_window_layers\": 28}",
                "F28 S4");
    has_pattern("{\"model_type\": \"qwen3\", \"use_sliding_window\": true, \"sliding_window\": null}", "F32");
    has_pattern("{\"model_type\": \"gemma3_text\", \"sliding_window_pattern\": 4, \"num_hidden_layers\": 10}",
                "S3 F1 S3 F1 S2");
    struct kva_model *model =
        open_text("{\"model_type\": \"gemma3_text\", \"use_bidirectional_attention\": true, \"sliding_window\": 512}");
    ck_assert_uint_eq(model->layers[0].caches[0].window, 257);
    kva_model_close(model);
    // the list wins over the pattern
    has_pattern("{\"model_type\": \"gemma2\", \"num_hidden_layers\": 3, \"layer_types\": [\"full_attention\", "
                "\"sliding_attention\", \"full_attention\"]}",
                "F1 S1 F1");
    has_pattern("{\"model_type\": \"gemma2\", \"num_hidden_layers\": 3, \"layer_types\": null}", "S1 F1 S1");
}
END_TEST

START_TEST(absent_is_not_null)
{
    // configuration_mistral.py: sliding_window 4096, num_key_value_heads 8
    struct kva_model *model = open_text("{\"model_type\": \"mistral\"}");
    ck_assert_int_eq(model->layers[0].caches[0].kind, KVA_CACHE_SLIDING);
    ck_assert_uint_eq(model->layers[0].caches[0].window, 4096);
    ck_assert_uint_eq(model->layers[0].caches[0].kv_heads, 8);
    ck_assert_int_eq(kva_model_value(model, "sliding_window")->source, KVA_FROM_DEFAULT);
    kva_model_close(model);
    model = open_text("{\"model_type\": \"mistral\", \"sliding_window\": null, \"num_key_value_heads\": null}");
    ck_assert_int_eq(model->layers[0].caches[0].kind, KVA_CACHE_FULL);
    ck_assert(!model->layers[0].caches[0].window_inert);
    ck_assert_uint_eq(model->layers[0].caches[0].kv_heads, 32);
    ck_assert_int_eq(kva_model_value(model, "kv_heads")->source, KVA_FROM_NULL);
    ck_assert_str_eq(kva_model_value(model, "kv_heads")->rule, "heads");
    kva_model_close(model);
}
END_TEST

START_TEST(a_window_that_is_switched_off_is_kept_and_inert)
{
    struct kva_model *model = open_text("{\"model_type\": \"qwen2\", \"sliding_window\": 131072, "
                                        "\"max_window_layers\": 70, \"use_sliding_window\": false}");
    ck_assert_int_eq(model->layers[0].caches[0].kind, KVA_CACHE_FULL);
    ck_assert(model->layers[0].caches[0].window_inert);
    ck_assert_uint_eq(model->layers[0].caches[0].window, 131072);
    ck_assert_ptr_nonnull(strstr(model->layers[0].why, "switched off"));
    kva_model_close(model);
    bad("{\"model_type\": \"gpt_oss\", \"sliding_window\": null}", "sliding_window",
        "is null, but layer 0 has a window");
}
END_TEST

START_TEST(dtype_keys)
{
    struct kva_model *model =
        open_text("{\"model_type\": \"llama\", \"dtype\": \"float16\", \"torch_dtype\": \"bfloat16\"}");
    ck_assert_int_eq(model->dtype, KVA_F16);
    kva_model_close(model);
    model = open_text("{\"model_type\": \"gemma3\", \"text_config\": {\"dtype\": \"bfloat16\"}}");
    ck_assert_int_eq(model->dtype, KVA_BF16);
    ck_assert_str_eq(model->dtype_key, "text_config.dtype");
    kva_model_close(model);
    model = open_text("{\"model_type\": \"llama\"}");
    ck_assert_int_eq(model->dtype, KVA_DTYPE_NONE);
    ck_assert_uint_eq(model->weight_bytes, KVA_UNKNOWN);
    kva_model_close(model);
    bad("{\"model_type\": \"llama\", \"dtype\": \"float31\"}", "dtype", "float31");
}
END_TEST

START_TEST(keys_that_nobody_reads_are_warned_about)
{
    struct kva_model *model =
        open_text("{\"model_type\": \"llama\", \"num_kv_shared_layers\": 4, \"layer_types\": [1], "
                  "\"eos_token_id\": 2, \"vision_config\": {}, \"dtype\": \"float32\"}");
    ck_assert_uint_eq(model->n_warnings, 2);
    ck_assert_ptr_nonnull(strstr(model->warnings[0], "num_kv_shared_layers"));
    ck_assert_ptr_nonnull(strstr(model->warnings[1], "layer_types"));
    kva_model_close(model);
}
END_TEST

// However many keys nobody reads, what else is to be said is not lost behind them.
START_TEST(many_strange_keys_push_no_warning_out)
{
    char json[4096];
    int length = snprintf(json, sizeof json,
                          "{\"model_type\": \"llama\", \"quantization_config\": "
                          "{\"quant_method\": \"awq\"}");
    for (int i = 0; i < 40; i++)
        length += snprintf(json + length, sizeof json - (size_t)length, ", \"kv_strange_%d\": 1", i);
    snprintf(json + length, sizeof json - (size_t)length, "}");
    struct kva_model *model = open_text(json);
    bool more = false, weights = false;
    for (size_t i = 0; i < model->n_warnings; i++) {
        more = more || strstr(model->warnings[i], "24 more keys") != NULL;
        weights = weights || strstr(model->warnings[i], "weight bytes are unknown") != NULL;
    }
    ck_assert(more && weights);
    kva_model_close(model);
}
END_TEST

START_TEST(unknown_architectures_are_refused)
{
    const char *json = "{\"model_type\": \"novel\", \"architectures\": [\"NovelForCausalLM\"], \"layer_types\": [], "
                       "\"num_key_value_heads\": 2, \"vocab_size\": 5}";
    refused(json, strlen(json), KVA_REFUSED, "model_type", "\"novel\" (NovelForCausalLM)");
    refused(json, strlen(json), KVA_REFUSED, "model_type", "layer_types, num_key_value_heads");
    json = "{\"model_type\": \"../llama\"}";
    refused(json, strlen(json), KVA_REFUSED, "model_type", "none found");
    json = "{\"model_type\": \"gemma3\", \"text_config\": {\"model_type\": \"other\"}}";
    refused(json, strlen(json), KVA_REFUSED, "model_type", "other");
    // a remote-code model_type of a known class
    struct kva_model *model =
        open_text("{\"model_type\": \"my_llama\", \"architectures\": [\"LlamaForCausalLM\"], \"dtype\": \"float32\"}");
    ck_assert_uint_eq(model->n_warnings, 1);
    ck_assert_str_eq(model->arch->model_type, "llama");
    kva_model_close(model);
}
END_TEST

// ---------------------------------------------------------------- rope (values: Transformers 5.17 classes, executed)

START_TEST(rope_parameters_old_and_new)
{
    struct kva_model *model = open_text("{\"model_type\": \"llama\", \"rope_scaling\": {\"rope_type\": \"linear\", "
                                        "\"factor\": 8.0}, \"rope_parameters\": {\"rope_theta\": 7.0}}");
    ck_assert_int_eq(model->rope_main.type, KVA_ROPE_LINEAR);  // rope_scaling wins, and its theta is the default
    ck_assert_double_eq(model->rope_main.theta, 10000);
    kva_model_close(model);
    model = open_text("{\"model_type\": \"llama\", \"rope_parameters\": {\"rope_theta\": 7.0, \"rope_type\": "
                      "\"default\"}, \"rope_theta\": 9.0, \"partial_rotary_factor\": 0.5}");
    ck_assert_double_eq(model->rope_main.theta, 7);
    ck_assert_double_eq(model->rope_main.partial, 0.5);
    kva_model_close(model);
    model = open_text("{\"model_type\": \"llama\", \"original_max_position_embeddings\": 77, \"rope_scaling\": "
                      "{\"type\": \"llama3\", \"factor\": 8.0, \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, "
                      "\"original_max_position_embeddings\": 32}}");
    ck_assert_int_eq(model->rope_main.type, KVA_ROPE_LLAMA3);
    ck_assert_uint_eq(model->rope_main.original_context, 32);
    kva_model_close(model);
    model = open_text("{\"model_type\": \"llama\", \"rope_theta\": 5, \"rope_scaling\": {\"rope_type\": \"yarn\", "
                      "\"factor\": 8.0, \"beta_fast\": 0}}");
    ck_assert_uint_eq(model->rope_main.original_context, 2048);
    ck_assert_double_eq(model->rope_main.theta, 5);
    ck_assert_double_eq(model->rope_main.beta_fast, 32);
    ck_assert_double_eq(model->rope_main.beta_slow, 1);
    ck_assert(model->rope_main.truncate);
    kva_model_close(model);
    model = open_text("{\"model_type\": \"gemma3_text\", \"rope_theta\": 5, \"rope_local_base_freq\": 3, "
                      "\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 2.0}}");
    ck_assert_double_eq(model->rope_main.theta, 5);
    ck_assert_double_eq(model->rope_main.factor, 2);
    ck_assert_double_eq(model->rope_local.theta, 3);
    ck_assert_int_eq(model->rope_local.type, KVA_ROPE_DEFAULT);
    kva_model_close(model);
    model =
        open_text("{\"model_type\": \"gemma3_text\", \"rope_parameters\": {\"full_attention\": {\"rope_type\": "
                  "\"linear\", \"factor\": 4.0, \"rope_theta\": 11}, \"sliding_attention\": {\"rope_theta\": 12}}}");
    ck_assert_double_eq(model->rope_main.theta, 11);
    ck_assert_double_eq(model->rope_main.factor, 4);
    ck_assert_double_eq(model->rope_local.theta, 12);
    kva_model_close(model);
    model = open_text("{\"model_type\": \"gpt_oss\"}");  // the class's own default is yarn
    ck_assert_int_eq(model->rope_main.type, KVA_ROPE_YARN);
    ck_assert_double_eq(model->rope_main.theta, 150000);
    ck_assert_uint_eq(model->rope_main.original_context, 4096);
    ck_assert(!model->rope_main.truncate);
    kva_model_close(model);
}
END_TEST

START_TEST(rope_that_cannot_be_right)
{
    bad("{\"model_type\": \"llama\", \"rope_scaling\": {\"type\": \"spiral\"}}", "rope_scaling.type", "spiral");
    bad("{\"model_type\": \"llama\", \"rope_scaling\": {\"type\": \"linear\"}}", "rope_scaling.factor", "missing");
    bad("{\"model_type\": \"llama\", \"rope_scaling\": {\"type\": \"linear\", \"factor\": NaN}}", "rope_scaling.factor",
        "NaN");
    bad("{\"model_type\": \"llama\", \"rope_scaling\": {\"type\": \"llama3\", \"factor\": 8.0}}",
        "rope_scaling.low_freq_factor", "missing");
    bad("{\"model_type\": \"llama\", \"rope_scaling\": 4}", "rope_scaling", "expected an object");
    bad("{\"model_type\": \"llama\", \"rope_theta\": \"big\"}", "rope_theta", "big");
    bad("{\"model_type\": \"phi3\", \"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": [1, 2], "
        "\"long_factor\": [1, 2]}}",
        "rope_scaling.short_factor", "48 numbers");
}
END_TEST

// ---------------------------------------------------------------- bad input

START_TEST(values_of_the_wrong_kind)
{
    bad("{\"model_type\": \"llama\", \"num_hidden_layers\": 4.0}", "num_hidden_layers", "found the number 4.0");
    bad("{\"model_type\": \"llama\", \"num_hidden_layers\": -4}", "num_hidden_layers", "found the number -4");
    bad("{\"model_type\": \"llama\", \"num_hidden_layers\": \"4\"}", "num_hidden_layers", "found the text \"4\"");
    bad("{\"model_type\": \"llama\", \"num_hidden_layers\": [4]}", "num_hidden_layers", "found a list of 1");
    bad("{\"model_type\": \"llama\", \"num_hidden_layers\": null}", "num_hidden_layers", "found null");
    bad("{\"model_type\": \"llama\", \"num_hidden_layers\": NaN}", "num_hidden_layers", "NaN");
    bad("{\"model_type\": \"llama\", \"num_hidden_layers\": 1e999}", "num_hidden_layers", "1e999");
    bad("{\"model_type\": \"llama\", \"num_hidden_layers\": 99999999999999999999999}", "num_hidden_layers", "9999999");
    bad("{\"model_type\": \"llama\", \"num_hidden_layers\": 1000000000}", "num_hidden_layers", "at most 8192");
    bad("{\"model_type\": \"llama\", \"num_hidden_layers\": 0}", "num_hidden_layers", "found the number 0");
    bad("{\"model_type\": \"llama\", \"num_attention_heads\": 0}", "num_attention_heads", "found the number 0");
    bad("{\"model_type\": \"qwen2\", \"num_attention_heads\": 5000, \"num_key_value_heads\": 1}", "head_dim",
        "hidden / heads is 0");
    bad("{\"model_type\": \"llama\", \"num_key_value_heads\": 3}", NULL, "multiple of num_key_value_heads");
    bad("{\"model_type\": \"llama\", \"hidden_size\": 4097}", NULL, "multiple of num_attention_heads");
    bad("{\"model_type\": \"qwen2\", \"use_sliding_window\": 1}", "use_sliding_window", "true or false");
    bad("{\"model_type\": \"llama\", \"rms_norm_eps\": \"small\"}", "rms_norm_eps", "expected a number");
    bad("{\"model_type\": \"llama\", \"hidden_act\": 3}", "hidden_act", "expected text");
    bad("{\"model_type\": \"llama\", \"head_dim\": 5000000000}", NULL, "5000000000");
    bad("{\"model_type\": \"gemma3\", \"text_config\": {\"num_hidden_layers\": \"x\"}}",
        "text_config.num_hidden_layers", "found the text");
    bad("{\"model_type\": \"gemma3\", \"text_config\": 3}", "text_config", "expected an object");
    bad("{\"model_type\": 3}", "model_type", "expected text");
    bad("{}", "model_type", "is missing");
}
END_TEST

START_TEST(numbers_that_multiply_beyond_64_bits)
{
    bad("{\"model_type\": \"qwen3\", \"hidden_size\": 4294967295, \"intermediate_size\": 4294967295, "
        "\"vocab_size\": 4294967295, \"num_attention_heads\": 1, \"num_key_value_heads\": 1, \"dtype\": \"float32\"}",
        NULL, "64 bits");
    bad("{\"model_type\": \"llama\", \"num_attention_heads\": 9223372036854775807, "
        "\"hidden_size\": 9223372036854775807, \"head_dim\": 2}",
        NULL, "9223372036854775807");
}
END_TEST

START_TEST(lists_of_layers_are_checked)
{
    bad("{\"model_type\": \"gemma2\", \"num_hidden_layers\": 3, \"layer_types\": [\"full_attention\"]}", "layer_types",
        "has 1 entries, but num_hidden_layers is 3");
    bad("{\"model_type\": \"gemma2\", \"num_hidden_layers\": 1, \"layer_types\": [\"full_attention\", "
        "\"full_attention\"]}",
        "layer_types", "has 2 entries, but num_hidden_layers is 1");
    bad("{\"model_type\": \"gemma2\", \"num_hidden_layers\": 1, \"layer_types\": [\"odd_attention\"]}", "layer_types",
        "odd_attention");
    bad("{\"model_type\": \"gemma2\", \"num_hidden_layers\": 1, \"layer_types\": [7]}", "layer_types", "the number 7");
    bad("{\"model_type\": \"gemma2\", \"layer_types\": \"all\"}", "layer_types", "expected a list");
}
END_TEST

START_TEST(phi4flash_insists)
{
    bad("{\"model_type\": \"phi4flash\", \"num_hidden_layers\": 30}", NULL, "multiple of 4");
    bad("{\"model_type\": \"phi4flash\", \"mb_per_layer\": 3}", NULL, "mb_per_layer 2");
    bad("{\"model_type\": \"phi4flash\", \"sliding_window\": [null, 512]}", NULL, "one entry for each layer");
    struct kva_model *model = open_text("{\"model_type\": \"phi4flash\", \"mamba_dt_rank\": \"auto\"}");
    ck_assert_uint_eq(kva_model_value(model, "dt_rank")->count, 160);
    kva_model_close(model);
    model = open_text("{\"model_type\": \"phi4flash\", \"mamba_dt_rank\": 7}");
    ck_assert_uint_eq(kva_model_value(model, "dt_rank")->count, 7);
    kva_model_close(model);
    bad("{\"model_type\": \"phi4flash\", \"mamba_dt_rank\": \"some\"}", "mamba_dt_rank", "some");
}
END_TEST

START_TEST(files_that_are_not_configs)
{
    bad("", NULL, "not JSON");
    bad("{\"a\": 1", NULL, "not JSON");
    bad("[1]", NULL, "object was expected");
    bad("3", NULL, "object was expected");
    bad("{\"model_type\": \"llama\", \"a\": {\"deep\": 1, \"deep\": 2}}", "deep", "stands twice");
    bad("{\"a\\u0000b\": 1}", NULL, "not JSON");
    bad("{\"model_type\": \"lla\xff\"}", NULL, "not JSON");
    bad("{\"num\nhidden\": 1}", NULL, "not JSON");
    char *deep = malloc(1000001);
    ck_assert_ptr_nonnull(deep);
    memset(deep, '[', 1000000);
    memcpy(deep, "{\"a\":", 5);
    deep[1000000] = '\0';
    bad(deep, NULL, "not JSON");
    free(deep);
    size_t large = (16 << 20) + 1;
    char *spaces = malloc(large);
    ck_assert_ptr_nonnull(spaces);
    memset(spaces, ' ', large);
    refused(spaces, large, KVA_BAD_INPUT, NULL, "longer than");
    free(spaces);
    const char *json = "{\"model_type\": \"llama\", \"num_hidden_layers\": 2, \"hidden_size\": 64}";
    struct kva_error error = {0};
    struct kva_model *model;
    for (size_t cut = 0; cut < strlen(json); cut++) {
        write_at(config, json, cut);
        ck_assert_int_eq(kva_model_open(atlas, config, NULL, &model, &error), KVA_BAD_INPUT);
    }
}
END_TEST

START_TEST(what_python_writes_is_read)
{
    // Nemotron-H's published file holds time_step_limit [0.0, Infinity]
    struct kva_model *model =
        open_text("{\"model_type\": \"llama\", \"dtype\": \"float32\", \"time_step_limit\": [0.0, Infinity, -Infinity, "
                  "NaN], \"big\": 123456789012345678901234567890, \"text\": \"a \\\" NaN\"}");
    ck_assert_uint_eq(model->n_warnings, 0);
    kva_model_close(model);
}
END_TEST

START_TEST(errors_are_one_line)
{
    struct kva_error error = {0};
    struct kva_model *model;
    const char *json = "{\"model_type\": \"a\\nb\\u001b[31m\"}";
    write_at(config, json, strlen(json));
    ck_assert_int_eq(kva_model_open(atlas, config, NULL, &model, &error), KVA_REFUSED);
    ck_assert_ptr_null(strpbrk(error.text, "\n\x1b"));
}
END_TEST

START_TEST(names_that_lead_nowhere)
{
    struct kva_error error = {0};
    struct kva_model *model;
    ck_assert_int_eq(kva_model_open(atlas, "nobody/nothing", NULL, &model, &error), KVA_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(error.text, "no file, no directory and no model of the catalogue"));
    ck_assert_int_eq(kva_model_open(atlas, "Microsoft/phi-4-mini-instruct", NULL, &model, &error), KVA_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(error.text, "did you mean microsoft/Phi-4-mini-instruct?"));
    ck_assert_int_eq(kva_model_open(atlas, "", NULL, &model, &error), KVA_BAD_INPUT);
    ck_assert_int_eq(kva_model_open(atlas, "../models/google/gemma-2-2b-it", NULL, &model, &error), KVA_BAD_INPUT);
    ck_assert_int_eq(kva_model_open(atlas, folder, NULL, &model, &error), KVA_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(error.text, "without a config.json"));
    ck_assert_int_eq(kva_model_open(atlas, "nobody/nothing", NULL, &model, NULL), KVA_BAD_INPUT);
    struct kva_atlas *other;
    ck_assert_int_eq(kva_atlas_open("/nowhere/at/all", &other, &error), KVA_BAD_INPUT);
}
END_TEST

START_TEST(patterns_fit_their_buffer)
{
    struct kva_model *model = open_text("{\"model_type\": \"gemma2\"}");
    char buffer[8] = "xxxxxxx";
    kva_model_pattern(model, buffer, 1);
    ck_assert_str_eq(buffer, "");
    kva_model_pattern(model, buffer, 6);
    ck_assert_str_eq(buffer, "S1 F1");
    ck_assert_int_eq(buffer[6], 'x');
    kva_model_close(model);
}
END_TEST

// ---------------------------------------------------------------- architecture files

#define TOY_HEAD "model_type: toy\narchitectures: [Toy]\nfamily: dense\nreferences: [toy]\n"
#define TOY_KEYS                                                                                                       \
    "keys:\n"                                                                                                          \
    "  - {name: layers, keys: [n], type: count, absent: 4}\n"                                                          \
    "  - {name: context, keys: [c], type: count, absent: 100}\n"                                                       \
    "  - {name: kv_heads, keys: [k], type: count, absent: 2}\n"                                                        \
    "  - {name: head_dim, keys: [d], type: count, absent: 8}\n"
#define TOY_KINDS                                                                                                      \
    "kinds:\n  - {name: full, mixer: attention, cache: full}\n  - {name: other, mixer: attention, cache: full, "       \
    "reads: i - 1}\n"
#define TOY_ROPE "rope: {none: true}\n"
#define TOY_RULES "rules:\n  - {kind: full}\n"

// Opens a toy model by this architecture file.
static enum kva_status open_toy(const char *yaml, struct kva_error *error)
{
    char path[160];
    const char references[] = "references:\n  - {id: toy, title: a toy, url: none, read: 2026-11-30}\n";
    struct kva_atlas *own;
    struct kva_model *model;
    snprintf(path, sizeof path, "%s/references.yaml", folder);
    write_at(path, references, strlen(references));
    snprintf(path, sizeof path, "%s/architectures", folder);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/architectures/toy.yaml", folder);
    write_at(path, yaml, strlen(yaml));
    write_at(config, "{\"model_type\": \"toy\"}", 21);
    memset(error, 0, sizeof *error);
    ck_assert_int_eq(kva_atlas_open(folder, &own, error), KVA_OK);
    enum kva_status status = kva_model_open(own, config, NULL, &model, error);
    kva_model_close(model);
    kva_atlas_close(own);
    return status;
}

static void breaks(const char *yaml, int line, const char *key, const char *says)
{
    struct kva_error error;
    ck_assert_msg(open_toy(yaml, &error) == KVA_BAD_INPUT, "accepted: %s", says);
    ck_assert_msg(strstr(error.text, says) != NULL, "%s: %s", error.key, error.text);
    ck_assert_msg(strcmp(error.key, key) == 0, "key %s: %s", error.key, error.text);
    if (line > 0) {
        ck_assert_int_eq(error.line, line);
        ck_assert_ptr_nonnull(strstr(error.file, "architectures/toy.yaml"));
    }
}

START_TEST(a_new_architecture_is_one_file)
{
    struct kva_error error;
    ck_assert_msg(open_toy(TOY_HEAD TOY_KEYS TOY_KINDS TOY_ROPE TOY_RULES, &error) == KVA_OK, "%s: %s", error.key,
                  error.text);
}
END_TEST

START_TEST(architecture_files_are_checked)
{
    breaks(TOY_HEAD "colour: red\n" TOY_KEYS TOY_KINDS TOY_ROPE TOY_RULES, 5, "colour", "Unexpected key");
    breaks("model_type: toy\narchitectures: []\nfamily: dense\n", 0, "references", "Missing required");
    breaks(TOY_HEAD TOY_KEYS TOY_KINDS TOY_ROPE "rules: 3\n", 14, "rules", "SEQUENCE");
    breaks(TOY_HEAD TOY_KEYS TOY_KINDS TOY_ROPE "rules:\n  - {kind: full, kind: full}\n", 15, "kind", "already seen");
    breaks(TOY_HEAD TOY_KEYS TOY_KINDS TOY_ROPE "rules:\n  - {kind: absent}\n", 15, "rules", "\"absent\"");
    breaks(TOY_HEAD TOY_KEYS "kinds:\n  - {name: full, mixer: wheel, cache: full}\n" TOY_ROPE TOY_RULES, 11, "mixer",
           "");
    breaks("model_type: toy\narchitectures: []\nfamily: dense\nreferences: [elsewhere]\n" TOY_KEYS TOY_KINDS TOY_ROPE
               TOY_RULES,
           4, "references", "\"elsewhere\"");
    breaks("model_type: toy\narchitectures: []\nfamily: dense\nreferences: []\n", 4, "references", "");
    breaks(
        "model_type: tox\narchitectures: []\nfamily: dense\nreferences: [toy]\n" TOY_KEYS TOY_KINDS TOY_ROPE TOY_RULES,
        1, "model_type", "\"tox\"");
    breaks(TOY_HEAD TOY_KINDS TOY_ROPE TOY_RULES, 0, "keys", "no count named \"layers\"");
    breaks(TOY_HEAD "a: &x 1\nb: *x\n", 0, "a", "Unexpected key");
    breaks(TOY_HEAD "keys: [\n", 0, "keys", "libyaml");
    breaks(TOY_HEAD TOY_KEYS TOY_KINDS TOY_ROPE "rules:\n  - {when: wheels > 2, kind: full}\n  - {kind: full}\n", 15,
           "wheels > 2", "\"wheels\"");
    breaks("", 0, "", "is empty");
    breaks(TOY_HEAD TOY_KEYS TOY_KINDS TOY_ROPE TOY_RULES
           "tensors:\n  - {role: embed, name: \"x{i}{i}\", shape: [1], class: a}\n",
           17, "name", "{i} once");
    breaks(TOY_HEAD TOY_KEYS TOY_KINDS TOY_ROPE TOY_RULES
           "tensors:\n  - {role: embed, name: \"x{i}{e}\", shape: [1], class: a}\n",
           17, "each", "go together");
    breaks(TOY_HEAD TOY_KEYS TOY_KINDS TOY_ROPE TOY_RULES
           "tensors:\n  - {role: embed, name: \"x{i}\", each: \"2\", shape: [1], class: a}\n",
           17, "each", "go together");
    breaks(TOY_HEAD TOY_KEYS TOY_KINDS TOY_ROPE TOY_RULES "tensors:\n  - {role: king, name: x, shape: [1], class: a}\n",
           17, "role", "");
    breaks(TOY_HEAD TOY_KEYS "  - {name: eps, keys: [e], type: real, absent: 1e-6}\n  - {name: act, keys: [a], type: "
                             "text, absent: silu}\n" TOY_KINDS TOY_ROPE TOY_RULES
                             "decoder: {norm: rms, norm_eps: eps, activation: act, prune_from: wheels}\n",
           0, "wheels", "\"wheels\"");
}
END_TEST

START_TEST(rules_that_go_wrong_at_run_time)
{
    struct kva_error error;
    // -1 is a layer's own cache; a chain of readers is no owner
    ck_assert_int_eq(open_toy(TOY_HEAD TOY_KEYS TOY_KINDS TOY_ROPE "rules:\n  - {kind: other}\n", &error),
                     KVA_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(error.text, "layer 2 reads layer 1"));
    ck_assert_int_eq(open_toy(TOY_HEAD TOY_KEYS TOY_KINDS TOY_ROPE
                              "rules:\n  - {when: i == 0, kind: full}\n  - {kind: other}\n",
                              &error),
                     KVA_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(error.text, "layer 2 reads layer 1"));
    ck_assert_int_eq(open_toy(TOY_HEAD TOY_KEYS TOY_KINDS TOY_ROPE "rules:\n  - {when: i < 2, kind: full}\n", &error),
                     KVA_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(error.text, "layer 2 no kind"));
    ck_assert_int_eq(
        open_toy(TOY_HEAD TOY_KEYS TOY_KINDS TOY_ROPE "rules:\n  - {when: i < many, kind: full}\n", &error),
        KVA_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(error.text, "\"many\""));
}
END_TEST

int main(void)
{
    if (kva_atlas_open(NULL, &atlas, NULL) != KVA_OK)
        return 1;
    Suite *suite = suite_create("model");
    TCase *tests = tcase_create("model");
    suite_add_tcase(suite, tests);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, phi_4_mini_has_a_window_that_never_binds);
    tcase_add_test(tests, phi_3_mini_4k_has_a_window_of_2047_everywhere);
    tcase_add_test(tests, phi_4_mini_flash_shares_one_full_cache);
    tcase_add_test(tests, sparse_gemma_3_files_mean_the_class_defaults);
    tcase_add_test(tests, every_catalogue_model_opens);
    tcase_add_test(tests, class_defaults);
    tcase_add_test(tests, rules_of_the_families);
    tcase_add_test(tests, absent_is_not_null);
    tcase_add_test(tests, a_window_that_is_switched_off_is_kept_and_inert);
    tcase_add_test(tests, dtype_keys);
    tcase_add_test(tests, keys_that_nobody_reads_are_warned_about);
    tcase_add_test(tests, many_strange_keys_push_no_warning_out);
    tcase_add_test(tests, unknown_architectures_are_refused);
    tcase_add_test(tests, rope_parameters_old_and_new);
    tcase_add_test(tests, rope_that_cannot_be_right);
    tcase_add_test(tests, values_of_the_wrong_kind);
    tcase_add_test(tests, numbers_that_multiply_beyond_64_bits);
    tcase_add_test(tests, lists_of_layers_are_checked);
    tcase_add_test(tests, phi4flash_insists);
    tcase_add_test(tests, files_that_are_not_configs);
    tcase_add_test(tests, what_python_writes_is_read);
    tcase_add_test(tests, errors_are_one_line);
    tcase_add_test(tests, names_that_lead_nowhere);
    tcase_add_test(tests, patterns_fit_their_buffer);
    tcase_add_test(tests, a_new_architecture_is_one_file);
    tcase_add_test(tests, architecture_files_are_checked);
    tcase_add_test(tests, rules_that_go_wrong_at_run_time);
    const int status = unit_run(suite);
    kva_atlas_close(atlas);
    return status;
}
