// One letter a layer, run-length coded (docs/pattern.md).
#include <stdio.h>
#include <string.h>

#include "kvatlas.h"

// Whether a further cache of the layer is of this kind.
static bool has_also(const struct kva_layer *layer, enum kva_cache_kind kind)
{
    for (size_t c = 1; c < layer->n_caches; c++)
        if (layer->caches[c].kind == kind)
            return true;
    return false;
}

static bool is_compressed(const struct kva_layer *layer)
{
    for (size_t c = 0; c < layer->n_caches; c++)
        if (layer->caches[c].ratio > 1)
            return true;
    return false;
}

static char letter(const struct kva_layer *layer)
{
    if (layer->n_caches == 0)
        return layer->mixer == KVA_MIXER_GMU ? 'G' : layer->mixer == KVA_MIXER_ATTENTION ? 'X' : '-';
    const struct kva_cache *first = &layer->caches[0];
    const bool state = has_also(layer, KVA_CACHE_STATE), index = has_also(layer, KVA_CACHE_INDEX);
    if (first->reads_layer >= 0)
        return 'X';
    if (is_compressed(layer))
        return index ? 'c' : 'k';
    switch (first->kind) {
    case KVA_CACHE_FULL:
        return state ? 'H' : index ? 'I' : 'F';
    case KVA_CACHE_SLIDING:
        return state ? 'h' : 'S';
    case KVA_CACHE_CHUNKED:
        return 'C';
    case KVA_CACHE_LATENT:
        return state ? 'H' : index ? 'I' : 'M';
    case KVA_CACHE_STATE:
        return first->n_state == 1 && strcmp(first->state[0].name, "conv") == 0 ? 'V' : 'R';
    case KVA_CACHE_CROSS:
        return 'E';
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
