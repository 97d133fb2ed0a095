// The one table of what a deployment holds and how engines' users spell it.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "kvatlas.h"

enum type { COUNT, FROM_FIRST, REAL, TEXT, DTYPE, SWITCH, FLAG, CONTEXT, BYTES };

struct field {
    const char *name;
    struct kva_deployment_flag flag;
    enum type type;
    size_t offset;
    const char *engines;  // those that have such a setting, with blanks between; NULL: all
};

// clang-format off
#define FIELD(type, member, engines, shown, help, ...) \
    {#member, {{__VA_ARGS__}, shown, help}, type, offsetof(struct kva_deployment, member), engines}

static const struct field FIELDS[] = {
    FIELD(CONTEXT, context, NULL, "N", "tokens of each sequence (32k is 32768; auto: the largest that fits); without it the model's limit", "--context", "-c", "--max-model-len", "--ctx-size", "--n-ctx", "--context-length", "--max-seq-len"),
    FIELD(COUNT, sequences, NULL, "N", "sequences at a time; without it 1", "--sequences", "--parallel", "-np", "--n-parallel", "--n-seq-max"),
    FIELD(COUNT, max_sequences, "vllm sglang tensorrt-llm llama.cpp ik_llama.cpp ollama", "N", "sequences that the engine is told to expect at most", "--max-num-seqs", "--max-running-requests", "--max-batch-size"),
    FIELD(COUNT, prompt, "mlx-lm transformers", "N", "tokens fed in before the first is decoded; without it all of the context but one", "--prompt", "--prompt-tokens"),
    FIELD(COUNT, encoder_context, NULL, "N", "tokens of the encoder's input; without it as the context", "--encoder-context"),
    FIELD(COUNT, encoder_tokens, "vllm", "N", "encoder tokens of one pass (vLLM)", "--max-num-encoder-input-tokens"),
    FIELD(TEXT, kv_type, NULL, "TYPE", "element type of the cache: bf16, fp8, q8_0, ...; without it the model's", "--kv-dtype", "--kv-cache-dtype", "--cache-dtype"),
    FIELD(TEXT, kv_type_k, "llama.cpp ik_llama.cpp ollama", "TYPE", "element type of the keys alone (llama.cpp)", "--cache-type-k", "-ctk", "--type-k"),
    FIELD(TEXT, kv_type_v, "llama.cpp ik_llama.cpp ollama", "TYPE", "element type of the values alone (llama.cpp)", "--cache-type-v", "-ctv", "--type-v"),
    FIELD(DTYPE, model_dtype, NULL, "TYPE", "element type of the model; without it the config's", "--model-dtype"),
    FIELD(DTYPE, state_dtype, "vllm sglang tensorrt-llm", "TYPE", "element type of recurrent states", "--mamba-ssm-cache-dtype", "--mamba-ssm-dtype"),
    FIELD(DTYPE, conv_dtype, "vllm sglang tensorrt-llm", "TYPE", "element type of convolution states", "--mamba-cache-dtype", "--mamba-conv-dtype"),
    FIELD(TEXT, skip_layers, "vllm", "LIST", "layers whose cache keeps the model's type (vLLM)", "--kv-cache-dtype-skip-layers"),
    FIELD(COUNT, tp, NULL, "N", "ranks of tensor parallelism", "--tp", "--tensor-parallel-size", "-tp", "--tp-size", "--tensor-parallel"),
    FIELD(COUNT, pp, NULL, "N", "stages of pipeline parallelism; GPUs of llama.cpp's layer split", "--pp", "--pipeline-parallel-size", "-pp", "--pp-size", "--pipeline-parallel"),
    FIELD(COUNT, dp, NULL, "N", "replicas of data parallelism", "--dp", "--data-parallel-size", "-dp", "--dp-size"),
    FIELD(COUNT, dcp, NULL, "N", "ranks of decode-context parallelism", "--dcp", "--decode-context-parallel-size", "-dcp", "--dcp-size"),
    FIELD(COUNT, pcp, NULL, "N", "ranks of prefill-context parallelism", "--pcp", "--prefill-context-parallel-size", "--cp-size"),
    FIELD(SWITCH, dp_attention, "sglang tensorrt-llm", NULL, "attention is data-parallel", "--enable-dp-attention", "--enable-attention-dp", "--dp-attention"),
    FIELD(TEXT, pp_partition, NULL, "LIST", "layers of each stage: 31,31 (VLLM_PP_LAYER_PARTITION)", "--pp-layer-partition", "--pp-partition"),
    FIELD(COUNT, block_size, "vllm sglang tensorrt-llm", "N", "tokens of a block", "--block-size", "--page-size", "--tokens-per-block"),
    FIELD(COUNT, batch_tokens, "vllm sglang tensorrt-llm mlx-lm llama.cpp ik_llama.cpp ollama", "N", "tokens of one pass", "--max-num-batched-tokens", "--chunked-prefill-size", "--max-num-tokens", "--batch-size", "-b", "--n-batch", "--prefill-step-size"),
    FIELD(COUNT, ubatch, "llama.cpp ik_llama.cpp ollama", "N", "tokens of a physical batch (llama.cpp)", "--ubatch-size", "-ub", "--n-ubatch"),
    FIELD(COUNT, spec_tokens, "vllm sglang tensorrt-llm llama.cpp ik_llama.cpp ollama", "N", "speculative tokens a step", "--num-speculative-tokens", "--speculative-num-draft-tokens", "--spec-tokens", "--draft-max"),
    FIELD(COUNT, draft_layers, "vllm sglang tensorrt-llm", "N", "attention layers of the draft model or of multi-token prediction", "--draft-layers"),
    FIELD(COUNT, rs_seq, "llama.cpp ik_llama.cpp ollama", "N", "snapshots of a recurrent state for speculative decoding (llama.cpp)", "--rs-seq", "--n-rs-seq"),
    FIELD(TEXT, mla, "ik_llama.cpp", "N", "how a latent is cached (ik_llama.cpp): 0, 1, 2 or 3", "--mla-use", "-mla", "--mla"),
    FIELD(TEXT, gpu, NULL, "NAME", "an accelerator of the catalogue (kvatlas gpus): h100, h200, ...", "--gpu"),
    FIELD(BYTES, gpu_bytes, NULL, "BYTES", "memory of one GPU: 80GiB, 85520809984", "--gpu-memory", "--gpu-bytes"),
    FIELD(REAL, memory_fraction, NULL, "F", "share of the memory that the engine may take, as the engine counts it", "--memory-fraction", "--gpu-memory-utilization", "--mem-fraction-static", "--free-gpu-memory-fraction", "--kv-cache-free-gpu-memory-fraction"),
    FIELD(BYTES, kv_bytes, NULL, "BYTES", "bytes for caches on one rank: 40GiB, 42949672960", "--kv-bytes", "--kv-cache-memory-bytes", "--kv-cache-memory", "--max-gpu-total-bytes"),
    FIELD(COUNT, kv_tokens, "sglang tensorrt-llm llama.cpp ik_llama.cpp ollama", "N", "tokens of the engine's pool", "--kv-tokens", "--max-total-tokens", "--max-tokens"),
    FIELD(COUNT, kv_blocks, "vllm", "N", "blocks of the engine's pool", "--kv-blocks", "--num-gpu-blocks-override"),
    FIELD(BYTES, weight_bytes, NULL, "BYTES", "weights on one rank; without it what the model's tensors say", "--weight-bytes"),
    FIELD(BYTES, activation_bytes, NULL, "BYTES", "the peak of activations on one rank, an allowance", "--activation-bytes"),
    FIELD(BYTES, graph_bytes, NULL, "BYTES", "CUDA graphs on one rank, an allowance", "--graph-bytes"),
    FIELD(BYTES, other_bytes, NULL, "BYTES", "context, communication buffers and whatever else on one rank, an allowance", "--other-bytes"),
    FIELD(SWITCH, hybrid_manager, "vllm sglang", NULL, "pools by kind of layer (--no-... or --disable-...: one for all)", "--hybrid-kv-cache-manager", "--hybrid-manager", "--hybrid-swa-memory"),
    FIELD(SWITCH, prefix_caching, "vllm sglang", NULL, "caches kept for later requests (--no-... or --disable-...: not)", "--enable-prefix-caching", "--prefix-caching", "--radix-cache", "--enable-block-reuse"),
    FIELD(SWITCH, async_scheduling, "vllm sglang", NULL, "scheduling a step ahead", "--async-scheduling"),
    FIELD(SWITCH, chunked_prefill, "vllm sglang", NULL, "prompts in pieces", "--enable-chunked-prefill", "--chunked-prefill"),
    FIELD(SWITCH, swa_full, "llama.cpp ik_llama.cpp ollama", NULL, "windows kept at full size (llama.cpp)", "--swa-full"),
    FIELD(SWITCH, kv_unified, "llama.cpp ik_llama.cpp ollama", NULL, "one stream for all sequences (llama.cpp)", "--kv-unified", "-kvu"),
    FIELD(SWITCH, flash_attention, "llama.cpp ik_llama.cpp ollama", NULL, "flash attention (llama.cpp)", "--flash-attn", "-fa", "--flash-attention"),
    FIELD(SWITCH, offload_kqv, "llama.cpp ik_llama.cpp ollama", NULL, "caches on the GPU (llama.cpp)", "--kv-offload", "--offload-kqv"),
    FIELD(SWITCH, cuda_graphs, "vllm sglang", NULL, "CUDA graphs", "--cuda-graph", "--cuda-graphs"),
    FIELD(SWITCH, static_cache, "transformers", NULL, "a static cache (Transformers)", "--static-cache"),
    FIELD(SWITCH, llm_class, "vllm llama.cpp ik_llama.cpp ollama", NULL, "vLLM's LLM class rather than its server: other defaults", "--llm-class"),
    FIELD(TEXT, attention_backend, "vllm sglang", "NAME", "FLASH_ATTN, FLASHINFER, fa3, trtllm_mla, ... (VLLM_ATTENTION_BACKEND)", "--attention-backend"),
    FIELD(TEXT, mamba_cache_mode, "vllm", "MODE", "none, align or all (vLLM)", "--mamba-cache-mode"),
    FIELD(TEXT, manager, "tensorrt-llm", "NAME", "v1, v2 or auto (TensorRT-LLM)", "--kv-cache-manager", "--manager"),
    FIELD(TEXT, windows, "tensorrt-llm", "LIST", "windows by layer, repeated: 1024,1024,131072 (TensorRT-LLM)", "--max-attention-window"),
    FIELD(TEXT, window_shares, "tensorrt-llm", "LIST", "share of each window's pool: 0.4,0.6 (TRTLLM_WINDOW_SIZE_SHARES)", "--window-size-shares"),
    FIELD(TEXT, cache_implementation, "transformers", "NAME", "dynamic, static, quantized, ... (Transformers)", "--cache-implementation"),
    FIELD(TEXT, cache_backend, "transformers", "NAME", "quanto or hqq: what quantizes the cache (Transformers)", "--cache-backend"),
    FIELD(COUNT, mamba_block_size, "vllm", "N", "tokens of a block of states (vLLM)", "--mamba-block-size"),
    FIELD(COUNT, mamba_slots, "sglang", "N", "states that the pool holds (SGLang)", "--max-mamba-cache-size"),
    FIELD(REAL, swa_ratio, "sglang", "F", "tokens of the windowed pool for each of the full one (SGLang)", "--swa-full-tokens-ratio"),
    FIELD(REAL, mamba_ratio, "sglang", "F", "memory of states for each byte of the cache (SGLang)", "--mamba-full-memory-ratio"),
    FIELD(COUNT, kv_bits, "mlx-lm transformers", "N", "bits of a quantized cache (MLX-LM, Transformers)", "--kv-bits", "--nbits"),
    FIELD(COUNT, kv_group_size, "mlx-lm transformers", "N", "elements of one scale of a quantized cache", "--kv-group-size", "--q-group-size"),
    FIELD(FROM_FIRST, quantized_kv_start, "mlx-lm", "N", "tokens after which MLX-LM quantizes (0, like 1: from the first pass on)", "--quantized-kv-start"),
    FIELD(COUNT, residual_length, "transformers", "N", "tokens that a quantized cache keeps as they are (Transformers)", "--residual-length"),
    FIELD(COUNT, max_kv_size, "mlx-lm", "N", "MLX-LM's rotating cache for models without one of their own", "--max-kv-size"),
    FIELD(FLAG, nearest, NULL, NULL, "take the nearest known version of an engine instead of refusing", "--nearest"),
};
// clang-format on
static const size_t N_FIELDS = sizeof FIELDS / sizeof *FIELDS;

size_t kva_n_deployment_flags(void)
{
    return N_FIELDS;
}

const struct kva_deployment_flag *kva_deployment_flag(size_t index)
{
    return index < N_FIELDS ? &FIELDS[index].flag : NULL;
}

// ---------------------------------------------------------------- names

// Underscores and dashes are alike, and leading dashes may be left out.
static bool same_name(const char *spelled, const char *name)
{
    while (*spelled == '-')
        spelled++;
    while (*name == '-')
        name++;
    while (*spelled != '\0' && (*spelled == *name || (*spelled == '-' && *name == '_'))) {
        spelled++;
        name++;
    }
    return *spelled == *name;
}

static const struct field *find_exact(const char *name)
{
    for (size_t f = 0; f < N_FIELDS; f++)
        for (size_t n = 0; n < KVA_MAX_SPELLINGS && FIELDS[f].flag.names[n] != NULL; n++)
            if (same_name(FIELDS[f].flag.names[n], name))
                return &FIELDS[f];
    return NULL;
}

// "--no-swa-full", "--disable-radix-cache", "--no-enable-prefix-caching" turn a switch off.
static const struct field *find(const char *name, bool *negated)
{
    static const char *const NEGATIONS[] = {"no-", "no_", "disable-", "disable_"};
    const struct field *field = find_exact(name);
    *negated = false;
    if (field != NULL)
        return field;
    while (*name == '-')
        name++;
    for (size_t i = 0; i < sizeof NEGATIONS / sizeof *NEGATIONS; i++)
        if (strncmp(name, NEGATIONS[i], strlen(NEGATIONS[i])) == 0) {
            field = find_exact(name + strlen(NEGATIONS[i]));
            *negated = true;
            return field != NULL && field->type == SWITCH ? field : NULL;
        }
    return NULL;
}

const struct kva_deployment_flag *kva_deployment_flag_find(const char *name, bool *negated)
{
    const struct field *field = find(name, negated);
    return field != NULL ? &field->flag : NULL;
}

// ---------------------------------------------------------------- values

// "40GiB", "40G", "1.5GiB", "42949672960": binary units but for GB and MB, which are decimal.
static bool parse_bytes(const char *text, uint64_t *bytes)
{
    static const struct {
        const char *unit;
        double size;
    } UNITS[] = {{"", 1},          {"B", 1},       {"KiB", 1024},   {"K", 1024},     {"KB", 1e3},
                 {"MiB", 1048576}, {"M", 1048576}, {"MB", 1e6},     {"GiB", 0x1p30}, {"G", 0x1p30},
                 {"g", 0x1p30},    {"GB", 1e9},    {"TiB", 0x1p40}, {"T", 0x1p40},   {"TB", 1e12}};
    if (kva_parse_count(text, bytes) && strpbrk(text, "kKmM") == NULL)
        return true;
    char *end;
    errno = 0;
    const double value = strtod(text, &end);
    if (end == text || errno != 0 || !isfinite(value) || value < 0 || strchr("0123456789.", *text) == NULL)
        return false;
    while (*end == ' ')
        end++;
    for (size_t u = 0; u < sizeof UNITS / sizeof *UNITS; u++)
        if (strcmp(end, UNITS[u].unit) == 0) {
            if (value * UNITS[u].size >= 0x1p63)
                return false;
            *bytes = (uint64_t)(value * UNITS[u].size);
            return true;
        }
    return false;
}

static bool parse_switch(const char *text, bool *on)
{
    static const char *const ON[] = {"on", "true", "True", "1", "yes", "enabled"};
    static const char *const OFF[] = {"off", "false", "False", "0", "no", "disabled"};
    for (size_t i = 0; i < sizeof ON / sizeof *ON; i++) {
        *on = strcmp(text, ON[i]) == 0;
        if (*on || strcmp(text, OFF[i]) == 0)
            return true;
    }
    return false;
}

static bool parse_real(const char *text, double *real)
{
    char *end;
    errno = 0;
    *real = strtod(text, &end);
    return end != text && *end == '\0' && errno == 0 && isfinite(*real) && strpbrk(text, "xX") == NULL;
}

static enum kva_status bad(struct kva_error *error, const char *flag, const char *value, const char *expected)
{
    return kva_fail(error, KVA_BAD_INPUT, NULL, flag, "'%.200s' is not %s", value, expected);
}

static enum kva_status set_switch(enum kva_switch *field, const char *flag, const char *value, bool negated,
                                  struct kva_error *error)
{
    bool on = true;
    if (value != NULL && strcmp(value, "auto") == 0) {
        *field = KVA_UNSET;
        return KVA_OK;
    }
    if (value != NULL && !parse_switch(value, &on))
        return bad(error, flag, value, "on, off or auto");
    *field = on != negated ? KVA_ON : KVA_OFF;
    return KVA_OK;
}

static enum kva_status set(const struct field *field, void *at, struct kva_deployment *deployment, const char *flag,
                           const char *value, struct kva_error *error)
{
    uint64_t count = 0;
    switch (field->type) {
    case CONTEXT:
        deployment->auto_context = strcmp(value, "auto") == 0 || strcmp(value, "-1") == 0;
        if (deployment->auto_context)
            return KVA_OK;
        // fall through
    case COUNT:
        if (!kva_parse_count(value, &count) || count == 0)
            return bad(error, flag, value, "a count of at least 1; write 32768 or 32k");
        *(uint64_t *)at = count;
        return KVA_OK;
    case FROM_FIRST:
        if (!kva_parse_count(value, &count))
            return bad(error, flag, value, "a count; write 5000");
        *(uint64_t *)at = count > 0 ? count : 1;
        return KVA_OK;
    case BYTES:
        if (!parse_bytes(value, &count) || count == 0)
            return bad(error, flag, value, "a number of bytes; write 40GiB or 42949672960");
        *(uint64_t *)at = count;
        return KVA_OK;
    case REAL:
        if (!parse_real(value, at) || *(double *)at <= 0)
            return bad(error, flag, value, "a number above 0; write 0.9");
        return KVA_OK;
    case TEXT:
        *(const char **)at = value;
        return *value != '\0' ? KVA_OK : bad(error, flag, value, "a value: it is empty");
    case DTYPE:
        *(enum kva_dtype *)at = kva_dtype_parse(value);
        return *(enum kva_dtype *)at != KVA_DTYPE_NONE || strcmp(value, "auto") == 0
                   ? KVA_OK
                   : bad(error, flag, value, "an element type; float32, float16, bfloat16 and auto are");
    default:
        return bad(error, flag, value, "wanted: the flag takes no value");
    }
}

enum kva_status kva_deployment_set(struct kva_deployment *deployment, const char *flag, const char *value,
                                   struct kva_error *error)
{
    bool negated;
    const struct field *field = find(flag, &negated);
    if (field == NULL)
        return kva_fail(error, KVA_BAD_INPUT, NULL, flag, "is not a flag of any engine that kvatlas knows");
    void *at = (char *)deployment + field->offset;
    if (field->type == SWITCH)
        return set_switch(at, flag, value, negated, error);
    if (field->type == FLAG && value == NULL) {
        *(bool *)at = true;
        return KVA_OK;
    }
    if (value == NULL)
        return kva_fail(error, KVA_BAD_INPUT, NULL, flag, "a value was expected after it");
    return set(field, at, deployment, flag, value, error);
}

// Is `word` one of the words of `list`?
static bool has_word(const char *list, const char *word)
{
    const size_t length = strlen(word);
    for (const char *at = list; (at = strstr(at, word)) != NULL; at += length)
        if ((at == list || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
            return true;
    return false;
}

const char *kva_deployment_flag_of(const char *name)
{
    for (size_t f = 0; f < N_FIELDS; f++)
        if (strcmp(FIELDS[f].name, name) == 0)
            return FIELDS[f].flag.names[0];
    return NULL;
}

bool kva_deployment_flag_is_of(size_t index, const char *engine)
{
    return FIELDS[index].engines == NULL || has_word(FIELDS[index].engines, engine);
}

bool kva_deployment_get(const struct kva_deployment *deployment, size_t index, struct kva_quantity *value)
{
    const struct field *field = &FIELDS[index];
    const void *at = (const char *)deployment + field->offset;
    static const char *const SWITCHES[] = {"", "off", "on"};
    *value = (struct kva_quantity){.name = field->name, .type = KVA_QUANTITY_COUNT};
    switch (field->type) {
    case CONTEXT:
    case COUNT:
    case FROM_FIRST:
    case BYTES:
        value->count = *(const uint64_t *)at;
        return value->count > 0 && value->count != KVA_UNKNOWN;
    case REAL:
        value->type = KVA_QUANTITY_REAL;
        value->real = *(const double *)at;
        return value->real > 0;
    case TEXT:
        value->type = KVA_QUANTITY_TEXT;
        value->text = *(const char *const *)at;
        return value->text != NULL;
    case DTYPE:
        value->type = KVA_QUANTITY_TEXT;
        value->text = kva_dtype_name(*(const enum kva_dtype *)at);
        return *(const enum kva_dtype *)at != KVA_DTYPE_NONE;
    case SWITCH:
        value->type = KVA_QUANTITY_TEXT;
        value->text = SWITCHES[*(const enum kva_switch *)at];
        return *value->text != '\0';
    case FLAG:
        value->type = KVA_QUANTITY_TEXT;
        value->text = "on";
        return *(const bool *)at;
    }
    return false;
}

// ---------------------------------------------------------------- two deployments

static bool same_value(const struct kva_quantity *a, const struct kva_quantity *b)
{
    return a->count == b->count && a->real == b->real &&
           (a->type != KVA_QUANTITY_TEXT || strcmp(a->text, b->text) == 0);
}

static void copy(enum type type, void *to, const void *from)
{
    static const size_t SIZES[] = {[COUNT] = sizeof(uint64_t),         [CONTEXT] = sizeof(uint64_t),
                                   [BYTES] = sizeof(uint64_t),         [REAL] = sizeof(double),
                                   [TEXT] = sizeof(const char *),      [DTYPE] = sizeof(enum kva_dtype),
                                   [SWITCH] = sizeof(enum kva_switch), [FLAG] = sizeof(bool),
                                   [FROM_FIRST] = sizeof(uint64_t)};
    memcpy(to, from, SIZES[type]);
}

void kva_deployment_fill(struct kva_deployment *deployment, const struct kva_deployment *from,
                         void (*differs)(void *user, const char *flag, const struct kva_quantity *mine,
                                         const struct kva_quantity *other),
                         void *user)
{
    struct kva_quantity mine, other;
    for (size_t f = 0; f < N_FIELDS; f++) {
        if (!kva_deployment_get(from, f, &other))
            continue;
        const bool said = kva_deployment_get(deployment, f, &mine);
        if (!said && !(FIELDS[f].type == CONTEXT && deployment->auto_context))
            copy(FIELDS[f].type, (char *)deployment + FIELDS[f].offset, (const char *)from + FIELDS[f].offset);
        else if (said && differs != NULL && !same_value(&mine, &other))
            differs(user, FIELDS[f].flag.names[0], &mine, &other);
    }
}

bool kva_deployment_says(const struct kva_deployment *deployment, const char *flag)
{
    bool negated;
    struct kva_quantity value;
    const struct field *field = find(flag, &negated);
    return field != NULL && kva_deployment_get(deployment, (size_t)(field - FIELDS), &value);
}
