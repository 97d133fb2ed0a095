// Pieces of a log's lines: which process speaks, and arguments as Python writes them; and what is noted of a log.
#define _GNU_SOURCE  // memmem
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "verify/log.h"

// ---------------------------------------------------------------- ranks

// "TP0", "PP1", "rank=2", "RANK 3", "pid=17" in what stands before a message. A process id only counts where no rank
// is named.
static const struct {
    const char *tag, *shown;
} TAGS[] = {{"DP", "DP"},       {"PP", "PP"},       {"TP", "TP"},      {"EP", "EP"},     {"RANK ", "rank "},
            {"rank=", "rank "}, {"rank ", "rank "}, {"rank", "rank "}, {"RANK", "rank "}};

static const char *find_tag(const char *prefix, size_t length, const char *tag)
{
    const size_t size = strlen(tag);
    for (const char *at = prefix; (size_t)(at - prefix) < length; at++) {
        at = memmem(at, length - (size_t)(at - prefix), tag, size);
        if (at == NULL)
            return NULL;
        const char *after = at + size;
        if (after < prefix + length && isdigit((unsigned char)*after) &&
            (at == prefix || !isalnum((unsigned char)at[-1])))
            return after;
    }
    return NULL;
}

static size_t digits(const char *at, const char *end)
{
    size_t n = 0;
    while (at + n < end && isdigit((unsigned char)at[n]) && n < 9)
        n++;
    return n;
}

void kva_log_rank(const char *prefix, size_t length, char *buffer)
{
    const char *end = prefix + length;
    size_t written = 0;
    buffer[0] = '\0';
    for (size_t t = 0; t < sizeof TAGS / sizeof *TAGS && written + 24 < KVA_LOG_RANK; t++) {
        const char *at = find_tag(prefix, length, TAGS[t].tag);
        if (at == NULL || (t >= 4 && written > 0))
            continue;
        written += (size_t)snprintf(buffer + written, KVA_LOG_RANK - written, "%s%s%.*s", written > 0 ? " " : "",
                                    TAGS[t].shown, (int)digits(at, end), at);
    }
    const char *pid = written == 0 ? find_tag(prefix, length, "pid=") : NULL;
    if (pid != NULL)
        snprintf(buffer, KVA_LOG_RANK, "pid %.*s", (int)digits(pid, end), pid);
}

// ---------------------------------------------------------------- arguments

enum { KEY = 64, VALUE = 256, DEPTH = 8 };

struct reader {
    const char *at, *end;
    kva_log_argument_visit visit;
    void *user;
};

static bool is_name(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.';
}

static void skip(struct reader *reader, const char *what)
{
    while (reader->at < reader->end && *reader->at != '\0' && strchr(what, *reader->at) != NULL)
        reader->at++;
}

// The text between quotes, of which `room - 1` bytes are kept.
static void read_quoted(struct reader *reader, char *out, size_t room)
{
    const char quote = *reader->at++;
    size_t n = 0;
    while (reader->at < reader->end && *reader->at != quote) {
        if (*reader->at == '\\' && reader->at + 1 < reader->end)
            reader->at++;
        if (n + 1 < room)
            out[n++] = *reader->at;
        reader->at++;
    }
    if (reader->at < reader->end)
        reader->at++;
    out[n] = '\0';
}

static void read_name(struct reader *reader, char *out, size_t room)
{
    size_t n = 0;
    for (; reader->at < reader->end && is_name(*reader->at); reader->at++)
        if (n + 1 < room)
            out[n++] = *reader->at;
    out[n] = '\0';
}

static void read_members(struct reader *reader, const char *outer, int depth);

// A value: quoted, a name or a number, or something in brackets whose members are visited under `key`.
static void read_value(struct reader *reader, const char *key, int depth)
{
    char value[VALUE] = "";
    skip(reader, " \t");
    if (reader->at < reader->end && (*reader->at == '\'' || *reader->at == '"')) {
        read_quoted(reader, value, sizeof value);
        reader->visit(reader->user, key, value);
        return;
    }
    if (reader->at < reader->end && *reader->at == '<') {  // <CacheMode.ALIGN: 'align'>
        const char *close = memchr(reader->at, '>', (size_t)(reader->end - reader->at));
        const char *quote = close != NULL ? memchr(reader->at, '\'', (size_t)(close - reader->at)) : NULL;
        if (quote != NULL) {
            reader->at = quote;
            read_quoted(reader, value, sizeof value);
            reader->visit(reader->user, key, value);
        }
        reader->at = close != NULL ? close + 1 : reader->end;
        return;
    }
    read_name(reader, value, sizeof value);
    skip(reader, " \t");
    if (reader->at < reader->end && *reader->at != '\0' && strchr("({[", *reader->at) != NULL) {
        reader->at++;
        read_members(reader, key, depth + 1);
        return;
    }
    if (value[0] != '\0')
        reader->visit(reader->user, key, strncmp(value, "torch.", 6) == 0 ? value + 6 : value);
}

static void read_members(struct reader *reader, const char *outer, int depth)
{
    char name[KEY], key[2 * KEY];
    while (reader->at < reader->end) {
        skip(reader, " \t,");
        if (reader->at == reader->end)
            return;
        if (*reader->at != '\0' && strchr(")}]", *reader->at) != NULL) {
            reader->at++;
            return;
        }
        const char *before = reader->at;
        name[0] = '\0';
        if (*reader->at == '\'' || *reader->at == '"')
            read_quoted(reader, name, sizeof name);
        else if (is_name(*reader->at))
            read_name(reader, name, sizeof name);
        skip(reader, " \t");
        if (reader->at < reader->end && (*reader->at == '=' || *reader->at == ':') && depth < DEPTH) {
            reader->at++;
            snprintf(key, sizeof key, "%.63s%s%s", outer, *outer != '\0' ? "." : "", name);
            read_value(reader, key, depth);
        } else if (reader->at < reader->end && *reader->at != '\0' && strchr("({[", *reader->at) != NULL &&
                   depth < DEPTH) {
            reader->at++;
            read_members(reader, outer, depth + 1);
        } else if (reader->at == before)
            reader->at++;
    }
}

void kva_log_arguments(const char *text, size_t length, kva_log_argument_visit visit, void *user)
{
    struct reader reader = {text, text + length, visit, user};
    skip(&reader, " \t");
    if (reader.at < reader.end && (*reader.at == '{' || *reader.at == '('))
        reader.at++;
    while (reader.at < reader.end)  // a bracket that closes more than was opened ends nothing
        read_members(&reader, "", 0);
}

// ---------------------------------------------------------------- notes

void kva_log_note(struct kva_log *log, const char *format, ...)
{
    char text[512];
    va_list arguments;
    if (log->n_notes == KVA_LOG_NOTES)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    for (size_t n = 0; n < log->n_notes; n++)
        if (strcmp(log->notes[n], text) == 0)
            return;
    const char *kept = kva_arena_strdup(log->arena, text);
    if (kept != NULL)
        log->notes[log->n_notes++] = kept;
}
