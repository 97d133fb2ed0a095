// The catalogue of accelerators, and the memory of a rank. Expected numbers: what devices and logs print, named beside
// each.
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "engine/memory.h"
#include "unit.h"

static struct kva_atlas *atlas;

static const struct kva_gpu *found(const char *name)
{
    struct kva_error error = {0};
    const struct kva_gpu *gpu;
    char line[1024];
    ck_assert_msg(kva_gpu_find(atlas, name, &gpu, &error) == KVA_OK, "%s: %s", name,
                  kva_error_line(&error, line, sizeof line));
    return gpu;
}

START_TEST(names_are_forgiving)
{
    static const char *const NAMES[][2] = {
        {"h100", "h100-sxm"},
        {"H100", "h100-sxm"},
        {"NVIDIA H100 80GB HBM3", "h100-sxm"},
        {"h100_sxm", "h100-sxm"},
        {"h200", "h200"},
        {"NVIDIA H200", "h200"},
        {"4090", "rtx-4090"},
        {"RTX 4090", "rtx-4090"},
        {"NVIDIA GeForce RTX 4090", "rtx-4090"},
        {"NVIDIA A100-SXM4-80GB", "a100-80-sxm"},
        {"Tesla T4", "t4"},
        {"Instinct MI300X", "mi300x"},
        {"A100 SXM 80GB", "a100-80-sxm"},  // only its long name says so
    };
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        ck_assert_str_eq(found(NAMES[i][0])->id, NAMES[i][1]);
}
END_TEST

START_TEST(memory_is_what_the_device_reports)
{
    // totalGlobalMem of an H200, read from one: reports/h200-verify.json
    ck_assert_uint_eq(found("h200")->total_bytes, UINT64_C(150109880320));
    ck_assert_str_eq(found("h200")->total_basis, "measured");
    // vllm issue 27508 prints 79.11 GiB for an H100
    ck_assert_double_eq_tol((double)found("h100")->total_bytes / 0x1p30, 79.11, 0.005);
    // nvidia-smi -q of an RTX 4080 SUPER: 16376 MiB, of which 434 reserved
    ck_assert_uint_eq(found("rtx-4080-super")->total_bytes, (UINT64_C(16376) - 434) << 20);
    ck_assert_str_eq(found("rtx-4080-super")->total_basis, "derived");
    // 81,559 MiB of an H100 are 85,520,809,984 bytes
    ck_assert_uint_eq(found("h100")->reported_bytes, UINT64_C(85520809984));
}
END_TEST

START_TEST(what_nobody_saw_is_not_known)
{
    const struct kva_gpu *pcie = found("a100-pcie");
    ck_assert_uint_eq(pcie->total_bytes, 0);
    ck_assert_ptr_null(pcie->total_basis);
    ck_assert_double_eq(pcie->sold_bytes, 80e9);
    ck_assert(!found("apple-m3-max")->fp4_known);
    ck_assert_double_eq(found("h100-nvl")->bytes_per_second, 0);
}
END_TEST

START_TEST(compute_capability_and_types)
{
    ck_assert_uint_eq(found("b300")->compute_major, 10);
    ck_assert_uint_eq(found("b300")->compute_minor, 3);
    ck_assert(found("h100")->fp8 && !found("h100")->fp4 && found("b200")->fp4);
    ck_assert(!found("a100")->fp8 && found("a100")->fp8_known);
    ck_assert_str_eq(found("mi300x")->compute, "gfx942");
    ck_assert_uint_eq(found("mi300x")->compute_major, 0);
}
END_TEST

START_TEST(a_name_that_is_none_is_refused_with_the_nearest)
{
    struct kva_error error = {0};
    const struct kva_gpu *gpu;
    ck_assert_int_eq(kva_gpu_find(atlas, "h20o", &gpu, &error), KVA_REFUSED);
    ck_assert_ptr_nonnull(strstr(error.text, "did you mean h20"));
    ck_assert_int_eq(kva_gpu_find(atlas, "", &gpu, &error), KVA_REFUSED);
    ck_assert_int_eq(kva_gpu_find(atlas, "nvidia", &gpu, &error), KVA_REFUSED);
    ck_assert_int_eq(kva_gpu_find(atlas, "something else altogether", &gpu, &error), KVA_REFUSED);
    ck_assert_ptr_null(gpu);
}
END_TEST

START_TEST(all_of_them_can_be_listed)
{
    const struct kva_gpu **gpus;
    size_t n, n_all;
    ck_assert_int_eq(kva_gpus_open(atlas, NULL, &gpus, &n_all, NULL), KVA_OK);
    for (size_t i = 0; i < n_all; i++) {
        ck_assert(gpus[i]->n_references > 0);
        ck_assert_str_eq(found(gpus[i]->id)->id, gpus[i]->id);
    }
    free(gpus);
    ck_assert_int_eq(kva_gpus_open(atlas, "H200", &gpus, &n, NULL), KVA_OK);
    ck_assert(n >= 1 && n < n_all);
    free(gpus);
    ck_assert_int_eq(kva_gpus_open(atlas, "no such thing", &gpus, &n, NULL), KVA_OK);
    ck_assert_uint_eq(n, 0);
    free(gpus);
}
END_TEST

// ---------------------------------------------------------------- weights on a rank

// meta-llama/Llama-3.1-8B: 128,256 x 4,096 embedding and as large a head, 32 layers; two norms of 4,096 a layer and one
// more. All in bf16.
START_TEST(weights_are_divided_by_class)
{
    struct kva_model *model = unit_open(atlas, "meta-llama/Llama-3.1-8B-Instruct", NULL);
    const uint64_t whole = 2 * UINT64_C(8030261248), table = 2 * UINT64_C(128256) * 4096;
    const uint64_t norms = 2 * UINT64_C(65) * 4096, rest = whole - 2 * table - norms;
    ck_assert_uint_eq(kva_weights_on_rank(model, 1, 1), whole);
    // every tensor rank holds all norms and half of the rest; to a byte a layer, for the rounding
    ck_assert(kva_weights_on_rank(model, 2, 1) - (norms + (whole - norms) / 2) < 64);
    // each of two stages holds 16 layers and a table
    ck_assert(kva_weights_on_rank(model, 1, 2) - (table + rest / 2 + norms / 2) < 64);
    // of three the largest holds 11 of the 32 layers
    ck_assert(kva_weights_on_rank(model, 1, 3) - (table + (rest + norms) / 32 * 11) < 64);
    kva_model_close(model);
}
END_TEST

// microsoft/Phi-4-mini-instruct ties its head to its embedding: the last of two stages holds the table again.
START_TEST(a_tied_head_is_held_twice)
{
    struct kva_model *model = unit_open(atlas, "microsoft/Phi-4-mini-instruct", NULL);
    const uint64_t whole = 7672043520, table = 2 * UINT64_C(200064) * 3072;
    ck_assert(kva_weights_on_rank(model, 1, 2) - (table + (whole - table) / 2) < 8192);
    kva_model_close(model);
}
END_TEST

START_TEST(weights_that_are_not_known_stay_so)
{
    struct kva_model *model = unit_open(atlas, "moonshotai/Kimi-K2.5", NULL);
    struct kva_deployment deployment = {.gpu = "h200", .context = 4096};
    struct kva_error error = {0};
    struct kva_plan *plan;
    ck_assert_uint_eq(kva_weights_on_rank(model, 8, 1), KVA_UNKNOWN);
    ck_assert_int_eq(kva_plan_make(atlas, model, &deployment, &plan, &error), KVA_REFUSED);
    ck_assert_str_eq(error.key, "--weight-bytes");
    deployment.weight_bytes = UINT64_C(90) << 30;
    ck_assert_int_eq(kva_plan_make(atlas, model, &deployment, &plan, &error), KVA_OK);
    ck_assert_uint_eq(plan->deployment.weight_bytes, UINT64_C(90) << 30);
    kva_plan_free(plan);
    kva_model_close(model);
}
END_TEST

// vLLM printed of Llama-3.1-8B on an H100 of 79.18 GiB at 0.9: 14.99 GiB weights (16,060,522,496 bytes are 14.96), 4.76
// activations, 0.13 other, 51.38 for caches. (llm-d-benchmark, empirical-vllm-memory-results.md)
START_TEST(a_budget_that_vllm_printed)
{
    struct kva_model *model = unit_open(atlas, "meta-llama/Llama-3.1-8B-Instruct", NULL);
    const struct kva_deployment deployment = {.engine = "exact",
                                              .context = 16000,
                                              .gpu_bytes = (uint64_t)(79.18 * 0x1p30),
                                              .memory_fraction = 0.9,
                                              .activation_bytes = (uint64_t)(4.76 * 0x1p30),
                                              .other_bytes = (uint64_t)(0.13 * 0x1p30)};
    struct kva_plan *plan;
    ck_assert_int_eq(kva_plan_make(atlas, model, &deployment, &plan, NULL), KVA_OK);
    ck_assert_double_eq_tol((double)plan->capacity.budget / 0x1p30, 51.38, 0.04);
    kva_plan_free(plan);
    kva_model_close(model);
}
END_TEST

START_TEST(a_gpu_whose_memory_nobody_knows_needs_a_number)
{
    struct kva_model *model = unit_open(atlas, "microsoft/Phi-4-mini-instruct", NULL);
    struct kva_deployment deployment = {.gpu = "mi300x", .context = 4096};
    struct kva_error error = {0};
    struct kva_plan *plan;
    ck_assert_int_eq(kva_plan_make(atlas, model, &deployment, &plan, &error), KVA_REFUSED);
    ck_assert_ptr_nonnull(strstr(error.text, "--gpu-memory"));
    ck_assert_ptr_nonnull(strstr(error.text, "192 GB"));
    deployment.gpu_bytes = UINT64_C(191) << 30;
    ck_assert_int_eq(kva_plan_make(atlas, model, &deployment, &plan, &error), KVA_OK);
    ck_assert_str_eq(plan->deployment.gpu_facts->id, "mi300x");
    kva_plan_free(plan);
    kva_model_close(model);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gpus");
    TCase *cases = tcase_create("gpus");
    tcase_add_test(cases, names_are_forgiving);
    tcase_add_test(cases, memory_is_what_the_device_reports);
    tcase_add_test(cases, what_nobody_saw_is_not_known);
    tcase_add_test(cases, compute_capability_and_types);
    tcase_add_test(cases, a_name_that_is_none_is_refused_with_the_nearest);
    tcase_add_test(cases, all_of_them_can_be_listed);
    tcase_add_test(cases, weights_are_divided_by_class);
    tcase_add_test(cases, a_tied_head_is_held_twice);
    tcase_add_test(cases, weights_that_are_not_known_stay_so);
    tcase_add_test(cases, a_budget_that_vllm_printed);
    tcase_add_test(cases, a_gpu_whose_memory_nobody_knows_needs_a_number);
    suite_add_tcase(suite, cases);
    return unit_run_on(suite, &atlas);
}
