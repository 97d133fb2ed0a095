#include "model/gguf_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "model/ggml_types.h"

enum {
    MAX_VALUES = 65536,
    MAX_NAME = 1024,      // bytes of a key or a tensor's name; ggml's own limit for tensors is 64
    MAX_TEXT = 1024,      // a text as long as this is stepped over
    MAX_ITEMS = 1 << 20,  // items kept of all arrays together
    MAX_ALIGNMENT = 1 << 20,
    DEFAULT_ALIGNMENT = 32,
    // the least that a key and a tensor info take in the file
    LEAST_VALUE = 8 + 4 + 1,
    LEAST_TENSOR = 8 + 4 + 4 + 8,
};

static const uint8_t SIZES[KVA_GGUF_N_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
static const char *const TYPE_NAMES[KVA_GGUF_N_TYPES] = {"u8",   "i8",   "u16",   "i16", "u32", "i32", "f32",
                                                         "bool", "text", "array", "u64", "i64", "f64"};

#define FAIL(file, key, ...) kva_fail((file)->error, KVA_BAD_INPUT, (file)->name, key, __VA_ARGS__)

// ---------------------------------------------------------------- numbers and texts

static enum kva_status read_number(struct kva_gguf_file *file, size_t bytes, const char *what, const char *key,
                                   uint64_t *number)
{
    enum kva_status status = kva_cursor_want(file->cursor, bytes, what, key);
    if (status != KVA_OK)
        return status;
    *number = kva_little_endian(kva_cursor_at(file->cursor), bytes);
    file->cursor->position += bytes;
    return KVA_OK;
}

// A name of a key or tensor, as text without a zero in it.
static enum kva_status read_name(struct kva_gguf_file *file, const char *what, uint64_t index, const char **name)
{
    char place[64];
    uint64_t length;
    snprintf(place, sizeof place, "the name of %s %llu", what, (unsigned long long)index);
    enum kva_status status = read_number(file, 8, place, NULL, &length);
    if (status != KVA_OK)
        return status;
    if (length == 0 || length > MAX_NAME)
        return FAIL(file, NULL, "%s is %llu bytes long, 1 to %d were expected", place, (unsigned long long)length,
                    MAX_NAME);
    status = kva_cursor_want(file->cursor, length, place, NULL);
    if (status != KVA_OK)
        return status;
    const char *bytes = (const char *)kva_cursor_at(file->cursor);
    if (memchr(bytes, '\0', length) != NULL)
        return FAIL(file, NULL, "%s holds a zero byte", place);
    *name = kva_arena_strndup(file->arena, bytes, length);
    file->cursor->position += length;
    return *name != NULL ? KVA_OK : kva_fail_memory(file->error, length);
}

static int64_t to_integer(enum kva_gguf_type type, uint64_t bits)
{
    switch (type) {
    case KVA_GGUF_I8:
        return (int8_t)bits;
    case KVA_GGUF_I16:
        return (int16_t)bits;
    case KVA_GGUF_I32:
        return (int32_t)bits;
    case KVA_GGUF_I64:
        return (int64_t)bits;
    case KVA_GGUF_BOOL:
        return bits != 0;
    default:
        return bits > INT64_MAX ? INT64_MAX : (int64_t)bits;
    }
}

static double to_real(enum kva_gguf_type type, uint64_t bits)
{
    uint32_t half = (uint32_t)bits;
    float single;
    double whole;
    memcpy(&single, &half, sizeof single);
    memcpy(&whole, &bits, sizeof whole);
    return type == KVA_GGUF_F32 ? (double)single : whole;
}

// ---------------------------------------------------------------- values

static enum kva_status read_text(struct kva_gguf_file *file, struct kva_gguf_value *value)
{
    enum kva_status status = read_number(file, 8, "the length of a text", value->key, &value->length);
    if (status != KVA_OK)
        return status;
    if (value->length >= MAX_TEXT)
        return kva_cursor_skip(file->cursor, value->length, "a text", value->key);
    status = kva_cursor_want(file->cursor, value->length, "a text", value->key);
    if (status != KVA_OK)
        return status;
    const char *bytes = value->length > 0 ? (const char *)kva_cursor_at(file->cursor) : "";
    value->text = kva_arena_strndup(file->arena, bytes, strnlen(bytes, value->length));
    file->cursor->position += value->length;
    return value->text != NULL ? KVA_OK : kva_fail_memory(file->error, value->length);
}

// Hundreds of thousands of short texts: the whole of them is walked, so the common case stays inside the window.
static enum kva_status skip_texts(struct kva_gguf_file *file, const struct kva_gguf_value *value)
{
    struct kva_cursor *cursor = file->cursor;
    for (uint64_t i = 0; i < value->length; i++) {
        uint64_t ready = kva_cursor_ready(cursor), length;
        if (ready >= 8) {
            length = kva_little_endian(kva_cursor_at(cursor), 8);
            if (length <= ready - 8) {
                cursor->position += 8 + length;
                continue;
            }
        }
        enum kva_status status = read_number(file, 8, "the length of a text", value->key, &length);
        if (status == KVA_OK)
            status = kva_cursor_skip(cursor, length, "a text", value->key);
        if (status != KVA_OK)
            return status;
    }
    return KVA_OK;
}

static enum kva_status read_items(struct kva_gguf_file *file, struct kva_gguf_value *value)
{
    uint64_t size = SIZES[value->type];
    file->kept_items += value->length;
    if (file->kept_items > MAX_ITEMS)
        return FAIL(file, value->key, "the arrays up to this one have more than %d items", MAX_ITEMS);
    int64_t *items = kva_arena_alloc(file->arena, value->length + 1, sizeof *items);
    if (items == NULL)
        return kva_fail_memory(file->error, value->length * sizeof *items);
    enum kva_status status = kva_cursor_want(file->cursor, value->length * size, "an array", value->key);
    if (status != KVA_OK)
        return status;
    const unsigned char *bytes = value->length > 0 ? kva_cursor_at(file->cursor) : NULL;
    for (uint64_t i = 0; i < value->length; i++)
        items[i] = to_integer(value->type, kva_little_endian(bytes + i * size, size));
    file->cursor->position += value->length * size;
    value->items = items;
    return KVA_OK;
}

static enum kva_status read_array(struct kva_gguf_file *file, struct kva_gguf_value *value)
{
    uint64_t type, bytes;
    enum kva_status status = read_number(file, 4, "an array", value->key, &type);
    if (status == KVA_OK)
        status = read_number(file, 8, "an array", value->key, &value->length);
    if (status != KVA_OK)
        return status;
    if (type >= KVA_GGUF_N_TYPES || type == KVA_GGUF_ARRAY)
        return FAIL(file, value->key, "is an array of %s (type %llu), which GGUF readers do not take",
                    type == KVA_GGUF_ARRAY ? "arrays" : "an unknown type", (unsigned long long)type);
    value->type = (enum kva_gguf_type)type;
    value->is_array = true;
    uint64_t left = file->cursor->size - file->cursor->position;
    uint64_t least = type == KVA_GGUF_TEXT ? 8 : SIZES[type];
    if (!kva_mul(value->length, least, &bytes) || bytes > left)
        return FAIL(file, value->key, "is said to have %llu items (%s), but the file has only %llu bytes left",
                    (unsigned long long)value->length, TYPE_NAMES[type], (unsigned long long)left);
    if (type == KVA_GGUF_TEXT)
        return skip_texts(file, value);
    if (kva_gguf_is_real(value->type) || value->length > KVA_GGUF_KEPT_ITEMS ||
        strncmp(value->key, "tokenizer.", 10) == 0)
        return kva_cursor_skip(file->cursor, bytes, "an array", value->key);
    return read_items(file, value);
}

static enum kva_status read_value(struct kva_gguf_file *file, struct kva_gguf_value *value, uint64_t index)
{
    uint64_t type, bits;
    enum kva_status status = read_name(file, "key", index, &value->key);
    if (status == KVA_OK)
        status = read_number(file, 4, "the type of a value", value->key, &type);
    if (status != KVA_OK)
        return status;
    if (type >= KVA_GGUF_N_TYPES)
        return FAIL(file, value->key, "has a value of the unknown type %llu, 0 to %d were expected",
                    (unsigned long long)type, KVA_GGUF_N_TYPES - 1);
    value->type = (enum kva_gguf_type)type;
    if (type == KVA_GGUF_ARRAY)
        return read_array(file, value);
    if (type == KVA_GGUF_TEXT)
        return read_text(file, value);
    status = read_number(file, SIZES[type], "a value", value->key, &bits);
    if (status != KVA_OK)
        return status;
    if (kva_gguf_is_real(value->type))
        value->real = to_real(value->type, bits);
    else
        value->integer = to_integer(value->type, bits);
    return KVA_OK;
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct kva_gguf_value *)a)->key, ((const struct kva_gguf_value *)b)->key);
}

const struct kva_gguf_value *kva_gguf_file_find(const struct kva_gguf_value *values, size_t n, const char *key)
{
    struct kva_gguf_value wanted = {.key = key};
    return n > 0 ? bsearch(&wanted, values, n, sizeof wanted, by_key) : NULL;
}

static enum kva_status read_values(struct kva_gguf_file *file)
{
    file->values = kva_arena_alloc(file->arena, file->n_values + 1, sizeof *file->values);
    if (file->values == NULL)
        return kva_fail_memory(file->error, file->n_values * sizeof *file->values);
    for (uint64_t i = 0; i < file->n_values; i++) {
        enum kva_status status = read_value(file, &file->values[i], i);
        if (status != KVA_OK)
            return status;
    }
    qsort(file->values, file->n_values, sizeof *file->values, by_key);
    for (uint64_t i = 1; i < file->n_values; i++)
        if (strcmp(file->values[i - 1].key, file->values[i].key) == 0)
            return FAIL(file, file->values[i].key, "stands twice in the metadata");
    const struct kva_gguf_value *alignment = kva_gguf_file_find(file->values, file->n_values, "general.alignment");
    file->alignment = DEFAULT_ALIGNMENT;
    if (alignment == NULL)
        return KVA_OK;
    if (alignment->is_array || alignment->type != KVA_GGUF_U32 || alignment->integer <= 0 ||
        alignment->integer > MAX_ALIGNMENT || (alignment->integer & (alignment->integer - 1)) != 0)
        return FAIL(file, "general.alignment", "a power of two of type u32, at most %d, was expected", MAX_ALIGNMENT);
    file->alignment = (uint64_t)alignment->integer;
    return KVA_OK;
}

// ---------------------------------------------------------------- tensors

static enum kva_status size_tensor(struct kva_gguf_file *file, struct kva_gguf_tensor *tensor)
{
    const struct kva_ggml_type *type = kva_ggml_type(tensor->type);
    tensor->elements = 1;
    for (uint32_t d = 0; d < tensor->n_dims; d++)
        if (!kva_mul(tensor->elements, tensor->dims[d], &tensor->elements) || tensor->elements > INT64_MAX)
            return FAIL(file, tensor->name, "has more elements than 63 bits count");
    tensor->bytes = KVA_UNKNOWN;
    if (type == NULL)
        return KVA_OK;
    uint64_t row = tensor->n_dims > 0 ? tensor->dims[0] : 1;
    if (row % type->elements != 0)
        return FAIL(file, tensor->name, "has rows of %llu elements, which are no whole number of %s blocks of %u",
                    (unsigned long long)row, type->name, type->elements);
    if (!kva_mul(tensor->elements / type->elements, type->bytes, &tensor->bytes))
        return FAIL(file, tensor->name, "has more bytes than 64 bits count");
    return KVA_OK;
}

static enum kva_status read_tensor(struct kva_gguf_file *file, struct kva_gguf_tensor *tensor, uint64_t index)
{
    uint64_t number;
    enum kva_status status = read_name(file, "tensor", index, &tensor->name);
    if (status == KVA_OK)
        status = read_number(file, 4, "a tensor info", tensor->name, &number);
    if (status != KVA_OK)
        return status;
    if (number > 4)
        return FAIL(file, tensor->name, "has %llu dimensions, at most 4 were expected", (unsigned long long)number);
    tensor->n_dims = (uint32_t)number;
    for (uint32_t d = 0; d < tensor->n_dims && status == KVA_OK; d++)
        status = read_number(file, 8, "a tensor info", tensor->name, &tensor->dims[d]);
    if (status == KVA_OK)
        status = read_number(file, 4, "a tensor info", tensor->name, &number);
    if (status == KVA_OK)
        status = read_number(file, 8, "a tensor info", tensor->name, &tensor->offset);
    if (status != KVA_OK)
        return status;
    tensor->type = (uint32_t)number;
    if (tensor->offset % file->alignment != 0)
        return FAIL(file, tensor->name, "lies at %llu, which is no multiple of the alignment %llu",
                    (unsigned long long)tensor->offset, (unsigned long long)file->alignment);
    return size_tensor(file, tensor);
}

static int by_offset(const void *a, const void *b)
{
    const struct kva_gguf_tensor *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;  // empty tensors first
}

// Every tensor inside the file and none over another, so that their sum is no more than the file.
static enum kva_status check_layout(struct kva_gguf_file *file)
{
    uint64_t payload, end = 0;
    if (file->n_tensors == 0)
        return KVA_OK;
    if (!kva_round_up(file->cursor->position, file->alignment, &payload) || payload > file->cursor->size)
        payload = file->cursor->size;
    uint64_t room = file->cursor->size - payload;
    qsort(file->tensors, file->n_tensors, sizeof *file->tensors, by_offset);
    for (uint64_t t = 0; t < file->n_tensors; t++) {
        const struct kva_gguf_tensor *tensor = &file->tensors[t];
        uint64_t bytes = tensor->bytes != KVA_UNKNOWN ? tensor->bytes : 0;
        if (tensor->offset > room || bytes > room - tensor->offset)
            return FAIL(file, tensor->name,
                        "has %llu bytes from byte %llu of the payload on, but the file holds only %llu of payload",
                        (unsigned long long)bytes, (unsigned long long)tensor->offset, (unsigned long long)room);
        if (tensor->offset < end)
            return FAIL(file, tensor->name, "overlaps %s", file->tensors[t - 1].name);
        end = tensor->offset + bytes;
    }
    return KVA_OK;
}

static enum kva_status read_tensors(struct kva_gguf_file *file)
{
    file->tensors = kva_arena_alloc(file->arena, file->n_tensors + 1, sizeof *file->tensors);
    if (file->tensors == NULL)
        return kva_fail_memory(file->error, file->n_tensors * sizeof *file->tensors);
    for (uint64_t i = 0; i < file->n_tensors; i++) {
        enum kva_status status = read_tensor(file, &file->tensors[i], i);
        if (status != KVA_OK)
            return status;
    }
    return check_layout(file);
}

// ---------------------------------------------------------------- one file

static enum kva_status check_count(struct kva_gguf_file *file, const char *what, uint64_t count, uint64_t limit,
                                   uint64_t least)
{
    if (count > limit)
        return FAIL(file, NULL, "is said to have %llu %s, more than %llu", (unsigned long long)count, what,
                    (unsigned long long)limit);
    if (count > (file->cursor->size - file->cursor->position) / least)
        return FAIL(file, NULL, "is said to have %llu %s, which do not fit into its %llu bytes",
                    (unsigned long long)count, what, (unsigned long long)file->cursor->size);
    return KVA_OK;
}

static enum kva_status read_start(struct kva_gguf_file *file)
{
    uint64_t magic, version;
    if (file->cursor->size < 8)
        return FAIL(file, NULL, "is no GGUF file: it has only %llu bytes", (unsigned long long)file->cursor->size);
    enum kva_status status = read_number(file, 4, "the magic", NULL, &magic);
    if (status == KVA_OK)
        status = read_number(file, 4, "the version", NULL, &version);
    if (status != KVA_OK)
        return status;
    if (magic != 0x46554747)  // "GGUF"
        return FAIL(file, NULL, "is no GGUF file: it does not begin with \"GGUF\"");
    if ((version & 0xffff) == 0 && version >> 24 > 0)
        return FAIL(file, NULL, "is a big-endian GGUF file (version %llu); only little-endian files are read",
                    (unsigned long long)(version >> 24));
    if (version != 2 && version != 3)
        return FAIL(file, NULL, "is a GGUF file of version %llu; versions 2 and 3 are read",
                    (unsigned long long)version);
    file->version = (uint32_t)version;
    status = read_number(file, 8, "the number of tensors", NULL, &file->n_tensors);
    if (status == KVA_OK)
        status = read_number(file, 8, "the number of keys", NULL, &file->n_values);
    if (status == KVA_OK)
        status = check_count(file, "keys", file->n_values, MAX_VALUES, LEAST_VALUE);
    if (status == KVA_OK)
        status = check_count(file, "tensors", file->n_tensors, KVA_GGUF_MAX_TENSORS, LEAST_TENSOR);
    return status;
}

enum kva_status kva_gguf_file_read(struct kva_gguf_file *file, struct kva_cursor *cursor, struct kva_arena *arena)
{
    *file = (struct kva_gguf_file){.cursor = cursor, .arena = arena, .error = cursor->error, .name = cursor->file};
    enum kva_status status = read_start(file);
    if (status == KVA_OK)
        status = read_values(file);
    if (status == KVA_OK)
        status = read_tensors(file);
    return status;
}
