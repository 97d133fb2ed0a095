// What is known of an engine, for people: versions, behaviours by version, lines, cache types, and where it was read.
#include <string.h>

#include "base/error.h"
#include "engine/engine.h"

const char *kva_engine_name(size_t index)
{
    const struct kva_engine *engine = kva_engine_at(index);
    return engine != NULL ? engine->id : NULL;
}

struct gather {
    struct kva_atlas *atlas;
    const struct kva_engine_file *file;
    struct kva_engine_info *info;
    const char **ids;  // of references, each once
    size_t n_ids, room;
    struct kva_error *error;
};

static void *alloc(struct gather *gather, size_t count, size_t size)
{
    void *bytes = kva_arena_alloc(gather->info->arena, count + 1, size);
    if (bytes == NULL)
        kva_fail_memory(gather->error, count * size);
    return bytes;
}

static void keep_ids(struct gather *gather, char *const *ids, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        size_t known = 0;
        while (known < gather->n_ids && strcmp(gather->ids[known], ids[i]) != 0)
            known++;
        if (known == gather->n_ids && gather->n_ids < gather->room)
            gather->ids[gather->n_ids++] = ids[i];
    }
}

static size_t count_ids(const struct kva_engine_file *file)
{
    size_t n = 0;
    for (unsigned i = 0; i < file->n_versions; i++)
        n += file->versions[i].n_references;
    for (unsigned b = 0; b < file->n_behaviours; b++)
        for (unsigned v = 0; v < file->behaviours[b].n_values; v++)
            n += file->behaviours[b].values[v].n_references;
    for (unsigned i = 0; i < file->n_lines; i++)
        n += file->lines[i].n_references;
    for (unsigned i = 0; i < file->n_kv_types; i++)
        n += file->kv_types[i].n_references;
    for (unsigned i = 0; i < file->n_rules; i++)
        n += file->rules[i].n_references;
    return n;
}

static bool gather_versions(struct gather *gather)
{
    const struct kva_engine_file *file = gather->file;
    struct kva_engine_info *info = gather->info;
    info->versions = alloc(gather, file->n_versions, sizeof *info->versions);
    info->dates = alloc(gather, file->n_versions, sizeof *info->dates);
    if (info->versions == NULL || info->dates == NULL)
        return false;
    for (unsigned i = 0; i < file->n_versions; i++) {
        info->versions[i] = file->versions[i].version;
        info->dates[i] = file->versions[i].date;
        keep_ids(gather, file->versions[i].references, file->versions[i].n_references);
    }
    info->n_versions = file->n_versions;
    return true;
}

static bool gather_behaviours(struct gather *gather)
{
    const struct kva_engine_file *file = gather->file;
    struct kva_engine_info *info = gather->info;
    info->behaviours = alloc(gather, file->n_behaviours, sizeof *info->behaviours);
    if (info->behaviours == NULL)
        return false;
    for (unsigned b = 0; b < file->n_behaviours; b++) {
        const struct kva_behaviour_row *row = &file->behaviours[b];
        struct kva_engine_behaviour *behaviour = &info->behaviours[info->n_behaviours++];
        *behaviour = (struct kva_engine_behaviour){.name = row->name, .about = row->about};
        behaviour->values = alloc(gather, row->n_values, sizeof *behaviour->values);
        if (behaviour->values == NULL)
            return false;
        for (unsigned v = 0; v < row->n_values; v++) {
            const struct kva_value_row *value = &row->values[v];
            behaviour->values[behaviour->n_values++] = (struct kva_engine_range){
                .since = value->since != NULL ? value->since : file->versions[0].version,
                .until = value->until != NULL ? value->until : file->versions[file->n_versions - 1].version,
                .value = value->value,
                .references = (const char *const *)value->references,
                .n_references = value->n_references};
            keep_ids(gather, value->references, value->n_references);
        }
    }
    return true;
}

static bool gather_lines_and_types(struct gather *gather)
{
    const struct kva_engine_file *file = gather->file;
    struct kva_engine_info *info = gather->info;
    size_t names = 0;
    for (unsigned i = 0; i < file->n_kv_types; i++)
        names += file->kv_types[i].n_names;
    info->lines = alloc(gather, file->n_lines, sizeof *info->lines);
    info->kv_types = alloc(gather, names, sizeof *info->kv_types);
    if (info->lines == NULL || info->kv_types == NULL)
        return false;
    const size_t newest = file->n_versions - 1;
    for (unsigned i = 0; i < file->n_lines; i++) {
        if (kva_range_holds(file, file->lines[i].since, file->lines[i].until, newest))
            info->lines[info->n_lines++] = file->lines[i].text;
        keep_ids(gather, file->lines[i].references, file->lines[i].n_references);
    }
    for (unsigned i = 0; i < file->n_kv_types; i++) {
        const struct kva_kv_type *type = &file->kv_types[i];
        for (unsigned n = 0; n < type->n_names && kva_range_holds(file, type->since, type->until, newest); n++)
            info->kv_types[info->n_kv_types++] = type->names[n];
        keep_ids(gather, type->references, type->n_references);
    }
    for (unsigned i = 0; i < file->n_rules; i++)
        keep_ids(gather, file->rules[i].references, file->rules[i].n_references);
    return true;
}

static enum kva_status gather_references(struct gather *gather)
{
    struct kva_engine_info *info = gather->info;
    info->references = alloc(gather, gather->n_ids, sizeof *info->references);
    if (info->references == NULL)
        return KVA_MACHINE;
    for (size_t i = 0; i < gather->n_ids; i++) {
        const struct kva_reference *reference;
        enum kva_status status = kva_atlas_reference(gather->atlas, gather->ids[i], &reference, gather->error);
        if (status != KVA_OK)
            return status;
        const char *text =
            kva_arena_printf(info->arena, "%s: %s, %s", gather->ids[i],
                             reference != NULL ? reference->title : "unknown", reference != NULL ? reference->url : "");
        if (text == NULL)
            return kva_fail_memory(gather->error, 256);
        info->references[info->n_references++] = text;
    }
    return KVA_OK;
}

static enum kva_status fill(struct kva_atlas *atlas, const struct kva_engine *engine, struct kva_engine_info *info,
                            struct kva_error *error)
{
    info->id = info->name = engine->id;
    info->summary = engine->summary;
    if (engine->behaviours_size == 0)
        return KVA_OK;
    struct gather gather = {.atlas = atlas, .info = info, .error = error};
    enum kva_status status = kva_engine_file_read(atlas, engine, &gather.file, error);
    if (status != KVA_OK)
        return status;
    info->name = gather.file->name;
    info->summary = gather.file->summary;
    gather.room = count_ids(gather.file);
    gather.ids = alloc(&gather, gather.room, sizeof *gather.ids);
    if (gather.ids == NULL || !gather_versions(&gather) || !gather_behaviours(&gather) ||
        !gather_lines_and_types(&gather))
        return KVA_MACHINE;
    return gather_references(&gather);
}

enum kva_status kva_engine_info_open(struct kva_atlas *atlas, const char *name, struct kva_engine_info **info,
                                     struct kva_error *error)
{
    *info = NULL;
    const struct kva_engine *engine = NULL;
    enum kva_status status = kva_engine_find(name, &engine, error);
    if (status != KVA_OK)
        return status;
    struct kva_arena *arena = kva_arena_new();
    struct kva_engine_info *made = arena != NULL ? kva_arena_alloc(arena, 1, sizeof *made) : NULL;
    if (made == NULL) {
        kva_arena_free(arena);
        return kva_fail_memory(error, sizeof *made);
    }
    made->arena = arena;
    status = fill(atlas, engine, made, error);
    if (status != KVA_OK)
        kva_arena_free(arena);
    else
        *info = made;
    return status;
}

void kva_engine_info_free(struct kva_engine_info *info)
{
    if (info != NULL)
        kva_arena_free(info->arena);
}
