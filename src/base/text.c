#include "base/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool reserve(struct kva_text *text, size_t more)
{
    size_t wanted;
    if (text->failed || __builtin_add_overflow(text->length, more, &wanted) ||
        __builtin_add_overflow(wanted, (size_t)1, &wanted)) {
        text->failed = true;
        return false;
    }
    if (wanted <= text->capacity)
        return true;
    size_t capacity = text->capacity == 0 ? 256 : text->capacity;
    while (capacity < wanted && capacity <= SIZE_MAX / 2)
        capacity *= 2;
    if (capacity < wanted)
        capacity = wanted;
    char *bytes = realloc(text->bytes, capacity);
    if (bytes == NULL) {
        text->failed = true;
        return false;
    }
    text->bytes = bytes;
    text->capacity = capacity;
    return true;
}

void kva_text_add(struct kva_text *text, const char *bytes, size_t length)
{
    if (!reserve(text, length))
        return;
    memcpy(text->bytes + text->length, bytes, length);
    text->length += length;
    text->bytes[text->length] = '\0';
}

void kva_text_printf(struct kva_text *text, const char *format, ...)
{
    enum { USUAL = 64 };
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    if (reserve(text, USUAL)) {
        const size_t room = text->capacity - text->length;
        const int length = vsnprintf(text->bytes + text->length, room, format, arguments);
        if (length < 0)
            text->failed = true;
        else if ((size_t)length < room || reserve(text, (size_t)length)) {
            if ((size_t)length >= room)  // longer than usual: printed again, into the room that it needs
                vsnprintf(text->bytes + text->length, (size_t)length + 1, format, again);
            text->length += (size_t)length;
        }
        if (text->failed)
            text->bytes[text->length] = '\0';
    }
    va_end(arguments);
    va_end(again);
}

void kva_text_free(struct kva_text *text)
{
    free(text->bytes);
    *text = (struct kva_text){0};
}

const char *kva_human_bytes(uint64_t bytes, char *buffer)
{
    static const char *const UNITS[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1024 && unit + 1 < sizeof UNITS / sizeof *UNITS) {
        value /= 1024;
        unit++;
    }
    if (unit == 0)
        snprintf(buffer, KVA_HUMAN, "%" PRIu64 " B", bytes);
    else
        snprintf(buffer, KVA_HUMAN, "%.*f %s", value < 100 ? 2 : 1, value, UNITS[unit]);
    return buffer;
}

const char *kva_human_count(uint64_t count, char *buffer)
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%" PRIu64, count);
    size_t at = 0;
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            buffer[at++] = ',';
        buffer[at++] = digits[i];
    }
    buffer[at] = '\0';
    return buffer;
}

bool kva_parse_count(const char *text, uint64_t *count)
{
    uint64_t value = 0;
    size_t digits = 0;
    for (; (*text >= '0' && *text <= '9') || (*text == '_' && digits > 0); text++) {
        if (*text == '_')
            continue;
        if (__builtin_mul_overflow(value, (uint64_t)10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value))
            return false;
        digits++;
    }
    unsigned shift = 0;
    if (*text == 'k' || *text == 'K')
        shift = 10;
    else if (*text == 'm' || *text == 'M')
        shift = 20;
    if (shift > 0)
        text++;
    if (digits == 0 || *text != '\0' || value > (UINT64_C(1) << 63) >> shift)
        return false;
    *count = value << shift;
    return true;
}
