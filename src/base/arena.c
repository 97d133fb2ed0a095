#include "base/arena.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 16 * 1024 };

struct block {
    struct block *next;
    size_t used, size;
    alignas(max_align_t) unsigned char bytes[];
};

struct kva_arena {
    struct block *blocks;
};

struct kva_arena *kva_arena_new(void)
{
    return calloc(1, sizeof(struct kva_arena));
}

void kva_arena_free(struct kva_arena *arena)
{
    if (arena == NULL)
        return;
    for (struct block *block = arena->blocks; block != NULL;) {
        struct block *next = block->next;
        free(block);
        block = next;
    }
    free(arena);
}

void *kva_arena_alloc(struct kva_arena *arena, size_t count, size_t size)
{
    const size_t unit = alignof(max_align_t);
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || __builtin_add_overflow(bytes, unit - 1, &bytes))
        return NULL;
    bytes = bytes / unit * unit;
    struct block *block = arena->blocks;
    if (block == NULL || block->size - block->used < bytes) {
        size_t room = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES, whole;
        if (__builtin_add_overflow(room, sizeof(struct block), &whole))
            return NULL;
        block = calloc(1, whole);
        if (block == NULL)
            return NULL;
        block->size = room;
        block->next = arena->blocks;
        arena->blocks = block;
    }
    void *memory = block->bytes + block->used;
    block->used += bytes;
    return memory;
}

char *kva_arena_strndup(struct kva_arena *arena, const char *text, size_t length)
{
    char *copy = kva_arena_alloc(arena, length + 1, 1);
    if (copy != NULL)
        memcpy(copy, text, length);
    return copy;
}

char *kva_arena_strdup(struct kva_arena *arena, const char *text)
{
    return kva_arena_strndup(arena, text, strlen(text));
}

char *kva_arena_printf(struct kva_arena *arena, const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *text = length < 0 ? NULL : kva_arena_alloc(arena, (size_t)length + 1, 1);
    if (text != NULL)
        vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}
