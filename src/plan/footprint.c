// What the reference executor will ask a device for, from the config alone. The layout is described, with the reason
// for each buffer, in docs/executor-memory.md; the executor works it out on its own from the weights' shapes.
#include "base/checked.h"
#include "base/error.h"
#include "kernels/kernels.h"
#include "model/arch.h"

#define BUFFER_ALIGNMENT 256  // bytes; every tensor and buffer starts on a multiple

// What the buffers are sized by. Widths are elements of one row.
struct shapes {
    uint64_t rows, logit_rows, sequences;
    uint64_t act;  // bytes of one element of the run's dtype
    uint64_t heads, hidden, intermediate, vocab;
    uint64_t d_inner, dt_rank, d_state;
    uint64_t in_width, out_width;  // the widest mixer's input and output
    uint64_t combined_width;       // heads x v_dim
    uint64_t head_out;             // output elements of one attention head
    bool differential, mamba, memory, post_norm, prune;
};

static enum kva_status count_of(const struct kva_model *model, const char *name, uint64_t *count,
                                struct kva_error *error)
{
    const struct kva_value *value = kva_model_value(model, name);
    if (value == NULL || value->type != KVA_COUNT)
        return kva_fail(error, KVA_REFUSED, model->source, name,
                        "the executor sizes buffers by it, and the architecture file gives no such count");
    *count = value->count;
    return KVA_OK;
}

static bool lists_role(const struct kva_model *model, enum kva_role role)
{
    for (size_t t = 0; t < model->n_tensors; t++)
        if (model->tensors[t].role == role)
            return true;
    return false;
}

static enum kva_status overflow(struct kva_error *error)
{
    return kva_fail(error, KVA_BAD_INPUT, NULL, NULL, "the executor's buffers are more than 2^64 bytes");
}

static enum kva_status attention_widths(struct shapes *s, const struct kva_cache *cache, struct kva_error *error)
{
    uint64_t q, kv, out, combined;
    uint64_t head_out = s->differential ? 2 * (uint64_t)cache->v_dim : cache->v_dim;  // pairs share two value heads
    // q, k and v side by side; a layer that reads another layer's cache has only q
    if (!kva_mul(s->heads, cache->k_dim, &q) || !kva_mul(cache->kv_heads, (uint64_t)cache->k_dim + cache->v_dim, &kv) ||
        !kva_mul(s->heads, head_out, &out) || !kva_mul(s->heads, cache->v_dim, &combined) ||
        (cache->reads_layer < 0 && !kva_add(q, kv, &q)))
        return overflow(error);
    s->in_width = kva_max(s->in_width, q);
    s->out_width = kva_max(s->out_width, out);
    s->head_out = kva_max(s->head_out, head_out);
    s->combined_width = kva_max(s->combined_width, combined);
    return KVA_OK;
}

static enum kva_status layer_widths(struct shapes *s, const struct kva_model *model, const struct kva_layer *layer,
                                    struct kva_error *error)
{
    enum kva_status status = KVA_OK;
    switch (layer->mixer) {
    case KVA_MIXER_NONE:
        return KVA_OK;
    case KVA_MIXER_OTHER:
        return kva_fail(error, KVA_REFUSED, model->source, layer->kind,
                        "the executor does not run the mixer of layer %u", layer->index);
    case KVA_MIXER_ATTENTION:
        if (layer->n_caches != 1)
            return kva_fail(error, KVA_REFUSED, model->source, layer->kind,
                            "the executor runs attention over one cache, layer %u has %zu", layer->index,
                            layer->n_caches);
        status = s->heads > 0 ? KVA_OK : count_of(model, "heads", &s->heads, error);
        return status != KVA_OK ? status : attention_widths(s, &layer->caches[0], error);
    case KVA_MIXER_MAMBA1:
        s->mamba = true;
        status = count_of(model, "dt_rank", &s->dt_rank, error);
        if (status == KVA_OK)
            status = count_of(model, "d_state", &s->d_state, error);
        break;
    case KVA_MIXER_GMU:
        break;
    }
    if (status == KVA_OK)
        status = count_of(model, "d_inner", &s->d_inner, error);
    if (status != KVA_OK)
        return status;
    uint64_t in = s->d_inner;
    if (layer->mixer == KVA_MIXER_MAMBA1 && !kva_mul(s->d_inner, 2, &in))
        return overflow(error);
    s->in_width = kva_max(s->in_width, in);
    s->out_width = kva_max(s->out_width, s->d_inner);
    return KVA_OK;
}

static enum kva_status read_shapes(const struct kva_plan *plan, const struct kva_footprint_options *options,
                                   struct shapes *s, struct kva_error *error)
{
    const struct kva_model *model = plan->model;
    const struct kva_arch_decoder *decoder = model->arch != NULL ? model->arch->decoder : NULL;
    if (decoder == NULL || model->n_tensors == 0)
        return kva_fail(error, KVA_REFUSED, model->source, NULL, "%s has no recipe that the executor could run",
                        model->model_type);
    *s = (struct shapes){
        .rows = options->rows,
        .logit_rows = options->logit_rows,
        .sequences = plan->deployment.sequences,
        .act = kva_dtype_bytes(plan->deployment.model_dtype),
        .post_norm = lists_role(model, KVA_ROLE_MIXER_POST_NORM) || lists_role(model, KVA_ROLE_FFN_POST_NORM),
        .prune = decoder->prune_from != NULL,
        .memory = decoder->memory_layer != NULL,
        .differential = decoder->differential,
    };
    enum kva_status status = count_of(model, "hidden", &s->hidden, error);
    if (status == KVA_OK)
        status = count_of(model, "intermediate", &s->intermediate, error);
    if (status == KVA_OK)
        status = count_of(model, "vocab", &s->vocab, error);
    for (size_t i = 0; status == KVA_OK && i < model->n_layers; i++)
        status = layer_widths(s, model, &model->layers[i], error);
    return status;
}

// ---------------------------------------------------------------- the allocations

static bool add_aligned(uint64_t *total, uint64_t bytes)
{
    uint64_t aligned;
    return kva_round_up(bytes, BUFFER_ALIGNMENT, &aligned) && kva_add(*total, aligned, total);
}

// One buffer of the activations: rows x width elements of `element` bytes. `present`: this model has it.
struct buffer {
    bool present;
    uint64_t rows, width, element;
};

static bool sum_buffers(const struct shapes *s, uint64_t *total)
{
    const uint64_t R = s->rows, S = s->sequences, LR = s->logit_rows, act = s->act, f32 = 4, u32 = 4;
    const uint64_t span = sizeof(struct kva_span);
    uint64_t ssm_width, gate_up, scratch;
    if (!kva_mul(s->d_state, 2, &ssm_width) || !kva_add(ssm_width, s->dt_rank, &ssm_width) ||
        !kva_mul(s->intermediate, 2, &gate_up) || !kva_add(s->head_out, 2, &scratch) ||
        !kva_mul3(scratch, KVA_ATTENTION_SPLITS, s->heads, &scratch))
        return false;
    const struct buffer buffers[] = {
        {true, R, 1, u32},                                 // tokens
        {true, R, 1, u32},                                 // positions
        {true, S, 1, span},                                // spans of all rows
        {true, S, 1, span},                                // spans of each sequence's last row
        {true, S, 1, u32},                                 // last_index
        {true, R, s->hidden, f32},                         // residual
        {true, R, s->hidden, act},                         // normed
        {true, R, s->in_width, act},                       // mixer_in
        {true, R, s->out_width, act},                      // mixer_out
        {s->differential, R, s->combined_width, act},      // attn_combined
        {s->mamba, R, s->d_inner, act},                    // conv_out
        {s->mamba, R, ssm_width, act},                     // ssm_x: dt, B and C
        {s->mamba, R, s->d_inner, act},                    // dt
        {s->mamba && s->memory, R, s->d_inner, act},       // memory
        {s->post_norm, R, s->hidden, act},                 // projected
        {true, R, gate_up, act},                           // gate_up
        {true, R, s->intermediate, act},                   // ffn_act
        {s->prune, S, s->hidden, f32},                     // pruned_residual
        {s->prune && s->d_inner > 0, S, s->d_inner, act},  // pruned_memory
        {true, LR, s->hidden, act},                        // head_in
        {true, LR, s->vocab, f32},                         // logits
        {true, S, 1, u32},                                 // chosen
        {true, S, scratch, f32},                           // attention scratch
    };
    for (size_t b = 0; b < sizeof buffers / sizeof *buffers; b++) {
        uint64_t bytes = 0;
        if (buffers[b].present &&
            (!kva_mul3(buffers[b].rows, buffers[b].width, buffers[b].element, &bytes) || !add_aligned(total, bytes)))
            return false;
    }
    return true;
}

// Inverse frequencies, float32 [rotary_dim / 2].
static enum kva_status add_rope(const struct kva_model *model, const struct kva_rope *rope, uint64_t *total,
                                struct kva_error *error)
{
    uint64_t head_dim = 0;
    if (rope->type == KVA_ROPE_NONE)
        return KVA_OK;
    enum kva_status status = count_of(model, "head_dim", &head_dim, error);
    if (status != KVA_OK)
        return status;
    uint64_t rotary_dim = (uint64_t)((double)head_dim * rope->partial);
    return add_aligned(total, rotary_dim / 2 * sizeof(float)) ? KVA_OK : overflow(error);
}

// An allocation of `bytes` (none when 0) as the device gives it: whole pages.
static bool give(struct kva_footprint *footprint, uint64_t bytes, uint64_t page_bytes)
{
    uint64_t given;
    if (bytes == 0)
        return true;
    footprint->allocations++;
    return kva_round_up(bytes, kva_max(page_bytes, 1), &given) && kva_add(footprint->given, given, &footprint->given);
}

enum kva_status kva_footprint(const struct kva_plan *plan, const struct kva_footprint_options *options,
                              struct kva_footprint *footprint, struct kva_error *error)
{
    const struct kva_model *model = plan->model;
    struct kva_footprint made = {.cache = plan->allocated, .workspace = options->workspace};
    struct shapes shapes = {0};
    enum kva_status status = read_shapes(plan, options, &shapes, error);
    if (status == KVA_OK)
        status = add_rope(model, &model->rope_main, &made.activations, error);
    if (status == KVA_OK)
        status = add_rope(model, &model->rope_local, &made.activations, error);
    if (status != KVA_OK)
        return status;
    for (size_t t = 0; t < model->n_tensors; t++)
        if (!add_aligned(&made.weights, model->tensors[t].bytes))
            return overflow(error);
    if (!sum_buffers(&shapes, &made.activations))
        return overflow(error);
    for (size_t i = 0; i < plan->n_layers; i++)
        if (!give(&made, plan->layers[i].allocated, options->page_bytes))
            return overflow(error);
    if (!give(&made, made.weights, options->page_bytes) || !give(&made, made.activations, options->page_bytes) ||
        !give(&made, made.workspace, options->page_bytes))
        return overflow(error);
    *footprint = made;
    return KVA_OK;
}
