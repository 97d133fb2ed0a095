// TensorRT-LLM's pools. Expected numbers are worked out from the formulas named in the comments
// (resource_manager.py, kv_cache_manager_v2.py, _storage_manager.py), or are lines of real logs.
#include "engine_unit.h"

static struct kva_atlas *atlas;

static void setup(void)
{
    ck_assert_int_eq(kva_atlas_open(NULL, &atlas, NULL), KVA_OK);
}

static void teardown(void)
{
    kva_atlas_close(atlas);
}

// ---------------------------------------------------------------- configs that the catalogue has not

#define LLAMA2_7B                                                                                                      \
    "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"num_hidden_layers\":32,"                     \
    "\"hidden_size\":4096,\"num_attention_heads\":32,\"num_key_value_heads\":32,\"max_position_embeddings\":4096,"     \
    "\"torch_dtype\":\"float16\"}"

#define TEN_HEADS                                                                                                      \
    "{\"architectures\":[\"Phi3ForCausalLM\"],\"model_type\":\"phi3\",\"num_hidden_layers\":40,\"hidden_size\":5120,"  \
    "\"num_attention_heads\":40,\"num_key_value_heads\":10,\"max_position_embeddings\":16384,"                         \
    "\"torch_dtype\":\"bfloat16\"}"

// ---------------------------------------------------------------- plans

static struct kva_plan *plan_of(const struct kva_model *model, const char *engine, const char *flags)
{
    return unit_plan(atlas, model, engine, flags);
}

// 40 GiB: blocks = floor(floor(bytes / bytes of a token) / 32)
START_TEST(test_blocks_of_a_budget)
{
    static const struct unit_line LINES[] = {
        {"meta-llama/Llama-3.1-8B-Instruct", "tensorrt-llm@1.0.0", "--kv-bytes=40GiB",
         "[MemUsageChange] Allocated 40.00 GiB for max tokens in paged KV cache (327680)."},
        {"meta-llama/Llama-3.1-8B-Instruct", "tensorrt-llm@1.2.0", "--kv-bytes=40GiB --kv-cache-dtype=fp8",
         "[MemUsageChange] Allocated 40.00 GiB for max tokens in paged KV cache (655360)."},
        // half a byte an element and a byte for each 16: 36,864 a token
        {"meta-llama/Llama-3.1-8B-Instruct", "tensorrt-llm@1.2.0", "--kv-bytes=40GiB --kv-cache-dtype=nvfp4",
         "Max KV cache blocks per sequence: 256 [window size=8192], tokens per block=32, primary blocks=36408, "
         "secondary "
         "blocks=0, max sequence length=8192"},
        {"deepseek-ai/DeepSeek-V3", "tensorrt-llm@1.2.0", "--kv-bytes=40GiB",
         "[MemUsageChange] Allocated 40.00 GiB for max tokens in paged KV cache (611168)."},
        {"deepseek-ai/DeepSeek-V3", "tensorrt-llm@1.2.0", "--kv-bytes=40GiB --kv-cache-dtype=fp8 --tp=8",
         "[MemUsageChange] Allocated 40.00 GiB for max tokens in paged KV cache (1222368)."},
        // every layer as long as the context: 73,728 and 507,904 a token
        {"openai/gpt-oss-120b", "tensorrt-llm@1.2.0", "--kv-bytes=40GiB --max-seq-len=131072",
         "[MemUsageChange] Allocated 40.00 GiB for max tokens in paged KV cache (582528)."},
        {"google/gemma-3-27b-it", "tensorrt-llm@1.2.0", "--kv-bytes=40GiB",
         "[MemUsageChange] Allocated 39.99 GiB for max tokens in paged KV cache (84544)."},
        // a pool for each window, half of the bytes each
        {"openai/gpt-oss-120b", "tensorrt-llm@1.2.0",
         "--kv-bytes=40GiB --max-seq-len=131072 --max-attention-window=128,131072",
         "[MemUsageChange] Allocated 40.00 GiB for max tokens in paged KV cache (1165056)."},
        {"openai/gpt-oss-120b", "tensorrt-llm@1.2.0",
         "--kv-bytes=40GiB --max-seq-len=131072 --max-attention-window=128,max",
         "Window size = 128, primary_blocks: 18204, secondary_blocks: 0"},
        // 52 x 8192 = 425,984 and 10 x 8192 = 81,920 bytes a token: 1,575 and 8,192 blocks
        {"google/gemma-3-27b-it", "tensorrt-llm@1.2.0",
         "--kv-bytes=40GiB --max-seq-len=131072 --max-attention-window=1024,1024,1024,1024,1024,max",
         "Window size = 1024, primary_blocks: 1575, secondary_blocks: 0"},
        {"google/gemma-3-27b-it", "tensorrt-llm@1.2.0",
         "--kv-bytes=40GiB --max-seq-len=131072 --max-attention-window=1024,1024,1024,1024,1024,max",
         "Max KV cache blocks per sequence: 4096 [window size=131072], tokens per block=32, primary blocks=8192, "
         "secondary blocks=0, max sequence length=131072"},
        // a quarter of the bytes for the short window: 40 GiB x 0.25 / 36,864 / 32 = 9,102 blocks
        {"openai/gpt-oss-120b", "tensorrt-llm@1.2.0",
         "--kv-bytes=40GiB --max-seq-len=131072 --max-attention-window=128,max --window-size-shares=0.25,0.75",
         "Window size = 128, primary_blocks: 9102, secondary_blocks: 0"},
        {"openai/gpt-oss-120b", "tensorrt-llm@1.3.0rc29", "--kv-bytes=40GiB --max-batch-size=64",
         "KV cache manager v2 device quota set to 40.0GiB"},
    };
    unit_check_lines(atlas, LINES, sizeof LINES / sizeof *LINES);
}
END_TEST

// Lines of real logs, from the tokens that they print.
START_TEST(test_real_logs)
{
    static const struct unit_line LINES[] = {
        {"moonshotai/Kimi-K2.5", "tensorrt-llm@1.3.0rc9",
         "--max-tokens=5073376 --kv-cache-dtype=fp8 --max-seq-len=262144",
         "Max KV cache blocks per sequence: 8192 [window size=262144], tokens per block=32, primary blocks=158543, "
         "secondary blocks=0, max sequence length=262144"},
        {"moonshotai/Kimi-K2.5", "tensorrt-llm@1.3.0rc9",
         "--max-tokens=5073376 --kv-cache-dtype=fp8 --max-seq-len=262144",
         "[MemUsageChange] Allocated 166.02 GiB for max tokens in paged KV cache (5073376)."},
        {"meta-llama/Llama-3.1-8B-Instruct", "tensorrt-llm@1.0.0", "--max-tokens=220480 --tokens-per-block=64",
         "[MemUsageChange] Allocated 26.91 GiB for max tokens in paged KV cache (220480)."},
        {"meta-llama/Llama-3.1-8B-Instruct", "tensorrt-llm@1.0.0", "--max-tokens=220480 --tokens-per-block=64",
         "Number of tokens per block: 64."},
        // 70.48 GiB were free, 0.9 of them
        {LLAMA2_7B, "tensorrt-llm@1.0.0", "--max-seq-len=4096 --max-tokens=259840 --tokens-per-block=64 --tp=2",
         "[MemUsageChange] Allocated 63.44 GiB for max tokens in paged KV cache (259840)."},
        {"openai/gpt-oss-120b", "tensorrt-llm@1.1.0", "--max-seq-len=131072 --max-tokens=262112 --tp=8",
         "[MemUsageChange] Allocated 2.25 GiB for max tokens in paged KV cache (262112)."},
        {"openai/gpt-oss-120b", "tensorrt-llm@1.1.0", "--max-seq-len=131072 --max-tokens=8224",
         "[MemUsageChange] Allocated 0.56 GiB for max tokens in paged KV cache (8224)."},
        {"openai/gpt-oss-120b", "tensorrt-llm@1.1.0", "--max-seq-len=131072 --max-tokens=8224",
         "Attention window size 131072 exceeds upper bound 8224 for available blocks. Reducing to 8224."},
    };
    unit_check_lines(atlas, LINES, sizeof LINES / sizeof *LINES);
}
END_TEST

// T(Q) of kv_cache_manager_v2.py
START_TEST(test_tokens_of_a_quota)
{
    static const struct {
        const char *model, *flags;
        uint64_t tokens;
    } CASES[] = {
        // full 36,864 and windowed 36,864 bytes a token; windows of 128 for 64 and for 2048 sequences
        {"openai/gpt-oss-120b", "--kv-bytes=40GiB --max-seq-len=131072 --max-batch-size=64", 1148700},
        {"openai/gpt-oss-120b", "--kv-bytes=40GiB --max-seq-len=131072 --max-batch-size=2048", 894748},
        {"openai/gpt-oss-120b", "--kv-bytes=40GiB --max-seq-len=131072", 894748},
        // 7 x 4096 and 35 x 2048, the layers that read another's cache among them; windows of 512
        {GEMMA4_E4B, "--kv-bytes=40GiB --max-seq-len=131072 --max-batch-size=64", 1395565},
        // no windows: 131,072 a token
        {"meta-llama/Llama-3.1-8B-Instruct", "--kv-bytes=40GiB", 327680},
        // chunks are not windows: 48 x 4096
        {"meta-llama/Llama-4-Scout-17B-16E-Instruct", "--kv-bytes=40GiB --max-batch-size=64", 218453},
        // two ranks: what 0.95 of the quota holds, 65,536 a token
        {"meta-llama/Llama-3.1-8B-Instruct", "--kv-bytes=40GiB --tp=2", 622592},
        // one window for all layers gives the derived ones up
        {"openai/gpt-oss-120b", "--kv-bytes=40GiB --max-seq-len=131072 --max-attention-window=131072", 582542},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct kva_model *model = unit_model(atlas, CASES[i].model);
        struct kva_plan *plan = plan_of(model, "tensorrt-llm@1.3.0rc29", CASES[i].flags);
        ck_assert_str_eq(plan->deployment.manager, "v2");
        ck_assert_msg(plan->capacity.tokens == CASES[i].tokens, "%s %s: %llu", CASES[i].model, CASES[i].flags,
                      (unsigned long long)plan->capacity.tokens);
        kva_plan_free(plan);
        kva_model_close(model);
    }
}
END_TEST

START_TEST(test_windows_asked_for)
{
    struct kva_model *model = unit_model(atlas, "openai/gpt-oss-120b");
    // V1, nothing said: 2048 bytes of each of 36 layers for 313 blocks
    struct kva_plan *plan = plan_of(model, "tensorrt-llm@1.2.0", "--context=10000 --sequences=2");
    ck_assert_uint_eq(plan->allocated, UINT64_C(2) * 313 * 32 * 73728);
    ck_assert_uint_eq(plan->layers[0].rows, 10016);
    kva_plan_free(plan);
    // V1 with windows: the short window's pool is as large as the long one's
    plan = plan_of(model, "tensorrt-llm@1.2.0", "--context=10000 --sequences=2 --max-attention-window=128,max");
    ck_assert_uint_eq(plan->allocated, UINT64_C(2) * 313 * 32 * 73728);
    kva_plan_free(plan);
    // a share of 0.02: 13 blocks in place of 626, of which two sequences need 5 each
    plan = plan_of(model, "tensorrt-llm@1.2.0",
                   "--context=10000 --sequences=2 --max-attention-window=128,max --window-size-shares=0.02,0.98");
    ck_assert_uint_eq(plan->layers[0].rows, 12 * 32 / 2);
    ck_assert_uint_eq(plan->layers[1].rows, 10016);
    kva_plan_free(plan);
    // V2: four blocks of a window for each sequence, and a pass of 1000 tokens
    plan = plan_of(model, "tensorrt-llm@1.3.0rc29", "--context=10000 --sequences=2 --max-num-tokens=1000");
    ck_assert_uint_eq(plan->layers[0].allocated, (UINT64_C(2) * 128 + 1000) * 2048);
    ck_assert_uint_eq(plan->layers[1].allocated, UINT64_C(2) * 10016 * 2048);
    kva_plan_free(plan);
    // V2 of a version that derives no windows
    plan = plan_of(model, "tensorrt-llm@1.3.0rc9", "--context=10000 --manager=v2");
    ck_assert_uint_eq(plan->layers[0].allocated, UINT64_C(10016) * 2048);
    kva_plan_free(plan);
    kva_model_close(model);
}
END_TEST

START_TEST(test_ranks)
{
    struct kva_model *model = unit_model(atlas, TEN_HEADS);
    // ceil(10 / 4) = 3 heads: 40 x 3 x 256 x 2 bytes a token
    struct kva_plan *plan = plan_of(model, "tensorrt-llm@1.2.0", "--context=3200 --tp=4");
    ck_assert_uint_eq(plan->allocated, UINT64_C(3200) * 40 * 3 * 256 * 2);
    kva_plan_free(plan);
    // attention on every rank: all heads
    plan = plan_of(model, "tensorrt-llm@1.2.0", "--context=3200 --tp=4 --enable-attention-dp");
    ck_assert_uint_eq(plan->allocated, UINT64_C(3200) * 40 * 10 * 256 * 2);
    kva_plan_free(plan);
    // 14, 13 and 13 layers: the first stage decides, 40 GiB / (14 x 5120) / 32
    plan = plan_of(model, "tensorrt-llm@1.2.0", "--context=3200 --pp=3 --kv-bytes=40GiB");
    ck_assert_uint_eq(plan->capacity.tokens, (UINT64_C(40) << 30) / (14 * 5120) / 32 * 32);
    ck_assert_uint_eq(plan->layers[13].stage, 0);
    ck_assert_uint_eq(plan->layers[14].stage, 1);
    kva_plan_free(plan);
    // two layers that draft, beside the forty
    plan = plan_of(model, "tensorrt-llm@1.2.0",
                   "--context=3200 --kv-bytes=40GiB --num-speculative-tokens=2 --draft-layers=2");
    ck_assert_uint_eq(plan->capacity.tokens, (UINT64_C(40) << 30) / (42 * 5120) / 32 * 32);
    kva_plan_free(plan);
    kva_model_close(model);
}
END_TEST

START_TEST(test_states)
{
    struct kva_model *model = unit_model(atlas, QWEN3_NEXT);
    // bf16, whatever mamba_ssm_dtype says: 36 x (8192 x 3 + 32 x 128 x 128) x 2 = 39,518,208 for each of two sequences;
    // one slot more is for padding; 12 layers keep 24,576 bytes a token
    struct kva_plan *plan = plan_of(model, "tensorrt-llm@1.3.0rc29", "--context=3200 --sequences=2 --manager=v1");
    ck_assert_uint_eq(plan->allocated, UINT64_C(3) * 39518208 + UINT64_C(2) * 3200 * 24576);
    ck_assert_uint_eq(plan->unassigned, 39518208);
    kva_plan_free(plan);
    plan = plan_of(model, "tensorrt-llm@1.3.0rc29",
                   "--context=3200 --sequences=2 --manager=v1 --mamba-ssm-cache-dtype=float32");
    ck_assert_uint_eq(plan->allocated, UINT64_C(3) * 77266944 + UINT64_C(2) * 3200 * 24576);
    kva_plan_free(plan);
    // with 64 sequences and one padding slot: (40 GiB - 65 x 39,518,208) / 24,576
    plan = plan_of(model, "tensorrt-llm@1.3.0rc29", "--context=3200 --manager=v1 --kv-bytes=40GiB --max-batch-size=64");
    ck_assert_uint_eq(plan->capacity.tokens, ((UINT64_C(40) << 30) - UINT64_C(65) * 39518208) / 24576 / 32 * 32);
    kva_plan_free(plan);
    // V2 is what auto is; how it divides its quota between states and rows is not known
    plan = plan_of(model, "tensorrt-llm@1.3.0rc29", "--context=3200 --kv-bytes=40GiB --max-batch-size=64");
    ck_assert_str_eq(plan->deployment.manager, "v2");
    ck_assert(!plan->capacity.known);
    kva_plan_free(plan);
    kva_model_close(model);
}
END_TEST

// _util.py: (total - peak) x fraction; a log says 139.81 GiB, a peak of 91.46, 0.85 of the rest, 41.11 with the
// temporary cache
START_TEST(test_budget)
{
    struct kva_model *model = unit_model(atlas, "deepseek-ai/DeepSeek-V3");
    struct kva_plan *plan =
        plan_of(model, "tensorrt-llm@1.2.0",
                "--kv-cache-dtype=fp8 --gpu-memory=139.81GiB --weight-bytes=80GiB --activation-bytes=11.46GiB "
                "--other-bytes=1 --free-gpu-memory-fraction=0.85");
    ck_assert_double_eq_tol((double)plan->capacity.budget / 0x1p30, 41.0975, 0.0001);
    kva_plan_free(plan);
    plan = plan_of(model, "tensorrt-llm@1.2.0",
                   "--gpu-memory=139GiB --weight-bytes=37GiB --activation-bytes=1GiB --other-bytes=1GiB");
    ck_assert_uint_eq(plan->capacity.budget, UINT64_C(90) << 30);  // nine tenths of 100 GiB
    kva_plan_free(plan);
    kva_model_close(model);
}
END_TEST

START_TEST(test_capacity)
{
    struct kva_model *model = unit_model(atlas, "openai/gpt-oss-120b");
    // 18,204 blocks, 4,096 of them a sequence
    struct kva_plan *plan = plan_of(model, "tensorrt-llm@1.2.0", "--kv-bytes=40GiB --max-seq-len=131072 --sequences=5");
    ck_assert_uint_eq(plan->capacity.sequences_at_context, 4);
    ck_assert(!plan->capacity.fits);
    ck_assert_uint_eq(plan->capacity.tokens, 582528);
    ck_assert_uint_eq(plan->capacity.max_context, 131072);  // the model's limit
    kva_plan_free(plan);
    // tokens alone do not size the pools of windows
    plan = plan_of(model, "tensorrt-llm@1.2.0", "--max-tokens=8224 --max-attention-window=128,max");
    ck_assert(!plan->capacity.known);
    kva_plan_free(plan);
    // Q(10000) / 0.95 is less than the bytes: 1000 windows of 128 are not, one of 64 is
    plan = plan_of(model, "tensorrt-llm@1.3.0rc29", "--kv-bytes=40GiB --max-tokens=10000 --max-batch-size=64");
    // Q(10000) = 10000 x 36,864 + 64 x 128 x 36,864 + 8192 x 36,864 = 972,619,776; / 0.95, to grains of 2 MiB
    ck_assert_uint_eq(plan->capacity.reserved, (UINT64_C(972619776) * 100 / 95 / 2097152 + 1) * 2097152);
    kva_plan_free(plan);
    kva_model_close(model);
}
END_TEST

// ---------------------------------------------------------------- refusals

START_TEST(test_refusals)
{
    static const struct unit_refusal CASES[] = {
        {"meta-llama/Llama-3.1-8B-Instruct", "tensorrt-llm@1.2.0", "--manager=v2", KVA_REFUSED, "not known to have"},
        {"meta-llama/Llama-3.1-8B-Instruct", "tensorrt-llm@1.2.0", "--manager=v3", KVA_BAD_INPUT, "v1, v2 and auto"},
        {"meta-llama/Llama-3.1-8B-Instruct", "tensorrt-llm@1.2.0", "--tokens-per-block=48", KVA_BAD_INPUT,
         "power of two"},
        {"meta-llama/Llama-3.1-8B-Instruct", "tensorrt-llm@1.2.0", "--tokens-per-block=1", KVA_BAD_INPUT,
         "power of two"},
        {"meta-llama/Llama-3.1-8B-Instruct", "tensorrt-llm@1.2.0", "--dcp=2", KVA_REFUSED, "context parallelism"},
        {"meta-llama/Llama-3.1-8B-Instruct", "tensorrt-llm@1.2.0", "--kv-cache-dtype=q8_0", KVA_BAD_INPUT,
         "not a cache type of TensorRT-LLM 1.2.0"},
        {"openai/gpt-oss-120b", "tensorrt-llm@1.1.0", "--max-attention-window=128,max", KVA_REFUSED, "is not known"},
        {"openai/gpt-oss-120b", "tensorrt-llm@1.2.0", "--max-attention-window=128,-1", KVA_BAD_INPUT, "not a list"},
        {"openai/gpt-oss-120b", "tensorrt-llm@1.2.0", "--max-attention-window=128,", KVA_BAD_INPUT, "not a list"},
        {"openai/gpt-oss-120b", "tensorrt-llm@1.2.0", "--max-attention-window=128,max --window-size-shares=0.5,0.6",
         KVA_BAD_INPUT, "not a share for each"},
        {"openai/gpt-oss-120b", "tensorrt-llm@1.2.0", "--max-attention-window=128,max --window-size-shares=1.0",
         KVA_BAD_INPUT, "not a share for each"},
        {"deepseek-ai/DeepSeek-V3", "tensorrt-llm@1.2.0", "--max-attention-window=128,max", KVA_BAD_INPUT,
         "one window for all"},
        {"google/gemma-4-26B-A4B", "tensorrt-llm@1.2.0", "", KVA_REFUSED, "manager v1 is not known to keep"},
        {"zai-org/GLM-5", "tensorrt-llm@1.1.0", "", KVA_REFUSED, "indexer"},
        {"deepseek-ai/DeepSeek-V4-Flash", "tensorrt-llm@1.3.0rc29", "", KVA_REFUSED, "not among the architectures"},
        {QWEN3_NEXT, "tensorrt-llm@1.2.0", "", KVA_REFUSED, "recurrent states was not read"},
        {QWEN3_NEXT, "tensorrt-llm@1.3.0rc29", "--tp=7", KVA_BAD_INPUT, "cannot be divided"},
        {"Qwen/Qwen3.5-27B", "tensorrt-llm@1.3.0rc29", "", KVA_REFUSED, "--kv-cache-manager"},
        {"tiiuae/Falcon-H1-0.5B", "tensorrt-llm@1.3.0rc29", "", KVA_REFUSED, "not among the architectures"},
        {"meta-llama/Llama-3.1-8B-Instruct", "tensorrt-llm@0.20.0", "", KVA_REFUSED, "1.0.0 to 1.3.0rc29"},
        {"meta-llama/Llama-3.1-8B-Instruct", "tensorrt-llm@1.3.0rc15", "", KVA_REFUSED,
         "lies between 1.3.0rc9 and 1.3.0rc29"},
        {"meta-llama/Llama-3.1-8B-Instruct", "tensorrt-llm@1.4.0rc1", "", KVA_REFUSED, "newer"},
    };
    unit_check_refusals(atlas, CASES, sizeof CASES / sizeof *CASES);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trtllm");
    TCase *lines = tcase_create("lines"), *bytes = tcase_create("bytes"), *refused = tcase_create("refused");
    TCase *cases[] = {lines, bytes, refused};
    tcase_add_test(lines, test_blocks_of_a_budget);
    tcase_add_test(lines, test_real_logs);
    tcase_add_test(bytes, test_tokens_of_a_quota);
    tcase_add_test(bytes, test_windows_asked_for);
    tcase_add_test(bytes, test_ranks);
    tcase_add_test(bytes, test_states);
    tcase_add_test(bytes, test_budget);
    tcase_add_test(bytes, test_capacity);
    tcase_add_test(refused, test_refusals);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tcase_add_checked_fixture(cases[i], setup, teardown);
        suite_add_tcase(suite, cases[i]);
    }
    return unit_run(suite);
}
