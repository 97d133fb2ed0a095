// A GGUF header from its keys as JSON: integers are u32, reals f32, lists arrays of i32.
#ifndef TEST_GGUF_META_H
#define TEST_GGUF_META_H

#include <check.h>
#include <jansson.h>
#include <stdio.h>

#include "gguf_writer.h"

static inline void put_meta(struct writer *w, const char *key, const json_t *value)
{
    if (json_is_string(value))
        put_string(w, key, json_string_value(value));
    else if (json_is_real(value))
        put_f32(w, key, (float)json_real_value(value));
    else if (json_is_array(value)) {
        put_array(w, key, KVA_GGUF_I32, json_array_size(value));
        for (size_t i = 0; i < json_array_size(value); i++) {
            const json_t *item = json_array_get(value, i);
            put_number(w, (uint64_t)(json_is_integer(item) ? json_integer_value(item) : json_is_true(item)), 4);
        }
    } else
        put_u32(w, key, (uint32_t)(json_is_integer(value) ? json_integer_value(value) : json_is_true(value)));
}

static inline void save_meta(json_t *meta, const char *path)
{
    const char *key;
    json_t *value;
    struct writer w;
    start(&w, 3);
    json_object_foreach(meta, key, value) put_meta(&w, key, value);
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(w.bytes, 1, w.length, file), w.length);
    fclose(file);
    free(w.bytes);
}

#endif
