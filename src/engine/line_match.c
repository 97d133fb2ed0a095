#define _GNU_SOURCE  // memmem
#include "engine/line_match.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

enum { TAIL = 24, DIGITS = 64 };

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

// ---------------------------------------------------------------- templates

static enum kva_place kind_of(const char *format, size_t length, int *decimals)
{
    const char *point = memchr(format, '.', length);
    *decimals = 0;
    if (length == 3 && memcmp(format, "gib", 3) == 0) {
        *decimals = 2;
        return KVA_PLACE_REAL;
    }
    if (point != NULL) {
        *decimals = (int)strtol(point + 1, NULL, 10);
        return KVA_PLACE_REAL;
    }
    const char last = length > 0 ? format[length - 1] : 's';
    return last == 's' ? KVA_PLACE_WORD : last == 'q' ? KVA_PLACE_TEXT : KVA_PLACE_COUNT;
}

// How much of a literal a line must hold. What an engine adds after the last number may be cut off, or worded otherwise
// by another version: its beginning decides.
static size_t wanted_length(const struct kva_line_pattern *pattern, size_t literal)
{
    const size_t length = pattern->literals[literal].length;
    return literal == pattern->n_places && literal > 0 ? kva_min(length, TAIL) : length;
}

// The longest piece without blanks.
static void find_anchor(struct kva_line_pattern *pattern)
{
    for (size_t i = 0; i <= pattern->n_places; i++) {
        const char *bytes = pattern->literals[i].bytes;
        const size_t whole = wanted_length(pattern, i);
        for (size_t at = 0, length = 0; at < whole; at += length + 1) {
            for (length = 0; at + length < whole && !is_blank(bytes[at + length]);)
                length++;
            if (length > pattern->anchor_length) {
                pattern->anchor = bytes + at;
                pattern->anchor_length = length;
            }
        }
    }
}

bool kva_line_compile(const char *text, struct kva_arena *arena, struct kva_line_pattern *pattern)
{
    *pattern = (struct kva_line_pattern){.literals[0].bytes = text};
    for (const char *at = text; *at != '\0';) {
        const char *end = *at == '{' ? strchr(at, '}') : NULL;
        const char *colon = end != NULL ? memchr(at, ':', (size_t)(end - at)) : NULL;
        if (colon == NULL || colon == at + 1) {  // text, brackets without a colon included
            pattern->literals[pattern->n_places].length++;
            at++;
            continue;
        }
        if (pattern->n_places == KVA_MAX_PLACES)
            return false;
        struct kva_line_place *place = &pattern->places[pattern->n_places++];
        place->name = kva_arena_strndup(arena, at + 1, (size_t)(colon - at) - 1);
        place->kind = kind_of(colon + 1, (size_t)(end - colon) - 1, &place->decimals);
        place->grouped = colon[1] == ',';
        if (place->name == NULL)
            return false;
        at = end + 1;
        pattern->literals[pattern->n_places].bytes = at;
    }
    find_anchor(pattern);
    return true;
}

// ---------------------------------------------------------------- lines

struct line {
    const char *bytes;
    size_t length, at;
};

// Reads `literal` at the line's place: every run of its blanks stands for one blank or more, and for none at its ends,
// where numbers bring their own.
static bool read_literal(struct line *line, const char *literal, size_t length)
{
    for (size_t i = 0; i < length;) {
        if (!is_blank(literal[i])) {
            if (line->at >= line->length || line->bytes[line->at] != literal[i])
                return false;
            line->at++;
            i++;
            continue;
        }
        const bool inner = i > 0;
        while (i < length && is_blank(literal[i]))
            i++;
        if (inner && i < length && (line->at >= line->length || !is_blank(line->bytes[line->at])))
            return false;
        while (line->at < line->length && is_blank(line->bytes[line->at]))
            line->at++;
    }
    return true;
}

// Digits, with separators between thousands ("1,234", "1_234"), and with `real` a point and an exponent.
static bool read_number(struct line *line, bool real, struct kva_line_value *value)
{
    char digits[DIGITS];
    size_t n = 0, at;
    while (line->at < line->length && is_blank(line->bytes[line->at]))
        line->at++;
    for (at = line->at; at < line->length; at++) {
        const char c = line->bytes[at];
        const bool more = at + 1 < line->length && is_digit(line->bytes[at + 1]);
        if (is_digit(c) || (real && (c == '.' || (c == '-' && n == 0)) && more))
            digits[n++] = c;
        else if (real && (c == 'e' || c == 'E') && n > 0 && at + 2 < line->length &&
                 (more ||
                  ((line->bytes[at + 1] == '+' || line->bytes[at + 1] == '-') && is_digit(line->bytes[at + 2])))) {
            digits[n++] = c;
            digits[n++] = line->bytes[++at];
        } else if (!((c == ',' || c == '_') && n > 0 && more && at + 3 < line->length &&
                     is_digit(line->bytes[at + 2]) && is_digit(line->bytes[at + 3]) &&
                     (at + 4 >= line->length || !is_digit(line->bytes[at + 4]))))
            break;
        if (n + 2 >= DIGITS)
            return false;
    }
    if (n == 0 || !is_digit(digits[n - 1]))
        return false;
    digits[n] = '\0';
    *value = (struct kva_line_value){.bytes = line->bytes + line->at, .length = at - line->at, .count = 0};
    value->real = strtod(digits, NULL);
    value->grouped = memchr(value->bytes, ',', value->length) != NULL;
    for (size_t i = 0; i < n && is_digit(digits[i]); i++)
        if (!kva_mul(value->count, 10, &value->count) ||
            !kva_add(value->count, (uint64_t)(digits[i] - '0'), &value->count)) {
            value->count = KVA_UNKNOWN;
            break;
        }
    line->at = at;
    return true;
}

static bool starts(const struct line *line, size_t at, const char *literal, size_t length)
{
    struct line here = {line->bytes, line->length, at};
    if (length > 0 && strspn(literal, " \t") >= length)  // nothing but blanks: one at least
        return at < line->length && is_blank(line->bytes[at]);
    return length > 0 && read_literal(&here, literal, length);
}

// Up to where the next literal starts; a word also ends at a blank. Without a next literal a text takes the rest.
static bool read_text(struct line *line, bool word, const char *next, size_t next_length, struct kva_line_value *value)
{
    if (word)
        while (line->at < line->length && is_blank(line->bytes[line->at]))
            line->at++;
    size_t at = line->at;
    while (at < line->length && !(word && is_blank(line->bytes[at])) && !starts(line, at, next, next_length))
        at++;
    *value = (struct kva_line_value){.bytes = line->bytes + line->at, .length = at - line->at};
    char digits[DIGITS], *end;
    if (value->length > 0 && value->length < DIGITS) {
        memcpy(digits, value->bytes, value->length);
        digits[value->length] = '\0';
        value->real = strtod(digits, &end);
        value->real = *end == '\0' ? value->real : 0;
    }
    line->at = at;
    return value->length > 0;
}

static bool read_all(const struct kva_line_pattern *pattern, struct line line, struct kva_line_value *values,
                     bool *whole)
{
    for (size_t i = 0; i <= pattern->n_places; i++) {
        if (!read_literal(&line, pattern->literals[i].bytes, wanted_length(pattern, i)))
            return false;
        if (i == pattern->n_places) {
            const size_t read = wanted_length(pattern, i);
            *whole = read_literal(&line, pattern->literals[i].bytes + read, pattern->literals[i].length - read);
            return true;
        }
        const enum kva_place kind = pattern->places[i].kind;
        const bool read = kind == KVA_PLACE_COUNT || kind == KVA_PLACE_REAL
                              ? read_number(&line, kind == KVA_PLACE_REAL, &values[i])
                              : read_text(&line, kind == KVA_PLACE_WORD, pattern->literals[i + 1].bytes,
                                          pattern->literals[i + 1].length, &values[i]);
        if (!read)
            return false;
    }
    return true;
}

bool kva_line_match(const struct kva_line_pattern *pattern, const char *line, size_t length,
                    struct kva_line_value *values, struct kva_line_found *found)
{
    const char *first = pattern->literals[0].bytes;
    size_t skipped = 0, piece = 0;
    while (skipped < pattern->literals[0].length && is_blank(first[skipped]))
        skipped++;
    while (skipped + piece < pattern->literals[0].length && !is_blank(first[skipped + piece]))
        piece++;
    if (piece == 0)
        return false;
    for (const char *at = line, *end = line + length; at < end; at++) {
        at = memmem(at, (size_t)(end - at), first + skipped, piece);
        if (at == NULL)
            return false;
        found->start = (size_t)(at - line);
        const bool whole_word = at == line || !isalnum((unsigned char)at[-1]) || !isalnum((unsigned char)*at);
        if (whole_word && read_all(pattern, (struct line){line, length, found->start}, values, &found->whole))
            return true;
    }
    return false;
}
