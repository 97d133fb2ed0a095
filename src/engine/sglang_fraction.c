// SGLang's --mem-fraction-static where nobody gives it, and the bytes that it leaves for caches.
#include <math.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/text.h"
#include "engine/budget.h"
#include "engine/cache_bytes.h"
#include "engine/sglang.h"

enum { MIB = 1 << 20 };

// ---------------------------------------------------------------- defaults by the GPU's size

// server_args.py _handle_gpu_memory_settings: tokens of a prefill chunk and the largest decode batch with a graph
struct size_class {
    uint64_t below_gib;
    uint64_t prefill, graphs, graphs_of_four;  // 0: the version's small_gpu_*
};
static const struct size_class CLASSES[] = {
    {20, 2048, 8, 8},     {35, 0, 0, 0},         {60, 4096, 32, 160},
    {90, 8192, 256, 512}, {160, 8192, 256, 512}, {UINT64_MAX, 16384, 512, 512},
};

static struct size_class class_of(const struct kva_call *call)
{
    const struct sglang *sglang = call->behaviours;
    const uint64_t mib = call->deployment->gpu_bytes / MIB;
    size_t c = 0;
    while (CLASSES[c].below_gib != UINT64_MAX && mib >= CLASSES[c].below_gib * 1024)
        c++;
    struct size_class found = CLASSES[c];
    if (found.prefill == 0) {
        found.prefill = sglang->small_gpu_prefill;
        found.graphs = sglang->small_gpu_graphs;
        found.graphs_of_four = sglang->small_gpu_graphs_of_four;
    }
    return found;
}

uint64_t sglang_prefill_tokens(const struct kva_call *call)
{
    enum { WITHOUT_A_GPU = 4096 };
    if (call->deployment->batch_tokens > 0)
        return call->deployment->batch_tokens;
    return call->deployment->gpu_bytes > 0 ? class_of(call).prefill : WITHOUT_A_GPU;
}

static uint64_t decode_graphs(const struct kva_call *call)
{
    const struct sglang *sglang = call->behaviours;
    const struct size_class class = class_of(call);
    const uint64_t graphs = call->deployment->tp < 4 ? class.graphs : class.graphs_of_four;
    const uint64_t asked = call->deployment->max_sequences;
    return sglang->graphs_capped_by_requests && asked > 0 ? kva_min(graphs, asked) : graphs;
}

// _generate_prefill_cuda_graph_batch_sizes: how many sizes are captured up to `most` tokens
static uint64_t prefill_graphs(uint64_t most)
{
    static const struct {
        uint64_t first, last, step;
    } RANGES[] = {{4, 32, 4},      {48, 256, 16},     {288, 512, 32},
                  {576, 1024, 64}, {1280, 4096, 256}, {4608, UINT64_MAX, 512}};
    uint64_t n = 0;
    for (size_t r = 0; r < sizeof RANGES / sizeof *RANGES; r++)
        if (most >= RANGES[r].first)
            n += (kva_min(most, RANGES[r].last) - RANGES[r].first) / RANGES[r].step + 1;
    return n;
}

// ---------------------------------------------------------------- the fraction

static double rounded(double mib, double reserved)
{
    return nearbyint((mib - reserved) / mib * 1000) / 1000;
}

// 0.4.6: by the number of GPUs up to 80 GiB, else all but 13 GiB
static double by_parallel(double mib, uint64_t tp)
{
    static const struct {
        uint64_t tp;
        double fraction;
    } STEPS[] = {{16, 0.79}, {8, 0.81}, {4, 0.85}, {2, 0.87}, {0, 0.88}};
    size_t s = 0;
    while (tp < STEPS[s].tp)
        s++;
    return mib <= 81920 ? STEPS[s].fraction : (mib - 1024 * 13) / mib;
}

// 0.4.8: a reserve by the GPU's size
static double by_size(const struct kva_call *call, double mib, double ranks)
{
    const struct sglang *sglang = call->behaviours;
    const struct kva_deployment *deployment = call->deployment;
    double reserved = mib < 35 * 1024    ? (2.8 + ranks / 10) * 1024
                      : mib < 90 * 1024  ? (9.5 + ranks / 2) * 1024
                      : mib < 160 * 1024 ? (12 + ranks / 2) * 1024
                                         : 32 * 1024;
    if (deployment->spec_tokens > 0)
        reserved += (double)sglang->fraction_draft_mib;
    if (deployment->dp_attention == KVA_ON)
        reserved += 4 * 1024;
    return rounded(mib, reserved);
}

// 0.5.3: reserved = 512 + 1.5 x prefill tokens + 2 x decode graphs + 128 x ranks, and more for what else is on
static double by_parts(const struct kva_call *call, double mib, double ranks, bool latent)
{
    const struct sglang *sglang = call->behaviours;
    const struct kva_deployment *deployment = call->deployment;
    const uint64_t chunk = sglang_prefill_tokens(call), latent_graphs = 1536;
    const double graphs = (double)decode_graphs(call);
    const bool captures = deployment->cuda_graphs != KVA_OFF;
    double reserved = 512 + (double)kva_max(chunk, 2048) * 1.5 + ranks / 8 * 1024;
    if (captures)
        reserved += graphs * 2;
    if (deployment->dp_attention == KVA_ON)
        reserved += graphs * (double)deployment->dp * (graphs > 300 ? 4.5 : 3);
    if (sglang->fraction_prefill_graphs && captures)
        reserved += latent ? (double)latent_graphs : (double)prefill_graphs(chunk) * 8;
    if (mib > 60 * 1024)
        reserved = fmax(reserved, 10 * 1024);
    if (deployment->spec_tokens > 0)
        reserved += (double)sglang->fraction_draft_mib;
    return rounded(mib, reserved);
}

static enum kva_status resolve_fraction(struct kva_call *call)
{
    const struct sglang *sglang = call->behaviours;
    struct kva_deployment *deployment = call->deployment;
    const double mib = floor((double)deployment->gpu_bytes / MIB), ranks = (double)(deployment->tp * deployment->pp);
    if (deployment->memory_fraction > 0)
        return KVA_OK;
    deployment->memory_fraction = sglang->fraction == FRACTION_PARALLEL ? by_parallel(mib, deployment->tp)
                                  : sglang->fraction == FRACTION_SIZE
                                      ? by_size(call, mib, ranks)
                                      : by_parts(call, mib, ranks, kva_model_has_cache(call->model, KVA_CACHE_LATENT));
    if (deployment->memory_fraction <= 0)
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, "memory_fraction",
                        "SGLang's own reserve is more than this GPU has; give --mem-fraction-static");
    return kva_assume(call, "--mem-fraction-static %.3f: SGLang's default for this GPU, a text model",
                      deployment->memory_fraction);
}

// profile_max_num_token: rest = free after loading - free before loading x (1 - fraction). Before loading, the driver's
// context and whatever else is there (other_bytes) are gone already.
enum kva_status sglang_budget(struct kva_call *call)
{
    struct kva_deployment *deployment = call->deployment;
    char human[KVA_HUMAN];
    enum kva_status status = resolve_fraction(call);
    if (status != KVA_OK)
        return status;
    const uint64_t before =
        deployment->gpu_bytes > deployment->other_bytes ? deployment->gpu_bytes - deployment->other_bytes : 0;
    const double kept = (double)before * (1 - deployment->memory_fraction);
    kva_set_budget(deployment, (double)before - (double)deployment->weight_bytes, kept);
    if (deployment->other_bytes > 0)
        return KVA_OK;
    return kva_assume(call, "%s free before the weights: the whole GPU; --other-bytes takes the driver's context off",
                      kva_human_bytes(before, human));
}
