// Writes GGUF headers into memory, right ones and wrong ones. Format:
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#ifndef TEST_GGUF_WRITER_H
#define TEST_GGUF_WRITER_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "model/gguf.h"

struct writer {
    unsigned char *bytes;
    size_t length, capacity;
    size_t at_tensors, at_values;  // where the counts lie
    uint64_t n_tensors, n_values, payload;
};

static inline void put_bytes(struct writer *w, const void *bytes, size_t n)
{
    if (w->length + n > w->capacity) {
        w->capacity = 2 * (w->length + n) + 256;
        w->bytes = realloc(w->bytes, w->capacity);
        if (w->bytes == NULL)
            abort();
    }
    if (n > 0)
        memcpy(w->bytes + w->length, bytes, n);
    w->length += n;
}

static inline void put_number(struct writer *w, uint64_t number, size_t bytes)
{
    unsigned char out[8];
    for (size_t i = 0; i < bytes; i++)
        out[i] = (unsigned char)(number >> (8 * i));
    put_bytes(w, out, bytes);
}

static inline void set_number(struct writer *w, size_t at, uint64_t number, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        w->bytes[at + i] = (unsigned char)(number >> (8 * i));
}

static inline void put_text(struct writer *w, const char *text)
{
    put_number(w, strlen(text), 8);
    put_bytes(w, text, strlen(text));
}

static inline void start(struct writer *w, uint32_t version)
{
    *w = (struct writer){0};
    put_bytes(w, "GGUF", 4);
    put_number(w, version, 4);
    w->at_tensors = w->length;
    put_number(w, 0, 8);
    w->at_values = w->length;
    put_number(w, 0, 8);
}

static inline void put_key(struct writer *w, const char *key, uint32_t type)
{
    put_text(w, key);
    put_number(w, type, 4);
    set_number(w, w->at_values, ++w->n_values, 8);
}

static inline void put_u32(struct writer *w, const char *key, uint32_t number)
{
    put_key(w, key, KVA_GGUF_U32);
    put_number(w, number, 4);
}

static inline void put_f32(struct writer *w, const char *key, float number)
{
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    put_key(w, key, KVA_GGUF_F32);
    put_number(w, bits, 4);
}

static inline void put_string(struct writer *w, const char *key, const char *text)
{
    put_key(w, key, KVA_GGUF_TEXT);
    put_text(w, text);
}

// The items follow.
static inline void put_array(struct writer *w, const char *key, uint32_t type, uint64_t items)
{
    put_key(w, key, KVA_GGUF_ARRAY);
    put_number(w, type, 4);
    put_number(w, items, 8);
}

// After every key. Its bytes are added to the payload, which nobody writes.
static inline void put_tensor(struct writer *w, const char *name, uint32_t type, uint64_t bytes, uint32_t n_dims,
                              const uint64_t *dims)
{
    put_text(w, name);
    put_number(w, n_dims, 4);
    for (uint32_t d = 0; d < n_dims; d++)
        put_number(w, dims[d], 8);
    put_number(w, type, 4);
    put_number(w, w->payload, 8);
    w->payload = (w->payload + bytes + 31) / 32 * 32;
    set_number(w, w->at_tensors, ++w->n_tensors, 8);
}

// The length that the whole file would have.
static inline uint64_t whole(const struct writer *w)
{
    return w->n_tensors > 0 ? (w->length + 31) / 32 * 32 + w->payload : w->length;
}

static inline void put_llama(struct writer *w, uint32_t layers)
{
    put_string(w, "general.architecture", "llama");
    put_u32(w, "llama.block_count", layers);
    put_u32(w, "llama.context_length", 8192);
    put_u32(w, "llama.embedding_length", 4096);
    put_u32(w, "llama.feed_forward_length", 14336);
    put_u32(w, "llama.attention.head_count", 32);
    put_u32(w, "llama.attention.head_count_kv", 8);
}

#endif
