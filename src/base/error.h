// Errors as values with a place in them: which file, which key, what was expected.
#ifndef KVA_BASE_ERROR_H
#define KVA_BASE_ERROR_H

#include "kvatlas.h"

// Fills *error (which may be NULL; file and key may be NULL, or lie in *error).
__attribute__((format(printf, 5, 6))) void kva_error_set(struct kva_error *error, enum kva_status status,
                                                         const char *file, const char *key, const char *format, ...);

// The same as an expression of value `status`, so that a caller can write `return kva_fail(...)`. A macro, because a
// static analyser then knows what the value is.
#define kva_fail(error, status, file, key, ...) (kva_error_set((error), (status), (file), (key), __VA_ARGS__), (status))

// The failure of a host allocation of `bytes`.
static inline enum kva_status kva_fail_memory(struct kva_error *error, uint64_t bytes)
{
    return kva_fail(error, KVA_MACHINE, NULL, NULL, "out of host memory: %llu bytes were asked for",
                    (unsigned long long)bytes);
}

#endif
