#include "model/safetensors.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/file.h"
#include "model/json.h"

enum { HEADER_LIMIT = 100000000, INDEX_LIMIT = 64 << 20, MAX_DIMS = 8, MAX_SHARDS = 100000, LENGTH_BYTES = 8 };

struct shard {
    const char *path;
    struct kva_mapping mapping;  // empty when opened for headers only
};

struct kva_safetensors {
    struct kva_arena *arena;
    bool headers_only, complete;
    uint64_t index_bytes;
    struct shard *shards;
    size_t n_shards, shards_room;
    struct kva_st_tensor *tensors;  // sorted by name
    size_t n_tensors, tensors_room;
    struct kva_error *error;
};

// ---------------------------------------------------------------- one header

static enum kva_status read_shape(struct kva_safetensors *checkpoint, struct kva_st_tensor *tensor, const json_t *shape)
{
    char found[KVA_JSON_FOUND];
    if (!json_is_array(shape) || json_array_size(shape) > MAX_DIMS)
        return kva_fail(checkpoint->error, KVA_BAD_INPUT, tensor->file, tensor->name,
                        "shape: expected a list of at most %d dimensions, found %s", MAX_DIMS,
                        shape != NULL ? kva_json_found(shape, found) : "none");
    tensor->n_dims = (uint32_t)json_array_size(shape);
    for (uint32_t d = 0; d < tensor->n_dims; d++) {
        const json_t *dim = json_array_get(shape, d);
        if (!json_is_integer(dim) || json_integer_value(dim) < 0)
            return kva_fail(checkpoint->error, KVA_BAD_INPUT, tensor->file, tensor->name,
                            "shape: expected dimensions of 0 or more, found %s", kva_json_found(dim, found));
        tensor->dims[d] = (uint64_t)json_integer_value(dim);
    }
    return KVA_OK;
}

static enum kva_status read_tensor(struct kva_safetensors *checkpoint, struct kva_st_tensor *tensor,
                                   const json_t *entry, uint64_t payload, uint64_t *start)
{
    struct kva_error *error = checkpoint->error;
    char found[KVA_JSON_FOUND];
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    if (!json_is_object(entry) || dtype == NULL)
        return kva_fail(error, KVA_BAD_INPUT, tensor->file, tensor->name,
                        "expected an object with dtype, shape and data_offsets");
    tensor->dtype = kva_dtype_parse(dtype);
    if (tensor->dtype == KVA_DTYPE_NONE)
        return kva_fail(error, KVA_BAD_INPUT, tensor->file, tensor->name, "has the unknown dtype \"%.40s\"", dtype);
    enum kva_status status = read_shape(checkpoint, tensor, json_object_get(entry, "shape"));
    if (status != KVA_OK)
        return status;
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(last) ||
        json_integer_value(first) < 0 || json_integer_value(last) < json_integer_value(first))
        return kva_fail(error, KVA_BAD_INPUT, tensor->file, tensor->name,
                        "data_offsets: expected [begin, end] with 0 <= begin <= end, found %s",
                        offsets != NULL ? kva_json_found(offsets, found) : "none");
    uint64_t begin = (uint64_t)json_integer_value(first), end = (uint64_t)json_integer_value(last);
    if (end > payload)
        return kva_fail(error, KVA_BAD_INPUT, tensor->file, tensor->name,
                        "ends at byte %llu of the data, which has %llu: the file is cut short or its header is wrong",
                        (unsigned long long)end, (unsigned long long)payload);
    tensor->bytes = end - begin;
    uint64_t bytes = kva_dtype_bytes(tensor->dtype);
    bool counted = true;
    for (uint32_t d = 0; d < tensor->n_dims; d++)
        counted = counted && kva_mul(bytes, tensor->dims[d], &bytes);
    if (!counted || bytes != tensor->bytes)
        return kva_fail(error, KVA_BAD_INPUT, tensor->file, tensor->name,
                        "has %llu bytes of data, which is not what its shape and dtype %s take",
                        (unsigned long long)tensor->bytes, dtype);
    *start = begin;
    return KVA_OK;
}

struct span {
    uint64_t start, bytes;
    const char *name;
};

static int compare_spans(const void *a, const void *b)
{
    const struct span *left = a, *right = b;
    if (left->start != right->start)
        return left->start < right->start ? -1 : 1;
    return left->bytes < right->bytes ? -1 : left->bytes > right->bytes;
}

// The tensors must fill the payload: each byte is in exactly one.
static enum kva_status check_spans(struct kva_safetensors *checkpoint, const char *file, struct span *spans, size_t n,
                                   uint64_t payload)
{
    if (n > 0)
        qsort(spans, n, sizeof *spans, compare_spans);
    uint64_t at = 0;
    for (size_t i = 0; i < n; i++) {
        if (spans[i].start != at)
            return kva_fail(checkpoint->error, KVA_BAD_INPUT, file, spans[i].name,
                            spans[i].start < at ? "overlaps the tensor before it: begins at byte %llu, not %llu"
                                                : "leaves a hole before it: begins at byte %llu, not %llu",
                            (unsigned long long)spans[i].start, (unsigned long long)at);
        at += spans[i].bytes;
    }
    if (at != payload)
        return kva_fail(checkpoint->error, KVA_BAD_INPUT, file, NULL,
                        "holds %llu bytes of data, but its tensors take %llu", (unsigned long long)payload,
                        (unsigned long long)at);
    return KVA_OK;
}

static enum kva_status make_room(struct kva_safetensors *checkpoint, size_t more)
{
    size_t needed, bytes;
    if (__builtin_add_overflow(checkpoint->n_tensors, more, &needed) ||
        __builtin_mul_overflow(needed, sizeof *checkpoint->tensors, &bytes))
        return kva_fail_memory(checkpoint->error, UINT64_MAX);
    if (needed <= checkpoint->tensors_room)
        return KVA_OK;
    struct kva_st_tensor *grown = realloc(checkpoint->tensors, bytes);
    if (grown == NULL)
        return kva_fail_memory(checkpoint->error, bytes);
    checkpoint->tensors = grown;
    checkpoint->tensors_room = needed;
    return KVA_OK;
}

static enum kva_status read_entries(struct kva_safetensors *checkpoint, const struct shard *shard, json_t *header,
                                    uint64_t payload, uint64_t data_at)
{
    size_t n = json_object_size(header), used = 0;
    enum kva_status status = make_room(checkpoint, n);
    if (status != KVA_OK)
        return status;
    struct span *spans = calloc(n + 1, sizeof *spans);
    if (spans == NULL)
        return kva_fail_memory(checkpoint->error, (n + 1) * sizeof *spans);
    const char *name;
    json_t *entry;
    json_object_foreach(header, name, entry)
    {
        if (strcmp(name, "__metadata__") == 0)
            continue;
        struct kva_st_tensor tensor = {.file = shard->path};
        uint64_t start = 0;
        tensor.name = kva_arena_strdup(checkpoint->arena, name);
        status = tensor.name != NULL ? read_tensor(checkpoint, &tensor, entry, payload, &start)
                                     : kva_fail_memory(checkpoint->error, strlen(name));
        if (status != KVA_OK)
            goto out;
        if (shard->mapping.bytes != NULL)
            tensor.data = shard->mapping.bytes + data_at + start;
        spans[used++] = (struct span){start, tensor.bytes, tensor.name};
        // make_room saw to it: NOLINTNEXTLINE(clang-analyzer-core.NullDereference)
        checkpoint->tensors[checkpoint->n_tensors++] = tensor;
    }
    status = check_spans(checkpoint, shard->path, spans, used, payload);
out:
    free(spans);
    return status;
}

// Reads the header's length and text without mapping the file. *text is free()d by the caller.
static enum kva_status read_header(const char *path, uint64_t *file_bytes, uint64_t *header_bytes, char **text,
                                   struct kva_error *error)
{
    *text = NULL;
    int handle = open(path, O_RDONLY | O_CLOEXEC);
    if (handle < 0)
        return kva_fail(error, KVA_BAD_INPUT, path, NULL, "cannot be opened");
    enum kva_status status = KVA_OK;
    struct stat info;
    unsigned char length[LENGTH_BYTES];
    if (fstat(handle, &info) != 0 || !S_ISREG(info.st_mode)) {
        status = kva_fail(error, KVA_BAD_INPUT, path, NULL, "is not a regular file");
        goto out;
    }
    *file_bytes = (uint64_t)info.st_size;
    if (*file_bytes < LENGTH_BYTES || pread(handle, length, LENGTH_BYTES, 0) != LENGTH_BYTES) {
        status = kva_fail(error, KVA_BAD_INPUT, path, NULL, "has %llu bytes, too few for a safetensors file",
                          (unsigned long long)*file_bytes);
        goto out;
    }
    *header_bytes = 0;
    for (int i = LENGTH_BYTES - 1; i >= 0; i--)  // little endian
        *header_bytes = *header_bytes << 8 | length[i];
    if (*header_bytes > HEADER_LIMIT || *header_bytes > *file_bytes - LENGTH_BYTES) {
        status = kva_fail(error, KVA_BAD_INPUT, path, NULL,
                          "says that its header has %llu bytes; the file has %llu and a header at most %d",
                          (unsigned long long)*header_bytes, (unsigned long long)*file_bytes, HEADER_LIMIT);
        goto out;
    }
    *text = malloc((size_t)*header_bytes + 1);
    if (*text == NULL) {
        status = kva_fail_memory(error, *header_bytes + 1);
        goto out;
    }
    for (uint64_t done = 0; done < *header_bytes;) {
        ssize_t got = pread(handle, *text + done, (size_t)(*header_bytes - done), (off_t)(LENGTH_BYTES + done));
        if (got <= 0) {
            status = kva_fail(error, KVA_MACHINE, path, NULL, "cannot be read");
            break;
        }
        done += (uint64_t)got;
    }
out:
    close(handle);
    return status;
}

static enum kva_status read_shard(struct kva_safetensors *checkpoint, struct shard *shard)
{
    uint64_t file_bytes = 0, header_bytes = 0;
    char *text = NULL;
    json_t *header = NULL;
    enum kva_status status = read_header(shard->path, &file_bytes, &header_bytes, &text, checkpoint->error);
    if (status == KVA_OK)
        status = kva_json_parse(text, (size_t)header_bytes, shard->path, false, &header, checkpoint->error);
    free(text);
    if (status == KVA_OK && !checkpoint->headers_only) {
        status = kva_file_map(shard->path, &shard->mapping, checkpoint->error);
        if (status == KVA_OK && shard->mapping.length != file_bytes)
            status = kva_fail(checkpoint->error, KVA_MACHINE, shard->path, NULL, "changed while it was read");
    }
    if (status == KVA_OK)
        status = read_entries(checkpoint, shard, header, file_bytes - LENGTH_BYTES - header_bytes,
                              LENGTH_BYTES + header_bytes);
    json_decref(header);
    return status;
}

// ---------------------------------------------------------------- files

static enum kva_status add_shard(struct kva_safetensors *checkpoint, const char *directory, const char *name)
{
    const char *path = directory != NULL ? kva_arena_printf(checkpoint->arena, "%s/%s", directory, name)
                                         : kva_arena_strdup(checkpoint->arena, name);
    if (path == NULL)
        return kva_fail_memory(checkpoint->error, strlen(name));
    for (size_t i = checkpoint->n_shards; i-- > 0;)
        if (strcmp(checkpoint->shards[i].path, path) == 0)
            return KVA_OK;
    if (checkpoint->n_shards == checkpoint->shards_room) {
        size_t room = checkpoint->shards_room == 0 ? 16 : checkpoint->shards_room * 2;
        struct shard *grown = realloc(checkpoint->shards, room * sizeof *grown);
        if (grown == NULL)
            return kva_fail_memory(checkpoint->error, room * sizeof *grown);
        checkpoint->shards = grown;
        checkpoint->shards_room = room;
    }
    checkpoint->shards[checkpoint->n_shards++] = (struct shard){.path = path};
    return KVA_OK;
}

// A shard is a plain file name: an index may not point out of its directory.
static bool is_plain_name(const char *name)
{
    return name != NULL && name[0] != '\0' && name[0] != '.' && strchr(name, '/') == NULL && strlen(name) < 256;
}

static enum kva_status read_index(struct kva_safetensors *checkpoint, const char *directory, const char *path)
{
    char *bytes = NULL;
    size_t length = 0;
    json_t *index = NULL;
    struct kva_error *error = checkpoint->error;
    enum kva_status status = kva_file_read(path, INDEX_LIMIT, &bytes, &length, error);
    if (status == KVA_OK)
        status = kva_json_parse(bytes, length, path, true, &index, error);
    free(bytes);
    if (status != KVA_OK)
        return status;
    const json_t *total = json_object_get(json_object_get(index, "metadata"), "total_size");
    if (json_is_number(total) && json_number_value(total) > 0 && json_number_value(total) < 0x1p63)
        checkpoint->index_bytes =
            json_is_integer(total) ? (uint64_t)json_integer_value(total) : (uint64_t)json_real_value(total);
    json_t *map = json_object_get(index, "weight_map"), *shard;
    const char *name;
    if (!json_is_object(map)) {
        status = kva_fail(error, KVA_BAD_INPUT, path, "weight_map", "expected an object from tensor to shard");
        goto out;
    }
    json_object_foreach(map, name, shard)
    {
        if (!is_plain_name(json_string_value(shard)) || checkpoint->n_shards >= MAX_SHARDS) {
            status = kva_fail(error, KVA_BAD_INPUT, path, name, "expected the name of a file beside the index");
            goto out;
        }
        status = add_shard(checkpoint, directory, json_string_value(shard));
        if (status != KVA_OK)
            goto out;
    }
out:
    json_decref(index);
    return status;
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

// How many *.safetensors a directory has; the first is copied into `name` (256 bytes).
static size_t count_files(const char *directory, char *name)
{
    DIR *handle = opendir(directory);
    size_t n = 0;
    if (handle == NULL)
        return 0;
    for (struct dirent *entry; (entry = readdir(handle)) != NULL;)
        if (entry->d_name[0] != '.' && ends_with(entry->d_name, ".safetensors") && n++ == 0)
            snprintf(name, 256, "%s", entry->d_name);
    closedir(handle);
    return n;
}

static bool file_in(const char *directory, const char *name, char *path, size_t size)
{
    int length = snprintf(path, size, "%s/%s", directory, name);
    return length > 0 && (size_t)length < size && kva_is_file(path);
}

bool kva_safetensors_present(const char *directory)
{
    char path[4096], name[256];
    return file_in(directory, "model.safetensors", path, sizeof path) ||
           file_in(directory, "model.safetensors.index.json", path, sizeof path) || count_files(directory, name) == 1;
}

static enum kva_status find_shards(struct kva_safetensors *checkpoint, const char *path)
{
    char found[4096], name[256] = "";
    if (!kva_is_directory(path))
        return add_shard(checkpoint, NULL, path);
    if (file_in(path, "model.safetensors", found, sizeof found))
        return add_shard(checkpoint, path, "model.safetensors");
    if (file_in(path, "model.safetensors.index.json", found, sizeof found))
        return read_index(checkpoint, path, found);
    size_t n = count_files(path, name);
    if (n == 1)
        return add_shard(checkpoint, path, name);
    return kva_fail(checkpoint->error, KVA_BAD_INPUT, path, NULL,
                    "holds %zu *.safetensors files and no index; model.safetensors, model.safetensors.index.json or "
                    "exactly one file was expected",
                    n);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct kva_st_tensor *)a)->name, ((const struct kva_st_tensor *)b)->name);
}

enum kva_status kva_safetensors_open(const char *path, bool headers_only, struct kva_safetensors **checkpoint,
                                     struct kva_error *error)
{
    *checkpoint = NULL;
    struct kva_safetensors *opened = calloc(1, sizeof *opened);
    if (opened != NULL)
        opened->arena = kva_arena_new();
    if (opened == NULL || opened->arena == NULL) {
        free(opened);
        return kva_fail_memory(error, sizeof *opened);
    }
    opened->headers_only = headers_only;
    opened->complete = true;
    opened->error = error;
    enum kva_status status = find_shards(opened, path);
    for (size_t i = 0; i < opened->n_shards && status == KVA_OK; i++) {
        if (headers_only && opened->n_shards > 1 && !kva_is_file(opened->shards[i].path))
            opened->complete = false;
        else if (headers_only && opened->index_bytes > 0 && !kva_is_file(opened->shards[i].path))
            opened->complete = false;
        else
            status = read_shard(opened, &opened->shards[i]);
    }
    if (status == KVA_OK && opened->n_tensors > 0)
        qsort(opened->tensors, opened->n_tensors, sizeof *opened->tensors, compare_names);
    for (size_t i = 1; i < opened->n_tensors && status == KVA_OK; i++)
        if (strcmp(opened->tensors[i - 1].name, opened->tensors[i].name) == 0)
            status = kva_fail(error, KVA_BAD_INPUT, opened->tensors[i].file, opened->tensors[i].name,
                              "is also in another shard, %s", opened->tensors[i - 1].file);
    opened->error = NULL;
    if (status == KVA_OK)
        *checkpoint = opened;
    else
        kva_safetensors_close(opened);
    return status;
}

void kva_safetensors_close(struct kva_safetensors *checkpoint)
{
    if (checkpoint == NULL)
        return;
    for (size_t i = 0; i < checkpoint->n_shards; i++)
        kva_file_unmap(&checkpoint->shards[i].mapping);
    free(checkpoint->shards);
    free(checkpoint->tensors);
    kva_arena_free(checkpoint->arena);
    free(checkpoint);
}

size_t kva_safetensors_count(const struct kva_safetensors *checkpoint)
{
    return checkpoint->n_tensors;
}

const struct kva_st_tensor *kva_safetensors_at(const struct kva_safetensors *checkpoint, size_t index)
{
    return index < checkpoint->n_tensors ? &checkpoint->tensors[index] : NULL;
}

const struct kva_st_tensor *kva_safetensors_find(const struct kva_safetensors *checkpoint, const char *name)
{
    struct kva_st_tensor wanted = {.name = name};
    return checkpoint->n_tensors > 0 ? bsearch(&wanted, checkpoint->tensors, checkpoint->n_tensors,
                                               sizeof *checkpoint->tensors, compare_names)
                                     : NULL;
}

uint64_t kva_safetensors_index_bytes(const struct kva_safetensors *checkpoint)
{
    return checkpoint->index_bytes;
}

bool kva_safetensors_complete(const struct kva_safetensors *checkpoint)
{
    return checkpoint->complete;
}
