// Which class a model's make_cache picks, and bytes of a row of it before and after quantization.
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "engine/cache_bytes.h"
#include "engine/growing.h"
#include "engine/mlx.h"

struct mlx_choice mlx_choose(const struct kva_call *call)
{
    return (struct mlx_choice){.windows = kva_growing_rule(call, "windows"),
                               .indexes = kva_growing_rule(call, "indexes"),
                               .own_cache = kva_growing_rule(call, "own_cache") != NULL};
}

static struct kva_mlx_cache rotating(const struct kva_call *call, uint64_t window)
{
    const struct mlx *mlx = call->behaviours;
    const uint64_t less = mlx->rotating_history == HISTORY_WINDOW_LESS_ONE ? 1 : 0;
    return (struct kva_mlx_cache){
        .class = KVA_MLX_ROTATING, .window = window, .history = window - kva_min(less, window)};
}

struct kva_mlx_cache mlx_growth_of(const struct kva_call *call, const struct mlx_choice *choice,
                                   const struct kva_layer *layer, const struct kva_cache *cache)
{
    const struct mlx *mlx = call->behaviours;
    const char *windows = choice->windows != NULL ? choice->windows : "none";
    // llama.py and ministral3.py look at a layer_types list and at nothing else
    const bool listed = strncmp(layer->why, "layer_types[", 12) == 0;
    if (!choice->own_cache && call->deployment->max_kv_size > 0)
        return rotating(call, call->deployment->max_kv_size);
    if (!kva_growing_has_window(cache) || strcmp(windows, "none") == 0 || (strcmp(windows, "listed") == 0 && !listed))
        return (struct kva_mlx_cache){.class = KVA_MLX_GROWING};
    if (strcmp(windows, "chunked") == 0)
        return (struct kva_mlx_cache){
            .class = KVA_MLX_CHUNKED, .window = cache->window, .chunk_trim = (enum kva_mlx_chunk_trim)mlx->chunk_trim};
    return rotating(call, cache->window + (strcmp(windows, "rotating_and_one") == 0 ? 1 : 0));
}

// mx.quantize: packed elements in 32-bit words, and a scale and a bias of the model's type for each group.
static enum kva_status quantized_row(struct kva_call *call, const struct kva_cache *cache, uint64_t *bytes)
{
    const struct kva_deployment *deployment = call->deployment;
    const uint64_t group = deployment->kv_group_size, element = kva_dtype_bytes(deployment->kv_dtype);
    const uint64_t sides[] = {cache->k_dim, cache->v_dim};
    uint64_t head = 0;
    for (size_t s = 0; s < 2; s++) {
        if (sides[s] % group != 0)
            return kva_fail(call->error, KVA_REFUSED, NULL, "kv_group_size",
                            "MLX quantizes groups of %llu elements, and heads of %llu are not a number of them",
                            (unsigned long long)group, (unsigned long long)sides[s]);
        head += sides[s] * deployment->kv_bits / 8 + sides[s] / group * 2 * element;
    }
    return kva_mul(cache->kv_heads, head, bytes)
               ? KVA_OK
               : kva_fail(call->error, KVA_BAD_INPUT, NULL, NULL, "a row is more than 2^64 bytes");
}

static enum kva_status refuse_quantized(struct kva_call *call, const char *what)
{
    return kva_fail(call->error, KVA_REFUSED, NULL, "kv_bits", "MLX-LM %s cannot run %s with --kv-bits: %s",
                    call->version->version, call->model->model_type, what);
}

bool mlx_is_quantized(const struct kva_call *call, uint64_t offset)
{
    const struct mlx *mlx = call->behaviours;
    const struct kva_deployment *deployment = call->deployment;
    if (deployment->kv_bits == 0)
        return false;
    return mlx->quantized_from == FROM_ABOVE ? offset > deployment->quantized_kv_start
                                             : offset >= deployment->quantized_kv_start;
}

// generate.py maybe_quantize_kv_cache
static enum kva_status quantize(struct kva_call *call, const struct kva_layer *layer, const struct kva_cache *cache,
                                struct mlx_cache *chosen)
{
    const struct mlx *mlx = call->behaviours;
    const int kinds = mlx->quantized_kinds;
    const bool subclasses = kinds == QUANTIZED_GROWING || kinds == QUANTIZED_ABLE_SUBCLASSES;
    if (!mlx_is_quantized(call, call->deployment->context))
        return KVA_OK;
    if (kva_growing_rule(call, "unquantizable") != NULL)
        return refuse_quantized(call, "its attention takes no quantized keys");
    if (chosen->growth.class == KVA_MLX_ROTATING)
        return kinds == QUANTIZED_GROWING ? KVA_OK : refuse_quantized(call, "RotatingKVCache Quantization NYI");
    if (chosen->growth.class == KVA_MLX_CHUNKED && kinds == QUANTIZED_ABLE)
        return KVA_OK;
    if (chosen->growth.class == KVA_MLX_CHUNKED || (layer->n_caches > 1 && subclasses))
        return refuse_quantized(call, "what becomes of a chunked cache or of a list of caches is not known");
    if (layer->n_caches > 1 && kinds == QUANTIZED_ABLE)
        return KVA_OK;
    if (cache->kind == KVA_CACHE_LATENT)
        return refuse_quantized(call, "what becomes of latent rows is not known");
    return quantized_row(call, cache, &chosen->quantized_row);
}

// The cache as MLX-LM keeps it: latent rows expanded to heads unless the model's file keeps them, an indexer's keys
// once or twice.
static enum kva_status kept(struct kva_call *call, const struct mlx_choice *choice, const struct kva_cache *cache,
                            struct kva_cache *out)
{
    *out = *cache;
    if (cache->kind == KVA_CACHE_LATENT)
        return kva_growing_latent(call, out);
    if (cache->kind == KVA_CACHE_INDEX && choice->indexes == NULL)
        return kva_growing_unknown(call, "an indexer");
    if (cache->kind == KVA_CACHE_INDEX && strcmp(choice->indexes, "twice") == 0)
        out->v_dim = out->k_dim;
    if (cache->ratio > 1 || cache->shared_kv || cache->kind == KVA_CACHE_CROSS)
        return kva_growing_unknown(call, "caches");
    return KVA_OK;
}

enum kva_status mlx_cache_of(struct kva_call *call, const struct mlx_choice *choice, const struct kva_layer *layer,
                             const struct kva_cache *cache, struct mlx_cache *out)
{
    struct kva_cache as_kept;
    enum kva_status status = kept(call, choice, cache, &as_kept);
    if (status != KVA_OK)
        return status;
    *out = (struct mlx_cache){.growth = mlx_growth_of(call, choice, layer, cache), .caches = 1};
    status = kva_cache_format_bytes(&as_kept, &call->kv_format, &out->plain_row, call->error);
    if (status == KVA_OK && call->deployment->kv_bits > 0)
        status = quantize(call, layer, &as_kept, out);
    return status;
}
