// The rules of data/architectures: which layer caches what. References: tests/data/golden-patterns.json, patterns that
// the configuration classes of Transformers make of their own defaults (executed), and check vectors: those classes
// with other keys, executed. Letters there: L a state of any kind (R or V here), D latent and index (I here); layers
// that share have the letter of their kind there and X here.
#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/arch.h"
#include "unit.h"

static struct kva_atlas *atlas;

static struct kva_model *open_assuming(const char *json, const char *const *assume, size_t n_assume)
{
    struct kva_error error = {0};
    struct kva_model *model = NULL;
    const struct kva_model_options options = {.assume = assume, .n_assume = n_assume};
    enum kva_status status = kva_model_from_json(atlas, json, strlen(json), "test", &options, &model, &error);
    ck_assert_msg(status == KVA_OK, "%s: %s: %s: %s", json, error.file, error.key, error.text);
    return model;
}

static struct kva_model *open_text(const char *json)
{
    return open_assuming(json, NULL, 0);
}

static void refuses(const char *json, const char *const *assume, size_t n_assume, enum kva_status expected,
                    const char *says)
{
    struct kva_error error = {0};
    struct kva_model *model = NULL;
    const struct kva_model_options options = {.assume = assume, .n_assume = n_assume};
    enum kva_status status = kva_model_from_json(atlas, json, strlen(json), "test", &options, &model, &error);
    ck_assert_msg(status == expected, "%s: status %d: %s", json, status, error.text);
    ck_assert_msg(strstr(error.text, says) != NULL, "%s: %s", json, error.text);
}

// A class calls a layer sliding also where its window is not less than the context limit. That is inert and F here, so
// for a comparison with classes it is S again.
static bool is_inert_sliding(const struct kva_layer *layer)
{
    return layer->n_caches > 0 && layer->caches[0].reads_layer < 0 && layer->caches[0].window_inert &&
           strcmp(layer->kind, "sliding") == 0;
}

// "S2 c k c k" becomes "SSckck".
static void expand(const char *pattern, char *letters)
{
    while (*pattern != '\0') {
        char letter = *pattern++, *end;
        unsigned long run = strtoul(pattern, &end, 10);
        for (unsigned long r = 0; r < (end == pattern ? 1 : run); r++)
            *letters++ = letter;
        pattern = end + strspn(end, " ");
    }
    *letters = '\0';
}

static void letters_of(const struct kva_model *model, char *letters)
{
    char pattern[4096];
    expand(kva_model_pattern(model, pattern, sizeof pattern), letters);
    ck_assert_uint_eq(strlen(letters), model->n_layers);
    for (size_t i = 0; i < model->n_layers; i++)
        if (is_inert_sliding(&model->layers[i]))
            letters[i] = 'S';
}

static bool same_letter(char golden, char ours)
{
    return ours == golden || (golden == 'L' && (ours == 'R' || ours == 'V')) || (golden == 'D' && ours == 'I') ||
           ours == 'X';
}

static void has_letters(const char *json, const char *pattern)
{
    char letters[KVA_MAX_LAYERS + 1], expected[KVA_MAX_LAYERS + 1];
    struct kva_model *model = open_text(json);
    letters_of(model, letters);
    expand(pattern, expected);
    ck_assert_msg(strlen(letters) == strlen(expected), "%s: %s", json, letters);
    for (size_t i = 0; expected[i] != '\0'; i++)
        ck_assert_msg(expected[i] == letters[i], "%s: layer %zu is %c: %s", json, i, letters[i], letters);
    kva_model_close(model);
}

START_TEST(every_class_default_is_reproduced)
{
    char json[256], letters[KVA_MAX_LAYERS + 1];
    json_t *golden = json_load_file(TEST_DATA "/golden-patterns.json", 0, NULL), *value;
    const char *model_type;
    size_t n = 0;
    ck_assert_ptr_nonnull(golden);
    json_object_foreach(golden, model_type, value)
    {
        const struct kva_arch *arch;
        ck_assert_int_eq(kva_arch_get(atlas, model_type, &arch, NULL), KVA_OK);
        if (arch == NULL)
            continue;
        // the class names its attention layers full and gives them a window by another key (attention_window_size)
        const bool windowed = strcmp(model_type, "recurrent_gemma") == 0;
        const char *expected = json_string_value(value);
        snprintf(json, sizeof json, "{\"model_type\": \"%s\"}", model_type);
        struct kva_model *model = open_text(json);
        letters_of(model, letters);
        ck_assert_msg(strlen(letters) == strlen(expected), "%s: %s", model_type, letters);
        for (size_t i = 0; expected[i] != '\0'; i++)
            ck_assert_msg(same_letter(expected[i], letters[i]) || (windowed && expected[i] == 'F' && letters[i] == 'S'),
                          "%s: layer %zu is %c, %c was expected: %s", model_type, i, letters[i], expected[i], letters);
        kva_model_close(model);
        n++;
    }
    ck_assert_uint_eq(n, json_object_size(golden));
    json_decref(golden);
}
END_TEST

// ---------------------------------------------------------------- section F

#define JSON(text) "{" text "}"
#define TYPE(name) "\"model_type\": \"" name "\""

START_TEST(check_vectors_of_windows)
{
    has_letters(
        JSON(TYPE("qwen2") ", \"use_sliding_window\": true, \"num_hidden_layers\": 32, \"max_window_layers\": 28"),
        "F28 S4");
    has_letters(JSON(TYPE("qwen2_moe") ", \"use_sliding_window\": true, \"num_hidden_layers\": 24, "
                                       "\"max_window_layers\": 20"),
                "S F S F S F S F S F S F S F S F S F S F5");
    has_letters(JSON(TYPE("cohere2_moe") ", \"first_k_dense_replace\": 3, \"num_hidden_layers\": 12"),
                "F3 S3 F1 S3 F1 S1");
    has_letters(JSON(TYPE("cohere2_moe") ", \"first_k_dense_replace\": 3, \"num_hidden_layers\": 12, "
                                         "\"prefix_dense_sliding_window_pattern\": 2"),
                "S1 F1 S4 F1 S3 F1 S1");
    has_letters(JSON(TYPE("gemma3_text") ", \"sliding_window_pattern\": 4, \"num_hidden_layers\": 10"),
                "S3 F1 S3 F1 S2");
    struct kva_model *model =
        open_text(JSON(TYPE("gemma3_text") ", \"use_bidirectional_attention\": true, \"sliding_window\": 512"));
    ck_assert_uint_eq(model->layers[0].caches[0].window, 257);
    kva_model_close(model);
    has_letters(JSON(TYPE("llama4_text") ", \"no_rope_layers\": [], \"num_hidden_layers\": 8"), "C3 F C3 F");
    has_letters(
        JSON(TYPE("smollm3") ", \"use_sliding_window\": true, \"sliding_window\": 4096, \"num_hidden_layers\": 8"),
        "F3 S F3 S");
    has_letters(JSON(TYPE("step3p5") ", \"num_hidden_layers\": 4, \"num_nextn_predict_layers\": 1, \"layer_types\": "
                                     "[\"full_attention\", \"sliding_attention\", \"sliding_attention\", "
                                     "\"sliding_attention\", \"full_attention\"]"),
                "F S3");
}
END_TEST

START_TEST(check_vectors_of_gemma_4)
{
    struct kva_model *model =
        open_text(JSON(TYPE("gemma4_text") ", \"num_hidden_layers\": 35, \"num_kv_shared_layers\": 20"));
    char pattern[256];
    ck_assert_str_eq(kva_model_pattern(model, pattern, sizeof pattern), "S5 F1 S5 F1 S3 X20");
    // kinds: S5 F1 five times, then S4 F1, the last layer forced full; the owners are the last of each kind before 15
    for (size_t i = 0; i < 35; i++) {
        const bool full = (i + 1) % 6 == 0 || i == 34;
        ck_assert_str_eq(model->layers[i].kind, full ? "full" : "sliding");
        ck_assert_int_eq(model->layers[i].caches[0].reads_layer, i < 15 ? -1 : full ? 11 : 14);
        ck_assert_uint_eq(model->layers[i].caches[0].k_dim, full ? 512 : 256);
    }
    kva_model_close(model);
    model = open_text(JSON(TYPE("gemma4_text") ", \"num_hidden_layers\": 6, \"attention_k_eq_v\": true, "
                                               "\"num_global_key_value_heads\": 2"));
    ck_assert_uint_eq(model->layers[5].caches[0].k_dim, 512);
    ck_assert_uint_eq(model->layers[5].caches[0].v_dim, 512);
    ck_assert_uint_eq(model->layers[5].caches[0].kv_heads, 2);
    ck_assert_uint_eq(model->layers[0].caches[0].kv_heads, 4);
    kva_model_close(model);
    // what a config saved since Transformers 5.15 says of each layer replaces the global_ keys
    model = open_text(JSON(TYPE("gemma4_text") ", \"num_hidden_layers\": 6, \"attention_k_eq_v\": true, "
                                               "\"num_global_key_value_heads\": 2, \"per_layer_config\": "
                                               "{\"05\": {\"head_dim\": 384}}"));
    ck_assert_uint_eq(model->layers[5].caches[0].k_dim, 384);
    ck_assert_uint_eq(model->layers[5].caches[0].kv_heads, 4);
    ck_assert_uint_eq(model->layers[4].caches[0].k_dim, 256);
    kva_model_close(model);
    // an assistant owns nothing
    model = open_text(
        JSON(TYPE("gemma4_assistant") ", \"text_config\": {" TYPE("gemma4_text") ", "
                                                                                 "\"num_hidden_layers\": 4}"));
    ck_assert_str_eq(kva_model_pattern(model, pattern, sizeof pattern), "X4");
    ck_assert_uint_eq(model->layers[0].n_caches, 0);
    kva_model_close(model);
}
END_TEST

START_TEST(check_vectors_of_latents)
{
    has_letters(JSON(TYPE("glm_moe_dsa") ", \"index_topk_freq\": 4, \"num_hidden_layers\": 12"), "I2 M3 I M3 I M2");
    has_letters(JSON(TYPE("glm_moe_dsa") ", \"index_topk_pattern\": \"FSSF\", \"num_hidden_layers\": 4"), "I M2 I");
    has_letters(JSON(TYPE("deepseek_v4") ", \"num_hidden_layers\": 6, \"compress_ratios\": [0, 0, 4, 128, 4, 128, 0]"),
                "S2 c k c k");
    struct kva_model *model = open_text(JSON(TYPE("deepseek_v3")));
    ck_assert_uint_eq(model->layers[60].caches[0].k_dim, 576);
    ck_assert_uint_eq(model->layers[60].caches[0].v_dim, 0);
    ck_assert_uint_eq(model->layers[60].caches[0].kv_heads, 1);
    kva_model_close(model);
}
END_TEST

START_TEST(check_vectors_of_states)
{
    has_letters(JSON(TYPE("nemotron_h") ", \"hybrid_override_pattern\": \"M-M*-ME\""), "R - R F - R -");
    has_letters(JSON(TYPE("bamba") ", \"attn_layer_indices\": [9, 18], \"num_hidden_layers\": 20"), "R9 F R8 F R1");
    has_letters(JSON(TYPE("lfm2") ", \"full_attn_idxs\": [2, 5], \"num_hidden_layers\": 6"), "V2 F V2 F");
    // the attention layers of recurrent_gemma have a window, which the class does not call so
    has_letters(JSON(TYPE("recurrent_gemma") ", \"num_hidden_layers\": 7"), "R2 S R2 S R1");
}
END_TEST

// ---------------------------------------------------------------- the engine of the rules

START_TEST(lists_that_count_from_one)
{
    // Kimi-K3: 93 layers, latent at 4, 8, .. 92 and 93 counted from 1 (architectures.yaml)
    char json[1024] = JSON(TYPE("kimi_linear")), list[512] = "";
    size_t used = 0;
    for (int i = 4; i <= 92; i += 4)
        used += (size_t)snprintf(list + used, sizeof list - used, "%d, ", i);
    snprintf(json, sizeof json,
             "{" TYPE("kimi_linear") ", \"num_hidden_layers\": 93, \"linear_attn_config\": {\"full_attn_layers\": "
                                     "[%s93], \"num_heads\": 96, \"head_dim\": 128, \"short_conv_kernel_size\": 4}}",
             list);
    struct kva_model *model = open_text(json);
    size_t latent = 0, states = 0;
    for (size_t i = 0; i < model->n_layers; i++) {
        latent += model->layers[i].caches[0].kind == KVA_CACHE_LATENT;
        states += model->layers[i].caches[0].kind == KVA_CACHE_STATE;
    }
    ck_assert_uint_eq(latent, 24);
    ck_assert_uint_eq(states, 69);
    ck_assert_int_eq(model->layers[3].caches[0].kind, KVA_CACHE_LATENT);
    // 96 heads x 128 x 128 in float32 and 3 columns of 36,864 in bf16
    uint64_t bytes;
    ck_assert_int_eq(kva_need_bytes(&model->layers[0].caches[0], 1, KVA_BF16, KVA_BF16, &bytes, NULL), KVA_OK);
    ck_assert_uint_eq(bytes, 96 * 128 * 128 * 4 + 3 * 36864 * 2);
    kva_model_close(model);
}
END_TEST

START_TEST(two_caches_in_a_layer)
{
    struct kva_model *model = open_text(JSON(TYPE("falcon_h1") ", \"num_hidden_layers\": 2"));
    ck_assert_uint_eq(model->layers[0].n_caches, 2);
    ck_assert_int_eq(model->layers[0].caches[0].kind, KVA_CACHE_FULL);
    ck_assert_int_eq(model->layers[0].caches[1].kind, KVA_CACHE_STATE);
    // d_ssm 1024, one group, N 256, K 4
    ck_assert_uint_eq(model->layers[0].caches[1].state[0].elements, 3 * (1024 + 2 * 256));
    ck_assert_uint_eq(model->layers[0].caches[1].state[1].elements, 1024 * 256);
    kva_model_close(model);
    model = open_text(JSON(TYPE("iquestloopcoder") ", \"num_hidden_layers\": 2, \"hidden_size\": 256, "
                                                   "\"num_attention_heads\": 4, \"max_position_embeddings\": 4096"));
    ck_assert_uint_eq(model->layers[1].n_caches, 2);
    ck_assert_int_eq(model->layers[1].caches[1].kind, KVA_CACHE_SLIDING);
    ck_assert_uint_eq(model->layers[1].caches[1].window, 64);
    kva_model_close(model);
}
END_TEST

START_TEST(compressed_rows)
{
    struct kva_model *model = open_text(JSON(TYPE("deepseek_v4")));
    const struct kva_layer *hca = &model->layers[0], *csa = &model->layers[3];
    uint64_t bytes;
    ck_assert_uint_eq(hca->n_caches, 3);
    ck_assert_uint_eq(csa->n_caches, 4);
    // one head of 512 that is key and value, 128 tokens of it
    ck_assert_int_eq(kva_need_bytes(&hca->caches[0], 131072, KVA_BF16, KVA_BF16, &bytes, NULL), KVA_OK);
    ck_assert_uint_eq(bytes, 128 * 512 * 2);
    // one row for every whole 128 tokens, or every whole 4
    ck_assert_int_eq(kva_need_bytes(&hca->caches[1], 131072 + 127, KVA_BF16, KVA_BF16, &bytes, NULL), KVA_OK);
    ck_assert_uint_eq(bytes, 1024 * 512 * 2);
    ck_assert_int_eq(kva_need_bytes(&csa->caches[1], 4098, KVA_BF16, KVA_BF16, &bytes, NULL), KVA_OK);
    ck_assert_uint_eq(bytes, 1024 * 512 * 2);
    ck_assert_int_eq(kva_need_bytes(&csa->caches[2], 3, KVA_BF16, KVA_BF16, &bytes, NULL), KVA_OK);
    ck_assert_uint_eq(bytes, 0);
    kva_model_close(model);
}
END_TEST

START_TEST(sharing_in_groups)
{
    const char *hunyuan = JSON(TYPE("hunyuan") ", \"num_hidden_layers\": 5, \"hidden_size\": 512, "
                                               "\"num_attention_heads\": 4, \"use_cla\": true");
    has_letters(hunyuan, "F X F X F");
    struct kva_model *model = open_text(hunyuan);
    ck_assert_int_eq(model->layers[3].caches[0].reads_layer, 2);
    kva_model_close(model);
    has_letters(JSON(TYPE("hunyuan") ", \"num_hidden_layers\": 3, \"hidden_size\": 512, \"num_attention_heads\": 4, "
                                     "\"use_cla\": false, \"cla_share_factor\": 2"),
                "F3");
    has_letters(JSON(TYPE("afm7") ", \"num_layers\": 5, \"hidden_dim\": 512, \"num_heads\": 4, \"num_kv_heads\": 2, "
                                  "\"num_kv_reuse_layers\": 2"),
                "F3 X2");
}
END_TEST

START_TEST(looped_layers)
{
    has_letters(JSON(TYPE("hrm_text") ", \"num_hidden_layers\": 2, \"H_cycles\": 2, \"L_cycles\": 3"), "F16");
    has_letters(JSON(TYPE("hrm_text") ", \"num_hidden_layers\": 16, \"num_layers_per_stack\": 2, \"H_cycles\": 2, "
                                      "\"L_cycles\": 3"),
                "F16");
}
END_TEST

START_TEST(letters_and_numbers_in_one_key)
{
    // EXAONE 4: a number, or the letters of a tile; no window, no sliding layer
    has_letters(JSON(TYPE("exaone4") ", \"num_hidden_layers\": 8"), "S3 F S3 F");
    has_letters(JSON(TYPE("exaone4") ", \"num_hidden_layers\": 8, \"sliding_window_pattern\": \"LLG\""),
                "S2 F S2 F S2");
    has_letters(JSON(TYPE("exaone4") ", \"num_hidden_layers\": 8, \"sliding_window\": null"), "F8");
}
END_TEST

START_TEST(layers_of_multi_token_prediction)
{
    static const char *const ON[] = {"mtp=on"}, *const MAYBE[] = {"mtp=maybe"};
    const char *json = JSON(TYPE("glm_moe_dsa") ", \"num_hidden_layers\": 3, \"num_nextn_predict_layers\": 2");
    struct kva_model *model = open_text(json);
    ck_assert_uint_eq(model->n_layers, 3);
    ck_assert_uint_eq(model->mtp_layers, 2);
    kva_model_close(model);
    model = open_assuming(json, ON, 1);
    ck_assert_uint_eq(model->n_layers, 5);
    kva_model_close(model);
    refuses(json, MAYBE, 1, KVA_BAD_INPUT, "mtp=on");
}
END_TEST

START_TEST(assumptions)
{
    static const char *const HEADS[] = {"num_key_value_heads=2", "head_dim=64"}, *const WORD[] = {"kv_heads=2"};
    static const char *const FAMILY[] = {"family=llama"}, *const UNKNOWN[] = {"family=nobody"};
    static const char *const IDLE[] = {"num_key_value_headz=2"}, *const BARE[] = {"heads"};
    static const char *const LIST[] = {"layer_types=[\"full_attention\", \"sliding_attention\"]"};
    const char *json = JSON(TYPE("llama") ", \"num_key_value_heads\": 8");
    struct kva_model *model = open_assuming(json, HEADS, 2);
    ck_assert_uint_eq(model->layers[0].caches[0].kv_heads, 2);
    ck_assert_uint_eq(model->layers[0].caches[0].k_dim, 64);
    ck_assert_int_eq(kva_model_value(model, "kv_heads")->source, KVA_FROM_PERSON);
    kva_model_close(model);
    model = open_assuming(json, WORD, 1);
    ck_assert_uint_eq(model->layers[0].caches[0].kv_heads, 2);
    kva_model_close(model);
    model = open_assuming(JSON(TYPE("novel") ", \"num_key_value_heads\": 8"), FAMILY, 1);
    ck_assert_str_eq(model->arch->model_type, "llama");
    ck_assert_uint_eq(model->layers[0].caches[0].kv_heads, 8);
    kva_model_close(model);
    model = open_assuming(JSON(TYPE("gemma2") ", \"num_hidden_layers\": 2"), LIST, 1);
    ck_assert_int_eq(model->layers[0].caches[0].kind, KVA_CACHE_FULL);
    kva_model_close(model);
    refuses(JSON(TYPE("novel")), NULL, 0, KVA_REFUSED, "not known");
    refuses(json, UNKNOWN, 1, KVA_REFUSED, "nobody");
    refuses(json, IDLE, 1, KVA_BAD_INPUT, "decides nothing");
    refuses(json, BARE, 1, KVA_BAD_INPUT, "KEY=VALUE");
}
END_TEST

START_TEST(configs_that_nest_and_configs_that_do_not)
{
    has_letters(JSON(TYPE("glm5_next") ", \"text_config\": {\"num_hidden_layers\": 4}"), "R3 I");
    has_letters(JSON(TYPE("glm5_next") ", \"num_hidden_layers\": 5"), "R3 I R");
    has_letters(JSON(TYPE("kimi_k25") ", \"text_config\": {" TYPE("kimi_k2") ", \"num_hidden_layers\": 2}"), "M2");
}
END_TEST

START_TEST(wrong_lists_say_why)
{
    refuses(JSON(TYPE("deepseek_v4") ", \"num_hidden_layers\": 2, \"compress_ratios\": [0, 5]"), NULL, 0, KVA_BAD_INPUT,
            "0, 4 and 128");
    refuses(JSON(TYPE("deepseek_v4") ", \"num_hidden_layers\": 2, \"compress_ratios\": [0]"), NULL, 0, KVA_BAD_INPUT,
            "no entry 1");
    refuses(JSON(TYPE("bamba") ", \"attn_layer_indices\": 7"), NULL, 0, KVA_BAD_INPUT, "a list");
    refuses(JSON(TYPE("granitemoehybrid") ", \"num_hidden_layers\": 1, \"layers_block_type\": [\"m\"]"), NULL, 0,
            KVA_BAD_INPUT, "\"m\"");
    refuses(JSON(TYPE("deepseek_v4") ", \"num_hidden_layers\": 1000000000"), NULL, 0, KVA_BAD_INPUT, "at most");
}
END_TEST

int main(void)
{
    struct kva_error error;
    if (kva_atlas_open(NULL, &atlas, &error) != KVA_OK)
        return 1;
    Suite *suite = suite_create("rules");
    TCase *tests = tcase_create("rules");
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, every_class_default_is_reproduced);
    tcase_add_test(tests, check_vectors_of_windows);
    tcase_add_test(tests, check_vectors_of_gemma_4);
    tcase_add_test(tests, check_vectors_of_latents);
    tcase_add_test(tests, check_vectors_of_states);
    tcase_add_test(tests, lists_that_count_from_one);
    tcase_add_test(tests, two_caches_in_a_layer);
    tcase_add_test(tests, compressed_rows);
    tcase_add_test(tests, sharing_in_groups);
    tcase_add_test(tests, looped_layers);
    tcase_add_test(tests, letters_and_numbers_in_one_key);
    tcase_add_test(tests, layers_of_multi_token_prediction);
    tcase_add_test(tests, assumptions);
    tcase_add_test(tests, configs_that_nest_and_configs_that_do_not);
    tcase_add_test(tests, wrong_lists_say_why);
    const int status = unit_run(suite);
    kva_atlas_close(atlas);
    return status;
}
