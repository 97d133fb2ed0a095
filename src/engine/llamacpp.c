// llama.cpp: every cache for the whole context, at start.
#include "engine/llamacpp.h"

#define BEHAVIOURS_OF struct kva_lcpp_behaviours
#include "engine/behaviour_rows.h"

const struct kva_behaviour kva_lcpp_behaviours[KVA_N_LCPP_BEHAVIOURS] = {
    CHOICE(padding, "cache", "context", "runner"),
    CHOICE(flash_attention, "off", "auto"),
    CHOICE(block_check, "never", "auto", "on"),
    FLAG(windows),
    FLAG(streams),
    FLAG(hybrid_times_sequences),
    CHOICE(latent, "twice", "once", "asked"),
    FLAG(mla_one_type),
    FLAG(snapshots),
    FLAG(one_slot_is_default),
    FLAG(fit),
    COUNT(default_context),
    COUNT(server_slots),
    COUNT(most_sequences),
    COUNT(fit_margin),
    COUNT(fit_context),
    COUNT(alignment),
    COUNT(row_padding),
};

const struct kva_engine kva_engine_llamacpp = {
    KVA_LCPP_FAMILY,
    .id = "llama.cpp",
    .picks_context = true,
    .print_lines = kva_lcpp_print_lines,
};

// The fork with latent caches of its own.
const struct kva_engine kva_engine_ik_llamacpp = {
    KVA_LCPP_FAMILY,
    .id = "ik_llama.cpp",
    .picks_context = true,
    .print_lines = kva_lcpp_print_lines,
};
