#include "model/gguf.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "model/gguf_file.h"

enum { MAX_FILES = 99999 };  // five digits in the name

#define FAIL(file, key, ...) kva_fail((file)->error, KVA_BAD_INPUT, (file)->name, key, __VA_ARGS__)

static enum kva_status new_gguf(const char *path, struct kva_gguf **gguf, struct kva_error *error)
{
    struct kva_arena *arena = kva_arena_new();
    *gguf = arena != NULL ? kva_arena_alloc(arena, 1, sizeof **gguf) : NULL;
    if (*gguf != NULL)
        (*gguf)->path = kva_arena_strdup(arena, path);
    if (*gguf == NULL || (*gguf)->path == NULL) {
        kva_arena_free(arena);
        *gguf = NULL;
        return kva_fail_memory(error, sizeof **gguf);
    }
    (*gguf)->arena = arena;
    (*gguf)->files = (*gguf)->files_found = 1;
    return KVA_OK;
}

static void adopt(struct kva_gguf *gguf, const struct kva_gguf_file *file)
{
    gguf->version = file->version;
    gguf->values = file->values;
    gguf->n_values = file->n_values;
    gguf->tensors = file->tensors;
    gguf->n_tensors = file->n_tensors;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct kva_gguf_tensor *)a)->name, ((const struct kva_gguf_tensor *)b)->name);
}

static enum kva_status sort_tensors(struct kva_gguf *gguf, struct kva_error *error)
{
    if (gguf->n_tensors > 0)
        qsort(gguf->tensors, gguf->n_tensors, sizeof *gguf->tensors, by_name);
    for (size_t t = 1; t < gguf->n_tensors; t++)
        if (strcmp(gguf->tensors[t - 1].name, gguf->tensors[t].name) == 0)
            return kva_fail(error, KVA_BAD_INPUT, gguf->path, gguf->tensors[t].name, "stands twice among the tensors");
    return KVA_OK;
}

enum kva_status kva_gguf_parse(const char *path, const void *bytes, size_t length, uint64_t size,
                               struct kva_gguf **gguf, struct kva_error *error)
{
    struct kva_cursor cursor = {
        .file = path, .handle = -1, .window = bytes, .length = length, .size = size, .error = error};
    struct kva_gguf_file file;
    enum kva_status status = new_gguf(path, gguf, error);
    if (status != KVA_OK)
        return status;
    status = kva_gguf_file_read(&file, &cursor, (*gguf)->arena);
    if (status == KVA_OK) {
        adopt(*gguf, &file);
        status = sort_tensors(*gguf, error);
    }
    if (status != KVA_OK) {
        kva_gguf_close(*gguf);
        *gguf = NULL;
    }
    return status;
}

// ---------------------------------------------------------------- split models

// "NAME-00002-of-00003.gguf" (llama.cpp, llama_split_path).
struct split {
    size_t stem;  // bytes of NAME
    unsigned number, count;
};

static bool split_name(const char *path, struct split *split)
{
    static const char SHAPE[] = "-00000-of-00000.gguf";
    size_t length = strlen(path), tail = sizeof SHAPE - 1;
    if (length <= tail)
        return false;
    const char *end = path + length - tail;
    for (size_t i = 0; i < tail; i++)
        if (SHAPE[i] == '0' ? end[i] < '0' || end[i] > '9' : end[i] != SHAPE[i])
            return false;
    *split = (struct split){length - tail, (unsigned)strtoul(end + 1, NULL, 10), (unsigned)strtoul(end + 10, NULL, 10)};
    return split->number >= 1 && split->number <= split->count;
}

static enum kva_status split_count(const struct kva_gguf_file *file, const char *key, uint64_t *count)
{
    const struct kva_gguf_value *value = kva_gguf_file_find(file->values, file->n_values, key);
    *count = 0;
    if (value == NULL)
        return KVA_OK;
    if (value->is_array || kva_gguf_is_real(value->type) || value->type == KVA_GGUF_TEXT || value->integer < 0 ||
        value->integer > MAX_FILES)
        return FAIL(file, key, "a count of files, 0 to %d, was expected", MAX_FILES);
    *count = (uint64_t)value->integer;
    return KVA_OK;
}

static enum kva_status check_split(const struct kva_gguf_file *file, uint64_t number, uint64_t count)
{
    uint64_t found_number, found_count;
    enum kva_status status = split_count(file, "split.no", &found_number);
    if (status == KVA_OK)
        status = split_count(file, "split.count", &found_count);
    if (status != KVA_OK)
        return status;
    if (found_count != count)
        return FAIL(file, "split.count", "is %llu, but there are %llu files by their names",
                    (unsigned long long)found_count, (unsigned long long)count);
    if (found_number != number)
        return FAIL(file, "split.no", "is %llu, but by its name the file is number %llu (from 0)",
                    (unsigned long long)found_number, (unsigned long long)number);
    return KVA_OK;
}

// Adds the tensors of one more file; its metadata says nothing that the first file's does not.
static enum kva_status join(struct kva_gguf *gguf, const struct kva_gguf_file *file, size_t *room)
{
    size_t n = gguf->n_tensors + file->n_tensors;
    if (n > KVA_GGUF_MAX_TENSORS)
        return FAIL(file, NULL, "brings the tensors of all files to %zu, more than %d", n, KVA_GGUF_MAX_TENSORS);
    if (n > gguf->n_tensors) {
        if (n > *room) {
            struct kva_gguf_tensor *all = kva_arena_alloc(gguf->arena, 2 * n, sizeof *all);
            if (all == NULL)
                return kva_fail_memory(file->error, 2 * n * sizeof *all);
            memcpy(all, gguf->tensors, gguf->n_tensors * sizeof *all);
            gguf->tensors = all;
            *room = 2 * n;
        }
        memcpy(gguf->tensors + gguf->n_tensors, file->tensors, file->n_tensors * sizeof *gguf->tensors);
        gguf->n_tensors = n;
    }
    return KVA_OK;
}

static enum kva_status read_path(const char *path, struct kva_gguf_file *file, struct kva_arena *arena,
                                 struct kva_error *error)
{
    struct kva_cursor cursor;
    enum kva_status status = kva_cursor_open(&cursor, path, error);
    if (status == KVA_OK)
        status = kva_gguf_file_read(file, &cursor, arena);
    kva_cursor_close(&cursor);
    file->cursor = NULL;
    return status;
}

static enum kva_status read_others(struct kva_gguf *gguf, const char *first, const struct split *split,
                                   struct kva_error *error)
{
    size_t room = gguf->n_tensors;
    for (unsigned number = 2; number <= split->count; number++) {
        struct kva_gguf_file file = {0};
        const char *path =
            kva_arena_printf(gguf->arena, "%.*s-%05u-of-%05u.gguf", (int)split->stem, first, number, split->count);
        if (path == NULL)
            return kva_fail_memory(error, split->stem);
        if (!kva_is_file(path))
            return KVA_OK;  // the weights are then not known; the caches are
        enum kva_status status = read_path(path, &file, gguf->arena, error);
        if (status == KVA_OK)
            status = check_split(&file, number - 1, split->count);
        if (status == KVA_OK)
            status = join(gguf, &file, &room);
        if (status != KVA_OK)
            return status;
        gguf->files_found++;
    }
    const struct kva_gguf_value *stated = kva_gguf_find(gguf, "split.tensors.count");
    if (stated != NULL && !stated->is_array && stated->integer != (int64_t)gguf->n_tensors)
        return kva_fail(error, KVA_BAD_INPUT, gguf->path, "split.tensors.count",
                        "is %lld, but the files hold %zu tensors", (long long)stated->integer, gguf->n_tensors);
    return KVA_OK;
}

enum kva_status kva_gguf_read(const char *path, struct kva_gguf **gguf, struct kva_error *error)
{
    struct split split = {0};
    struct kva_gguf_file file = {0};
    enum kva_status status = new_gguf(path, gguf, error);
    if (status != KVA_OK)
        return status;
    const char *first = (*gguf)->path;
    if (split_name(path, &split))
        first = kva_arena_printf((*gguf)->arena, "%.*s-00001-of-%05u.gguf", (int)split.stem, path, split.count);
    status = first != NULL ? read_path(first, &file, (*gguf)->arena, error) : kva_fail_memory(error, strlen(path));
    if (status == KVA_OK) {
        adopt(*gguf, &file);
        uint64_t count;
        status = split_count(&file, "split.count", &count);
        if (status == KVA_OK && count > 1)
            (*gguf)->files = count;
    }
    if (status == KVA_OK && (*gguf)->files > 1 && split.count > 0) {
        status = check_split(&file, 0, split.count);
        if (status == KVA_OK)
            status = read_others(*gguf, first, &split, error);
    }
    if (status == KVA_OK)
        status = sort_tensors(*gguf, error);
    if (status != KVA_OK) {
        kva_gguf_close(*gguf);
        *gguf = NULL;
    }
    return status;
}

void kva_gguf_close(struct kva_gguf *gguf)
{
    if (gguf != NULL)
        kva_arena_free(gguf->arena);  // *gguf itself lies in it
}

bool kva_gguf_is(const char *path)
{
    char magic[4] = {0};
    size_t length = strlen(path);
    if (!kva_is_file(path))
        return false;
    if (length > 5 && strcmp(path + length - 5, ".gguf") == 0)
        return true;
    struct kva_cursor cursor;
    bool is =
        kva_cursor_open(&cursor, path, NULL) == KVA_OK && kva_cursor_want(&cursor, 4, "the magic", NULL) == KVA_OK;
    if (is)
        memcpy(magic, kva_cursor_at(&cursor), 4);
    kva_cursor_close(&cursor);
    return is && memcmp(magic, "GGUF", 4) == 0;
}

const struct kva_gguf_value *kva_gguf_find(const struct kva_gguf *gguf, const char *key)
{
    return kva_gguf_file_find(gguf->values, gguf->n_values, key);
}

const char *kva_gguf_text(const struct kva_gguf *gguf, const char *key)
{
    const struct kva_gguf_value *value = kva_gguf_find(gguf, key);
    return value != NULL && value->type == KVA_GGUF_TEXT && !value->is_array ? value->text : NULL;
}
