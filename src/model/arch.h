// An architecture file, data/architectures/<model_type>.yaml, as typed data: which keys a config has, which layers
// hold which caches, which tensors a checkpoint holds and how the executor puts a decoder together from them.
// Formulas in these files are expressions (expr.h) over the names of `keys`, plus `i` (layer, from 0).
#ifndef KVA_MODEL_ARCH_H
#define KVA_MODEL_ARCH_H

#include "kvatlas.h"

// keys: one fact that a config may state.
struct kva_arch_key {
    char *name;  // "kv_heads"
    // The config's spellings, first present wins; none: always computed from `absent`. "a.b" is nested, "a.*.b" is a
    // list over the entries of a, "/a" is looked up in the outermost config.
    char **keys;
    unsigned n_keys;
    enum kva_value_type type;
    char *absent;     // the class default: a literal, or a formula over earlier names; NULL: the key must be there
    char *null;       // what an explicit null means; NULL: null is an error
    char *other;      // what a value of another type means; NULL: it is an error
    char *automatic;  // what the text "auto" means in a KVA_COUNT key; NULL: text is an error
    bool zero;        // 0 is a count like any other here (a window that is off); otherwise a count is at least 1
};

// checks: what the model's own class insists on.
struct kva_arch_check {
    char *holds;  // formula
    char *text;   // what was expected, for the reader
};

struct kva_arch_state {
    char *name;
    char *elements;        // formula
    enum kva_dtype dtype;  // NONE: the model's
    char *dtype_key;       // name of a KVA_TEXT key that overrides it, or NULL
};

enum kva_rope_choice { KVA_ROPE_CHOICE_MAIN, KVA_ROPE_CHOICE_LOCAL, KVA_ROPE_CHOICE_NO };

// One cache of a layer.
struct kva_arch_cached {
    char *when;  // formula: whether this layer has it; NULL: always
    enum kva_cache_kind cache;
    char *kv_heads, *k_dim, *v_dim;  // formulas; NULL: kv_heads, head_dim, and head_dim or 0
    char *window;                    // formula, 0 meaning no window; NULL: none
    char *ratio;                     // formula: tokens that one row stands for; NULL: 1
    char *length;                    // formula: rows of a cross cache, 0 meaning not told; NULL: 0
    bool shared_kv;                  // keys and values are one tensor
    struct kva_arch_state *state;
    unsigned n_state;
};

// kinds: what a layer of this kind holds and which mixer it runs.
struct kva_arch_kind {
    char *name;
    enum kva_mixer mixer;
    struct kva_arch_cached first;  // its fields stand beside `name` in the file
    struct kva_arch_cached *also;  // further caches of the same layer
    unsigned n_also;
    char *reads;  // formula: the layer whose first cache it reads, -1: its own; NULL: its own
    enum kva_rope_choice rope;
};

// rules: the first whose `when` holds gives layer i its kind; `when` NULL always holds.
struct kva_arch_rule {
    char *when;
    char *kind;
    char *why;  // for the reader; NULL: the formula itself
    bool wins;  // asked before the config's own list
};

struct kva_arch_label {
    char *label;  // "sliding_attention"; of other entries what JSON writes: "1", "true", "null"
    char *kind;
};

// list: a key that lists the kind of every layer. Where it is present (not null) it wins over the rules.
struct kva_arch_list {
    char *key;
    char **aliases;  // further spellings of the key
    unsigned n_aliases;
    bool truncate;  // it may be longer than the layers: what is left over are layers of multi-token prediction
    bool tile;      // it is repeated until every layer has an entry
    bool letters;   // a text is a list of its letters
    struct kva_arch_label *labels;
    unsigned n_labels;
};

// What a tensor is to the decoder. A tensor that is listed is used: q_norm listed means queries are normed.
enum kva_role {
    KVA_ROLE_OTHER,  // counted, not executed
    KVA_ROLE_EMBED,
    KVA_ROLE_HEAD,
    KVA_ROLE_HEAD_BIAS,
    KVA_ROLE_FINAL_NORM,
    KVA_ROLE_FINAL_NORM_BIAS,
    KVA_ROLE_MIXER_NORM,  // before the mixer
    KVA_ROLE_MIXER_NORM_BIAS,
    KVA_ROLE_MIXER_POST_NORM,  // on the mixer's output, before it is added
    KVA_ROLE_FFN_NORM,
    KVA_ROLE_FFN_NORM_BIAS,
    KVA_ROLE_FFN_POST_NORM,
    KVA_ROLE_Q,  // [heads * head_dim, hidden]
    KVA_ROLE_Q_BIAS,
    KVA_ROLE_K,
    KVA_ROLE_K_BIAS,
    KVA_ROLE_V,
    KVA_ROLE_V_BIAS,
    KVA_ROLE_QKV,  // q, k, v rows one after another
    KVA_ROLE_QKV_BIAS,
    KVA_ROLE_O,
    KVA_ROLE_O_BIAS,
    KVA_ROLE_Q_NORM,  // [head_dim]
    KVA_ROLE_K_NORM,
    KVA_ROLE_LAMBDA_Q1,  // [head_dim], f32: differential attention
    KVA_ROLE_LAMBDA_K1,
    KVA_ROLE_LAMBDA_Q2,
    KVA_ROLE_LAMBDA_K2,
    KVA_ROLE_SUB_NORM,  // [2 * head_dim]
    KVA_ROLE_GATE,      // [intermediate, hidden]
    KVA_ROLE_GATE_BIAS,
    KVA_ROLE_UP,
    KVA_ROLE_UP_BIAS,
    KVA_ROLE_GATE_UP,  // gate rows, then up rows
    KVA_ROLE_GATE_UP_BIAS,
    KVA_ROLE_DOWN,  // [hidden, intermediate]
    KVA_ROLE_DOWN_BIAS,
    KVA_ROLE_SSM_IN,    // [2 * d_inner, hidden]: x rows, then z rows
    KVA_ROLE_SSM_CONV,  // [d_inner, 1, K]
    KVA_ROLE_SSM_CONV_BIAS,
    KVA_ROLE_SSM_X,   // [dt_rank + 2 N, d_inner]
    KVA_ROLE_SSM_DT,  // [d_inner, dt_rank]
    KVA_ROLE_SSM_DT_BIAS,
    KVA_ROLE_SSM_A_LOG,  // [d_inner, N], f32
    KVA_ROLE_SSM_D,      // [d_inner]
    KVA_ROLE_SSM_OUT,    // [hidden, d_inner]
    KVA_ROLE_GMU_IN,     // [d_inner, hidden]
    KVA_ROLE_GMU_OUT,    // [hidden, d_inner]
    KVA_N_ROLES,
};

// How random weights of a tensor are drawn (--weights random).
enum kva_init { KVA_INIT_LINEAR, KVA_INIT_NORM, KVA_INIT_BIAS, KVA_INIT_A_LOG, KVA_INIT_DT_BIAS, KVA_INIT_SMALL };

struct kva_arch_tensor {
    enum kva_role role;
    char *name;  // "model.layers.{i}.self_attn.q_proj.weight"; with {i}: one a layer, with {e} behind it: one an expert
    char *each;  // formula: how many {e} stands for; NULL: the name holds none
    char **shape;  // formulas, outermost first
    unsigned n_shape;
    char **kinds;  // only in layers of these kinds; empty: in all
    unsigned n_kinds;
    char *when;            // formula; NULL: always
    enum kva_dtype dtype;  // NONE: the model's
    char *weight_class;    // "attention"
};

enum kva_norm { KVA_NORM_RMS, KVA_NORM_LAYER };
enum kva_activation { KVA_SILU, KVA_GELU_TANH, KVA_GELU };

// decoder: the recipe beyond the tensors. Absent in an architecture that the executor does not run.
struct kva_arch_decoder {
    enum kva_norm norm;
    char *norm_eps;           // name of a KVA_REAL key
    bool norm_unit_offset;    // weight + 1 (Gemma)
    bool embed_sqrt_hidden;   // embeddings times sqrt(hidden) (Gemma)
    char *activation;         // name of a KVA_TEXT key
    char *attention_scalar;   // scale = 1 / sqrt(this count or real key); NULL: head_dim
    char *attention_softcap;  // name of a KVA_REAL key, 0 meaning none; NULL: none
    char *final_softcap;
    bool differential;   // even heads against odd heads
    char *memory_layer;  // formula: the layer whose ungated scan output is the GMUs' memory; NULL: none
    char *prune_from;    // formula: from this layer on, prefill needs only each sequence's last position
    char *not_run_when;  // formula: where it holds the config asks for what the executor does not do
};

// rope: which config keys hold rotary parameters, for rope.c.
struct kva_arch_rope {
    bool none;              // no positions
    char *theta;            // default of rope_theta, a number as text
    char *local_theta;      // default of the local theta; NULL: local layers rope as the others
    char *local_theta_key;  // v4 key: "rope_local_base_freq"
    char *scaling;          // the class default of rope_parameters, as JSON; NULL: plain rotation
};

// mtp: layers that predict further tokens, counted only when the person asks for it.
struct kva_arch_mtp {
    char *layers;  // formula: how many
    char *kind;    // theirs, where the config's list does not say
};

// A nested model_type that stands for another one.
struct kva_arch_remap {
    char *from, *to;
};

struct kva_arch {
    char *model_type;
    char **architectures;
    unsigned n_architectures;
    char *family;
    char **references;  // ids of data/references.yaml
    unsigned n_references;
    char *text_config;    // the nested key to recurse into ("a.b" is nested deeper); the rest is then empty
    char **text_aliases;  // further spellings of it
    unsigned n_text_aliases;
    char *text_flat;        // where the nested key is absent and this one is present, the config is flat
    char *text_model_type;  // the nested model_type when the nested config has none; NULL: it must have one
    // JSON objects, where the wrapper's class has defaults of its own for the nested config: `text_absent` stands for
    // one that is absent, the keys of `text_under` for those that a given one lacks
    char *text_absent, *text_under;
    struct kva_arch_remap *text_remap;
    unsigned n_text_remap;
    char *refused;        // why a config of this type is not planned, where its caches are not described yet
    char *tensor_prefix;  // what a wrapper's checkpoint writes before each text tensor's name
    struct kva_arch_key *keys;
    unsigned n_keys;
    struct kva_arch_check *checks;
    unsigned n_checks;
    struct kva_arch_list *list;
    struct kva_arch_kind *kinds;
    unsigned n_kinds;
    struct kva_arch_rule *rules;
    unsigned n_rules;
    struct kva_arch_mtp *mtp;
    struct kva_arch_rope *rope;  // NULL: rotation is not read, and the executor does not run it
    struct kva_arch_decoder *decoder;
    char *tensors_when;  // formula, of the last layer: whether `tensors` are all of this config's; NULL: always
    struct kva_arch_tensor *tensors;
    unsigned n_tensors;
    char **inert;  // config keys that look relevant to the cache and are not; one line each
    unsigned n_inert;
    struct kva_programs *programs;  // its formulas, compiled (expr.h); not of the file
};

// The architecture file of `model_type`, parsed and checked once and owned by the atlas. *arch NULL with KVA_OK: no
// such file. Errors: KVA_BAD_INPUT with file, line and key when the file breaks the schema.
enum kva_status kva_arch_get(struct kva_atlas *atlas, const char *model_type, const struct kva_arch **arch,
                             struct kva_error *error);

// One of its formulas, compiled. Errors: as kva_program_compile (expr.h).
struct kva_program;
enum kva_status kva_arch_formula(const struct kva_arch *arch, const char *formula, const struct kva_program **program,
                                 struct kva_error *error);

#endif
