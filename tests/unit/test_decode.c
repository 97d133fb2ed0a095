// The cost of a decoded token, held against what an H200 was measured to do and against numbers worked out by hand.
#include <check.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

static struct kva_atlas *atlas;

static const struct kva_decode_kind *kind(const struct kva_decode *decode, const char *name)
{
    for (size_t k = 0; k < decode->n_kinds; k++)
        if (strcmp(decode->kinds[k].name, name) == 0)
            return &decode->kinds[k];
    ck_abort_msg("no kind of layer is called %s", name);
    return NULL;
}

static struct kva_plan *costed(const struct kva_model *model, const struct kva_deployment *deployment)
{
    struct kva_plan *plan;
    ck_assert_int_eq(kva_plan_make(atlas, model, deployment, &plan, NULL), KVA_OK);
    ck_assert_int_eq(kva_decode_cost(plan, NULL), KVA_OK);
    return plan;
}

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

// An H200 was measured to read 4,660 GB/s: 7,672,043,520 bytes of weights take 1.65 ms, 606 tokens a second.
START_TEST(phi4_mini_reads_its_weights_in_1_65_ms)
{
    struct kva_model *model = unit_open(atlas, "microsoft/Phi-4-mini-instruct", NULL);
    const struct kva_gpu measured = {
        .id = "h200", .total_bytes = 150109880320, .total_basis = "measured", .bytes_per_second = 4660e9};
    struct kva_deployment deployment = {.engine = "exact", .gpu_facts = &measured, .context = 1};
    struct kva_plan *plan = costed(model, &deployment);
    ck_assert_uint_eq(plan->decode->weight_bytes, 7672043520);
    ck_assert_uint_eq(plan->decode->cache_read, 131072);
    ck_assert_double_eq_tol(plan->decode->memory_seconds * 1e3, 1.65, 0.005);
    ck_assert_double_eq_tol(plan->decode->tokens_per_second, 606, 2);
    ck_assert(!plan->decode->compute_bound);
    kva_plan_free(plan);
    // 16 sequences read the weights once
    deployment.sequences = 16;
    plan = costed(model, &deployment);
    ck_assert_uint_eq(plan->decode->step_bytes, 7672043520 + 16 * 2 * UINT64_C(131072));
    kva_plan_free(plan);
    kva_model_close(model);
}
END_TEST

// Two operations a parameter of every matrix: 3,836,021,760 parameters, of which 65 norms of 3,072 are none; attention
// of 24 heads of 128 over 1,000 tokens: 4 x 24 x 128 x 1,000 in each of 32 layers.
START_TEST(operations_of_a_dense_model)
{
    struct kva_model *model = unit_open(atlas, "microsoft/Phi-4-mini-instruct", NULL);
    const struct kva_deployment deployment = {.engine = "exact", .context = 1000};
    struct kva_plan *plan = costed(model, &deployment);
    ck_assert_uint_eq(plan->decode->flops, 2 * (UINT64_C(3836021760) - 65 * 3072) + 32 * UINT64_C(4) * 24 * 128 * 1000);
    ck_assert_double_eq_tol(plan->decode->intensity, (double)plan->decode->flops / (7672043520.0 + 1001 * 131072.0),
                            1e-9);
    kva_plan_free(plan);
    kva_model_close(model);
}
END_TEST

// gpt-oss-20b: 12 windows of 128 tokens and 12 full layers, 2,048 bytes a token each (8 heads x (64 + 64) x 2).
START_TEST(windows_stay_and_full_layers_grow)
{
    struct kva_model *model = unit_open(atlas, "openai/gpt-oss-20b", NULL);
    struct kva_deployment deployment = {.engine = "exact", .context = 4096};
    struct kva_plan *plan = costed(model, &deployment);
    ck_assert_uint_eq(kind(plan->decode, "sliding")->cache_read, 12 * 128 * 2048);
    ck_assert_uint_eq(kind(plan->decode, "full")->cache_read, 12 * UINT64_C(4096) * 2048);
    ck_assert_str_eq(kind(plan->decode, "sliding")->grows, "not");
    ck_assert_str_eq(kind(plan->decode, "full")->grows, "with the context");
    // 4 of 32 experts in MXFP4, 4.25 bits: 24 layers x 4 x 3 x 2,880 x 2,880 x 17 / 32 bytes, and all else in bf16
    const uint64_t experts = UINT64_C(24) * 4 * 3 * 2880 * 2880 * 17 / 32;
    const uint64_t others = 2 * (UINT64_C(20914757184) - UINT64_C(24) * 32 * 3 * 2880 * 2880 - UINT64_C(201088) * 2880);
    ck_assert_double_eq_tol((double)plan->decode->weight_bytes, (double)(experts + others), 2e7);
    // the model card: 3.6B active parameters, the head among them and the embedding not
    const uint64_t attention = UINT64_C(12) * 4 * 64 * 64 * (4096 + 128);
    ck_assert_double_eq_tol((double)(plan->decode->flops - attention) / 2e9, 3.6, 0.05);
    kva_plan_free(plan);
    deployment.context = 8192;
    plan = costed(model, &deployment);
    ck_assert_uint_eq(kind(plan->decode, "sliding")->cache_read, 12 * 128 * 2048);
    ck_assert_uint_eq(kind(plan->decode, "full")->cache_read, 12 * UINT64_C(8192) * 2048);
    kva_plan_free(plan);
    kva_model_close(model);
}
END_TEST

// Phi-4-mini-flash: 9 states of 194,560 bytes are read and written; the only full cache (5,120 bytes a token) is
// written by one layer and read by that one and 7 others.
START_TEST(states_are_written_and_a_shared_cache_is_read_by_all)
{
    struct kva_model *model = unit_open(atlas, "microsoft/Phi-4-mini-flash-reasoning", NULL);
    const struct kva_deployment deployment = {.engine = "exact", .context = 32768};
    struct kva_plan *plan = costed(model, &deployment);
    ck_assert_uint_eq(kind(plan->decode, "mamba")->cache_read, 9 * 194560);
    ck_assert_uint_eq(kind(plan->decode, "mamba")->cache_written, 9 * 194560);
    ck_assert_str_eq(kind(plan->decode, "mamba")->grows, "not");
    const uint64_t windows = 8 * UINT64_C(512) * 5120, once = UINT64_C(32768) * 5120;
    ck_assert_uint_eq(plan->decode->cache_read, 9 * 194560 + windows + 8 * once);
    ck_assert_uint_eq(plan->decode->cache_written, 9 * 194560 + 9 * 5120);
    kva_plan_free(plan);
    kva_model_close(model);
}
END_TEST

// Enough sequences make a GPU compute-bound: 989 Tflop/s and 4,800 GB/s of an H200 balance at 206 operations a byte.
START_TEST(many_sequences_are_bound_by_computing)
{
    struct kva_model *model = unit_open(atlas, "microsoft/Phi-4-mini-instruct", NULL);
    struct kva_deployment deployment = {.engine = "exact", .gpu = "h200", .context = 1, .sequences = 100};
    struct kva_plan *plan = costed(model, &deployment);
    ck_assert_double_eq_tol(plan->decode->balance, 989e12 / 4800e9, 1e-6);
    ck_assert(!plan->decode->compute_bound && plan->decode->intensity < plan->decode->balance);
    kva_plan_free(plan);
    deployment.sequences = 1000;
    plan = costed(model, &deployment);
    ck_assert(plan->decode->compute_bound && plan->decode->intensity > plan->decode->balance);
    kva_plan_free(plan);
    kva_model_close(model);
}
END_TEST

// Qwen3-30B-A3B: 3,353,032,704 of 30,532,122,624 parameters are active, both tables of 151,936 x 2,048 counted; norms
// (48 x (2 x 2,048 + 2 x 128) + 2,048) are no products.
START_TEST(operations_of_a_mixture)
{
    static const char CONFIG[] =
        "{\"model_type\": \"qwen3_moe\", \"hidden_size\": 2048, \"num_hidden_layers\": 48, \"num_attention_heads\": "
        "32, "
        "\"num_key_value_heads\": 4, \"head_dim\": 128, \"intermediate_size\": 6144, \"moe_intermediate_size\": 768, "
        "\"num_experts\": 128, \"num_experts_per_tok\": 8, \"decoder_sparse_step\": 1, \"mlp_only_layers\": [], "
        "\"vocab_size\": 151936, \"max_position_embeddings\": 40960, \"torch_dtype\": \"bfloat16\", "
        "\"use_sliding_window\": false, \"tie_word_embeddings\": false}";
    const struct kva_deployment deployment = {.engine = "exact", .context = 1};
    struct kva_model *model;
    ck_assert_int_eq(kva_model_from_json(atlas, CONFIG, strlen(CONFIG), "q", NULL, &model, NULL), KVA_OK);
    ck_assert_uint_eq(model->parameters, UINT64_C(30532122624));
    ck_assert_uint_eq(model->weight_bytes, UINT64_C(61064245248));  // model.safetensors.index.json: total_size
    struct kva_plan *plan = costed(model, &deployment);
    const uint64_t table = UINT64_C(151936) * 2048, norms = 48 * (2 * 2048 + 2 * 128) + 2048;
    const uint64_t active = UINT64_C(3353032704) - table, attention = UINT64_C(48) * 4 * 32 * 128;
    ck_assert_uint_eq(plan->decode->flops, 2 * (active - norms) + attention);
    ck_assert_uint_eq(plan->decode->weight_bytes, 2 * active);
    kva_plan_free(plan);
    kva_model_close(model);
}
END_TEST

START_TEST(what_is_not_known_gives_no_rate)
{
    struct kva_model *model = unit_open(atlas, "moonshotai/Kimi-K2-Instruct", NULL);
    const struct kva_deployment deployment = {
        .engine = "exact", .gpu = "h200", .context = 4096, .weight_bytes = UINT64_C(80) << 30};
    struct kva_plan *plan = costed(model, &deployment);
    ck_assert_uint_eq(plan->decode->cache_read, 61 * UINT64_C(576) * 2 * 4096);
    ck_assert_uint_eq(plan->decode->flops, KVA_UNKNOWN);
    kva_plan_free(plan);
    kva_model_close(model);
}
END_TEST

// A checkpoint whose quantization nobody knows, of which only the index is here: 3,000,000,000 bytes, and not the
// 7,672,043,520 that the config's tensors take in bf16.
START_TEST(a_checkpoint_is_read_as_it_is)
{
    static const char CONFIG[] =
        "{\"model_type\": \"llama\", \"hidden_size\": 4096, \"num_hidden_layers\": 32, \"num_attention_heads\": 32, "
        "\"num_key_value_heads\": 8, \"intermediate_size\": 14336, \"vocab_size\": 128256, \"torch_dtype\": "
        "\"bfloat16\", \"max_position_embeddings\": 131072, \"quantization_config\": {\"quant_method\": \"new\"}}";
    static const char INDEX[] = "{\"metadata\": {\"total_size\": 3000000000}, \"weight_map\": {\"lm_head.weight\": "
                                "\"model-00001-of-00002.safetensors\"}}";
    char folder[] = "/tmp/kva-decode-XXXXXX", config[64], index[64];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(config, sizeof config, "%s/config.json", folder);
    snprintf(index, sizeof index, "%s/model.safetensors.index.json", folder);
    write_text(config, CONFIG);
    write_text(index, INDEX);
    struct kva_model *model = unit_open(atlas, folder, NULL);
    const struct kva_deployment deployment = {.engine = "exact", .context = 1};
    struct kva_plan *plan = costed(model, &deployment);
    ck_assert_uint_eq(plan->decode->weight_bytes, 3000000000);
    ck_assert_uint_eq(plan->decode->flops, KVA_UNKNOWN);
    kva_plan_free(plan);
    kva_model_close(model);
    unlink(config);
    unlink(index);
    rmdir(folder);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("decode");
    TCase *cases = tcase_create("decode");
    tcase_add_test(cases, phi4_mini_reads_its_weights_in_1_65_ms);
    tcase_add_test(cases, operations_of_a_dense_model);
    tcase_add_test(cases, windows_stay_and_full_layers_grow);
    tcase_add_test(cases, states_are_written_and_a_shared_cache_is_read_by_all);
    tcase_add_test(cases, many_sequences_are_bound_by_computing);
    tcase_add_test(cases, operations_of_a_mixture);
    tcase_add_test(cases, what_is_not_known_gives_no_rate);
    tcase_add_test(cases, a_checkpoint_is_read_as_it_is);
    suite_add_tcase(suite, cases);
    return unit_run_on(suite, &atlas);
}
