// The deployment of llama.cpp: sequences, n_ctx, n_batch and the types, as llama-server and llama_init_from_model
// settle them (tools/server/server.cpp, common/common.h, src/llama-context.cpp).
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "engine/llamacpp.h"
#include "engine/resolve.h"

static const uint64_t API_CONTEXT = 512, BATCH = 2048, UBATCH = 512;

static bool is_on(enum kva_switch value)
{
    return value == KVA_ON;
}

// ---------------------------------------------------------------- blanks

// As many sequences as llama-server has slots, and how they share the cache.
static enum kva_status resolve_sequences(struct kva_call *call)
{
    const struct kva_lcpp_behaviours *engine = call->behaviours;
    struct kva_deployment *deployment = call->deployment;
    const bool api = is_on(deployment->llm_class);
    const bool one = deployment->sequences == 1 && engine->one_slot_is_default && deployment->kv_unified == KVA_UNSET;
    const bool said = deployment->max_sequences > 0 || (deployment->sequences > 0 && !one);
    enum kva_status status = KVA_OK;
    if (!said && !api && engine->server_slots > 1) {
        deployment->max_sequences = engine->server_slots;
        if (deployment->kv_unified == KVA_UNSET)
            deployment->kv_unified = KVA_ON;
        status = kva_assume(call, "llama-server's own %llu slots in one %s: no number of sequences was asked for (-np)",
                            (unsigned long long)engine->server_slots,
                            is_on(deployment->kv_unified) ? "unified cache" : "cache with a part for each");
    }
    if (status == KVA_OK && deployment->sequences == 0) {
        deployment->sequences = said && deployment->max_sequences > 0 ? deployment->max_sequences : 1;
        status = kva_assume(call, "%llu sequence%s at the context asked for", (unsigned long long)deployment->sequences,
                            deployment->sequences == 1 ? "" : "s");
    }
    if (deployment->max_sequences == 0)
        deployment->max_sequences = deployment->sequences;
    if (status == KVA_OK && deployment->max_sequences < deployment->sequences)
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, "max_sequences",
                        "%llu sequences at a time were asked for, and a cache for %llu (n_seq_max)",
                        (unsigned long long)deployment->sequences, (unsigned long long)deployment->max_sequences);
    if (status == KVA_OK && engine->most_sequences > 0 && deployment->max_sequences > engine->most_sequences)
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, "sequences", "n_seq_max must be <= %llu",
                        (unsigned long long)engine->most_sequences);
    if (deployment->kv_unified == KVA_UNSET)
        deployment->kv_unified = engine->streams ? KVA_OFF : KVA_ON;
    if (status == KVA_OK && !engine->streams && deployment->kv_unified == KVA_OFF && deployment->max_sequences > 1)
        status = kva_assume(call, "one cache for all sequences: this release has no other");
    return status;
}

// n_ctx, the cells of all sequences, from tokens of each; or as the person gives it (kv_tokens).
static enum kva_status resolve_context(struct kva_call *call)
{
    const struct kva_lcpp_behaviours *engine = call->behaviours;
    struct kva_deployment *deployment = call->deployment;
    const uint64_t trained = call->model->context_limit;
    const bool unified = is_on(deployment->kv_unified) || !engine->streams;
    const uint64_t parts = unified ? deployment->sequences : deployment->max_sequences;
    char all[KVA_HUMAN], each[KVA_HUMAN];
    if (deployment->context > 0 && deployment->kv_tokens == 0) {
        if (!kva_mul(deployment->context, parts, &deployment->kv_tokens))
            return kva_fail(call->error, KVA_BAD_INPUT, NULL, "context", "the cells are more than 2^64");
        return parts == 1 ? KVA_OK
                          : kva_assume(call, "n_ctx %s (-c), the cells of all sequences: %llu of %s tokens each",
                                       kva_human_count(deployment->kv_tokens, all), (unsigned long long)parts,
                                       kva_human_count(deployment->context, each));
    }
    const bool said = deployment->kv_tokens > 0;
    if (!said) {
        deployment->kv_tokens = is_on(deployment->llm_class) ? API_CONTEXT : engine->default_context;
        deployment->kv_tokens = deployment->kv_tokens > 0 ? deployment->kv_tokens : trained;
        deployment->auto_context = deployment->auto_context || (engine->fit && !is_on(deployment->llm_class));
    }
    if (deployment->kv_tokens == 0)
        return kva_fail(call->error, KVA_BAD_INPUT, call->model->source, "context",
                        "n_ctx and model->hparams.n_ctx_train cannot both be zero: give a context");
    if (deployment->context == 0)
        deployment->context = kva_max(deployment->kv_tokens / parts, 1);
    return said ? KVA_OK
                : kva_assume(call, "n_ctx %s, for all sequences: what %s takes when no context is asked for",
                             kva_human_count(deployment->kv_tokens, all),
                             is_on(deployment->llm_class) ? "the C API" : call->version->file->name);
}

static void resolve_batches(struct kva_deployment *deployment)
{
    const uint64_t batch = deployment->batch_tokens > 0 ? deployment->batch_tokens : BATCH;
    const uint64_t ubatch = deployment->ubatch > 0 ? deployment->ubatch : UBATCH;
    // with causal attention a batch is no longer than the context, before that is padded
    deployment->batch_tokens = kva_min(deployment->kv_tokens, batch);
    deployment->ubatch = kva_min(deployment->batch_tokens, ubatch);
}

// A server that speculates keeps as many snapshots of a recurrent state as it drafts tokens.
static enum kva_status resolve_snapshots(struct kva_call *call, const struct kva_lcpp_model *model)
{
    const struct kva_lcpp_behaviours *engine = call->behaviours;
    struct kva_deployment *deployment = call->deployment;
    const bool can = engine->snapshots && kva_rule(call, "rollback", model->architecture) != NULL;
    if (can && deployment->rs_seq == 0 && deployment->spec_tokens > 0) {
        deployment->rs_seq = deployment->spec_tokens;
        return kva_assume(call, "n_rs_seq %llu: a snapshot of each state for every drafted token",
                          (unsigned long long)deployment->rs_seq);
    }
    if (can || deployment->rs_seq == 0)
        return KVA_OK;
    deployment->rs_seq = 0;
    return kva_assume(call, "n_rs_seq 0: %s has no snapshots of its state at this release", model->architecture);
}

static enum kva_status resolve_switches(struct kva_call *call, const struct kva_lcpp_model *model)
{
    const struct kva_lcpp_behaviours *engine = call->behaviours;
    struct kva_deployment *deployment = call->deployment;
    enum kva_status status = KVA_OK;
    if (deployment->flash_attention == KVA_UNSET) {
        deployment->flash_attention = engine->flash_attention ? KVA_ON : KVA_OFF;
        status = kva_assume(call, engine->flash_attention
                                      ? "flash attention on: the caches are made before 'auto' is settled"
                                      : "flash attention off: the default of this release");
    }
    if (status == KVA_OK && is_on(deployment->flash_attention) &&
        kva_rule(call, "no_flash_attention", model->architecture) != NULL) {
        deployment->flash_attention = KVA_OFF;
        status = kva_assume(call, "flash attention off: llama.cpp forces it off for %s", model->architecture);
    }
    if (deployment->swa_full == KVA_UNSET) {
        deployment->swa_full = is_on(deployment->llm_class) ? KVA_ON : KVA_OFF;
        if (status == KVA_OK && model->windowed_cache && engine->padding != KVA_LCPP_PAD_RUNNER)
            status = kva_assume(call, is_on(deployment->swa_full)
                                          ? "a full-size window cache: the default of the C API"
                                          : "no --swa-full: the default of llama-server, not of the C API");
    }
    if (deployment->offload_kqv == KVA_UNSET)
        deployment->offload_kqv = KVA_ON;
    return status == KVA_OK ? resolve_snapshots(call, model) : status;
}

// ---------------------------------------------------------------- what llama_init_from_model refuses

static bool is_quantized(const struct kva_side_format *side)
{
    return side->group > 0;
}

static enum kva_status check_blocks(struct kva_call *call, const struct kva_lcpp_model *model, bool keys,
                                    const struct kva_side_format *side, const char *type)
{
    for (size_t i = 0; i < model->n_layers && is_quantized(side); i++) {
        const uint32_t head = keys ? model->layers[i].k_head : model->layers[i].v_head;
        if (head % side->group != 0)
            return kva_fail(call->error, KVA_BAD_INPUT, NULL, keys ? "kv_type" : "kv_type_v",
                            "%c cache type %s with block size %u does not divide n_embd_head_%c=%u", keys ? 'K' : 'V',
                            type, side->group, keys ? 'k' : 'v', head);
    }
    return KVA_OK;
}

// asked_auto: flash attention was left to llama.cpp.
static enum kva_status check_types(struct kva_call *call, const struct kva_lcpp_model *model, bool asked_auto)
{
    const struct kva_lcpp_behaviours *engine = call->behaviours;
    const struct kva_deployment *deployment = call->deployment;
    const char *k = deployment->kv_type, *v = deployment->kv_type_v;
    if (engine->mla_one_type && (model->latent || model->compressed) && strcmp(k, v) != 0)
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, "kv_type_v",
                        "model does not support different K (%s) and V (%s) cache types", k, v);
    if (!is_on(deployment->flash_attention) && is_quantized(&call->kv_format.v))
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, "kv_type_v", "V cache quantization requires flash_attn");
    if (!is_on(deployment->flash_attention) || engine->block_check == KVA_LCPP_CHECK_NEVER ||
        (engine->block_check == KVA_LCPP_CHECK_AUTO && !asked_auto))
        return KVA_OK;
    enum kva_status status = check_blocks(call, model, true, &call->kv_format.k, k);
    return status == KVA_OK ? check_blocks(call, model, false, &call->kv_format.v, v) : status;
}

// -mla, and q8_KV, whose rows of more than one head were not read.
static enum kva_status check_latent(struct kva_call *call, const struct kva_lcpp_model *model)
{
    const struct kva_lcpp_behaviours *engine = call->behaviours;
    const char *mla = call->deployment->mla;
    if (engine->latent != KVA_LCPP_LATENT_ASKED)
        return KVA_OK;
    if (kva_rule(call, "latent", model->architecture) != NULL &&
        (mla == NULL || strlen(mla) != 1 || strchr("0123", *mla) == NULL))
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, "mla",
                        "%s keeps the latent of %s in four ways: say -mla 0, 1, 2 or 3", call->version->file->name,
                        model->architecture);
    if ((call->kv_format.k.vector_bytes > 0 && !model->latent) || call->kv_format.v.vector_bytes > 0)
        return kva_fail(call->error, KVA_REFUSED, NULL, "kv_type",
                        "what %s takes is known for the keys of a latent only", call->deployment->kv_type);
    return KVA_OK;
}

static enum kva_status check_ranks(struct kva_call *call)
{
    const struct kva_deployment *deployment = call->deployment;
    if (deployment->tp > 1 || deployment->dp > 1 || deployment->dcp > 1 || deployment->pcp > 1)
        return kva_fail(call->error, KVA_REFUSED, NULL, "tp",
                        "%s spreads layers over GPUs: say how many with pp; its row and tensor splits are not planned",
                        call->engine->id);
    return KVA_OK;
}

// ---------------------------------------------------------------- the whole

static enum kva_status resolve_device(struct kva_call *call)
{
    const struct kva_lcpp_buffer buffer = kva_lcpp_buffer_of(call);
    const struct kva_deployment *deployment = call->deployment;
    enum kva_status status = KVA_OK;
    if (!is_on(deployment->offload_kqv))
        return kva_assume(call, "all caches in the CPU's memory: --no-kv-offload");
    if (buffer.row_padding > 0 && is_quantized(&call->kv_format.k))
        status = kva_assume(call, "CUDA pads each tensor's last row to %llu elements and rounds it to %llu bytes",
                            (unsigned long long)buffer.row_padding, (unsigned long long)buffer.alignment);
    else if (!buffer.numbered)
        status = kva_assume(call, "buffers of the CPU: no GPU was named");
    if (status == KVA_OK && deployment->pp > 1 && deployment->pp_partition == NULL)
        status = kva_assume(call, "layers spread over %llu GPUs with as much free memory each",
                            (unsigned long long)deployment->pp);
    return status;
}

// --cache-type-k and --cache-type-v are f16 each when they are not given; one type for both is kvatlas's own word.
static enum kva_status resolve_types(struct kva_call *call)
{
    struct kva_deployment *deployment = call->deployment;
    const char *both = deployment->kv_type != NULL && strcmp(deployment->kv_type, "auto") != 0 ? deployment->kv_type
                       : deployment->kv_dtype != KVA_DTYPE_NONE ? kva_dtype_name(deployment->kv_dtype)
                                                                : NULL;
    const bool k = deployment->kv_type_k != NULL, v = deployment->kv_type_v != NULL;
    const char *absent = both != NULL ? both : "f16";
    deployment->kv_type = k ? deployment->kv_type_k : absent;
    deployment->kv_type_v = v ? deployment->kv_type_v : absent;
    return both != NULL || (k && v) ? KVA_OK
                                    : kva_assume(call, "KV type f16%s: the default of %s, whatever the model's is",
                                                 k   ? " of the values"
                                                 : v ? " of the keys"
                                                     : "",
                                                 call->version->file->name);
}

// n_ctx as llama.cpp then reports it. Padding that again changes nothing.
static enum kva_status settle_context(struct kva_call *call, const struct kva_lcpp_model *model)
{
    struct kva_deployment *deployment = call->deployment;
    struct kva_lcpp_cells cells;
    char asked[KVA_HUMAN], given[KVA_HUMAN];
    const uint64_t n_ctx = deployment->kv_tokens;
    enum kva_status status = kva_lcpp_cells(call, model, n_ctx, deployment->max_sequences, &cells);
    if (status != KVA_OK)
        return status;
    deployment->kv_tokens = cells.context;
    return cells.context == n_ctx ? KVA_OK
                                  : kva_assume(call, "n_ctx %s instead of %s: padded by llama.cpp",
                                               kva_human_count(cells.context, given), kva_human_count(n_ctx, asked));
}

enum kva_status kva_lcpp_resolve(struct kva_call *call)
{
    struct kva_lcpp_memory *memory;
    const bool asked_auto = call->deployment->flash_attention == KVA_UNSET;
    enum kva_status status = kva_lcpp_memory_open(call, &memory);
    if (status == KVA_OK)
        status = resolve_sequences(call);
    if (status == KVA_OK)
        status = resolve_context(call);
    if (status == KVA_OK)
        status = resolve_types(call);
    if (status == KVA_OK)
        status = kva_resolve_common(call);
    if (status == KVA_OK)
        status = check_ranks(call);
    if (status != KVA_OK)
        return status;
    resolve_batches(call->deployment);
    status = resolve_switches(call, &memory->model);
    if (status == KVA_OK)
        status = check_latent(call, &memory->model);
    if (status == KVA_OK)
        status = check_types(call, &memory->model, asked_auto);
    if (status == KVA_OK)
        status = resolve_device(call);
    if (status == KVA_OK)
        status = settle_context(call, &memory->model);
    if (status == KVA_OK)
        status = kva_lcpp_memory_spread(call, memory);
    return status == KVA_OK ? kva_lcpp_fit(call) : status;
}
