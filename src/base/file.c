#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

bool kva_is_directory(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

bool kva_is_file(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && !S_ISDIR(status.st_mode);
}

static enum kva_status fail_errno(struct kva_error *error, const char *path, const char *doing)
{
    enum kva_status status = errno == ENOENT || errno == ENOTDIR || errno == EISDIR || errno == EACCES ||
                                     errno == ENAMETOOLONG || errno == ELOOP
                                 ? KVA_BAD_INPUT
                                 : KVA_MACHINE;
    return kva_fail(error, status, path, NULL, "cannot %s: %s", doing, strerror(errno));
}

enum kva_status kva_file_read(const char *path, size_t limit, char **bytes, size_t *length, struct kva_error *error)
{
    if (kva_is_directory(path))
        return kva_fail(error, KVA_BAD_INPUT, path, NULL, "is a directory, a file was expected");
    // opened without waiting for a writer that may never come; a pipe that has one is then read as usual
    const int handle = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (handle < 0)
        return fail_errno(error, path, "open");
    FILE *file = fcntl(handle, F_SETFL, 0) == 0 ? fdopen(handle, "rb") : NULL;
    if (file == NULL) {
        close(handle);
        return fail_errno(error, path, "open");
    }
    enum kva_status status = KVA_OK;
    size_t used = 0, capacity = 1 << 16;
    char *buffer = malloc(capacity + 1);
    if (buffer == NULL) {
        status = kva_fail_memory(error, capacity);
        goto out;
    }
    for (;;) {
        size_t got = fread(buffer + used, 1, capacity - used, file);
        used += got;
        if (used > limit) {
            status =
                kva_fail(error, KVA_BAD_INPUT, path, NULL, "is longer than the %zu bytes such a file may have", limit);
            goto out;
        }
        if (used < capacity) {
            if (ferror(file))
                status = fail_errno(error, path, "read");
            break;
        }
        char *grown = realloc(buffer, capacity * 2 + 1);
        if (grown == NULL) {
            status = kva_fail_memory(error, capacity * 2);
            goto out;
        }
        buffer = grown;
        capacity *= 2;
    }
out:
    fclose(file);
    if (status != KVA_OK) {
        free(buffer);
        return status;
    }
    buffer[used] = '\0';
    *bytes = buffer;
    *length = used;
    return KVA_OK;
}

static enum kva_status write_all(int handle, const char *path, const void *bytes, size_t length,
                                 struct kva_error *error)
{
    for (size_t done = 0; done < length;) {
        const ssize_t wrote = write(handle, (const char *)bytes + done, length - done);
        if (wrote > 0)
            done += (size_t)wrote;
        else if (wrote < 0 && errno != EINTR)
            return fail_errno(error, path, "write");
    }
    return KVA_OK;
}

// A device, a pipe: it is written to, never replaced.
static enum kva_status write_through(const char *path, const void *bytes, size_t length, struct kva_error *error)
{
    const int handle = open(path, O_WRONLY | O_CLOEXEC);
    if (handle < 0)
        return fail_errno(error, path, "open");
    enum kva_status status = write_all(handle, path, bytes, length, error);
    if (close(handle) != 0 && status == KVA_OK)
        status = fail_errno(error, path, "write");
    return status;
}

// A regular file, or none yet: written beside and renamed into place, with the mode that it had.
static enum kva_status write_renamed(const char *path, mode_t mode, const void *bytes, size_t length,
                                     struct kva_error *error)
{
    const size_t size = strlen(path) + sizeof ".XXXXXX";
    char *temporary = malloc(size);
    if (temporary == NULL)
        return kva_fail_memory(error, size);
    snprintf(temporary, size, "%s.XXXXXX", path);
    const int handle = mkstemp(temporary);
    if (handle < 0) {
        const enum kva_status status = fail_errno(error, path, "create");
        free(temporary);
        return status;
    }
    enum kva_status status = write_all(handle, path, bytes, length, error);
    if (status == KVA_OK && fchmod(handle, mode) != 0)
        status = fail_errno(error, path, "set the mode of");
    if (close(handle) != 0 && status == KVA_OK)
        status = fail_errno(error, path, "write");
    if (status == KVA_OK && rename(temporary, path) != 0)
        status = fail_errno(error, path, "rename into place");
    if (status != KVA_OK)
        unlink(temporary);
    free(temporary);
    return status;
}

enum kva_status kva_file_write(const char *path, const void *bytes, size_t length, struct kva_error *error)
{
    struct stat info;
    const bool there = stat(path, &info) == 0;
    if (there && S_ISDIR(info.st_mode))
        return kva_fail(error, KVA_BAD_INPUT, path, NULL, "is a directory, a file was expected");
    if (there && !S_ISREG(info.st_mode))
        return write_through(path, bytes, length, error);
    const mode_t mask = umask(0);
    umask(mask);
    char *target = there ? realpath(path, NULL) : NULL;  // what a link points to is written, not the link
    const enum kva_status status = write_renamed(target != NULL ? target : path,
                                                 there ? info.st_mode & 07777 : 0666 & ~mask, bytes, length, error);
    free(target);
    return status;
}

enum kva_status kva_file_map(const char *path, struct kva_mapping *mapping, struct kva_error *error)
{
    *mapping = (struct kva_mapping){0};
    int handle = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);  // a pipe is refused below, not waited for
    if (handle < 0)
        return fail_errno(error, path, "open");
    enum kva_status status = KVA_OK;
    struct stat info;
    if (fstat(handle, &info) != 0)
        status = fail_errno(error, path, "read");
    else if (!S_ISREG(info.st_mode))
        status = kva_fail(error, KVA_BAD_INPUT, path, NULL, "is not a regular file");
    else if (info.st_size > 0) {
        void *bytes = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, handle, 0);
        if (bytes == MAP_FAILED)
            status = fail_errno(error, path, "map");
        else
            *mapping = (struct kva_mapping){bytes, (uint64_t)info.st_size};
    }
    close(handle);
    return status;
}

void kva_file_unmap(struct kva_mapping *mapping)
{
    if (mapping->bytes != NULL)
        munmap((void *)mapping->bytes, mapping->length);
    *mapping = (struct kva_mapping){0};
}
