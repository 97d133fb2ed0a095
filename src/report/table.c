#include "report/table.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "report/words.h"

void kva_table_column(struct kva_table *table, const char *title, bool right)
{
    if (table->n_columns == KVA_TABLE_COLUMNS) {
        table->failed = true;
        return;
    }
    table->titles[table->n_columns] = title;
    table->right[table->n_columns++] = right;
}

static void add(struct kva_table *table, const char *cell)
{
    if (table->failed || cell == NULL) {
        table->failed = true;
        return;
    }
    if (table->n_cells == table->capacity) {
        size_t capacity = table->capacity == 0 ? 64 : table->capacity * 2;
        const char **cells = kva_arena_alloc(table->arena, capacity, sizeof *cells);
        if (cells == NULL) {
            table->failed = true;
            return;
        }
        if (table->n_cells > 0)
            memcpy(cells, table->cells, table->n_cells * sizeof *cells);
        table->cells = cells;
        table->capacity = capacity;
    }
    table->cells[table->n_cells++] = cell;
}

void kva_table_cell(struct kva_table *table, const char *format, ...)
{
    char line[512];
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (length < 0)
        table->failed = true;
    else if ((size_t)length < sizeof line)
        add(table, kva_arena_strdup(table->arena, line));
    else {
        char *longer = kva_arena_alloc(table->arena, (size_t)length + 1, 1);
        if (longer != NULL)
            vsnprintf(longer, (size_t)length + 1, format, again);
        add(table, longer);
    }
    va_end(again);
}

void kva_table_bytes(struct kva_table *table, uint64_t bytes)
{
    char digits[KVA_HUMAN];
    kva_table_cell(table, bytes > 0 ? "%s B" : "-", kva_human_count(bytes, digits));
}

void kva_table_count(struct kva_table *table, uint64_t count)
{
    char digits[KVA_HUMAN];
    kva_table_cell(table, count > 0 ? "%s" : "-", kva_human_count(count, digits));
}

// Characters that a terminal shows: neither UTF-8's following bytes nor colour sequences.
static size_t visible(const char *text)
{
    size_t width = 0;
    for (; *text != '\0'; text++) {
        if (*text == '\033') {
            text += strcspn(text, "m");
            if (*text == '\0')
                break;
        } else if (((unsigned char)*text & 0xC0) != 0x80)
            width++;
    }
    return width;
}

static void pad(struct kva_text *out, size_t width, char with)
{
    for (size_t i = 0; i < width; i++)
        kva_text_add(out, &with, 1);
}

static void measure(const struct kva_table *table, size_t *widths)
{
    for (size_t c = 0; c < table->n_columns; c++)
        widths[c] = visible(table->titles[c]);
    for (size_t i = 0; table->n_columns > 0 && i < table->n_cells; i++) {
        size_t width = visible(table->cells[i]);
        if (width > widths[i % table->n_columns])
            widths[i % table->n_columns] = width;
    }
}

static void text_row(const struct kva_table *table, const char *const *cells, const size_t *widths,
                     struct kva_text *out)
{
    size_t last = table->n_columns;
    while (last > 0 && *cells[last - 1] == '\0')
        last--;
    for (size_t c = 0; c < last; c++) {
        size_t fill = widths[c] - visible(cells[c]);
        pad(out, 2, ' ');
        if (table->right[c])
            pad(out, fill, ' ');
        kva_text_add(out, cells[c], strlen(cells[c]));
        if (!table->right[c] && c + 1 < last)
            pad(out, fill, ' ');
    }
}

void kva_table_text(const struct kva_table *table, bool colour, struct kva_text *out)
{
    size_t widths[KVA_TABLE_COLUMNS];
    bool titled = false;
    if (table->failed) {
        out->failed = true;
        return;
    }
    measure(table, widths);
    for (size_t c = 0; c < table->n_columns; c++)
        titled = titled || *table->titles[c] != '\0';
    if (titled) {
        kva_text_printf(out, "%s", kva_colour(colour, KVA_DIM));
        text_row(table, table->titles, widths, out);
        kva_text_printf(out, "%s\n", kva_colour(colour, KVA_PLAIN));
    }
    for (size_t i = 0; i + table->n_columns <= table->n_cells; i += table->n_columns) {
        text_row(table, table->cells + i, widths, out);
        pad(out, 1, '\n');
    }
}

static void markdown_row(const struct kva_table *table, const char *const *cells, struct kva_text *out)
{
    for (size_t c = 0; c < table->n_columns; c++) {
        kva_text_printf(out, "| ");
        for (const char *at = cells[c]; *at != '\0'; at++) {
            if (*at == '|')
                kva_text_add(out, "\\", 1);
            kva_text_add(out, *at == '\n' ? " " : at, 1);
        }
        kva_text_printf(out, " ");
    }
    kva_text_printf(out, "|\n");
}

void kva_table_markdown(const struct kva_table *table, struct kva_text *out)
{
    if (table->failed) {
        out->failed = true;
        return;
    }
    markdown_row(table, table->titles, out);
    for (size_t c = 0; c < table->n_columns; c++)
        kva_text_printf(out, table->right[c] ? "|--:" : "|---");
    kva_text_printf(out, "|\n");
    for (size_t i = 0; i + table->n_columns <= table->n_cells; i += table->n_columns)
        markdown_row(table, table->cells + i, out);
}
