#include "model/quantization.h"

#include <fnmatch.h>
#include <regex.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "model/atlas.h"
#include "model/schema_words.h"
#include "model/yaml.h"

struct condition {
    char *key, *is;
};

struct method {
    char *method, *about, *only, *kept_dtype;
    struct condition *when;
    unsigned n_when;
    uint32_t bits, group, scale_bytes, outer_group, outer_bytes, block_bytes, row_bytes, column_bytes, tensor_bytes;
    char **bits_keys, **group_keys, **skip_keys;
    unsigned n_bits_keys, n_group_keys, n_skip_keys;
    char *block_key;
    bool zeros;
    char **references;
    unsigned n_references;
};

struct file {
    struct method *methods;
    unsigned n_methods;
};

#define NUMBER(member) CYAML_FIELD_UINT(#member, CYAML_FLAG_OPTIONAL, struct method, member)
#define KEYS(member) NAMES(#member, CYAML_FLAG_OPTIONAL, struct method, member, n_##member, 1)
static const cyaml_schema_field_t CONDITION_FIELDS[] = {
    TEXT("key", struct condition, key),
    TEXT("is", struct condition, is),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t CONDITION = MAPPING(struct condition, CONDITION_FIELDS);
static const cyaml_schema_field_t METHOD_FIELDS[] = {
    TEXT("method", struct method, method),
    TEXT("about", struct method, about),
    TEXT_OPTIONAL("only", struct method, only),
    TEXT_OPTIONAL("kept_dtype", struct method, kept_dtype),
    LIST_OPTIONAL("when", struct method, when, n_when, &CONDITION),
    NUMBER(bits),
    NUMBER(group),
    NUMBER(scale_bytes),
    NUMBER(outer_group),
    NUMBER(outer_bytes),
    NUMBER(block_bytes),
    NUMBER(row_bytes),
    NUMBER(column_bytes),
    NUMBER(tensor_bytes),
    KEYS(bits_keys),
    KEYS(group_keys),
    KEYS(skip_keys),
    TEXT_OPTIONAL("block_key", struct method, block_key),
    FLAG_OPTIONAL("zeros", struct method, zeros),
    NAMES("references", CYAML_FLAG_DEFAULT, struct method, references, n_references, 1),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t METHOD = MAPPING(struct method, METHOD_FIELDS);
static const cyaml_schema_field_t FILE_FIELDS[] = {
    LIST("methods", struct file, methods, n_methods, &METHOD),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t SCHEMA = DOCUMENT(struct file, FILE_FIELDS);

// A method with this config's numbers.
struct kva_quantization {
    const struct method *method;
    uint64_t bits, group;  // group 0: no groups; UINT64_MAX: a whole row
    uint64_t block_rows, block_columns;
    const char **skipped;  // modules that stay as they are
    size_t n_skipped;
    regex_t *patterns;  // of such modules, "re:..."
    size_t n_patterns;
};

enum { MOST_SKIPPED = 4096, MOST_PATTERNS = 64, PATTERN = 512 };

// ---------------------------------------------------------------- the file

static void release(void *kept)
{
    kva_yaml_free(&SCHEMA, kept);
}

static enum kva_status check(struct kva_atlas *atlas, const struct kva_atlas_file *source, const void *loaded,
                             struct kva_error *error)
{
    const struct file *file = loaded;
    for (unsigned i = 0; i < file->n_methods; i++) {
        const struct method *method = &file->methods[i];
        const char *missing;
        enum kva_status status =
            kva_atlas_missing_reference(atlas, method->references, method->n_references, &missing, error);
        if (status == KVA_OK && missing != NULL)
            status = kva_fail(error, KVA_BAD_INPUT, source->name, "references",
                              "'%s' is not the id of a reference in references.yaml", missing);
        if (status == KVA_OK && (method->bits > 0) == (method->n_bits_keys > 0))
            status = kva_fail(error, KVA_BAD_INPUT, source->name, method->method, "needs either bits or bits_keys");
        if (status != KVA_OK)
            return status;
    }
    return KVA_OK;
}

static const struct kva_yaml_kept KEPT = {"quantization", "quantization.yaml", &SCHEMA, release, check};

// ---------------------------------------------------------------- what the config says

// "config_groups.group_0.weights.num_bits"; NULL: absent, or null.
static const json_t *find(const json_t *config, const char *path)
{
    while (config != NULL && *path != '\0') {
        char key[64];
        const size_t length = strcspn(path, ".");
        if (length >= sizeof key)
            return NULL;
        memcpy(key, path, length);
        key[length] = '\0';
        config = json_object_get(config, key);
        path += length + (path[length] == '.');
    }
    return config != NULL && !json_is_null(config) ? config : NULL;
}

static bool holds(const json_t *config, const struct condition *condition)
{
    const json_t *value = find(config, condition->key);
    if (strcmp(condition->is, "absent") == 0)
        return value == NULL;
    if (strcmp(condition->is, "*") == 0)
        return value != NULL;
    if (strcmp(condition->is, "false") == 0)
        return value == NULL || json_is_false(value);
    if (strcmp(condition->is, "true") == 0)
        return json_is_true(value);
    return json_is_string(value) && strcmp(json_string_value(value), condition->is) == 0;
}

static const struct method *choose(const struct file *file, const json_t *config)
{
    const char *name = json_string_value(find(config, "quant_method"));
    for (unsigned i = 0; name != NULL && i < file->n_methods; i++) {
        const struct method *method = &file->methods[i];
        bool all = strcmp(method->method, name) == 0;
        for (unsigned c = 0; all && c < method->n_when; c++)
            all = holds(config, &method->when[c]);
        if (all)
            return method;
    }
    return NULL;
}

static bool read_count(const json_t *config, char *const *keys, unsigned n_keys, int64_t *count)
{
    for (unsigned k = 0; k < n_keys; k++) {
        const json_t *value = find(config, keys[k]);
        if (json_is_integer(value)) {
            *count = json_integer_value(value);
            return true;
        }
    }
    return false;
}

// The numbers that a method takes from the config. False: one is missing, or is none.
static bool read_numbers(const json_t *config, struct kva_quantization *made)
{
    const struct method *method = made->method;
    int64_t count = 0;
    made->bits = method->bits;
    made->group = method->group;
    if (method->n_bits_keys > 0) {
        if (!read_count(config, method->bits_keys, method->n_bits_keys, &count) || count < 1 || count > 16)
            return false;
        made->bits = (uint64_t)count;
    }
    if (method->n_group_keys > 0) {
        if (!read_count(config, method->group_keys, method->n_group_keys, &count) || count < -1 || count == 0)
            return false;
        made->group = count == -1 ? UINT64_MAX : (uint64_t)count;
    }
    if (method->block_key == NULL)
        return true;
    const json_t *block = find(config, method->block_key);
    const json_int_t rows = json_integer_value(json_array_get(block, 0)),
                     columns = json_integer_value(json_array_get(block, 1));
    made->block_rows = (uint64_t)rows;
    made->block_columns = (uint64_t)columns;
    return json_array_size(block) == 2 && rows > 0 && columns > 0;
}

static bool is_repeat(char c)
{
    return c == '*' || c == '+' || c == '?';
}

// A pattern of Python's `re` in the words of regcomp, to be met from the beginning as re.match does. False: it says
// something that the two do not read alike, or that regcomp may need any amount of memory for (repetitions in braces).
static bool translate(const char *pattern, char out[static PATTERN])
{
    size_t n = (size_t)snprintf(out, PATTERN, "^(");
    bool in_class = false;
    for (const char *at = pattern; *at != '\0'; at++) {
        const char one[] = {*at, '\0'}, escaped[] = {'\\', at[1], '\0'}, *part = one;
        in_class = *at == '[' || (in_class && *at != ']');
        if (*at == '\\' && !in_class && at[1] == 'd')
            part = "[0-9]";
        else if (*at == '\\' && !in_class && at[1] == 'w')
            part = "[A-Za-z0-9_]";
        else if (*at == '\\' && !in_class && at[1] != '\0' && strchr(".-_[](){}*+?^$|\\", at[1]) != NULL)
            part = escaped;
        else if (strncmp(at, "(?:", 3) == 0)
            part = "(";
        else if (strchr("\\{", *at) != NULL || strncmp(at, "(?", 2) == 0 || (is_repeat(*at) && is_repeat(at[1])))
            return false;
        at += *at == '\\' ? 1 : strncmp(at, "(?:", 3) == 0 ? 2 : 0;
        n += (size_t)snprintf(out + n, PATTERN - n, "%s", part);
        if (n >= PATTERN)
            return false;
    }
    n += (size_t)snprintf(out + n, PATTERN - n, ")");
    return n < PATTERN;
}

// False: nobody can say which modules it means.
static bool add_pattern(struct kva_quantization *made, const char *pattern)
{
    char translated[PATTERN];
    if (made->n_patterns == MOST_PATTERNS || !translate(pattern, translated) ||
        regcomp(&made->patterns[made->n_patterns], translated, REG_EXTENDED | REG_NOSUB) != 0)
        return false;
    made->n_patterns++;
    return true;
}

// *readable false: a list is too long, or holds a pattern that is not understood.
static enum kva_status read_skipped(struct kva_build *build, const json_t *config, struct kva_quantization *made,
                                    bool *readable)
{
    size_t room = 0;
    for (unsigned k = 0; k < made->method->n_skip_keys; k++)
        room += json_array_size(find(config, made->method->skip_keys[k]));
    *readable = room <= MOST_SKIPPED;
    made->skipped = kva_arena_alloc(build->arena, kva_min(room, MOST_SKIPPED) + 1, sizeof *made->skipped);
    made->patterns = kva_arena_alloc(build->arena, MOST_PATTERNS, sizeof *made->patterns);
    if (made->skipped == NULL || made->patterns == NULL)
        return kva_build_memory(build);
    for (unsigned k = 0; *readable && k < made->method->n_skip_keys; k++) {
        const json_t *list = find(config, made->method->skip_keys[k]);
        for (size_t i = 0; *readable && i < json_array_size(list); i++) {
            const char *name = json_string_value(json_array_get(list, i));
            if (name == NULL || *name == '\0')
                continue;
            if (strncmp(name, "re:", 3) == 0) {
                *readable = add_pattern(made, name + 3);
                continue;
            }
            made->skipped[made->n_skipped] = kva_arena_strdup(build->arena, name);
            if (made->skipped[made->n_skipped++] == NULL)
                return kva_build_memory(build);
        }
    }
    return KVA_OK;
}

void kva_quantization_close(struct kva_quantization *quantization)
{
    for (size_t p = 0; quantization != NULL && p < quantization->n_patterns; p++)
        regfree(&quantization->patterns[p]);
    if (quantization != NULL)
        quantization->n_patterns = 0;
}

enum kva_status kva_quantization_read(struct kva_build *build, const json_t *config,
                                      struct kva_quantization **quantization)
{
    const void *file;
    bool readable;
    *quantization = NULL;
    enum kva_status status = kva_yaml_keep(build->atlas, &KEPT, &file, build->error);
    if (status != KVA_OK || file == NULL)
        return status;
    const struct method *method = choose(file, config);
    if (method == NULL)
        return KVA_OK;
    struct kva_quantization *made = kva_arena_alloc(build->arena, 1, sizeof *made);
    if (made == NULL)
        return kva_build_memory(build);
    made->method = method;
    if (!read_numbers(config, made))
        return KVA_OK;
    status = read_skipped(build, config, made, &readable);
    if (status == KVA_OK && readable)
        *quantization = made;
    else
        kva_quantization_close(made);
    return status;
}

enum kva_dtype kva_quantization_dtype(const struct kva_quantization *quantization)
{
    return quantization != NULL && quantization->method->kept_dtype != NULL
               ? kva_dtype_parse(quantization->method->kept_dtype)
               : KVA_DTYPE_NONE;
}

const char *kva_quantization_words(struct kva_build *build, const struct kva_quantization *quantization)
{
    return kva_arena_printf(build->arena, "config, weights in %s (%s)", quantization->method->method,
                            quantization->method->about);
}

// ---------------------------------------------------------------- which tensors

// "model.layers.*.self_attn*", "lm_head", "model.layers.3.mlp": the module itself or one that holds it.
static bool names(const char *pattern, const char *module)
{
    char whole[512];
    if (strchr(pattern, '*') != NULL) {
        snprintf(whole, sizeof whole, "%s.*", pattern);
        return fnmatch(pattern, module, 0) == 0 || fnmatch(whole, module, 0) == 0;
    }
    const size_t length = strlen(pattern);
    for (const char *at = strstr(module, pattern); at != NULL; at = strstr(at + 1, pattern))
        if ((at == module || at[-1] == '.') && (at[length] == '.' || at[length] == '\0'))
            return true;
    return false;
}

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

static bool converts(const struct kva_quantization *quantization, const char *name, const char *weight_class,
                     const struct kva_tensor *tensor)
{
    if (tensor->layer < 0 || tensor->n_dims < 2 || ends_with(name, "bias") || strstr(name, ".router.") != NULL ||
        ends_with(name, ".gate.weight") || ends_with(name, "_expert_gate.weight") ||
        ends_with(name, ".indexer.weights_proj.weight"))
        return false;
    const bool of_state = strcmp(weight_class, "state") == 0;
    if (!of_state && strcmp(weight_class, "attention") != 0 && strcmp(weight_class, "feed-forward") != 0)
        return false;
    if (of_state && (tensor->n_dims != 2 || !ends_with(name, ".weight")))  // convolutions and decays stay
        return false;
    if (quantization->method->only != NULL && strstr(name, quantization->method->only) == NULL)
        return false;
    char module[512];
    snprintf(module, sizeof module, "%.*s", (int)(strlen(name) - (ends_with(name, ".weight") ? strlen(".weight") : 0)),
             name);
    for (size_t s = 0; s < quantization->n_skipped; s++)
        if (names(quantization->skipped[s], module))
            return false;
    for (size_t p = 0; p < quantization->n_patterns; p++)
        if (regexec(&quantization->patterns[p], module, 0, NULL, 0) == 0)
            return false;
    return true;
}

bool kva_quantization_varies(const struct kva_quantization *quantization)
{
    return quantization != NULL && (quantization->n_skipped > 0 || quantization->n_patterns > 0);
}

static uint64_t ceil_div(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

// The formula at the head of data/quantization.yaml, for `n` matrices.
static bool matrix_bytes(const struct kva_quantization *q, uint64_t n, uint64_t rows, uint64_t columns, uint64_t *bytes)
{
    const struct method *m = q->method;
    uint64_t elements, bits, groups = 0, zeros, total;
    if (!kva_mul(rows, columns, &elements) || !kva_mul(elements, q->bits, &bits))
        return false;
    total = ceil_div(bits, 8);
    if (q->group > 0 && !kva_mul(rows, q->group == UINT64_MAX ? 1 : ceil_div(columns, q->group), &groups))
        return false;
    if (!kva_mul(groups, m->zeros ? q->bits : 0, &zeros) || !kva_add(total, ceil_div(zeros, 8), &total) ||
        !kva_add_product(&total, groups, m->scale_bytes) || !kva_add_product(&total, rows, m->row_bytes) ||
        !kva_add_product(&total, columns, m->column_bytes) || !kva_add(total, m->tensor_bytes, &total))
        return false;
    if (m->outer_group > 0 && !kva_add_product(&total, ceil_div(elements, m->outer_group), m->outer_bytes))
        return false;
    if (q->block_rows > 0 &&
        !kva_add_product(&total, ceil_div(rows, q->block_rows) * ceil_div(columns, q->block_columns), m->block_bytes))
        return false;
    return kva_mul(total, n, bytes);
}

bool kva_quantization_bytes(const struct kva_quantization *quantization, const char *prefix, const char *name,
                            const char *weight_class, struct kva_tensor *tensor)
{
    char whole[512];
    uint64_t matrices = 1;
    if (quantization == NULL)
        return true;
    prefix = kva_tensor_prefix(prefix, &name);
    const char *brace = strstr(name, "{i}");
    if (brace != NULL)
        snprintf(whole, sizeof whole, "%s%.*s%d%s", prefix, (int)(brace - name), name, (int)tensor->layer, brace + 3);
    else
        snprintf(whole, sizeof whole, "%s%s", prefix, name);
    if (!converts(quantization, whole, weight_class, tensor))
        return true;
    for (uint32_t d = 0; d + 2 < tensor->n_dims; d++)
        if (!kva_mul(matrices, tensor->dims[d], &matrices))
            return false;
    return matrix_bytes(quantization, matrices, tensor->dims[tensor->n_dims - 2], tensor->dims[tensor->n_dims - 1],
                        &tensor->bytes);
}
