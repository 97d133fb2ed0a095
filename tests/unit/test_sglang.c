// SGLang's pools. Expected numbers are worked out from the formulas of the package named in the comment, come from
// running its own classes (model_executor/pool_configurator.py) with the same input, or are lines of real logs.
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

#define DEEPSEEK_V32                                                                                                   \
    "{\"architectures\":[\"DeepseekV32ForCausalLM\"],\"model_type\":\"deepseek_v32\",\"num_hidden_layers\":61,"        \
    "\"hidden_size\":7168,\"num_attention_heads\":128,\"num_key_value_heads\":128,\"kv_lora_rank\":512,"               \
    "\"qk_rope_head_dim\":64,\"qk_nope_head_dim\":128,\"v_head_dim\":128,\"index_head_dim\":128,"                      \
    "\"max_position_embeddings\":163840,\"torch_dtype\":\"bfloat16\"}"

#define NEMOTRON_NANO_9B                                                                                               \
    "{\"architectures\":[\"NemotronHForCausalLM\"],\"model_type\":\"nemotron_h\",\"num_hidden_layers\":56,"            \
    "\"hidden_size\":4480,\"num_attention_heads\":40,\"num_key_value_heads\":8,\"head_dim\":128,"                      \
    "\"hybrid_override_pattern\":\"M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-\","                        \
    "\"mamba_num_heads\":128,\"mamba_head_dim\":80,\"n_groups\":8,\"ssm_state_size\":128,\"conv_kernel\":4,"           \
    "\"max_position_embeddings\":131072,\"torch_dtype\":\"bfloat16\"}"

#define EMBEDDING_GEMMA                                                                                                \
    "{\"architectures\":[\"Gemma3TextModel\"],\"model_type\":\"gemma3_text\",\"num_hidden_layers\":24,"                \
    "\"hidden_size\":768,\"num_attention_heads\":3,\"num_key_value_heads\":1,\"head_dim\":256,"                        \
    "\"sliding_window\":512,\"sliding_window_pattern\":6,\"max_position_embeddings\":2048,\"torch_dtype\":"            \
    "\"bfloat16\"}"

#define QWEN3(layers, heads)                                                                                           \
    "{\"architectures\":[\"Qwen3ForCausalLM\"],\"model_type\":\"qwen3\",\"num_hidden_layers\":" #layers ","            \
    "\"hidden_size\":4096,\"num_attention_heads\":32,\"num_key_value_heads\":" #heads ",\"head_dim\":128,"             \
    "\"max_position_embeddings\":40960,\"torch_dtype\":\"bfloat16\"}"

#define JAMBA                                                                                                          \
    "{\"architectures\":[\"JambaForCausalLM\"],\"model_type\":\"jamba\",\"num_hidden_layers\":8,\"hidden_size\":4096," \
    "\"num_attention_heads\":32,\"num_key_value_heads\":8,\"attn_layer_period\":8,\"attn_layer_offset\":4,"            \
    "\"mamba_d_state\":16,\"mamba_d_conv\":4,\"mamba_expand\":2,\"max_position_embeddings\":4096,"                     \
    "\"torch_dtype\":\"bfloat16\"}"

// ---------------------------------------------------------------- lines

// 40 GiB of budget. cell = bytes of one token: tokens = floor(2^30 x 40 / cell), to whole pages.
START_TEST(test_tokens_of_a_budget)
{
    static const struct unit_line LINES[] = {
        // 32 layers x 8 x 256 x 2 = 131,072
        {"meta-llama/Llama-3.1-8B-Instruct", "sglang@0.5.16", "--kv-bytes=40GiB",
         "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 327680, K size: 20.00 GB, V size: 20.00 GB"},
        {"meta-llama/Llama-3.1-8B-Instruct", "sglang@0.4.6", "--kv-bytes=40GiB",
         "KV Cache is allocated. #tokens: 327680, K size: 20.00 GB, V size: 20.00 GB"},
        // 80 layers x 1 of 8 heads x 256 x 2 = 40,960
        {"meta-llama/Meta-Llama-3.1-70B", "sglang@0.5.16", "--kv-bytes=40GiB --tp=8",
         "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 1048576, K size: 20.00 GB, V size: 20.00 GB"},
        // half of 65,536 + a 16th of it: 36,864; since 0.5.16 one dequantised row more: 38,912
        {"meta-llama/Llama-3.1-8B-Instruct", "sglang@0.5.8", "--kv-bytes=40GiB --kv-cache-dtype=fp4_e2m1",
         "KV Cache is allocated. #tokens: 1165084, K size: 20.00 GB, V size: 20.00 GB"},
        {"meta-llama/Llama-3.1-8B-Instruct", "sglang@0.5.16", "--kv-bytes=40GiB --kv-cache-dtype=fp4_e2m1",
         "KV Cache is allocated. dtype: torch.float4_e2m1fn_x2, #tokens: 1103764, K size: 18.95 GB, V size: 18.95 GB"},
        // 65,536 + 65,536 / 32 = 67,584: mxfp8
        {"meta-llama/Llama-3.1-8B-Instruct", "sglang@0.5.16", "--kv-bytes=40GiB --kv-cache-dtype=mxfp8",
         "KV Cache is allocated. dtype: torch.float8_e4m3fn, #tokens: 635500, K size: 20.00 GB, V size: 20.00 GB"},
        // 61 x 576 x 2 = 70,272, on every rank
        {"deepseek-ai/DeepSeek-V3", "sglang@0.5.16", "--kv-bytes=40GiB --page-size=64",
         "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 611136, KV size: 40.00 GB"},
        {"deepseek-ai/DeepSeek-V3", "sglang@0.5.16", "--kv-bytes=40GiB --page-size=64 --tp=8",
         "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 611136, KV size: 40.00 GB"},
        // 61 x (1152 + 132) = 78,324 and, in fp8, 61 x (656 + 132) = 48,068; pages of 64 whatever the flag says
        {DEEPSEEK_V32, "sglang@0.5.8", "--kv-bytes=40GiB", "KV Cache is allocated. #tokens: 548352, KV size: 40.00 GB"},
        {DEEPSEEK_V32, "sglang@0.5.17", "--kv-bytes=40GiB --kv-cache-dtype=fp8_e4m3",
         "KV Cache is allocated. dtype: torch.float8_e4m3fn, #tokens: 893504, KV size: 40.00 GB"},
        // the backend trtllm keeps plain rows: 61 x (576 + 132) = 43,188
        {DEEPSEEK_V32, "sglang@0.5.17", "--kv-bytes=40GiB --kv-cache-dtype=fp8_e4m3 --attention-backend=trtllm_mla",
         "KV Cache is allocated. dtype: torch.float8_e4m3fn, #tokens: 994432, KV size: 40.00 GB"},
        // budgeted as 61 x (576 + 132), kept as 61 x (656 + 132): 11 % over the budget
        {DEEPSEEK_V32, "sglang@0.5.16", "--kv-bytes=40GiB --kv-cache-dtype=fp8_e4m3",
         "KV Cache is allocated. dtype: torch.float8_e4m3fn, #tokens: 994432, KV size: 44.52 GB"},
        // 62 x 16 x 256 x 2 = 507,904: every windowed layer as a full one
        {"google/gemma-3-27b-it", "sglang@0.5.16", "--kv-bytes=40GiB",
         "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 84562, K size: 20.00 GB, V size: 20.00 GB"},
    };
    unit_check_lines(atlas, LINES, sizeof LINES / sizeof *LINES);
}
END_TEST

START_TEST(test_pools_of_windowed_layers)
{
    static const struct unit_line LINES[] = {
        // 18 x 2048 + 0.8 x 18 x 2048 = 66,355.2
        {"openai/gpt-oss-120b", "sglang@0.5.16", "--kv-bytes=40GiB",
         "Use sliding window memory pool. full_layer_tokens=647269, swa_layer_tokens=517815"},
        {"openai/gpt-oss-120b", "sglang@0.5.16", "--kv-bytes=40GiB",
         "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 517815, K size: 8.89 GB, V size: 8.89 GB"},
        {"openai/gpt-oss-120b", "sglang@0.5.16", "--kv-bytes=40GiB",
         "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 647269, K size: 11.11 GB, V size: 11.11 GB"},
        {"openai/gpt-oss-120b", "sglang@0.5.16", "--kv-bytes=40GiB",
         "SWAKVPool mem usage: 40.00 GB, swa size: 517815, full size: 647269"},
        // floor(40 GiB / 73,728) = 582,542 first, then x 73,728 / 66,355.2
        {"openai/gpt-oss-120b", "sglang@0.5.9", "--kv-bytes=40GiB",
         "Use sliding window memory pool. full_layer_tokens=647268, swa_layer_tokens=517814"},
        // in layers: 582,542 x 36 / (0.8 x 18 + 18)
        {"openai/gpt-oss-120b", "sglang@0.5.8", "--kv-bytes=40GiB",
         "Use sliding window memory pool. full_layer_tokens=647268, swa_layer_tokens=517814"},
        {"openai/gpt-oss-120b", "sglang@0.5.16", "--kv-bytes=40GiB --disable-hybrid-swa-memory",
         "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 582542, K size: 20.00 GB, V size: 20.00 GB"},
        // not on the list yet, and taken off it by a backend and by speculative decoding
        {"openai/gpt-oss-120b", "sglang@0.5.7", "--kv-bytes=40GiB",
         "KV Cache is allocated. #tokens: 582542, K size: 20.00 GB, V size: 20.00 GB"},
        {"openai/gpt-oss-120b", "sglang@0.5.9", "--kv-bytes=40GiB --attention-backend=trtllm_mha",
         "KV Cache is allocated. #tokens: 582528, K size: 20.00 GB, V size: 20.00 GB"},
        {"openai/gpt-oss-120b", "sglang@0.5.8", "--kv-bytes=40GiB --speculative-num-draft-tokens=4 --draft-layers=1",
         "KV Cache is allocated. #tokens: 582542, K size: 20.00 GB, V size: 20.00 GB"},
        // 12 x 4096 + 0.8 x 36 x 4096 = 167,116.8
        {"meta-llama/Llama-4-Scout-17B-16E-Instruct", "sglang@0.5.16", "--kv-bytes=40GiB",
         "Use sliding window memory pool. full_layer_tokens=257003, swa_layer_tokens=205602"},
        // 7 x 4096 + 0.8 x 35 x 2048 = 86,016, the 18 layers that read another's cache among them
        {GEMMA4_E4B, "sglang@0.5.16", "--kv-bytes=40GiB",
         "Use sliding window memory pool. full_layer_tokens=499321, swa_layer_tokens=399456"},
        // Gemma-3 was on no list but between 0.4.9.post6 and 0.4.10.post2, where windows decided: 84,562 tokens of 62
        // layers, 84,562 x 62 / (0.8 x 52 + 10)
        {"google/gemma-3-27b-it", "sglang@0.4.10", "--kv-bytes=40GiB",
         "Use Sliding window memory pool. full_layer_tokens=101605, swa_layer_tokens=81284"},
        // MiMo-V2-Flash before the count of its windowed layers was right (its log: pull request 18039)
        {"XiaomiMiMo/MiMo-V2-Flash", "sglang@0.5.8", "--max-total-tokens=314368 --tp=4 --page-size=64",
         "Use sliding window memory pool. full_layer_tokens=375360, swa_layer_tokens=300288"},
        {"XiaomiMiMo/MiMo-V2-Flash", "sglang@0.5.8", "--max-total-tokens=314368 --tp=4 --page-size=64",
         "KV Cache is allocated. #tokens: 300288, K size: 8.38 GB, V size: 5.59 GB"},
    };
    unit_check_lines(atlas, LINES, sizeof LINES / sizeof *LINES);
}
END_TEST

// SWAChunkCapPoolConfigurator of 0.5.14 and 0.5.15, run with 40 GiB, 64 requests and chunks of 8192 tokens.
START_TEST(test_windowed_pool_sized_by_requests)
{
#define CAP "--kv-bytes=40GiB --max-running-requests=64 --disable-radix-cache --chunked-prefill-size=8192 "
    static const struct unit_line LINES[] = {
        {"openai/gpt-oss-120b", "sglang@0.5.14", CAP "--page-size=1",
         "SWAKVPool mem usage: 40.00 GB, swa size: 32833, full size: 1132251"},
        {"openai/gpt-oss-120b", "sglang@0.5.14", CAP "--page-size=64",
         "SWAKVPool mem usage: 40.00 GB, swa size: 40960, full size: 1124096"},
        {"openai/gpt-oss-120b", "sglang@0.5.14", CAP "--page-size=1 --speculative-num-draft-tokens=4 --draft-layers=1",
         "SWAKVPool mem usage: 40.00 GB, swa size: 57857, full size: 1107227"},
        {"openai/gpt-oss-120b", "sglang@0.5.15", CAP "--page-size=1 --speculative-num-draft-tokens=4 --draft-layers=1",
         "SWAKVPool mem usage: 38.00 GB, swa size: 57857, full size: 1048952"},
        {"openai/gpt-oss-120b", "sglang@0.5.14", CAP "--page-size=1 --max-total-tokens=100000",
         "SWAKVPool mem usage: 4.56 GB, swa size: 32833, full size: 100000"},
        // before it the ratio decides
        {"openai/gpt-oss-120b", "sglang@0.5.13", CAP "--page-size=1",
         "SWAKVPool mem usage: 40.00 GB, swa size: 517815, full size: 647269"},
    };
    unit_check_lines(atlas, LINES, sizeof LINES / sizeof *LINES);
}
END_TEST

// DSV4PoolConfigurator of 0.5.12, 0.5.15, 0.5.20 and 0.5.23, run with 120 GiB and DeepSeek-V4-Flash's ratios; 256
// requests are what SGLang sets for it.
START_TEST(test_deepseek_v4)
{
#define V4 "--context-length=1048576 --kv-bytes=120GiB"
#define FLASH "deepseek-ai/DeepSeek-V4-Flash"
    static const struct unit_line LINES[] = {
        {FLASH, "sglang@0.5.12", V4,
         "DSV4 pool sizes: full=8104960, swa=810496, c4=2026240, c128=63320, c4_state=50656, c128_state=810496"},
        {FLASH, "sglang@0.5.15", V4,
         "DSV4 pool sizes: full=16369152, swa=1636864, c4=4092288, c128=127884, c4_state=102304, c128_state=0"},
        {FLASH, "sglang@0.5.20", V4 " --swa-full-tokens-ratio=0.2",
         "DSV4 pool sizes: full=10910464, swa=2181888, c4=2727616, c128=85238, c4_state=136368, c128_state=0"},
        {FLASH, "sglang@0.5.20", V4 " --speculative-num-draft-tokens=4",
         "DSV4 pool sizes: full=13329152, swa=1332736, c4=3332288, c128=104134, c4_state=166592, c128_state=0"},
        // pages of 256 tokens throughout; the windowed pool: 256 requests, two chunks and 1,024 prefixes
        {FLASH, "sglang@0.5.23", V4 " --chunked-prefill-size=8192",
         "DSV4 SWA sizing: mode=cap, swa_tokens=606464, request_cap+headroom=606464, prefix_tails=1024"},
        {FLASH, "sglang@0.5.23", V4 " --chunked-prefill-size=8192",
         "DSV4 pool sizes: full=27390208, swa=606464, c4=6847552, c128=213986, c4_state=18952, c128_state=0"},
        {FLASH, "sglang@0.5.21", V4 " --chunked-prefill-size=8192 --speculative-num-draft-tokens=4",
         "DSV4 pool sizes: full=24587264, swa=641280, c4=6146816, c128=192088, c4_state=40080, c128_state=0"},
        {FLASH, "sglang@0.5.22", V4 " --swa-full-tokens-ratio=0.2",
         "DSV4 pool sizes: full=12276480, swa=2455296, c4=3069120, c128=95910, c4_state=76728, c128_state=0"},
        {FLASH, "sglang@0.5.23", V4 " --chunked-prefill-size=8192 --max-running-requests=64 --disable-radix-cache",
         "DSV4 pool sizes: full=32326400, swa=65792, c4=8081600, c128=252550, c4_state=2056, c128_state=0"},
        {FLASH, "sglang@0.5.23",
         V4 " --chunked-prefill-size=8192 --max-running-requests=64 --tp=4 --dp=4 --enable-dp-attention",
         "DSV4 pool sizes: full=32556032, swa=53504, c4=8139008, c128=254344, c4_state=1672, c128_state=0"},
    };
    unit_check_lines(atlas, LINES, sizeof LINES / sizeof *LINES);
}
END_TEST

START_TEST(test_states)
{
    static const struct unit_line LINES[] = {
        // a slot: 36 x (8192 x 3 x 2 + 32 x 128 x 128 x 4) = 77,266,944; 0.9 / 1.9 of 40 GiB hold 263, one of them for
        // padding since 0.5.17; 12 layers x 2 x 256 x 2 x 2 = 24,576 a token
        {QWEN3_NEXT, "sglang@0.5.16", "--kv-bytes=40GiB",
         "Mamba Cache is allocated. max_mamba_cache_size: 263, conv_state size: 0.44GB, ssm_state size: 18.56GB"},
        {QWEN3_NEXT, "sglang@0.5.17", "--kv-bytes=40GiB",
         "Mamba Cache is allocated. max_mamba_cache_size: 262, conv_state size: 0.43GB, ssm_state size: 18.49GB"},
        {QWEN3_NEXT, "sglang@0.5.17", "--kv-bytes=40GiB",
         "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 920754, K size: 10.54 GB, V size: 10.54 GB"},
        {QWEN3_NEXT, "sglang@0.5.17", "--kv-bytes=40GiB",
         "max_running_requests is capped to 52 by the mamba state cache (max_mamba_cache_size=262, 5 state slots per "
         "request)"},
        // halved on two ranks, the state in bf16 as the flag says
        {QWEN3_NEXT, "sglang@0.5.17", "--kv-bytes=40GiB --tp=2 --max-mamba-cache-size=99 --mamba-ssm-dtype=bfloat16",
         "Mamba Cache is allocated. max_mamba_cache_size: 99, conv_state size: 0.08GB, ssm_state size: 1.76GB"},
        // a real log: radix cache off and 48 requests make 48 slots; conv 27 x 12288 x 3 x 2, ssm 27 x 128 x 80 x 128 x
        // 4
        {NEMOTRON_NANO_9B, "sglang@0.5.16", "--kv-bytes=60GiB --disable-radix-cache --max-running-requests=48",
         "Mamba Cache is allocated. max_mamba_cache_size: 48, conv_state size: 0.09GB, ssm_state size: 6.46GB"},
        {NEMOTRON_NANO_9B, "sglang@0.5.16", "--max-total-tokens=2618868",
         "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 2618868, K size: 19.98 GB, V size: 19.98 GB"},
    };
    unit_check_lines(atlas, LINES, sizeof LINES / sizeof *LINES);
}
END_TEST

// Lines of real logs, from the tokens that they print.
START_TEST(test_real_logs)
{
    static const struct unit_line LINES[] = {
        {"meta-llama/Llama-3.1-8B-Instruct", "sglang@0.4.6", "--max-total-tokens=442750",
         "KV Cache is allocated. #tokens: 442750, K size: 27.02 GB, V size: 27.02 GB"},
        {"Qwen/Qwen2.5-0.5B", "sglang@0.5.8", "--max-total-tokens=20480",
         "KV Cache is allocated. #tokens: 20480, K size: 0.12 GB, V size: 0.12 GB"},
        {"moonshotai/Kimi-K2.5", "sglang@0.5.9", "--max-total-tokens=2454421 --tp=8",
         "KV Cache is allocated. #tokens: 2454421, KV size: 160.63 GB"},
        {"moonshotai/Kimi-K2-Instruct", "sglang@0.5.5", "--max-total-tokens=8050 --tp=8",
         "KV Cache is allocated. #tokens: 8050, KV size: 0.53 GB"},
        // 24 GDN layers of 32 value heads on two ranks, 186 slots and one for padding
        {"Qwen/Qwen3.5-27B", "sglang@0.5.16", "--max-total-tokens=330323 --max-mamba-cache-size=124",
         "Mamba Cache is allocated. max_mamba_cache_size: 124, conv_state size: 0.34GB, ssm_state size: 17.58GB"},
        {"Qwen/Qwen3.5-27B", "sglang@0.5.16", "--max-total-tokens=330323 --max-mamba-cache-size=124",
         "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 330323, K size: 10.08 GB, V size: 10.08 GB"},
        {"Qwen/Qwen3.5-27B", "sglang@0.5.12", "--max-total-tokens=535124",
         "KV Cache is allocated. #tokens: 535124, K size: 16.33 GB, V size: 16.33 GB"},
        {"Qwen/Qwen3.5-27B", "sglang@0.5.16", "--max-total-tokens=499968 --kv-cache-dtype=fp8_e4m3",
         "KV Cache is allocated. dtype: torch.float8_e4m3fn, #tokens: 499968, K size: 7.63 GB, V size: 7.63 GB"},
        {GEMMA4_E4B, "sglang@0.5.12", "--max-total-tokens=805556",
         "KV Cache is allocated. #tokens: 644444, K size: 21.51 GB, V size: 21.51 GB"},
        {GEMMA4_E4B, "sglang@0.5.12", "--max-total-tokens=805556",
         "KV Cache is allocated. #tokens: 805556, K size: 10.76 GB, V size: 10.76 GB"},
        {GEMMA4_E4B, "sglang@0.5.13", "--max-total-tokens=997846",
         "SWAKVPool mem usage: 79.94 GB, swa size: 798276, full size: 997846"},
        {"google/gemma-4-26B-A4B", "sglang@0.5.13", "--max-total-tokens=37081 --kv-cache-dtype=fp8_e4m3",
         "SWAKVPool mem usage: 3.18 GB, swa size: 29664, full size: 37081"},
        {"google/gemma-4-26B-A4B", "sglang@0.5.13", "--max-total-tokens=70656 --page-size=256",
         "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 56320, K size: 5.40 GB, V size: 5.40 GB"},
        {"google/gemma-4-26B-A4B", "sglang@0.5.13", "--max-total-tokens=70656 --page-size=256",
         "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 70656, K size: 0.68 GB, V size: 0.68 GB"},
        {GEMMA4_E4B, "sglang@0.5.16", "--max-total-tokens=1710",
         "Use sliding window memory pool. full_layer_tokens=1710, swa_layer_tokens=1368"},
        {EMBEDDING_GEMMA, "sglang@0.5.16", "--context-length=2048 --max-total-tokens=6247850",
         "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 6247850, K size: 71.50 GB, V size: 71.50 GB"},
        // the padding page of 64 tokens shows in the second decimal
        {QWEN3(64, 8), "sglang@0.5.9", "--max-total-tokens=281216 --kv-cache-dtype=fp8_e5m2 --page-size=64",
         "KV Cache is allocated. #tokens: 281216, K size: 17.17 GB, V size: 17.17 GB"},
        {QWEN3(36, 8), "sglang@0.5.9", "--max-total-tokens=430067",
         "KV Cache is allocated. #tokens: 430067, K size: 29.53 GB, V size: 29.53 GB"},
        {QWEN3(94, 4), "sglang@0.4.9", "--max-total-tokens=367404 --tp=4",
         "KV Cache is allocated. #tokens: 367404, K size: 8.23 GB, V size: 8.23 GB"},
        // target and draft have slots for the same tokens
        {QWEN3(16, 8), "sglang@0.5.9",
         "--max-total-tokens=262144 --kv-cache-dtype=fp8_e4m3 --tp=2 "
         "--speculative-num-draft-tokens=4 --draft-layers=1",
         "KV Cache is allocated. #tokens: 262144, K size: 0.13 GB, V size: 0.13 GB"},
    };
    unit_check_lines(atlas, LINES, sizeof LINES / sizeof *LINES);
}
END_TEST

// ---------------------------------------------------------------- what the sequences asked for take

static struct kva_plan *plan_of(const struct kva_model *model, const char *engine, const char *flags)
{
    return unit_plan(atlas, model, engine, flags);
}

static uint64_t layers_bytes(const struct kva_plan *plan)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < plan->n_layers; i++)
        bytes += plan->layers[i].allocated;
    return bytes;
}

static uint64_t pool_bytes(const struct kva_plan *plan, const char *name)
{
    for (size_t p = 0; p < plan->n_pools; p++)
        if (strcmp(plan->pools[p].name, name) == 0)
            return plan->pools[p].bytes;
    ck_abort_msg("no pool is called %s", name);
}

START_TEST(test_sequences_asked_for)
{
    struct kva_model *llama = unit_model(atlas, "meta-llama/Llama-3.1-8B-Instruct");
    struct kva_plan *plan = plan_of(llama, "sglang@0.5.16", "--context=1000 --sequences=3 --page-size=64");
    // 1000 tokens are 16 pages of 64: 1024 rows of 131,072 bytes; one page more is for padded tokens
    ck_assert_uint_eq(layers_bytes(plan), UINT64_C(3) * 1024 * 131072);
    ck_assert_uint_eq(pool_bytes(plan, "full"), (UINT64_C(3) * 1024 + 64) * 131072);
    // 3072 / 1000 x 512 are fewer than 2048 requests, of which half the tokens, 1536, may run; one row is for padding
    ck_assert_uint_eq(pool_bytes(plan, "tokens of requests"), UINT64_C(1537) * 1004 * 4);
    ck_assert_uint_eq(plan->allocated, layers_bytes(plan) + plan->unassigned);
    ck_assert_uint_eq(plan->unassigned, UINT64_C(64) * 131072 + UINT64_C(1537) * 1004 * 4);
    kva_plan_free(plan);
    kva_model_close(llama);
}
END_TEST

START_TEST(test_windows_asked_for)
{
    struct kva_model *gpt_oss = unit_model(atlas, "openai/gpt-oss-120b");
    struct kva_plan *plan = plan_of(gpt_oss, "sglang@0.5.16", "--context=10000");
    ck_assert_uint_eq(plan->layers[0].rows, 8000);  // windowed: 0.8 of the full pool, for a window of 128
    ck_assert_uint_eq(plan->layers[1].rows, 10000);
    ck_assert_uint_eq(pool_bytes(plan, "windowed slots of tokens"), UINT64_C(10002) * 8);
    kva_plan_free(plan);
    // as long as the window is not full the windowed pool must hold all tokens, so the full one grows
    plan = plan_of(gpt_oss, "sglang@0.5.16", "--context=100");
    ck_assert_uint_eq(plan->layers[0].rows, 100);
    ck_assert_uint_eq(plan->layers[1].rows, 125);
    kva_plan_free(plan);
    plan = plan_of(gpt_oss, "sglang@0.5.7", "--context=10000");
    ck_assert_uint_eq(plan->layers[0].rows, 10000);
    kva_plan_free(plan);
    kva_model_close(gpt_oss);
}
END_TEST

START_TEST(test_layers_that_share_get_buffers)
{
    struct kva_model *model = unit_model(atlas, GEMMA4_E4B);
    struct kva_plan *plan = plan_of(model, "sglang@0.5.16", "--context=10000");
    ck_assert_int_ge(plan->layers[41].reads_layer, 0);
    ck_assert_uint_eq(plan->layers[41].allocated, UINT64_C(10000) * 4096);
    ck_assert_uint_eq(plan->layers[40].allocated, UINT64_C(8000) * 2048);
    kva_plan_free(plan);
    kva_model_close(model);
}
END_TEST

START_TEST(test_slots_of_a_request)
{
    struct kva_model *model = unit_model(atlas, QWEN3_NEXT);
    static const struct {
        const char *engine, *flags;
        uint64_t slots;
    } CASES[] = {{"sglang@0.5.13", "--context=1000 --sequences=2", 3},
                 {"sglang@0.5.14", "--context=1000 --sequences=2", 5},
                 {"sglang@0.5.14", "--context=1000 --sequences=2 --disable-radix-cache", 1},
                 {"sglang@0.5.7", "--context=1000 --sequences=2", 5}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct kva_plan *plan = plan_of(model, CASES[i].engine, CASES[i].flags);
        ck_assert_uint_eq(plan->layers[0].allocated, 2 * CASES[i].slots * (77266944 / 36));
        ck_assert_uint_eq(pool_bytes(plan, "states"), (2 * CASES[i].slots + 1) * 77266944);
        kva_plan_free(plan);
    }
    kva_model_close(model);
}
END_TEST

START_TEST(test_ranks)
{
    struct kva_model *llama = unit_model(atlas, "meta-llama/Meta-Llama-3.1-70B");
    // get_pp_indices: 26, 27 and 27 layers; the budget of the larger ones decides: 40 GiB / (27 x 4096)
    struct kva_plan *plan = plan_of(llama, "sglang@0.5.16", "--kv-bytes=40GiB --pp=3");
    ck_assert_uint_eq(plan->capacity.tokens, (UINT64_C(40) << 30) / (27 * 4096));
    ck_assert_uint_eq(plan->layers[25].stage, 0);
    ck_assert_uint_eq(plan->layers[26].stage, 1);
    ck_assert_uint_eq(plan->layers[53].stage, 2);
    kva_plan_free(plan);
    // data-parallel attention: each of two groups of four ranks divides the heads by four
    plan = plan_of(llama, "sglang@0.5.16", "--context=1000 --tp=8 --dp=2 --enable-dp-attention");
    ck_assert_uint_eq(layers_bytes(plan), UINT64_C(1000) * 80 * 2 * 256 * 2);
    ck_assert_uint_eq(plan->total_allocated, plan->allocated * 8);
    kva_plan_free(plan);
    // 16 ranks copy the 8 heads
    plan = plan_of(llama, "sglang@0.5.16", "--context=1000 --tp=16");
    ck_assert_uint_eq(layers_bytes(plan), UINT64_C(1000) * 80 * 1 * 256 * 2);
    kva_plan_free(plan);
    kva_model_close(llama);
}
END_TEST

// server_args.py: 81559 MiB, chunks of 8192 tokens, graphs of up to 256 requests.
START_TEST(test_fraction_of_memory)
{
    struct kva_model *llama = unit_model(atlas, "meta-llama/Llama-3.1-8B-Instruct");
    static const struct {
        const char *engine, *flags;
        double fraction;
    } CASES[] = {
        {"sglang@0.4.6", "", 0.88},
        {"sglang@0.4.6", "--tp=8", 0.81},
        {"sglang@0.5.2", "", 0.874},   // 81559 - 1024 x (9.5 + 0.5) = 71,319
        {"sglang@0.5.9", "", 0.835},   // 512 + 12,288 + 512 + 128 = 13,440
        {"sglang@0.5.10", "", 0.830},  // and 8 MiB for each of 58 sizes of prefill graphs
        {"sglang@0.5.23", "", 0.830},
        {"sglang@0.5.23", "--max-running-requests=16", 0.835},    // 480 MiB less for decode graphs
        {"sglang@0.5.23", "--chunked-prefill-size=2048", 0.874},  // the floor of 10,240 MiB
        {"sglang@0.5.23", "--mem-fraction-static=0.7", 0.7},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        char flags[256];
        snprintf(flags, sizeof flags, "--gpu-bytes=85520809984 --weight-bytes=16060522496 %s", CASES[i].flags);
        struct kva_plan *plan = plan_of(llama, CASES[i].engine, flags);
        ck_assert_msg(plan->deployment.memory_fraction == CASES[i].fraction, "%s %s: %.4f, not %.4f", CASES[i].engine,
                      CASES[i].flags, plan->deployment.memory_fraction, CASES[i].fraction);
        kva_plan_free(plan);
    }
    // what is free after the weights, less what the fraction leaves: 0.7 x 85,520,809,984 - 16,060,522,496
    struct kva_plan *plan =
        plan_of(llama, "sglang@0.5.23", "--gpu-bytes=85520809984 --weight-bytes=16060522496 --mem-fraction-static=0.7");
    ck_assert_uint_ge(plan->capacity.budget, UINT64_C(43804044491));
    ck_assert_uint_le(plan->capacity.budget, UINT64_C(43804044493));
    ck_assert_uint_eq(plan->capacity.tokens, UINT64_C(43804044492) / 131072);
    kva_plan_free(plan);
    kva_model_close(llama);
}
END_TEST

// With draft tokens 48 requests may run where the flag says nothing.
START_TEST(test_requests_that_may_run)
{
    struct kva_model *model = unit_model(atlas, "meta-llama/Llama-3.1-8B-Instruct");
    struct kva_plan *plan = plan_of(model, "sglang@0.5.16", "--context=1024 --kv-bytes=40GiB");
    ck_assert_uint_eq(plan->capacity.sequences_at_context, 320);
    kva_plan_free(plan);
    plan = plan_of(model, "sglang@0.5.16", "--context=1024 --kv-bytes=40GiB --speculative-num-draft-tokens=4");
    ck_assert_uint_eq(plan->capacity.sequences_at_context, 48);
    kva_plan_free(plan);
    plan = plan_of(model, "sglang@0.5.16",
                   "--context=1024 --kv-bytes=40GiB --speculative-num-draft-tokens=4 --max-running-requests=100");
    ck_assert_uint_eq(plan->capacity.sequences_at_context, 100);
    kva_plan_free(plan);
    kva_model_close(model);
}
END_TEST

START_TEST(test_capacity)
{
    struct kva_model *model = unit_model(atlas, QWEN3_NEXT);
    // 263 slots, three a request
    struct kva_plan *plan = plan_of(model, "sglang@0.5.13", "--context=1000 --kv-bytes=40GiB");
    ck_assert_uint_eq(plan->capacity.sequences_at_context, 87);
    ck_assert(plan->capacity.fits);
    kva_plan_free(plan);
    kva_model_close(model);
    model = unit_model(atlas, FLASH);
    plan = plan_of(model, "sglang@0.5.23", "--context=65536 --kv-bytes=5GiB --chunked-prefill-size=8192");
    ck_assert_str_eq(plan->deployment.kv_type, "fp8_e4m3");
    ck_assert_str_eq(plan->capacity.refusal,
                     "The DSV4 SWA pool cap (606464 tokens, 18.00 GB) leaves no room for the full KV pool within the "
                     "available 5.00 GB. Reduce --max-running-requests, lower --swa-prefix-tails or "
                     "SGLANG_SWA_EVICTION_INTERVAL, or increase --mem-fraction-static.");
    kva_plan_free(plan);
    plan = plan_of(model, "sglang@0.5.23", "--context=65536 --kv-bytes=30MiB --swa-full-tokens-ratio=0.1");
    ck_assert_ptr_nonnull(plan->capacity.refusal);
    kva_plan_free(plan);
    kva_model_close(model);
    // without attention the tokens are as many as one sequence may have (_zero_kv_max_tokens), however long
    model = unit_model(atlas, "tiiuae/falcon-mamba-7b");
    plan = plan_of(model, "sglang@0.5.23", "--context=4096 --kv-bytes=40GiB");
    ck_assert_uint_eq(plan->capacity.tokens, 4096);
    ck_assert_uint_eq(plan->capacity.sequences_at_context, 1);
    ck_assert_uint_eq(plan->capacity.max_context, KVA_UNKNOWN);
    kva_plan_free(plan);
    kva_model_close(model);
    model = unit_model(atlas, "openai/gpt-oss-120b");
    plan = plan_of(model, "sglang@0.5.16", "--context=100000 --kv-bytes=40GiB --sequences=7");
    ck_assert_uint_eq(plan->capacity.sequences_at_context, 6);
    ck_assert_uint_eq(plan->capacity.tokens, 647269);
    ck_assert_uint_eq(plan->capacity.max_context, 131072);  // the model's limit
    ck_assert(!plan->capacity.fits);
    ck_assert_ptr_null(plan->capacity.refusal);  // SGLang starts all the same
    kva_plan_free(plan);
    plan = plan_of(model, "sglang@0.5.16", "--kv-bytes=10MiB");
    // 10 MiB / 66,355.2 = 158 and 126 tokens, and the engine's window is 127
    ck_assert_str_eq(
        plan->capacity.refusal,
        "SWA pool (126 tokens) cannot hold even one request: the prefill admission floor is "
        "sliding_window_size (127) + page_size (1). Increase --swa-full-tokens-ratio or the total KV budget.");
    kva_plan_free(plan);
    plan = plan_of(model, "sglang@0.5.15", "--kv-bytes=10MiB");
    ck_assert_ptr_null(plan->capacity.refusal);
    kva_plan_free(plan);
    plan = plan_of(model, "sglang@0.5.15", "--kv-bytes=10000");
    ck_assert_str_eq(plan->capacity.refusal, "Not enough memory. Please try to increase --mem-fraction-static.");
    ck_assert(!plan->capacity.fits);
    kva_plan_free(plan);
    kva_model_close(model);
}
END_TEST

START_TEST(test_pages)
{
    static const struct {
        const char *model, *flags;
        uint64_t page;
    } CASES[] = {{"meta-llama/Llama-3.1-8B-Instruct", "", 1},
                 {"meta-llama/Llama-3.1-8B-Instruct", "--attention-backend=fa3", 1},
                 {"meta-llama/Llama-3.1-8B-Instruct", "--attention-backend=trtllm_mha", 64},
                 {"meta-llama/Llama-3.1-8B-Instruct", "--attention-backend=trtllm_mha --page-size=32", 32},
                 {"deepseek-ai/DeepSeek-V3", "--attention-backend=flashmla --page-size=1", 64},
                 {"deepseek-ai/DeepSeek-V3", "--attention-backend=cutlass_mla", 128},
                 {DEEPSEEK_V32, "--page-size=1", 64}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct kva_model *model = unit_model(atlas, CASES[i].model);
        struct kva_plan *plan = plan_of(model, "sglang@0.5.16", CASES[i].flags);
        ck_assert_uint_eq(plan->deployment.block_size, CASES[i].page);
        kva_plan_free(plan);
        kva_model_close(model);
    }
}
END_TEST

// ---------------------------------------------------------------- refusals

START_TEST(test_refusals)
{
    static const struct unit_refusal CASES[] = {
        {JAMBA, "sglang@0.5.16", "", KVA_REFUSED, "not among the architectures"},
        {QWEN3_NEXT, "sglang@0.5.2", "", KVA_REFUSED, "was not read"},
        {QWEN3_NEXT, "sglang@0.5.16", "--pp=2", KVA_REFUSED, "several stages"},
        {QWEN3_NEXT, "sglang@0.5.16", "--tp=64", KVA_BAD_INPUT, "cannot be divided"},
        {QWEN3(36, 16), "sglang@0.5.16", "--tp=3", KVA_BAD_INPUT, "16 KV heads cannot be divided among 3 ranks"},
        {"meta-llama/Llama-3.1-8B-Instruct", "sglang@0.5.16", "--dcp=2", KVA_REFUSED, "context parallelism"},
        {"meta-llama/Llama-3.1-8B-Instruct", "sglang@0.5.16", "--tp=8 --dp=3 --enable-dp-attention", KVA_BAD_INPUT,
         "cannot be divided"},
        {"meta-llama/Llama-3.1-8B-Instruct", "sglang@0.5.16", "--kv-cache-dtype=q8_0", KVA_BAD_INPUT,
         "not a cache type of SGLang 0.5.16"},
        {"meta-llama/Llama-3.1-8B-Instruct", "sglang@0.5.23", "--kv-cache-dtype=fp4_e2m1", KVA_BAD_INPUT,
         "not a cache type"},
        {"openai/gpt-oss-120b", "sglang@0.5.16", "--kv-cache-dtype=nvfp4", KVA_REFUSED, "windowed layers"},
        {"openai/gpt-oss-120b", "sglang@0.5.16", "--swa-full-tokens-ratio=1.5", KVA_BAD_INPUT, "at most 1"},
        {"openai/gpt-oss-120b", "sglang@0.5.16", "--swa-full-tokens-ratio=0.0001", KVA_BAD_INPUT, "at least 0.001"},
        {"openai/gpt-oss-120b", "sglang@0.5.16", "--max-running-requests=10000000000", KVA_BAD_INPUT,
         "beyond what any machine has"},
        {"deepseek-ai/DeepSeek-V4-Flash", "sglang@0.5.16", "--attention-backend=trtllm_mha", KVA_BAD_INPUT,
         "multiple of 128"},
        {"google/gemma-3-27b-it", "sglang@0.4.10", "--page-size=16", KVA_BAD_INPUT, "pages of one token"},
        {"deepseek-ai/DeepSeek-V4-Flash", "sglang@0.5.11", "", KVA_REFUSED, "does not run it"},
        {"deepseek-ai/DeepSeek-V4-Flash", "sglang@0.5.23", "--pp=2", KVA_REFUSED, "several stages"},
        {"deepseek-ai/DeepSeek-V4-Flash", "sglang@0.5.23", "--kv-cache-dtype=fp8_e5m2", KVA_BAD_INPUT,
         "fp8_e5m2 is not supported for DeepseekV4ForCausalLM"},
        {"meta-llama/Llama-3.1-8B-Instruct", "sglang@0.3.0", "", KVA_REFUSED, "0.4.6 to 0.5.23"},
        {"meta-llama/Llama-3.1-8B-Instruct", "sglang@0.5.24", "", KVA_REFUSED, "newer"},
        {"meta-llama/Llama-3.1-8B-Instruct", "sglang@main", "", KVA_REFUSED, "not a version"},
    };
    unit_check_refusals(atlas, CASES, sizeof CASES / sizeof *CASES);
}
END_TEST

// 0.5.5.post1 lies between two that are known; between 0.4.9 and 0.4.9.post6 windows got a pool of their own.
START_TEST(test_packages_of_a_release)
{
    struct kva_model *llama = unit_model(atlas, "meta-llama/Llama-3.1-8B-Instruct");
    struct kva_error error = {0};
    struct kva_plan *plan;
    char room[64];
    ck_assert_int_eq(unit_try(atlas, llama, "sglang@0.5.5.post1", "", room, sizeof room, &plan, &error), KVA_OK);
    ck_assert_str_eq(plan->engine_version, "0.5.5");
    kva_plan_free(plan);
    ck_assert_int_eq(unit_try(atlas, llama, "sglang@0.4.9.post2", "", room, sizeof room, &plan, &error), KVA_REFUSED);
    ck_assert_ptr_nonnull(strstr(error.text, "between 0.4.9 and 0.4.9.post6"));
    kva_model_close(llama);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sglang");
    TCase *lines = tcase_create("lines"), *bytes = tcase_create("bytes"), *refused = tcase_create("refused");
    TCase *cases[] = {lines, bytes, refused};
    tcase_add_test(lines, test_tokens_of_a_budget);
    tcase_add_test(lines, test_pools_of_windowed_layers);
    tcase_add_test(lines, test_windowed_pool_sized_by_requests);
    tcase_add_test(lines, test_deepseek_v4);
    tcase_add_test(lines, test_states);
    tcase_add_test(lines, test_real_logs);
    tcase_add_test(bytes, test_sequences_asked_for);
    tcase_add_test(bytes, test_windows_asked_for);
    tcase_add_test(bytes, test_layers_that_share_get_buffers);
    tcase_add_test(bytes, test_slots_of_a_request);
    tcase_add_test(bytes, test_ranks);
    tcase_add_test(bytes, test_fraction_of_memory);
    tcase_add_test(bytes, test_requests_that_may_run);
    tcase_add_test(bytes, test_capacity);
    tcase_add_test(bytes, test_pages);
    tcase_add_test(refused, test_refusals);
    tcase_add_test(refused, test_packages_of_a_release);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tcase_add_checked_fixture(cases[i], setup, teardown);
        suite_add_tcase(suite, cases[i]);
    }
    return unit_run(suite);
}
