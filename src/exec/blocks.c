// One decoder layer: norm, mixer, residual; norm, feed-forward, residual. Which norms, biases and projections there are
// is what the weights hold; which mixer, what the model says. There is no copy of a decoder for each family.
#include <math.h>

#include "base/checked.h"
#include "exec/session.h"

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        const enum kva_status try_status = (call);                                                                     \
        if (try_status != KVA_OK)                                                                                      \
            return try_status;                                                                                         \
    } while (0)

// A layer at work.
struct block {
    struct kva_session *session;
    const struct kva_rows *rows;
    size_t index;
    const struct kva_weight *weights;  // [KVA_N_ROLES]
    struct kva_error *error;
};

static const void *data(const struct block *block, enum kva_role role)
{
    return block->weights[role].data;
}

static double act_bytes(const struct block *block)
{
    return (double)kva_dtype_bytes(block->session->act);
}

static enum kva_status norm(const struct block *block, enum kva_role weight, enum kva_role bias, const void *x,
                            bool x_f32, void *y)
{
    struct kva_session *session = block->session;
    const struct kva_norm_args args = {.x = x,
                                       .y = y,
                                       .weight = data(block, weight),
                                       .bias = bias != KVA_ROLE_OTHER ? data(block, bias) : NULL,
                                       .rows = block->rows->rows,
                                       .width = session->shape.hidden,
                                       .x_stride = session->shape.hidden,
                                       .y_stride = session->shape.hidden,
                                       .x_f32 = x_f32,
                                       .layer_norm = session->model->arch->decoder->norm == KVA_NORM_LAYER,
                                       .eps = session->shape.norm_eps,
                                       .weight_offset = session->shape.norm_offset};
    kva_stage_begin(session, KVA_STAGE_NORM);
    TRY(session->kernels->norm(session->device, &args, block->error));
    kva_stage_end(session, KVA_STAGE_NORM, (double)(args.rows * args.width) * ((x_f32 ? 4 : 2) + act_bytes(block)), 0);
    return KVA_OK;
}

// y = x W^T + bias, with y at `column` of rows of y_stride. Returns the bytes and operations through *bytes, *flops.
static enum kva_status linear(const struct block *block, enum kva_role weight, enum kva_role bias, const void *x,
                              uint64_t x_stride, void *y, uint64_t y_stride, bool y_f32, bool accumulate, double *bytes,
                              double *flops)
{
    struct kva_session *session = block->session;
    const struct kva_weight *w = &block->weights[weight];
    const uint64_t rows = block->rows->rows;
    const struct kva_linear_args args = {.x = x,
                                         .weight = w->data,
                                         .y = y,
                                         .rows = rows,
                                         .n_in = w->dims[1],
                                         .n_out = w->dims[0],
                                         .x_stride = x_stride,
                                         .y_stride = y_stride,
                                         .y_f32 = y_f32,
                                         .accumulate = accumulate};
    TRY(session->kernels->linear(session->device, &args, block->error));
    if (bias != KVA_ROLE_OTHER && data(block, bias) != NULL)
        TRY(session->kernels->add_bias(session->device, y, data(block, bias), rows, w->dims[0], y_stride, y_f32,
                                       block->error));
    const double in = (double)w->dims[1], out = (double)w->dims[0], n = (double)rows;
    *bytes += in * out * act_bytes(block) + n * in * act_bytes(block) + n * out * (y_f32 ? 4 : act_bytes(block));
    *flops += 2 * n * in * out;
    return KVA_OK;
}

// The residual stream += x W^T (+ bias), through a norm when the architecture has one after the block.
static enum kva_status project(const struct block *block, enum kva_role weight, enum kva_role bias,
                               enum kva_role post_norm, const void *x, uint64_t x_stride, double *bytes, double *flops)
{
    struct kva_session *session = block->session;
    const uint64_t hidden = session->shape.hidden;
    if (data(block, post_norm) == NULL)
        return linear(block, weight, bias, x, x_stride, block->rows->residual, hidden, true, true, bytes, flops);
    void *projected = session->buffers.projected;
    TRY(linear(block, weight, bias, x, x_stride, projected, hidden, false, false, bytes, flops));
    const struct kva_norm_args args = {.x = projected,
                                       .y = projected,
                                       .weight = data(block, post_norm),
                                       .rows = block->rows->rows,
                                       .width = hidden,
                                       .x_stride = hidden,
                                       .y_stride = hidden,
                                       .layer_norm = session->model->arch->decoder->norm == KVA_NORM_LAYER,
                                       .eps = session->shape.norm_eps,
                                       .weight_offset = session->shape.norm_offset};
    TRY(session->kernels->norm(session->device, &args, block->error));
    return session->kernels->add(session->device, block->rows->residual, projected, block->rows->rows, hidden,
                                 block->error);
}

static void *at(const struct block *block, const void *base, uint64_t element)
{
    return (char *)base + element * kva_dtype_bytes(block->session->act);
}

// Where a layer's query, key and value rows lie in mixer_in.
struct qkv {
    uint64_t stride, q_width, k_width, v_width;
    bool own;  // has keys and values of its own
};

static enum kva_status project_qkv(const struct block *block, struct qkv *qkv)
{
    struct kva_session *session = block->session;
    void *in = session->buffers.mixer_in, *x = session->buffers.normed;
    const uint64_t hidden = session->shape.hidden;
    double bytes = 0, flops = 0;
    qkv->q_width = block->weights[KVA_ROLE_O].dims[1];
    kva_stage_begin(session, KVA_STAGE_QKV);
    if (data(block, KVA_ROLE_QKV) != NULL) {
        qkv->stride = block->weights[KVA_ROLE_QKV].dims[0];
        qkv->k_width = qkv->v_width = (qkv->stride - qkv->q_width) / 2;
        TRY(linear(block, KVA_ROLE_QKV, KVA_ROLE_QKV_BIAS, x, hidden, in, qkv->stride, false, false, &bytes, &flops));
    } else {
        qkv->k_width = data(block, KVA_ROLE_K) != NULL ? block->weights[KVA_ROLE_K].dims[0] : 0;
        qkv->v_width = data(block, KVA_ROLE_V) != NULL ? block->weights[KVA_ROLE_V].dims[0] : 0;
        qkv->stride = qkv->q_width + qkv->k_width + qkv->v_width;
        TRY(linear(block, KVA_ROLE_Q, KVA_ROLE_Q_BIAS, x, hidden, in, qkv->stride, false, false, &bytes, &flops));
        if (qkv->k_width > 0)
            TRY(linear(block, KVA_ROLE_K, KVA_ROLE_K_BIAS, x, hidden, at(block, in, qkv->q_width), qkv->stride, false,
                       false, &bytes, &flops));
        if (qkv->v_width > 0)
            TRY(linear(block, KVA_ROLE_V, KVA_ROLE_V_BIAS, x, hidden, at(block, in, qkv->q_width + qkv->k_width),
                       qkv->stride, false, false, &bytes, &flops));
    }
    kva_stage_end(session, KVA_STAGE_QKV, bytes, flops);
    qkv->own = qkv->k_width > 0;
    return KVA_OK;
}

static enum kva_status rotate(const struct block *block, const struct qkv *qkv)
{
    struct kva_session *session = block->session;
    const struct kva_layer *layer = &session->model->layers[block->index];
    const bool local = layer->caches[0].kind == KVA_CACHE_SLIDING && session->shape.rope_local_dim > 0;
    const uint64_t head_dim = session->shape.head_dim;
    struct kva_head_norm_args head_norm = {.rows = block->rows->rows,
                                           .stride = qkv->stride,
                                           .head_dim = head_dim,
                                           .eps = session->shape.norm_eps,
                                           .weight_offset = session->shape.norm_offset};
    struct kva_rope_args rope = {.positions = block->rows->positions,
                                 .inverse_frequencies =
                                     local ? session->buffers.rope_local : session->buffers.rope_main,
                                 .rows = block->rows->rows,
                                 .stride = qkv->stride,
                                 .head_dim = head_dim,
                                 .rotary_dim = local ? session->shape.rope_local_dim : session->shape.rope_main_dim,
                                 .scale = local ? session->shape.rope_local_scale : session->shape.rope_main_scale};
    if (rope.rotary_dim == 0 && data(block, KVA_ROLE_Q_NORM) == NULL)
        return KVA_OK;
    kva_stage_begin(session, KVA_STAGE_ROPE);
    for (int key = 0; key < (qkv->own ? 2 : 1); key++) {
        head_norm.x = rope.x = at(block, session->buffers.mixer_in, key == 1 ? qkv->q_width : 0);
        head_norm.heads = rope.heads = (key == 1 ? qkv->k_width : qkv->q_width) / head_dim;
        head_norm.weight = data(block, key == 1 ? KVA_ROLE_K_NORM : KVA_ROLE_Q_NORM);
        if (head_norm.weight != NULL)
            TRY(session->kernels->head_norm(session->device, &head_norm, block->error));
        if (rope.rotary_dim > 0)
            TRY(session->kernels->rope(session->device, &rope, block->error));
    }
    kva_stage_end(session, KVA_STAGE_ROPE, 2 * (double)(rope.rows * (qkv->q_width + qkv->k_width)) * act_bytes(block),
                  0);
    return KVA_OK;
}

// Stores this pass's keys and values in the layer's cache, and in every cache that shares them.
static enum kva_status write_caches(const struct block *block, const struct qkv *qkv)
{
    struct kva_session *session = block->session;
    kva_stage_begin(session, KVA_STAGE_CACHE_WRITE);
    double bytes = 0;
    for (size_t i = block->index; i < session->caches.n_layers; i++) {
        const struct kva_layer_cache *cache = &session->caches.layers[i];
        if (cache->k == NULL || (i != block->index && cache->reads_layer != (int32_t)block->index))
            continue;
        const struct kva_cache_write_args args = {.k = at(block, session->buffers.mixer_in, qkv->q_width),
                                                  .v =
                                                      at(block, session->buffers.mixer_in, qkv->q_width + qkv->k_width),
                                                  .cache_k = cache->k,
                                                  .cache_v = cache->v,
                                                  .k_stride = qkv->stride,
                                                  .v_stride = qkv->stride,
                                                  .k_width = cache->k_width,
                                                  .v_width = cache->v_width,
                                                  .cache_rows = cache->rows,
                                                  .spans = block->rows->spans,
                                                  .host_spans = block->rows->host_spans,
                                                  .n_spans = block->rows->n_spans};
        TRY(session->kernels->cache_write(session->device, &args, block->error));
        bytes += 2 * (double)(block->rows->rows * (cache->k_width + cache->v_width)) * act_bytes(block);
    }
    kva_stage_end(session, KVA_STAGE_CACHE_WRITE, bytes, 0);
    return KVA_OK;
}

// Key rows that attention reads, and pairs of a query and a key that it scores.
static void count_attention(const struct block *block, uint64_t window, double *keys, double *pairs)
{
    for (uint32_t s = 0; s < block->rows->n_spans; s++) {
        const struct kva_span *span = &block->rows->host_spans[s];
        const uint64_t end = (uint64_t)span->past + span->rows;
        const uint64_t first = window > 0 && span->past + UINT64_C(1) > window ? span->past + 1 - window : 0;
        *keys += (double)(end - first);
        // rows see past + 1, past + 2, ... keys, at most `window`
        const uint64_t growing =
            window == 0 ? span->rows : kva_min(span->rows, window > span->past ? window - span->past : 0);
        *pairs += (double)growing * ((double)span->past + ((double)growing + 1) / 2) +
                  (double)(span->rows - growing) * (double)window;
    }
}

static enum kva_status attend(const struct block *block, const struct qkv *qkv, bool fresh, void *out)
{
    struct kva_session *session = block->session;
    const struct kva_layer *layer = &session->model->layers[block->index];
    const struct kva_layer_cache *own = &session->caches.layers[block->index];
    const struct kva_layer_cache *cache = own->k != NULL ? own : &session->caches.layers[own->reads_layer];
    const bool paired = session->model->arch->decoder->differential;
    const uint64_t head_dim = session->shape.head_dim;
    const struct kva_attention_args args = {
        .q = session->buffers.mixer_in,
        .k = at(block, session->buffers.mixer_in, qkv->q_width),
        .v = at(block, session->buffers.mixer_in, qkv->q_width + qkv->k_width),
        .cache_k = cache->k,
        .cache_v = cache->v,
        .out = out,
        .q_stride = qkv->stride,
        .k_stride = qkv->stride,
        .v_stride = qkv->stride,
        .out_stride = qkv->q_width * (paired ? 2 : 1),
        .cache_rows = cache->rows,
        .fresh = fresh,
        .paired = paired,
        .spans = block->rows->spans,
        .host_spans = block->rows->host_spans,
        .n_spans = block->rows->n_spans,
        .heads = (uint32_t)session->shape.heads,
        .kv_heads = (uint32_t)(cache->k_width / head_dim),
        .k_dim = (uint32_t)head_dim,
        .v_dim = (uint32_t)(cache->v_width / (cache->k_width / head_dim)),
        .window = layer->caches[0].kind == KVA_CACHE_SLIDING ? layer->caches[0].window : 0,
        .scale = session->shape.attention_scale,
        .softcap = session->shape.attention_softcap,
        .scratch = session->buffers.scratch};
    double keys = 0, pairs = 0;
    count_attention(block, args.window, &keys, &pairs);
    kva_stage_begin(session, KVA_STAGE_ATTENTION);
    TRY(session->kernels->attention(session->device, &args, block->error));
    const double wide = paired ? 2.0 * args.v_dim : args.v_dim;
    kva_stage_end(session, KVA_STAGE_ATTENTION,
                  (keys * (double)(cache->k_width + cache->v_width) +
                   (double)(block->rows->rows * (qkv->q_width + args.out_stride))) *
                      act_bytes(block),
                  2 * pairs * args.heads * (args.k_dim + wide));
    return KVA_OK;
}

static enum kva_status combine(const struct block *block, uint64_t q_width)
{
    struct kva_session *session = block->session;
    const uint64_t head_dim = session->shape.head_dim;
    const struct kva_differential_args args = {
        .x = session->buffers.mixer_out,
        .y = session->buffers.attn_combined,
        .q1 = data(block, KVA_ROLE_LAMBDA_Q1),
        .k1 = data(block, KVA_ROLE_LAMBDA_K1),
        .q2 = data(block, KVA_ROLE_LAMBDA_Q2),
        .k2 = data(block, KVA_ROLE_LAMBDA_K2),
        .weight = data(block, KVA_ROLE_SUB_NORM),
        .rows = block->rows->rows,
        .heads = session->shape.heads,
        .width = 2 * head_dim,
        .head_dim = head_dim,
        .x_stride = 2 * q_width,
        .y_stride = q_width,
        // Differential Transformer, https://arxiv.org/abs/2410.05258, section 2.1, and its sub-layer norm's epsilon
        .lambda_init = 0.8f - 0.6f * expf(-0.3f * (float)block->index),
        .eps = 1e-5f};
    return session->kernels->differential(session->device, &args, block->error);
}

static enum kva_status attention(const struct block *block)
{
    struct kva_session *session = block->session;
    const struct kva_layer_cache *cache = &session->caches.layers[block->index];
    struct qkv qkv;
    TRY(project_qkv(block, &qkv));
    TRY(rotate(block, &qkv));
    // A ring may only be overwritten before it is read when each sequence adds one row: that row then takes the place
    // of one that has left the window. Longer spans read their own rows from the pass and are stored afterwards.
    const bool ring = cache->k != NULL && cache->rows < session->options.context;
    const bool fresh = qkv.own && ring && block->rows->widest > 1;
    if (qkv.own && !fresh)
        TRY(write_caches(block, &qkv));
    TRY(attend(block, &qkv, fresh, session->buffers.mixer_out));
    if (fresh)
        TRY(write_caches(block, &qkv));
    const void *out = session->buffers.mixer_out;
    if (session->model->arch->decoder->differential) {
        TRY(combine(block, qkv.q_width));
        out = session->buffers.attn_combined;
    }
    double bytes = 0, flops = 0;
    kva_stage_begin(session, KVA_STAGE_PROJECT);
    TRY(project(block, KVA_ROLE_O, KVA_ROLE_O_BIAS, KVA_ROLE_MIXER_POST_NORM, out, qkv.q_width, &bytes, &flops));
    kva_stage_end(session, KVA_STAGE_PROJECT, bytes, flops);
    return KVA_OK;
}

static enum kva_status scan(const struct block *block, const void *conv_out, void *y)
{
    struct kva_session *session = block->session;
    const struct kva_shape *shape = &session->shape;
    struct kva_buffers *buffers = &session->buffers;
    const uint64_t d_inner = shape->d_inner, x_width = shape->dt_rank + 2 * shape->n_state;
    double bytes = 0, flops = 0;
    TRY(linear(block, KVA_ROLE_SSM_X, KVA_ROLE_OTHER, conv_out, d_inner, buffers->ssm_x, x_width, false, false, &bytes,
               &flops));
    TRY(linear(block, KVA_ROLE_SSM_DT, KVA_ROLE_OTHER, buffers->ssm_x, x_width, buffers->dt, d_inner, false, false,
               &bytes, &flops));
    const struct kva_scan_args args = {.x = conv_out,
                                       .dt = buffers->dt,
                                       .b = at(block, buffers->ssm_x, shape->dt_rank),
                                       .c = at(block, buffers->ssm_x, shape->dt_rank + shape->n_state),
                                       .a_log = data(block, KVA_ROLE_SSM_A_LOG),
                                       .d = data(block, KVA_ROLE_SSM_D),
                                       .dt_bias = data(block, KVA_ROLE_SSM_DT_BIAS),
                                       .y = y,
                                       .state = session->caches.layers[block->index].recurrent,
                                       .channels = d_inner,
                                       .n_state = shape->n_state,
                                       .x_stride = d_inner,
                                       .dt_stride = d_inner,
                                       .bc_stride = x_width,
                                       .y_stride = d_inner,
                                       .spans = block->rows->spans,
                                       .host_spans = block->rows->host_spans,
                                       .n_spans = block->rows->n_spans};
    kva_stage_begin(session, KVA_STAGE_SCAN);
    TRY(session->kernels->scan(session->device, &args, block->error));
    const double elements = (double)(block->rows->rows * d_inner);
    kva_stage_end(session, KVA_STAGE_SCAN,
                  (3 * elements + 2 * (double)(block->rows->n_spans * d_inner * shape->n_state)) * act_bytes(block),
                  elements * (double)shape->n_state * 7);
    return KVA_OK;
}

static enum kva_status mamba(const struct block *block)
{
    struct kva_session *session = block->session;
    struct kva_buffers *buffers = &session->buffers;
    const uint64_t d_inner = session->shape.d_inner, rows = block->rows->rows;
    const bool keeps_memory = (int64_t)block->index == session->shape.memory_layer;
    double bytes = 0, flops = 0;
    kva_stage_begin(session, KVA_STAGE_QKV);
    TRY(linear(block, KVA_ROLE_SSM_IN, KVA_ROLE_OTHER, buffers->normed, session->shape.hidden, buffers->mixer_in,
               2 * d_inner, false, false, &bytes, &flops));
    kva_stage_end(session, KVA_STAGE_QKV, bytes, flops);
    const struct kva_conv_args conv = {.x = buffers->mixer_in,
                                       .weight = data(block, KVA_ROLE_SSM_CONV),
                                       .bias = data(block, KVA_ROLE_SSM_CONV_BIAS),
                                       .y = buffers->conv_out,
                                       .state = session->caches.layers[block->index].conv,
                                       .channels = d_inner,
                                       .taps = block->weights[KVA_ROLE_SSM_CONV].dims[2],
                                       .x_stride = 2 * d_inner,
                                       .y_stride = d_inner,
                                       .spans = block->rows->spans,
                                       .host_spans = block->rows->host_spans,
                                       .n_spans = block->rows->n_spans};
    kva_stage_begin(session, KVA_STAGE_CONV);
    TRY(session->kernels->conv(session->device, &conv, block->error));
    kva_stage_end(session, KVA_STAGE_CONV, 2 * (double)(rows * d_inner) * act_bytes(block),
                  2 * (double)(rows * d_inner * conv.taps));
    // the layer that hands its scan's output on as the memory keeps it ungated, and gates its own output itself
    void *y = keeps_memory ? buffers->memory : buffers->mixer_out;
    TRY(scan(block, buffers->conv_out, y));
    const struct kva_gate_args gate = {.gate = at(block, buffers->mixer_in, d_inner),
                                       .x = y,
                                       .y = buffers->mixer_out,
                                       .rows = rows,
                                       .width = d_inner,
                                       .gate_stride = 2 * d_inner,
                                       .x_stride = d_inner,
                                       .y_stride = d_inner};
    TRY(session->kernels->gate(session->device, &gate, block->error));
    bytes = flops = 0;
    kva_stage_begin(session, KVA_STAGE_PROJECT);
    TRY(project(block, KVA_ROLE_SSM_OUT, KVA_ROLE_OTHER, KVA_ROLE_MIXER_POST_NORM, buffers->mixer_out, d_inner, &bytes,
                &flops));
    kva_stage_end(session, KVA_STAGE_PROJECT, bytes, flops);
    return KVA_OK;
}

// out_proj(silu(in_proj(x)) * memory)
static enum kva_status gated_memory(const struct block *block)
{
    struct kva_session *session = block->session;
    struct kva_buffers *buffers = &session->buffers;
    const uint64_t width = block->weights[KVA_ROLE_GMU_IN].dims[0];
    double bytes = 0, flops = 0;
    kva_stage_begin(session, KVA_STAGE_GMU);
    TRY(linear(block, KVA_ROLE_GMU_IN, KVA_ROLE_OTHER, buffers->normed, session->shape.hidden, buffers->mixer_in, width,
               false, false, &bytes, &flops));
    const struct kva_gate_args gate = {.gate = buffers->mixer_in,
                                       .x = block->rows->memory,
                                       .y = buffers->mixer_out,
                                       .rows = block->rows->rows,
                                       .width = width,
                                       .gate_stride = width,
                                       .x_stride = width,
                                       .y_stride = width};
    TRY(session->kernels->gate(session->device, &gate, block->error));
    TRY(project(block, KVA_ROLE_GMU_OUT, KVA_ROLE_OTHER, KVA_ROLE_MIXER_POST_NORM, buffers->mixer_out, width, &bytes,
                &flops));
    kva_stage_end(session, KVA_STAGE_GMU, bytes, flops);
    return KVA_OK;
}

static enum kva_status feed_forward(const struct block *block)
{
    struct kva_session *session = block->session;
    struct kva_buffers *buffers = &session->buffers;
    const uint64_t hidden = session->shape.hidden;
    const uint64_t width = block->weights[KVA_ROLE_DOWN].dims[1];
    double bytes = 0, flops = 0;
    kva_stage_begin(session, KVA_STAGE_FFN);
    if (data(block, KVA_ROLE_GATE_UP) != NULL)
        TRY(linear(block, KVA_ROLE_GATE_UP, KVA_ROLE_GATE_UP_BIAS, buffers->normed, hidden, buffers->gate_up, 2 * width,
                   false, false, &bytes, &flops));
    else {
        TRY(linear(block, KVA_ROLE_GATE, KVA_ROLE_GATE_BIAS, buffers->normed, hidden, buffers->gate_up, 2 * width,
                   false, false, &bytes, &flops));
        TRY(linear(block, KVA_ROLE_UP, KVA_ROLE_UP_BIAS, buffers->normed, hidden, at(block, buffers->gate_up, width),
                   2 * width, false, false, &bytes, &flops));
    }
    const struct kva_glu_args glu = {.gate_up = buffers->gate_up,
                                     .y = buffers->ffn_act,
                                     .rows = block->rows->rows,
                                     .width = width,
                                     .gate_up_stride = 2 * width,
                                     .y_stride = width,
                                     .activation = session->shape.activation};
    TRY(session->kernels->glu(session->device, &glu, block->error));
    TRY(project(block, KVA_ROLE_DOWN, KVA_ROLE_DOWN_BIAS, KVA_ROLE_FFN_POST_NORM, buffers->ffn_act, width, &bytes,
                &flops));
    kva_stage_end(session, KVA_STAGE_FFN, bytes, flops);
    return KVA_OK;
}

enum kva_status kva_layer_forward(struct kva_session *session, size_t layer, const struct kva_rows *rows,
                                  struct kva_error *error)
{
    const struct block block = {session, rows, layer, session->weights.layers[layer], error};
    TRY(norm(&block, KVA_ROLE_MIXER_NORM, KVA_ROLE_MIXER_NORM_BIAS, rows->residual, true, session->buffers.normed));
    switch (session->model->layers[layer].mixer) {
    case KVA_MIXER_MAMBA1:
        TRY(mamba(&block));
        break;
    case KVA_MIXER_GMU:
        TRY(gated_memory(&block));
        break;
    default:
        TRY(attention(&block));
    }
    TRY(norm(&block, KVA_ROLE_FFN_NORM, KVA_ROLE_FFN_NORM_BIAS, rows->residual, true, session->buffers.normed));
    return feed_forward(&block);
}
