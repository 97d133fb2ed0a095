// show as JSON: the keys of docs/json.md and a few more.
#include "report/show_json.h"

#include <math.h>
#include <stdlib.h>

#include "engine/cache_bytes.h"
#include "engine/kv_types.h"
#include "report/json.h"
#include "report/words.h"

static json_t *cache_json(const struct kva_model *model, const struct kva_cache *cache, bool *failed)
{
    bool state = kva_cache_is_state(cache);
    const struct kva_kv_type plain = kva_plain_kv_type(model->dtype);
    uint64_t bytes;
    if ((state ? kva_cache_state_bytes(cache, model->dtype, &bytes, NULL)
               : kva_cache_token_bytes(cache, &plain, &bytes, NULL)) != KVA_OK)
        bytes = KVA_UNKNOWN;
    json_t *object = json_object();
    kva_json_set(object, "kind", kva_json_text(kva_cache_kind_name(cache->kind)), failed);
    kva_json_set(object, "kv_heads", json_integer(cache->kv_heads), failed);
    kva_json_set(object, "k_dim", json_integer(cache->k_dim), failed);
    kva_json_set(object, "v_dim", json_integer(cache->v_dim), failed);
    kva_json_set(object, "window", kva_json_count(cache->window > 0 ? cache->window : KVA_UNKNOWN), failed);
    kva_json_set(object, "window_inert", json_boolean(cache->window_inert), failed);
    kva_json_set(object, "ratio", json_integer(cache->ratio), failed);
    kva_json_set(object, "shared_kv", json_boolean(cache->shared_kv), failed);
    if (cache->kind == KVA_CACHE_CROSS)
        kva_json_set(object, "length", kva_json_count(cache->length > 0 ? cache->length : KVA_UNKNOWN), failed);
    kva_json_set(object, "bytes_per_token", kva_json_count(state ? 0 : bytes), failed);
    kva_json_set(object, "state_bytes", kva_json_count(state ? bytes : 0), failed);
    kva_json_set(object, "reads_layer", kva_json_layer(cache->reads_layer), failed);
    if (state) {
        json_t *parts = json_array();
        for (size_t p = 0; p < cache->n_state; p++) {
            json_t *part = json_object();
            enum kva_dtype dtype = cache->state[p].dtype != KVA_DTYPE_NONE ? cache->state[p].dtype : model->dtype;
            kva_json_set(part, "name", kva_json_text(cache->state[p].name), failed);
            kva_json_set(part, "elements", kva_json_count(cache->state[p].elements), failed);
            kva_json_set(part, "dtype", kva_json_dtype(dtype), failed);
            kva_json_append(parts, part, failed);
        }
        kva_json_set(object, "state", parts, failed);
    }
    return object;
}

static json_t *layer_json(const struct kva_model *model, const struct kva_layer *layer, bool *failed)
{
    json_t *object = json_object(), *caches = json_array();
    for (size_t c = 0; c < layer->n_caches; c++)
        kva_json_append(caches, cache_json(model, &layer->caches[c], failed), failed);
    kva_json_set(object, "index", json_integer(layer->index), failed);
    kva_json_set(object, "kind", kva_json_text(layer->kind), failed);
    kva_json_set(object, "mixer", kva_json_text(kva_mixer_name(layer->mixer)), failed);
    kva_json_set(object, "why", kva_json_text(layer->why), failed);
    kva_json_set(object, "caches", caches, failed);
    return object;
}

static json_t *list_json(const struct kva_value *value, bool *failed)
{
    json_t *list = json_array();
    for (uint64_t i = 0; i < value->count; i++) {
        const struct kva_item *item = &value->items[i];
        kva_json_append(list,
                        item->type == KVA_ITEM_COUNT  ? json_integer(item->count)
                        : item->type == KVA_ITEM_TEXT ? kva_json_text(item->text)
                                                      : json_null(),
                        failed);
    }
    return list;
}

static json_t *value_json(const struct kva_value *value, bool *failed)
{
    static const char *const SOURCES[] = {[KVA_FROM_CONFIG] = "config",
                                          [KVA_FROM_DEFAULT] = "default",
                                          [KVA_FROM_NULL] = "null",
                                          [KVA_FROM_PERSON] = "person"};
    json_t *object = json_object(), *held = NULL;
    switch (value->type) {
    case KVA_COUNT:
        held = kva_json_count(value->count);
        break;
    case KVA_FLAG:
        held = json_boolean(value->count != 0);
        break;
    case KVA_REAL:
        held = isfinite(value->real) ? json_real(value->real) : json_null();
        break;
    case KVA_TEXT:
        held = kva_json_text(value->text);
        break;
    case KVA_LIST:
        held = list_json(value, failed);
        break;
    }
    kva_json_set(object, "name", kva_json_text(value->name), failed);
    kva_json_set(object, "key", kva_json_text(value->key), failed);
    kva_json_set(object, "value", held, failed);
    kva_json_set(object, "source", kva_json_text(SOURCES[value->source]), failed);
    kva_json_set(object, "rule", kva_json_text(value->rule), failed);
    return object;
}

static json_t *pattern_json(const struct kva_model *model)
{
    size_t size = model->n_layers * 8 + 8;
    char *pattern = malloc(size);
    json_t *text = pattern != NULL ? kva_json_text(kva_model_pattern(model, pattern, size)) : NULL;
    free(pattern);
    return text;
}

json_t *kva_show_json(const struct kva_model *model, const struct kva_plan *plan)
{
    bool failed = false;
    json_t *object = json_object(), *layers = json_array(), *values = json_array(), *weights = json_array();
    for (size_t i = 0; i < model->n_layers; i++)
        kva_json_append(layers, layer_json(model, &model->layers[i], &failed), &failed);
    for (size_t v = 0; v < model->n_values; v++)
        kva_json_append(values, value_json(&model->values[v], &failed), &failed);
    for (size_t w = 0; w < model->n_weight_classes; w++) {
        const struct kva_weight_class *class = &model->weight_classes[w];
        json_t *entry = json_object();
        kva_json_set(entry, "name", kva_json_text(class->name), &failed);
        kva_json_set(entry, "tensors", kva_json_count(class->tensors), &failed);
        kva_json_set(entry, "parameters", kva_json_count(class->parameters), &failed);
        kva_json_set(entry, "bytes", kva_json_count(class->bytes), &failed);
        kva_json_append(weights, entry, &failed);
    }
    kva_json_set(object, "schema", kva_json_text("kvatlas/show/1"), &failed);
    kva_json_set(object, "model", kva_json_model(model), &failed);
    kva_json_set(object, "pattern", pattern_json(model), &failed);
    kva_json_set(object, "mtp_layers", kva_json_count(model->mtp_layers), &failed);
    kva_json_set(object, "layers", layers, &failed);
    kva_json_set(object, "bytes_per_token", kva_json_count(plan != NULL ? plan->bytes_per_token : KVA_UNKNOWN),
                 &failed);
    kva_json_set(object, "values", values, &failed);
    kva_json_set(object, "weights", weights, &failed);
    kva_json_set(object, "references", kva_json_texts(model->references, model->n_references), &failed);
    kva_json_set(object, "warnings", kva_json_texts(model->warnings, model->n_warnings), &failed);
    kva_json_set(object, "assumed", plan != NULL ? kva_json_texts(plan->assumed, plan->n_assumed) : json_array(),
                 &failed);
    if (!failed)
        return object;
    json_decref(object);
    return NULL;
}
