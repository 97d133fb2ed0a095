// From a GGUF header to the config.json that says the same.
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "model/ggml_types.h"
#include "model/gguf_arch.h"
#include "model/gguf_file.h"

enum { MAX_PATH = 256 };

struct maker {
    struct kva_gguf_reading reading;
    const struct kva_arch *arch;  // of the model_type
    int64_t layers;
    json_t *config;
    struct kva_error *error;
};

static enum kva_status no_memory(const struct maker *maker)
{
    return kva_fail(maker->error, KVA_MACHINE, maker->reading.gguf->path, NULL,
                    "out of host memory while the header was read");
}

static enum kva_status formula(const struct maker *maker, const char *text, int64_t layer, int64_t *value)
{
    return kva_gguf_formula(&maker->reading, text, layer, value, maker->error);
}

static enum kva_status holds(const struct maker *maker, const char *text, int64_t layer, bool *result)
{
    int64_t value = 1;
    enum kva_status status = text != NULL ? formula(maker, text, layer, &value) : KVA_OK;
    *result = value != 0;
    return status;
}

// ---------------------------------------------------------------- putting a value in its place

// The member `name` of an object or, with layer >= 0, that entry of a list; made when it is not there. NULL: no memory,
// or something else is there.
static json_t *child(json_t *parent, const char *name, size_t length, int64_t layer, bool list)
{
    char key[MAX_PATH];
    if (length >= sizeof key)
        return NULL;
    memcpy(key, name, length);
    key[length] = '\0';
    json_t *found = json_object_get(parent, key);
    if (found == NULL) {
        found = list ? json_array() : json_object();
        if (json_object_set_new(parent, key, found) != 0)
            return NULL;
    }
    if (!list)
        return json_is_object(found) ? found : NULL;
    json_t *entry = json_array_get(found, (size_t)layer);
    if (entry == NULL && json_is_array(found) && json_array_size(found) == (size_t)layer) {
        entry = json_object();
        if (json_array_append_new(found, entry) != 0)
            return NULL;
    }
    return json_is_object(entry) ? entry : NULL;
}

// Steals `value`. `path`: "a", "a.b", "a[]", "a[].b.c"; [] is entry `layer`, set in the order of layers. A leading "/"
// is the outermost config, which this is.
static bool put(json_t *object, const char *path, int64_t layer, json_t *value)
{
    if (value == NULL)
        return false;
    const char *at = path + (path[0] == '/');
    for (;;) {
        const char *dot = strchr(at, '.');
        size_t length = dot != NULL ? (size_t)(dot - at) : strlen(at);
        bool list = length > 2 && strncmp(at + length - 2, "[]", 2) == 0;
        if (dot == NULL && !list)
            return json_object_set_new(object, at, value) == 0;
        if (dot == NULL) {
            char key[MAX_PATH];
            snprintf(key, sizeof key, "%.*s", (int)(length - 2), at);
            json_t *array = json_object_get(object, key);
            if (array == NULL) {
                array = json_array();
                if (json_object_set_new(object, key, array) != 0)
                    array = NULL;
            }
            if (json_is_array(array) && json_array_size(array) == (size_t)layer)
                return json_array_append_new(array, value) == 0;
            json_decref(value);
            return false;
        }
        object = child(object, at, list ? length - 2 : length, layer, list);
        if (object == NULL) {
            json_decref(value);
            return false;
        }
        at = dot + 1;
    }
}

// ---------------------------------------------------------------- values

static enum kva_status label_of(const struct maker *maker, const struct kva_gguf_entry *entry, int64_t layer,
                                const char **label)
{
    for (unsigned l = 0; l < entry->n_labels; l++) {
        bool is;
        enum kva_status status = holds(maker, entry->labels[l].when, layer, &is);
        if (status != KVA_OK)
            return status;
        if (is) {
            *label = entry->labels[l].label;
            return KVA_OK;
        }
    }
    return kva_fail(maker->error, KVA_BAD_INPUT, maker->reading.file, entry->key, "no label fits layer %lld",
                    (long long)layer);
}

static enum kva_status make_labels(const struct maker *maker, const struct kva_gguf_entry *entry, json_t **made)
{
    enum kva_status status = KVA_OK;
    *made = json_array();
    for (int64_t i = 0; i < maker->layers && status == KVA_OK; i++) {
        const char *label = "";
        status = label_of(maker, entry, i, &label);
        if (status == KVA_OK && json_array_append_new(*made, json_string(label)) != 0)
            status = no_memory(maker);
    }
    return status;
}

static enum kva_status make_layers(const struct maker *maker, const struct kva_gguf_entry *entry, json_t **made)
{
    enum kva_status status = KVA_OK;
    *made = json_array();
    for (int64_t i = 0; i < maker->layers && status == KVA_OK; i++) {
        bool is;
        status = holds(maker, entry->layers, i, &is);
        if (status == KVA_OK && is && json_array_append_new(*made, json_integer(i + entry->first)) != 0)
            status = no_memory(maker);
    }
    return status;
}

// *made NULL with KVA_OK: left out.
static enum kva_status make(const struct maker *maker, const struct kva_gguf_entry *entry, int64_t layer, json_t **made)
{
    int64_t number;
    enum kva_status status = KVA_OK;
    *made = NULL;
    if (entry->at != NULL) {
        bool is = false;
        for (layer = 0; layer < maker->layers && status == KVA_OK; layer++) {
            status = holds(maker, entry->at, layer, &is);
            if (is)
                break;
        }
        if (status != KVA_OK || !is)
            return status;
    }
    if (entry->n_labels > 0)
        return make_labels(maker, entry, made);
    if (entry->layers != NULL)
        return make_layers(maker, entry, made);
    if (entry->real != NULL) {
        const struct kva_gguf_value *value = kva_gguf_named(&maker->reading, entry->real);
        if (value == NULL)
            return KVA_OK;
        if (value->is_array || !kva_gguf_is_real(value->type))
            return kva_fail(maker->error, KVA_BAD_INPUT, maker->reading.gguf->path, value->key,
                            "a floating-point number was expected");
        *made = json_real(value->real);  // NULL: not finite
        return *made != NULL ? KVA_OK
                             : kva_fail(maker->error, KVA_BAD_INPUT, maker->reading.gguf->path, value->key,
                                        "a finite number was expected");
    }
    if (entry->count != NULL || entry->flag != NULL) {
        status = formula(maker, entry->count != NULL ? entry->count : entry->flag, layer, &number);
        if (status != KVA_OK)
            return status;
        *made = entry->count != NULL ? json_integer(number) : json_boolean(number != 0);
    } else
        *made = entry->text != NULL ? json_string(entry->text) : json_null();
    return *made != NULL ? KVA_OK : no_memory(maker);
}

// The config's own spelling of kvatlas's word; NULL: the architecture file has none, or computes it.
static const char *spelling(const struct kva_arch *arch, const char *name)
{
    for (unsigned i = 0; i < arch->n_keys; i++)
        if (strcmp(arch->keys[i].name, name) == 0)
            return arch->keys[i].n_keys > 0 ? arch->keys[i].keys[0] : NULL;
    return NULL;
}

static enum kva_status add(struct maker *maker, const struct kva_gguf_entry *entry)
{
    const char *path = entry->key != NULL ? entry->key : spelling(maker->arch, entry->name);
    bool is;
    if (path == NULL)
        return KVA_OK;
    enum kva_status status = holds(maker, entry->when, -1, &is);
    if (status != KVA_OK || !is)
        return status;
    bool each = strstr(path, "[]") != NULL;
    for (int64_t layer = each ? 0 : -1; layer < (each ? maker->layers : 0); layer++) {
        json_t *made;
        status = make(maker, entry, layer, &made);
        if (status != KVA_OK || made == NULL) {
            json_decref(made);
            return status;
        }
        if (!put(maker->config, path, layer, made))
            return no_memory(maker);
    }
    return KVA_OK;
}

static bool overridden(const struct kva_gguf_arch *arch, const struct kva_gguf_entry *entry)
{
    for (unsigned i = 0; i < arch->n_config; i++) {
        const char *own = arch->config[i].name != NULL ? arch->config[i].name : arch->config[i].key;
        if (strcmp(own, entry->name != NULL ? entry->name : entry->key) == 0)
            return true;
    }
    return false;
}

// ---------------------------------------------------------------- the whole

static enum kva_status choose_type(struct maker *maker, struct kva_atlas *atlas)
{
    const struct kva_gguf_arch *arch = maker->reading.arch;
    const char *model_type = NULL;
    for (unsigned i = 0; i < arch->n_types && model_type == NULL; i++) {
        bool is;
        enum kva_status status = holds(maker, arch->types[i].when, -1, &is);
        if (status != KVA_OK)
            return status;
        if (is)
            model_type = arch->types[i].model_type;
    }
    if (model_type == NULL)
        return kva_fail(maker->error, KVA_BAD_INPUT, maker->reading.file, "types", "none of them fits");
    enum kva_status status = kva_arch_get(atlas, model_type, &maker->arch, maker->error);
    if (status == KVA_OK && maker->arch == NULL)
        return kva_fail(maker->error, KVA_REFUSED, maker->reading.gguf->path, "general.architecture",
                        "\"%.60s\" is the model_type %.60s, for which there is no architecture file",
                        maker->reading.architecture, model_type);
    if (status == KVA_OK && !put(maker->config, "model_type", -1, json_string(model_type)))
        status = no_memory(maker);
    return status;
}

static enum kva_status count_layers(struct maker *maker)
{
    enum kva_status status = formula(maker, "layers", -1, &maker->layers);
    char key[128];
    snprintf(key, sizeof key, "%.100s.block_count", maker->reading.architecture);
    if (status == KVA_OK && (maker->layers < 1 || maker->layers > KVA_MAX_LAYERS))
        status = kva_fail(maker->error, KVA_BAD_INPUT, maker->reading.gguf->path, key,
                          "gives %lld layers, 1 to %d were expected", (long long)maker->layers, KVA_MAX_LAYERS);
    return status;
}

// general.file_type where it names the one type that nearly all weights have (llama.h, enum llama_ftype); the dtype of
// a quantized model is nowhere in the header.
static enum kva_status add_dtype(struct maker *maker)
{
    const struct kva_gguf_value *type = kva_gguf_find(maker->reading.gguf, "general.file_type");
    if (type == NULL || type->is_array || (type->type != KVA_GGUF_U32 && type->type != KVA_GGUF_I32))
        return KVA_OK;
    const char *dtype = type->integer == 0    ? "float32"
                        : type->integer == 1  ? "float16"
                        : type->integer == 32 ? "bfloat16"
                                              : NULL;
    return dtype == NULL || put(maker->config, "torch_dtype", -1, json_string(dtype)) ? KVA_OK : no_memory(maker);
}

static enum kva_status add_shapes(const struct maker *maker, struct kva_gguf *gguf)
{
    enum kva_status status = KVA_OK;
    gguf->shapes = kva_arena_alloc(gguf->arena, (size_t)maker->layers, sizeof *gguf->shapes);
    if (gguf->shapes == NULL)
        return no_memory(maker);
    gguf->n_shapes = (size_t)maker->layers;
    for (int64_t i = 0; i < maker->layers && status == KVA_OK; i++) {
        struct kva_gguf_shape *shape = &gguf->shapes[i];
        const struct {
            const char *name;
            int64_t *value;
        } parts[] = {{"k_dim", &shape->k_dim},
                     {"v_dim", &shape->v_dim},
                     {"k_dim_swa", &shape->k_dim_swa},
                     {"v_dim_swa", &shape->v_dim_swa}};
        status = formula(maker, "kv_heads", i, &shape->kv_heads);
        // without heads, as in Mamba, nothing says how wide they would be
        for (size_t p = 0; p < sizeof parts / sizeof *parts && status == KVA_OK && shape->kv_heads > 0; p++)
            status = formula(maker, parts[p].name, i, parts[p].value);
        if (status == KVA_OK)
            status = holds(maker, "mla", i, &shape->mla);
    }
    return status;
}

static bool is_named(const struct kva_gguf_arch *arch, const char *key)
{
    for (unsigned i = 0; i < arch->n_keys; i++)
        if (arch->keys[i].key != NULL && strcmp(arch->keys[i].key, key) == 0)
            return true;
    for (unsigned i = 0; i < arch->n_inert; i++) {
        size_t length = strlen(arch->inert[i]);
        if (length > 0 && arch->inert[i][length - 1] == '*' ? strncmp(arch->inert[i], key, length - 1) == 0
                                                            : strcmp(arch->inert[i], key) == 0)
            return true;
    }
    return false;
}

static void mark_strangers(const struct kva_gguf_reading *reading, struct kva_gguf *gguf)
{
    size_t length = strlen(reading->architecture);
    for (size_t i = 0; i < gguf->n_values; i++) {
        const char *key = gguf->values[i].key;
        if (strncmp(key, reading->architecture, length) != 0 || key[length] != '.')
            continue;
        gguf->values[i].stranger =
            !is_named(reading->arch, key + length + 1) && !is_named(reading->common, key + length + 1);
    }
}

enum kva_status kva_gguf_config(struct kva_atlas *atlas, struct kva_gguf *gguf, json_t **config,
                                struct kva_error *error)
{
    struct maker maker = {.config = json_object(), .error = error};
    *config = NULL;
    enum kva_status status = kva_gguf_reading_open(atlas, gguf, &maker.reading, error);
    if (status == KVA_OK)
        status = count_layers(&maker);
    if (status == KVA_OK)
        status = choose_type(&maker, atlas);
    if (status == KVA_OK)
        status = add_dtype(&maker);
    const struct kva_gguf_arch *own = maker.reading.arch, *common = maker.reading.common;
    for (unsigned i = 0; status == KVA_OK && i < common->n_config; i++)
        if (!overridden(own, &common->config[i]))
            status = add(&maker, &common->config[i]);
    for (unsigned i = 0; status == KVA_OK && i < own->n_config; i++)
        status = add(&maker, &own->config[i]);
    if (status == KVA_OK)
        status = add_shapes(&maker, gguf);
    if (status == KVA_OK)
        mark_strangers(&maker.reading, gguf);
    kva_gguf_reading_close(&maker.reading);
    if (status == KVA_OK)
        *config = maker.config;
    else
        json_decref(maker.config);
    return status;
}
