#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void copy(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from != NULL ? from : "");
}

void kva_error_set(struct kva_error *error, enum kva_status status, const char *file, const char *key,
                   const char *format, ...)
{
    if (error == NULL)
        return;
    // `file` and `key` may point into *error itself
    struct kva_error filled = {.status = status};
    copy(filled.file, sizeof filled.file, file);
    copy(filled.key, sizeof filled.key, key);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(filled.text, sizeof filled.text, format, arguments);
    va_end(arguments);
    *error = filled;
}

const char *kva_error_line(const struct kva_error *error, char *buffer, size_t size)
{
    if (size == 0)
        return buffer;
    size_t used = 0;
    buffer[0] = '\0';
    if (error->file[0] != '\0')
        used += (size_t)snprintf(buffer, size, "%s", error->file);
    if (used < size && error->file[0] != '\0' && error->line > 0)
        used += (size_t)snprintf(buffer + used, size - used, ":%d", error->line);
    if (used < size && used > 0)
        used += (size_t)snprintf(buffer + used, size - used, ": ");
    if (used < size && error->key[0] != '\0')
        used += (size_t)snprintf(buffer + used, size - used, "%s: ", error->key);
    if (used < size)
        snprintf(buffer + used, size - used, "%s", error->text);
    return buffer;
}
