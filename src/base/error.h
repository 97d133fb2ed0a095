// Errors as values with a place in them: which file, which key, what was expected.
#ifndef KVA_BASE_ERROR_H
#define KVA_BASE_ERROR_H

#include "kvatlas.h"

// Fills *error (which may be NULL; file and key may be NULL) and returns status, so that a caller can write
// `return kva_fail(...)`.
__attribute__((format(printf, 5, 6))) enum kva_status
kva_fail(struct kva_error *error, enum kva_status status, const char *file, const char *key, const char *format, ...);

// The failure of a host allocation of `bytes`.
enum kva_status kva_fail_memory(struct kva_error *error, uint64_t bytes);

#endif
