// The tensors an architecture file lists are the tensors of real checkpoints. Reference: the tiny models of
// tests/data/hf-tiny, written by Transformers 5.17 (sambay-8: the published Phi-4-mini-flash code), and the index file
// of the published Phi-4-mini-flash-reasoning. weights.jsonl: how many parameters Transformers' own classes have,
// and MLX-LM's where Transformers has none (tests/reference/make_weights.py).
#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/arch.h"
#include "model/safetensors.h"
#include "unit.h"

#ifndef TEST_DATA
#define TEST_DATA "tests/data"
#endif

static struct kva_atlas *atlas;

static const char *data(const char *name, char *buffer)
{
    snprintf(buffer, 4096, TEST_DATA "/%s", name);
    return buffer;
}

static void holds_exactly(const char *name)
{
    char path[4096], folder[512];
    snprintf(folder, sizeof folder, "hf-tiny/%s", name);
    struct kva_model *model = unit_open(atlas, data(folder, path), NULL);
    struct kva_safetensors *checkpoint;
    ck_assert_int_eq(kva_safetensors_open(path, true, &checkpoint, NULL), KVA_OK);
    ck_assert_msg(model->n_tensors == kva_safetensors_count(checkpoint), "%s: %zu listed, %zu in the file", name,
                  model->n_tensors, kva_safetensors_count(checkpoint));
    uint64_t bytes = 0;
    for (size_t i = 0; i < model->n_tensors; i++) {
        const struct kva_tensor *listed = &model->tensors[i];
        const struct kva_st_tensor *held = kva_safetensors_find(checkpoint, listed->name);
        ck_assert_msg(held != NULL, "%s: %s is not in the file", name, listed->name);
        ck_assert_msg(listed->n_dims == held->n_dims, "%s: %s has %u dimensions", name, listed->name, held->n_dims);
        for (uint32_t d = 0; d < held->n_dims; d++)
            ck_assert_msg(listed->dims[d] == held->dims[d], "%s: %s: dimension %u", name, listed->name, d);
        ck_assert_msg(listed->dtype == held->dtype && listed->bytes == held->bytes, "%s: %s: bytes", name,
                      listed->name);
        bytes += held->bytes;
    }
    ck_assert_uint_eq(model->weight_bytes, bytes);
    ck_assert_str_eq(model->weight_source, "safetensors headers");
    uint64_t by_class = 0, tensors = 0;
    for (size_t i = 0; i < model->n_weight_classes; i++) {
        ck_assert_str_ne(model->weight_classes[i].name, "other");
        by_class += model->weight_classes[i].bytes;
        tensors += model->weight_classes[i].tensors;
    }
    ck_assert_uint_eq(by_class, bytes);
    ck_assert_uint_eq(tensors, model->n_tensors);
    ck_assert_uint_eq(model->n_warnings, 0);
    kva_safetensors_close(checkpoint);
    kva_model_close(model);
}

START_TEST(every_tensor_of_a_checkpoint_is_listed_and_no_other)
{
    static const char *const NAMES[] = {
        "llama",  "llama-rope3", "llama-tied-mha",     "qwen2",        "qwen3",   "gemma2", "phi3-window",
        "gemma3", "gpt-oss",     "phi4-mini-longrope", "mistral-full", "sambay-8"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        holds_exactly(NAMES[i]);
}
END_TEST

static uint64_t weight_bytes(const char *name)
{
    struct kva_model *model = unit_open(atlas, name, NULL);
    uint64_t bytes = model->weight_bytes;
    ck_assert_str_eq(model->weight_source, "config");
    kva_model_close(model);
    return bytes;
}

static uint64_t weight_bytes_of(const char *name)
{
    struct kva_model *model = unit_open(atlas, name, NULL);
    uint64_t bytes = model->weight_bytes;
    kva_model_close(model);
    return bytes;
}

START_TEST(published_weights_to_the_byte)
{
    // microsoft/Phi-4-mini-instruct, model.safetensors.index.json: total_size
    ck_assert_uint_eq(weight_bytes("microsoft/Phi-4-mini-instruct"), 7672043520);
    // microsoft/Phi-4-mini-flash-reasoning, model.safetensors.index.json: total_size
    ck_assert_uint_eq(weight_bytes("microsoft/Phi-4-mini-flash-reasoning"), 7706608640);
    // microsoft/phi-2, model.safetensors.index.json: total_size
    ck_assert_uint_eq(weight_bytes("microsoft/phi-2"), 5559367680);
    // meta-llama/Llama-3.1-8B: 8,030,261,248 parameters by its model card
    ck_assert_uint_eq(weight_bytes("meta-llama/Llama-3.1-8B-Instruct"), 2 * 8030261248);
}
END_TEST

// ---------------------------------------------------------------- quantized

#define LLAMA_8B                                                                                                       \
    "{\"model_type\": \"llama\", \"hidden_size\": 4096, \"num_hidden_layers\": 32, \"num_attention_heads\": 32, "      \
    "\"num_key_value_heads\": 8, \"intermediate_size\": 14336, \"vocab_size\": 128256, \"torch_dtype\": "              \
    "\"bfloat16\", "                                                                                                   \
    "\"max_position_embeddings\": 131072, \"tie_word_embeddings\": false, \"quantization_config\": "
#define LLAMA_70B                                                                                                      \
    "{\"model_type\": \"llama\", \"hidden_size\": 8192, \"num_hidden_layers\": 80, \"num_attention_heads\": 64, "      \
    "\"num_key_value_heads\": 8, \"intermediate_size\": 28672, \"vocab_size\": 128256, \"torch_dtype\": "              \
    "\"bfloat16\", "                                                                                                   \
    "\"max_position_embeddings\": 131072, \"tie_word_embeddings\": false, \"quantization_config\": "
#define QWEN3_32B                                                                                                      \
    "{\"model_type\": \"qwen3\", \"hidden_size\": 5120, \"num_hidden_layers\": 64, \"num_attention_heads\": 64, "      \
    "\"num_key_value_heads\": 8, \"head_dim\": 128, \"intermediate_size\": 25600, \"vocab_size\": 151936, "            \
    "\"torch_dtype\": \"bfloat16\", \"max_position_embeddings\": 40960, \"tie_word_embeddings\": false, "              \
    "\"quantization_config\": "
#define GROUP(weights) "\"config_groups\": {\"group_0\": {\"targets\": [\"Linear\"], \"weights\": {" weights "}}}}}"

// What a config with this quantization_config weighs; without its tensors the same.
static uint64_t quantized_bytes(const char *config)
{
    const struct kva_model_options lean = {.no_tensors = true};
    struct kva_model *model, *counted;
    struct kva_error error = {0};
    ck_assert_msg(kva_model_from_json(atlas, config, strlen(config), "q", NULL, &model, &error) == KVA_OK, "%s",
                  error.text);
    ck_assert_int_eq(kva_model_from_json(atlas, config, strlen(config), "q", &lean, &counted, &error), KVA_OK);
    const uint64_t bytes = model->weight_bytes;
    ck_assert_uint_eq(counted->weight_bytes, bytes);
    if (bytes != KVA_UNKNOWN)
        ck_assert_int_eq(strncmp(model->weight_source, "config, weights in ", 19), 0);
    kva_model_close(counted);
    kva_model_close(model);
    return bytes;
}

START_TEST(published_quantized_weights_to_the_byte)
{
    // openai/gpt-oss-20b, model.safetensors.index.json: total_size
    ck_assert_uint_eq(weight_bytes_of("openai/gpt-oss-20b"), UINT64_C(13761264768));
    // openai/gpt-oss-120b: the sum of its tensors
    ck_assert_uint_eq(weight_bytes_of("openai/gpt-oss-120b"), UINT64_C(65248815744));
    // RedHatAI, Llama-3.1-8B FP8-dynamic: 9,083,953,152 bytes in its safetensors headers
    ck_assert_uint_eq(quantized_bytes(LLAMA_8B "{\"quant_method\": \"compressed-tensors\", \"format\": "
                                               "\"float-quantized\", \"ignore\": [\"lm_head\"], " GROUP(
                                                   "\"num_bits\": 8, \"type\": \"float\", \"strategy\": \"channel\"")),
                      UINT64_C(9083953152));
    // RedHatAI, Llama-3.3-70B w4a16: 39,525,311,232 bytes in its safetensors headers
    ck_assert_uint_eq(
        quantized_bytes(
            LLAMA_70B "{\"quant_method\": \"compressed-tensors\", \"format\": \"pack-quantized\", "
                      "\"ignore\": [\"lm_head\"], " GROUP("\"num_bits\": 4, \"group_size\": 128, \"symmetric\": true, "
                                                          "\"actorder\": \"group\"")),
        UINT64_C(39525311232));
    // nvidia/Llama-3.3-70B-Instruct-FP4: 42,709,045,632 bytes in its safetensors headers
    ck_assert_uint_eq(
        quantized_bytes(LLAMA_70B
                        "{\"quant_method\": \"modelopt\", \"quant_algo\": \"NVFP4\", \"ignore\": [\"lm_head\"]}}"),
        UINT64_C(42709045632));
}
END_TEST

// deepseek-ai/DeepSeek-V3 with its layer of multi-token prediction: the hub counts 680,571,043,840 elements of fp8,
// 3,918,786,560 of bf16, and 41,555,600 of float32, of which 15,104 are biases of routers and the others scales.
START_TEST(every_tensor_of_deepseek_v3_is_counted)
{
    static const char *const MTP[] = {"mtp=on"};
    const struct kva_model_options options = {.assume = MTP, .n_assume = 1},
                                   lean = {.assume = MTP, .n_assume = 1, .no_tensors = true};
    struct kva_model *model = unit_open(atlas, "deepseek-ai/DeepSeek-V3", &options);
    ck_assert_uint_eq(model->parameters, UINT64_C(680571043840) + UINT64_C(3918786560) + 15104);
    ck_assert_uint_eq(model->weight_bytes, UINT64_C(680571043840) + 2 * UINT64_C(3918786560) + 4 * UINT64_C(41555600));
    kva_model_close(model);
    model = unit_open(atlas, "deepseek-ai/DeepSeek-V3", &lean);
    ck_assert_uint_eq(model->parameters, UINT64_C(680571043840) + UINT64_C(3918786560) + 15104);
    kva_model_close(model);
    // mistralai/Mixtral-8x7B-v0.1, model.safetensors.index.json: total_size
    ck_assert_uint_eq(weight_bytes_of("mistralai/Mixtral-8x7B-v0.1"), UINT64_C(93405585408));
}
END_TEST

// With their layer of multi-token prediction, as the hub counts them.
START_TEST(published_parameters_with_multi_token_prediction)
{
    static const char *const MTP[] = {"mtp=on"};
    static const struct {
        const char *name;
        uint64_t parameters;
    } MODELS[] = {{"zai-org/GLM-4.5", 358337791296}, {"zai-org/GLM-5", 753864139008}};
    const struct kva_model_options options = {.assume = MTP, .n_assume = 1};
    for (size_t i = 0; i < sizeof MODELS / sizeof *MODELS; i++) {
        struct kva_model *model = unit_open(atlas, MODELS[i].name, &options);
        ck_assert_uint_eq(model->parameters, MODELS[i].parameters);
        kva_model_close(model);
    }
}
END_TEST

START_TEST(published_quantized_weights_nearly)
{
    // Qwen/Qwen3-32B-FP8: 31,205,621,760 elements of fp8 and 1,558,406,144 of bf16, the scales of 128 x 128 blocks
    // among them; here these are float32, as engines hold them: 2 bytes more for each of 1,904,640
    ck_assert_uint_eq(quantized_bytes(QWEN3_32B "{\"quant_method\": \"fp8\", \"fmt\": \"e4m3\", \"activation_scheme\": "
                                                "\"dynamic\", \"weight_block_size\": [128, 128]}}"),
                      31205621760 + 2 * UINT64_C(1558406144) + 2 * 1904640);
    // RedHatAI, Llama-3.1-8B w4a16 (GPTQ): 5,735,587,840 bytes, with a bias of zeros for each product: 86,016 a layer
    ck_assert_uint_eq(quantized_bytes(LLAMA_8B "{\"quant_method\": \"gptq\", \"bits\": 4, \"group_size\": 128, "
                                               "\"desc_act\": true, \"sym\": true}}"),
                      UINT64_C(5735587840) - 32 * 86016);
}
END_TEST

START_TEST(modules_that_are_not_converted_stay)
{
    // of Llama-3.1-8B's bytes in AWQ every layer's down_proj stays in bf16: 4 bits, a zero and a scale for each 128
    // less
    const uint64_t all = quantized_bytes(LLAMA_8B "{\"quant_method\": \"awq\", \"bits\": 4, \"group_size\": 128, "
                                                  "\"zero_point\": true, \"modules_to_not_convert\": null}}");
    const uint64_t n = UINT64_C(14336) * 4096, saved = 2 * n - (n / 2 + n / 128 * 2 + n / 128 / 2);
    static const char *const ALIKE[] = {"down_proj", "model.layers.*.mlp.down_proj", "*.down_proj*", "mlp.down_proj"};
    for (size_t i = 0; i < sizeof ALIKE / sizeof *ALIKE; i++) {
        char config[2048];
        snprintf(config, sizeof config,
                 LLAMA_8B "{\"quant_method\": \"awq\", \"bits\": 4, \"group_size\": 128, \"modules_to_not_convert\": "
                          "[\"%s\"]}}",
                 ALIKE[i]);
        ck_assert_msg(quantized_bytes(config) == all + 32 * saved, "%s", ALIKE[i]);
    }
    ck_assert_uint_eq(quantized_bytes(LLAMA_8B "{\"quant_method\": \"awq\", \"bits\": 4, \"group_size\": 128, "
                                               "\"modules_to_not_convert\": [\"model.layers.3.mlp.down_proj\", "
                                               "\"model.layers.30.mlp.down_proj\", \"own_proj\"]}}"),
                      all + 2 * saved);
}
END_TEST

#define AWQ "{\"quant_method\": \"awq\", \"bits\": 4, \"group_size\": 128, \"modules_to_not_convert\": "
#define AWQ_BUT(pattern) LLAMA_8B AWQ "[\"re:" pattern "\"]}}"

// compressed-tensors' match_name: re.match, from the beginning of the module's name.
START_TEST(patterns_are_read_as_python_reads_them)
{
    const uint64_t all = quantized_bytes(AWQ_BUT("nothing")), n = UINT64_C(14336) * 4096,
                   saved = 2 * n - (n / 2 + n / 128 * 2 + n / 128 / 2);
    ck_assert_uint_eq(quantized_bytes(AWQ_BUT(".*down_proj")), all + 32 * saved);
    ck_assert_uint_eq(quantized_bytes(AWQ_BUT(".*down_proj$")), all + 32 * saved);
    ck_assert_uint_eq(quantized_bytes(AWQ_BUT("down_proj")), all);  // no name begins so
    ck_assert_uint_eq(quantized_bytes(AWQ_BUT("model\\\\.layers\\\\.\\\\d\\\\.mlp\\\\.down_proj")), all + 10 * saved);
    ck_assert_uint_eq(quantized_bytes(AWQ_BUT("model.layers.(?:3|30).mlp.down_proj")), all + 2 * saved);
    // look-ahead, laziness, repetitions in braces, a class with a backslash, what no brackets close
    static const char *const UNREAD[] = {AWQ_BUT("(?!model).*"), AWQ_BUT(".*?proj"), AWQ_BUT("(a{1,200}){1,200}"),
                                         AWQ_BUT("[\\\\d]"),     AWQ_BUT("(down"),   AWQ_BUT("\\\\bmlp"),
                                         AWQ_BUT("[down")};
    for (size_t i = 0; i < sizeof UNREAD / sizeof *UNREAD; i++)
        ck_assert_msg(quantized_bytes(UNREAD[i]) == KVA_UNKNOWN, "%s", UNREAD[i]);
}
END_TEST

START_TEST(a_method_that_is_not_known_leaves_the_bytes_unknown)
{
    static const char *const CONFIGS[] = {
        LLAMA_8B "{\"quant_method\": \"hqq\"}}",
        LLAMA_8B "{\"quant_method\": \"awq\"}}",
        LLAMA_8B "{\"quant_method\": \"awq\", \"bits\": 0, \"group_size\": 128}}",
        LLAMA_8B "{\"quant_method\": \"awq\", \"bits\": 4, \"group_size\": -2}}",
        LLAMA_8B "{\"quant_method\": \"gptq\", \"bits\": 4, \"group_size\": 128, \"lm_head\": true}}",
        LLAMA_8B "{\"quant_method\": \"fp8\", \"weight_block_size\": [0, 128]}}",
        LLAMA_8B "{\"quant_method\": \"fp8\", \"weight_block_size\": \"128\"}}",
        LLAMA_8B "{\"quant_method\": \"compressed-tensors\", \"format\": \"pack-quantized\"}}",
        LLAMA_8B "{\"quant_method\": 4}}",
        LLAMA_8B "{}}",
        LLAMA_8B "[]}",
    };
    for (size_t i = 0; i < sizeof CONFIGS / sizeof *CONFIGS; i++)
        ck_assert_msg(quantized_bytes(CONFIGS[i]) == KVA_UNKNOWN, "%s", CONFIGS[i]);
    struct kva_model *model;
    ck_assert_int_eq(kva_model_from_json(atlas, CONFIGS[0], strlen(CONFIGS[0]), "q", NULL, &model, NULL), KVA_OK);
    ck_assert_uint_eq(model->n_warnings, 1);
    ck_assert_ptr_nonnull(strstr(model->warnings[0], "hqq"));
    kva_model_close(model);
}
END_TEST

START_TEST(a_wrapper_prefixes_its_text_tensors)
{
    struct kva_model *model = unit_open(atlas, "google/gemma-3-27b-it", NULL);
    bool found = false;
    for (size_t i = 0; i < model->n_tensors; i++) {
        ck_assert_int_eq(strncmp(model->tensors[i].name, "language_model.model.", 21), 0);
        found = found || strcmp(model->tensors[i].name, "language_model.model.layers.61.self_attn.q_norm.weight") == 0;
    }
    ck_assert(found);
    kva_model_close(model);
}
END_TEST

START_TEST(reduced_depth_keeps_the_first_layers_and_their_tensors)
{
    struct kva_model_options options = {.layers = 2, .dtype = KVA_F32};
    struct kva_model *model = unit_open(atlas, "microsoft/Phi-4-mini-flash-reasoning", &options);
    ck_assert_uint_eq(model->n_layers, 2);
    ck_assert_uint_eq(kva_model_value(model, "layers")->count, 32);
    ck_assert_int_eq(model->dtype, KVA_F32);
    for (size_t i = 0; i < model->n_tensors; i++) {
        ck_assert_int_lt(model->tensors[i].layer, 2);
        ck_assert_int_eq(model->tensors[i].dtype, KVA_F32);
    }
    kva_model_close(model);
    options.layers = 33;
    ck_assert_int_eq(kva_model_open(atlas, "microsoft/Phi-4-mini-flash-reasoning", &options, &model, NULL),
                     KVA_BAD_INPUT);
}
END_TEST

START_TEST(lambda_and_a_log_stay_float32)
{
    struct kva_model *model = unit_open(atlas, "microsoft/Phi-4-mini-flash-reasoning", NULL);
    size_t wide = 0;
    for (size_t i = 0; i < model->n_tensors; i++)
        wide += model->tensors[i].dtype == KVA_F32;
    ck_assert_uint_eq(wide, 9 + 16 * 4);  // A_log of 9 Mamba layers, 4 lambdas of 16 attention layers
    kva_model_close(model);
}
END_TEST

// ---------------------------------------------------------------- counted by Transformers

// What is in weights.jsonl and not known here. Of the first nine models the catalogue has only parts of the config, and
// what they leave out decides sizes; the classes of the others are not listed.
static const char *const UNCOUNTED[] = {
    "arcee-ai/Trinity-Nano-Base",      "google/gemma-3n-E2B-it",    "ibm-granite/granite-4.0-h-1b",
    "ibm-granite/granite-4.0-h-micro", "tencent/Hy-MT2-7B",         "tiiuae/Falcon-H1-34B-Instruct",
    "tiiuae/Falcon-H1-7B-Instruct",    "tiiuae/Falcon-H1-Tiny-90M", "tiiuae/falcon-mamba-7b",
    "deepseek-ai/DeepSeek-V4-Flash",   "stepfun-ai/Step-3.7-Flash"};

static bool is_uncounted(const char *name)
{
    for (size_t i = 0; i < sizeof UNCOUNTED / sizeof *UNCOUNTED; i++)
        if (strcmp(UNCOUNTED[i], name) == 0)
            return true;
    return false;
}

static void counts_alike(const struct kva_model *model, const char *name, const json_t *expected)
{
    const json_t *classes = json_object_get(expected, "classes");
    ck_assert_msg(model->parameters == (uint64_t)json_integer_value(json_object_get(expected, "parameters")),
                  "%s: %llu parameters", name, (unsigned long long)model->parameters);
    ck_assert_msg(model->n_weight_classes == json_object_size(classes), "%s: classes", name);
    for (size_t i = 0; i < model->n_weight_classes; i++) {
        const struct kva_weight_class *class = &model->weight_classes[i];
        ck_assert_msg(class->parameters == (uint64_t)json_integer_value(json_object_get(classes, class->name)),
                      "%s: %s: %llu parameters", name, class->name, (unsigned long long)class->parameters);
    }
}

static struct kva_model *open_line(const json_t *line, const struct kva_model_options *options, const char **name)
{
    const json_t *config = json_object_get(line, "config");
    struct kva_model *model;
    struct kva_error error = {0};
    *name = json_string_value(json_object_get(line, "model"));
    if (*name != NULL)
        return unit_open(atlas, *name, options);
    *name = json_string_value(json_object_get(config, "model_type"));
    char *text = json_dumps(config, 0);
    ck_assert_msg(kva_model_from_json(atlas, text, strlen(text), "made up", options, &model, &error) == KVA_OK,
                  "%s: %s", *name, error.text);
    free(text);
    return model;
}

// With the list of tensors and without.
START_TEST(as_many_parameters_as_transformers_counts)
{
    char path[4096], line[16384];
    FILE *file = fopen(data("weights.jsonl", path), "r");
    size_t lines = 0, unknown = 0;
    ck_assert_ptr_nonnull(file);
    while (fgets(line, sizeof line, file) != NULL) {
        json_t *expected = json_loads(line, 0, NULL);
        ck_assert_ptr_nonnull(expected);
        for (int lean = 0; lean <= 1; lean++) {
            const struct kva_model_options options = {.no_tensors = lean};
            const char *name;
            struct kva_model *model = open_line(expected, &options, &name);
            if (is_uncounted(name)) {
                ck_assert_msg(model->parameters == KVA_UNKNOWN && model->weight_bytes == KVA_UNKNOWN, "%s", name);
                unknown += (size_t)lean;
            } else
                counts_alike(model, name, expected);
            kva_model_close(model);
        }
        lines++;
        json_decref(expected);
    }
    fclose(file);
    ck_assert_uint_gt(lines, 140);
    ck_assert_uint_eq(unknown, sizeof UNCOUNTED / sizeof *UNCOUNTED);
}
END_TEST

int main(void)
{
    if (kva_atlas_open(NULL, &atlas, NULL) != KVA_OK)
        return 1;
    Suite *suite = suite_create("weights");
    TCase *tests = tcase_create("weights");
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, every_tensor_of_a_checkpoint_is_listed_and_no_other);
    tcase_add_test(tests, published_weights_to_the_byte);
    tcase_add_test(tests, published_quantized_weights_to_the_byte);
    tcase_add_test(tests, every_tensor_of_deepseek_v3_is_counted);
    tcase_add_test(tests, published_parameters_with_multi_token_prediction);
    tcase_add_test(tests, published_quantized_weights_nearly);
    tcase_add_test(tests, modules_that_are_not_converted_stay);
    tcase_add_test(tests, patterns_are_read_as_python_reads_them);
    tcase_add_test(tests, a_method_that_is_not_known_leaves_the_bytes_unknown);
    tcase_add_test(tests, a_wrapper_prefixes_its_text_tensors);
    tcase_add_test(tests, reduced_depth_keeps_the_first_layers_and_their_tensors);
    tcase_add_test(tests, lambda_and_a_log_stay_float32);
    tcase_add_test(tests, as_many_parameters_as_transformers_counts);
    const int status = unit_run(suite);
    kva_atlas_close(atlas);
    return status;
}
