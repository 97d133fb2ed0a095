#include "model/gguf_arch.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "model/arch_schema.h"
#include "model/expr.h"

enum { DEPTH = 8 };

// ---------------------------------------------------------------- schema

#define MANY CYAML_UNLIMITED
#define TEXT(key, flags, type, member) CYAML_FIELD_STRING_PTR(key, CYAML_FLAG_POINTER | (flags), type, member, 0, MANY)
#define LIST(key, type, member, count, entry)                                                                          \
    CYAML_FIELD_SEQUENCE_COUNT(key, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, type, member, count, entry, 0, MANY)
#define FLAG(key, type, member) CYAML_FIELD_BOOL(key, CYAML_FLAG_OPTIONAL, type, member)

enum { NEEDED = CYAML_FLAG_DEFAULT, OPTIONAL = CYAML_FLAG_OPTIONAL };

static const cyaml_schema_value_t NAME = {CYAML_VALUE_STRING(CYAML_FLAG_POINTER, char, 1, MANY)};

static const cyaml_schema_field_t KEY_FIELDS[] = {
    TEXT("name", NEEDED, struct kva_gguf_key, name),
    TEXT("key", OPTIONAL, struct kva_gguf_key, key),
    TEXT("absent", OPTIONAL, struct kva_gguf_key, absent),
    FLAG("length", struct kva_gguf_key, length),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t KEY = {CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct kva_gguf_key, KEY_FIELDS)};

static const cyaml_schema_field_t LABEL_FIELDS[] = {
    TEXT("when", OPTIONAL, struct kva_gguf_label, when),
    TEXT("label", NEEDED, struct kva_gguf_label, label),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t LABEL = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct kva_gguf_label, LABEL_FIELDS)};

static const cyaml_schema_field_t TYPE_FIELDS[] = {
    TEXT("when", OPTIONAL, struct kva_gguf_model_type, when),
    TEXT("model_type", NEEDED, struct kva_gguf_model_type, model_type),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t TYPE = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct kva_gguf_model_type, TYPE_FIELDS)};

static const cyaml_schema_field_t ENTRY_FIELDS[] = {
    TEXT("name", OPTIONAL, struct kva_gguf_entry, name),
    TEXT("key", OPTIONAL, struct kva_gguf_entry, key),
    TEXT("count", OPTIONAL, struct kva_gguf_entry, count),
    TEXT("flag", OPTIONAL, struct kva_gguf_entry, flag),
    TEXT("real", OPTIONAL, struct kva_gguf_entry, real),
    TEXT("text", OPTIONAL, struct kva_gguf_entry, text),
    LIST("labels", struct kva_gguf_entry, labels, n_labels, &LABEL),
    TEXT("layers", OPTIONAL, struct kva_gguf_entry, layers),
    FLAG("null", struct kva_gguf_entry, null),
    TEXT("when", OPTIONAL, struct kva_gguf_entry, when),
    TEXT("at", OPTIONAL, struct kva_gguf_entry, at),
    CYAML_FIELD_UINT("first", OPTIONAL, struct kva_gguf_entry, first),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t ENTRY = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct kva_gguf_entry, ENTRY_FIELDS)};

static const cyaml_schema_field_t ARCH_FIELDS[] = {
    TEXT("architecture", NEEDED, struct kva_gguf_arch, architecture),
    LIST("types", struct kva_gguf_arch, types, n_types, &TYPE),
    LIST("references", struct kva_gguf_arch, references, n_references, &NAME),
    LIST("keys", struct kva_gguf_arch, keys, n_keys, &KEY),
    LIST("config", struct kva_gguf_arch, config, n_config, &ENTRY),
    LIST("inert", struct kva_gguf_arch, inert, n_inert, &NAME),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t ARCH = {CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct kva_gguf_arch, ARCH_FIELDS)};

// ---------------------------------------------------------------- loading

static enum kva_status check(struct kva_atlas *atlas, const struct kva_gguf_arch *arch, const char *name,
                             const char *file, struct kva_error *error)
{
    if (strcmp(arch->architecture, name) != 0)
        return kva_fail(error, KVA_BAD_INPUT, file, "architecture", "is \"%s\", but the file is named for \"%s\"",
                        arch->architecture, name);
    const char *missing;
    enum kva_status status = kva_atlas_missing_reference(atlas, arch->references, arch->n_references, &missing, error);
    if (status != KVA_OK)
        return status;
    if (missing != NULL)
        return kva_fail(error, KVA_BAD_INPUT, file, "references", "name \"%s\", which is not in references.yaml",
                        missing);
    for (unsigned i = 0; i < arch->n_keys; i++)
        if (arch->keys[i].key == NULL && arch->keys[i].absent == NULL)
            return kva_fail(error, KVA_BAD_INPUT, file, arch->keys[i].name,
                            "has neither `key` nor a formula in `absent`");
    for (unsigned i = 0; i < arch->n_config; i++) {
        const struct kva_gguf_entry *entry = &arch->config[i];
        const char *what = entry->key != NULL ? entry->key : entry->name;
        unsigned values = (entry->count != NULL) + (entry->flag != NULL) + (entry->real != NULL) +
                          (entry->text != NULL) + (entry->n_labels > 0) + (entry->layers != NULL) + entry->null;
        if ((entry->name == NULL) == (entry->key == NULL) || values != 1)
            return kva_fail(error, KVA_BAD_INPUT, file, what != NULL ? what : "config",
                            "each entry of `config` needs one of name and key, and one value");
    }
    return KVA_OK;
}

// *arch NULL with KVA_OK: no such file.
static enum kva_status load(struct kva_atlas *atlas, const char *name, struct kva_gguf_arch **arch,
                            struct kva_error *error)
{
    struct kva_atlas_file file;
    struct kva_gguf_arch *loaded;
    *arch = NULL;
    enum kva_status status = kva_yaml_named(atlas, "gguf", name, &ARCH, &file, (void **)&loaded, error);
    if (status != KVA_OK || loaded == NULL) {
        kva_atlas_file_free(&file);
        return status;
    }
    status = check(atlas, loaded, name, file.name, error);
    if (status == KVA_OK)
        *arch = loaded;
    else
        kva_yaml_free(&ARCH, loaded);
    kva_atlas_file_free(&file);
    return status;
}

static enum kva_status refuse(const struct kva_gguf *gguf, const char *architecture, struct kva_error *error)
{
    struct kva_text keys = {0};
    size_t length = strlen(architecture), left_out = 0;
    for (size_t i = 0; i < gguf->n_values; i++) {
        const char *key = gguf->values[i].key;
        if (strncmp(key, architecture, length) != 0 || key[length] != '.')
            continue;
        if (keys.length > 250)
            left_out++;
        else
            kva_text_printf(&keys, "%s%.60s", keys.length > 0 ? ", " : "", key + length + 1);
    }
    if (left_out > 0)
        kva_text_printf(&keys, " and %zu more", left_out);
    enum kva_status status =
        kva_fail(error, KVA_REFUSED, gguf->path, "general.architecture", "\"%.60s\" is not known; its keys are %s",
                 architecture, keys.failed || keys.length == 0 ? "none" : keys.bytes);
    kva_text_free(&keys);
    return status;
}

enum kva_status kva_gguf_reading_open(struct kva_atlas *atlas, const struct kva_gguf *gguf,
                                      struct kva_gguf_reading *reading, struct kva_error *error)
{
    *reading = (struct kva_gguf_reading){.gguf = gguf, .architecture = kva_gguf_text(gguf, "general.architecture")};
    if (reading->architecture == NULL || reading->architecture[0] == '\0')
        return kva_fail(error, KVA_BAD_INPUT, gguf->path, "general.architecture",
                        "is missing or no text, the name of an architecture was expected");
    snprintf(reading->file, sizeof reading->file, "%.150s (by gguf/%.60s.yaml)", gguf->path, reading->architecture);
    enum kva_status status = load(atlas, "common", &reading->common, error);
    if (status == KVA_OK && reading->common == NULL)
        status = kva_fail(error, KVA_BAD_INPUT, "gguf/common.yaml", NULL, "is missing from the data directory");
    if (status == KVA_OK)
        status = load(atlas, reading->architecture, &reading->arch, error);
    if (status == KVA_OK && (reading->arch == NULL || reading->arch->n_types == 0))
        status = refuse(gguf, reading->architecture, error);
    return status;
}

void kva_gguf_reading_close(struct kva_gguf_reading *reading)
{
    kva_yaml_free(&ARCH, reading->arch);
    kva_yaml_free(&ARCH, reading->common);
    reading->arch = reading->common = NULL;
}

// ---------------------------------------------------------------- names and formulas

static const struct kva_gguf_key *find_key(const struct kva_gguf_reading *reading, const char *name, size_t length)
{
    const struct kva_gguf_arch *const files[] = {reading->arch, reading->common};
    for (size_t f = 0; f < 2; f++)
        for (unsigned i = 0; i < files[f]->n_keys; i++)
            if (strncmp(files[f]->keys[i].name, name, length) == 0 && files[f]->keys[i].name[length] == '\0')
                return &files[f]->keys[i];
    return NULL;
}

static const struct kva_gguf_value *find_value(const struct kva_gguf_reading *reading, const struct kva_gguf_key *key,
                                               char *path, size_t size)
{
    bool whole = strncmp(key->key, "general.", 8) == 0 || strncmp(key->key, "tokenizer.", 10) == 0;
    snprintf(path, size, "%s%s%s", whole ? "" : reading->architecture, whole ? "" : ".", key->key);
    return kva_gguf_find(reading->gguf, path);
}

const struct kva_gguf_value *kva_gguf_named(const struct kva_gguf_reading *reading, const char *name)
{
    char path[512];
    const struct kva_gguf_key *key = find_key(reading, name, strlen(name));
    return key != NULL && key->key != NULL ? find_value(reading, key, path, sizeof path) : NULL;
}

// The names of one formula.
struct scope {
    const struct kva_gguf_reading *reading;
    int64_t layer;
    int depth;
    enum kva_status status;  // of what went wrong inside a look-up
    struct kva_error *error;
};

static enum kva_status evaluate(const struct kva_gguf_reading *reading, const char *formula, int64_t layer, int depth,
                                int64_t *value, struct kva_error *error);

static enum kva_status fail_value(struct scope *scope, const char *path, const char *expected)
{
    return kva_fail(scope->error, KVA_BAD_INPUT, scope->reading->gguf->path, path, "%s was expected", expected);
}

static enum kva_status take(struct scope *scope, const struct kva_gguf_value *value, const char *path, bool length,
                            int64_t *number)
{
    if (length) {
        *number = value->length <= INT64_MAX ? (int64_t)value->length : INT64_MAX;
        return value->is_array ? KVA_OK : fail_value(scope, path, "an array");
    }
    if (value->type == KVA_GGUF_F32 || value->type == KVA_GGUF_F64 || value->type == KVA_GGUF_TEXT)
        return fail_value(scope, path, "an integer, or an array of them,");
    *number = value->integer;
    if (!value->is_array)
        return KVA_OK;
    if (value->items == NULL || value->length == 0)
        return fail_value(scope, path, "an array with one item for each layer");
    if (scope->layer >= 0 && (uint64_t)scope->layer >= value->length)
        return kva_fail(scope->error, KVA_BAD_INPUT, scope->reading->gguf->path, path,
                        "has only %llu items, too few for layer %lld", (unsigned long long)value->length,
                        (long long)scope->layer);
    *number = value->items[scope->layer >= 0 ? scope->layer : 0];
    for (uint64_t i = 1; scope->layer < 0 && i < value->length; i++)
        if (value->items[i] > *number)
            *number = value->items[i];
    return KVA_OK;
}

// How many layers have an item that is not 0; one value stands for all of them.
static bool count_items(struct scope *scope, const struct kva_gguf_value *value, int64_t *number)
{
    *number = 0;
    if (value != NULL && !value->is_array && value->integer != 0)
        scope->status = evaluate(scope->reading, "layers", -1, scope->depth + 1, number, scope->error);
    for (uint64_t i = 0; value != NULL && value->items != NULL && i < value->length; i++)
        *number += value->items[i] != 0;
    return scope->status == KVA_OK;
}

static bool look_up(void *user, const char *name, size_t length, int64_t *number)
{
    struct scope *scope = user;
    const struct kva_gguf_reading *reading = scope->reading;
    if (length == 1 && name[0] == 'i') {
        *number = scope->layer;
        return scope->layer >= 0;
    }
    bool has = length > 4 && strncmp(name, "has_", 4) == 0, array = length > 6 && strncmp(name, "array_", 6) == 0;
    bool count = length > 6 && strncmp(name, "count_", 6) == 0;
    size_t prefix = has ? 4 : array || count ? 6 : 0;
    const struct kva_gguf_key *key = find_key(reading, name + prefix, length - prefix);
    if (key == NULL)
        return false;
    char path[512];
    const struct kva_gguf_value *value = key->key != NULL ? find_value(reading, key, path, sizeof path) : NULL;
    if (has || array) {
        *number = value != NULL && (has || value->is_array);
        return true;
    }
    if (count)
        return count_items(scope, value, number);
    if (value != NULL)
        scope->status = take(scope, value, path, key->length, number);
    else if (key->absent != NULL)
        scope->status = evaluate(reading, key->absent, scope->layer, scope->depth + 1, number, scope->error);
    else
        scope->status = kva_fail(scope->error, KVA_BAD_INPUT, reading->gguf->path, path,
                                 "is missing, and llama.cpp takes nothing in its place");
    return scope->status == KVA_OK;
}

static enum kva_status evaluate(const struct kva_gguf_reading *reading, const char *formula, int64_t layer, int depth,
                                int64_t *value, struct kva_error *error)
{
    struct scope scope = {reading, layer, depth, KVA_OK, error};
    if (depth > DEPTH)
        return kva_fail(error, KVA_BAD_INPUT, reading->file, formula, "names lead back to themselves");
    struct kva_error problem = {0};
    enum kva_status status = kva_expr_eval(formula, look_up, &scope, value, &problem);
    if (scope.status != KVA_OK)
        return scope.status;
    if (status != KVA_OK && error != NULL) {
        *error = problem;
        snprintf(error->file, sizeof error->file, "%s", reading->file);
    }
    return status;
}

enum kva_status kva_gguf_formula(const struct kva_gguf_reading *reading, const char *formula, int64_t layer,
                                 int64_t *value, struct kva_error *error)
{
    return evaluate(reading, formula, layer, 0, value, error);
}
