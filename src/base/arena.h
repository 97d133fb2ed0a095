// Memory that lives and dies together: many small allocations, one release.
#ifndef KVA_BASE_ARENA_H
#define KVA_BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

struct kva_arena;

struct kva_arena *kva_arena_new(void);  // NULL: out of memory
void kva_arena_free(struct kva_arena *arena);

// Zeroed memory for `count` elements of `size` bytes, aligned for any type. NULL: out of memory, or count * size wraps.
void *kva_arena_alloc(struct kva_arena *arena, size_t count, size_t size);
char *kva_arena_strdup(struct kva_arena *arena, const char *text);
char *kva_arena_strndup(struct kva_arena *arena, const char *text, size_t length);
__attribute__((format(printf, 2, 3))) char *kva_arena_printf(struct kva_arena *arena, const char *format, ...);

#endif
