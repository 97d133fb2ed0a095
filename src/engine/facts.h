// data/engines/<id>.yaml: the versions of an engine, what differs between them, the types its cache flag takes and the
// lines it prints. A file is checked against its schema when it is read: an unknown key, a reference that
// data/references.yaml does not hold, a version range with a gap or an overlap is an error with file and key.
#ifndef KVA_ENGINE_FACTS_H
#define KVA_ENGINE_FACTS_H

#include "base/text.h"
#include "model/atlas.h"

struct kva_engine;

enum kva_behaviour_type {
    KVA_BEHAVIOUR_FLAG,    // bool: true, false
    KVA_BEHAVIOUR_COUNT,   // uint64_t
    KVA_BEHAVIOUR_REAL,    // double
    KVA_BEHAVIOUR_CHOICE,  // int: index in `choices`
    KVA_BEHAVIOUR_TEXT,    // const char *
};

// A behaviour that an engine's C reads: every version must have exactly one value of this type.
struct kva_behaviour {
    const char *name;
    enum kva_behaviour_type type;
    size_t offset;               // in the engine's struct
    const char *const *choices;  // NULL-terminated
};

struct kva_side_format {
    uint32_t bits, group, group_bytes, vector_bytes;
};

struct kva_kv_type {
    char **names;
    unsigned n_names;
    char *since, *until;
    struct kva_side_format k, v;
    uint32_t slot_multiple;
    char **references;
    unsigned n_references;
};

struct kva_version_row {
    char *version, *date;
    char **references;
    unsigned n_references;
};

struct kva_value_row {
    char *since, *until, *value;
    char **references;
    unsigned n_references;
};

struct kva_behaviour_row {
    char *name, *about;
    struct kva_value_row *values;
    unsigned n_values;
};

struct kva_rule_row {
    char *name;
    char **match;
    unsigned n_match;
    char *since, *until, *value;
    char **references;
    unsigned n_references;
};

struct kva_line_row {
    char *id, *since, *until, *text;
    char **references;
    unsigned n_references;
};

struct kva_engine_file {
    char *id, *name, *summary;
    struct kva_version_row *versions;
    unsigned n_versions;
    struct kva_behaviour_row *behaviours;
    unsigned n_behaviours;
    struct kva_rule_row *rules;
    unsigned n_rules;
    struct kva_kv_type *kv_types;
    unsigned n_kv_types;
    struct kva_line_row *lines;
    unsigned n_lines;
};

// The files that were built in, written by tools/embed_engines.c.
extern const struct kva_engine_file kva_embedded_engines[];
extern const size_t kva_n_embedded_engines;

// What one rule says of one key.
struct kva_rule {
    const char *name, *key, *value;
    size_t at;  // where it stands in the file
};

// One version of an engine: what holds for it, picked once.
struct kva_engine_version {
    const struct kva_engine_file *file;  // NULL: a built-in policy
    const char *version;                 // "" for a built-in policy
    size_t index;                        // in file->versions
    void *behaviours;
    struct kva_rule *rules;  // by name and key; of two alike the one that stands first in the file
    size_t n_rules;
    const struct kva_kv_type **kv_types;
    size_t n_kv_types;
    const struct kva_line_row **lines;
    size_t n_lines;
    const char **references;  // ids, each once: of the version and of its behaviours' values
    size_t n_references;
};

// The file of an engine, kept in the atlas. A built-in file was checked when it was built (tests); one of a data
// directory is checked here. Errors: KVA_BAD_INPUT, KVA_MACHINE.
enum kva_status kva_engine_file_read(struct kva_atlas *atlas, const struct kva_engine *engine,
                                     const struct kva_engine_file **file, struct kva_error *error);
// The version at `index` of the file, kept in the atlas.
enum kva_status kva_engine_version_pick(struct kva_atlas *atlas, const struct kva_engine *engine, size_t index,
                                        const struct kva_engine_version **version, struct kva_error *error);

// Does [since, until] (NULL: open) hold `index` of the file's versions?
bool kva_range_holds(const struct kva_engine_file *file, const char *since, const char *until, size_t index);
// Index of `version` in the file; SIZE_MAX: not listed.
size_t kva_version_index(const struct kva_engine_file *file, const char *version);
// < 0, 0, > 0: a before, as, after b: "b8390" < "v0.4.0" < "0.4.1", "1.3.0rc9" < "1.3.0". *comparable false: not a
// version.
int kva_version_compare(const char *a, const char *b, bool *comparable);

#endif
