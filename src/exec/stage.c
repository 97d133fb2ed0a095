#include "exec/session.h"

static const char *const STAGES[KVA_N_STAGES] = {
    [KVA_STAGE_EMBED] = "embed",
    [KVA_STAGE_NORM] = "norm",
    [KVA_STAGE_QKV] = "mixer in",
    [KVA_STAGE_ROPE] = "rope",
    [KVA_STAGE_ATTENTION] = "attention",
    [KVA_STAGE_CACHE_WRITE] = "cache write",
    [KVA_STAGE_PROJECT] = "mixer out",
    [KVA_STAGE_FFN] = "feed-forward",
    [KVA_STAGE_CONV] = "conv",
    [KVA_STAGE_SCAN] = "scan",
    [KVA_STAGE_GMU] = "gmu",
    [KVA_STAGE_HEAD] = "head",
};

const char *kva_stage_name(enum kva_stage stage)
{
    return stage < KVA_N_STAGES ? STAGES[stage] : "unknown";
}

void kva_stage_begin(struct kva_session *session, enum kva_stage stage)
{
    session->kernels->stage_begin(session->device, stage);
}

void kva_stage_end(struct kva_session *session, enum kva_stage stage, double bytes, double flops)
{
    session->kernels->stage_end(session->device, stage);
    session->stages[stage].bytes += bytes;
    session->stages[stage].flops += flops;
}

const struct kva_stage_time *kva_session_stages(struct kva_session *session)
{
    double milliseconds[KVA_N_STAGES];
    uint64_t calls[KVA_N_STAGES];
    session->kernels->stage_times(session->device, milliseconds, calls);
    for (int i = 0; i < KVA_N_STAGES; i++) {
        session->stages[i].milliseconds = milliseconds[i];
        session->stages[i].calls = calls[i];
    }
    return session->stages;
}

void kva_session_stages_reset(struct kva_session *session)
{
    session->kernels->stage_reset(session->device);
    for (int i = 0; i < KVA_N_STAGES; i++)
        session->stages[i] = (struct kva_stage_time){0};
}
