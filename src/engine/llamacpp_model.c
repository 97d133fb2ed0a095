// What llama.cpp reads of a model: src/llama-hparams.cpp and src/models/*.cpp. A model from a config.json is taken as
// the GGUF that the converter writes of it.
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "engine/llamacpp.h"
#include "model/arch.h"

// ---------------------------------------------------------------- which architecture

// The header's, or the one that the converter writes for the config, or for its text decoder.
static enum kva_status find_architecture(struct kva_call *call, const char **architecture)
{
    const struct kva_model *model = call->model;
    const char *model_type = model->arch->model_type, *name = call->version->file->name;
    *architecture = model->gguf != NULL ? model->gguf : kva_rule(call, "gguf", model->model_type);
    if (*architecture == NULL)
        *architecture = kva_rule(call, "gguf", model_type);
    if (*architecture == NULL)
        return kva_fail(call->error, KVA_REFUSED, model->source, "model_type",
                        "%s is no architecture that kvatlas knows %s to have; what it would allocate is not known",
                        model_type, name);
    if (kva_rule(call, "loads", *architecture) == NULL)
        return kva_fail(call->error, KVA_REFUSED, model->source, "model_type",
                        "%s %s does not load the architecture %s", name, call->version->version, *architecture);
    return KVA_OK;
}

// ---------------------------------------------------------------- windows

// The rule `window`, as text in the data file.
struct window_rule {
    enum { OWN, ALL, PERIOD } which;
    uint64_t period;
    bool first;  // the full layer of a period is its first
    uint64_t absent, tokens, depth, keep;
};

static const char *word_end(const char *word)
{
    return word + strcspn(word, " ");
}

static bool read_number(const char *word, const char *name, uint64_t *number)
{
    const size_t length = strlen(name);
    if (strncmp(word, name, length) != 0)
        return false;
    char *end;
    *number = strtoull(word + length, &end, 10);
    return end > word + length && end == word_end(word);
}

static bool read_window_rule(const char *text, struct window_rule *rule)
{
    *rule = (struct window_rule){0};
    const char *end = word_end(text);
    if (strncmp(text, "own", 3) == 0 && end == text + 3)
        rule->which = OWN;
    else if (strncmp(text, "all", 3) == 0 && end == text + 3)
        rule->which = ALL;
    else if (read_number(text, "", &rule->period) && rule->period > 0)
        rule->which = PERIOD;
    else
        return false;
    for (const char *word = end; *word != '\0'; word = word_end(word)) {
        word += strspn(word, " ");
        if (strncmp(word, "first", 5) == 0 && word_end(word) == word + 5)
            rule->first = true;
        else if (!read_number(word, "default=", &rule->absent) && !read_number(word, "tokens=", &rule->tokens) &&
                 !read_number(word, "depth=", &rule->depth) && !read_number(word, "keep=", &rule->keep))
            return false;
    }
    return true;
}

static bool has_window(const struct kva_cache *cache)
{
    return cache->window > 0 && (kva_cache_has_window(cache) || cache->window_inert);
}

// The key attention.sliding_window; false: there is none. Of a config, the window that its layers have.
static bool window_key(const struct kva_model *model, uint64_t *window)
{
    *window = 0;
    if (model->gguf != NULL) {
        const struct kva_value *key = kva_model_header(model, "attention.sliding_window");
        if (key == NULL)
            return false;
        *window = key->count;
        for (uint64_t i = 0; key->type == KVA_LIST && i < key->count; i++)
            *window = i == 0 ? (uint64_t)key->items[0].count : kva_max(*window, (uint64_t)key->items[i].count);
        return true;
    }
    for (size_t i = 0; i < model->n_layers; i++)
        for (size_t c = 0; c < model->layers[i].n_caches; c++)
            if (has_window(&model->layers[i].caches[c]))
                *window = kva_max(*window, model->layers[i].caches[c].window);
    return *window > 0;
}

static bool layer_has_window(const struct kva_layer *layer)
{
    for (size_t c = 0; c < layer->n_caches; c++)
        if (has_window(&layer->caches[c]))
            return true;
    return false;
}

static uint64_t window_of(const struct kva_model *model, const struct window_rule *rule)
{
    uint64_t window;
    const bool stated = window_key(model, &window);
    if (rule->depth > 0 && model->all_layers != rule->depth)
        return 0;
    if (!stated)
        return rule->absent;
    return window > 0 && rule->tokens > 0 ? rule->tokens : window;
}

static enum kva_status read_windows(struct kva_call *call, struct kva_lcpp_model *read)
{
    const struct kva_lcpp_behaviours *engine = call->behaviours;
    const char *text = engine->windows ? kva_rule(call, "window", read->architecture) : NULL;
    struct window_rule rule;
    if (text != NULL && !read_window_rule(text, &rule))
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, "window", "the rule '%s' for %s of %s cannot be read", text,
                        read->architecture, call->engine->id);
    read->window = text != NULL ? window_of(call->model, &rule) : 0;
    read->windowed_cache = read->window > 0 || read->compressed;
    read->keeps = text != NULL ? rule.keep : 0;
    for (size_t i = 0; i < read->n_layers; i++) {
        const bool own = layer_has_window(&call->model->layers[i]);
        struct kva_lcpp_layer *layer = &read->layers[i];
        if (read->window > 0)
            layer->windowed = rule.which == OWN   ? own
                              : rule.which == ALL ? layer->attends
                              : rule.first        ? i % rule.period != 0
                                                  : i % rule.period < rule.period - 1;
        read->ignores_window =
            read->ignores_window || (call->model->layers[i].n_caches > 0 &&
                                     kva_cache_has_window(&call->model->layers[i].caches[0]) && !layer->windowed);
    }
    return KVA_OK;
}

// ---------------------------------------------------------------- rows

static uint64_t value_of(const struct kva_model *model, const char *name)
{
    const struct kva_value *value = kva_model_value(model, name);
    return value != NULL && (value->type == KVA_COUNT || value->type == KVA_FLAG) ? value->count : 0;
}

static uint64_t header_of(const struct kva_model *model, const char *key)
{
    const struct kva_value *value = kva_model_header(model, key);
    return value == NULL                                 ? 0
           : value->type == KVA_LIST && value->count > 0 ? (uint64_t)value->items[0].count
                                                         : value->count;
}

uint64_t kva_lcpp_latent_mode(const struct kva_call *call)
{
    return call->deployment->mla != NULL ? strtoull(call->deployment->mla, NULL, 10) : 0;
}

static bool header_keeps_latent(const struct kva_model *model)
{
    return header_of(model, "attention.key_length_mla") > 0 && header_of(model, "attention.value_length_mla") > 0;
}

// Does the header hold the latent's width (the converter's *_mla keys)? A config is converted so where the rule says.
static bool keeps_latent(struct kva_call *call, const char *architecture)
{
    const struct kva_lcpp_behaviours *engine = call->behaviours;
    const bool rule = kva_rule(call, "latent", architecture) != NULL;
    if (engine->latent == KVA_LCPP_LATENT_ASKED)
        return rule && kva_lcpp_latent_mode(call) > 0;
    return call->model->gguf != NULL ? header_keeps_latent(call->model) : rule;
}

// The latent a second time: always in early releases, in ik_llama.cpp (llama_kv_cache_init: needs_v_cache) transposed.
static bool keeps_latent_twice(const struct kva_call *call)
{
    const struct kva_lcpp_behaviours *engine = call->behaviours;
    if (engine->latent == KVA_LCPP_LATENT_ASKED)
        return kva_lcpp_latent_mode(call) == 1 && call->deployment->flash_attention != KVA_ON;
    return engine->latent == KVA_LCPP_LATENT_TWICE;
}

// The heads that a latent expands to.
static enum kva_status read_expanded(struct kva_call *call, struct kva_lcpp_layer *layer)
{
    const struct kva_model *model = call->model;
    uint64_t heads = value_of(model, "heads"), v = value_of(model, "v_head_dim");
    uint64_t k = value_of(model, "qk_nope_head_dim") + value_of(model, "qk_rope_head_dim");
    if (model->gguf != NULL) {
        const bool latent = header_keeps_latent(model);
        heads = header_of(model, latent ? "attention.head_count" : "attention.head_count_kv");
        k = header_of(model, latent ? "attention.key_length_mla" : "attention.key_length");
        v = header_of(model, latent ? "attention.value_length_mla" : "attention.value_length");
    }
    if (heads == 0 || k == 0 || v == 0 || k > UINT32_MAX || v > UINT32_MAX || !kva_mul(heads, k, &layer->k) ||
        !kva_mul(heads, v, &layer->v))
        return kva_fail(call->error, KVA_REFUSED, model->source, "model_type",
                        "%s caches the heads of this latent attention, and their widths are not known",
                        call->engine->id);
    layer->k_head = (uint32_t)k;
    layer->v_head = (uint32_t)v;
    return KVA_OK;
}

static enum kva_status read_latent(struct kva_call *call, const struct kva_lcpp_model *read,
                                   const struct kva_cache *cache, struct kva_lcpp_layer *layer)
{
    const uint64_t rank = value_of(call->model, "kv_lora_rank");
    if (!read->latent)
        return read_expanded(call, layer);
    if (rank == 0 || rank > UINT32_MAX)
        return kva_fail(call->error, KVA_REFUSED, call->model->source, "kv_lora_rank",
                        "the width of the latent's values is not known");
    layer->k_head = cache->k_dim + cache->v_dim;
    layer->k = layer->k_head;
    layer->v_head = (uint32_t)rank;
    layer->v = keeps_latent_twice(call) ? rank : 0;
    return KVA_OK;
}

// "keys" or "keys and values": the values are as wide as one head's.
static void read_indexers(struct kva_call *call, struct kva_lcpp_model *read)
{
    const char *rule = kva_rule(call, "indexer", read->architecture);
    const bool values = rule != NULL && strcmp(rule, "keys and values") == 0;
    for (size_t i = 0; i < read->n_layers && (rule != NULL || read->compressed); i++)
        for (size_t c = 0; c < call->model->layers[i].n_caches; c++) {
            const struct kva_cache *cache = &call->model->layers[i].caches[c];
            if (cache->kind != KVA_CACHE_INDEX || cache->reads_layer >= 0)
                continue;
            read->layers[i].index_k = cache->k_dim;
            read->layers[i].index_v = values ? read->layers[i].v_head : 0;
        }
}

static void read_state(const struct kva_lcpp_model *read, const struct kva_cache *cache, struct kva_lcpp_layer *layer)
{
    if (read->compressed)  // the states of its compressors are counted with the caches that they fill
        return;
    for (size_t s = 0; s < cache->n_state; s++)
        *(strcmp(cache->state[s].name, "recurrent") == 0 ? &layer->s : &layer->r) += cache->state[s].elements;
}

static void read_heads(const struct kva_lcpp_model *read, const struct kva_cache *cache, struct kva_lcpp_layer *layer)
{
    layer->k_head = cache->k_dim;
    // keys that are the values too are stored twice, but not in DeepSeek-V4
    layer->v_head = cache->shared_kv ? cache->k_dim : cache->v_dim;
    layer->k = (uint64_t)cache->kv_heads * layer->k_head;
    layer->v = read->compressed ? 0 : (uint64_t)cache->kv_heads * layer->v_head;
}

static enum kva_status read_cache(struct kva_call *call, const struct kva_lcpp_model *read,
                                  const struct kva_cache *cache, struct kva_lcpp_layer *layer)
{
    switch (cache->kind) {
    case KVA_CACHE_FULL:
    case KVA_CACHE_SLIDING:
    case KVA_CACHE_CHUNKED:
        if (cache->ratio > 1)
            layer->ratio = cache->ratio;
        else {
            layer->attends = layer->owns = true;
            read_heads(read, cache, layer);
        }
        return KVA_OK;
    case KVA_CACHE_LATENT:
        layer->attends = layer->owns = true;
        return read_latent(call, read, cache, layer);
    case KVA_CACHE_STATE:
        read_state(read, cache, layer);
        return KVA_OK;
    case KVA_CACHE_CROSS:
        return kva_fail(call->error, KVA_REFUSED, call->model->source, "model_type",
                        "what %s keeps of encoder states is not known", call->engine->id);
    case KVA_CACHE_INDEX:
    case KVA_CACHE_NONE:
        break;
    }
    return KVA_OK;
}

// A layer that reads another's cache owns none where llama.cpp knows of that; elsewhere it has its own.
static void read_owners(struct kva_call *call, struct kva_lcpp_model *read)
{
    const char *rule = kva_rule(call, "owners", read->architecture);
    const bool own = rule != NULL && strcmp(rule, "own") == 0;
    const uint64_t first = rule != NULL && !own ? strtoull(rule, NULL, 10) : UINT64_MAX;
    for (size_t i = 0; i < read->n_layers && rule != NULL; i++) {
        const struct kva_layer *layer = &call->model->layers[i];
        if (own ? layer->n_caches > 0 && layer->caches[0].reads_layer >= 0 : i >= first)
            read->layers[i].owns = false;
    }
}

enum kva_status kva_lcpp_model_read(struct kva_call *call, struct kva_lcpp_model *read)
{
    const struct kva_model *model = call->model;
    *read = (struct kva_lcpp_model){.n_layers = model->n_layers};
    enum kva_status status = find_architecture(call, &read->architecture);
    if (status != KVA_OK)
        return status;
    read->layers = kva_arena_alloc(call->arena, model->n_layers + 1, sizeof *read->layers);
    if (read->layers == NULL)
        return kva_fail_memory(call->error, model->n_layers * sizeof *read->layers);
    read->compressed = kva_rule(call, "compressed", read->architecture) != NULL;
    read->latent = keeps_latent(call, read->architecture);
    // a header counts the layers of multi-token prediction among its own
    read->logged_layers = model->n_layers + (model->gguf != NULL ? model->mtp_layers : 0);
    for (size_t i = 0; i < model->n_layers && status == KVA_OK; i++) {
        struct kva_lcpp_layer *layer = &read->layers[i];
        for (size_t c = 0; c < model->layers[i].n_caches && status == KVA_OK; c++)
            status = read_cache(call, read, &model->layers[i].caches[c], layer);
        read->recurrent = read->recurrent || layer->r > 0 || layer->s > 0;
        read->attention = read->attention || layer->attends;
    }
    if (status == KVA_OK) {
        read_owners(call, read);
        read_indexers(call, read);
        status = read_windows(call, read);
    }
    return status;
}
