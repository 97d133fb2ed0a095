// A session: opening a device with weights and caches, and what may be asked of it.
#include "exec/session.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "exec/backend.h"

enum { DEFAULT_CHUNK = 2048, MAX_SEQUENCES = 1 << 20 };

static enum kva_status check_options(const struct kva_model *model, const struct kva_run_options *options,
                                     struct kva_error *error)
{
    if (model->arch == NULL || model->arch->decoder == NULL || model->n_tensors == 0)
        return kva_fail(error, KVA_REFUSED, model->source, "model_type",
                        "the executor has no recipe for \"%s\": it can be planned, not run", model->model_type);
    if (options->dtype != KVA_F32 && options->dtype != KVA_BF16)
        return kva_fail(error, KVA_BAD_INPUT, NULL, "--dtype", "the executor runs f32 and bf16, not %s",
                        kva_dtype_name(options->dtype));
    if (strcmp(options->policy, "exact") != 0 && strcmp(options->policy, "full") != 0)
        return kva_fail(error, KVA_REFUSED, NULL, "--policy",
                        "\"%s\" is not a policy that the executor runs: exact or full", options->policy);
    if (options->context == 0 || options->context > UINT32_MAX)
        return kva_fail(error, KVA_BAD_INPUT, NULL, "--context", "must be from 1 to %u tokens", UINT32_MAX);
    if (options->sequences == 0 || options->sequences > MAX_SEQUENCES)
        return kva_fail(error, KVA_BAD_INPUT, NULL, "--sequences", "must be from 1 to %d", MAX_SEQUENCES);
    for (size_t i = 0; i < model->n_tensors; i++)
        if (model->tensors[i].dtype != options->dtype && model->tensors[i].dtype != KVA_F32)
            return kva_fail(error, KVA_BAD_INPUT, model->source, model->tensors[i].name,
                            "is %s, the run is %s: open the model with the run's dtype",
                            kva_dtype_name(model->tensors[i].dtype), kva_dtype_name(options->dtype));
    return KVA_OK;
}

static enum kva_status alloc_host(struct kva_session *session, struct kva_error *error)
{
    const size_t rows = session->rows, sequences = session->sequences;
    session->past = calloc(sequences, sizeof *session->past);
    session->host_tokens = calloc(rows, sizeof *session->host_tokens);
    session->host_positions = calloc(rows, sizeof *session->host_positions);
    session->host_last = calloc(sequences, sizeof *session->host_last);
    session->host_spans = calloc(sequences, sizeof *session->host_spans);
    session->host_last_spans = calloc(sequences, sizeof *session->host_last_spans);
    session->greedy = calloc(sequences, sizeof *session->greedy);
    if (session->past == NULL || session->host_tokens == NULL || session->host_positions == NULL ||
        session->host_last == NULL || session->host_spans == NULL || session->host_last_spans == NULL ||
        session->greedy == NULL)
        return kva_fail_memory(error, rows * 8 + sequences * 48);
    return KVA_OK;
}

// Everything that must be on the device before the first token.
static enum kva_status furnish(struct kva_session *session, struct kva_error *error)
{
    const struct kva_kernels *kernels = session->kernels;
    enum kva_status status = alloc_host(session, error);
    if (status != KVA_OK)
        return status;
    if (kernels->workspace_bytes > 0) {
        void *workspace;
        status = kva_ledger_alloc(&session->ledger, -1, KVA_WORKSPACE, kernels->workspace_bytes, &workspace, error);
        if (status != KVA_OK)
            return status;
        kernels->set_workspace(session->device, workspace, kernels->workspace_bytes);
    }
    status = kva_weights_place(session->model, &session->options, &session->ledger, &session->weights, error);
    if (status == KVA_OK)
        status = kva_shape_read(session, error);
    if (status == KVA_OK)
        status = kva_caches_alloc(session->model, &session->weights, strcmp(session->options.policy, "exact") == 0,
                                  session->options.context, session->sequences, session->act, &session->ledger,
                                  &session->caches, error);
    if (status == KVA_OK)
        status = kva_buffers_alloc(session, error);
    // the long part comes when nothing can run out any more
    if (status == KVA_OK)
        status = kva_weights_fill(session->model, &session->options, &session->ledger, &session->weights, error);
    return status;
}

enum kva_status kva_session_open(const struct kva_model *model, const struct kva_run_options *options,
                                 struct kva_session **out, struct kva_error *error)
{
    *out = NULL;
    enum kva_status status = check_options(model, options, error);
    if (status != KVA_OK)
        return status;
    struct kva_session *session = calloc(1, sizeof *session);
    if (session == NULL)
        return kva_fail_memory(error, sizeof *session);
    session->model = model;
    session->options = *options;
    session->act = options->dtype;
    session->sequences = options->sequences;
    uint64_t all_rows;
    if (!kva_mul(options->context, options->sequences, &all_rows))
        all_rows = UINT64_MAX;
    session->rows = kva_min(options->chunk > 0 ? options->chunk : DEFAULT_CHUNK, all_rows);
    session->rows = kva_max(session->rows, options->sequences);
    session->logit_rows = options->all_logits ? session->rows : session->sequences;
    status = kva_backend_open(options->backend, session->act, &session->kernels, &session->device, error);
    if (status == KVA_OK) {
        session->kernels->info(session->device, &session->info);
        session->ledger.kernels = session->kernels;
        session->ledger.device = session->device;
        session->ledger.predicted = options->predicted_bytes;
        session->kernels->profile(session->device, options->profile);
        status = furnish(session, error);
    }
    if (status != KVA_OK) {
        kva_session_close(session);
        return status;
    }
    *out = session;
    return KVA_OK;
}

void kva_session_close(struct kva_session *session)
{
    if (session == NULL)
        return;
    if (session->device != NULL)
        kva_ledger_release(&session->ledger);
    kva_caches_release(&session->caches);
    kva_weights_release(&session->weights);
    kva_backend_close(session->kernels, session->device);
    free(session->past);
    free(session->host_tokens);
    free(session->host_positions);
    free(session->host_last);
    free(session->host_spans);
    free(session->host_last_spans);
    free(session->greedy);
    free(session);
}

// ---------------------------------------------------------------- questions

const struct kva_device_info *kva_session_device(const struct kva_session *session)
{
    return &session->info;
}

const struct kva_allocation *kva_session_ledger(const struct kva_session *session, size_t *n)
{
    *n = session->ledger.n;
    return session->ledger.entries;
}

uint64_t kva_session_device_used(struct kva_session *session)
{
    return session->kernels->used(session->device);
}

uint64_t kva_session_rows(const struct kva_session *session)
{
    return session->rows;
}

uint64_t kva_session_logit_rows(const struct kva_session *session)
{
    return session->logit_rows;
}

uint64_t kva_session_workspace(const struct kva_session *session)
{
    return session->kernels->workspace_bytes;
}

uint64_t kva_session_pruned_rows(const struct kva_session *session)
{
    return session->pruned_rows;
}

uint64_t kva_session_vocab(const struct kva_session *session)
{
    return session->shape.vocab;
}

enum kva_status kva_session_sync(struct kva_session *session, struct kva_error *error)
{
    return session->kernels->sync(session->device, error);
}

enum kva_status kva_session_ceilings(struct kva_session *session, uint64_t side, double *read_bytes_per_second,
                                     double *flops_per_second, struct kva_error *error)
{
    return session->kernels->ceilings(session->device, side, read_bytes_per_second, flops_per_second, error);
}
