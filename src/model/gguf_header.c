// What a model keeps of the GGUF header that it was read from: what llama.cpp reads there itself.
#include <string.h>

#include "model/build.h"
#include "model/gguf_arch.h"

static bool keeps(const struct kva_gguf_value *value, const char *architecture, size_t length)
{
    const bool number = value->type != KVA_GGUF_TEXT && value->type != KVA_GGUF_F32 && value->type != KVA_GGUF_F64;
    return number && strncmp(value->key, architecture, length) == 0 && value->key[length] == '.' &&
           (value->is_array ? value->items != NULL : value->integer >= 0);
}

static bool keep_items(struct kva_arena *arena, const struct kva_gguf_value *from, struct kva_value *kept)
{
    struct kva_item *items = kva_arena_alloc(arena, (size_t)from->length + 1, sizeof *items);
    for (uint64_t i = 0; items != NULL && i < from->length; i++)
        items[i] = (struct kva_item){.type = KVA_ITEM_COUNT, .count = from->items[i]};
    kept->type = KVA_LIST;
    kept->count = from->length;
    kept->items = items;
    return items != NULL;
}

enum kva_status kva_gguf_keep(struct kva_build *build)
{
    const struct kva_gguf *gguf = build->gguf;
    struct kva_model *model = build->model;
    if (gguf == NULL)
        return KVA_OK;
    const char *architecture = kva_gguf_text(gguf, "general.architecture");
    model->gguf = kva_arena_strdup(build->arena, architecture != NULL ? architecture : "");
    model->header = kva_arena_alloc(build->arena, gguf->n_values + 1, sizeof *model->header);
    if (model->gguf == NULL || model->header == NULL)
        return kva_build_memory(build);
    const size_t length = strlen(model->gguf);
    for (size_t i = 0; i < gguf->n_values; i++) {
        const struct kva_gguf_value *from = &gguf->values[i];
        if (!keeps(from, model->gguf, length))
            continue;
        struct kva_value *kept = &model->header[model->n_header++];
        *kept = (struct kva_value){.type = KVA_COUNT, .count = (uint64_t)from->integer};
        kept->name = kept->key = kva_arena_strdup(build->arena, from->key + length + 1);
        if (kept->key == NULL || (from->is_array && !keep_items(build->arena, from, kept)))
            return kva_build_memory(build);
    }
    return KVA_OK;
}

const struct kva_value *kva_model_header(const struct kva_model *model, const char *key)
{
    for (size_t i = 0; i < model->n_header; i++)
        if (strcmp(model->header[i].key, key) == 0)
            return &model->header[i];
    return NULL;
}
