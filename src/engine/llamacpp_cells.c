// How many cells each cache has: from n_ctx, the number of sequences and the batch.
#include "base/error.h"
#include "engine/llamacpp.h"

static const uint64_t UNIT = 256, UNIT_WITHOUT_FLASH = 32;

static bool is_on(enum kva_switch value)
{
    return value == KVA_ON;
}

static enum kva_status too_many_cells(const struct kva_call *call)
{
    return kva_fail(call->error, KVA_BAD_INPUT, NULL, "context", "the cells are more than 2^64");
}

static bool pad(uint64_t cells, uint64_t unit, uint64_t *out)
{
    return kva_round_up(cells, unit, out);
}

// llama_context::llama_context since b7347: the context of a sequence is padded, and n_ctx is made of it.
static bool pad_context(uint64_t n_ctx, uint64_t n_seq_max, bool unified, struct kva_lcpp_cells *cells)
{
    if (!pad(n_ctx, UNIT, &cells->context))
        return false;
    cells->base = cells->context;
    return unified ||
           (pad(cells->context / n_seq_max, UNIT, &cells->base) && kva_mul(cells->base, n_seq_max, &cells->context));
}

// Before: every cache is padded for itself. A model without attention leaves n_ctx alone, one with both has the cells
// of the whole context in its cache.
static bool pad_caches(const struct kva_lcpp_model *model, uint64_t n_ctx, uint64_t unit, struct kva_lcpp_cells *cells)
{
    const bool whole = model->recurrent && model->attention;
    if (!pad(whole ? n_ctx : n_ctx / cells->streams + (n_ctx % cells->streams != 0), unit, &cells->base))
        return false;
    cells->context = model->attention ? cells->base : n_ctx;
    return whole || !model->attention || kva_mul(cells->base, cells->streams, &cells->context);
}

// llama_kv_cache_iswa: min(base, pad(n_swa * sequences of a stream + n_ubatch)). `base` is a multiple of the unit.
static bool window_cells(const struct kva_deployment *deployment, const struct kva_lcpp_model *model, uint64_t n_ctx,
                         uint64_t unit, uint64_t sequences, struct kva_lcpp_cells *cells)
{
    uint64_t rows;
    // a batch is no longer than the context before that is padded
    const uint64_t ubatch = kva_min(deployment->ubatch, n_ctx);
    if (!kva_mul(model->window, sequences, &rows) || !kva_add(rows, ubatch, &rows) || !pad(rows, unit, &rows))
        return false;
    cells->window = is_on(deployment->swa_full) ? cells->base : kva_min(cells->base, rows);
    return true;
}

// Ollama, kvcache/causal.go, Init: one cache for all sequences; a window keeps its tokens, one more with several
// sequences, and a batch, unless the context is no longer than that.
static bool runner_cells(const struct kva_deployment *deployment, const struct kva_lcpp_model *model, uint64_t n_ctx,
                         uint64_t n_seq_max, uint64_t unit, struct kva_lcpp_cells *cells)
{
    const uint64_t capacity = n_ctx / n_seq_max;
    uint64_t kept = model->keeps > 0 ? model->keeps : model->window, rows = n_ctx;
    if (n_seq_max > 1)
        kept = kva_max(kept, model->window + 1);
    if (kept < capacity &&
        (!kva_mul(kept, n_seq_max, &rows) || !kva_add(rows, kva_min(deployment->ubatch, n_ctx), &rows)))
        return false;
    cells->streams = 1;
    return pad(n_ctx, unit, &cells->base) && pad(rows, unit, &cells->window) && pad(n_ctx, 1, &cells->context);
}

enum kva_status kva_lcpp_cells(struct kva_call *call, const struct kva_lcpp_model *model, uint64_t n_ctx,
                               uint64_t n_seq_max, struct kva_lcpp_cells *cells)
{
    const struct kva_lcpp_behaviours *engine = call->behaviours;
    const struct kva_deployment *deployment = call->deployment;
    const bool unified = is_on(deployment->kv_unified) || !engine->streams;
    const bool context = engine->padding == KVA_LCPP_PAD_CONTEXT;
    const uint64_t unit = context || is_on(deployment->flash_attention) ? UNIT : UNIT_WITHOUT_FLASH;
    *cells = (struct kva_lcpp_cells){.streams = unified ? 1 : n_seq_max};
    if (engine->padding == KVA_LCPP_PAD_RUNNER)
        return runner_cells(deployment, model, n_ctx, n_seq_max, unit, cells) ? KVA_OK : too_many_cells(call);
    bool fits = context ? pad_context(n_ctx, n_seq_max, unified, cells) : pad_caches(model, n_ctx, unit, cells);
    if (fits && cells->base == 0)
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, "context", "n_ctx_seq == 0");
    // llama_kv_cache_dsv4: a stream for each sequence, unified or not
    if (model->compressed)
        cells->streams = n_seq_max;
    fits = fits && window_cells(deployment, model, n_ctx, unit, unified && !model->compressed ? n_seq_max : 1, cells);
    if (fits && engine->hybrid_times_sequences && model->recurrent && model->attention)
        cells->base = cells->context;  // each sequence gets the cells of all, until PR #19559
    return fits ? KVA_OK : too_many_cells(call);
}
