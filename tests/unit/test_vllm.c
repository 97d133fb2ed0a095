// What vLLM prints for known geometries, release by release. The expected lines were printed by vLLM's own planner of
// those releases (v1/core/kv_cache_utils.py of the source distributions, executed), for 40 GiB of bf16 cache, one rank
// and batches of 8192 tokens where a row says nothing else.
#include <stdio.h>
#include <string.h>

#include "engine/engine.h"
#include "engine/vllm.h"
#include "unit.h"

static struct kva_atlas *atlas;

static void open_atlas(void)
{
    ck_assert_int_eq(kva_atlas_open(NULL, &atlas, NULL), KVA_OK);
}

static void close_atlas(void)
{
    kva_atlas_close(atlas);
}

// ---------------------------------------------------------------- geometries

#define ATTENTION(kind_, heads, k, v, window_)                                                                         \
    {                                                                                                                  \
        .kind = kind_, .kv_heads = heads, .k_dim = k, .v_dim = v, .window = window_, .reads_layer = -1                 \
    }
#define FULL(heads, dim) ATTENTION(KVA_CACHE_FULL, heads, dim, dim, 0)
#define SLIDING(heads, dim, window) ATTENTION(KVA_CACHE_SLIDING, heads, dim, dim, window)
#define STATE(conv, recurrent)                                                                                         \
    {                                                                                                                  \
        .kind = KVA_CACHE_STATE, .reads_layer = -1, .n_state = 2, .state = {                                           \
            {"conv", conv, 0},                                                                                         \
            {"recurrent", recurrent, 0}                                                                                \
        }                                                                                                              \
    }

// A model by the letters of its layers: F and S are its first and second cache, A is both in one layer, X reads.
struct geometry {
    const char *name, *model_type, *pattern;
    size_t n_layers;
    uint64_t limit;
    struct kva_cache caches[2];
    struct kva_value values[2];
};

static const struct geometry LLAMA_8B = {"Llama-3.1-8B", "llama", "F", 32, 131072, {FULL(8, 128)}, {{0}}};
static const struct geometry GEMMA3_27B = {
    "Gemma-3-27B", "gemma3", "SSSSSF", 62, 131072, {FULL(16, 128), SLIDING(16, 128, 1024)}, {{0}}};
static const struct geometry GPT_OSS_20B = {
    "gpt-oss-20b", "gpt_oss", "SF", 24, 131072, {FULL(8, 64), SLIDING(8, 64, 128)}, {{0}}};
static const struct geometry GEMMA3N_E4B = {
    "Gemma-3n-E4B", "gemma3n", "SSSSFSSSSFSSSSFSSSSFXXXXXXXXXXXXXXX", 35, 32768, {FULL(2, 256), SLIDING(2, 256, 512)},
    {{0}}};
static const struct geometry GEMMA4_31B = {
    "Gemma-4-31B", "gemma4", "SSSSSF", 60, 131072, {FULL(4, 512), SLIDING(16, 256, 1024)}, {{0}}};
static const struct geometry SCOUT = {"Llama-4-Scout",
                                      "llama4",
                                      "SSSF",
                                      48,
                                      131072,
                                      {FULL(8, 128), ATTENTION(KVA_CACHE_CHUNKED, 8, 128, 128, 8192)},
                                      {{0}}};
static const struct geometry DEEPSEEK_V3 = {
    "DeepSeek-V3", "deepseek_v3", "F", 61, 163840, {ATTENTION(KVA_CACHE_LATENT, 1, 576, 0, 0)}, {{0}}};
static const struct geometry DEEPSEEK_V32 = {
    "DeepSeek-V3.2",
    "deepseek_v32",
    "A",
    61,
    163840,
    {ATTENTION(KVA_CACHE_LATENT, 1, 576, 0, 0), ATTENTION(KVA_CACHE_INDEX, 1, 128, 0, 0)},
    {{0}}};
static const struct geometry QWEN3_NEXT = {
    "Qwen3-Next-80B", "qwen3_next", "SSSF", 48, 262144, {FULL(2, 256), STATE(3 * 8192, 32 * 128 * 128)}, {{0}}};
// 24 Mamba-2 layers of 128 heads of 64 by 128 with 8 groups, a convolution of 4 columns, and 4 full ones
static const struct geometry NEMOTRON_H = {"Nemotron-H-8B-like",
                                           "nemotron_h",
                                           "SSSSSSF",
                                           28,
                                           8192,
                                           {FULL(8, 128), STATE(3 * 10240, 128 * 64 * 128)},
                                           {{.name = "d_conv", .count = 4}, {.name = "groups", .count = 8}}};
static const struct geometry JAMBA = {
    "Jamba-mini-like", "jamba", "SSSSSSSF", 32, 262144, {FULL(8, 128), STATE(3 * 8192, 8192 * 16)}, {{0}}};
static const struct geometry WHISPER = {
    "Whisper-large-like", "whisper", "A", 32, 448, {FULL(20, 64), ATTENTION(KVA_CACHE_CROSS, 20, 64, 64, 0)}, {{0}}};
// pages of 5 and of 4 heads: neither divides the other
static const struct geometry UNEVEN = {"uneven", "test", "SF", 24, 131072, {FULL(4, 64), SLIDING(5, 64, 128)}, {{0}}};
static const struct geometry MIMO = {
    "MiMo-like", "mimo_v2_flash",
    "SSSSSF",    48,
    131072,      {ATTENTION(KVA_CACHE_FULL, 4, 192, 128, 0), ATTENTION(KVA_CACHE_SLIDING, 8, 192, 128, 128)},
    {{0}}};

static void build(const struct geometry *geometry, struct kva_model *model, struct kva_layer *layers,
                  struct kva_value *values)
{
    const size_t period = strlen(geometry->pattern);
    for (size_t i = 0; i < geometry->n_layers; i++) {
        const char letter = geometry->pattern[i % period];
        layers[i] = (struct kva_layer){.index = (uint32_t)i, .kind = "layer", .n_caches = letter == 'A' ? 2 : 1};
        layers[i].caches[0] = geometry->caches[letter == 'S'];
        layers[i].caches[1] = geometry->caches[1];
        if (letter == 'X')
            layers[i].caches[0].reads_layer = 18;
    }
    memcpy(values, geometry->values, sizeof geometry->values);
    *model = (struct kva_model){.id = geometry->name,
                                .source = "by hand",
                                .model_type = geometry->model_type,
                                .architecture = "",
                                .family = "test",
                                .context_limit = geometry->limit,
                                .dtype = KVA_BF16,
                                .dtype_key = "torch_dtype",
                                .naive_kv_heads = 1,
                                .naive_k_dim = 1,
                                .layers = layers,
                                .n_layers = geometry->n_layers,
                                .values = values,
                                .n_values = values[0].name != NULL ? 2 : 0};
}

// ---------------------------------------------------------------- what is printed

struct row {
    const struct geometry *geometry;
    const char *versions;  // one after another
    const char *flags;     // "name=value name=value"
    const char *expected;  // text that stands in the lines or in the refusal; several with | between
};

enum { MANY = 8192 };

static void apply(struct kva_deployment *deployment, char *flags)
{
    char *rest = NULL;
    for (char *flag = strtok_r(flags, " ", &rest); flag != NULL; flag = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(flag, '=');
        ck_assert_ptr_nonnull(value);
        *value++ = '\0';
        struct kva_error error = {0};
        ck_assert_msg(kva_deployment_set(deployment, flag, value, &error) == KVA_OK, "%s: %s", flag, error.text);
    }
}

static void collect(const struct kva_plan *plan, char *all, size_t size)
{
    size_t length = 0;
    all[0] = '\0';
    for (size_t a = 0; a < plan->n_assumed && length < size; a++)
        length += (size_t)snprintf(all + length, size - length, "assumed %s\n", plan->assumed[a]);
    for (size_t p = 0; p < plan->n_prints && length < size; p++)
        length += (size_t)snprintf(all + length, size - length, "%s\n", plan->prints[p].text);
    if (plan->capacity.refusal != NULL && length < size)
        snprintf(all + length, size - length, "%s\n", plan->capacity.refusal);
}

static void check_lines(const struct kva_model *model, const char *version, const struct kva_deployment *start,
                        const char *typed, const char *wanted)
{
    struct kva_error error = {0};
    char engine[32], flags[256], expected[512], all[MANY], *rest = NULL;
    snprintf(engine, sizeof engine, "vllm@%s", version);
    struct kva_deployment deployment = *start;
    deployment.engine = engine;
    snprintf(flags, sizeof flags, "%s", typed);
    apply(&deployment, flags);
    struct kva_plan *plan;
    if (kva_plan_make(atlas, model, &deployment, &plan, &error) == KVA_OK) {
        collect(plan, all, sizeof all);
        kva_plan_free(plan);
    } else
        snprintf(all, sizeof all, "%s", error.text);
    snprintf(expected, sizeof expected, "%s", wanted);
    for (char *part = strtok_r(expected, "|", &rest); part != NULL; part = strtok_r(NULL, "|", &rest))
        ck_assert_msg(strstr(all, part) != NULL, "%s on vLLM %s (%s): '%s' was expected in\n%s", model->id, version,
                      typed, part, all);
}

static void check_version(const struct row *row, const char *version)
{
    const struct kva_deployment start = {.kv_bytes = UINT64_C(40) << 30, .batch_tokens = 8192};
    struct kva_layer layers[64];
    struct kva_value values[2];
    struct kva_model model;
    build(row->geometry, &model, layers, values);
    check_lines(&model, version, &start, row->flags, row->expected);
}

#define OLD "0.10.0 0.10.2 0.11.0 0.12.0 0.14.0 0.16.0 0.19.1 0.20.0"
#define OLD_12 "0.12.0 0.14.0 0.17.1 0.19.1 0.20.0"
#define MIDDLE "0.20.1 0.21.0 0.23.0 0.24.0 0.25.1"
#define NEW "0.26.0 0.27.1 0.28.0 0.29.0 0.33.0"

static const struct row ROWS[] = {
    {&LLAMA_8B, OLD " " MIDDLE " " NEW, "", "size: 327,680 tokens|131,072 tokens per request: 2.50x"},
    {&LLAMA_8B, OLD " " MIDDLE " " NEW, "kv-cache-dtype=fp8", "size: 655,360 tokens|per request: 5.00x"},
    {&LLAMA_8B, OLD " " MIDDLE " " NEW, "tp=16", "size: 2,621,440 tokens|per request: 20.00x"},
    {&GEMMA3_27B, OLD, "", "size: 74,896 tokens|per request: 2.81x|Add 8 padding layers, may waste at most 15.38% KV"},
    {&GEMMA3_27B, MIDDLE, "", "size: 368,540 tokens|per request: 2.81x"},
    {&GEMMA3_27B, NEW, "", "size: 291,658 tokens|per request: 2.23x"},
    {&GEMMA3_27B, "0.10.0 0.12.0 0.13.0", "hybrid-manager=off",
     "Hybrid KV cache manager is disabled|size: 84,560 tokens|: 0.65x"},
    {&GEMMA3_27B, "0.14.0 0.19.1 0.28.0", "hybrid-manager=off",
     "(62.0 GiB KV cache is needed|memory (40.0 GiB)|estimated maximum model length is 84560."},
    {&GEMMA3_27B, "0.29.0 0.33.0", "hybrid-manager=off", "memory (39.99 GiB)|estimated maximum model length is 84544."},
    {&GPT_OSS_20B, OLD, "", "size: 873,808 tokens|per request: 12.54x"},
    {&GPT_OSS_20B, MIDDLE, "", "size: 1,643,116 tokens|per request: 12.54x"},
    {&GPT_OSS_20B, NEW, "", "size: 1,551,920 tokens|per request: 11.84x"},
    {&GPT_OSS_20B, "0.10.0 0.11.0 0.11.2", "draft-layers=1", "size: 582,528 tokens|per request: 6.46x"},
    {&GPT_OSS_20B, OLD_12, "draft-layers=1", "size: 806,592 tokens|per request: 11.57x"},
    {&GPT_OSS_20B, MIDDLE, "draft-layers=1", "size: 1,516,722 tokens"},
    {&GPT_OSS_20B, NEW, "draft-layers=1", "size: 1,432,542 tokens|per request: 10.93x"},
    {&GEMMA3N_E4B, OLD, "", "size: 1,048,576 tokens|32,768 tokens per request: 77.50x"},
    {&GEMMA3N_E4B, MIDDLE, "", "size: 2,539,597 tokens"},
    {&GEMMA3N_E4B, NEW, "", "size: 1,710,869 tokens|per request: 52.21x"},
    {&GEMMA4_31B, OLD_12, "kv-bytes=50GiB batch-size=2048", "size: 54,608 tokens|per request: 4.05x"},
    {&GEMMA4_31B, MIDDLE, "kv-bytes=50GiB batch-size=2048", "size: 530,400 tokens|per request: 4.05x"},
    {&GEMMA4_31B, NEW, "kv-bytes=50GiB batch-size=2048", "size: 470,856 tokens|per request: 3.59x"},
    {&GEMMA4_31B, "0.10.0 0.11.2", "kv-bytes=50GiB batch-size=2048", "NotImplementedError"},
    {&SCOUT, "0.10.0", "", "size: 218,448 tokens|per request: 4.85x"},
    {&SCOUT, "0.10.1 0.14.0 0.20.0", "", "size: 218,448 tokens|per request: 1.67x"},
    {&SCOUT, MIDDLE " " NEW, "", "size: 218,448 tokens|per request: 1.67x"},
    {&SCOUT, MIDDLE, "hybrid-manager=on", "size: 635,496 tokens|per request: 4.85x"},
    {&SCOUT, NEW, "hybrid-manager=on", "size: 559,237 tokens|per request: 4.27x"},
    {&DEEPSEEK_V3, OLD " " MIDDLE " " NEW, "block-size=64", "size: 611,136 tokens|163,840 tokens per request: 3.73x"},
    {&DEEPSEEK_V3, "0.10.2 0.12.0 0.20.0 0.21.0 0.33.0", "block-size=64 tp=8 dcp=8", "size: 4,889,088 tokens|: 29.84x"},
    {&DEEPSEEK_V32, "0.11.0 0.14.0 0.20.0 0.25.1 0.33.0", "kv-cache-dtype=fp8", "size: 893,504 tokens|: 5.45x"},
    {&QWEN3_NEXT, "0.10.2 0.11.0 0.14.0 0.20.0", "",
     "size: 436,832 tokens|: 6.62x|block size to 544 tokens|size by 1.49%"},
    {&QWEN3_NEXT, "0.20.1 0.25.1 0.27.1", "prefix-caching=off", "size: 1,736,095 tokens|: 6.62x"},
    {&QWEN3_NEXT, "0.28.0 0.32.0", "", "size: 1,725,423 tokens|: 6.58x"},
    {&QWEN3_NEXT, "0.17.0 0.20.0", "mamba-ssm-cache-dtype=float32", "size: 436,128 tokens|: 6.56x|size to 1056 tokens"},
    {&QWEN3_NEXT, "0.20.1 0.28.0", "mamba-ssm-cache-dtype=float32 prefix-caching=off", "size: 1,720,580 tokens"},
    {&NEMOTRON_H, OLD, "mamba-ssm-cache-dtype=bfloat16", "size: 374,352 tokens|: 225.64x|size to 528 tokens"},
    {&NEMOTRON_H, MIDDLE, "mamba-ssm-cache-dtype=bfloat16", "size: 1,848,413 tokens"},
    {&JAMBA, OLD, "", "size: 327,680 tokens|: 9.98x|size to 80 tokens"},
    {&JAMBA, MIDDLE, "", "size: 2,615,692 tokens"},
    {&WHISPER, "0.10.2 0.12.0 0.14.0 0.20.0", "max-num-encoder-input-tokens=1500", "size: 131,072 tokens|: 134.30x"},
    {&WHISPER, MIDDLE " " NEW, "max-num-encoder-input-tokens=1500", "size: 60,164 tokens|: 134.30x"},
    // 16384 / (28 + 128), as a real log of such a model shows: 26.62x with 4152 blocks
    {&WHISPER, "0.15.0 0.16.0", "batch-size=2048", ": 105.03x"},
    {&WHISPER, "0.15.0 0.16.0", "batch-size=2048 kv-bytes=10884218880",
     "size: 33,216 tokens|448 tokens per request: 26.62x"},
    {&UNEVEN, "0.10.0 0.11.2", "", "NotImplementedError"},
    {&UNEVEN, "0.12.0 0.23.0", "", "The page size of the layer is not divisible by the maximum page size."},
    {&UNEVEN, "0.24.0 0.33.0", "", "GPU KV cache size"},
    {&MIMO, MIDDLE, "hybrid-manager=on", "size: 1,281,888 tokens"},
    {&MIMO, NEW, "hybrid-manager=on", "size: 927,538 tokens"},
    {&GEMMA3_27B, "0.10.0 0.10.2", "pp=2", "Add 4 padding layers, may waste at most 15.38% KV"},
    {&GEMMA3_27B, "0.10.0 0.11.0 0.20.0", "pp=2", "size: 149,792 tokens|: 5.62x"},
    {&GEMMA3_27B, "0.20.1 0.25.1", "pp=2", "size: 737,080 tokens"},
    {&GEMMA3_27B, NEW, "pp=2", "size: 482,634 tokens|: 3.68x"},
    {&LLAMA_8B, OLD " 0.28.0", "kv-bytes=16GiB", "per request: 1.00x"},
    {&LLAMA_8B, "0.29.0 0.33.0", "kv-bytes=16GiB", "estimated maximum model length is 131056."},
    {&LLAMA_8B, "0.14.0 0.28.0", "kv-bytes=4GiB max-model-len=auto",
     "reduced from 131072 to 32768 to fit in available GPU memory (4.0 GiB available for KV cache)"},
    {&LLAMA_8B, "0.29.0", "kv-bytes=4GiB max-model-len=auto",
     "reduced from 131072 to 32752|size: 32,768 tokens|32,752 tokens per request: 1.00x"},
    {&GEMMA3_27B, "0.19.0 0.25.1", "kv-bytes=8GiB max-model-len=auto", "reduced from 131072 to 49456"},
    {&GEMMA3_27B, "0.26.0", "kv-bytes=8GiB max-model-len=auto", "reduced from 131072 to 14960|size: 14,964 tokens"},
    {&GEMMA3_27B, "0.14.0 0.18.1", "kv-bytes=4GiB", ": 0.28x"},
    // 89,994 blocks: a real log of 0.11.0 at 4,096 tokens
    {&GEMMA3_27B, "0.11.0", "kv-bytes=117956935680 context=4096",
     "size: 205,696 tokens|4,096 tokens per request: 50.05x"},
    {&LLAMA_8B, "0.10.0 0.14.0 0.20.0", "num-gpu-blocks-override=1000 context=8192",
     "Overriding num_gpu_blocks=20480 with num_gpu_blocks_override=1000|size: 16,000 tokens"},
    {&LLAMA_8B, "0.12.0", "kv-bytes=4GiB",
     "models's max seq len (131072), (16.00 GiB KV cache is needed, which is larger than the available KV cache memory "
     "(4.00 GiB). Based on the available memory, the estimated maximum model length is 32768. Try increasing "
     "`gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine."},
    {&LLAMA_8B, "0.22.0", "kv-bytes=4GiB",
     "the model's max seq len (131072), (16.0 GiB KV cache is needed|(which also controls CPU memory on the CPU "
     "backend) or decreasing"},
};

START_TEST(lines_are_those_of_the_engine)
{
    const struct row *row = &ROWS[_i];
    char versions[256], *rest = NULL;
    snprintf(versions, sizeof versions, "%s", row->versions);
    for (char *version = strtok_r(versions, " ", &rest); version != NULL; version = strtok_r(NULL, " ", &rest))
        check_version(row, version);
}
END_TEST

// ---------------------------------------------------------------- published logs

// What real servers printed, from the model's published config. A number of blocks stands for the memory that the log
// rounds; batches and modes that the log does not tell are those that give its lines.
struct published {
    const char *model, *version, *flags, *expected;
};

static const struct published PUBLISHED[] = {
    // github.com/vllm-project/vllm/issues/40691
    {"Qwen/Qwen3.5-27B", "0.19.0", "context=32768 kv-blocks=1487 batch-size=16384",
     "block size to 784 tokens|size: 290,864 tokens|32,768 tokens per request: 33.04x"},
    // the same sizes with 15 and with 7 speculative tokens, and with a scale for each token and head
    {"Qwen/Qwen3.5-27B", "0.25.1", "context=32768 kv-blocks=99 spec-tokens=15 mamba-ssm-cache-dtype=bfloat16",
     "block size to 480 tokens|mamba page size by 1.27%"},
    {"Qwen/Qwen3.5-27B", "0.25.1",
     "context=32768 kv-blocks=99 spec-tokens=7 mamba-ssm-cache-dtype=bfloat16 kv-dtype=int8_per_token_head",
     "block size to 864 tokens|mamba page size by 1.09%"},
    {"Qwen/Qwen3.5-27B", "0.20.0", "context=32768 kv-blocks=139 kv-dtype=fp8 prefix-caching=on",
     "block size to 1568 tokens|mamba page size by 0.13%|size: 53,312 tokens|: 5.15x"},
    {"Qwen/Qwen3.5-27B", "0.27.0", "context=131072 kv-blocks=208 kv-dtype=fp8 tp=2 prefix-caching=on",
     "size: 302,921 tokens|: 2.31x"},
    {"Qwen/Qwen3.5-27B", "0.29.0", "context=262144 kv-blocks=372 kv-dtype=fp8 tp=2",
     "GPU KV cache size: 560,445 tokens, Maximum concurrency for 262,144 tokens per request: 2.14x"},
    {"Qwen/Qwen3.5-27B", "0.21.0",
     "context=262144 kv-blocks=425 kv-dtype=fp8 tp=2 prefix-caching=on spec-tokens=3 draft-layers=1",
     "size: 622,408 tokens|: 2.37x"},
    {"Qwen/Qwen3.5-27B", "0.21.0",
     "context=262144 kv-blocks=178 kv-dtype=fp8 prefix-caching=off spec-tokens=3 draft-layers=1",
     "size: 265,122 tokens|: 1.01x"},
    {"Qwen/Qwen3.5-27B", "0.22.0", "context=262144 kv-bytes=9.67GiB prefix-caching=off spec-tokens=3 draft-layers=1",
     "(262144), (17.64 GiB KV cache is needed|(9.67 GiB)|estimated maximum model length is 139200."},
    {"Qwen/Qwen3.5-122B-A10B", "0.19.0", "context=131072 kv-blocks=448 kv-dtype=fp8 prefix-caching=on",
     "block size to 4176 tokens|size: 467,712 tokens|: 11.79x"},
    {"Qwen/Qwen3.5-122B-A10B", "0.19.0",
     "context=262144 kv-blocks=462 kv-dtype=fp8 prefix-caching=on spec-tokens=1 draft-layers=1",
     "block size to 4192 tokens|size: 482,080 tokens|: 6.42x"},
    {"Qwen/Qwen3.5-35B-A3B", "0.24.0", "context=131072 kv-blocks=299 kv-dtype=fp8 prefix-caching=on",
     "size: 567,978 tokens|: 4.33x"},
    {"Qwen/Qwen3.5-35B-A3B", "0.20.2",
     "context=262144 kv-blocks=2982 kv-dtype=fp8_e4m3 prefix-caching=on spec-tokens=2 draft-layers=1",
     "Add 3 padding layers, may waste at most 10.00% KV cache memory|size: 5,747,892 tokens|: 21.93x"},
    {"google/gemma-3-27b-it", "0.11.0", "context=4096 kv-blocks=89994 batch-size=8192",
     "size: 205,696 tokens|4,096 tokens per request: 50.05x"},
    {"google/gemma-4-E2B-it", "0.25.1", "context=32768 kv-blocks=10200 batch-size=8192",
     "size: 106,443 tokens|: 3.25x"},
    // caches of five sizes in tuples, later by patterns of layers (issues quoted in cases/engine-logs.jsonl, 75 and 77)
    {"deepseek-ai/DeepSeek-V4-Flash", "0.23.0", "context=131072 kv-blocks=33136 kv-dtype=fp8 tp=2 batch-size=8192",
     "size: 1,247,687 tokens|: 9.52x"},
    {"deepseek-ai/DeepSeek-V4-Flash", "0.27.0", "context=131072 kv-blocks=83062 kv-dtype=fp8 batch-size=8192",
     "size: 1,513,358 tokens|: 11.55x"},
    {"deepseek-ai/DeepSeek-V4-Flash", "0.19.0", "context=131072 kv-blocks=99", "vLLM 0.19.0 does not run DeepSeek-V4"},
    // values as wide as keys until the class says otherwise (executed planner, 40 GiB)
    {"XiaomiMiMo/MiMo-V2-Flash", "0.14.0", "kv-bytes=40GiB context=131072 batch-size=8192 hybrid-manager=on",
     "size: 129,440 tokens|: 7.24x"},
    {"XiaomiMiMo/MiMo-V2-Flash", "0.20.0", "kv-bytes=40GiB context=131072 batch-size=8192 hybrid-manager=on",
     "size: 155,344 tokens|: 8.69x"},
    // its attention_chunk_size turns the hybrid manager off until 0.20.2, and then values are as wide as keys
    {"XiaomiMiMo/MiMo-V2-Flash", "0.20.1", "kv-bytes=40GiB context=131072 batch-size=8192",
     "Hybrid KV cache manager is disabled|size: 163,520 tokens"},
    {"XiaomiMiMo/MiMo-V2-Flash", "0.21.0", "kv-bytes=40GiB context=131072 batch-size=8192 hybrid-manager=off",
     "size: 192,832 tokens|: 1.47x"},
    // scales of the checkpoint make the cache one of 8 bits, from 0.14.0 (ModelOpt)
    {"nvidia/Gemma-4-31B-IT-NVFP4", "0.25.0", "kv-bytes=40GiB context=8192", "KV dtype fp8"},
    // Phi-4-mini-flash on the engine before V1: 9 layers of 2 * 20 heads of 64 in blocks of 16 are 737,280 bytes;
    // 20 GiB hold 29,127 of them, 4 GiB of CPU memory 5,825 (worker/cache_engine.py, executor/executor_base.py)
    {"microsoft/Phi-4-mini-flash-reasoning", "0.10.2", "context=65536 kv-bytes=20GiB",
     "# cuda blocks: 29127, # CPU blocks: 5825|Maximum concurrency for 65536 tokens per request: 7.11x"},
    {"microsoft/Phi-4-mini-flash-reasoning", "0.10.0", "context=65536 kv-bytes=1GiB",
     "The model's max seq len (65536) is larger than the maximum number of tokens that can be stored in KV cache "
     "(23296)."},
    {"microsoft/Phi-4-mini-flash-reasoning", "0.11.0", "context=65536",
     "Phi4FlashForCausalLM was removed after 0.10.2"},
    {"microsoft/Phi-4-mini-flash-reasoning", "0.33.0", "context=65536",
     "Phi4FlashForCausalLM was removed after 0.10.2"},
};

START_TEST(published_logs)
{
    const struct kva_deployment start = {0};
    const struct published *row = &PUBLISHED[_i];
    struct kva_model *model = unit_open(atlas, row->model, NULL);
    check_lines(model, row->version, &start, row->flags, row->expected);
    kva_model_close(model);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("vllm");
    TCase *lines = tcase_create("lines");
    tcase_add_checked_fixture(lines, open_atlas, close_atlas);
    tcase_set_timeout(lines, 60);
    tcase_add_loop_test(lines, lines_are_those_of_the_engine, 0, (int)(sizeof ROWS / sizeof *ROWS));
    tcase_add_loop_test(lines, published_logs, 0, (int)(sizeof PUBLISHED / sizeof *PUBLISHED));
    suite_add_tcase(suite, lines);
    return unit_run(suite);
}
