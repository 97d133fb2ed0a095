// Fuzz targets feed bytes to readers that take a path: a file in memory has one.
#ifndef KVA_FUZZ_H
#define KVA_FUZZ_H

#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

// Writes the bytes to a file in memory and its path to `path` (64 bytes). Returns the descriptor; close() it.
static inline int fuzz_file(const uint8_t *bytes, size_t size, char *path)
{
    const int file = memfd_create("fuzz", 0);
    if (file < 0 || write(file, bytes, size) != (ssize_t)size)
        abort();
    snprintf(path, 64, "/proc/self/fd/%d", file);
    return file;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

#endif
