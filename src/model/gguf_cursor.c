#include "model/gguf_cursor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

enum { WINDOW = 64 << 10 };
// Far more than any tokenizer fills; bounds the time that a file made to mislead can take.
static const uint64_t HEADER_LIMIT = 256u << 20;

enum kva_status kva_cursor_open(struct kva_cursor *cursor, const char *path, struct kva_error *error)
{
    *cursor = (struct kva_cursor){.file = path, .handle = -1, .error = error};
    struct stat info;
    int handle = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe of that name must not hold us up
    if (handle < 0)
        return kva_fail(error, errno == EMFILE || errno == ENFILE || errno == EIO ? KVA_MACHINE : KVA_BAD_INPUT, path,
                        NULL, "cannot open: %s", strerror(errno));
    if (fstat(handle, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(handle);
        return kva_fail(error, KVA_BAD_INPUT, path, NULL, "is not a regular file");
    }
    cursor->buffer = malloc(WINDOW);
    if (cursor->buffer == NULL) {
        close(handle);
        return kva_fail_memory(error, WINDOW);
    }
    cursor->handle = handle;
    cursor->window = cursor->buffer;
    cursor->size = (uint64_t)info.st_size;
    return KVA_OK;
}

void kva_cursor_close(struct kva_cursor *cursor)
{
    if (cursor->handle >= 0)
        close(cursor->handle);
    free(cursor->buffer);
    cursor->handle = -1;
    cursor->buffer = NULL;
}

static enum kva_status fail_end(const struct kva_cursor *cursor, const char *what, const char *key)
{
    return kva_fail(cursor->error, KVA_BAD_INPUT, cursor->file, key,
                    "the file ends after %llu bytes, inside %s at byte %llu", (unsigned long long)cursor->size, what,
                    (unsigned long long)cursor->position);
}

static enum kva_status check(const struct kva_cursor *cursor, uint64_t bytes, const char *what, const char *key)
{
    if (bytes > cursor->size - cursor->position)
        return fail_end(cursor, what, key);
    if (bytes > HEADER_LIMIT || cursor->position + bytes > HEADER_LIMIT)
        return kva_fail(cursor->error, KVA_BAD_INPUT, cursor->file, key,
                        "%s would take the header beyond %llu MiB, more than any has", what,
                        (unsigned long long)(HEADER_LIMIT >> 20));
    return KVA_OK;
}

enum kva_status kva_cursor_want(struct kva_cursor *cursor, uint64_t bytes, const char *what, const char *key)
{
    if (kva_cursor_ready(cursor) >= bytes)
        return KVA_OK;
    enum kva_status status = check(cursor, bytes, what, key);
    if (status != KVA_OK)
        return status;
    if (cursor->handle < 0 || bytes > WINDOW)
        return fail_end(cursor, what, key);  // a memory window that stops before the size that was stated
    uint64_t left = cursor->size - cursor->position, got = 0, wanted = left < WINDOW ? left : WINDOW;
    while (got < bytes) {
        ssize_t n = pread(cursor->handle, cursor->buffer + got, wanted - got, (off_t)(cursor->position + got));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return kva_fail(cursor->error, KVA_MACHINE, cursor->file, NULL, "cannot read: %s", strerror(errno));
        if (n == 0)
            return fail_end(cursor, what, key);  // it became shorter while it was read
        got += (uint64_t)n;
    }
    cursor->start = cursor->position;
    cursor->length = got;
    return KVA_OK;
}

enum kva_status kva_cursor_skip(struct kva_cursor *cursor, uint64_t bytes, const char *what, const char *key)
{
    enum kva_status status = check(cursor, bytes, what, key);
    if (status == KVA_OK)
        cursor->position += bytes;
    return status;
}
