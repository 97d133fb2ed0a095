// Whole files in, whole files out.
#ifndef KVA_BASE_FILE_H
#define KVA_BASE_FILE_H

#include "kvatlas.h"

// Reads a file of at most `limit` bytes into *bytes (free() it; one terminating zero is added). Errors: KVA_BAD_INPUT
// (missing, a directory, longer than the limit), KVA_MACHINE (I/O, memory).
enum kva_status kva_file_read(const char *path, size_t limit, char **bytes, size_t *length, struct kva_error *error);

// Writes to a temporary name beside `path` and renames, so that a reader never sees half a file.
enum kva_status kva_file_write(const char *path, const void *bytes, size_t length, struct kva_error *error);

// A file mapped read-only. An empty file maps to bytes NULL, length 0.
struct kva_mapping {
    const unsigned char *bytes;
    uint64_t length;
};
enum kva_status kva_file_map(const char *path, struct kva_mapping *mapping, struct kva_error *error);
void kva_file_unmap(struct kva_mapping *mapping);

bool kva_is_directory(const char *path);
bool kva_is_file(const char *path);

#endif
