// Reading a header forward, from memory or from a file through a window of 64 KiB.
#ifndef KVA_MODEL_GGUF_CURSOR_H
#define KVA_MODEL_GGUF_CURSOR_H

#include "kvatlas.h"

struct kva_cursor {
    const char *file;  // as errors name it
    int handle;        // -1: all there is lies in the window
    const unsigned char *window;
    unsigned char *buffer;    // the window's memory; NULL: the caller's
    uint64_t start, length;   // bytes start .. start + length - 1 of the file lie in the window
    uint64_t position, size;  // of the whole file
    struct kva_error *error;
};

enum kva_status kva_cursor_open(struct kva_cursor *cursor, const char *path, struct kva_error *error);
void kva_cursor_close(struct kva_cursor *cursor);

// Makes `bytes` (64 KiB at most) bytes readable at the position. `what` and `key` name what is read, for the error when
// the file ends before it.
enum kva_status kva_cursor_want(struct kva_cursor *cursor, uint64_t bytes, const char *what, const char *key);
// Goes `bytes` forward without looking at them.
enum kva_status kva_cursor_skip(struct kva_cursor *cursor, uint64_t bytes, const char *what, const char *key);

static inline const unsigned char *kva_cursor_at(const struct kva_cursor *cursor)
{
    return cursor->window + (cursor->position - cursor->start);
}

// Bytes that are readable at the position without a call of kva_cursor_want.
static inline uint64_t kva_cursor_ready(const struct kva_cursor *cursor)
{
    uint64_t end = cursor->start + cursor->length;
    return cursor->position >= cursor->start && cursor->position < end ? end - cursor->position : 0;
}

static inline uint64_t kva_little_endian(const unsigned char *bytes, size_t n)
{
    uint64_t value = 0;
    for (size_t i = 0; i < n; i++)
        value |= (uint64_t)bytes[i] << (8 * i);
    return value;
}

#endif
