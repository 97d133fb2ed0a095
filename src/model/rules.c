// From values to layers: which kind each layer is, and what a layer of that kind caches.
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "model/build.h"
#include "model/expr.h"
#include "model/json.h"

static const struct kva_arch_kind *find_kind(const struct kva_arch *arch, const char *name)
{
    for (unsigned i = 0; i < arch->n_kinds; i++)
        if (strcmp(arch->kinds[i].name, name) == 0)
            return &arch->kinds[i];
    return NULL;  // arch.c has checked every name
}

// The config's own list of kinds, NULL when it has none or says null; checked for its length.
static enum kva_status read_list(struct kva_build *build, size_t layers, const json_t **list)
{
    *list = NULL;
    if (build->arch->list == NULL)
        return KVA_OK;
    const char *key = build->arch->list->key;
    const json_t *found = json_object_get(build->text, key);
    char buffer[KVA_JSON_FOUND];
    if (found == NULL || json_is_null(found))
        return KVA_OK;
    if (!json_is_array(found))
        return kva_build_fail(build, key, "expected a list with one entry for each layer, found %s",
                              kva_json_found(found, buffer));
    if (json_array_size(found) != layers)
        return kva_build_fail(build, key, "has %zu entries, but %s is %zu", json_array_size(found),
                              kva_model_value(build->model, "layers")->key, layers);
    *list = found;
    return KVA_OK;
}

static enum kva_status kind_from_list(struct kva_build *build, const json_t *list, size_t i,
                                      const struct kva_arch_kind **kind, const char **why)
{
    const struct kva_arch_list *labels = build->arch->list;
    const char *label = json_string_value(json_array_get(list, i));
    char found[KVA_JSON_FOUND];
    for (unsigned l = 0; label != NULL && l < labels->n_labels; l++)
        if (strcmp(labels->labels[l].label, label) == 0) {
            *kind = find_kind(build->arch, labels->labels[l].kind);
            *why = kva_arena_printf(build->arena, "%s[%zu] is \"%s\"", kva_build_path(build, labels->key), i, label);
            return *why != NULL ? KVA_OK : kva_build_memory(build);
        }
    return kva_build_fail(build, labels->key, "entry %zu is %s, which %s does not know", i,
                          kva_json_found(json_array_get(list, i), found), build->arch->model_type);
}

static enum kva_status kind_from_rules(struct kva_build *build, size_t i, const struct kva_arch_kind **kind,
                                       const char **why)
{
    for (unsigned r = 0; r < build->arch->n_rules; r++) {
        const struct kva_arch_rule *rule = &build->arch->rules[r];
        int64_t holds = 1;
        if (rule->when != NULL) {
            enum kva_status status = kva_build_formula(build, rule->when, (int64_t)i, &holds);
            if (status != KVA_OK)
                return status;
        }
        if (holds) {
            *kind = find_kind(build->arch, rule->kind);
            *why = rule->why != NULL ? rule->why : rule->when != NULL ? rule->when : "every layer";
            return KVA_OK;
        }
    }
    return kva_fail(build->error, KVA_BAD_INPUT, build->arch->model_type, "rules",
                    "give layer %zu no kind: the last rule should have no `when`", i);
}

// " 512 (sliding_window)", " 4096 (sliding_window is absent: class default)": where a window comes from, when its
// formula is the name of one value.
static const char *window_source(struct kva_build *build, const char *formula)
{
    const struct kva_value *value = kva_model_value(build->model, formula);
    if (value == NULL)
        return formula;
    const char *path = kva_build_path(build, value->key);
    const char *text = value->source == KVA_FROM_DEFAULT
                           ? kva_arena_printf(build->arena, "%s is absent, class default", path)
                       : value->source == KVA_FROM_NULL ? kva_arena_printf(build->arena, "%s is null", path)
                                                        : path;
    return text != NULL ? text : formula;
}

// A window that can never bind is kept, but the layer is then full: 0 means no window, and no context longer than the
// limit is ever planned.
static enum kva_status add_window(struct kva_build *build, const struct kva_arch_kind *kind, struct kva_layer *layer,
                                  struct kva_cache *cache)
{
    int64_t window;
    enum kva_status status = kva_build_formula(build, kind->window, layer->index, &window);
    if (status != KVA_OK)
        return status;
    if (window < 0)
        return kva_build_fail(build, kind->window, "the window of layer %u is %lld", layer->index, (long long)window);
    const struct kva_value *value = kva_model_value(build->model, kind->window);
    if (window == 0 && cache->kind != KVA_CACHE_FULL && value != NULL && value->source == KVA_FROM_NULL)
        return kva_build_fail(build, value->key, "is null, but layer %u has a window (%s)", layer->index, layer->why);
    cache->window = (uint64_t)window;
    const char *source = window_source(build, kind->window), *ending = "";
    if (cache->kind == KVA_CACHE_FULL && window > 0) {
        cache->window_inert = true;
        ending = ", switched off";
    } else if (cache->kind != KVA_CACHE_FULL && window == 0) {
        cache->window_inert = true;
        ending = ", no window";
    } else if (cache->kind == KVA_CACHE_SLIDING && build->model->context_limit > 0 &&
               cache->window >= build->model->context_limit) {
        cache->window_inert = true;
        ending = ", never binds: not less than the context limit";
    }
    if (cache->window_inert)
        cache->kind = KVA_CACHE_FULL;
    if (window > 0 || cache->window_inert)
        layer->why =
            kva_arena_printf(build->arena, "%s; window %lld (%s)%s", layer->why, (long long)window, source, ending);
    return layer->why != NULL ? KVA_OK : kva_build_memory(build);
}

static enum kva_status add_state(struct kva_build *build, const struct kva_arch_kind *kind, struct kva_layer *layer,
                                 struct kva_cache *cache)
{
    for (unsigned s = 0; s < kind->n_state; s++) {
        const struct kva_arch_state *part = &kind->state[s];
        int64_t elements;
        enum kva_status status = kva_build_formula(build, part->elements, layer->index, &elements);
        if (status != KVA_OK)
            return status;
        if (elements < 0)
            return kva_build_fail(build, part->name, "the state %s = %s is %lld elements", part->name, part->elements,
                                  (long long)elements);
        enum kva_dtype dtype = part->dtype;
        const struct kva_value *stated =
            part->dtype_key != NULL ? kva_model_value(build->model, part->dtype_key) : NULL;
        if (stated != NULL && stated->text != NULL && stated->text[0] != '\0') {
            dtype = kva_dtype_parse(stated->text);
            if (dtype == KVA_DTYPE_NONE)
                return kva_build_fail(build, stated->key, "expected an element type, found the text \"%.60s\"",
                                      stated->text);
        }
        cache->state[cache->n_state++] = (struct kva_state_part){part->name, (uint64_t)elements, dtype};
    }
    return KVA_OK;
}

// A layer that reads another's cache must name an earlier layer that owns one, so no chain and no cycle can arise.
static enum kva_status read_other(struct kva_build *build, const struct kva_arch_kind *kind, struct kva_layer *layer)
{
    int64_t target;
    enum kva_status status = kva_build_formula(build, kind->reads, layer->index, &target);
    if (status != KVA_OK)
        return status;
    const struct kva_layer *layers = build->model->layers;
    if (target < 0 || target >= (int64_t)layer->index || layers[target].n_caches == 0 ||
        layers[target].caches[0].reads_layer >= 0)
        return kva_fail(build->error, KVA_BAD_INPUT, build->file, build->arch->model_type,
                        "layer %u reads layer %lld, which is no earlier layer with a cache of its own", layer->index,
                        (long long)target);
    layer->caches[0] = layers[target].caches[0];
    layer->caches[0].reads_layer = (int32_t)target;
    layer->n_caches = 1;
    layer->why = kva_arena_printf(build->arena, "%s; reads layer %lld", layer->why, (long long)target);
    return layer->why != NULL ? KVA_OK : kva_build_memory(build);
}

static enum kva_status fill_layer(struct kva_build *build, const struct kva_arch_kind *kind, struct kva_layer *layer)
{
    layer->kind = kind->name;
    for (size_t c = 0; c < KVA_MAX_CACHES; c++)
        layer->caches[c].reads_layer = -1;
    layer->mixer = kind->mixer;
    if (kind->reads != NULL)
        return read_other(build, kind, layer);
    if (kind->cache == KVA_CACHE_NONE)
        return KVA_OK;
    struct kva_cache *cache = &layer->caches[0];
    layer->n_caches = 1;
    *cache = (struct kva_cache){.kind = kind->cache, .reads_layer = -1};
    if (kind->cache == KVA_CACHE_STATE)
        return add_state(build, kind, layer, cache);
    enum kva_status status = kva_build_count(build, kind->kv_heads != NULL ? kind->kv_heads : "kv_heads", layer->index,
                                             1, "KV heads", &cache->kv_heads);
    if (status == KVA_OK)
        status = kva_build_count(build, kind->k_dim != NULL ? kind->k_dim : "head_dim", layer->index, 1, "key width",
                                 &cache->k_dim);
    if (status == KVA_OK)
        status = kva_build_count(build, kind->v_dim != NULL ? kind->v_dim : "head_dim", layer->index, 0, "value width",
                                 &cache->v_dim);
    if (status == KVA_OK && kind->window != NULL)
        status = add_window(build, kind, layer, cache);
    return status;
}

enum kva_status kva_rules_layers(struct kva_build *build)
{
    struct kva_model *model = build->model;
    size_t layers = kva_model_value(model, "layers")->count, kept = layers;
    const json_t *list;
    enum kva_status status = read_list(build, layers, &list);
    if (status != KVA_OK)
        return status;
    if (build->options.layers > layers)
        return kva_build_fail(build, kva_model_value(model, "layers")->key,
                              "is %zu, fewer than the %llu layers asked for", layers,
                              (unsigned long long)build->options.layers);
    if (build->options.layers > 0)
        kept = build->options.layers;
    model->layers = kva_arena_alloc(build->arena, layers, sizeof *model->layers);
    if (model->layers == NULL)
        return kva_build_memory(build);
    for (size_t i = 0; i < layers; i++) {  // the whole list is checked, also where fewer layers are kept
        struct kva_layer *layer = &model->layers[i];
        const struct kva_arch_kind *kind = NULL;
        layer->index = (uint32_t)i;
        status = list != NULL ? kind_from_list(build, list, i, &kind, &layer->why)
                              : kind_from_rules(build, i, &kind, &layer->why);
        if (status == KVA_OK && kind != NULL)
            status = fill_layer(build, kind, layer);
        if (status != KVA_OK)
            return status;
    }
    model->n_layers = kept;
    const struct kva_value *heads = kva_model_value(model, "kv_heads"), *width = kva_model_value(model, "head_dim");
    model->naive_kv_heads = heads != NULL ? heads->count : 0;
    model->naive_k_dim = model->naive_v_dim = width != NULL ? width->count : 0;
    return KVA_OK;
}

// ---------------------------------------------------------------- pattern

static char letter(const struct kva_layer *layer)
{
    if (layer->n_caches == 0)
        return layer->mixer == KVA_MIXER_GMU ? 'G' : '-';
    const struct kva_cache *first = &layer->caches[0];
    bool second = layer->n_caches > 1;
    if (first->reads_layer >= 0)
        return 'X';
    switch (first->kind) {
    case KVA_CACHE_FULL:
        return second && layer->caches[1].kind == KVA_CACHE_STATE ? 'H' : 'F';
    case KVA_CACHE_SLIDING:
        return second && layer->caches[1].kind == KVA_CACHE_STATE ? 'h' : 'S';
    case KVA_CACHE_CHUNKED:
        return 'C';
    case KVA_CACHE_LATENT:
        return second && layer->caches[1].kind == KVA_CACHE_INDEX ? 'I' : 'M';
    case KVA_CACHE_STATE:
        return first->n_state == 1 && strcmp(first->state[0].name, "conv") == 0 ? 'V' : 'R';
    default:
        return '-';
    }
}

const char *kva_model_pattern(const struct kva_model *model, char *buffer, size_t size)
{
    if (size == 0)
        return buffer;
    buffer[0] = '\0';
    size_t used = 0;
    for (size_t i = 0; i < model->n_layers && used < size;) {
        size_t run = 1;
        while (i + run < model->n_layers && letter(&model->layers[i + run]) == letter(&model->layers[i]))
            run++;
        int wrote = snprintf(buffer + used, size - used, "%s%c%zu", i > 0 ? " " : "", letter(&model->layers[i]), run);
        used += wrote > 0 ? (size_t)wrote : 0;
        i += run;
    }
    return buffer;
}
