// Where llama.cpp puts each layer's caches, and what the buffers of that device round.
#include <string.h>

#include "base/error.h"
#include "engine/llamacpp.h"
#include "engine/parallel.h"

static const char *vendor_of(const struct kva_deployment *deployment)
{
    return deployment->gpu_facts != NULL && deployment->gpu_facts->vendor != NULL ? deployment->gpu_facts->vendor : "";
}

// ggml/src/ggml-cuda/ggml-cuda.cu, which HIP compiles too; other backends round nothing that was read.
struct kva_lcpp_buffer kva_lcpp_buffer_of(const struct kva_call *call)
{
    const struct kva_lcpp_behaviours *engine = call->behaviours;
    const struct kva_deployment *deployment = call->deployment;
    const bool gpu = deployment->gpu != NULL || deployment->gpu_bytes > 0 || deployment->pp > 1;
    const bool amd = strcmp(vendor_of(deployment), "amd") == 0;
    if (!gpu || deployment->offload_kqv == KVA_OFF)
        return (struct kva_lcpp_buffer){.name = "CPU", .alignment = 1};
    if (*vendor_of(deployment) != '\0' && !amd && strcmp(vendor_of(deployment), "nvidia") != 0)
        return (struct kva_lcpp_buffer){.name = "GPU", .numbered = true, .alignment = 1};
    return (struct kva_lcpp_buffer){amd ? "ROCm" : "CUDA", true, engine->alignment, engine->row_padding};
}

const char *kva_lcpp_device_name(const struct kva_call *call, size_t device)
{
    const struct kva_lcpp_buffer buffer = kva_lcpp_buffer_of(call);
    return buffer.numbered ? kva_arena_printf(call->arena, "%s%zu", buffer.name, device) : buffer.name;
}

// src/llama-model.cpp, load_tensors: the output counts as a layer more, and layer i goes to the first GPU whose share
// of the sum ends behind i / (layers + 1), in float.
static void spread_equal(uint64_t n_layers, uint64_t gpus, uint64_t *sizes)
{
    uint64_t gpu = 0;
    for (uint64_t layer = 0; layer < n_layers; layer++) {
        const float at = (float)layer / (float)(n_layers + 1);
        while (gpu + 1 < gpus && at >= (float)(gpu + 1) / (float)gpus)
            gpu++;
        sizes[gpu]++;
    }
}

enum kva_status kva_lcpp_devices(struct kva_call *call, const uint32_t **device)
{
    if (call->deployment->offload_kqv != KVA_OFF)
        return kva_stages_lay(call, spread_equal, device);
    *device = kva_arena_alloc(call->arena, call->model->n_layers + 1, sizeof **device);  // one device: the CPU
    return *device != NULL ? KVA_OK : kva_fail_memory(call->error, call->model->n_layers * sizeof **device);
}
