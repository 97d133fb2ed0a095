#include "report/words.h"

#include <string.h>

#include "engine/cache_bytes.h"

const char *kva_colour(bool on, enum kva_shade shade)
{
    static const char *const CODES[] = {
        [KVA_PLAIN] = "\033[0m",  [KVA_BOLD] = "\033[1m",    [KVA_DIM] = "\033[2m",
        [KVA_GREEN] = "\033[32m", [KVA_YELLOW] = "\033[33m", [KVA_CYAN] = "\033[36m",
    };
    return on ? CODES[shade] : "";
}

const char *kva_mixer_name(enum kva_mixer mixer)
{
    switch (mixer) {
    case KVA_MIXER_NONE:
        break;
    case KVA_MIXER_ATTENTION:
        return "attention";
    case KVA_MIXER_MAMBA1:
        return "mamba1";
    case KVA_MIXER_GMU:
        return "gmu";
    case KVA_MIXER_OTHER:
        return "other";
    }
    return "none";
}

const char *kva_layer_ranges(struct kva_arena *arena, const uint32_t *layers, size_t n_layers)
{
    struct kva_text text = {0};
    for (size_t i = 0; i < n_layers;) {
        size_t end = i + 1;
        uint32_t step = end < n_layers ? layers[end] - layers[i] : 1;
        while (end < n_layers && layers[end] - layers[end - 1] == step)
            end++;
        const char *comma = i > 0 ? ", " : "";
        if (end - i >= 2 && step == 1)
            kva_text_printf(&text, "%s%u-%u", comma, layers[i], layers[end - 1]);
        else if (end - i >= 4)
            kva_text_printf(&text, "%s%u, %u .. %u", comma, layers[i], layers[i + 1], layers[end - 1]);
        else {
            kva_text_printf(&text, "%s%u", comma, layers[i]);
            end = i + 1;
        }
        i = end;
    }
    const char *kept = text.failed ? NULL : kva_arena_strdup(arena, text.bytes != NULL ? text.bytes : "");
    kva_text_free(&text);
    return kept;
}

const char *kva_bytes_exactly(struct kva_arena *arena, uint64_t bytes)
{
    char human[KVA_HUMAN], digits[KVA_HUMAN];
    if (bytes == KVA_UNKNOWN)
        return "unknown";
    if (bytes < 1024)
        return kva_arena_strdup(arena, kva_human_bytes(bytes, human));
    return kva_arena_printf(arena, "%s (%s B)", kva_human_bytes(bytes, human), kva_human_count(bytes, digits));
}

// "0, 4, 128": the whole list, or its beginning.
static const char *list_words(struct kva_arena *arena, const struct kva_value *value)
{
    enum { SHOWN = 12 };
    struct kva_text text = {0};
    for (uint64_t i = 0; i < value->count && i < SHOWN; i++) {
        const struct kva_item *item = &value->items[i];
        kva_text_printf(&text, "%s", i > 0 ? ", " : "");
        if (item->type == KVA_ITEM_COUNT)
            kva_text_printf(&text, "%lld", (long long)item->count);
        else
            kva_text_printf(&text, "%s", item->type == KVA_ITEM_TEXT ? item->text : "null");
    }
    if (value->count > SHOWN)
        kva_text_printf(&text, " .. (%llu)", (unsigned long long)value->count);
    const char *kept = text.failed ? NULL : kva_arena_strdup(arena, text.bytes != NULL ? text.bytes : "none");
    kva_text_free(&text);
    return kept;
}

const char *kva_value_words(struct kva_arena *arena, const struct kva_value *value)
{
    char digits[KVA_HUMAN];
    switch (value->type) {
    case KVA_COUNT:
        return kva_arena_strdup(arena, kva_human_count(value->count, digits));
    case KVA_FLAG:
        return value->count != 0 ? "true" : "false";
    case KVA_REAL:
        return kva_arena_printf(arena, "%.10g", value->real);
    case KVA_LIST:
        return list_words(arena, value);
    case KVA_TEXT:
        break;
    }
    return value->text != NULL ? value->text : "";
}

const char *kva_value_origin(struct kva_arena *arena, const struct kva_value *value)
{
    const char *key = value->key != NULL ? value->key : "";
    const char *rule = value->rule != NULL ? value->rule : "the class default";
    switch (value->source) {
    case KVA_FROM_CONFIG:
        return key;
    case KVA_FROM_DEFAULT:
        if (*key == '\0' || strcmp(key, value->name) == 0)
            return kva_arena_printf(arena, "not in the config: %s", rule);
        return kva_arena_printf(arena, "%s is absent: %s", key, rule);
    case KVA_FROM_NULL:
        return kva_arena_printf(arena, "%s is null: %s", key, rule);
    case KVA_FROM_PERSON:
        break;
    }
    return kva_arena_printf(arena, "given for %s", *key != '\0' ? key : value->name);
}

const char *kva_cache_words(struct kva_arena *arena, const struct kva_cache *cache)
{
    char digits[KVA_HUMAN];
    if (cache->reads_layer >= 0)
        return kva_arena_printf(arena, "nothing: reads layer %d", cache->reads_layer);
    if (cache->ratio > 1)
        return kva_arena_printf(arena, "one %srow for every %u tokens", cache->kind == KVA_CACHE_INDEX ? "index " : "",
                                cache->ratio);
    switch (cache->kind) {
    case KVA_CACHE_NONE:
        break;
    case KVA_CACHE_FULL:
        if (cache->window_inert && cache->window > 0)
            return kva_arena_printf(arena, "every token (window %s is inert)", kva_human_count(cache->window, digits));
        return cache->window_inert ? "every token (window is inert)" : "every token";
    case KVA_CACHE_SLIDING:
        return kva_arena_printf(arena, "the last %s tokens", kva_human_count(cache->window, digits));
    case KVA_CACHE_CHUNKED:
        return kva_arena_printf(arena, "the current chunk of %s tokens", kva_human_count(cache->window, digits));
    case KVA_CACHE_LATENT:
        return "one latent row a token";
    case KVA_CACHE_INDEX:
        return "index keys of every token";
    case KVA_CACHE_STATE:
        return "a fixed state";
    case KVA_CACHE_CROSS:
        return cache->length > 0
                   ? kva_arena_printf(arena, "encoder states of %s tokens", kva_human_count(cache->length, digits))
                   : "encoder states";
    }
    return "nothing";
}
