#include "verify/log_metadata.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "model/gguf_arch.h"

enum { MOST_PAIRS = 256, MOST_ITEMS = 64 };

static const struct {
    const char *name;
    enum kva_gguf_type type;
    unsigned bytes;
} TYPES[] = {{"u8", KVA_GGUF_U8, 1},   {"i8", KVA_GGUF_I8, 1},   {"u16", KVA_GGUF_U16, 2},  {"i16", KVA_GGUF_I16, 2},
             {"u32", KVA_GGUF_U32, 4}, {"i32", KVA_GGUF_I32, 4}, {"u64", KVA_GGUF_U64, 8},  {"i64", KVA_GGUF_I64, 8},
             {"f32", KVA_GGUF_F32, 4}, {"f64", KVA_GGUF_F64, 8}, {"bool", KVA_GGUF_BOOL, 1}};
enum { N_TYPES = sizeof TYPES / sizeof *TYPES };

// Little-endian, as the file is.
static void put(struct kva_text *out, uint64_t value, unsigned bytes)
{
    char digits[8];
    for (unsigned i = 0; i < bytes; i++)
        digits[i] = (char)(value >> 8 * i & 0xff);
    kva_text_add(out, digits, bytes);
}

static void put_text(struct kva_text *out, const char *text)
{
    put(out, strlen(text), 8);
    kva_text_add(out, text, strlen(text));
}

static size_t type_of(const char *name, size_t length)
{
    size_t t = 0;
    while (t < N_TYPES && (strlen(TYPES[t].name) != length || strncmp(TYPES[t].name, name, length) != 0))
        t++;
    return t;
}

// One number or flag, up to `end`. false: it is none.
static bool put_scalar(struct kva_text *out, size_t type, const char *value, char **end)
{
    uint64_t bits = 0;
    if (TYPES[type].type == KVA_GGUF_BOOL) {
        bits = strncmp(value, "true", 4) == 0;
        *end = (char *)value + (bits ? 4 : 5);
        if (!bits && strncmp(value, "false", 5) != 0)
            return false;
    } else if (TYPES[type].type == KVA_GGUF_F32) {
        const float real = strtof(value, end);
        uint32_t word;
        memcpy(&word, &real, sizeof word);
        bits = word;
    } else if (TYPES[type].type == KVA_GGUF_F64) {
        const double real = strtod(value, end);
        memcpy(&bits, &real, sizeof bits);
    } else
        bits = *value == '-' ? (uint64_t)strtoll(value, end, 10) : strtoull(value, end, 10);
    put(out, bits, TYPES[type].bytes);
    return *end != value;
}

// "[0, 0, 4]" of type "arr[i32,3]". false: it is cut off, or of another type.
static bool put_array(struct kva_text *out, const char *type, const char *value)
{
    const size_t of = type_of(type + 4, strcspn(type + 4, ","));
    struct kva_text items = {0};
    uint64_t n = 0;
    bool whole = of < N_TYPES && *value == '[';
    for (char *at = (char *)value + 1; whole && n < MOST_ITEMS; n++) {
        whole = put_scalar(&items, of, at, &at);
        if (whole && *at == ']') {
            put(out, KVA_GGUF_ARRAY, 4);
            put(out, TYPES[of].type, 4);
            put(out, n + 1, 8);
            kva_text_add(out, items.bytes, items.length);
            out->failed = out->failed || items.failed;
            kva_text_free(&items);
            return true;
        }
        whole = whole && *at == ',';
        at += strspn(at, ", ");
    }
    kva_text_free(&items);
    return false;
}

static bool put_value(struct kva_text *out, const char *type, const char *value)
{
    char *end;
    if (strncmp(type, "arr[", 4) == 0)
        return put_array(out, type, value);
    if (strcmp(type, "str") == 0) {
        put(out, KVA_GGUF_TEXT, 4);
        put_text(out, value);
        return true;
    }
    const size_t t = type_of(type, strlen(type));
    if (t == N_TYPES)
        return false;
    put(out, TYPES[t].type, 4);
    return put_scalar(out, t, value, &end);
}

void kva_log_metadata_take(struct kva_log_metadata *metadata, uint64_t index, const char *key, const char *type,
                           const char *value)
{
    struct kva_text pair = {0};
    if (index == 0) {
        kva_log_metadata_free(metadata);
        *metadata = (struct kva_log_metadata){0};
    }
    if (metadata->n == MOST_PAIRS || strncmp(key, "tokenizer.", 10) == 0)
        return;
    if (strcmp(key, "general.name") == 0)
        snprintf(metadata->name, sizeof metadata->name, "%s", value);
    put_text(&pair, key);
    if (put_value(&pair, type, value)) {
        kva_text_add(&metadata->pairs, pair.bytes, pair.length);
        metadata->pairs.failed = metadata->pairs.failed || pair.failed;
        metadata->n++;
    } else if (strncmp(key, "general.", 8) != 0 && metadata->cut[0] == '\0')
        snprintf(metadata->cut, sizeof metadata->cut, "%s", key);
    kva_text_free(&pair);
}

void kva_log_metadata_free(struct kva_log_metadata *metadata)
{
    kva_text_free(&metadata->pairs);
}

static enum kva_status config_of(struct kva_atlas *atlas, const struct kva_log_metadata *metadata, char **config,
                                 struct kva_error *error)
{
    struct kva_text file = {0};
    struct kva_gguf *gguf = NULL;
    json_t *json = NULL;
    kva_text_add(&file, "GGUF", 4);
    put(&file, 3, 4);  // version
    put(&file, 0, 8);  // tensors
    put(&file, metadata->n, 8);
    kva_text_add(&file, metadata->pairs.bytes, metadata->pairs.length);
    enum kva_status status = file.failed || metadata->pairs.failed
                                 ? kva_fail_memory(error, file.length)
                                 : kva_gguf_parse("the log", file.bytes, file.length, file.length, &gguf, error);
    if (status == KVA_OK)
        status = kva_gguf_config(atlas, gguf, &json, error);
    if (status == KVA_OK && (*config = json_dumps(json, 0)) == NULL)
        status = kva_fail_memory(error, file.length);
    if (json != NULL)
        json_decref(json);
    if (gguf != NULL)
        kva_gguf_close(gguf);
    kva_text_free(&file);
    return status;
}

enum kva_status kva_log_metadata_model(struct kva_atlas *atlas, const struct kva_log_metadata *metadata,
                                       const struct kva_model_options *how, struct kva_model **model,
                                       struct kva_error *error)
{
    char *config = NULL;
    if (metadata->cut[0] != '\0')
        return kva_fail(error, KVA_BAD_INPUT, NULL, metadata->cut,
                        "the log cuts off this value of the model's header; name the model with --model MODEL");
    enum kva_status status = config_of(atlas, metadata, &config, error);
    if (status == KVA_OK)
        status = kva_model_from_json(atlas, config, strlen(config),
                                     *metadata->name != '\0' ? metadata->name : "the log", how, model, error);
    free(config);
    return status;
}
