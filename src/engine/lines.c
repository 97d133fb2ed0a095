// The lines that an engine prints: templates of its data file, filled in with named quantities.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "engine/engine.h"

enum { NAME = 64, FORMAT = 16, KEPT = 8 };

static const struct kva_quantity *find(const struct kva_quantity *quantities, size_t n, const char *name)
{
    for (size_t q = 0; q < n; q++)
        if (strcmp(quantities[q].name, name) == 0)
            return &quantities[q];
    return NULL;
}

// Python's str(round(x, 2)): two decimals, of which a trailing zero goes while one decimal is left.
static void render_gib(double value, struct kva_text *out)
{
    char digits[64];
    int length = snprintf(digits, sizeof digits, "%.2f", value);
    if (length > 0 && (size_t)length < sizeof digits && digits[length - 1] == '0')
        length--;
    kva_text_add(out, digits, (size_t)(length > 0 ? length : 0));
}

static void render_text(const char *text, int width, struct kva_text *out)
{
    const size_t length = strlen(text);
    for (size_t i = length; width > 0 && i < (size_t)width; i++)
        kva_text_add(out, " ", 1);
    kva_text_add(out, text, length);
}

static void render(const struct kva_quantity *quantity, const char *format, struct kva_text *out)
{
    char human[KVA_HUMAN];
    const double real = quantity->type == KVA_QUANTITY_COUNT ? (double)quantity->count : quantity->real;
    const int width = (int)strtol(format, NULL, 10);
    const char *point = strchr(format, '.');
    if (strcmp(format, "gib") == 0)
        render_gib(real, out);
    else if (point != NULL)
        kva_text_printf(out, "%*.*f", width, (int)strtol(point + 1, NULL, 10), real);
    else if (quantity->type == KVA_QUANTITY_TEXT)
        render_text(quantity->text != NULL ? quantity->text : "", width, out);
    else if (strcmp(format, ",") == 0)
        kva_text_printf(out, "%s", kva_human_count(quantity->count, human));
    else
        kva_text_printf(out, "%*llu", width, (unsigned long long)quantity->count);
}

// Splits "name:format" of `length` bytes. A placeholder without a colon is text in curly brackets.
static bool split(const char *inside, size_t length, char *name, char *format)
{
    const char *colon = memchr(inside, ':', length);
    if (colon == NULL || colon == inside || (size_t)(colon - inside) >= NAME ||
        length - (size_t)(colon - inside) > FORMAT)
        return false;
    const size_t before = (size_t)(colon - inside), after = length - before - 1;
    memcpy(name, inside, before);
    memcpy(format, colon + 1, after);
    name[before] = format[after] = '\0';
    return true;
}

bool kva_line_render(const char *text, const struct kva_quantity *quantities, size_t n, struct kva_text *out,
                     const char **missing)
{
    while (*text != '\0') {
        const size_t literal = strcspn(text, "{");
        kva_text_add(out, text, literal);
        text += literal;
        const char *end = strchr(text, '}');
        char name[NAME], format[FORMAT];
        if (*text == '\0' || end == NULL)
            break;
        if (!split(text + 1, (size_t)(end - text) - 1, name, format))
            kva_text_add(out, text, (size_t)(end - text) + 1);
        else {
            const struct kva_quantity *quantity = find(quantities, n, name);
            if (quantity == NULL) {
                *missing = text + 1;
                return false;
            }
            render(quantity, format, out);
        }
        text = end + 1;
    }
    return true;
}

// "d", ",", "s", "q", "gib", "6d", "7.2f", ".2f", "12s": a width of at most two digits.
static bool is_format(const char *format)
{
    static const char *const WORDS[] = {"d", ",", "s", "q", "gib", "f"};
    const char *at = format;
    for (int digits = 0; *at >= '0' && *at <= '9'; at++)
        if (++digits > 2)
            return false;
    if (*at == '.')
        return at[1] >= '0' && at[1] <= '9' && strcmp(at + 2, "f") == 0;
    for (size_t w = 0; w < sizeof WORDS / sizeof *WORDS; w++)
        if (strcmp(at, WORDS[w]) == 0)
            return true;
    return false;
}

bool kva_line_is_well_formed(const char *text)
{
    for (text = strchr(text, '{'); text != NULL; text = strchr(text, '{')) {
        const char *end = strchr(text, '}');
        char name[NAME], format[FORMAT];
        if (end == NULL || !split(text + 1, (size_t)(end - text) - 1, name, format) || !is_format(format))
            return false;
        text = end + 1;
    }
    return true;
}

static bool grow(struct kva_call *call)
{
    struct kva_prints *prints = &call->prints;
    if (prints->n < prints->room)
        return true;
    size_t room = prints->room == 0 ? KEPT : prints->room * 2;
    struct kva_print_line *lines = kva_arena_alloc(call->arena, room, sizeof *lines);
    if (lines == NULL)
        return false;
    if (prints->n > 0)
        memcpy(lines, prints->lines, prints->n * sizeof *lines);
    prints->lines = lines;
    prints->room = room;
    return true;
}

static enum kva_status add_line(struct kva_call *call, const struct kva_line_row *row,
                                const struct kva_quantity *quantities, size_t n)
{
    struct kva_text text = {0};
    const char *missing = NULL;
    struct kva_print_line line = {.id = row->id, .n_quantities = n};
    line.quantities = kva_arena_alloc(call->arena, n + 1, sizeof *line.quantities);
    enum kva_status status = KVA_OK;
    if (!kva_line_render(row->text, quantities, n, &text, &missing))
        status = kva_fail(call->error, KVA_BAD_INPUT, NULL, row->id,
                          "the line '%s' of %s names a quantity, {%.*s}, "
                          "that is not given",
                          row->text, call->engine->id, (int)strcspn(missing, "}"), missing);
    else if (text.failed || line.quantities == NULL || !grow(call) ||
             (line.text = kva_arena_strdup(call->arena, text.length > 0 ? text.bytes : "")) == NULL)
        status = kva_fail_memory(call->error, text.length + 1);
    else {
        if (n > 0)
            memcpy(line.quantities, quantities, n * sizeof *quantities);
        call->prints.lines[call->prints.n++] = line;
    }
    kva_text_free(&text);
    return status;
}

enum kva_status kva_print(struct kva_call *call, const char *id, const struct kva_quantity *quantities, size_t n)
{
    enum kva_status status = KVA_OK;
    for (size_t l = 0; status == KVA_OK && l < call->version->n_lines; l++)
        if (strcmp(call->version->lines[l]->id, id) == 0)
            status = add_line(call, call->version->lines[l], quantities, n);
    return status;
}
