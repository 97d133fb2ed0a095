// Plans of known models, built by hand from their published configs. Expected numbers come from
// docs and probes named beside them, or are worked out by hand in the comment above.
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "kvatlas.h"
#include "model/arch.h"
#include "unit.h"

enum { MAX_LAYERS = 64, CONTEXT = 131072 };

static struct kva_layer layers[MAX_LAYERS];

static struct kva_cache full(uint32_t kv_heads, uint32_t head_dim)
{
    return (struct kva_cache){
        .kind = KVA_CACHE_FULL, .kv_heads = kv_heads, .k_dim = head_dim, .v_dim = head_dim, .reads_layer = -1};
}

static struct kva_cache sliding(uint32_t kv_heads, uint32_t head_dim, uint64_t window)
{
    struct kva_cache cache = full(kv_heads, head_dim);
    cache.kind = KVA_CACHE_SLIDING;
    cache.window = window;
    return cache;
}

static struct kva_cache mamba(uint64_t conv, uint64_t recurrent)
{
    return (struct kva_cache){.kind = KVA_CACHE_STATE,
                              .reads_layer = -1,
                              .state = {{"conv", conv, KVA_DTYPE_NONE}, {"recurrent", recurrent, KVA_DTYPE_NONE}},
                              .n_state = 2};
}

static void put(size_t i, const char *kind, enum kva_mixer mixer, const struct kva_cache *cache)
{
    layers[i] = (struct kva_layer){.index = (uint32_t)i, .kind = kind, .mixer = mixer};
    if (cache != NULL)
        layers[i].caches[layers[i].n_caches++] = *cache;
}

static void put_attention(size_t i, const char *kind, struct kva_cache cache)
{
    put(i, kind, KVA_MIXER_ATTENTION, &cache);
}

static struct kva_model model_of(const char *id, size_t n_layers, uint64_t kv_heads, uint64_t head_dim, uint64_t limit)
{
    return (struct kva_model){.id = id,
                              .source = "by hand",
                              .model_type = "test",
                              .architecture = "",
                              .family = "test",
                              .context_limit = limit,
                              .dtype = KVA_BF16,
                              .dtype_key = "torch_dtype",
                              .naive_kv_heads = kv_heads,
                              .naive_k_dim = head_dim,
                              .naive_v_dim = head_dim,
                              .layers = layers,
                              .n_layers = n_layers};
}

// google/gemma-3-27b-it: 62 layers, every sixth full, window 1024, 16 KV heads of 128.
static struct kva_model gemma3_27b(void)
{
    for (size_t i = 0; i < 62; i++)
        put_attention(i, (i + 1) % 6 == 0 ? "full" : "sliding",
                      (i + 1) % 6 == 0 ? full(16, 128) : sliding(16, 128, 1024));
    return model_of("gemma-3-27b", 62, 16, 128, 131072);
}

// openai/gpt-oss-20b: 24 layers, sliding 128 and full in turn, 8 KV heads of 64.
static struct kva_model gpt_oss_20b(void)
{
    for (size_t i = 0; i < 24; i++)
        put_attention(i, i % 2 == 0 ? "sliding" : "full", i % 2 == 0 ? sliding(8, 64, 128) : full(8, 64));
    return model_of("gpt-oss-20b", 24, 8, 64, 131072);
}

// microsoft/Phi-4-mini-instruct: 32 layers, 8 KV heads of 128; its window of 262144 never binds.
static struct kva_model phi4_mini(void)
{
    struct kva_cache cache = full(8, 128);
    cache.window = 262144;
    cache.window_inert = true;
    for (size_t i = 0; i < 32; i++)
        put_attention(i, "full", cache);
    return model_of("phi-4-mini", 32, 8, 128, 131072);
}

// microsoft/Phi-4-mini-flash-reasoning (vLLM phi4flash.py): even layers to 16 Mamba-1 (d_inner 5120, 3 columns of
// convolution, 16 states), odd ones to 15 sliding 512, layer 17 full, then gated memory units and readers of layer 17.
static struct kva_model phi4_flash(void)
{
    for (size_t i = 0; i < 32; i++) {
        struct kva_cache cache = i < 16 ? sliding(20, 64, 512) : full(20, 64);
        struct kva_cache state = mamba(5120 * 3, 5120 * 16);
        if (i > 17)
            cache.reads_layer = 17;
        if (i % 2 == 1)
            put_attention(i, i < 16 ? "sliding" : i == 17 ? "full" : "shared", cache);
        else if (i <= 16)
            put(i, "mamba", KVA_MIXER_MAMBA1, &state);
        else
            put(i, "gmu", KVA_MIXER_GMU, NULL);
    }
    return model_of("phi-4-mini-flash", 32, 20, 64, 262144);
}

// microsoft/Phi-3-mini-4k-instruct: 32 layers, 32 KV heads of 96, window 2047.
static struct kva_model phi3_mini_4k(void)
{
    for (size_t i = 0; i < 32; i++)
        put_attention(i, "sliding", sliding(32, 96, 2047));
    return model_of("phi-3-mini-4k", 32, 32, 96, 4096);
}

static struct kva_plan *plan_of(const struct kva_model *model, const char *engine, uint64_t context, uint64_t sequences)
{
    const struct kva_deployment deployment = {.engine = engine, .context = context, .sequences = sequences};
    struct kva_error error = {0};
    struct kva_plan *plan = NULL;
    ck_assert_msg(kva_plan_make(NULL, model, &deployment, &plan, &error) == KVA_OK, "%s", error.text);
    return plan;
}

static void expect(const struct kva_model *model, uint64_t need, uint64_t naive)
{
    struct kva_plan *plan = plan_of(model, "exact", CONTEXT, 1);
    ck_assert_uint_eq(plan->need, need);
    ck_assert_uint_eq(plan->allocated, need);
    ck_assert_uint_eq(plan->overpay, 0);
    ck_assert(plan->overpay_ratio == 1);
    ck_assert_uint_eq(plan->naive, naive);
    kva_plan_free(plan);
}

// ---------------------------------------------------------------- known models

START_TEST(test_gemma3_27b_needs_10_41_gib)
{
    const struct kva_model model = gemma3_27b();
    expect(&model, 11173625856,
           66571993088);  // node-llama-cpp's native count: 10 x 8192 B a token and 52 fixed windows
}
END_TEST

START_TEST(test_gpt_oss_20b_needs_half_of_naive)
{
    const struct kva_model model = gpt_oss_20b();
    expect(&model, 3224371200, 6442450944);  // 12 x 2048 x (131072 + 128); 24 x 2048 x 131072
}
END_TEST

START_TEST(test_phi4_mini_has_an_inert_window)
{
    const struct kva_model model = phi4_mini();
    expect(&model, 17179869184, 17179869184);  // 131072 bytes a token: 32 x 8 x 256 x 2
}
END_TEST

START_TEST(test_phi4_flash_needs_a_thirtieth_of_naive)
{
    const struct kva_model model = phi4_flash();
    expect(&model, 693811200, 21474836480);  // 671088640 + 8 x 2621440 + 9 x 194560; 32 x 5120 x 131072
    struct kva_plan *plan = plan_of(&model, "exact", CONTEXT, 1);
    ck_assert_uint_eq(plan->sharing_saved, 4697620480);  // 7 readers x 671088640
    ck_assert_uint_eq(plan->state, 1751040);             // 9 x (15360 + 81920) x 2
    ck_assert_uint_eq(plan->bytes_per_token, 5120);      // layer 17: 20 x 128 x 2
    kva_plan_free(plan);
}
END_TEST

START_TEST(test_phi4_flash_under_full)
{
    const struct kva_model model = phi4_flash();
    struct kva_plan *plan = plan_of(&model, "full", CONTEXT, 1);
    ck_assert_uint_eq(plan->need, 693811200);
    ck_assert_uint_eq(plan->allocated, 10739169280);  // 16 attention layers x 671088640 + 1751040
    ck_assert_uint_eq(plan->overpay, 10739169280 - 693811200);
    ck_assert_uint_eq(plan->layers[19].allocated, 671088640);
    ck_assert_uint_eq(plan->layers[19].need, 0);
    ck_assert_int_eq(plan->layers[19].reads_layer, 17);
    ck_assert_uint_eq(plan->layers[1].rows, CONTEXT);
    kva_plan_free(plan);
}
END_TEST

START_TEST(test_phi3_mini_4k_naive_bytes_per_token)
{
    const struct kva_model model = phi3_mini_4k();
    struct kva_plan *plan = plan_of(&model, "exact", 4096, 1);
    ck_assert_uint_eq(plan->naive_bytes_per_token, 393216);  // 32 x 32 x (96 + 96) x 2
    ck_assert_uint_eq(plan->bytes_per_token, 0);             // every window is full
    ck_assert_uint_eq(plan->need, UINT64_C(393216) * 2047);
    kva_plan_free(plan);
}
END_TEST

// ---------------------------------------------------------------- rules

START_TEST(test_a_window_keeps_no_more_than_the_context)
{
    const struct kva_cache cache = sliding(8, 64, 128);
    uint64_t bytes;
    ck_assert_int_eq(kva_need_bytes(&cache, 100, KVA_BF16, KVA_BF16, &bytes, NULL), KVA_OK);
    ck_assert_uint_eq(bytes, 100 * 8 * 128 * 2);
    ck_assert_int_eq(kva_need_bytes(&cache, 129, KVA_BF16, KVA_BF16, &bytes, NULL), KVA_OK);
    ck_assert_uint_eq(bytes, 128 * 8 * 128 * 2);
}
END_TEST

START_TEST(test_a_state_has_the_size_it_has)
{
    struct kva_cache cache = mamba(10, 100);
    uint64_t bytes;
    cache.state[1].dtype = KVA_F32;  // the config's own
    ck_assert_int_eq(kva_need_bytes(&cache, 1, KVA_F8_E4M3, KVA_BF16, &bytes, NULL), KVA_OK);
    ck_assert_uint_eq(bytes, 10 * 2 + 100 * 4);
    ck_assert_int_eq(kva_need_bytes(&cache, 1000000, KVA_F8_E4M3, KVA_BF16, &bytes, NULL), KVA_OK);
    ck_assert_uint_eq(bytes, 10 * 2 + 100 * 4);
}
END_TEST

START_TEST(test_latent_index_and_chunked_caches)
{
    // DeepSeek-V3: kv_lora_rank 512 + qk_rope_head_dim 64, one row a token
    const struct kva_cache latent = {
        .kind = KVA_CACHE_LATENT, .kv_heads = 1, .k_dim = 512, .v_dim = 64, .reads_layer = -1};
    const struct kva_cache index = {.kind = KVA_CACHE_INDEX, .kv_heads = 1, .k_dim = 128, .reads_layer = -1};
    struct kva_cache chunked = sliding(8, 128, 8192);
    uint64_t bytes;
    chunked.kind = KVA_CACHE_CHUNKED;
    ck_assert_int_eq(kva_need_bytes(&latent, CONTEXT, KVA_BF16, KVA_BF16, &bytes, NULL), KVA_OK);
    ck_assert_uint_eq(bytes, UINT64_C(576) * 2 * CONTEXT);
    ck_assert_int_eq(kva_need_bytes(&index, CONTEXT, KVA_BF16, KVA_BF16, &bytes, NULL), KVA_OK);
    ck_assert_uint_eq(bytes, UINT64_C(128) * 2 * CONTEXT);
    ck_assert_int_eq(kva_need_bytes(&chunked, CONTEXT, KVA_BF16, KVA_BF16, &bytes, NULL), KVA_OK);
    ck_assert_uint_eq(bytes, UINT64_C(8192) * 8 * 256 * 2);
}
END_TEST

START_TEST(test_a_layer_that_reads_another_needs_nothing)
{
    struct kva_cache cache = full(8, 64);
    uint64_t bytes = 1;
    cache.reads_layer = 3;
    ck_assert_int_eq(kva_need_bytes(&cache, CONTEXT, KVA_BF16, KVA_BF16, &bytes, NULL), KVA_OK);
    ck_assert_uint_eq(bytes, 0);
}
END_TEST

START_TEST(test_sequences_multiply_everything)
{
    const struct kva_model model = phi4_flash();
    struct kva_plan *plan = plan_of(&model, "full", CONTEXT, 3);
    ck_assert_uint_eq(plan->need, UINT64_C(693811200) * 3);
    ck_assert_uint_eq(plan->allocated, UINT64_C(10739169280) * 3);
    ck_assert_uint_eq(plan->naive, UINT64_C(21474836480) * 3);
    ck_assert_uint_eq(plan->bytes_per_token, 5120);
    kva_plan_free(plan);
}
END_TEST

START_TEST(test_kv_dtype_leaves_states_alone)
{
    const struct kva_model model = phi4_flash();
    const struct kva_deployment deployment = {.engine = "exact", .context = CONTEXT, .kv_dtype = KVA_F8_E4M3};
    struct kva_plan *plan;
    ck_assert_int_eq(kva_plan_make(NULL, &model, &deployment, &plan, NULL), KVA_OK);
    ck_assert_uint_eq(plan->need, (693811200 - 1751040) / 2 + 1751040);
    kva_plan_free(plan);
}
END_TEST

START_TEST(test_pools_are_one_for_each_shape_and_sum_to_the_allocation)
{
    const struct kva_model model = phi4_flash();
    struct kva_plan *plan = plan_of(&model, "exact", CONTEXT, 2);
    uint64_t sum = 0;
    ck_assert_uint_eq(plan->n_pools, 3);
    ck_assert_str_eq(plan->pools[0].name, "state");
    ck_assert_uint_eq(plan->pools[0].n_layers, 9);
    ck_assert_str_eq(plan->pools[1].name, "sliding 512");
    ck_assert_uint_eq(plan->pools[1].block_tokens, 512);
    ck_assert_uint_eq(plan->pools[1].blocks, 16);
    ck_assert_str_eq(plan->pools[2].name, "full");
    ck_assert_uint_eq(plan->pools[2].layers[0], 17);
    for (size_t p = 0; p < plan->n_pools; p++)
        sum += plan->pools[p].bytes;
    ck_assert_uint_eq(sum, plan->allocated);
    kva_plan_free(plan);
    plan = plan_of(&model, "full", CONTEXT, 1);
    ck_assert_uint_eq(plan->n_pools, 2);
    ck_assert_uint_eq(plan->pools[1].n_layers, 16);
    kva_plan_free(plan);
}
END_TEST

START_TEST(test_full_caches_of_two_head_sizes_are_two_pools)
{
    put_attention(0, "full", full(8, 64));
    put_attention(1, "full", full(4, 128));
    const struct kva_model model = model_of("two sizes", 2, 8, 64, 1024);
    struct kva_plan *plan = plan_of(&model, "exact", 1024, 1);
    ck_assert_uint_eq(plan->n_pools, 2);
    ck_assert_str_ne(plan->pools[0].name, plan->pools[1].name);
    kva_plan_free(plan);
}
END_TEST

// ---------------------------------------------------------------- blanks and bad input

static bool assumes(const struct kva_plan *plan, const char *part)
{
    for (size_t a = 0; a < plan->n_assumed; a++)
        if (strstr(plan->assumed[a], part) != NULL)
            return true;
    return false;
}

START_TEST(test_blanks_are_filled_and_said)
{
    const struct kva_model model = phi4_mini();
    struct kva_plan *plan;
    ck_assert_int_eq(kva_plan_make(NULL, &model, NULL, &plan, NULL), KVA_OK);
    ck_assert_str_eq(plan->deployment.engine, "exact");
    ck_assert_uint_eq(plan->deployment.context, 131072);
    ck_assert_uint_eq(plan->deployment.sequences, 1);
    ck_assert_int_eq(plan->deployment.kv_dtype, KVA_BF16);
    ck_assert_uint_eq(plan->n_assumed, 4);
    ck_assert(assumes(plan, "131,072") && assumes(plan, "torch_dtype") && assumes(plan, "exact") &&
              assumes(plan, "1 sequence"));
    kva_plan_free(plan);
}
END_TEST

START_TEST(test_nothing_is_assumed_when_all_is_said)
{
    const struct kva_model model = phi4_mini();
    const struct kva_deployment deployment = {
        .engine = "full", .context = 1024, .sequences = 2, .kv_dtype = KVA_BF16, .model_dtype = KVA_BF16};
    struct kva_plan *plan;
    ck_assert_int_eq(kva_plan_make(NULL, &model, &deployment, &plan, NULL), KVA_OK);
    ck_assert_uint_eq(plan->n_assumed, 0);
    kva_plan_free(plan);
}
END_TEST

START_TEST(test_a_context_beyond_the_limit_is_planned_and_said)
{
    const struct kva_model model = phi4_mini();
    struct kva_plan *plan = plan_of(&model, "exact", 262144, 1);
    ck_assert_uint_eq(plan->need, UINT64_C(17179869184) * 2);
    ck_assert(assumes(plan, "beyond"));
    kva_plan_free(plan);
}
END_TEST

START_TEST(test_a_config_without_a_dtype_is_taken_as_bf16_and_said)
{
    struct kva_model model = phi4_mini();
    model.dtype = KVA_DTYPE_NONE;
    model.dtype_key = NULL;
    struct kva_plan *plan = plan_of(&model, "exact", CONTEXT, 1);
    ck_assert_uint_eq(plan->need, 17179869184);
    ck_assert(assumes(plan, "names none"));
    kva_plan_free(plan);
}
END_TEST

static void refuse(const struct kva_model *model, const struct kva_deployment *deployment, enum kva_status status,
                   const char *part)
{
    struct kva_error error = {0};
    struct kva_plan *plan = (struct kva_plan *)&error;
    ck_assert_int_eq(kva_plan_make(NULL, model, deployment, &plan, &error), status);
    ck_assert_ptr_null(plan);
    ck_assert_msg(strstr(error.text, part) != NULL || strstr(error.key, part) != NULL, "%s: %s", error.key, error.text);
    ck_assert_int_eq(kva_plan_make(NULL, model, deployment, &plan, NULL), status);
}

START_TEST(test_an_unknown_context_is_an_error)
{
    struct kva_model model = phi4_mini();
    model.context_limit = 0;
    refuse(&model, &(struct kva_deployment){.engine = "exact"}, KVA_BAD_INPUT, "context");
}
END_TEST

START_TEST(test_an_unknown_engine_is_refused_with_the_known_ones)
{
    const struct kva_model model = phi4_mini();
    refuse(&model, &(struct kva_deployment){.engine = "vlllm"}, KVA_REFUSED, "exact");
    refuse(&model, &(struct kva_deployment){.engine = ""}, KVA_REFUSED, "full");
    refuse(&model, &(struct kva_deployment){.engine = "exact@1.0"}, KVA_REFUSED, "no versions");
}
END_TEST

START_TEST(test_no_count_wraps)
{
    const struct kva_model model = phi4_mini();
    const uint64_t huge = 1000000000000000000;  // 10^18 x 131072 > 2^64
    refuse(&model, &(struct kva_deployment){.engine = "exact", .context = huge}, KVA_BAD_INPUT, "2^64");
    refuse(&model, &(struct kva_deployment){.engine = "full", .context = UINT64_MAX}, KVA_BAD_INPUT, "2^64");
    refuse(&model, &(struct kva_deployment){.engine = "exact", .context = 1024, .sequences = UINT64_MAX}, KVA_BAD_INPUT,
           "2^64");
}
END_TEST

START_TEST(test_a_window_does_not_wrap_where_a_full_cache_does)
{
    const struct kva_cache window = sliding(8, 64, 128), every = full(8, 64);
    uint64_t bytes = 0;
    ck_assert_int_eq(kva_need_bytes(&window, UINT64_MAX, KVA_BF16, KVA_BF16, &bytes, NULL), KVA_OK);
    ck_assert_uint_eq(bytes, 128 * 2048);
    ck_assert_int_eq(kva_need_bytes(&every, UINT64_MAX, KVA_BF16, KVA_BF16, &bytes, NULL), KVA_BAD_INPUT);
    ck_assert_uint_eq(bytes, 128 * 2048);
}
END_TEST

START_TEST(test_hostile_shapes_do_not_wrap)
{
    struct kva_cache cache = full(UINT32_MAX, UINT32_MAX), state = mamba(UINT64_MAX, UINT64_MAX);
    uint64_t bytes;
    ck_assert_int_eq(kva_need_bytes(&cache, 2, KVA_F64, KVA_BF16, &bytes, NULL), KVA_BAD_INPUT);
    ck_assert_int_eq(kva_need_bytes(&state, 1, KVA_BF16, KVA_BF16, &bytes, NULL), KVA_BAD_INPUT);
    ck_assert_int_eq(kva_need_bytes(&state, 1, KVA_BF16, KVA_DTYPE_NONE, &bytes, NULL), KVA_BAD_INPUT);
}
END_TEST

START_TEST(test_a_model_without_layers_needs_nothing)
{
    const struct kva_model model = model_of("none", 0, 8, 64, 1024);
    struct kva_plan *plan = plan_of(&model, "full", 1024, 1);
    ck_assert_uint_eq(plan->need, 0);
    ck_assert_uint_eq(plan->n_pools, 0);
    ck_assert(plan->overpay_ratio == 1);
    kva_plan_free(plan);
}
END_TEST

// ---------------------------------------------------------------- the executor's footprint

static struct kva_value counts[] = {
    {.name = "heads", .type = KVA_COUNT, .count = 4},     {.name = "kv_heads", .type = KVA_COUNT, .count = 2},
    {.name = "head_dim", .type = KVA_COUNT, .count = 16}, {.name = "hidden", .type = KVA_COUNT, .count = 64},
    {.name = "vocab", .type = KVA_COUNT, .count = 1000},  {.name = "intermediate", .type = KVA_COUNT, .count = 128},
};
static struct kva_tensor tensors[] = {
    {.name = "embed", .layer = -1, .role = KVA_ROLE_EMBED, .dtype = KVA_BF16, .bytes = 1000 * 64 * 2},
    {.name = "norm", .layer = -1, .role = KVA_ROLE_FINAL_NORM, .dtype = KVA_BF16, .bytes = 128},
};
static struct kva_arch_decoder decoder;
static const struct kva_arch arch = {.decoder = &decoder};

// One full layer of 4 heads on 2 KV heads of 16, hidden 64.
static struct kva_model small(void)
{
    put_attention(0, "full", full(2, 16));
    struct kva_model model = model_of("small", 1, 2, 16, 1024);
    decoder = (struct kva_arch_decoder){0};
    model.values = counts;
    model.n_values = sizeof counts / sizeof *counts;
    model.tensors = tensors;
    model.n_tensors = sizeof tensors / sizeof *tensors;
    model.arch = &arch;
    model.rope_main = (struct kva_rope){.type = KVA_ROPE_DEFAULT, .partial = 1};
    return model;
}

// By the rules of docs/executor-memory.md, 10 rows, 2 sequences, 2 rows of logits, bf16; buffers in multiples of 256:
//   rope 8 x 4 -> 256; tokens, positions, two lists of spans, last_index -> 5 x 256; residual 2560; normed 1280;
//   mixer_in 10 x (4 + 2 x 2) x 16 x 2 = 2560; mixer_out 1280; gate_up 5120; ffn_act 2560; head_in 256;
//   logits 8000 -> 8192; chosen 256; scratch 2 x 4 x 64 x 18 x 4 = 36864.   Together 62464.
START_TEST(test_footprint_of_a_small_model)
{
    const struct kva_model model = small();
    struct kva_plan *plan = plan_of(&model, "exact", 100, 2);
    const struct kva_footprint_options options = {.rows = 10, .logit_rows = 2, .page_bytes = 4096, .workspace = 5000};
    struct kva_footprint footprint;
    struct kva_error error = {0};
    ck_assert_msg(kva_footprint(plan, &options, &footprint, &error) == KVA_OK, "%s", error.text);
    ck_assert_uint_eq(footprint.weights, 128000 + 256);
    ck_assert_uint_eq(footprint.cache, 100 * 2 * 2 * 32 * 2);
    ck_assert_uint_eq(footprint.activations, 62464);
    ck_assert_uint_eq(footprint.workspace, 5000);
    ck_assert_uint_eq(footprint.allocations, 4);
    ck_assert_uint_eq(footprint.given, 131072 + 28672 + 65536 + 8192);
    kva_plan_free(plan);
}
END_TEST

START_TEST(test_footprint_refuses_what_the_executor_does_not_run)
{
    struct kva_model model = small();
    const struct kva_footprint_options options = {.rows = 10, .logit_rows = 2, .page_bytes = 4096};
    struct kva_footprint footprint;
    struct kva_plan *plan = plan_of(&model, "exact", 100, 2);
    model.n_values = 2;
    ck_assert_int_eq(kva_footprint(plan, &options, &footprint, NULL), KVA_REFUSED);
    model.arch = NULL;
    ck_assert_int_eq(kva_footprint(plan, &options, &footprint, NULL), KVA_REFUSED);
    kva_plan_free(plan);
}
END_TEST

START_TEST(test_footprint_does_not_wrap)
{
    const struct kva_model model = small();
    const struct kva_footprint_options options = {.rows = UINT64_MAX / 4, .logit_rows = 2, .page_bytes = 4096};
    struct kva_footprint footprint;
    struct kva_plan *plan = plan_of(&model, "exact", 100, 2);
    ck_assert_int_eq(kva_footprint(plan, &options, &footprint, NULL), KVA_BAD_INPUT);
    kva_plan_free(plan);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plan");
    TCase *known = tcase_create("known models"), *rules = tcase_create("rules"), *input = tcase_create("input"),
          *footprint = tcase_create("footprint");
    tcase_add_test(known, test_gemma3_27b_needs_10_41_gib);
    tcase_add_test(known, test_gpt_oss_20b_needs_half_of_naive);
    tcase_add_test(known, test_phi4_mini_has_an_inert_window);
    tcase_add_test(known, test_phi4_flash_needs_a_thirtieth_of_naive);
    tcase_add_test(known, test_phi4_flash_under_full);
    tcase_add_test(known, test_phi3_mini_4k_naive_bytes_per_token);
    tcase_add_test(rules, test_a_window_keeps_no_more_than_the_context);
    tcase_add_test(rules, test_a_state_has_the_size_it_has);
    tcase_add_test(rules, test_latent_index_and_chunked_caches);
    tcase_add_test(rules, test_a_layer_that_reads_another_needs_nothing);
    tcase_add_test(rules, test_sequences_multiply_everything);
    tcase_add_test(rules, test_kv_dtype_leaves_states_alone);
    tcase_add_test(rules, test_pools_are_one_for_each_shape_and_sum_to_the_allocation);
    tcase_add_test(rules, test_full_caches_of_two_head_sizes_are_two_pools);
    tcase_add_test(input, test_blanks_are_filled_and_said);
    tcase_add_test(input, test_nothing_is_assumed_when_all_is_said);
    tcase_add_test(input, test_a_context_beyond_the_limit_is_planned_and_said);
    tcase_add_test(input, test_a_config_without_a_dtype_is_taken_as_bf16_and_said);
    tcase_add_test(input, test_an_unknown_context_is_an_error);
    tcase_add_test(input, test_an_unknown_engine_is_refused_with_the_known_ones);
    tcase_add_test(input, test_no_count_wraps);
    tcase_add_test(input, test_a_window_does_not_wrap_where_a_full_cache_does);
    tcase_add_test(input, test_hostile_shapes_do_not_wrap);
    tcase_add_test(input, test_a_model_without_layers_needs_nothing);
    tcase_add_test(footprint, test_footprint_of_a_small_model);
    tcase_add_test(footprint, test_footprint_refuses_what_the_executor_does_not_run);
    tcase_add_test(footprint, test_footprint_does_not_wrap);
    suite_add_tcase(suite, known);
    suite_add_tcase(suite, rules);
    suite_add_tcase(suite, input);
    suite_add_tcase(suite, footprint);
    return unit_run(suite);
}
