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

// The config's own list of kinds: a JSON list, or a text with one letter a layer. `key` NULL: it has none.
struct kind_list {
    const char *key;
    const json_t *entries;  // NULL: letters
    const char *letters;
    size_t length;
};

// Finds the list, absent where the config has none or says null, and checks its length. *layers: with those of
// multi-token prediction.
static enum kva_status read_list(struct kva_build *build, size_t layers, struct kind_list *list)
{
    const struct kva_arch_list *arch = build->arch->list;
    *list = (struct kind_list){0};
    if (arch == NULL)
        return KVA_OK;
    const char *key = arch->key;
    const json_t *found = kva_build_find(build, key, NULL);
    for (unsigned a = 0; a < arch->n_aliases && (found == NULL || json_is_null(found)); a++)
        found = kva_build_find(build, key = arch->aliases[a], NULL);
    char buffer[KVA_JSON_FOUND];
    if (found == NULL || json_is_null(found))
        return KVA_OK;
    if (!json_is_array(found) && !(arch->letters && json_is_string(found)))
        return kva_build_fail(build, key, "expected a list with one entry for each layer, found %s",
                              kva_json_found(found, buffer));
    list->letters = json_string_value(found);
    list->entries = list->letters == NULL ? found : NULL;
    list->length = list->letters != NULL ? strlen(list->letters) : json_array_size(found);
    const bool fits = (arch->truncate && list->length >= layers) || (arch->tile && list->length > 0);
    if (list->length != layers && !fits)
        return kva_build_fail(build, key, "has %zu entries, but %s is %zu", list->length,
                              kva_model_value(build->model, "layers")->key, layers);
    list->key = key;
    return KVA_OK;
}

// An entry as a label: a text as it is, anything else as JSON writes it.
static const char *entry_label(const struct kind_list *list, size_t i, char *buffer, size_t size)
{
    if (list->letters != NULL) {
        snprintf(buffer, size, "%c", list->letters[i]);
        return buffer;
    }
    const json_t *entry = json_array_get(list->entries, i);
    if (json_is_string(entry))
        return json_string_value(entry);
    if (json_is_integer(entry))
        snprintf(buffer, size, "%lld", (long long)json_integer_value(entry));
    else
        snprintf(buffer, size, "%s",
                 json_is_true(entry)    ? "true"
                 : json_is_false(entry) ? "false"
                 : json_is_null(entry)  ? "null"
                                        : "");
    return buffer;
}

static enum kva_status kind_from_list(struct kva_build *build, const struct kind_list *list, size_t i,
                                      const struct kva_arch_kind **kind, const char **why)
{
    const struct kva_arch_list *labels = build->arch->list;
    char buffer[32], found[KVA_JSON_FOUND];
    if (labels->tile)
        i %= list->length;
    const char *label = entry_label(list, i, buffer, sizeof buffer);
    for (unsigned l = 0; l < labels->n_labels; l++)
        if (strcmp(labels->labels[l].label, label) == 0) {
            *kind = find_kind(build->arch, labels->labels[l].kind);
            *why = kva_arena_printf(build->arena, "%s[%zu] is \"%s\"", kva_build_path(build, list->key), i, label);
            return *why != NULL ? KVA_OK : kva_build_memory(build);
        }
    if (list->entries != NULL)
        kva_json_found(json_array_get(list->entries, i), found);
    else
        snprintf(found, sizeof found, "the letter \"%s\"", label);
    return kva_build_fail(build, list->key, "entry %zu is %s, which %s does not know", i, found,
                          build->arch->model_type);
}

// The first rule that holds; *kind stays NULL when none does. winning: only the rules that are asked before the list.
static enum kva_status kind_from_rules(struct kva_build *build, size_t i, bool winning,
                                       const struct kva_arch_kind **kind, const char **why)
{
    for (unsigned r = 0; r < build->arch->n_rules; r++) {
        const struct kva_arch_rule *rule = &build->arch->rules[r];
        int64_t holds = 1;
        if (winning && !rule->wins)
            continue;
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
    return winning ? KVA_OK
                   : kva_fail(build->error, KVA_BAD_INPUT, build->arch->model_type, "rules",
                              "give layer %zu no kind: the last rule should have no `when`", i);
}

static enum kva_status find_layer_kind(struct kva_build *build, const struct kind_list *list, size_t i, size_t layers,
                                       const struct kva_arch_kind **kind, const char **why)
{
    *kind = NULL;
    if (i >= layers && (list->key == NULL || i >= list->length)) {
        *kind = find_kind(build->arch, build->arch->mtp->kind);
        *why = "a layer of multi-token prediction, counted as was asked for";
        return KVA_OK;
    }
    enum kva_status status = i < layers ? kind_from_rules(build, i, true, kind, why) : KVA_OK;
    if (status != KVA_OK || *kind != NULL)
        return status;
    return list->key != NULL ? kind_from_list(build, list, i, kind, why) : kind_from_rules(build, i, false, kind, why);
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
static enum kva_status add_window(struct kva_build *build, const char *formula, struct kva_layer *layer,
                                  struct kva_cache *cache)
{
    int64_t window;
    enum kva_status status = kva_build_formula(build, formula, layer->index, &window);
    if (status != KVA_OK)
        return status;
    if (window < 0)
        return kva_build_fail(build, formula, "the window of layer %u is %lld", layer->index, (long long)window);
    const struct kva_value *value = kva_model_value(build->model, formula);
    if (window == 0 && cache->kind != KVA_CACHE_FULL && value != NULL && value->source == KVA_FROM_NULL)
        return kva_build_fail(build, value->key, "is null, but layer %u has a window (%s)", layer->index, layer->why);
    cache->window = (uint64_t)window;
    const char *source = window_source(build, formula), *ending = "";
    if (cache->kind == KVA_CACHE_FULL && window > 0) {
        cache->window_inert = true;
        ending = ", switched off";
    } else if (cache->kind != KVA_CACHE_FULL && window == 0) {
        cache->window_inert = true;
        ending = ", no window";
    } else if (cache->kind == KVA_CACHE_SLIDING && build->model->context_limit > 0 &&
               cache->window >= build->model->context_limit) {
        cache->window_inert = cache->window_long = true;
        ending = ", never binds: not less than the context limit";
    }
    if (cache->window_inert)
        cache->kind = KVA_CACHE_FULL;
    if (window > 0 || cache->window_inert)
        layer->why =
            kva_arena_printf(build->arena, "%s; window %lld (%s)%s", layer->why, (long long)window, source, ending);
    return layer->why != NULL ? KVA_OK : kva_build_memory(build);
}

static bool names_dtype(const struct kva_value *value)
{
    return value != NULL && value->text != NULL && value->text[0] != '\0' && strcmp(value->text, "auto") != 0;
}

static enum kva_status add_state(struct kva_build *build, const struct kva_arch_cached *from, struct kva_layer *layer,
                                 struct kva_cache *cache)
{
    for (unsigned s = 0; s < from->n_state; s++) {
        const struct kva_arch_state *part = &from->state[s];
        int64_t elements;
        enum kva_status status = kva_build_formula(build, part->elements, layer->index, &elements);
        if (status != KVA_OK)
            return status;
        if (elements < 0)
            return kva_build_fail(build, part->name, "the state %s = %s is %lld elements", part->name, part->elements,
                                  (long long)elements);
        if (elements == 0)
            continue;
        enum kva_dtype dtype = part->dtype;
        const struct kva_value *stated =
            part->dtype_key != NULL ? kva_model_value(build->model, part->dtype_key) : NULL;
        if (names_dtype(stated)) {
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
static enum kva_status read_other(struct kva_build *build, int64_t target, struct kva_layer *layer)
{
    const struct kva_layer *layers = build->model->layers;
    if (target < 0 || target >= (int64_t)layer->index || layers[target].n_caches == 0 ||
        layers[target].caches[0].reads_layer >= 0 || layers[target].caches[0].kind == KVA_CACHE_STATE)
        return kva_fail(build->error, KVA_BAD_INPUT, build->file, build->arch->model_type,
                        "layer %u reads layer %lld, which is no earlier layer with keys and values of its own",
                        layer->index, (long long)target);
    layer->caches[0] = layers[target].caches[0];
    layer->caches[0].reads_layer = (int32_t)target;
    layer->n_caches = 1;
    layer->why = kva_arena_printf(build->arena, "%s; reads layer %lld", layer->why, (long long)target);
    return layer->why != NULL ? KVA_OK : kva_build_memory(build);
}

// Rows of keys and values.
static enum kva_status add_rows(struct kva_build *build, const struct kva_arch_cached *from, struct kva_layer *layer,
                                struct kva_cache *cache)
{
    const bool one_row = from->cache == KVA_CACHE_LATENT || from->cache == KVA_CACHE_INDEX;
    const char *kv_heads = from->kv_heads != NULL ? from->kv_heads : one_row ? NULL : "kv_heads";
    const char *k_dim = from->k_dim != NULL ? from->k_dim : "head_dim";
    const char *v_dim = from->v_dim != NULL ? from->v_dim : one_row || from->shared_kv ? NULL : "head_dim";
    enum kva_status status = KVA_OK;
    int64_t length;
    cache->kv_heads = 1;
    cache->shared_kv = from->shared_kv;
    if (kv_heads != NULL)
        status = kva_build_count(build, kv_heads, layer->index, 1, "KV heads", &cache->kv_heads);
    if (status == KVA_OK)
        status = kva_build_count(build, k_dim, layer->index, 1, "key width", &cache->k_dim);
    if (status == KVA_OK && v_dim != NULL)
        status = kva_build_count(build, v_dim, layer->index, 0, "value width", &cache->v_dim);
    if (status == KVA_OK && from->ratio != NULL)
        status = kva_build_count(build, from->ratio, layer->index, 1, "tokens of one row", &cache->ratio);
    if (status == KVA_OK && from->length != NULL) {
        status = kva_build_formula(build, from->length, layer->index, &length);
        if (status == KVA_OK && length < 0)
            return kva_build_fail(build, from->length, "the encoder's length is %lld", (long long)length);
        cache->length = status == KVA_OK ? (uint64_t)length : 0;
    }
    return status == KVA_OK && from->window != NULL ? add_window(build, from->window, layer, cache) : status;
}

static enum kva_status add_cache(struct kva_build *build, const struct kva_arch_cached *from, struct kva_layer *layer)
{
    int64_t wanted = 1;
    enum kva_status status = KVA_OK;
    if (from->when != NULL)
        status = kva_build_formula(build, from->when, layer->index, &wanted);
    if (status != KVA_OK || !wanted || from->cache == KVA_CACHE_NONE)
        return status;
    struct kva_cache *cache = &layer->caches[layer->n_caches];
    *cache = (struct kva_cache){.kind = from->cache, .reads_layer = -1, .ratio = 1};
    status =
        from->cache == KVA_CACHE_STATE ? add_state(build, from, layer, cache) : add_rows(build, from, layer, cache);
    layer->n_caches += status == KVA_OK && (from->cache != KVA_CACHE_STATE || cache->n_state > 0);
    return status;
}

static enum kva_status fill_layer(struct kva_build *build, const struct kva_arch_kind *kind, struct kva_layer *layer)
{
    int64_t target = -1;
    enum kva_status status = KVA_OK;
    layer->kind = kind->name;
    layer->mixer = kind->mixer;
    for (size_t c = 0; c < KVA_MAX_CACHES; c++)
        layer->caches[c].reads_layer = -1;
    if (kind->reads != NULL)
        status = kva_build_formula(build, kind->reads, layer->index, &target);
    if (status == KVA_OK)
        status = target != -1 ? read_other(build, target, layer) : add_cache(build, &kind->first, layer);
    for (unsigned c = 0; c < kind->n_also && status == KVA_OK; c++)
        status = add_cache(build, &kind->also[c], layer);
    return status;
}

// Layers of multi-token prediction are reported, and counted when that was asked for.
static enum kva_status count_mtp(struct kva_build *build, size_t layers)
{
    struct kva_model *model = build->model;
    int64_t mtp = 0;
    if (build->arch->mtp != NULL) {
        enum kva_status status = kva_build_formula(build, build->arch->mtp->layers, -1, &mtp);
        if (status != KVA_OK)
            return status;
    }
    if (mtp < 0 || (uint64_t)mtp > KVA_MAX_LAYERS || layers + (size_t)mtp > KVA_MAX_LAYERS)
        return kva_build_fail(build, kva_model_value(model, "layers")->key, "and %lld more are more than %d layers",
                              (long long)mtp, KVA_MAX_LAYERS);
    model->mtp_layers = (uint64_t)mtp;
    if (build->mtp && mtp == 0)
        return kva_build_warn(build, "mtp=on changes nothing: %s has no layers of multi-token prediction here",
                              build->arch->model_type);
    return KVA_OK;
}

static void set_naive(struct kva_model *model)
{
    const struct kva_value *heads = kva_model_value(model, "kv_heads"), *k_dim = kva_model_value(model, "head_dim");
    const struct kva_value *v_dim = kva_model_value(model, "v_head_dim");
    const bool known = heads != NULL && heads->type == KVA_COUNT && k_dim != NULL && k_dim->type == KVA_COUNT;
    model->naive_kv_heads = known ? heads->count : 0;
    model->naive_k_dim = known ? k_dim->count : 0;
    model->naive_v_dim = known && v_dim != NULL && v_dim->type == KVA_COUNT ? v_dim->count : model->naive_k_dim;
}

enum kva_status kva_rules_layers(struct kva_build *build)
{
    struct kva_model *model = build->model;
    const size_t layers = kva_model_value(model, "layers")->count;
    struct kind_list list;
    enum kva_status status = read_list(build, layers, &list);
    if (status == KVA_OK)
        status = count_mtp(build, layers);
    if (status != KVA_OK)
        return status;
    if (build->options.layers > layers)
        return kva_build_fail(build, kva_model_value(model, "layers")->key,
                              "is %zu, fewer than the %llu layers asked for", layers,
                              (unsigned long long)build->options.layers);
    const size_t all = layers + (build->mtp ? (size_t)model->mtp_layers : 0);
    model->layers = kva_arena_alloc(build->arena, all, sizeof *model->layers);
    if (model->layers == NULL)
        return kva_build_memory(build);
    for (size_t i = 0; i < all; i++) {  // the whole list is checked, also where fewer layers are kept
        struct kva_layer *layer = &model->layers[i];
        const struct kva_arch_kind *kind;
        layer->index = (uint32_t)i;
        status = find_layer_kind(build, &list, i, layers, &kind, &layer->why);
        if (status == KVA_OK)
            status = fill_layer(build, kind, layer);
        if (status != KVA_OK)
            return status;
    }
    model->all_layers = all;
    model->n_layers = build->options.layers > 0 ? build->options.layers : all;
    set_naive(model);
    return KVA_OK;
}
