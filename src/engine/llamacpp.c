// llama.cpp: every cache for the whole context, at start.
#include "engine/llamacpp.h"

#include <stddef.h>

#include "base/error.h"

static const char *const PADDINGS[] = {"cache", "context", "runner", NULL};
static const char *const FLASH[] = {"off", "auto", NULL};
static const char *const CHECKS[] = {"never", "auto", "on", NULL};
static const char *const LATENTS[] = {"twice", "once", "asked", NULL};

#define BEHAVIOUR(name, type, choices)                                                                                 \
    {                                                                                                                  \
#name, type, offsetof(struct kva_lcpp_behaviours, name), choices                                               \
    }
const struct kva_behaviour kva_lcpp_behaviours[KVA_N_LCPP_BEHAVIOURS] = {
    BEHAVIOUR(padding, KVA_BEHAVIOUR_CHOICE, PADDINGS),
    BEHAVIOUR(flash_attention, KVA_BEHAVIOUR_CHOICE, FLASH),
    BEHAVIOUR(block_check, KVA_BEHAVIOUR_CHOICE, CHECKS),
    BEHAVIOUR(windows, KVA_BEHAVIOUR_FLAG, NULL),
    BEHAVIOUR(streams, KVA_BEHAVIOUR_FLAG, NULL),
    BEHAVIOUR(hybrid_times_sequences, KVA_BEHAVIOUR_FLAG, NULL),
    BEHAVIOUR(latent, KVA_BEHAVIOUR_CHOICE, LATENTS),
    BEHAVIOUR(mla_one_type, KVA_BEHAVIOUR_FLAG, NULL),
    BEHAVIOUR(snapshots, KVA_BEHAVIOUR_FLAG, NULL),
    BEHAVIOUR(one_slot_is_default, KVA_BEHAVIOUR_FLAG, NULL),
    BEHAVIOUR(fit, KVA_BEHAVIOUR_FLAG, NULL),
    BEHAVIOUR(default_context, KVA_BEHAVIOUR_COUNT, NULL),
    BEHAVIOUR(server_slots, KVA_BEHAVIOUR_COUNT, NULL),
    BEHAVIOUR(most_sequences, KVA_BEHAVIOUR_COUNT, NULL),
    BEHAVIOUR(fit_margin, KVA_BEHAVIOUR_COUNT, NULL),
    BEHAVIOUR(fit_context, KVA_BEHAVIOUR_COUNT, NULL),
    BEHAVIOUR(alignment, KVA_BEHAVIOUR_COUNT, NULL),
    BEHAVIOUR(row_padding, KVA_BEHAVIOUR_COUNT, NULL),
};

const struct kva_engine kva_engine_llamacpp = {
    .id = "llama.cpp",
    .any_context = true,
    .picks_context = true,
    .behaviours = kva_lcpp_behaviours,
    .n_behaviours = KVA_N_LCPP_BEHAVIOURS,
    .behaviours_size = sizeof(struct kva_lcpp_behaviours),
    .resolve = kva_lcpp_resolve,
    .budget = kva_lcpp_budget,
    .allocate = kva_lcpp_allocate,
    .print_lines = kva_lcpp_print_lines,
};

// The fork with latent caches of its own: other facts, the same arithmetic.
const struct kva_engine kva_engine_ik_llamacpp = {
    .id = "ik_llama.cpp",
    .any_context = true,
    .picks_context = true,
    .behaviours = kva_lcpp_behaviours,
    .n_behaviours = KVA_N_LCPP_BEHAVIOURS,
    .behaviours_size = sizeof(struct kva_lcpp_behaviours),
    .resolve = kva_lcpp_resolve,
    .budget = kva_lcpp_budget,
    .allocate = kva_lcpp_allocate,
    .print_lines = kva_lcpp_print_lines,
};
