#include "report/emit.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static void add(struct kva_emit *emit, const char *text)
{
    kva_text_add(emit->out, text, strlen(text));
}

static void new_line(struct kva_emit *emit)
{
    static const char BLANKS[] = "\n                                ";
    const size_t wanted = 1 + 2 * (size_t)emit->depth, most = sizeof BLANKS - 1;
    if (!emit->compact)
        kva_text_add(emit->out, BLANKS, wanted < most ? wanted : most);
}

// What stands before a value: a comma, a line, its key. Keys are words of ours: nothing in them needs escaping.
static void begin(struct kva_emit *emit, const char *key)
{
    if (emit->after)
        kva_text_add(emit->out, ",", 1);
    if (emit->depth > 0)
        new_line(emit);
    emit->after = true;
    if (key == NULL)
        return;
    kva_text_add(emit->out, "\"", 1);
    add(emit, key);
    kva_text_add(emit->out, "\": ", emit->compact ? 2 : 3);
}

void kva_emit_open(struct kva_emit *emit, const char *key, char bracket)
{
    begin(emit, key);
    kva_text_add(emit->out, &bracket, 1);
    emit->depth++;
    emit->after = false;
}

void kva_emit_close(struct kva_emit *emit, char bracket)
{
    emit->depth--;
    if (emit->after)
        new_line(emit);
    kva_text_add(emit->out, &bracket, 1);
    emit->after = true;
}

void kva_emit_null(struct kva_emit *emit, const char *key)
{
    begin(emit, key);
    kva_text_add(emit->out, "null", 4);
}

void kva_emit_count(struct kva_emit *emit, const char *key, uint64_t count)
{
    char digits[24];
    size_t at = sizeof digits;
    if (count > INT64_MAX) {
        kva_emit_null(emit, key);
        return;
    }
    begin(emit, key);
    do
        digits[--at] = (char)('0' + count % 10);
    while ((count /= 10) > 0);
    kva_text_add(emit->out, digits + at, sizeof digits - at);
}

void kva_emit_flag(struct kva_emit *emit, const char *key, bool flag)
{
    begin(emit, key);
    kva_text_printf(emit->out, "%s", flag ? "true" : "false");
}

void kva_emit_real(struct kva_emit *emit, const char *key, double real)
{
    char digits[40];
    if (!isfinite(real)) {
        kva_emit_null(emit, key);
        return;
    }
    begin(emit, key);
    snprintf(digits, sizeof digits, "%.12g", real);
    add(emit, digits);
    if (strpbrk(digits, ".e") == NULL)  // a reader should see that it is no integer
        add(emit, ".0");
}

// The length of the UTF-8 character at `text`; 0: it is none. (RFC 3629, section 4.)
static size_t utf8_length(const unsigned char *text)
{
    const unsigned char c = text[0];
    if (c < 0x80)
        return 1;
    const size_t length = c >= 0xc2 && c <= 0xdf ? 2 : c >= 0xe0 && c <= 0xef ? 3 : c >= 0xf0 && c <= 0xf4 ? 4 : 0;
    const unsigned char low = c == 0xe0   ? 0xa0
                              : c == 0xf0 ? 0x90
                                          : 0x80,
                        high = c == 0xed   ? 0x9f
                               : c == 0xf4 ? 0x8f
                                           : 0xbf;
    if (length == 0 || text[1] < low || text[1] > high)
        return 0;
    for (size_t i = 2; i < length; i++)
        if (text[i] < 0x80 || text[i] > 0xbf)
            return 0;
    return length;
}

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

void kva_emit_text(struct kva_emit *emit, const char *key, const char *text)
{
    if (text == NULL) {
        kva_emit_null(emit, key);
        return;
    }
    begin(emit, key);
    kva_text_add(emit->out, "\"", 1);
    while (*text != '\0') {
        char escaped[8];
        size_t run = 0;
        while (is_plain((unsigned char)text[run]))
            run++;
        kva_text_add(emit->out, text, run);
        text += run;
        if (*text == '\0')
            break;
        const unsigned char c = (unsigned char)*text;
        const size_t length = utf8_length((const unsigned char *)text);
        if (c == '"' || c == '\\') {
            kva_text_add(emit->out, "\\", 1);
            kva_text_add(emit->out, text, 1);
        } else if (c < 0x20 || c == 0x7f) {
            snprintf(escaped, sizeof escaped, "\\u%04x", c);
            kva_text_add(emit->out, escaped, 6);
        } else
            kva_text_add(emit->out, length > 0 ? text : "?", length > 0 ? length : 1);
        text += length > 0 ? length : 1;
    }
    kva_text_add(emit->out, "\"", 1);
}

void kva_emit_texts(struct kva_emit *emit, const char *key, const char *const *texts, size_t n)
{
    kva_emit_open(emit, key, '[');
    for (size_t i = 0; i < n; i++)
        kva_emit_text(emit, NULL, texts[i]);
    kva_emit_close(emit, ']');
}

void kva_emit_dtype(struct kva_emit *emit, const char *key, enum kva_dtype dtype)
{
    kva_emit_text(emit, key, dtype == KVA_DTYPE_NONE ? NULL : kva_dtype_name(dtype));
}

void kva_emit_layer(struct kva_emit *emit, const char *key, int32_t layer)
{
    kva_emit_count(emit, key, layer < 0 ? KVA_UNKNOWN : (uint64_t)layer);
}

void kva_emit_integer(struct kva_emit *emit, const char *key, int64_t integer)
{
    begin(emit, key);
    kva_text_printf(emit->out, "%" PRId64, integer);
}

void kva_emit_known(struct kva_emit *emit, const char *key, uint64_t count)
{
    kva_emit_count(emit, key, count > 0 ? count : KVA_UNKNOWN);
}

void kva_emit_figure(struct kva_emit *emit, const char *key, double figure)
{
    if (figure > 0)
        kva_emit_real(emit, key, figure);
    else
        kva_emit_null(emit, key);
}
