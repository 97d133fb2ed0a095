// The tensors an architecture file lists are the tensors of real checkpoints. Reference: the tiny models of
// tests/data/hf-tiny, written by Transformers 5.17 (sambay-8: the published Phi-4-mini-flash code), and the index file
// of the published Phi-4-mini-flash-reasoning.
#include <check.h>
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

START_TEST(published_weights_to_the_byte)
{
    // microsoft/Phi-4-mini-instruct, model.safetensors.index.json: total_size
    ck_assert_uint_eq(weight_bytes("microsoft/Phi-4-mini-instruct"), 7672043520);
    // microsoft/Phi-4-mini-flash-reasoning, model.safetensors.index.json: total_size
    ck_assert_uint_eq(weight_bytes("microsoft/Phi-4-mini-flash-reasoning"), 7706608640);
    // meta-llama/Llama-3.1-8B: 8,030,261,248 parameters by its model card
    ck_assert_uint_eq(weight_bytes("meta-llama/Llama-3.1-8B-Instruct"), 2 * 8030261248);
}
END_TEST

START_TEST(quantized_weights_are_unknown_and_say_why)
{
    struct kva_model *model = unit_open(atlas, "openai/gpt-oss-20b", NULL);
    ck_assert_uint_eq(model->weight_bytes, KVA_UNKNOWN);
    ck_assert_uint_eq(model->n_warnings, 1);
    ck_assert_ptr_nonnull(strstr(model->warnings[0], "mxfp4"));
    // 20,914,757,184 parameters: OpenAI's model card says 20.9B
    ck_assert_uint_eq(model->parameters, 20914757184);
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

int main(void)
{
    if (kva_atlas_open(NULL, &atlas, NULL) != KVA_OK)
        return 1;
    Suite *suite = suite_create("weights");
    TCase *tests = tcase_create("weights");
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, every_tensor_of_a_checkpoint_is_listed_and_no_other);
    tcase_add_test(tests, published_weights_to_the_byte);
    tcase_add_test(tests, quantized_weights_are_unknown_and_say_why);
    tcase_add_test(tests, a_wrapper_prefixes_its_text_tensors);
    tcase_add_test(tests, reduced_depth_keeps_the_first_layers_and_their_tensors);
    tcase_add_test(tests, lambda_and_a_log_stay_float32);
    const int status = unit_run(suite);
    kva_atlas_close(atlas);
    return status;
}
