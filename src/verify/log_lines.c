// Lines of a log, whatever its bytes are.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "verify/log.h"

enum kva_status kva_log_stream_open(const char *path, struct kva_log_stream *stream, struct kva_error *error)
{
    *stream = (struct kva_log_stream){.file = stdin};
    if (strcmp(path, "-") != 0) {
        if (kva_is_directory(path))
            return kva_fail(error, KVA_BAD_INPUT, path, NULL, "is a directory; a log was expected");
        stream->file = fopen(path, "rb");
        if (stream->file == NULL)
            return kva_fail(error, KVA_BAD_INPUT, path, NULL, "cannot open: %s", strerror(errno));
    }
    stream->buffer = malloc(KVA_LOG_LINE);
    stream->line = malloc(KVA_LOG_LINE + 1);
    if (stream->buffer == NULL || stream->line == NULL) {
        kva_log_stream_close(stream);
        return kva_fail_memory(error, 2 * KVA_LOG_LINE);
    }
    return KVA_OK;
}

void kva_log_stream_close(struct kva_log_stream *stream)
{
    if (stream->file != NULL && stream->file != stdin)
        fclose(stream->file);
    free(stream->buffer);
    free(stream->line);
    *stream = (struct kva_log_stream){0};
}

static bool fill(struct kva_log_stream *stream)
{
    if (stream->ended)
        return false;
    stream->at = 0;
    stream->filled = fread(stream->buffer, 1, KVA_LOG_LINE, stream->file);
    stream->ended = stream->filled < KVA_LOG_LINE;
    return stream->filled > 0;
}

// Length of the escape sequence at `text`, which starts with ESC: "\033[1;32m", "\033]0;title\a", "\033(B".
static size_t escape_length(const char *text, size_t length)
{
    size_t at = 2;
    if (length < 2)
        return length;
    if (text[1] == '[') {
        while (at < length && ((unsigned char)text[at] < 0x40 || (unsigned char)text[at] > 0x7e))
            at++;
        return at < length ? at + 1 : length;
    }
    if (text[1] == ']') {
        while (at < length && text[at] != '\a' && text[at] != '\033')
            at++;
        return at < length && text[at] == '\a' ? at + 1 : at;
    }
    return text[1] == '(' || text[1] == ')' ? (length < 3 ? length : 3) : 2;
}

static size_t without_escapes(char *line, size_t length)
{
    size_t kept = 0;
    for (size_t at = 0; at < length;)
        if (line[at] == '\033')
            at += escape_length(line + at, length - at);
        else
            line[kept++] = line[at++];
    return kept;
}

// {"log":"... \"kv cache\" ...\n"}: escapes of JSON become what they stand for, so that a message reads as it was.
static size_t without_json(char *line, size_t length)
{
    size_t kept = 0;
    for (size_t at = 0; at < length; at++) {
        if (line[at] != '\\' || at + 1 == length) {
            line[kept++] = line[at];
            continue;
        }
        at++;
        if (line[at] == 'u') {
            const bool escape = at + 4 < length && strncasecmp(line + at + 1, "001b", 4) == 0;
            line[kept++] = escape ? '\033' : '?';
            at += at + 4 < length ? 4 : length - at - 1;
        } else
            line[kept++] = strchr("nrt", line[at]) != NULL ? ' ' : line[at];
    }
    return kept;
}

static size_t clean(char *line, size_t length)
{
    const char *first = line;
    while (first < line + length && (*first == ' ' || *first == '\t'))
        first++;
    if (first < line + length && *first == '{')
        length = without_json(line, length);
    if (memchr(line, '\033', length) != NULL)
        length = without_escapes(line, length);
    line[length] = '\0';
    return length;
}

// Bytes 0 are left out, and what is too much for a line.
static void keep(struct kva_log_stream *stream, const char *from, size_t n, size_t *length)
{
    if (n <= KVA_LOG_LINE - *length && memchr(from, '\0', n) == NULL) {
        memcpy(stream->line + *length, from, n);
        *length += n;
        return;
    }
    for (size_t i = 0; i < n && *length < KVA_LOG_LINE; i++)
        if (from[i] != '\0')
            stream->line[(*length)++] = from[i];
}

// Copies up to the line's end, or as much as is kept of it.
static bool gather(struct kva_log_stream *stream, size_t *length)
{
    *length = 0;
    for (;;) {
        if (stream->at == stream->filled && !fill(stream))
            return *length > 0;
        const char *from = stream->buffer + stream->at;
        const size_t left = stream->filled - stream->at;
        const char *feed = memchr(from, '\n', left);
        size_t n = feed != NULL ? (size_t)(feed - from) : left;
        const char *back = memchr(from, '\r', n);
        n = back != NULL ? (size_t)(back - from) : n;
        keep(stream, from, n, length);
        stream->at += n;
        if (n < left) {
            stream->at++;
            stream->fed = back == NULL;
            return true;
        }
    }
}

bool kva_log_stream_next(struct kva_log_stream *stream, char **line, size_t *length)
{
    do {
        stream->number += stream->fed || stream->number == 0;
        stream->fed = false;
        if (!gather(stream, length)) {
            stream->number -= stream->number > 0;
            return false;
        }
    } while ((*length = clean(stream->line, *length)) == 0);
    *line = stream->line;
    return true;
}
