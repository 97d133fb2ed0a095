// What a GGUF header says beside its config: the bytes of the weights, and the shapes that the layers must have.
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "model/build.h"
#include "model/ggml_types.h"
#include "model/gguf_arch.h"

// ---------------------------------------------------------------- weights

// Parts of names of tensors, the first that a name holds decides. (llama.cpp, gguf-py/gguf/constants.py TENSOR_NAMES.)
static const struct {
    const char *part, *weight_class;
} CLASSES[] = {
    {"norm", "norm"},        {"embd", "embedding"},     {".ssm_", "state"},
    {".shortconv", "state"}, {".time_mix", "state"},    {".indexer", "attention"},
    {".attn_", "attention"}, {".ffn_", "feed-forward"}, {".channel_mix", "feed-forward"},
    {".nextn", "other"},     {"output", "head"},
};

static const char *class_of(const char *name)
{
    for (size_t i = 0; i < sizeof CLASSES / sizeof *CLASSES; i++)
        if (strstr(name, CLASSES[i].part) != NULL)
            return CLASSES[i].weight_class;
    return "other";
}

static enum kva_status forget(struct kva_build *build, const char *why, uint64_t a, uint64_t b)
{
    build->model->weight_bytes = KVA_UNKNOWN;
    for (size_t i = 0; i < build->model->n_weight_classes; i++)
        build->model->weight_classes[i].bytes = KVA_UNKNOWN;
    return kva_build_warn(build, why, (unsigned long long)a, (unsigned long long)b);
}

static enum kva_status add_tensors(struct kva_build *build, const struct kva_gguf *gguf)
{
    struct kva_model *model = build->model;
    uint64_t bytes = 0, parameters = 0, unknown = KVA_UNKNOWN;
    model->n_weight_classes = 0;
    for (size_t t = 0; t < gguf->n_tensors; t++) {
        const struct kva_gguf_tensor *tensor = &gguf->tensors[t];
        if (tensor->bytes == KVA_UNKNOWN)
            unknown = tensor->type;
        else if (!kva_add(bytes, tensor->bytes, &bytes))
            return kva_fail(build->error, KVA_BAD_INPUT, build->file, tensor->name,
                            "brings the weights to more bytes than 64 bits count");
        if (!kva_add(parameters, tensor->elements, &parameters))
            return kva_fail(build->error, KVA_BAD_INPUT, build->file, tensor->name,
                            "brings the weights to more elements than 64 bits count");
        enum kva_status status = kva_class_add(build, class_of(tensor->name), 1, tensor->elements, tensor->bytes);
        if (status != KVA_OK)
            return status;
    }
    model->parameters = parameters;
    model->weight_bytes = bytes;
    model->weight_source = "GGUF tensor infos";
    if (unknown != KVA_UNKNOWN)
        return forget(build,
                      "weight bytes are unknown: there are tensors of ggml type %llu, of which kvatlas knows "
                      "no size",
                      unknown, 0);
    return KVA_OK;
}

enum kva_status kva_gguf_weights(struct kva_build *build)
{
    struct kva_model *model = build->model;
    const struct kva_gguf *gguf = build->gguf;
    bool as_published =
        build->options.dtype == KVA_DTYPE_NONE && model->n_layers >= kva_model_value(model, "layers")->count;
    enum kva_status status = kva_tensors_expand(build);
    if (status != KVA_OK)
        return status;
    if (as_published && gguf->files_found < gguf->files) {
        model->weight_source = "GGUF tensor infos";
        return forget(build, "weight bytes are unknown: only %llu of the %llu files of the model are there",
                      gguf->files_found, gguf->files);
    }
    if (as_published && gguf->n_tensors > 0)
        return add_tensors(build, gguf);
    if (model->dtype == KVA_DTYPE_NONE)
        status = kva_build_warn(build, "weight bytes are unknown: the header names no dtype");
    return status;
}

// ---------------------------------------------------------------- the shapes of the layers

static bool is_attention(enum kva_cache_kind kind)
{
    return kind == KVA_CACHE_FULL || kind == KVA_CACHE_SLIDING || kind == KVA_CACHE_CHUNKED;
}

static bool fits(const struct kva_cache *cache, const struct kva_gguf_shape *shape)
{
    if (cache->kind == KVA_CACHE_LATENT)
        return !shape->mla || (int64_t)cache->k_dim + cache->v_dim == shape->k_dim;
    if (!is_attention(cache->kind))
        return true;
    bool v_free = cache->shared_kv;
    return cache->kv_heads == shape->kv_heads &&
           ((cache->k_dim == shape->k_dim && (v_free || cache->v_dim == shape->v_dim)) ||
            (cache->k_dim == shape->k_dim_swa && (v_free || cache->v_dim == shape->v_dim_swa)));
}

static enum kva_status check_layers(struct kva_build *build, const struct kva_gguf *gguf)
{
    const struct kva_model *model = build->model;
    for (size_t i = 0; i < model->n_layers && i < gguf->n_shapes; i++) {
        const struct kva_layer *layer = &model->layers[i];
        for (size_t c = 0; c < layer->n_caches; c++) {
            const struct kva_cache *cache = &layer->caches[c];
            const struct kva_gguf_shape *shape = &gguf->shapes[i];
            if (!fits(cache, shape))
                return kva_fail(build->error, KVA_REFUSED, build->file, "general.architecture",
                                "read as %s, layer %zu has %u KV heads of %u + %u, but the header says %lld of %lld + "
                                "%lld: this shape is not known",
                                model->model_type, i, cache->kv_heads, cache->k_dim, cache->v_dim,
                                (long long)shape->kv_heads, (long long)shape->k_dim, (long long)shape->v_dim);
        }
    }
    return KVA_OK;
}

enum kva_status kva_gguf_check(struct kva_build *build)
{
    const struct kva_gguf *gguf = build->gguf;
    if (gguf == NULL)
        return KVA_OK;
    enum kva_status status = build->n_assumed == 0 ? check_layers(build, gguf) : KVA_OK;
    size_t strangers = 0;
    for (size_t i = 0; i < gguf->n_values && status == KVA_OK; i++)
        if (gguf->values[i].stranger && ++strangers <= KVA_STRANGERS_SAID)
            status = kva_build_warn(build, "the key \"%.80s\" is not one that kvatlas knows of this architecture",
                                    gguf->values[i].key);
    if (status == KVA_OK && strangers > KVA_STRANGERS_SAID)
        status =
            kva_build_warn(build, "%zu more keys are not known of this architecture", strangers - KVA_STRANGERS_SAID);
    return status;
}
