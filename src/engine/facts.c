// Reads data/engines/<id>.yaml, checks it, and picks what holds for one version.
#include "engine/facts.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "engine/engine.h"
#include "engine/facts_schema.h"

// What the atlas keeps: the files that were read, and the versions that were picked from them.
struct shelved_version {
    struct shelved_version *next;
    size_t index;
    struct kva_engine_version picked;
};
struct shelved_file {
    struct shelved_file *next;
    const struct kva_engine *engine;
    const struct kva_engine_file *file;
    struct kva_engine_file *loaded;  // NULL: `file` is built in
    struct kva_arena *arena;         // of the versions
    struct shelved_version *versions;
};

static void release(void *kept)
{
    for (struct shelved_file *shelved = kept; shelved != NULL;) {
        struct shelved_file *next = shelved->next;
        kva_yaml_free(&kva_engine_schema, shelved->loaded);
        kva_arena_free(shelved->arena);
        free(shelved);
        shelved = next;
    }
}

// ---------------------------------------------------------------- checks of a whole file

struct checked {
    struct kva_atlas *atlas;
    const struct kva_atlas_file *source;
    const struct kva_engine_file *file;
    struct kva_error *error;
};

static enum kva_status wrong(const struct checked *checked, const char *key, const char *what, const char *value)
{
    return kva_yaml_wrong(checked->source, key, what, value, checked->error);
}

static enum kva_status check_references(const struct checked *checked, char *const *ids, unsigned n)
{
    const char *missing;
    enum kva_status status = kva_atlas_missing_reference(checked->atlas, ids, n, &missing, checked->error);
    if (status == KVA_OK && missing != NULL)
        return wrong(checked, "references", "is not the id of a reference in references.yaml", missing);
    return status;
}

static enum kva_status check_range(const struct checked *checked, const char *since, const char *until)
{
    const char *ends[] = {since, until};
    for (size_t e = 0; e < 2; e++)
        if (ends[e] != NULL && kva_version_index(checked->file, ends[e]) == SIZE_MAX)
            return wrong(checked, e == 0 ? "since" : "until", "is not one of this file's versions", ends[e]);
    bool comparable;
    if (since != NULL && until != NULL && kva_version_compare(since, until, &comparable) > 0)
        return wrong(checked, "since", "is later than its 'until'", since);
    return KVA_OK;
}

static enum kva_status check_versions(const struct checked *checked)
{
    const struct kva_engine_file *file = checked->file;
    enum kva_status status = KVA_OK;
    for (unsigned i = 0; status == KVA_OK && i < file->n_versions; i++) {
        const char *version = file->versions[i].version;
        bool comparable;
        int order = kva_version_compare(i > 0 ? file->versions[i - 1].version : version, version, &comparable);
        if (!comparable)
            return wrong(checked, "version", "is not a version", version);
        if (i > 0 && order >= 0)
            return wrong(checked, "version", "does not come after the one before it", version);
        status = check_references(checked, file->versions[i].references, file->versions[i].n_references);
    }
    return status;
}

static enum kva_status set_behaviour(const struct kva_behaviour *behaviour, const char *value, void *all,
                                     struct kva_error *error)
{
    void *field = (char *)all + behaviour->offset;
    char *end = NULL;
    switch (behaviour->type) {
    case KVA_BEHAVIOUR_FLAG:
        *(bool *)field = strcmp(value, "true") == 0;
        if (*(bool *)field || strcmp(value, "false") == 0)
            return KVA_OK;
        break;
    case KVA_BEHAVIOUR_COUNT:
        if (kva_parse_count(value, field))
            return KVA_OK;
        break;
    case KVA_BEHAVIOUR_REAL:
        *(double *)field = strtod(value, &end);
        if (end != value && *end == '\0')
            return KVA_OK;
        break;
    case KVA_BEHAVIOUR_CHOICE:
        for (int c = 0; behaviour->choices[c] != NULL; c++)
            if (strcmp(behaviour->choices[c], value) == 0) {
                *(int *)field = c;
                return KVA_OK;
            }
        break;
    case KVA_BEHAVIOUR_TEXT:
        *(const char **)field = value;
        return KVA_OK;
    }
    return kva_fail(error, KVA_BAD_INPUT, NULL, behaviour->name, "'%s' is not a value of this behaviour", value);
}

// Every version has exactly one value.
static enum kva_status check_behaviour(const struct checked *checked, const struct kva_behaviour_row *row)
{
    for (unsigned v = 0; v < row->n_values; v++) {
        enum kva_status status = check_range(checked, row->values[v].since, row->values[v].until);
        if (status == KVA_OK)
            status = check_references(checked, row->values[v].references, row->values[v].n_references);
        if (status != KVA_OK)
            return status;
    }
    for (size_t i = 0; i < checked->file->n_versions; i++) {
        unsigned n = 0;
        for (unsigned v = 0; v < row->n_values; v++)
            n += kva_range_holds(checked->file, row->values[v].since, row->values[v].until, i);
        if (n != 1)
            return kva_fail(checked->error, KVA_BAD_INPUT, checked->source->name, row->name,
                            n == 0 ? "has no value for version %s" : "has more than one value for version %s",
                            checked->file->versions[i].version);
    }
    return KVA_OK;
}

// Values of what the engine's C reads are of its type, in every version.
static enum kva_status check_values(const struct checked *checked, const struct kva_engine *engine)
{
    void *scratch = calloc(1, engine->behaviours_size);
    enum kva_status status = scratch != NULL ? KVA_OK : kva_fail_memory(checked->error, engine->behaviours_size);
    for (size_t b = 0; status == KVA_OK && b < engine->n_behaviours; b++) {
        const struct kva_behaviour *behaviour = &engine->behaviours[b];
        const struct kva_behaviour_row *row = NULL;
        for (unsigned r = 0; row == NULL && r < checked->file->n_behaviours; r++)
            if (strcmp(checked->file->behaviours[r].name, behaviour->name) == 0)
                row = &checked->file->behaviours[r];
        if (row == NULL)
            status = kva_fail(checked->error, KVA_BAD_INPUT, checked->source->name, behaviour->name,
                              "is a behaviour that %s needs and the file does not hold", engine->id);
        for (unsigned v = 0; status == KVA_OK && v < row->n_values; v++)
            if (set_behaviour(behaviour, row->values[v].value, scratch, NULL) != KVA_OK) {
                status = wrong(checked, behaviour->name, "is not a value of this behaviour", row->values[v].value);
                if (checked->error != NULL)
                    checked->error->line = kva_yaml_line(checked->source, "behaviours", behaviour->name);
            }
    }
    free(scratch);
    return status;
}

static enum kva_status check_file(const struct checked *checked, const struct kva_engine *engine)
{
    const struct kva_engine_file *file = checked->file;
    if (strcmp(file->id, engine->id) != 0)
        return wrong(checked, "id", "is not the name of the file", file->id);
    enum kva_status status = check_versions(checked);
    for (unsigned i = 0; status == KVA_OK && i < file->n_behaviours; i++)
        status = check_behaviour(checked, &file->behaviours[i]);
    for (unsigned i = 0; status == KVA_OK && i < file->n_rules; i++) {
        status = check_range(checked, file->rules[i].since, file->rules[i].until);
        if (status == KVA_OK)
            status = check_references(checked, file->rules[i].references, file->rules[i].n_references);
    }
    for (unsigned i = 0; status == KVA_OK && i < file->n_kv_types; i++) {
        status = check_range(checked, file->kv_types[i].since, file->kv_types[i].until);
        if (status == KVA_OK)
            status = check_references(checked, file->kv_types[i].references, file->kv_types[i].n_references);
    }
    for (unsigned i = 0; status == KVA_OK && i < file->n_lines; i++) {
        status = check_range(checked, file->lines[i].since, file->lines[i].until);
        if (status == KVA_OK)
            status = check_references(checked, file->lines[i].references, file->lines[i].n_references);
        if (status == KVA_OK && !kva_line_is_well_formed(file->lines[i].text))
            status = wrong(checked, "text", "has a placeholder that is not {name:format}", file->lines[i].text);
    }
    if (status == KVA_OK)
        status = check_values(checked, engine);
    return status;
}

static const struct kva_engine_file *built_in(const char *id)
{
    for (size_t i = 0; i < kva_n_embedded_engines; i++)
        if (strcmp(kva_embedded_engines[i].id, id) == 0)
            return &kva_embedded_engines[i];
    return NULL;
}

static enum kva_status load(struct kva_atlas *atlas, struct shelved_file *shelved, struct kva_error *error)
{
    struct kva_atlas_file source;
    const char *id = shelved->engine->id;
    if (kva_atlas_is_built_in(atlas)) {
        shelved->file = built_in(id);
        return shelved->file != NULL
                   ? KVA_OK
                   : kva_fail(error, KVA_BAD_INPUT, NULL, "engine", "engines/%s.yaml is not built in", id);
    }
    enum kva_status status =
        kva_yaml_named(atlas, "engines", id, &kva_engine_schema, &source, (void **)&shelved->loaded, error);
    if (status == KVA_OK && shelved->loaded == NULL)
        status = kva_fail(error, KVA_BAD_INPUT, NULL, "engine", "engines/%s.yaml is not in the data", id);
    shelved->file = shelved->loaded;
    if (status == KVA_OK)
        status = check_file(&(struct checked){atlas, &source, shelved->file, error}, shelved->engine);
    kva_atlas_file_free(&source);
    return status;
}

static enum kva_status shelve(struct kva_atlas *atlas, const struct kva_engine *engine, struct shelved_file **found,
                              struct kva_error *error)
{
    void **shelf = kva_atlas_keep(atlas, "engines", release);
    if (shelf == NULL)
        return kva_fail_memory(error, sizeof **found);
    for (struct shelved_file *shelved = *shelf; shelved != NULL; shelved = shelved->next)
        if (shelved->engine == engine) {
            *found = shelved;
            return KVA_OK;
        }
    struct shelved_file *made = calloc(1, sizeof *made);
    if (made == NULL || (made->arena = kva_arena_new()) == NULL) {
        free(made);
        return kva_fail_memory(error, sizeof *made);
    }
    made->engine = engine;
    enum kva_status status = load(atlas, made, error);
    if (status != KVA_OK) {
        release(made);
        return status;
    }
    made->next = *shelf;
    *shelf = *found = made;
    return KVA_OK;
}

enum kva_status kva_engine_file_read(struct kva_atlas *atlas, const struct kva_engine *engine,
                                     const struct kva_engine_file **file, struct kva_error *error)
{
    struct shelved_file *shelved = NULL;
    enum kva_status status = shelve(atlas, engine, &shelved, error);
    *file = status == KVA_OK ? shelved->file : NULL;
    return status;
}

// ---------------------------------------------------------------- one version

static const struct kva_value_row *value_at(const struct kva_engine_file *file, const char *name, size_t index)
{
    for (unsigned b = 0; b < file->n_behaviours; b++)
        for (unsigned v = 0; strcmp(file->behaviours[b].name, name) == 0 && v < file->behaviours[b].n_values; v++)
            if (kva_range_holds(file, file->behaviours[b].values[v].since, file->behaviours[b].values[v].until, index))
                return &file->behaviours[b].values[v];
    return NULL;
}

static enum kva_status fill_behaviours(const struct kva_engine *engine, struct kva_engine_version *version,
                                       struct kva_error *error)
{
    for (size_t b = 0; b < engine->n_behaviours; b++) {
        const struct kva_value_row *row = value_at(version->file, engine->behaviours[b].name, version->index);
        if (row == NULL)
            return kva_fail(error, KVA_BAD_INPUT, NULL, engine->behaviours[b].name,
                            "engines/%s.yaml does not hold this behaviour", engine->id);
        enum kva_status status = set_behaviour(&engine->behaviours[b], row->value, version->behaviours, error);
        if (status != KVA_OK)
            return status;
    }
    return KVA_OK;
}

static int by_name_and_key(const void *a, const void *b)
{
    const struct kva_rule *x = a, *y = b;
    const int name = strcmp(x->name, y->name), key = name != 0 ? name : strcmp(x->key, y->key);
    return key != 0 ? key : (x->at > y->at) - (x->at < y->at);
}

// One entry for each key of each rule that holds. False: out of memory.
static bool pick_rules(struct kva_arena *arena, struct kva_engine_version *version)
{
    const struct kva_engine_file *file = version->file;
    size_t n = 0;
    for (unsigned i = 0; i < file->n_rules; i++)
        n += file->rules[i].n_match;
    version->rules = kva_arena_alloc(arena, n + 1, sizeof *version->rules);
    if (version->rules == NULL)
        return false;
    for (unsigned i = 0; i < file->n_rules; i++) {
        const struct kva_rule_row *row = &file->rules[i];
        if (kva_range_holds(file, row->since, row->until, version->index))
            for (unsigned m = 0; m < row->n_match; m++) {
                version->rules[version->n_rules] =
                    (struct kva_rule){row->name, row->match[m], row->value, version->n_rules};
                version->n_rules++;
            }
    }
    if (version->n_rules > 0)
        qsort(version->rules, version->n_rules, sizeof *version->rules, by_name_and_key);
    return true;
}

static void keep_references(struct kva_engine_version *version, char *const *ids, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        size_t known = 0;
        while (known < version->n_references && strcmp(version->references[known], ids[i]) != 0)
            known++;
        if (known == version->n_references)
            version->references[version->n_references++] = ids[i];
    }
}

// What the behaviours of this version were read in.
static enum kva_status gather_references(struct kva_arena *arena, struct kva_engine_version *version,
                                         struct kva_error *error)
{
    const struct kva_engine_file *file = version->file;
    size_t room = file->versions[version->index].n_references;
    for (unsigned b = 0; b < file->n_behaviours; b++)
        for (unsigned v = 0; v < file->behaviours[b].n_values; v++)
            room += file->behaviours[b].values[v].n_references;
    version->references = kva_arena_alloc(arena, room + 1, sizeof *version->references);
    if (version->references == NULL)
        return kva_fail_memory(error, room * sizeof *version->references);
    keep_references(version, file->versions[version->index].references, file->versions[version->index].n_references);
    for (unsigned b = 0; b < file->n_behaviours; b++) {
        const struct kva_value_row *value = value_at(file, file->behaviours[b].name, version->index);
        if (value != NULL)
            keep_references(version, value->references, value->n_references);
    }
    return KVA_OK;
}

static enum kva_status pick(struct kva_arena *arena, const struct kva_engine *engine,
                            struct kva_engine_version *version, struct kva_error *error)
{
    const struct kva_engine_file *file = version->file;
    version->version = file->versions[version->index].version;
    version->behaviours = kva_arena_alloc(arena, 1, engine->behaviours_size);
    version->kv_types = kva_arena_alloc(arena, file->n_kv_types + 1, sizeof *version->kv_types);
    version->lines = kva_arena_alloc(arena, file->n_lines + 1, sizeof *version->lines);
    if (version->behaviours == NULL || version->kv_types == NULL || version->lines == NULL ||
        !pick_rules(arena, version))
        return kva_fail_memory(error, engine->behaviours_size);
    for (unsigned i = 0; i < file->n_kv_types; i++)
        if (kva_range_holds(file, file->kv_types[i].since, file->kv_types[i].until, version->index))
            version->kv_types[version->n_kv_types++] = &file->kv_types[i];
    for (unsigned i = 0; i < file->n_lines; i++)
        if (kva_range_holds(file, file->lines[i].since, file->lines[i].until, version->index))
            version->lines[version->n_lines++] = &file->lines[i];
    enum kva_status status = fill_behaviours(engine, version, error);
    return status == KVA_OK ? gather_references(arena, version, error) : status;
}

enum kva_status kva_engine_version_pick(struct kva_atlas *atlas, const struct kva_engine *engine, size_t index,
                                        const struct kva_engine_version **version, struct kva_error *error)
{
    struct shelved_file *shelved = NULL;
    enum kva_status status = shelve(atlas, engine, &shelved, error);
    if (status != KVA_OK)
        return status;
    for (struct shelved_version *known = shelved->versions; known != NULL; known = known->next)
        if (known->index == index) {
            *version = &known->picked;
            return KVA_OK;
        }
    struct shelved_version *made = kva_arena_alloc(shelved->arena, 1, sizeof *made);
    if (made == NULL)
        return kva_fail_memory(error, sizeof *made);
    made->index = index;
    made->picked = (struct kva_engine_version){.file = shelved->file, .index = index};
    status = pick(shelved->arena, engine, &made->picked, error);
    if (status != KVA_OK)
        return status;
    made->next = shelved->versions;
    shelved->versions = made;
    *version = &made->picked;
    return KVA_OK;
}
