// The lines of llama.cpp's log that tell of caches, in their order.
#include <string.h>

#include "base/error.h"
#include "engine/llamacpp.h"

// Of "size = ...": (float)bytes / (1024.0f * 1024.0f)
static double mib(uint64_t bytes)
{
    return (double)((float)bytes / 1048576.0f);
}

static enum kva_status print_buffers(struct kva_call *call, const struct kva_lcpp_memory *memory,
                                     const struct kva_lcpp_cache *cache, const char *id)
{
    enum kva_status status = KVA_OK;
    for (size_t d = 0; d < memory->n_devices && status == KVA_OK; d++) {
        bool here = false;
        for (size_t t = 0; t < cache->n_tensors && !here; t++)
            here = memory->device[cache->tensors[t].layer] == d;
        const char *device = kva_lcpp_device_name(call, d);
        if (device == NULL)
            return kva_fail_memory(call->error, strlen("CUDA0"));
        const struct kva_quantity quantities[] = {kva_text_of("device", device), kva_text_of("cache", cache->name),
                                                  kva_real_of("mib", (double)cache->given[d] / 1048576.0)};
        if (here)
            status = kva_print(call, id, quantities, sizeof quantities / sizeof *quantities);
    }
    return status;
}

static enum kva_status print_kv(struct kva_call *call, const struct kva_lcpp_memory *memory,
                                const struct kva_lcpp_cache *cache)
{
    const struct kva_deployment *deployment = call->deployment;
    const struct kva_quantity quantities[] = {
        kva_real_of("mib", mib(cache->k + cache->v)), kva_count_of("cells", cache->cells),
        kva_count_of("layers", cache->n_tensors),     kva_count_of("sequences", memory->n_seq_max),
        kva_count_of("streams", cache->streams),      kva_text_of("type_k", deployment->kv_type),
        kva_text_of("type_v", deployment->kv_type_v), kva_real_of("k_mib", mib(cache->k)),
        kva_real_of("v_mib", mib(cache->v)),
    };
    const struct kva_lcpp_behaviours *engine = call->behaviours;
    const bool latent = memory->model.latent && engine->latent == KVA_LCPP_LATENT_ASKED;
    const char *id = !latent ? "kv_size" : cache->v > 0 ? "latent_twice_size" : "latent_size";
    enum kva_status status = print_buffers(call, memory, cache, "kv_buffer");
    return status == KVA_OK ? kva_print(call, id, quantities, sizeof quantities / sizeof *quantities) : status;
}

static enum kva_status print_state(struct kva_call *call, const struct kva_lcpp_memory *memory,
                                   const struct kva_lcpp_cache *cache)
{
    const struct kva_quantity quantities[] = {
        kva_real_of("mib", mib(cache->k + cache->v)),
        kva_count_of("cells", cache->cells),
        kva_count_of("layers", memory->model.logged_layers),
        kva_count_of("sequences", memory->n_seq_max),
        kva_count_of("snapshots", call->deployment->rs_seq),
        kva_real_of("r_mib", mib(cache->k)),
        kva_real_of("s_mib", mib(cache->v)),
        kva_real_of("p_mib", 0),
    };
    enum kva_status status = print_buffers(call, memory, cache, "state_buffer");
    return status == KVA_OK ? kva_print(call, "state_size", quantities, sizeof quantities / sizeof *quantities)
                            : status;
}

static enum kva_status print_compressor(struct kva_call *call, const struct kva_lcpp_memory *memory,
                                        const struct kva_lcpp_cache *cache)
{
    const struct kva_quantity quantities[] = {
        kva_text_of("cache", cache->name),        kva_count_of("ratio", cache->ratio),
        kva_count_of("rows", cache->cells),       kva_count_of("width", cache->width),
        kva_count_of("streams", cache->streams),  kva_count_of("snapshots", call->deployment->rs_seq),
        kva_count_of("layers", cache->n_tensors), kva_real_of("mib", mib(cache->k + cache->v)),
    };
    enum kva_status status = print_buffers(call, memory, cache, "compressor_buffer");
    return status == KVA_OK ? kva_print(call, "compressor_size", quantities, sizeof quantities / sizeof *quantities)
                            : status;
}

// Caches that stand beside another are announced before they are made. An indexer's class is dsa, or msa where its
// cache has values.
static enum kva_status print_creating(struct kva_call *call, const struct kva_lcpp_memory *memory,
                                      const struct kva_lcpp_cache *cache)
{
    static const char *const IDS[] = {[KVA_LCPP_FULL] = "creating_full",
                                      [KVA_LCPP_WINDOW] = "creating_window",
                                      [KVA_LCPP_MAIN] = "creating_main",
                                      [KVA_LCPP_INDEXER] = "creating_indexer",
                                      [KVA_LCPP_STATE] = NULL};
    const struct kva_lcpp_model *model = &memory->model;
    const bool values = model->n_layers > 0 && model->layers[model->n_layers - 1].index_v > 0;
    const struct kva_quantity quantities[] = {kva_count_of("cells", cache->cells),
                                              kva_text_of("sparse", values ? "msa" : "dsa")};
    enum kva_status status = KVA_OK;
    if (cache->kind == KVA_LCPP_FULL && call->deployment->swa_full == KVA_ON)
        status = kva_print(call, "full_size_window", NULL, 0);
    return status == KVA_OK && IDS[cache->kind] != NULL
               ? kva_print(call, IDS[cache->kind], quantities, sizeof quantities / sizeof *quantities)
               : status;
}

enum kva_status kva_lcpp_print_lines(struct kva_call *call, const struct kva_engine_allocation *allocation)
{
    const struct kva_lcpp_memory *memory = call->own;
    enum kva_status status = KVA_OK;
    (void)allocation;
    for (size_t c = 0; c < memory->n && status == KVA_OK; c++) {
        const struct kva_lcpp_cache *cache = &memory->caches[c];
        // a cache is announced before it is made
        status = print_creating(call, memory, cache);
        if (status == KVA_OK)
            status = cache->kind == KVA_LCPP_STATE        ? print_state(call, memory, cache)
                     : cache->kind == KVA_LCPP_COMPRESSOR ? print_compressor(call, memory, cache)
                                                          : print_kv(call, memory, cache);
    }
    return status;
}
