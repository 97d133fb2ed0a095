// kvatlas.h: how many bytes of cache a model needs, how many a policy or engine allocates for it, and whether that is
// what happens when the model runs. Read it from top to bottom: errors, element types, models, deployments, engines,
// plans, what fits, runs, verification, logs.
//
// Every function that can fail returns an enum kva_status and fills the struct kva_error that it is given (which may
// be NULL). Sizes are bytes in uint64_t and are never silently wrapped. Strings handed out live as long as the object
// that handed them out. Nothing here prints. An object is used by one thread at a time; different objects are
// independent.
#ifndef KVATLAS_H
#define KVATLAS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---------------------------------------------------------------- errors

// Also the exit status of the command line.
enum kva_status {
    KVA_OK = 0,
    KVA_MISMATCH = 1,   // does not fit, or predicted and measured differ
    KVA_BAD_INPUT = 2,  // usage, a file that is not what it should be
    KVA_REFUSED = 3,    // architecture, engine or version that kvatlas does not know
    KVA_MACHINE = 4,    // no GPU, out of memory, I/O
};

struct kva_error {
    enum kva_status status;
    int line;        // line in `file`, 0 when not known
    char file[256];  // the file that is at fault, "" when none is
    char key[128];   // the key, tensor or flag at fault, "" when none is
    char text[512];  // what was wrong and what was expected
};

// One line: "file:line: key: text". Returns `buffer`.
const char *kva_error_line(const struct kva_error *error, char *buffer, size_t size);

// ---------------------------------------------------------------- element types

enum kva_dtype {
    KVA_DTYPE_NONE = 0,
    KVA_F32,
    KVA_F16,
    KVA_BF16,
    KVA_F8_E4M3,
    KVA_F8_E5M2,
    KVA_I8,
    KVA_U8,
    KVA_I16,
    KVA_I32,
    KVA_I64,
    KVA_F64,
    KVA_BOOL,
    KVA_U16,
    KVA_U32,  // what MLX packs quantized weights into
    KVA_U64,
    KVA_F8_E8M0,  // the scales of MX formats
    KVA_C64,
    KVA_N_DTYPES,
};

uint64_t kva_dtype_bytes(enum kva_dtype dtype);    // 0 for KVA_DTYPE_NONE
const char *kva_dtype_name(enum kva_dtype dtype);  // "bf16"
enum kva_dtype kva_dtype_parse(const char *text);  // "bf16", "bfloat16", "BF16", "fp8", ...; NONE when unknown

// ---------------------------------------------------------------- the atlas: data opened once

// The facts in data/ (embedded in the library) or in a directory that takes their place.
struct kva_atlas;

// data_dir NULL: the embedded data. Errors: KVA_BAD_INPUT (no such directory), KVA_MACHINE (memory).
enum kva_status kva_atlas_open(const char *data_dir, struct kva_atlas **atlas, struct kva_error *error);
void kva_atlas_close(struct kva_atlas *atlas);

// ---------------------------------------------------------------- models

enum kva_cache_kind {
    KVA_CACHE_NONE = 0,
    KVA_CACHE_FULL,     // grows with the context
    KVA_CACHE_SLIDING,  // the last `window` tokens, the current one included
    KVA_CACHE_CHUNKED,  // the current chunk of `window` tokens
    KVA_CACHE_LATENT,   // multi-head latent attention: one compressed row a token
    KVA_CACHE_INDEX,    // keys of a sparse-attention indexer
    KVA_CACHE_STATE,    // convolution and recurrent state: fixed size
    KVA_CACHE_CROSS,    // keys and values of encoder states, `length` rows whatever the context
};

enum kva_mixer {
    KVA_MIXER_NONE = 0,
    KVA_MIXER_ATTENTION,
    KVA_MIXER_MAMBA1,
    KVA_MIXER_GMU,    // gated memory unit: out_proj(silu(in_proj(x)) * memory)
    KVA_MIXER_OTHER,  // one that the executor does not run
};

#define KVA_MAX_CACHES 4
#define KVA_MAX_STATE_PARTS 6
#define KVA_MAX_LAYERS 8192
#define KVA_UNKNOWN UINT64_MAX  // a byte count that cannot be told from what was read

struct kva_state_part {
    const char *name;      // "conv", "recurrent"
    uint64_t elements;     // of one sequence
    enum kva_dtype dtype;  // KVA_DTYPE_NONE: the model's dtype
};

struct kva_cache {
    enum kva_cache_kind kind;
    uint32_t kv_heads, k_dim, v_dim;
    uint64_t window;      // tokens, the current one included; 0 when the layer has no window
    bool window_inert;    // the window can never bind: `kind` is then KVA_CACHE_FULL
    bool window_long;     // it is inert only since no context within the model's limit is longer; beyond, it binds
    uint32_t ratio;       // tokens that one row stands for: floor(tokens / ratio) rows; 1 for nearly every cache
    bool shared_kv;       // keys and values are one tensor, counted as k_dim; v_dim is 0
    uint64_t length;      // KVA_CACHE_CROSS: rows, the encoder's output; 0: the config does not tell
    int32_t reads_layer;  // the layer whose cache this layer reads instead of owning one; -1: its own
    struct kva_state_part state[KVA_MAX_STATE_PARTS];
    size_t n_state;
};

struct kva_layer {
    uint32_t index;
    const char *kind;  // the name its architecture file gives it: "sliding", "mamba", ...
    enum kva_mixer mixer;
    struct kva_cache caches[KVA_MAX_CACHES];
    size_t n_caches;
    const char *why;  // the rule that decided, as text
};

enum kva_source { KVA_FROM_CONFIG, KVA_FROM_DEFAULT, KVA_FROM_NULL, KVA_FROM_PERSON };
enum kva_value_type { KVA_COUNT, KVA_FLAG, KVA_REAL, KVA_TEXT, KVA_LIST };

// One entry of a list: an integer (true and false are 1 and 0), a text, null, or something that no formula reads.
enum kva_item_type { KVA_ITEM_NULL, KVA_ITEM_COUNT, KVA_ITEM_TEXT };
struct kva_item {
    enum kva_item_type type;
    int64_t count;     // KVA_ITEM_COUNT
    const char *text;  // KVA_ITEM_TEXT
};
#define KVA_MAX_ITEMS 16384

// One fact read from the config, or filled in because the config does not say.
struct kva_value {
    const char *name;  // kvatlas's word: "kv_heads"
    const char *key;   // the config's key: "num_key_value_heads"
    enum kva_value_type type;
    enum kva_source source;
    const char *rule;  // how a missing or null key was filled: "heads", "hidden / heads", "8"; NULL when read
    uint64_t count;    // KVA_COUNT, KVA_FLAG; KVA_LIST: how many items
    double real;       // KVA_REAL
    const char *text;  // KVA_TEXT
    const struct kva_item *items;  // KVA_LIST
};

enum kva_rope_type {
    KVA_ROPE_NONE = 0,
    KVA_ROPE_DEFAULT,
    KVA_ROPE_LINEAR,
    KVA_ROPE_DYNAMIC,
    KVA_ROPE_YARN,
    KVA_ROPE_LONGROPE,
    KVA_ROPE_LLAMA3
};

// Rotary embedding parameters of one kind of layer, as Transformers' modeling_rope_utils.py names them.
struct kva_rope {
    enum kva_rope_type type;
    double theta;
    double partial;                            // share of head_dim that rotates
    double factor;                             // 1 when absent
    double attention_factor;                   // 0: derive
    double low_freq_factor, high_freq_factor;  // llama3
    double beta_fast, beta_slow;               // yarn
    double mscale, mscale_all_dim;             // yarn; 0 when absent
    bool truncate;                             // yarn, default true
    uint64_t original_context;                 // original_max_position_embeddings
    uint64_t max_context;                      // max_position_embeddings
    const double *short_factor, *long_factor;  // longrope, [rotary_dim / 2]
    size_t n_short_factor, n_long_factor;
};

// One weight tensor that the architecture file says the checkpoint holds.
struct kva_tensor {
    const char *name;  // name in the checkpoint
    int32_t layer;     // -1: not of a layer
    uint32_t role;     // enum kva_role, src/model/arch.h
    enum kva_dtype dtype;
    uint32_t n_dims;
    uint64_t dims[4];  // outermost first
    uint64_t bytes;
    uint64_t copies;  // tensors like it, for 0, 1, 2, ... in place of {e} in its name: the experts of a layer; else 1
};

// Weight bytes by class of tensor: "embedding", "attention", "state", "feed-forward", "norm", "head".
struct kva_weight_class {
    const char *name;
    uint64_t tensors, parameters, bytes;
};

struct kva_model {
    const char *id;      // catalogue name or the path as given
    const char *source;  // the file that was read
    const char *model_type;
    const char *architecture;  // architectures[0], or ""
    const char *family;
    uint64_t context_limit;  // tokens; 0 when the config has none
    enum kva_dtype dtype;    // KVA_DTYPE_NONE when the config has none
    const char *dtype_key;
    uint64_t naive_kv_heads, naive_k_dim, naive_v_dim;  // one full-attention layer, for the naive number

    struct kva_layer *layers;
    size_t n_layers, all_layers;  // `all_layers` is more where only the first ones were asked for
    uint64_t mtp_layers;          // layers that predict further tokens; among `layers` only with the assumption mtp=on
    struct kva_value *values;
    size_t n_values;
    struct kva_rope rope_main, rope_local;

    uint64_t parameters;        // KVA_UNKNOWN when the architecture file lists no tensors
    uint64_t weight_bytes;      // KVA_UNKNOWN likewise
    const char *weight_source;  // "config", "safetensors headers", "safetensors index", "GGUF tensor infos"
    const char *quant_method;   // "modelopt", "compressed-tensors", ...; NULL: the config names none
    const char *kv_scales;      // the cache type that the checkpoint brings scales for: "fp8", "nvfp4"; NULL: none
    struct kva_weight_class *weight_classes;
    size_t n_weight_classes;
    struct kva_tensor *tensors;  // what the checkpoint should hold
    size_t n_tensors;

    const char **warnings;
    size_t n_warnings;
    const char **references;  // "id: title, URL"
    size_t n_references;
    const char *gguf;          // general.architecture of the header it was read from; NULL: it was a config
    struct kva_value *header;  // counts, flags and lists of that header, by key without the architecture's name
    size_t n_header;
    const struct kva_arch *arch;  // owned by the atlas
    void *arena;
};

struct kva_model_options {
    enum kva_dtype dtype;  // KVA_DTYPE_NONE: the config's
    uint64_t layers;       // run at reduced depth: use only the first layers; 0: all
    // "KEY=VALUE": what the config should say, by its key or by kvatlas's word for it; VALUE is JSON, or text.
    // "family=qwen2": read the config as that model_type. "mtp=on": count the layers of multi-token prediction.
    const char *const *assume;
    size_t n_assume;
    bool fetch;       // ask the hub for a Hugging Face id: the only thing that uses the network
    bool no_tensors;  // leave `tensors` out, which only runs need: parameters and weight bytes are the same
};

// name: "-" (a config on standard input), a directory or a snapshot, a config.json or .gguf file, a catalogue name
// ("microsoft/Phi-4-mini-instruct"), or a Hugging Face id, ID or ID@REVISION, that the cache of huggingface_hub holds.
// options may be NULL. Errors: KVA_BAD_INPUT (no file, not JSON, a key of the wrong type), KVA_REFUSED (unknown
// architecture, with the keys that would decide its caches), KVA_MACHINE.
enum kva_status kva_model_open(struct kva_atlas *atlas, const char *name, const struct kva_model_options *options,
                               struct kva_model **model, struct kva_error *error);
// The same from the bytes of a config in memory, which the model does not keep. id: the model's id and what errors call
// the config; {"id": ..., "config": {...}} names an id of its own. Models of one atlas share what was read of the
// architecture: the second one of its kind is cheap.
enum kva_status kva_model_from_json(struct kva_atlas *atlas, const char *bytes, size_t length, const char *id,
                                    const struct kva_model_options *options, struct kva_model **model,
                                    struct kva_error *error);
void kva_model_close(struct kva_model *model);

// "S5 F1 S5 F1": one letter a layer, run-length coded (letters in docs/pattern.md). Writes at most `size` bytes.
const char *kva_model_pattern(const struct kva_model *model, char *buffer, size_t size);
const struct kva_value *kva_model_value(const struct kva_model *model, const char *name);  // NULL when unknown
// What a GGUF header says under "attention.key_length"; NULL: nothing, or it was a config.
const struct kva_value *kva_model_header(const struct kva_model *model, const char *key);

// ---------------------------------------------------------------- the catalogue: configs of published models

struct kva_catalogue_entry {
    const char *id;  // "google/gemma-3-27b-it"
    const char *model_type, *architecture, *family;
    uint64_t layers, context_limit;  // 0: not known
    const char *pattern;             // kva_model_pattern, "" when not known
    const char *source, *fidelity;   // where the config was seen, and how whole that copy is
    const char *notes;               // "" when there are none
    const char *problem;             // why it cannot be read; NULL: it can
};

struct kva_catalogue {
    struct kva_catalogue_entry *entries;  // by id, whatever the case of its letters
    size_t n_entries;
    void *arena;
};

// NULL: any. Letter case does not matter.
struct kva_catalogue_query {
    const char *text;  // stands somewhere in the id, the model_type, the architecture or the family
    const char *family, *model_type;
};

// query may be NULL. Errors: KVA_BAD_INPUT (a source.yaml that breaks its schema), KVA_MACHINE.
enum kva_status kva_catalogue_open(struct kva_atlas *atlas, const struct kva_catalogue_query *query,
                                   struct kva_catalogue **catalogue, struct kva_error *error);
void kva_catalogue_close(struct kva_catalogue *catalogue);

// ---------------------------------------------------------------- deployments

// A setting that a person may leave to the engine.
enum kva_switch { KVA_UNSET = 0, KVA_OFF, KVA_ON };

// An accelerator, as data/gpus.yaml describes it. Memory is what the driver reports, not what the vendor sells.
struct kva_gpu {
    const char *id, *name, *vendor;  // "h100-sxm", "NVIDIA H100 80GB HBM3", "nvidia"
    uint64_t total_bytes;            // what CUDA's totalGlobalMem (torch, vLLM, SGLang, llama.cpp) says; 0: not known
    const char *total_basis;         // how that is known: "measured", "printed", "derived", "bound"; NULL: it is not
    uint64_t reported_bytes;         // total as nvidia-smi prints it; 0: not known
    double sold_bytes;               // as it is sold, 10^9 bytes for each GB; 0: not known
    double bytes_per_second;         // peak read bandwidth of its memory; 0: not known
    double bf16_flops;               // dense bf16 operations per second; 0: not known
    const char *compute;             // "9.0", "gfx942"; NULL: not known
    uint32_t compute_major, compute_minor;
    bool fp8, fp4;              // matrix units for them
    bool fp8_known, fp4_known;  // whether anybody says so
    bool unified;               // memory is shared with the CPU
    const char **references;    // "id: title, URL"
    size_t n_references;
};

// The accelerator that `name` means, whatever the case and the dashes of it and whether the maker is named: "h100",
// "NVIDIA H100 80GB HBM3", "4090". It lives as long as the atlas. Errors: KVA_REFUSED (none, with the nearest name),
// KVA_BAD_INPUT (gpus.yaml breaks its schema), KVA_MACHINE.
enum kva_status kva_gpu_find(struct kva_atlas *atlas, const char *name, const struct kva_gpu **gpu,
                             struct kva_error *error);
// The accelerators one of whose names, or whose vendor, holds `query` (NULL: all), in the catalogue's order. gpus: a
// list of *n that lives as long as the atlas does; free() it.
enum kva_status kva_gpus_open(struct kva_atlas *atlas, const char *query, const struct kva_gpu ***gpus, size_t *n,
                              struct kva_error *error);

// What a person chooses. One structure for all engines: each field can be set by the spelling that an engine's users
// type (kva_deployment_set). Zero, NULL and KVA_UNSET mean: not said. Strings are the caller's, or live as long as the
// plan that resolved them.
struct kva_deployment {
    const char *engine;   // "exact", "vllm@0.19.1"; resolved: the engine's id
    const char *version;  // resolved: "0.19.1"; "" for the built-in policies
    bool nearest;         // take the nearest known version instead of refusing one that is not known

    uint64_t context;          // tokens of each sequence; 0: the model's limit
    bool auto_context;         // the engine picks the largest context that fits (vLLM's --max-model-len auto)
    uint64_t sequences;        // sequences at a time; 0: 1
    uint64_t max_sequences;    // what the engine is told to expect at most: --max-num-seqs, --max-running-requests
    uint64_t prompt;           // tokens fed in before the first one is decoded; 0: all but one
    uint64_t encoder_context;  // rows of encoder states where the config does not tell; 0: as `context`
    uint64_t encoder_tokens;   // an engine's budget of encoder tokens in a batch

    const char *kv_type;                     // the cache's element type as typed: "fp8", "q8_0"; NULL: the model's
    const char *kv_type_k, *kv_type_v;       // of keys and of values alone (llama.cpp)
    enum kva_dtype kv_dtype;                 // the same where it is a plain element type
    enum kva_dtype model_dtype;              // of states without a dtype of their own; KVA_DTYPE_NONE: the model's
    enum kva_dtype state_dtype, conv_dtype;  // of recurrent and of convolution states, where an engine lets choose
    const char *skip_layers;                 // layers that keep the model's type: "0,1,sliding_window"

    uint64_t tp, pp, dp, dcp, pcp;  // ranks of tensor, pipeline, data, decode-context and prefill-context parallelism
    enum kva_switch dp_attention;   // attention is data-parallel inside tensor parallelism
    const char *pp_partition;       // layers of each stage: "31,31"

    uint64_t block_size;    // tokens of a block: --block-size, --page-size, --tokens-per-block
    uint64_t batch_tokens;  // tokens of one pass: --max-num-batched-tokens, --chunked-prefill-size, --batch-size
    uint64_t ubatch;        // llama.cpp's physical batch
    uint64_t spec_tokens;   // speculative tokens a step
    uint64_t draft_layers;  // attention layers of a draft model or of multi-token prediction
    uint64_t rs_seq;        // llama.cpp's snapshots of a recurrent state
    const char *mla;        // ik_llama.cpp's way of caching a latent: "0" to "3"

    const char *gpu;                  // a name of the catalogue: "h100"
    const struct kva_gpu *gpu_facts;  // resolved
    uint64_t gpu_bytes;               // memory of one GPU; resolved from `gpu`
    double memory_fraction;           // --gpu-memory-utilization, --mem-fraction-static, --free-gpu-memory-fraction
    uint64_t kv_bytes;                // bytes for caches on one rank: --kv-cache-memory-bytes; resolved: the budget
    uint64_t kv_short;                // by how much weights and allowances exceed the memory; kv_bytes is then 1
    uint64_t kv_tokens;               // --max-total-tokens, max_tokens
    uint64_t kv_blocks;               // --num-gpu-blocks-override
    uint64_t weight_bytes, activation_bytes, graph_bytes, other_bytes;  // of one rank

    enum kva_switch hybrid_manager, prefix_caching, async_scheduling, chunked_prefill, swa_full, kv_unified;
    enum kva_switch flash_attention, offload_kqv, cuda_graphs, static_cache, llm_class;
    const char *attention_backend, *mamba_cache_mode, *manager, *windows, *window_shares, *cache_implementation;
    const char *cache_backend;  // "quanto", "hqq": what quantizes Transformers' cache
    uint64_t mamba_block_size, mamba_slots;
    double swa_ratio, mamba_ratio;
    uint64_t kv_bits, kv_group_size, quantized_kv_start, max_kv_size;
    uint64_t residual_length;  // tokens that Transformers' quantized cache keeps as they are
};

// Sets the field that an engine's users call `flag` ("--max-num-batched-tokens", "max_num_batched_tokens"); value: as
// typed, "on" or NULL for a bare switch. "--no-..." turns a switch off. Errors: KVA_BAD_INPUT (no such flag, not a
// value of its type).
enum kva_status kva_deployment_set(struct kva_deployment *deployment, const char *flag, const char *value,
                                   struct kva_error *error);

enum kva_quantity_type { KVA_QUANTITY_COUNT, KVA_QUANTITY_REAL, KVA_QUANTITY_TEXT };
// A number that an engine prints, or that a line of its log says: "tokens" = 74896.
struct kva_quantity {
    const char *name;
    enum kva_quantity_type type;
    uint64_t count;
    double real;
    const char *text;
};

// The value of field `index` (< kva_n_deployment_flags()), named as in struct kva_deployment. False: nothing was said.
bool kva_deployment_get(const struct kva_deployment *deployment, size_t index, struct kva_quantity *value);

// The main spelling of the flag that sets field `name` ("kv_type"); NULL: no such field.
const char *kva_deployment_flag_of(const char *name);
// Does the engine `engine` ("vllm") have the setting of field `index`? What it does not have is nothing to it: a plan
// says so.
bool kva_deployment_flag_is_of(size_t index, const char *engine);

// Fills what *deployment does not say from `from`. Calls `differs` (which may be NULL) with the main spelling of each
// flag of which the two say different things, and with what they say.
void kva_deployment_fill(struct kva_deployment *deployment, const struct kva_deployment *from,
                         void (*differs)(void *user, const char *flag, const struct kva_quantity *mine,
                                         const struct kva_quantity *other),
                         void *user);
// Does *deployment say anything for the flag?
bool kva_deployment_says(const struct kva_deployment *deployment, const char *flag);

// One way to set a field, for help texts and for whoever reads an engine's command line.
#define KVA_MAX_SPELLINGS 8
struct kva_deployment_flag {
    const char *names[KVA_MAX_SPELLINGS];  // "--batch-size", "--chunked-prefill-size", ...; NULL after the last
    const char *shown;                     // "N", "TYPE"; NULL: a switch
    const char *help;
};
size_t kva_n_deployment_flags(void);
const struct kva_deployment_flag *kva_deployment_flag(size_t index);
// The flag that is spelled `name`; NULL: none. *negated: it was "--no-...".
const struct kva_deployment_flag *kva_deployment_flag_find(const char *name, bool *negated);

// ---------------------------------------------------------------- engines

struct kva_engine_range {
    const char *since, *until;  // the first and the last known version that it holds for
    const char *value;
    const char *const *references;  // ids
    size_t n_references;
};
struct kva_engine_behaviour {
    const char *name, *about;
    struct kva_engine_range *values;
    size_t n_values;
};
// What `kvatlas engines` shows of one engine.
struct kva_engine_info {
    const char *id, *name, *summary;
    const char **versions, **dates;  // oldest first; none for the built-in policies
    size_t n_versions;
    struct kva_engine_behaviour *behaviours;
    size_t n_behaviours;
    const char **lines;  // templates of what its newest version prints
    size_t n_lines;
    const char **kv_types;  // what its cache flag takes at the newest version
    size_t n_kv_types;
    const char **references;  // of all of them: "id: title, URL"
    size_t n_references;
    void *arena;
};
// name: an engine's id. Errors: KVA_REFUSED (not known, with what is known), KVA_BAD_INPUT (a data file that breaks its
// schema), KVA_MACHINE. Release with kva_engine_info_free.
enum kva_status kva_engine_info_open(struct kva_atlas *atlas, const char *name, struct kva_engine_info **info,
                                     struct kva_error *error);
void kva_engine_info_free(struct kva_engine_info *info);
const char *kva_engine_name(size_t index);  // ids in the order that people see; NULL past the last

// ---------------------------------------------------------------- plans

#define KVA_MAX_ASSUMED 40

struct kva_layer_plan {
    uint32_t index;
    int32_t reads_layer;  // -1: reads none
    uint64_t need;        // bytes, all sequences, of the rank that holds the layer
    uint64_t allocated;
    uint64_t logical;        // of `allocated`, what the engine itself calls the cache's size, where the two differ
    uint64_t sharing_saved;  // what it would have needed had it owned a cache
    uint64_t state;          // the part of `need` that does not grow
    uint64_t rows;           // cache rows (tokens) allocated for one sequence; 0 for states and shared layers
    uint32_t stage;          // of pipeline parallelism
};

struct kva_pool {
    const char *name;
    uint32_t *layers;
    size_t n_layers;
    uint64_t block_tokens, page_bytes, blocks, bytes;
};

// A line of the engine's log, as it will print it.
struct kva_print_line {
    const char *id;  // "capacity"
    const char *text;
    struct kva_quantity *quantities;
    size_t n_quantities;
};

// What the memory of a rank holds. Nothing of it is known without a budget (a GPU, or bytes for caches).
struct kva_capacity {
    bool known;
    bool estimated;     // the budget is what weights and allowances leave of a GPU, and not a number that was given
    uint64_t budget;    // bytes for caches on one rank
    uint64_t reserved;  // of these, what the engine sets aside at start
    uint64_t tokens;    // as the engine prints it
    uint64_t sequences_at_context;
    uint64_t max_context;  // largest context that the engine would start with for one sequence; KVA_UNKNOWN: not asked
    bool fits;             // the sequences asked for, at the context asked for
    const char *refusal;   // the engine's own words when it does not start; NULL: it starts
};

struct kva_kv_type;
struct kva_decode;

struct kva_plan {
    const struct kva_model *model;
    struct kva_deployment deployment;  // resolved
    const char *engine_name;           // "vLLM"
    const char *engine_version;        // "" for the built-in policies
    const char **engine_references;    // ids of what its behaviours were read in; kva_engine_info has their titles
    size_t n_engine_references;
    const char *assumed[KVA_MAX_ASSUMED];
    size_t n_assumed;
    // bytes of the rank that holds most, all sequences
    uint64_t naive, need, allocated, overpay, sharing_saved, state;
    uint64_t unassigned;   // the part of `allocated` that no layer uses: padding layers, null blocks, spare slots
    uint64_t outside;      // the part of `allocated` that is not paid from the budget for caches: tables of requests
    uint64_t peak;         // the most that is held for a moment while a prompt is fed in; 0: not more than `allocated`
    double overpay_ratio;  // allocated / need; 1 when need is 0
    const char *overpay_why;                      // one line; "" when it takes no more than the need
    uint64_t ranks, total_need, total_allocated;  // all ranks; `total_need` counts every cache once for each replica
    uint64_t bytes_per_token;  // need of one more token, all growing layers, one sequence, at this context
    uint64_t naive_bytes_per_token;
    struct kva_layer_plan *layers;
    size_t n_layers;
    struct kva_pool *pools;
    size_t n_pools;
    struct kva_capacity capacity;
    struct kva_print_line *prints;
    size_t n_prints;
    const struct kva_kv_type *kv_format;  // bytes of a row of the cache, as the engine keeps it
    struct kva_decode *decode;            // kva_decode_cost of it, where somebody asked; NULL: nobody did
    void *arena;
};

// Errors: KVA_BAD_INPUT (no context given or known, contradictory flags, overflow), KVA_REFUSED (unknown engine or
// version, an architecture that the engine does not run), KVA_MACHINE. The model and the atlas must outlive the plan;
// the atlas may be NULL for the built-in policies.
enum kva_status kva_plan_make(struct kva_atlas *atlas, const struct kva_model *model,
                              const struct kva_deployment *deployment, struct kva_plan **plan, struct kva_error *error);
void kva_plan_free(struct kva_plan *plan);

// Bytes that one cache keeps for one sequence at `context` tokens; 0 for a cache that reads another layer's. Errors:
// KVA_BAD_INPUT (dtype unknown, overflow), KVA_REFUSED (a cross cache whose length is not known).
enum kva_status kva_need_bytes(const struct kva_cache *cache, uint64_t context, enum kva_dtype kv_dtype,
                               enum kva_dtype model_dtype, uint64_t *bytes, struct kva_error *error);

// ---------------------------------------------------------------- what one decoded token costs

// Layers of one kind, or what stands outside the layers. Of one tensor-parallel rank.
struct kva_decode_kind {
    const char *name;        // the kind of layer: "sliding"; "head" for what is outside
    const char *grows;       // how what it reads depends on the context: "with the context", "not", ...
    size_t layers;           // 0: outside the layers
    uint64_t weight_bytes;   // read once a step, whatever the number of sequences; KVA_UNKNOWN
    uint64_t cache_read;     // bytes of one sequence, each reader of a shared cache counted
    uint64_t cache_written;  // bytes of one sequence
    uint64_t flops;          // of one token: products with weights, attention and recurrence; KVA_UNKNOWN
    double intensity;        // operations for each byte of a step; 0: not known
};

// Moving and computing that one step of decoding takes: one more token of each sequence, at the plan's context.
#define KVA_MAX_DECODE_NOTES 8
struct kva_decode {
    uint64_t context, sequences;
    struct kva_decode_kind *kinds;
    size_t n_kinds;
    uint64_t weight_bytes, cache_read, cache_written, flops;  // sums over the kinds
    uint64_t step_bytes;                                      // weights + sequences x (read + written); KVA_UNKNOWN
    uint64_t step_flops;                                      // sequences x flops; KVA_UNKNOWN
    double intensity;                                         // step_flops / step_bytes; 0: not known
    const struct kva_gpu *gpu;                                // NULL: none was named
    // the roofline of the GPU: a bound that no implementation passes; 0: not known
    double memory_seconds, compute_seconds;  // of a step
    double tokens_per_second;                // of all sequences together
    double balance;                          // operations a byte at which the GPU turns from memory- to compute-bound
    bool compute_bound;
    const char *notes[KVA_MAX_DECODE_NOTES];  // what was counted how
    size_t n_notes;
};
// Works out plan->decode, unless it is there. Errors: KVA_BAD_INPUT (overflow), KVA_REFUSED (encoder states whose
// length is not known), KVA_MACHINE.
enum kva_status kva_decode_cost(struct kva_plan *plan, struct kva_error *error);

// ---------------------------------------------------------------- does it fit, and what would make it

// A change of the deployment that turns a no into a yes.
struct kva_fit_knob {
    const char *flag;   // "--kv-dtype"
    const char *value;  // the mildest that works: the largest context, the least number of ranks
    const char *now;    // what it is; "" when it is not said
    const char *cost;   // what the change takes, one line
};

// The asked sequences at one context.
struct kva_fit_point {
    uint64_t context;
    bool planned;  // false: the engine refuses it, `refusal` says why
    bool fits;
    uint64_t need, allocated, budget;
    uint64_t max_sequences;  // that fit at this context; KVA_UNKNOWN: no number is too many
    const char *refusal;
};

struct kva_fit {
    struct kva_plan *plan;  // as asked, with its decode cost; owned
    bool fits;
    uint64_t max_context;    // largest at which the asked sequences fit, up to the larger of the model's limit and the
                             // context asked for; 0: none; KVA_UNKNOWN: without a limit, any
    bool limited_by_model;   // a larger context would fit, the model ends before
    uint64_t max_sequences;  // most that fit at the asked context; KVA_UNKNOWN: no number is too many
    bool weights_too_large;  // the weights and allowances alone leave nothing for caches
    struct kva_fit_knob *knobs;  // only where it does not fit; what costs least first
    size_t n_knobs;
    struct kva_fit_point *points;  // of a sweep
    size_t n_points;
    void *arena;
};

struct kva_fit_options {
    bool sweep;                // over powers of two up to the model's limit, or over `contexts`
    const uint64_t *contexts;  // [n_contexts]
    size_t n_contexts;
    bool no_knobs;
};

// Every answer is found by planning, never by a straight line through two plans: a value works and the next one does
// not. options may be NULL. KVA_OK also when it does not fit: see fit->fits. Errors: those of kva_plan_make for the
// deployment as asked; KVA_BAD_INPUT when nothing says how much memory there is (gpu, gpu_bytes, kv_bytes).
enum kva_status kva_fit_make(struct kva_atlas *atlas, const struct kva_model *model,
                             const struct kva_deployment *deployment, const struct kva_fit_options *options,
                             struct kva_fit **fit, struct kva_error *error);
void kva_fit_free(struct kva_fit *fit);

// ---------------------------------------------------------------- what the executor will allocate

// Everything that one run of the reference executor asks a device for, predicted from the config alone.
struct kva_footprint {
    uint64_t weights;      // bytes asked for weights, each tensor aligned
    uint64_t cache;        // = plan->allocated
    uint64_t activations;  // buffers of one pass
    uint64_t workspace;    // matrix-product workspace, set explicitly
    uint64_t given;        // all four after the allocator's rounding to pages
    uint64_t allocations;  // how many
};

struct kva_footprint_options {
    uint64_t rows;        // rows (tokens, all sequences) of one pass
    uint64_t logit_rows;  // rows of logits kept on the device
    uint64_t page_bytes;  // the allocator's granularity
    uint64_t workspace;   // bytes
};

enum kva_status kva_footprint(const struct kva_plan *plan, const struct kva_footprint_options *options,
                              struct kva_footprint *footprint, struct kva_error *error);

// ---------------------------------------------------------------- runs

enum kva_purpose { KVA_WEIGHTS, KVA_CACHE, KVA_ACTIVATIONS, KVA_WORKSPACE, KVA_N_PURPOSES };
const char *kva_purpose_name(enum kva_purpose purpose);

// One device allocation, as made.
struct kva_allocation {
    int32_t layer;  // -1: of no layer
    enum kva_purpose purpose;
    uint64_t asked, given;
};

struct kva_run_options {
    const char *backend;   // "cpu", "cuda", or NULL: cuda when a device answers, else cpu
    enum kva_dtype dtype;  // KVA_F32 or KVA_BF16: weights, activations and caches
    const char *policy;    // "exact" or "full"
    uint64_t context;      // tokens that the caches must hold for each sequence
    uint64_t sequences;
    uint64_t chunk;            // rows of one prefill pass; 0: 2048
    const char *weights;       // directory or file of safetensors, or "random"
    uint64_t seed;             // for random weights
    bool no_prune;             // run every prompt position through every layer
    bool all_logits;           // keep logits of every position, not only each sequence's last
    bool profile;              // time stages
    uint64_t predicted_bytes;  // of the whole run, for the out-of-memory message; 0: none
    void (*progress)(void *user, const char *what, uint64_t done, uint64_t total);  // may be NULL
    void *user;
};

struct kva_device_info {
    char backend[16];
    char name[128];
    char driver[64];
    uint64_t total_bytes;    // as the driver reports it
    uint64_t free_bytes;     // when the device was opened
    uint64_t page_bytes;     // granularity of an allocation
    uint64_t context_bytes;  // what the process held before the first allocation of ours
    uint32_t compute_major, compute_minor, multiprocessors;
};

enum kva_stage {
    KVA_STAGE_EMBED,
    KVA_STAGE_NORM,
    KVA_STAGE_QKV,
    KVA_STAGE_ROPE,
    KVA_STAGE_ATTENTION,
    KVA_STAGE_CACHE_WRITE,
    KVA_STAGE_PROJECT,
    KVA_STAGE_FFN,
    KVA_STAGE_CONV,
    KVA_STAGE_SCAN,
    KVA_STAGE_GMU,
    KVA_STAGE_HEAD,
    KVA_N_STAGES
};
const char *kva_stage_name(enum kva_stage stage);

struct kva_stage_time {
    uint64_t calls;
    double milliseconds;
    double bytes;  // moved to and from device memory, counted from shapes
    double flops;
};

struct kva_session;

// Opens a device, loads or makes the weights and allocates every cache. Errors: KVA_BAD_INPUT (weights that do not
// fit the config), KVA_REFUSED (an architecture without a recipe), KVA_MACHINE (no device, out of memory: says which
// allocation, what was predicted and what was free; everything is released).
enum kva_status kva_session_open(const struct kva_model *model, const struct kva_run_options *options,
                                 struct kva_session **session, struct kva_error *error);
void kva_session_close(struct kva_session *session);

// Runs lengths[s] more tokens of each sequence s through the model (lengths may differ, 0 is allowed). tokens: all
// sequences one after another. logits: float32, [sum(lengths), vocab] with all_logits, else [sequences, vocab] (the
// last position of each sequence; rows of sequences of length 0 are left alone); may be NULL. KVA_BAD_INPUT when a
// sequence's last logits hold a NaN or an infinity: there is no next token to choose.
enum kva_status kva_session_pass(struct kva_session *session, const uint32_t *tokens, const uint64_t *lengths,
                                 float *logits, struct kva_error *error);
// The greedy choice after the last pass, [sequences].
enum kva_status kva_session_greedy(struct kva_session *session, uint32_t *tokens, struct kva_error *error);
// Forgets all tokens: every cache is empty again.
enum kva_status kva_session_reset(struct kva_session *session, struct kva_error *error);

const struct kva_device_info *kva_session_device(const struct kva_session *session);
const struct kva_allocation *kva_session_ledger(const struct kva_session *session, size_t *n);
uint64_t kva_session_device_used(struct kva_session *session);  // the driver's account of this moment
uint64_t kva_session_rows(const struct kva_session *session);   // rows of one pass
uint64_t kva_session_logit_rows(const struct kva_session *session);
uint64_t kva_session_workspace(const struct kva_session *session);
uint64_t kva_session_vocab(const struct kva_session *session);
const struct kva_stage_time *kva_session_stages(struct kva_session *session);  // [KVA_N_STAGES]
void kva_session_stages_reset(struct kva_session *session);
// Rows that prefill did not send through the layers that only read another layer's cache.
uint64_t kva_session_pruned_rows(const struct kva_session *session);
enum kva_status kva_session_sync(struct kva_session *session, struct kva_error *error);

// Measured ceilings of the device: bytes read per second, and floating-point operations per second of a product of
// two bf16 (or f32) matrices of side `side`.
enum kva_status kva_session_ceilings(struct kva_session *session, uint64_t side, double *read_bytes_per_second,
                                     double *flops_per_second, struct kva_error *error);

// ---------------------------------------------------------------- verification: one case, or a suite of them

// What to run. Zero and NULL mean: not said.
struct kva_case {
    const char *model;        // as kva_model_open takes it
    uint64_t depth;           // run only the first layers; 0: all
    const char *backend;      // "cpu", "cuda"; NULL: cuda when a device answers, else cpu
    enum kva_dtype dtype;     // KVA_DTYPE_NONE: bf16 for random weights, else the config's (f32 when it has none)
    const char *policy;       // NULL: "exact"
    uint64_t context;         // tokens the caches hold; 0: prompt and decoded tokens
    uint64_t sequences;       // 0: one for each prompt, or 1
    uint64_t prompt_length;   // random tokens for each sequence, when there are no tokens
    uint64_t decode;          // tokens to decode greedily after the prompt
    const char *tokens_file;  // kva_tokens_read; one sequence a line
    uint64_t prefill;       // reference form: the whole pass, then a prefill of so many tokens and a decode of the rest
    bool reference_form;    // implied by `reference`; without `prefill` all tokens but one
    const char *reference;  // safetensors with `logits` and `decode_logits` [and `input_ids`] to compare with
    double tolerance;       // largest absolute difference; 0: 1e-4 (f32 cpu), 1e-3 (f32 cuda), 3e-2 std (bf16)
    const char *plan_file;  // a saved `kvatlas plan --format json` to hold the run against, instead of a fresh plan
    const char *weights;    // NULL: the model's directory when it holds safetensors, else "random"
    uint64_t seed, chunk;
    bool no_prune, profile;
    bool keep_logits;  // for lossless comparison and for writing them out
    void (*progress)(void *user, const char *what, uint64_t done, uint64_t total);
    void *user;
};

struct kva_numbers {
    uint64_t weights, cache, activations, workspace, process;
};

// Whether a level of verification (design: asked, given, lossless, right) holds.
enum kva_check { KVA_NOT_CHECKED, KVA_HOLDS, KVA_FAILS };

struct kva_result {
    enum kva_status status;  // KVA_OK: it ran; else `error` says why not, and nothing below `spec` is filled in
    struct kva_error error;
    struct kva_case spec;            // resolved; its strings are the caller's or the model's
    struct kva_model *model;         // owned
    struct kva_plan *plan;           // owned
    struct kva_footprint footprint;  // predicted
    struct kva_device_info device;
    struct kva_allocation *ledger;
    size_t n_ledger;
    struct kva_numbers predicted, measured;
    uint64_t process_tolerance;  // one page for each allocation
    int64_t difference_bytes;    // cache: measured - predicted
    uint64_t live_cache_bytes;   // KVA_UNKNOWN: not probed
    enum kva_check asked, given, lossless, right;
    double lossless_difference, right_difference, right_tolerance;
    bool matches;
    char explanation[256];  // the first thing that does not match
    uint32_t *generated;    // [sequences, decode]
    uint64_t prompt_tokens, pruned_rows;
    double load_seconds, prefill_seconds, decode_seconds;
    struct kva_stage_time prefill_stages[KVA_N_STAGES], decode_stages[KVA_N_STAGES];
    uint64_t vocab;
    float *logits;  // reference form: [tokens, vocab]; else [1 + decode, sequences, vocab]
    uint64_t logit_rows;
    float *decode_logits;  // reference form: [tokens - prefill, vocab]
    uint64_t decode_rows;
};

// Runs one case and compares. KVA_OK also when the comparison fails: see result->matches. Other errors: as
// kva_model_open, kva_plan_make and kva_session_open.
enum kva_status kva_case_run(struct kva_atlas *atlas, const struct kva_case *spec, struct kva_result *result,
                             struct kva_error *error);
void kva_result_free(struct kva_result *result);

// Compares what two policies gave for the same tokens and marks both. Both need kept logits.
void kva_result_compare_lossless(struct kva_result *a, struct kva_result *b);
// Sets asked, given, matches and explanation from the plan, the footprint and the ledger in *result.
void kva_result_judge(struct kva_result *result);

// The policies of a saved plan (or of several in one file), and the context they are for. engines: [*n] of at most
// `room`, 32 bytes each.
enum kva_status kva_plan_file_read(const char *path, char engines[][32], size_t room, size_t *n, uint64_t *context,
                                   uint64_t *sequences, struct kva_error *error);

// Token ids: a text file of numbers (spaces or commas between, one sequence a line), or `input_ids` of a safetensors
// file ([sequences, tokens], int32 or int64). lengths and tokens: free() both.
enum kva_status kva_tokens_read(const char *path, uint32_t **tokens, uint64_t **lengths, uint64_t *sequences,
                                struct kva_error *error);

// A suite file (YAML; docs/suites.md) as cases, every combination written out.
struct kva_suite {
    struct kva_case *cases;
    size_t n_cases;
    void *memory;
};
// has_gpu: whether a GPU answers; a suite may say smaller numbers for machines without one.
enum kva_status kva_suite_read(const char *path, bool has_gpu, struct kva_suite *suite, struct kva_error *error);
void kva_suite_free(struct kva_suite *suite);

// Whether `backend` ("cuda") can be opened here.
bool kva_backend_answers(const char *backend);

// ---------------------------------------------------------------- an engine's log against the plan

enum kva_verdict {
    KVA_VERDICT_UNKNOWN,  // nothing to compare with
    KVA_VERDICT_MATCH,    // as printed, to the digit
    KVA_VERDICT_MISMATCH,
    KVA_VERDICT_GIVEN,  // taken from the log, since nothing else tells it
};
const char *kva_verdict_name(enum kva_verdict verdict);  // "match"

// One number of the log beside what the plan prints in its place.
struct kva_check_number {
    uint64_t line;                                      // of the log
    const char *text;                                   // that line, from where the engine's own words start
    const char *id;                                     // of the engine's template: "capacity"
    const char *quantity;                               // "tokens"
    const char *printed, *predicted;                    // "136,080", "136080"; predicted NULL: nothing is
    bool numeric;                                       // printed_value is the number that is printed
    bool whole;                                         // it is a count
    bool compared;                                      // predicted is a number too: the next two are set
    double printed_value, predicted_value, difference;  // as they are printed; difference: printed - predicted
    enum kva_verdict verdict;
};

struct kva_check_options {
    const char *log;                          // a file; "-": standard input
    const char *model;                        // NULL: the one that the log names
    const struct kva_model_options *how;      // may be NULL
    const struct kva_deployment *deployment;  // what the log does not say, or says wrong: it wins. May be NULL
};

struct kva_check_result {
    const char *engine, *engine_name, *version;  // version "": the engine has none
    bool version_known;                          // the log or the caller named it
    struct kva_model *model;                     // owned
    struct kva_plan *plan;                       // owned: the one that the numbers were held against
    struct kva_check_number *numbers;            // in the order of the log
    size_t n_numbers;
    const char **explanation;  // each alone would make every number come out
    size_t n_explanation;
    const char **notes;  // what was taken from where, what contradicts itself, what was left out
    size_t n_notes;
    enum kva_verdict verdict;
    void *arena;
};

// Reads a log in bounded memory, however large and whatever is in it, and compares. KVA_OK also when numbers differ:
// see result->verdict. Errors: KVA_BAD_INPUT (no such file, nothing recognised, numbers of two engines and none named,
// no model), KVA_REFUSED (a version or an engine that kvatlas does not know), KVA_MACHINE.
enum kva_status kva_check_log(struct kva_atlas *atlas, const struct kva_check_options *options,
                              struct kva_check_result *result, struct kva_error *error);
void kva_check_result_free(struct kva_check_result *result);

#ifdef __cplusplus
}
#endif
#endif
