#include "report/json.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

json_t *kva_json_count(uint64_t count)
{
    return count <= INT64_MAX ? json_integer((json_int_t)count) : json_null();
}

json_t *kva_json_text(const char *text)
{
    if (text == NULL)
        return json_null();
    json_t *made = json_string(text);
    if (made != NULL)
        return made;
    // not UTF-8, as a path may be: what cannot be written becomes '?'
    char *clean = strdup(text);
    if (clean == NULL)
        return NULL;
    for (char *at = clean; *at != '\0'; at++)
        if ((unsigned char)*at >= 0x80)
            *at = '?';
    made = json_string(clean);
    free(clean);
    return made;
}

void kva_json_set(json_t *object, const char *key, json_t *value, bool *failed)
{
    if (object == NULL || value == NULL) {
        json_decref(value);
        *failed = true;
    } else if (json_object_set_new(object, key, value) != 0)
        *failed = true;
}

void kva_json_append(json_t *array, json_t *value, bool *failed)
{
    if (array == NULL || value == NULL) {
        json_decref(value);
        *failed = true;
    } else if (json_array_append_new(array, value) != 0)
        *failed = true;
}

json_t *kva_json_texts(const char *const *texts, size_t n)
{
    bool failed = false;
    json_t *array = json_array();
    for (size_t i = 0; i < n; i++)
        kva_json_append(array, kva_json_text(texts[i]), &failed);
    if (!failed)
        return array;
    json_decref(array);
    return NULL;
}

json_t *kva_json_dtype(enum kva_dtype dtype)
{
    return dtype == KVA_DTYPE_NONE ? json_null() : json_string(kva_dtype_name(dtype));
}

json_t *kva_json_layer(int32_t layer)
{
    return layer < 0 ? json_null() : json_integer(layer);
}

json_t *kva_json_model(const struct kva_model *model)
{
    bool failed = false;
    json_t *object = json_object();
    kva_json_set(object, "id", kva_json_text(model->id), &failed);
    kva_json_set(object, "source", kva_json_text(model->source), &failed);
    kva_json_set(object, "model_type", kva_json_text(model->model_type), &failed);
    kva_json_set(object, "architecture", kva_json_text(model->architecture), &failed);
    kva_json_set(object, "family", kva_json_text(model->family), &failed);
    kva_json_set(object, "context_limit", kva_json_count(model->context_limit > 0 ? model->context_limit : KVA_UNKNOWN),
                 &failed);
    kva_json_set(object, "dtype", kva_json_dtype(model->dtype), &failed);
    kva_json_set(object, "parameters", kva_json_count(model->parameters), &failed);
    kva_json_set(object, "weight_bytes", kva_json_count(model->weight_bytes), &failed);
    kva_json_set(object, "weight_source", kva_json_text(model->weight_source), &failed);
    if (!failed)
        return object;
    json_decref(object);
    return NULL;
}

enum kva_status kva_json_write(json_t *value, struct kva_text *out, struct kva_error *error)
{
    // measured and then written into memory of ours: json_dumps loses keys when it runs out of memory half way
    static const size_t FLAGS = JSON_INDENT(2) | JSON_REAL_PRECISION(12);
    size_t size = value != NULL ? json_dumpb(value, NULL, 0, FLAGS) : 0;
    char *bytes = size > 0 ? malloc(size) : NULL;
    bool whole = bytes != NULL && json_dumpb(value, bytes, size, FLAGS) == size;
    if (whole) {
        kva_text_add(out, bytes, size);
        kva_text_add(out, "\n", 1);
    }
    free(bytes);
    json_decref(value);
    return !whole || out->failed ? kva_fail_memory(error, size) : KVA_OK;
}
