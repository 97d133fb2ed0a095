// What a config's keys say. An absent key means the class default and an explicit null means "derive", which need not
// be the same: mistral without sliding_window has a window of 4096, with null it has none. (Transformers,
// configuration_mistral.py.) A JSON saved by save_pretrained leaves out keys that equal the defaults, so defaults are
// part of the architecture file.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "model/build.h"
#include "model/json.h"

static enum kva_status fail_type(struct kva_build *build, const struct kva_value *value, const char *expected,
                                 const json_t *found)
{
    char buffer[KVA_JSON_FOUND];
    return kva_build_fail(build, value->key, "expected %s, found %s", expected, kva_json_found(found, buffer));
}

// ---------------------------------------------------------------- lists

// Room for n items; NULL with *status set: none.
static struct kva_item *list_room(struct kva_build *build, struct kva_value *value, size_t n, enum kva_status *status)
{
    struct kva_item *items = NULL;
    *status = KVA_OK;
    if (n > KVA_MAX_ITEMS)
        *status = kva_build_fail(build, value->key, "has %zu entries, at most %d are read", n, KVA_MAX_ITEMS);
    else if ((items = kva_arena_alloc(build->arena, n + 1, sizeof *items)) == NULL)
        *status = kva_build_memory(build);
    value->items = items;
    value->count = n;
    return items;
}

// An entry borrows its text from the config, so a text is copied.
static enum kva_status take_item(struct kva_build *build, const struct kva_value *value, const json_t *found,
                                 struct kva_item *item)
{
    *item = (struct kva_item){.type = KVA_ITEM_NULL};
    if (found == NULL || json_is_null(found))
        return KVA_OK;
    if (json_is_integer(found) || json_is_boolean(found)) {
        item->type = KVA_ITEM_COUNT;
        item->count = json_is_integer(found) ? json_integer_value(found) : json_is_true(found);
    } else if (json_is_string(found)) {
        item->type = KVA_ITEM_TEXT;
        item->text = kva_arena_strdup(build->arena, json_string_value(found));
        if (item->text == NULL)
            return kva_build_memory(build);
    } else
        return fail_type(build, value, "integers, true or false, text or null in the list", found);
    return KVA_OK;
}

// "M-M*-E": one entry a letter.
static enum kva_status take_letters(struct kva_build *build, struct kva_value *value, const char *letters)
{
    enum kva_status status;
    size_t n = strlen(letters);
    struct kva_item *items = list_room(build, value, n, &status);
    char *texts = items != NULL ? kva_arena_alloc(build->arena, n + 1, 2) : NULL;
    if (texts == NULL)
        return status != KVA_OK ? status : kva_build_memory(build);
    for (size_t i = 0; i < n; i++) {
        texts[2 * i] = letters[i];
        items[i] = (struct kva_item){.type = KVA_ITEM_TEXT, .text = &texts[2 * i]};
    }
    return status;
}

// "3, 8, 13" or "recurrent, attention", as an architecture file writes a list.
static enum kva_status fill_list(struct kva_build *build, struct kva_value *value, const char *written)
{
    enum kva_status status;
    size_t n = *written != '\0';
    for (const char *c = written; *c != '\0'; c++)
        n += *c == ',';
    struct kva_item *items = list_room(build, value, n, &status);
    for (size_t i = 0; items != NULL && i < n; i++) {
        written += strspn(written, " ");
        const char *text = kva_arena_printf(build->arena, "%.*s", (int)strcspn(written, ","), written);
        if (text == NULL)
            return kva_build_memory(build);
        char *end;
        items[i] = (struct kva_item){.type = KVA_ITEM_COUNT, .count = strtoll(text, &end, 10)};
        if (end == text || *end != '\0')
            items[i] = (struct kva_item){.type = KVA_ITEM_TEXT, .text = text};
        written += strcspn(written, ",") + 1;
    }
    return status;
}

// What stands above the last name of a path is an object, or not there. A star stands for the entries of a list too.
static enum kva_status check_parents(struct kva_build *build, const json_t *object, const char *path)
{
    const char *const start = path;
    char found[KVA_JSON_FOUND];
    for (const char *dot; (dot = strchr(path, '.')) != NULL; path = dot + 1) {
        object = json_object_getn(object, path, (size_t)(dot - path));
        if (object == NULL || json_is_null(object))
            return KVA_OK;
        const bool entries = strncmp(dot, ".*.", 3) == 0;
        if (!json_is_object(object) && !(entries && json_is_array(object))) {
            const char *key = kva_arena_printf(build->arena, "%.*s", (int)(dot - start), start);
            return key == NULL
                       ? kva_build_memory(build)
                       : kva_build_fail(build, key, "expected %s, found %s",
                                        entries ? "a list or an object" : "an object", kva_json_found(object, found));
        }
        if (entries)
            return KVA_OK;
    }
    return KVA_OK;
}

// One entry of those that "a.*.b" names.
static enum kva_status take_entry(struct kva_build *build, const struct kva_value *value, const json_t *entry,
                                  const char *rest, struct kva_item *item)
{
    if (!json_is_object(entry) && !json_is_null(entry))
        return fail_type(build, value, "objects", entry);
    enum kva_status status = check_parents(build, entry, rest);
    return status == KVA_OK ? take_item(build, value, kva_json_at(entry, rest), item) : status;
}

// The entries that "a.*.b" names: of a list in its order, of an object those whose keys are layer numbers.
static enum kva_status take_entries(struct kva_build *build, struct kva_value *value, json_t *entries, const char *rest)
{
    enum kva_status status;
    size_t n = json_array_size(entries);
    const char *key;
    char *end;
    json_t *entry;
    json_object_foreach(entries, key, entry)
    {
        unsigned long layer = strtoul(key, &end, 10);
        if (*end != '\0' || end == key || *key == '-' || layer >= KVA_MAX_ITEMS)
            return kva_build_fail(build, value->key, "\"%.40s\" is not the number of a layer", key);
        if (layer >= n)
            n = layer + 1;
    }
    struct kva_item *items = list_room(build, value, n, &status);
    if (items == NULL)
        return status;
    for (size_t i = 0; status == KVA_OK && i < json_array_size(entries); i++)
        status = take_entry(build, value, json_array_get(entries, i), rest, &items[i]);
    json_object_foreach(entries, key, entry)
    {
        if (status == KVA_OK)
            status = take_entry(build, value, entry, rest, &items[strtoul(key, &end, 10)]);
    }
    return status;
}

static enum kva_status take_list(struct kva_build *build, struct kva_value *value, const json_t *found)
{
    enum kva_status status;
    if (json_is_string(found))
        return take_letters(build, value, json_string_value(found));
    struct kva_item *items = list_room(build, value, json_array_size(found), &status);
    for (size_t i = 0; status == KVA_OK && items != NULL && i < value->count; i++)
        status = take_item(build, value, json_array_get(found, i), &items[i]);
    return status;
}

// ---------------------------------------------------------------- filling and taking

// What the architecture file says instead of a value: a literal, or a formula for counts and flags.
static enum kva_status fill(struct kva_build *build, struct kva_value *value, const char *rule, enum kva_source source)
{
    value->source = source;
    value->rule = rule;
    int64_t result = 0;
    char *end;
    enum kva_status status;
    switch (value->type) {
    case KVA_TEXT:
        value->text = rule;
        return KVA_OK;
    case KVA_LIST:
        return fill_list(build, value, rule);
    case KVA_REAL:
        value->real = strtod(rule, &end);
        if (end == rule || *end != '\0' || !isfinite(value->real))
            return kva_fail(build->error, KVA_BAD_INPUT, build->arch->model_type, value->name,
                            "the architecture file's \"%s\" is not a number", rule);
        return KVA_OK;
    case KVA_COUNT:
    case KVA_FLAG:
        status = kva_build_formula(build, rule, -1, &result);
        if (status == KVA_OK && result < 0)
            status = kva_build_fail(build, value->key, "%s = %s is %lld, which is no count", value->name, rule,
                                    (long long)result);
        value->count = (uint64_t)result;
        return status;
    }
    return KVA_OK;
}

static bool is_of_type(enum kva_value_type type, const json_t *found)
{
    switch (type) {
    case KVA_COUNT:
        return json_is_integer(found);
    case KVA_FLAG:
        return json_is_boolean(found);
    case KVA_REAL:
        return json_is_number(found);
    case KVA_TEXT:
        return json_is_string(found);
    case KVA_LIST:
        return json_is_array(found) || json_is_string(found);
    }
    return false;
}

static enum kva_status take(struct kva_build *build, const struct kva_arch_key *key, struct kva_value *value,
                            const json_t *found)
{
    static const char *const EXPECTED[] = {
        [KVA_FLAG] = "true or false", [KVA_REAL] = "a number", [KVA_TEXT] = "text", [KVA_LIST] = "a list"};
    if (key->type == KVA_COUNT && key->automatic != NULL && json_is_string(found) &&
        strcmp(json_string_value(found), "auto") == 0)
        return fill(build, value, key->automatic, KVA_FROM_NULL);
    if (!is_of_type(key->type, found) && key->other != NULL)
        return fill(build, value, key->other, KVA_FROM_NULL);
    if (key->type == KVA_COUNT && (!json_is_integer(found) || json_integer_value(found) < 0))
        return fail_type(build, value, key->zero ? "an integer of 0 or more" : "a positive integer", found);
    if (!is_of_type(key->type, found))
        return fail_type(build, value, EXPECTED[key->type], found);
    switch (key->type) {
    case KVA_COUNT:
        value->count = (uint64_t)json_integer_value(found);
        return KVA_OK;
    case KVA_FLAG:
        value->count = json_is_true(found);
        return KVA_OK;
    case KVA_REAL:
        value->real = json_number_value(found);
        return KVA_OK;
    case KVA_TEXT:
        value->text = kva_arena_strdup(build->arena, json_string_value(found));
        return value->text != NULL ? KVA_OK : kva_build_memory(build);
    case KVA_LIST:
        return take_list(build, value, found);
    }
    return KVA_OK;
}

// "a.*.b": finds a, and what stands behind the star.
static json_t *find_entries(struct kva_build *build, const char *path, const char *star, enum kva_source *source)
{
    const char *head = kva_arena_printf(build->arena, "%.*s", (int)(star - path), path);
    json_t *found = head != NULL ? kva_build_find(build, head, source) : NULL;
    return json_is_array(found) || json_is_object(found) ? found : NULL;
}

// The first spelling that the config, or the person, has. *rest: what stands behind a star, NULL without one.
static json_t *find_value(struct kva_build *build, const struct kva_arch_key *key, struct kva_value *value,
                          const char **rest)
{
    json_t *found = build->n_assumed > 0 ? kva_build_find(build, key->name, &value->source) : NULL;
    *rest = NULL;
    if (found != NULL && value->source == KVA_FROM_PERSON)
        return found;
    found = NULL;
    for (unsigned i = 0; i < key->n_keys && found == NULL; i++) {
        const char *path = key->keys[i], *star = strstr(path, ".*.");
        found = star != NULL ? find_entries(build, path, star, &value->source)
                             : kva_build_find(build, path, &value->source);
        // Transformers ties by the outer config of a wrapper.
        if (found == NULL && build->wrapper != NULL && strcmp(path, "tie_word_embeddings") == 0)
            found = json_object_get(build->root, path);
        if (found != NULL) {
            value->key = path;
            *rest = star != NULL ? star + strlen(".*.") : NULL;
        }
    }
    return found;
}

// Classes test head_dim for truth, so 0 means what null means.
static bool is_derived_width(const struct kva_arch_key *key, const json_t *found)
{
    return !key->zero && strcmp(key->name, "head_dim") == 0 && json_is_integer(found) && json_integer_value(found) == 0;
}

static enum kva_status read_value(struct kva_build *build, const struct kva_arch_key *key, struct kva_value *value)
{
    value->name = key->name;
    value->type = key->type;
    value->key = key->n_keys > 0 ? key->keys[0] : key->name;
    const char *rest;
    json_t *found = find_value(build, key, value, &rest);
    enum kva_status status = KVA_OK;
    for (unsigned i = 0; i < key->n_keys && found == NULL && status == KVA_OK; i++)
        status = key->keys[i][0] == '/' ? check_parents(build, build->root, key->keys[i] + 1)
                                        : check_parents(build, build->text, key->keys[i]);
    if (status != KVA_OK)
        return status;
    if (found == NULL && key->absent == NULL)
        return kva_build_fail(build, value->key, "is missing and %s has no default for it", build->arch->model_type);
    if (found == NULL)
        status = fill(build, value, key->absent, KVA_FROM_DEFAULT);
    else if (rest != NULL)
        status = take_entries(build, value, found, rest);
    else if (key->null != NULL && (json_is_null(found) || is_derived_width(key, found)))
        status = fill(build, value, key->null, KVA_FROM_NULL);
    else
        status = take(build, key, value, found);
    if (status == KVA_OK && key->type == KVA_COUNT && value->count == 0 && !key->zero)
        status = value->rule != NULL
                     ? kva_build_fail(build, value->key, "%s = %s is 0, a positive integer was expected", value->name,
                                      value->rule)
                     : kva_build_fail(build, value->key, "expected a positive integer, found the number 0");
    return status;
}

// dtype wins over torch_dtype, the outer config over the nested one. (Transformers, configuration_utils.py.)
static enum kva_status read_dtype(struct kva_build *build)
{
    static const char *const KEYS[] = {"dtype", "torch_dtype"};
    struct kva_model *model = build->model;
    json_t *const objects[] = {build->root, build->text};
    for (size_t o = 0; o < 2 && model->dtype_key == NULL; o++)
        for (size_t k = 0; k < 2 && model->dtype_key == NULL; k++) {
            const json_t *found = json_object_get(objects[o], KEYS[k]);
            if (found == NULL || json_is_null(found))
                continue;
            const char *path = o == 0 ? KEYS[k] : kva_build_path(build, KEYS[k]);
            char buffer[KVA_JSON_FOUND];
            const char *text = json_string_value(found);
            model->dtype = text != NULL ? kva_dtype_parse(text) : KVA_DTYPE_NONE;
            if (model->dtype == KVA_DTYPE_NONE)
                return kva_fail(build->error, KVA_BAD_INPUT, build->file, path,
                                "expected an element type such as \"bfloat16\", found %s",
                                kva_json_found(found, buffer));
            model->dtype_key = kva_arena_strdup(build->arena, path);
            if (model->dtype_key == NULL)
                return kva_build_memory(build);
        }
    if (build->options.dtype != KVA_DTYPE_NONE) {
        model->dtype = build->options.dtype;
        model->dtype_key = "--dtype";
    }
    if (model->dtype_key == NULL)
        model->dtype_key = "";
    return KVA_OK;
}

enum kva_status kva_config_values(struct kva_build *build)
{
    struct kva_model *model = build->model;
    const struct kva_arch *arch = build->arch;
    model->values = kva_arena_alloc(build->arena, arch->n_keys, sizeof *model->values);
    if (model->values == NULL)
        return kva_build_memory(build);
    for (unsigned i = 0; i < arch->n_keys; i++) {
        enum kva_status status = read_value(build, &arch->keys[i], &model->values[i]);
        if (status != KVA_OK)
            return status;
        model->n_values = i + 1;  // formulas see the names before them
    }
    const struct kva_value *layers = kva_model_value(model, "layers"), *context = kva_model_value(model, "context");
    if (layers->count > KVA_MAX_LAYERS)
        return kva_build_fail(build, layers->key, "expected at most %d layers, found the number %llu", KVA_MAX_LAYERS,
                              (unsigned long long)layers->count);
    model->context_limit = context->count;
    for (unsigned i = 0; i < arch->n_checks; i++) {
        int64_t holds;
        enum kva_status status = kva_build_formula(build, arch->checks[i].holds, -1, &holds);
        if (status != KVA_OK)
            return status;
        if (!holds)
            return kva_fail(build->error, KVA_BAD_INPUT, build->file, build->text_key, "%s", arch->checks[i].text);
    }
    return read_dtype(build);
}
