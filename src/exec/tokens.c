// Token ids in: text, or a safetensors file's input_ids.
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/file.h"
#include "model/safetensors.h"

enum { MAX_FILE_BYTES = 256 << 20 };

struct list {
    uint32_t *tokens;
    uint64_t *lengths;
    uint64_t n_tokens, token_room, n_lengths, length_room;
};

static bool grow(void **memory, uint64_t *room, uint64_t n, size_t element)
{
    if (n < *room)
        return true;
    const uint64_t wanted = *room == 0 ? 64 : *room * 2;
    void *grown = realloc(*memory, wanted * element);
    if (grown == NULL)
        return false;
    *memory = grown;
    *room = wanted;
    return true;
}

static enum kva_status read_text(const char *path, struct list *list, struct kva_error *error)
{
    char *text;
    size_t length;
    enum kva_status status = kva_file_read(path, MAX_FILE_BYTES, &text, &length, error);
    if (status != KVA_OK)
        return status;
    int line = 1;
    bool open = false;  // the current line holds tokens
    for (size_t i = 0; i <= length && status == KVA_OK; i++) {
        const char c = text[i];
        if (c == '\n' || i == length) {
            open = false;
            line++;
        } else if (isdigit((unsigned char)c)) {
            uint64_t value = 0;
            for (; isdigit((unsigned char)text[i]); i++)
                value = kva_min(value * 10 + (uint64_t)(text[i] - '0'), UINT64_C(1) << 40);
            i--;
            if (value > UINT32_MAX) {
                status = kva_fail(error, KVA_BAD_INPUT, path, NULL, "line %d: a token id is beyond 32 bits", line);
                break;
            }
            if (!grow((void **)&list->tokens, &list->token_room, list->n_tokens, sizeof *list->tokens) ||
                !grow((void **)&list->lengths, &list->length_room, list->n_lengths, sizeof *list->lengths)) {
                status = kva_fail_memory(error, list->token_room * 8);
                break;
            }
            if (!open)
                list->lengths[list->n_lengths++] = 0;
            open = true;
            list->tokens[list->n_tokens++] = (uint32_t)value;
            list->lengths[list->n_lengths - 1]++;
        } else if (!isspace((unsigned char)c) && c != ',' && c != '[' && c != ']') {
            status =
                kva_fail(error, KVA_BAD_INPUT, path, NULL, "line %d: token ids (whole numbers) were expected", line);
        }
    }
    free(text);
    return status;
}

static enum kva_status read_tensor(const char *path, struct list *list, struct kva_error *error)
{
    struct kva_safetensors *file;
    enum kva_status status = kva_safetensors_open(path, false, &file, error);
    if (status != KVA_OK)
        return status;
    const struct kva_st_tensor *ids = kva_safetensors_find(file, "input_ids");
    if (ids == NULL || ids->n_dims < 1 || ids->n_dims > 2 || (ids->dtype != KVA_I32 && ids->dtype != KVA_I64)) {
        status = kva_fail(error, KVA_BAD_INPUT, path, "input_ids",
                          "a tensor [sequences, tokens] of int32 or int64 was expected");
        goto out;
    }
    const uint64_t element = kva_dtype_bytes(ids->dtype), n = ids->bytes / element;
    if (n == 0) {  // from here on every dimension is at least 1, so that no count is more than the bytes there are
        status = kva_fail(error, KVA_BAD_INPUT, path, "input_ids", "holds no token ids");
        goto out;
    }
    list->n_lengths = ids->n_dims == 2 ? ids->dims[0] : 1;
    list->n_tokens = n;
    list->tokens = malloc((n + 1) * sizeof *list->tokens);
    list->lengths = malloc((list->n_lengths + 1) * sizeof *list->lengths);
    if (list->tokens == NULL || list->lengths == NULL) {
        status = kva_fail_memory(error, n * sizeof *list->tokens);
        goto out;
    }
    for (uint64_t i = 0; i < list->n_lengths; i++)
        list->lengths[i] = ids->dims[ids->n_dims - 1];
    for (uint64_t i = 0; i < n && status == KVA_OK; i++) {
        int64_t wide = 0;
        int32_t narrow;
        memcpy(&wide, ids->data + i * element, element);
        memcpy(&narrow, ids->data + i * element, sizeof narrow);
        const int64_t value = ids->dtype == KVA_I32 ? narrow : wide;
        if (value < 0 || value > UINT32_MAX)
            status = kva_fail(error, KVA_BAD_INPUT, path, "input_ids", "%" PRId64 " is no token id", value);
        list->tokens[i] = (uint32_t)value;
    }
out:
    kva_safetensors_close(file);
    return status;
}

enum kva_status kva_tokens_read(const char *path, uint32_t **tokens, uint64_t **lengths, uint64_t *sequences,
                                struct kva_error *error)
{
    struct list list = {0};
    const char *ending = strrchr(path, '.');
    enum kva_status status = ending != NULL && strcmp(ending, ".safetensors") == 0 ? read_tensor(path, &list, error)
                                                                                   : read_text(path, &list, error);
    if (status == KVA_OK && list.n_tokens == 0)
        status = kva_fail(error, KVA_BAD_INPUT, path, NULL, "holds no token ids");
    if (status != KVA_OK) {
        free(list.tokens);
        free(list.lengths);
        return status;
    }
    *tokens = list.tokens;
    *lengths = list.lengths;
    *sequences = list.n_lengths;
    return KVA_OK;
}
