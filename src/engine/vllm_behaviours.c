// Which values of data/engines/vllm.yaml fill struct vllm_behaviours.
#include "engine/vllm.h"

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define CHOICE(name, ...)                                                                                              \
    {                                                                                                                  \
#name, KVA_BEHAVIOUR_CHOICE, offsetof(struct vllm_behaviours, name), WORDS(__VA_ARGS__)                        \
    }
#define FLAG(name)                                                                                                     \
    {                                                                                                                  \
#name, KVA_BEHAVIOUR_FLAG, offsetof(struct vllm_behaviours, name), NULL                                        \
    }
#define COUNT(name)                                                                                                    \
    {                                                                                                                  \
#name, KVA_BEHAVIOUR_COUNT, offsetof(struct vllm_behaviours, name), NULL                                       \
    }
#define REAL(name)                                                                                                     \
    {                                                                                                                  \
#name, KVA_BEHAVIOUR_REAL, offsetof(struct vllm_behaviours, name), NULL                                        \
    }
#define TEXT(name)                                                                                                     \
    {                                                                                                                  \
#name, KVA_BEHAVIOUR_TEXT, offsetof(struct vllm_behaviours, name), NULL                                        \
    }

// The words of a choice stand in the order of its enum in vllm.h.
const struct kva_behaviour vllm_behaviour_table[VLLM_N_BEHAVIOURS] = {
    FLAG(mixed_group),
    CHOICE(page_unify, "none", "scale", "pad"),
    FLAG(state_pad),
    FLAG(local_fallback),
    FLAG(promotion_whole),
    FLAG(nvfp4_windows),
    REAL(group_ratio),
    CHOICE(group_split, "consecutive", "strided"),
    CHOICE(window_block, "primary", "smallest", "largest"),
    CHOICE(latent_block, "forced", "preferred"),
    TEXT(latent_backend),
    TEXT(latent_backend_10),
    CHOICE(hybrid_align, "fixed", "kernel"),
    COUNT(wide_head_align),
    COUNT(latent_align),
    FLAG(align_all),
    CHOICE(state_need, "page", "length", "mode"),
    CHOICE(state_default, "off", "listed", "all", "all_no_draft", "align"),
    FLAG(state_prefix_default),
    FLAG(mode_all),
    FLAG(mode_all_drafts),
    COUNT(mamba2_checkpoint),
    COUNT(delta_checkpoint),
    CHOICE(draft_states, "no", "listed", "yes"),
    FLAG(delta_conv_drafts),
    FLAG(mamba2_conv_drafts),
    FLAG(kda_conv_drafts),
    FLAG(short_conv_drafts),
    CHOICE(state_dtype, "kv", "model"),
    FLAG(delta_state_dtype),
    FLAG(recurrent_choice),
    FLAG(cross),
    FLAG(chunked_off),
    CHOICE(hybrid_forced, "ignored", "refused"),
    FLAG(dcp),
    FLAG(pcp),
    CHOICE(in_flight, "batch", "concurrent"),
    CHOICE(runner, "v1", "dense", "listed", "v2"),
    FLAG(async_default),
    FLAG(batch_160),
    CHOICE(encoder, "length", "batch"),
    REAL(memory_fraction),
    FLAG(requested_ceil),
    CHOICE(graphs, "ignored", "asked", "counted"),
    FLAG(kv_bytes_flag),
    CHOICE(check, "specs", "first_group", "groups"),
    CHOICE(check_scope, "worker", "whole"),
    FLAG(check_null_block),
    FLAG(check_override),
    FLAG(auto_fit),
    CHOICE(tokens, "configured", "blocks", "concurrency"),
    FLAG(capacity_once),
    CHOICE(tuples, "none", "whole", "slots", "packed", "patterns"),
    FLAG(tuples_auto),
    CHOICE(concurrency, "first_page", "each_page"),
};
_Static_assert(sizeof vllm_behaviour_table / sizeof *vllm_behaviour_table == VLLM_N_BEHAVIOURS, "one row a behaviour");
