#include "engine/memory.h"

#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/text.h"
#include "engine/parallel.h"
#include "engine/resolve.h"

// ---------------------------------------------------------------- the GPU

static enum kva_status refuse_memory(const struct kva_call *call, const struct kva_gpu *gpu)
{
    char sold[64] = "";
    if (gpu->sold_bytes > 0)
        snprintf(sold, sizeof sold, " (it is sold with %.0f GB, which is not the same)", gpu->sold_bytes / 1e9);
    return kva_fail(
        call->error, KVA_REFUSED, NULL, "--gpu",
        "how much memory %s reports is not known%s; say --gpu-memory BYTES, as nvidia-smi or torch prints it", gpu->id,
        sold);
}

static enum kva_status assume_memory(struct kva_call *call, const struct kva_gpu *gpu)
{
    static const struct {
        const char *basis, *words;
    } WORDS[] = {
        {"measured", "as one of them reports"},
        {"printed", "as logs print it, to two decimals"},
        {"derived", "nvidia-smi's total less its reserve"},
        {"bound", "at least: nvidia-smi's total less the largest reserve seen"},
    };
    const char *words = "";
    char human[KVA_HUMAN];
    for (size_t w = 0; w < sizeof WORDS / sizeof *WORDS; w++)
        if (strcmp(gpu->total_basis, WORDS[w].basis) == 0)
            words = WORDS[w].words;
    return kva_assume(call, "%s has %s: %s%s", gpu->id, kva_human_bytes(gpu->total_bytes, human), words,
                      gpu->unified ? "; it is shared with the CPU" : "");
}

enum kva_status kva_resolve_gpu(struct kva_call *call)
{
    struct kva_deployment *deployment = call->deployment;
    enum kva_status status = KVA_OK;
    enum { LEAST = 64 << 20 };
    if (deployment->gpu_bytes > 0 && deployment->gpu_bytes < LEAST)
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, "gpu_bytes",
                        "%llu bytes are the memory of no GPU; write 80GiB", (unsigned long long)deployment->gpu_bytes);
    if (deployment->gpu == NULL && deployment->gpu_facts == NULL)
        return KVA_OK;
    if (deployment->gpu_facts == NULL && call->atlas == NULL)
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, "--gpu", "'%.80s' needs the catalogue, and there is no atlas",
                        deployment->gpu);
    if (deployment->gpu_facts == NULL)
        status = kva_gpu_find(call->atlas, deployment->gpu, &deployment->gpu_facts, call->error);
    if (status != KVA_OK || deployment->gpu_bytes > 0)
        return status;
    deployment->gpu_bytes = deployment->gpu_facts->total_bytes;
    if (deployment->gpu_bytes > 0)
        return assume_memory(call, deployment->gpu_facts);
    return deployment->kv_bytes > 0 ? KVA_OK : refuse_memory(call, deployment->gpu_facts);
}

// ---------------------------------------------------------------- weights

struct shares {
    uint64_t embedding, head, norms, layers;  // bytes on one of `tp` ranks, all layers
};

static bool share_classes(const struct kva_model *model, uint64_t tp, struct shares *shares)
{
    *shares = (struct shares){0};
    for (size_t i = 0; i < model->n_weight_classes; i++) {
        const struct kva_weight_class *class = &model->weight_classes[i];
        const bool norm = strcmp(class->name, "norm") == 0;
        uint64_t *sum = &shares->layers;
        if (strcmp(class->name, "embedding") == 0)
            sum = &shares->embedding;
        else if (strcmp(class->name, "head") == 0)
            sum = &shares->head;
        else if (norm)
            sum = &shares->norms;
        if (class->bytes == KVA_UNKNOWN || !kva_add(*sum, norm ? class->bytes : kva_ceil_div(class->bytes, tp), sum))
            return false;
    }
    return model->n_weight_classes > 0;
}

uint64_t kva_weights_on_rank(const struct kva_model *model, uint64_t tp, uint64_t pp)
{
    struct shares shares;
    uint64_t of_layers, both;
    if (model->weight_bytes == KVA_UNKNOWN || tp * pp <= 1)
        return model->weight_bytes;
    if (!share_classes(model, tp, &shares) || model->n_layers == 0)
        return kva_ceil_div(model->weight_bytes, tp * pp);
    const uint64_t n = model->n_layers;
    if (!kva_add(shares.layers, shares.norms, &of_layers))
        return KVA_UNKNOWN;
    // the largest stage holds ceil(layers / pp) of them
    const uint64_t largest = kva_ceil_div(n, pp);
    if (!kva_mul(kva_ceil_div(of_layers, n), largest, &of_layers))
        return KVA_UNKNOWN;
    const uint64_t head = shares.head > 0 ? shares.head : shares.embedding;
    if (!kva_add(shares.embedding, shares.head, &both))
        return KVA_UNKNOWN;
    const uint64_t ends = pp == 1 ? both : kva_max(shares.embedding, head);
    return kva_add(of_layers, ends, &of_layers) ? of_layers : KVA_UNKNOWN;
}

enum kva_status kva_resolve_weights(struct kva_call *call)
{
    struct kva_deployment *deployment = call->deployment;
    char human[KVA_HUMAN];
    if (deployment->weight_bytes > 0)
        return KVA_OK;
    deployment->weight_bytes = kva_weights_on_rank(call->model, deployment->tp, deployment->pp);
    if (deployment->weight_bytes == KVA_UNKNOWN)
        return KVA_OK;
    // a float32 model that the engine runs in two bytes
    if (call->model->dtype == KVA_F32 && kva_dtype_bytes(deployment->model_dtype) == 2)
        deployment->weight_bytes = kva_ceil_div(deployment->weight_bytes, 2);
    const bool divided = deployment->tp * deployment->pp > 1;
    return kva_assume(call, "weights %s%s: %s%s", kva_human_bytes(deployment->weight_bytes, human),
                      divided ? " on a rank" : "", call->model->weight_source,
                      !divided                            ? ""
                      : call->model->n_weight_classes > 0 ? ", divided by class"
                                                          : ", divided evenly");
}
