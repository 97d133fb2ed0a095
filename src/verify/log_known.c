// The lines that are looked for: the templates of every engine at every version, found by four bytes of each.
#include <string.h>

#include "base/error.h"
#include "verify/log.h"

static enum kva_status out_of_memory(struct kva_error *error)
{
    return kva_fail_memory(error, sizeof(struct kva_log_known));
}

// ---------------------------------------------------------------- engines

static const struct kva_log_engine *facts_of(const struct kva_log_facts *facts, const char *id)
{
    for (unsigned e = 0; e < facts->n_engines; e++)
        if (strcmp(facts->engines[e].id, id) == 0)
            return &facts->engines[e];
    return NULL;
}

static enum kva_status add_policies(struct kva_atlas *atlas, struct kva_log *log, struct kva_error *error)
{
    const struct kva_engine *engine;
    for (size_t e = 0; (engine = kva_engine_at(e)) != NULL; e++) {
        if (engine->behaviours_size == 0)  // a built-in policy prints nothing
            continue;
        struct kva_log_engine_part *part = &log->engines[log->n_engines];
        enum kva_status status = kva_engine_file_read(atlas, engine, &part->file, error);
        if (status != KVA_OK)
            return status;
        part->id = engine->id;
        part->name = part->file->name;
        part->engine = engine;
        part->facts = facts_of(log->facts, engine->id);
        part->versions = kva_arena_alloc(log->arena, part->file->n_versions, sizeof *part->versions);
        if (part->versions == NULL)
            return out_of_memory(error);
        memset(part->versions, true, part->file->n_versions);
        log->n_engines++;
    }
    return KVA_OK;
}

static size_t engine_index(const struct kva_log *log, const char *id)
{
    size_t e = 0;
    while (e < log->n_engines && strcmp(log->engines[e].id, id) != 0)
        e++;
    return e;
}

// Those whose logs are known, and perhaps nothing more.
static enum kva_status add_engines(struct kva_atlas *atlas, struct kva_log *log, struct kva_error *error)
{
    size_t n = log->facts->n_engines;
    for (size_t e = 0; kva_engine_at(e) != NULL; e++)
        n++;
    log->engines = kva_arena_alloc(log->arena, n, sizeof *log->engines);
    if (log->engines == NULL)
        return out_of_memory(error);
    enum kva_status status = add_policies(atlas, log, error);
    for (unsigned e = 0; status == KVA_OK && e < log->facts->n_engines; e++) {
        const struct kva_log_engine *facts = &log->facts->engines[e];
        if (engine_index(log, facts->id) == log->n_engines)
            log->engines[log->n_engines++] =
                (struct kva_log_engine_part){.id = facts->id, .name = facts->name, .facts = facts};
    }
    return status;
}

// ---------------------------------------------------------------- templates

// How seldom four bytes are likely to be met: capitals, digits and signs count.
static int rarity(const char *four)
{
    int rare = 0;
    for (int i = 0; i < 4; i++)
        rare += !(four[i] >= 'a' && four[i] <= 'z');
    return rare;
}

// Does it tell how the engine was started? So do lines that hold nothing but settings.
static bool tells(const struct kva_log *log, const struct kva_log_known *known)
{
    if (strcmp(known->id, "start") == 0 || strcmp(known->id, "setting") == 0 || strcmp(known->id, "metadata") == 0)
        return true;
    for (size_t p = 0; p < known->pattern.n_places; p++) {
        bool is_setting = false;
        for (unsigned s = 0; s < log->facts->n_settings && !is_setting; s++)
            is_setting = strcmp(log->facts->settings[s].key, known->pattern.places[p].name) == 0 &&
                         strcmp(log->facts->settings[s].engine, log->engines[known->engine].id) == 0;
        if (!is_setting)
            return false;
    }
    return known->pattern.n_places > 0;
}

static enum kva_status add(struct kva_log *log, struct kva_log_vocabulary *vocabulary, struct kva_log_known known,
                           struct kva_error *error)
{
    struct kva_log_known *added = &vocabulary->known[vocabulary->n_known];
    *added = known;
    if (!kva_line_compile(known.text, log->arena, &added->pattern))
        return kva_fail(error, KVA_BAD_INPUT, NULL, known.id, "the line '%s' names more than %d quantities", known.text,
                        KVA_MAX_PLACES);
    added->tells = tells(log, added);
    if (added->pattern.anchor_length < 4)
        return kva_fail(error, KVA_BAD_INPUT, NULL, known.id,
                        "the line '%s' holds no word of four letters to be found by", known.text);
    const char *best = added->pattern.anchor;
    for (size_t i = 1; i + 4 <= added->pattern.anchor_length; i++)
        if (rarity(added->pattern.anchor + i) > rarity(best))
            best = added->pattern.anchor + i;
    memcpy(&added->four, best, sizeof added->four);
    added->four_at = (size_t)(best - added->pattern.anchor);
    const uint32_t hash = kva_log_hash(added->four);
    struct kva_log_known **bucket = &vocabulary->buckets[hash];
    vocabulary->any[hash / 64] |= UINT64_C(1) << hash % 64;
    added->next = *bucket;
    *bucket = added;
    vocabulary->n_known++;
    return KVA_OK;
}

enum kva_status kva_log_vocabulary_make(struct kva_atlas *atlas, struct kva_log *log,
                                        struct kva_log_vocabulary *vocabulary, struct kva_error *error)
{
    enum kva_status status = kva_log_facts_read(atlas, &log->facts, error);
    if (status == KVA_OK)
        status = add_engines(atlas, log, error);
    if (status != KVA_OK)
        return status;
    size_t n = log->facts->n_lines;
    for (size_t e = 0; e < log->n_engines; e++)
        n += log->engines[e].file != NULL ? log->engines[e].file->n_lines : 0;
    vocabulary->known = kva_arena_alloc(log->arena, n + 1, sizeof *vocabulary->known);
    if (vocabulary->known == NULL)
        return out_of_memory(error);
    for (size_t e = 0; e < log->n_engines; e++)
        for (unsigned l = 0; log->engines[e].file != NULL && l < log->engines[e].file->n_lines && status == KVA_OK;
             l++) {
            const struct kva_line_row *row = &log->engines[e].file->lines[l];
            status = add(log, vocabulary,
                         (struct kva_log_known){.engine = e, .id = row->id, .text = row->text, .row = row}, error);
        }
    for (unsigned l = 0; l < log->facts->n_lines && status == KVA_OK; l++) {
        const struct kva_log_line *line = &log->facts->lines[l];
        status =
            add(log, vocabulary,
                (struct kva_log_known){.engine = engine_index(log, line->engine), .id = line->id, .text = line->text},
                error);
    }
    return status;
}
