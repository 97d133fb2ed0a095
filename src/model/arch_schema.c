#include "model/arch_schema.h"

#include "model/schema_words.h"

static const cyaml_strval_t VALUE_TYPES[] = {
    {"count", KVA_COUNT}, {"flag", KVA_FLAG}, {"real", KVA_REAL}, {"text", KVA_TEXT}, {"list", KVA_LIST}};
static const cyaml_strval_t DTYPES[] = {{"model", KVA_DTYPE_NONE}, {"f32", KVA_F32}, {"f16", KVA_F16},
                                        {"bf16", KVA_BF16},        {"u8", KVA_U8},   {"i8", KVA_I8}};
static const cyaml_strval_t MIXERS[] = {{"none", KVA_MIXER_NONE},
                                        {"attention", KVA_MIXER_ATTENTION},
                                        {"mamba1", KVA_MIXER_MAMBA1},
                                        {"gmu", KVA_MIXER_GMU},
                                        {"other", KVA_MIXER_OTHER}};
static const cyaml_strval_t CACHES[] = {{"none", KVA_CACHE_NONE},       {"full", KVA_CACHE_FULL},
                                        {"sliding", KVA_CACHE_SLIDING}, {"chunked", KVA_CACHE_CHUNKED},
                                        {"latent", KVA_CACHE_LATENT},   {"index", KVA_CACHE_INDEX},
                                        {"state", KVA_CACHE_STATE},     {"cross", KVA_CACHE_CROSS}};
static const cyaml_strval_t ROPE_CHOICES[] = {
    {"main", KVA_ROPE_CHOICE_MAIN}, {"local", KVA_ROPE_CHOICE_LOCAL}, {"none", KVA_ROPE_CHOICE_NO}};
static const cyaml_strval_t NORMS[] = {{"rms", KVA_NORM_RMS}, {"layer", KVA_NORM_LAYER}};
static const cyaml_strval_t ROLES[] = {
    {"other", KVA_ROLE_OTHER},
    {"embed", KVA_ROLE_EMBED},
    {"head", KVA_ROLE_HEAD},
    {"head_bias", KVA_ROLE_HEAD_BIAS},
    {"final_norm", KVA_ROLE_FINAL_NORM},
    {"final_norm_bias", KVA_ROLE_FINAL_NORM_BIAS},
    {"mixer_norm", KVA_ROLE_MIXER_NORM},
    {"mixer_norm_bias", KVA_ROLE_MIXER_NORM_BIAS},
    {"mixer_post_norm", KVA_ROLE_MIXER_POST_NORM},
    {"ffn_norm", KVA_ROLE_FFN_NORM},
    {"ffn_norm_bias", KVA_ROLE_FFN_NORM_BIAS},
    {"ffn_post_norm", KVA_ROLE_FFN_POST_NORM},
    {"q", KVA_ROLE_Q},
    {"q_bias", KVA_ROLE_Q_BIAS},
    {"k", KVA_ROLE_K},
    {"k_bias", KVA_ROLE_K_BIAS},
    {"v", KVA_ROLE_V},
    {"v_bias", KVA_ROLE_V_BIAS},
    {"qkv", KVA_ROLE_QKV},
    {"qkv_bias", KVA_ROLE_QKV_BIAS},
    {"o", KVA_ROLE_O},
    {"o_bias", KVA_ROLE_O_BIAS},
    {"q_norm", KVA_ROLE_Q_NORM},
    {"k_norm", KVA_ROLE_K_NORM},
    {"lambda_q1", KVA_ROLE_LAMBDA_Q1},
    {"lambda_k1", KVA_ROLE_LAMBDA_K1},
    {"lambda_q2", KVA_ROLE_LAMBDA_Q2},
    {"lambda_k2", KVA_ROLE_LAMBDA_K2},
    {"sub_norm", KVA_ROLE_SUB_NORM},
    {"gate", KVA_ROLE_GATE},
    {"gate_bias", KVA_ROLE_GATE_BIAS},
    {"up", KVA_ROLE_UP},
    {"up_bias", KVA_ROLE_UP_BIAS},
    {"gate_up", KVA_ROLE_GATE_UP},
    {"gate_up_bias", KVA_ROLE_GATE_UP_BIAS},
    {"down", KVA_ROLE_DOWN},
    {"down_bias", KVA_ROLE_DOWN_BIAS},
    {"ssm_in", KVA_ROLE_SSM_IN},
    {"ssm_conv", KVA_ROLE_SSM_CONV},
    {"ssm_conv_bias", KVA_ROLE_SSM_CONV_BIAS},
    {"ssm_x", KVA_ROLE_SSM_X},
    {"ssm_dt", KVA_ROLE_SSM_DT},
    {"ssm_dt_bias", KVA_ROLE_SSM_DT_BIAS},
    {"ssm_a_log", KVA_ROLE_SSM_A_LOG},
    {"ssm_d", KVA_ROLE_SSM_D},
    {"ssm_out", KVA_ROLE_SSM_OUT},
    {"gmu_in", KVA_ROLE_GMU_IN},
    {"gmu_out", KVA_ROLE_GMU_OUT},
};
_Static_assert(sizeof ROLES / sizeof *ROLES == KVA_N_ROLES, "every role has a word");

static const cyaml_schema_field_t KEY_FIELDS[] = {
    TEXT("name", struct kva_arch_key, name),
    NAMES("keys", CYAML_FLAG_DEFAULT, struct kva_arch_key, keys, n_keys, 0),
    CHOICE("type", CYAML_FLAG_DEFAULT, struct kva_arch_key, type, VALUE_TYPES),
    TEXT_OPTIONAL("absent", struct kva_arch_key, absent),
    TEXT_OPTIONAL("null", struct kva_arch_key, null),
    TEXT_OPTIONAL("other", struct kva_arch_key, other),
    TEXT_OPTIONAL("auto", struct kva_arch_key, automatic),
    FLAG_OPTIONAL("zero", struct kva_arch_key, zero),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t KEY = MAPPING(struct kva_arch_key, KEY_FIELDS);

static const cyaml_schema_field_t CHECK_FIELDS[] = {
    TEXT("holds", struct kva_arch_check, holds),
    TEXT("text", struct kva_arch_check, text),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t CHECK = MAPPING(struct kva_arch_check, CHECK_FIELDS);

static const cyaml_schema_field_t LABEL_FIELDS[] = {
    TEXT("label", struct kva_arch_label, label),
    TEXT("kind", struct kva_arch_label, kind),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t LABEL = MAPPING(struct kva_arch_label, LABEL_FIELDS);

static const cyaml_schema_field_t LIST_FIELDS[] = {
    TEXT("key", struct kva_arch_list, key),
    NAMES("aliases", CYAML_FLAG_OPTIONAL, struct kva_arch_list, aliases, n_aliases, 0),
    FLAG_OPTIONAL("truncate", struct kva_arch_list, truncate),
    FLAG_OPTIONAL("tile", struct kva_arch_list, tile),
    FLAG_OPTIONAL("letters", struct kva_arch_list, letters),
    LIST("labels", struct kva_arch_list, labels, n_labels, &LABEL),
    CYAML_FIELD_END,
};

static const cyaml_schema_field_t STATE_FIELDS[] = {
    TEXT("name", struct kva_arch_state, name),
    TEXT("elements", struct kva_arch_state, elements),
    CHOICE("dtype", CYAML_FLAG_OPTIONAL, struct kva_arch_state, dtype, DTYPES),
    TEXT_OPTIONAL("dtype_key", struct kva_arch_state, dtype_key),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t STATE = MAPPING(struct kva_arch_state, STATE_FIELDS);

// The fields of one cache: `of` is "" or the member of the struct that holds it.
#define CACHED_FIELDS(type, of)                                                                                        \
    CHOICE("cache", CYAML_FLAG_DEFAULT, type, of cache, CACHES), TEXT_OPTIONAL("kv_heads", type, of kv_heads),         \
        TEXT_OPTIONAL("k_dim", type, of k_dim), TEXT_OPTIONAL("v_dim", type, of v_dim),                                \
        TEXT_OPTIONAL("window", type, of window), TEXT_OPTIONAL("ratio", type, of ratio),                              \
        TEXT_OPTIONAL("length", type, of length), FLAG_OPTIONAL("shared_kv", type, of shared_kv),                      \
        LIST_OPTIONAL("state", type, of state, of n_state, &STATE)

static const cyaml_schema_field_t CACHED_FIELDS_ALSO[] = {
    TEXT_OPTIONAL("when", struct kva_arch_cached, when),
    CACHED_FIELDS(struct kva_arch_cached, ),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t CACHED = MAPPING(struct kva_arch_cached, CACHED_FIELDS_ALSO);

static const cyaml_schema_field_t KIND_FIELDS[] = {
    TEXT("name", struct kva_arch_kind, name),
    CHOICE("mixer", CYAML_FLAG_DEFAULT, struct kva_arch_kind, mixer, MIXERS),
    CACHED_FIELDS(struct kva_arch_kind, first.),
    LIST_OPTIONAL("also", struct kva_arch_kind, also, n_also, &CACHED),
    TEXT_OPTIONAL("reads", struct kva_arch_kind, reads),
    CHOICE("rope", CYAML_FLAG_OPTIONAL, struct kva_arch_kind, rope, ROPE_CHOICES),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t KIND = MAPPING(struct kva_arch_kind, KIND_FIELDS);

static const cyaml_schema_field_t RULE_FIELDS[] = {
    TEXT_OPTIONAL("when", struct kva_arch_rule, when),
    TEXT("kind", struct kva_arch_rule, kind),
    TEXT_OPTIONAL("why", struct kva_arch_rule, why),
    FLAG_OPTIONAL("wins", struct kva_arch_rule, wins),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t RULE = MAPPING(struct kva_arch_rule, RULE_FIELDS);

static const cyaml_schema_field_t ROPE_FIELDS[] = {
    FLAG_OPTIONAL("none", struct kva_arch_rope, none),
    TEXT_OPTIONAL("theta", struct kva_arch_rope, theta),
    TEXT_OPTIONAL("local_theta", struct kva_arch_rope, local_theta),
    TEXT_OPTIONAL("local_theta_key", struct kva_arch_rope, local_theta_key),
    TEXT_OPTIONAL("scaling", struct kva_arch_rope, scaling),
    CYAML_FIELD_END,
};

static const cyaml_schema_field_t DECODER_FIELDS[] = {
    CHOICE("norm", CYAML_FLAG_DEFAULT, struct kva_arch_decoder, norm, NORMS),
    TEXT("norm_eps", struct kva_arch_decoder, norm_eps),
    FLAG_OPTIONAL("norm_unit_offset", struct kva_arch_decoder, norm_unit_offset),
    FLAG_OPTIONAL("embed_sqrt_hidden", struct kva_arch_decoder, embed_sqrt_hidden),
    TEXT("activation", struct kva_arch_decoder, activation),
    TEXT_OPTIONAL("attention_scalar", struct kva_arch_decoder, attention_scalar),
    TEXT_OPTIONAL("attention_softcap", struct kva_arch_decoder, attention_softcap),
    TEXT_OPTIONAL("final_softcap", struct kva_arch_decoder, final_softcap),
    FLAG_OPTIONAL("differential", struct kva_arch_decoder, differential),
    TEXT_OPTIONAL("memory_layer", struct kva_arch_decoder, memory_layer),
    TEXT_OPTIONAL("prune_from", struct kva_arch_decoder, prune_from),
    TEXT_OPTIONAL("not_run_when", struct kva_arch_decoder, not_run_when),
    CYAML_FIELD_END,
};

static const cyaml_schema_field_t TENSOR_FIELDS[] = {
    CHOICE("role", CYAML_FLAG_DEFAULT, struct kva_arch_tensor, role, ROLES),
    TEXT("name", struct kva_arch_tensor, name),
    TEXT_OPTIONAL("each", struct kva_arch_tensor, each),
    CYAML_FIELD_SEQUENCE_COUNT("shape", CYAML_FLAG_POINTER, struct kva_arch_tensor, shape, n_shape, &kva_yaml_name, 1,
                               4),
    NAMES("kinds", CYAML_FLAG_OPTIONAL, struct kva_arch_tensor, kinds, n_kinds, 0),
    TEXT_OPTIONAL("when", struct kva_arch_tensor, when),
    CHOICE("dtype", CYAML_FLAG_OPTIONAL, struct kva_arch_tensor, dtype, DTYPES),
    TEXT("class", struct kva_arch_tensor, weight_class),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t TENSOR = MAPPING(struct kva_arch_tensor, TENSOR_FIELDS);

static const cyaml_schema_field_t MTP_FIELDS[] = {
    TEXT("layers", struct kva_arch_mtp, layers),
    TEXT("kind", struct kva_arch_mtp, kind),
    CYAML_FIELD_END,
};

static const cyaml_schema_field_t REMAP_FIELDS[] = {
    TEXT("from", struct kva_arch_remap, from),
    TEXT("to", struct kva_arch_remap, to),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t REMAP = MAPPING(struct kva_arch_remap, REMAP_FIELDS);

static const cyaml_schema_field_t ARCH_FIELDS[] = {
    TEXT("model_type", struct kva_arch, model_type),
    NAMES("architectures", CYAML_FLAG_DEFAULT, struct kva_arch, architectures, n_architectures, 0),
    TEXT("family", struct kva_arch, family),
    NAMES("references", CYAML_FLAG_DEFAULT, struct kva_arch, references, n_references, 1),
    TEXT_OPTIONAL("text_config", struct kva_arch, text_config),
    NAMES("text_aliases", CYAML_FLAG_OPTIONAL, struct kva_arch, text_aliases, n_text_aliases, 0),
    TEXT_OPTIONAL("text_flat", struct kva_arch, text_flat),
    TEXT_OPTIONAL("text_absent", struct kva_arch, text_absent),
    TEXT_OPTIONAL("text_under", struct kva_arch, text_under),
    TEXT_OPTIONAL("refused", struct kva_arch, refused),
    TEXT_OPTIONAL("text_model_type", struct kva_arch, text_model_type),
    LIST_OPTIONAL("text_remap", struct kva_arch, text_remap, n_text_remap, &REMAP),
    TEXT_OPTIONAL("tensor_prefix", struct kva_arch, tensor_prefix),
    LIST_OPTIONAL("keys", struct kva_arch, keys, n_keys, &KEY),
    LIST_OPTIONAL("checks", struct kva_arch, checks, n_checks, &CHECK),
    CYAML_FIELD_MAPPING_PTR("list", CYAML_FLAG_OPTIONAL, struct kva_arch, list, LIST_FIELDS),
    LIST_OPTIONAL("kinds", struct kva_arch, kinds, n_kinds, &KIND),
    LIST_OPTIONAL("rules", struct kva_arch, rules, n_rules, &RULE),
    CYAML_FIELD_MAPPING_PTR("mtp", CYAML_FLAG_OPTIONAL, struct kva_arch, mtp, MTP_FIELDS),
    CYAML_FIELD_MAPPING_PTR("rope", CYAML_FLAG_OPTIONAL, struct kva_arch, rope, ROPE_FIELDS),
    CYAML_FIELD_MAPPING_PTR("decoder", CYAML_FLAG_OPTIONAL, struct kva_arch, decoder, DECODER_FIELDS),
    TEXT_OPTIONAL("tensors_when", struct kva_arch, tensors_when),
    LIST_OPTIONAL("tensors", struct kva_arch, tensors, n_tensors, &TENSOR),
    NAMES("inert", CYAML_FLAG_OPTIONAL, struct kva_arch, inert, n_inert, 0),
    CYAML_FIELD_END,
};
const cyaml_schema_value_t kva_arch_schema = DOCUMENT(struct kva_arch, ARCH_FIELDS);

static const cyaml_schema_field_t REFERENCE_FIELDS[] = {
    TEXT("id", struct kva_reference, id),
    TEXT("title", struct kva_reference, title),
    TEXT("url", struct kva_reference, url),
    TEXT("read", struct kva_reference, date),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t REFERENCE = MAPPING(struct kva_reference, REFERENCE_FIELDS);
static const cyaml_schema_field_t REFERENCES_FIELDS[] = {
    CYAML_FIELD_SEQUENCE_COUNT("references", CYAML_FLAG_POINTER, struct kva_references, entries, n_entries, &REFERENCE,
                               0, MANY),
    CYAML_FIELD_END,
};
const cyaml_schema_value_t kva_references_schema = DOCUMENT(struct kva_references, REFERENCES_FIELDS);
