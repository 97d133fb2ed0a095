// A pass: tokens of several sequences through the decoder, as many rows at a time as the buffers hold.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "exec/session.h"

// What one pass takes from each sequence.
struct step {
    uint64_t rows;
    uint32_t n_spans, n_last, widest;
};

struct feed {
    const uint32_t *tokens;
    const uint64_t *lengths;
    uint64_t *done;    // [S] tokens of this call already sent
    uint64_t *offset;  // [S] where each sequence's tokens begin
};

// Fills the pass with as many rows as it holds, sequence by sequence.
static void pack(struct kva_session *session, const struct feed *feed, struct step *step)
{
    *step = (struct step){0};
    for (uint32_t s = 0; s < session->sequences && step->rows < session->rows; s++) {
        const uint64_t n = kva_min(feed->lengths[s] - feed->done[s], session->rows - step->rows);
        if (n == 0)
            continue;
        const uint32_t first = (uint32_t)step->rows;
        session->host_spans[step->n_spans++] = (struct kva_span){s, first, (uint32_t)n, (uint32_t)session->past[s]};
        for (uint64_t r = 0; r < n; r++) {
            session->host_tokens[first + r] = feed->tokens[feed->offset[s] + feed->done[s] + r];
            session->host_positions[first + r] = (uint32_t)(session->past[s] + r);
        }
        step->rows += n;
        step->widest = (uint32_t)kva_max(step->widest, n);
        if (feed->done[s] + n == feed->lengths[s]) {
            session->host_last[step->n_last] = first + (uint32_t)n - 1;
            session->host_last_spans[step->n_last] =
                (struct kva_span){s, step->n_last, 1, (uint32_t)(session->past[s] + n - 1)};
            step->n_last++;
        }
    }
}

static enum kva_status upload_step(struct kva_session *session, const struct step *step, struct kva_error *error)
{
    const struct {
        void *to;
        const void *from;
        uint64_t bytes;
    } copies[] = {
        {session->buffers.tokens, session->host_tokens, step->rows * sizeof(uint32_t)},
        {session->buffers.positions, session->host_positions, step->rows * sizeof(uint32_t)},
        {session->buffers.spans, session->host_spans, step->n_spans * sizeof(struct kva_span)},
        {session->buffers.last_spans, session->host_last_spans, step->n_last * sizeof(struct kva_span)},
        {session->buffers.last_index, session->host_last, step->n_last * sizeof(uint32_t)},
    };
    for (size_t i = 0; i < sizeof copies / sizeof *copies; i++)
        if (copies[i].bytes > 0) {
            const enum kva_status status =
                session->kernels->upload(session->device, copies[i].to, copies[i].from, copies[i].bytes, error);
            if (status != KVA_OK)
                return status;
        }
    return KVA_OK;
}

// Goes on with the last row of each finished sequence only.
static enum kva_status prune(struct kva_session *session, const struct step *step, struct kva_rows *rows,
                             struct kva_error *error)
{
    struct kva_buffers *b = &session->buffers;
    const struct kva_kernels *kernels = session->kernels;
    const uint64_t residual = session->shape.hidden * sizeof(float);
    const uint64_t memory = session->shape.d_inner * kva_dtype_bytes(session->act);
    session->pruned_rows += step->rows - step->n_last;
    enum kva_status status = kernels->gather(session->device, b->pruned_residual, residual, rows->residual, residual,
                                             b->last_index, step->n_last, residual, error);
    if (status == KVA_OK && memory > 0 && rows->memory != NULL)
        status = kernels->gather(session->device, b->pruned_memory, memory, rows->memory, memory, b->last_index,
                                 step->n_last, memory, error);
    // the tokens are embedded by now: their buffer takes the positions that are left
    if (status == KVA_OK)
        status = kernels->gather(session->device, b->tokens, sizeof(uint32_t), rows->positions, sizeof(uint32_t),
                                 b->last_index, step->n_last, sizeof(uint32_t), error);
    *rows = (struct kva_rows){.rows = step->n_last,
                              .residual = b->pruned_residual,
                              .memory = b->pruned_memory,
                              .positions = b->tokens,
                              .spans = b->last_spans,
                              .host_spans = session->host_last_spans,
                              .n_spans = step->n_last,
                              .widest = 1};
    return status;
}

// Final norm and output projection of the rows that logits are wanted of; *logit_rows of them.
static enum kva_status head(struct kva_session *session, const struct step *step, const struct kva_rows *rows,
                            uint64_t *logit_rows, struct kva_error *error)
{
    struct kva_buffers *b = &session->buffers;
    const struct kva_shape *shape = &session->shape;
    const struct kva_kernels *kernels = session->kernels;
    const struct kva_weight *global = session->weights.global;
    const struct kva_weight *out =
        global[KVA_ROLE_HEAD].data != NULL ? &global[KVA_ROLE_HEAD] : &global[KVA_ROLE_EMBED];
    const bool gathers = !session->options.all_logits && rows->rows != step->n_last;
    *logit_rows = session->options.all_logits ? rows->rows : step->n_last;
    kva_stage_begin(session, KVA_STAGE_HEAD);
    const struct kva_norm_args norm = {.x = rows->residual,
                                       .y = gathers ? b->normed : b->head_in,
                                       .weight = global[KVA_ROLE_FINAL_NORM].data,
                                       .bias = global[KVA_ROLE_FINAL_NORM_BIAS].data,
                                       .rows = rows->rows,
                                       .width = shape->hidden,
                                       .x_stride = shape->hidden,
                                       .y_stride = shape->hidden,
                                       .x_f32 = true,
                                       .layer_norm = session->model->arch->decoder->norm == KVA_NORM_LAYER,
                                       .eps = shape->norm_eps,
                                       .weight_offset = shape->norm_offset};
    enum kva_status status = kernels->norm(session->device, &norm, error);
    const uint64_t bytes = shape->hidden * kva_dtype_bytes(session->act);
    if (status == KVA_OK && gathers)
        status = kernels->gather(session->device, b->head_in, bytes, b->normed, bytes, b->last_index, *logit_rows,
                                 bytes, error);
    const struct kva_linear_args linear = {.x = b->head_in,
                                           .weight = out->data,
                                           .y = b->logits,
                                           .rows = *logit_rows,
                                           .n_in = shape->hidden,
                                           .n_out = shape->vocab,
                                           .x_stride = shape->hidden,
                                           .y_stride = shape->vocab,
                                           .y_f32 = true};
    if (status == KVA_OK)
        status = kernels->linear(session->device, &linear, error);
    if (status == KVA_OK && global[KVA_ROLE_HEAD_BIAS].data != NULL)
        status = kernels->add_bias(session->device, b->logits, global[KVA_ROLE_HEAD_BIAS].data, *logit_rows,
                                   shape->vocab, shape->vocab, true, error);
    if (status == KVA_OK && shape->final_softcap > 0)
        status = kernels->softcap(session->device, b->logits, *logit_rows * shape->vocab, shape->final_softcap, error);
    const double n = (double)*logit_rows, hidden = (double)shape->hidden, vocab = (double)shape->vocab;
    kva_stage_end(session, KVA_STAGE_HEAD, hidden * vocab * (double)kva_dtype_bytes(session->act) + n * vocab * 4,
                  2 * n * hidden * vocab);
    return status;
}

// Greedy choices and logits back to the host.
static enum kva_status collect(struct kva_session *session, const struct feed *feed, const struct step *step,
                               float *logits, struct kva_error *error)
{
    struct kva_buffers *b = &session->buffers;
    const struct kva_kernels *kernels = session->kernels;
    const uint64_t vocab = session->shape.vocab;
    const bool all = session->options.all_logits;
    enum kva_status status = KVA_OK;
    for (uint32_t i = 0; i < step->n_last && status == KVA_OK; i++)
        status = kernels->argmax(session->device, b->logits + (all ? session->host_last[i] : i) * vocab, 1, vocab,
                                 b->chosen + i, error);
    // host_last is free now: it takes the choices
    if (status == KVA_OK && step->n_last > 0)
        status =
            kernels->download(session->device, session->host_last, b->chosen, step->n_last * sizeof(uint32_t), error);
    for (uint32_t i = 0; i < step->n_last && status == KVA_OK; i++) {
        const uint32_t sequence = session->host_last_spans[i].sequence;
        session->greedy[sequence] = session->host_last[i];
        if (session->host_last[i] == KVA_NO_TOKEN)
            status = kva_fail(error, KVA_BAD_INPUT, session->options.weights, NULL,
                              "the logits of sequence %" PRIu32 " are not all numbers: these weights hold, or lead to, "
                              "NaN or infinity",
                              sequence);
    }
    if (logits == NULL)
        return status;
    for (uint32_t i = 0; all && i < step->n_spans && status == KVA_OK; i++) {
        const struct kva_span *span = &session->host_spans[i];
        status = kernels->download(session->device,
                                   logits + (feed->offset[span->sequence] + feed->done[span->sequence]) * vocab,
                                   b->logits + span->first_row * vocab, span->rows * vocab * sizeof(float), error);
    }
    for (uint32_t i = 0; !all && i < step->n_last && status == KVA_OK; i++)
        status = kernels->download(session->device, logits + session->host_last_spans[i].sequence * vocab,
                                   b->logits + i * vocab, vocab * sizeof(float), error);
    return status;
}

static enum kva_status run_step(struct kva_session *session, const struct feed *feed, const struct step *step,
                                float *logits, struct kva_error *error)
{
    struct kva_buffers *b = &session->buffers;
    const struct kva_shape *shape = &session->shape;
    const bool may_prune = shape->prune_from >= 0 && !session->options.no_prune && !session->options.all_logits;
    struct kva_rows rows = {.rows = step->rows,
                            .residual = b->residual,
                            .memory = b->memory,
                            .positions = b->positions,
                            .spans = b->spans,
                            .host_spans = session->host_spans,
                            .n_spans = step->n_spans,
                            .widest = step->widest};
    enum kva_status status = upload_step(session, step, error);
    if (status != KVA_OK)
        return status;
    kva_stage_begin(session, KVA_STAGE_EMBED);
    status = session->kernels->embed(session->device, session->weights.global[KVA_ROLE_EMBED].data, b->tokens,
                                     b->residual, step->rows, shape->hidden, shape->embed_scale, error);
    kva_stage_end(session, KVA_STAGE_EMBED,
                  (double)(step->rows * shape->hidden) * (4 + (double)kva_dtype_bytes(session->act)), 0);
    for (size_t i = 0; i < session->model->n_layers && status == KVA_OK; i++) {
        if (may_prune && (int64_t)i == shape->prune_from && step->n_last < step->rows) {
            if (step->n_last == 0) {
                session->pruned_rows += step->rows;
                return KVA_OK;
            }
            status = prune(session, step, &rows, error);
        }
        if (status == KVA_OK)
            status = kva_layer_forward(session, i, &rows, error);
    }
    if (status != KVA_OK || (step->n_last == 0 && !session->options.all_logits))
        return status;
    uint64_t logit_rows;
    status = head(session, step, &rows, &logit_rows, error);
    return status == KVA_OK ? collect(session, feed, step, logits, error) : status;
}

static enum kva_status check_feed(const struct kva_session *session, const uint32_t *tokens, const uint64_t *lengths,
                                  struct feed *feed, struct kva_error *error)
{
    uint64_t total = 0;
    for (uint64_t s = 0; s < session->sequences; s++) {
        feed->offset[s] = total;
        if (lengths[s] > session->options.context - session->past[s])
            return kva_fail(error, KVA_BAD_INPUT, NULL, "--context",
                            "sequence %" PRIu64 " would hold %" PRIu64 " tokens, its caches hold %" PRIu64, s,
                            session->past[s] + lengths[s], session->options.context);
        total += lengths[s];
    }
    for (uint64_t i = 0; i < total; i++)
        if (tokens[i] >= session->shape.vocab)
            return kva_fail(error, KVA_BAD_INPUT, NULL, "--tokens",
                            "token id %" PRIu32 " is outside the vocabulary of %" PRIu64, tokens[i],
                            session->shape.vocab);
    return KVA_OK;
}

enum kva_status kva_session_pass(struct kva_session *session, const uint32_t *tokens, const uint64_t *lengths,
                                 float *logits, struct kva_error *error)
{
    if (session->pass_failed)
        return kva_fail(error, KVA_MACHINE, NULL, NULL, "an earlier pass failed: its caches hold half a pass");
    struct feed feed = {.tokens = tokens, .lengths = lengths};
    feed.done = calloc(session->sequences, sizeof *feed.done);
    feed.offset = calloc(session->sequences, sizeof *feed.offset);
    enum kva_status status = feed.done == NULL || feed.offset == NULL
                                 ? kva_fail_memory(error, session->sequences * 2 * sizeof *feed.done)
                                 : check_feed(session, tokens, lengths, &feed, error);
    uint64_t sent = 0, total = 0;
    for (uint64_t s = 0; s < session->sequences && status == KVA_OK; s++)
        total += lengths[s];
    while (sent < total && status == KVA_OK) {
        struct step step;
        pack(session, &feed, &step);
        status = run_step(session, &feed, &step, logits, error);
        session->pass_failed = status != KVA_OK;
        for (uint32_t i = 0; i < step.n_spans; i++) {
            session->past[session->host_spans[i].sequence] += session->host_spans[i].rows;
            feed.done[session->host_spans[i].sequence] += session->host_spans[i].rows;
        }
        sent += step.rows;
        if (session->options.progress != NULL && total > session->sequences)
            session->options.progress(session->options.user, "prefill", sent, total);
    }
    free(feed.done);
    free(feed.offset);
    return status;
}

enum kva_status kva_session_greedy(struct kva_session *session, uint32_t *tokens, struct kva_error *error)
{
    if (session->pass_failed)
        return kva_fail(error, KVA_MACHINE, NULL, NULL, "an earlier pass failed: there is no choice to give");
    memcpy(tokens, session->greedy, session->sequences * sizeof *tokens);
    return KVA_OK;
}

enum kva_status kva_session_reset(struct kva_session *session, struct kva_error *error)
{
    // rows beyond `past` are never read, and a state is not read while past is 0: nothing on the device need change
    memset(session->past, 0, session->sequences * sizeof *session->past);
    session->pass_failed = false;
    session->pruned_rows = 0;
    return session->kernels->sync(session->device, error);
}
