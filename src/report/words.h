// Small pieces of text that several writers use.
#ifndef KVA_REPORT_WORDS_H
#define KVA_REPORT_WORDS_H

#include "base/arena.h"
#include "base/text.h"
#include "kvatlas.h"

enum kva_shade { KVA_PLAIN, KVA_BOLD, KVA_DIM, KVA_GREEN, KVA_YELLOW, KVA_CYAN };

const char *kva_colour(bool on, enum kva_shade shade);  // "" when off

// "0-4, 6-10, 12, 14 .. 30": runs, and steps of more than one. In `arena`; NULL: out of memory.
const char *kva_layer_ranges(struct kva_arena *arena, const uint32_t *layers, size_t n_layers);

// "20.00 GiB (21,474,836,480 B)", "unknown". In `arena`; NULL: out of memory.
const char *kva_bytes_exactly(struct kva_arena *arena, uint64_t bytes);

// A value as text: "20", "true", "0.75", "gelu". In `arena`; NULL: out of memory.
const char *kva_value_words(struct kva_arena *arena, const struct kva_value *value);

// Where it came from: "num_key_value_heads", "num_key_value_heads is absent: heads". In `arena`; NULL: out of memory.
const char *kva_value_origin(struct kva_arena *arena, const struct kva_value *value);

// What a cache keeps: "every token", "the last 512 tokens", "what layer 17 keeps". In `arena`; NULL: out of memory.
const char *kva_cache_words(struct kva_arena *arena, const struct kva_cache *cache);

// allocated - need of one layer, as the plan's totals count it.
static inline uint64_t kva_layer_overpay(const struct kva_layer_plan *layer)
{
    return layer->allocated > layer->need ? layer->allocated - layer->need : 0;
}

const char *kva_mixer_name(enum kva_mixer mixer);  // "attention", "mamba1", "gmu", "none"

#endif
