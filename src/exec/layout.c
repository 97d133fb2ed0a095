// The shape of a decoder, read off its weights and recipe, and the buffers of one pass.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/bf16.h"
#include "base/checked.h"
#include "base/error.h"
#include "exec/rope_table.h"
#include "exec/session.h"
#include "model/expr.h"

enum { ALIGNMENT = 256 };

static enum kva_status fail_recipe(const struct kva_session *session, const char *key, const char *text,
                                   struct kva_error *error)
{
    return kva_fail(error, KVA_REFUSED, session->model->source, key, "%s", text);
}

// A number that the recipe names: a count or a real among the model's values.
static bool number(const struct kva_model *model, const char *name, double *value)
{
    const struct kva_value *found = name != NULL ? kva_model_value(model, name) : NULL;
    if (found == NULL || found->type == KVA_TEXT)
        return false;
    *value = found->type == KVA_REAL ? found->real : (double)found->count;
    return true;
}

static float number_or(const struct kva_model *model, const char *name, double otherwise)
{
    double value;
    return (float)(number(model, name, &value) ? value : otherwise);
}

static bool lookup(void *user, const char *name, size_t length, int64_t *value)
{
    const struct kva_model *model = user;
    char text[64];
    if (length >= sizeof text)
        return false;
    memcpy(text, name, length);
    text[length] = '\0';
    const struct kva_value *found = kva_model_value(model, text);
    if (found == NULL || found->type == KVA_REAL || found->type == KVA_TEXT || found->count > INT64_MAX)
        return false;
    *value = (int64_t)found->count;
    return true;
}

// A number by the recipe's formula; -1 when the recipe has none.
static enum kva_status layer_number(const struct kva_session *session, const char *formula, int64_t *layer,
                                    struct kva_error *error)
{
    *layer = -1;
    if (formula == NULL)
        return KVA_OK;
    return kva_expr_eval(formula, lookup, (void *)session->model, layer, error);
}

static enum kva_status read_activation(struct kva_session *session, struct kva_error *error)
{
    static const struct {
        const char *name;
        enum kva_glu glu;
    } NAMES[] = {
        {"silu", KVA_GLU_SILU},          {"swish", KVA_GLU_SILU}, {"gelu_pytorch_tanh", KVA_GLU_GELU_TANH},
        {"gelu_new", KVA_GLU_GELU_TANH}, {"gelu", KVA_GLU_GELU},
    };
    const char *key = session->model->arch->decoder->activation;
    const struct kva_value *value = key != NULL ? kva_model_value(session->model, key) : NULL;
    if (value == NULL || value->type != KVA_TEXT || value->text == NULL)
        return fail_recipe(session, key, "names no activation", error);
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (strcmp(value->text, NAMES[i].name) == 0) {
            session->shape.activation = NAMES[i].glu;
            return KVA_OK;
        }
    return kva_fail(error, KVA_REFUSED, session->model->source, value->key,
                    "\"%s\" is an activation that the executor does not have", value->text);
}

static uint64_t rows_of(const struct kva_weight *weight)
{
    return weight->data != NULL ? weight->dims[0] : 0;
}

// Widths of one layer's mixer, from its weights.
static enum kva_status read_layer(struct kva_session *session, size_t i, struct kva_error *error)
{
    struct kva_shape *shape = &session->shape;
    const struct kva_weights *weights = &session->weights;
    const bool paired = session->model->arch->decoder->differential;
    uint64_t in = 0, out = 0;
    switch (session->model->layers[i].mixer) {
    case KVA_MIXER_ATTENTION: {
        const struct kva_weight *o = kva_layer_weight(weights, i, KVA_ROLE_O);
        if (o->data == NULL)
            return fail_recipe(session, "tensors", "an attention layer has no output projection", error);
        in = rows_of(kva_layer_weight(weights, i, KVA_ROLE_QKV)) + rows_of(kva_layer_weight(weights, i, KVA_ROLE_Q)) +
             rows_of(kva_layer_weight(weights, i, KVA_ROLE_K)) + rows_of(kva_layer_weight(weights, i, KVA_ROLE_V));
        out = o->dims[1] * (paired ? 2 : 1);
        shape->q_width = kva_max(shape->q_width, o->dims[1]);
        if (in == 0 || o->dims[1] != shape->heads * shape->head_dim)
            return fail_recipe(session, "tensors", "the projections do not fit heads x head_dim", error);
        const struct kva_layer *layer = &session->model->layers[i];
        const enum kva_cache_kind kind = layer->n_caches == 1 ? layer->caches[0].kind : KVA_CACHE_NONE;
        if (kind != KVA_CACHE_FULL && kind != KVA_CACHE_SLIDING)
            return fail_recipe(session, "kinds", "an attention layer has another cache than a full or sliding one",
                               error);
        break;
    }
    case KVA_MIXER_MAMBA1: {
        const struct kva_weight *a_log = kva_layer_weight(weights, i, KVA_ROLE_SSM_A_LOG);
        const struct kva_weight *dt = kva_layer_weight(weights, i, KVA_ROLE_SSM_DT);
        in = rows_of(kva_layer_weight(weights, i, KVA_ROLE_SSM_IN));
        if (a_log->data == NULL || dt->data == NULL || in != 2 * a_log->dims[0])
            return fail_recipe(session, "tensors", "a state layer lacks its projections", error);
        out = shape->d_inner = a_log->dims[0];
        shape->n_state = a_log->dims[1];
        shape->dt_rank = dt->dims[1];
        break;
    }
    case KVA_MIXER_GMU:
        in = out = rows_of(kva_layer_weight(weights, i, KVA_ROLE_GMU_IN));
        if (in == 0 || shape->memory_layer < 0 || (uint64_t)shape->memory_layer >= i || in != shape->d_inner ||
            session->model->layers[shape->memory_layer].mixer != KVA_MIXER_MAMBA1)
            return fail_recipe(session, "memory_layer",
                               "is no Mamba layer before the memory units, as wide as they are", error);
        break;
    default:
        return fail_recipe(session, "mixer", "is one that the executor does not have", error);
    }
    const uint64_t gate_up = rows_of(kva_layer_weight(weights, i, KVA_ROLE_GATE_UP)) +
                             rows_of(kva_layer_weight(weights, i, KVA_ROLE_GATE)) +
                             rows_of(kva_layer_weight(weights, i, KVA_ROLE_UP));
    if (gate_up == 0 || gate_up % 2 != 0)
        return fail_recipe(session, "tensors", "a layer has no gated feed-forward part", error);
    shape->intermediate = kva_max(shape->intermediate, gate_up / 2);
    shape->mixer_in = kva_max(shape->mixer_in, in);
    shape->mixer_out = kva_max(shape->mixer_out, out);
    shape->post_norm |= kva_layer_weight(weights, i, KVA_ROLE_MIXER_POST_NORM)->data != NULL ||
                        kva_layer_weight(weights, i, KVA_ROLE_FFN_POST_NORM)->data != NULL;
    return KVA_OK;
}

enum kva_status kva_shape_read(struct kva_session *session, struct kva_error *error)
{
    const struct kva_model *model = session->model;
    const struct kva_arch_decoder *decoder = model->arch->decoder;
    struct kva_shape *shape = &session->shape;
    const struct kva_weight *embed = &session->weights.global[KVA_ROLE_EMBED];
    if (embed->data == NULL || session->weights.global[KVA_ROLE_FINAL_NORM].data == NULL)
        return fail_recipe(session, "tensors", "there is no embedding or no final norm", error);
    shape->vocab = embed->dims[0];
    shape->hidden = embed->dims[1];
    double heads, head_dim;
    if (!number(model, "heads", &heads) || !number(model, "head_dim", &head_dim) || heads < 1 || head_dim < 1)
        return fail_recipe(session, "heads", "the architecture file names no heads and head_dim", error);
    shape->heads = (uint64_t)heads;
    shape->head_dim = (uint64_t)head_dim;
    const double scalar = number_or(model, decoder->attention_scalar, head_dim);
    if (!(scalar > 0))
        return fail_recipe(session, decoder->attention_scalar, "must be above 0", error);
    shape->attention_scale = (float)(1 / sqrt(scalar));
    shape->attention_softcap = number_or(model, decoder->attention_softcap, 0);
    shape->final_softcap = number_or(model, decoder->final_softcap, 0);
    shape->norm_eps = number_or(model, decoder->norm_eps, 1e-6);
    shape->norm_offset = decoder->norm_unit_offset ? 1 : 0;
    shape->embed_scale = decoder->embed_sqrt_hidden ? sqrtf((float)shape->hidden) : 1;
    shape->rope_main_dim = kva_rope_dim(&model->rope_main, shape->head_dim);
    shape->rope_local_dim = kva_rope_dim(&model->rope_local, shape->head_dim);
    enum kva_status status = read_activation(session, error);
    if (status == KVA_OK)
        status = layer_number(session, decoder->memory_layer, &shape->memory_layer, error);
    if (status == KVA_OK)
        status = layer_number(session, decoder->prune_from, &shape->prune_from, error);
    int64_t not_run = 0;
    if (status == KVA_OK && decoder->not_run_when != NULL)
        status = layer_number(session, decoder->not_run_when, &not_run, error);
    if (status == KVA_OK && not_run != 0)
        return fail_recipe(session, decoder->not_run_when,
                           "holds for this config: the executor does not do that, so it can be planned, not run",
                           error);
    for (size_t i = 0; i < model->n_layers && status == KVA_OK; i++)
        status = read_layer(session, i, error);
    // the Gemma reference multiplies by sqrt(hidden) rounded to the run's type
    if (session->act == KVA_BF16 && decoder->embed_sqrt_hidden)
        shape->embed_scale = kva_bf16_to_f32(kva_f32_to_bf16(shape->embed_scale));
    return status;
}

struct part {
    void **pointer;
    uint64_t rows, width, element;
};

static size_t list_parts(struct kva_session *session, struct part parts[32])
{
    struct kva_buffers *b = &session->buffers;
    const struct kva_shape *s = &session->shape;
    const uint64_t rows = session->rows, sequences = session->sequences, logit_rows = session->logit_rows;
    const uint64_t act = kva_dtype_bytes(session->act);
    const bool paired = session->model->arch->decoder->differential;
    const uint64_t head_out = s->head_dim * (paired ? 2 : 1);
    const bool states = s->d_inner > 0, prunes = s->prune_from >= 0;
    const struct part all[] = {
        {(void **)&b->tokens, rows, 1, sizeof *b->tokens},
        {(void **)&b->positions, rows, 1, sizeof *b->positions},
        {(void **)&b->spans, sequences, 1, sizeof *b->spans},
        {(void **)&b->last_spans, sequences, 1, sizeof *b->last_spans},
        {(void **)&b->last_index, sequences, 1, sizeof *b->last_index},
        {(void **)&b->residual, rows, s->hidden, sizeof *b->residual},
        {&b->normed, rows, s->hidden, act},
        {&b->mixer_in, rows, s->mixer_in, act},
        {&b->mixer_out, rows, s->mixer_out, act},
        {&b->attn_combined, paired ? rows : 0, s->q_width, act},
        {&b->conv_out, states ? rows : 0, s->d_inner, act},
        {&b->ssm_x, states ? rows : 0, s->dt_rank + 2 * s->n_state, act},
        {&b->dt, states ? rows : 0, s->d_inner, act},
        {&b->memory, s->memory_layer >= 0 ? rows : 0, s->d_inner, act},
        {&b->projected, s->post_norm ? rows : 0, s->hidden, act},
        {&b->gate_up, rows, 2 * s->intermediate, act},
        {&b->ffn_act, rows, s->intermediate, act},
        {(void **)&b->pruned_residual, prunes ? sequences : 0, s->hidden, sizeof *b->pruned_residual},
        {&b->pruned_memory, prunes ? sequences : 0, s->d_inner, act},
        {&b->head_in, logit_rows, s->hidden, act},
        {(void **)&b->logits, logit_rows, s->vocab, sizeof *b->logits},
        {(void **)&b->chosen, sequences, 1, sizeof *b->chosen},
        {(void **)&b->scratch, sequences * s->heads * KVA_ATTENTION_SPLITS, head_out + 2, sizeof *b->scratch},
        {(void **)&b->rope_main, 1, s->rope_main_dim / 2, sizeof *b->rope_main},
        {(void **)&b->rope_local, 1, s->rope_local_dim / 2, sizeof *b->rope_local},
    };
    memcpy(parts, all, sizeof all);
    return sizeof all / sizeof *all;
}

static enum kva_status upload_rope(struct kva_session *session, const struct kva_rope *rope, uint64_t dim, float *to,
                                   float *scale, struct kva_error *error)
{
    float table[1024];
    if (dim == 0)
        return KVA_OK;
    if (dim / 2 > sizeof table / sizeof *table)
        return fail_recipe(session, "head_dim", "is wider than the executor's rotary tables", error);
    enum kva_status status =
        kva_rope_table(rope, session->shape.head_dim, session->options.context, table, scale, error);
    if (status == KVA_OK)
        status = session->kernels->upload(session->device, to, table, dim / 2 * sizeof *table, error);
    if (status == KVA_OK)
        status = session->kernels->sync(session->device, error);
    return status;
}

enum kva_status kva_buffers_alloc(struct kva_session *session, struct kva_error *error)
{
    struct part parts[32];
    const size_t n = list_parts(session, parts);
    uint64_t total = 0, offset = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t bytes;
        if (!kva_mul3(parts[i].rows, parts[i].width, parts[i].element, &bytes) ||
            !kva_round_up(bytes, ALIGNMENT, &bytes) || !kva_add(total, bytes, &total))
            return kva_fail(error, KVA_BAD_INPUT, NULL, "--chunk", "the buffers of one pass do not fit 64 bits");
    }
    void *memory;
    enum kva_status status = kva_ledger_alloc(&session->ledger, -1, KVA_ACTIVATIONS, total, &memory, error);
    if (status != KVA_OK)
        return status;
    for (size_t i = 0; i < n; i++) {
        uint64_t bytes = parts[i].rows * parts[i].width * parts[i].element;
        *parts[i].pointer = bytes > 0 ? (char *)memory + offset : NULL;
        offset += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    status = upload_rope(session, &session->model->rope_main, session->shape.rope_main_dim, session->buffers.rope_main,
                         &session->shape.rope_main_scale, error);
    if (status == KVA_OK)
        status = upload_rope(session, &session->model->rope_local, session->shape.rope_local_dim,
                             session->buffers.rope_local, &session->shape.rope_local_scale, error);
    return status;
}
