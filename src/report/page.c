#include "report/page.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "report/words.h"

enum { BAR_CELLS = 32 };

static bool markdown(const struct kva_page *page)
{
    return page->style->format == KVA_FORMAT_MARKDOWN;
}

const char *kva_page_format(struct kva_page *page, const char *format, va_list arguments)
{
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    char *text = length >= 0 ? kva_arena_alloc(page->arena, (size_t)length + 1, 1) : NULL;
    if (text != NULL)
        vsnprintf(text, (size_t)length + 1, format, again);
    else
        page->out->failed = true;
    va_end(again);
    return text != NULL ? text : "";
}

const char *kva_page_words(struct kva_page *page, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const char *text = kva_page_format(page, format, arguments);
    va_end(arguments);
    return text;
}

static void line(struct kva_page *page, const char *before, enum kva_shade shade, const char *after, const char *format,
                 va_list arguments)
{
    bool colour = page->style->colour && !markdown(page);
    const char *text = kva_page_format(page, format, arguments);
    kva_text_printf(page->out, "%s%s%s%s%s%s", page->started ? "\n" : "", before, kva_colour(colour, shade), text,
                    kva_colour(colour, KVA_PLAIN), after);
    page->started = true;
}

void kva_page_title(struct kva_page *page, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    line(page, markdown(page) ? "# " : "", KVA_BOLD, markdown(page) ? "\n\n" : "\n", format, arguments);
    va_end(arguments);
    page->started = !markdown(page);
}

void kva_page_heading(struct kva_page *page, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    line(page, markdown(page) ? "## " : "", KVA_BOLD, markdown(page) ? "\n\n" : "\n", format, arguments);
    va_end(arguments);
}

void kva_page_paragraph(struct kva_page *page, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    line(page, markdown(page) ? "" : "  ", KVA_PLAIN, "\n", format, arguments);
    va_end(arguments);
}

void kva_page_table(struct kva_page *page, const struct kva_table *table)
{
    if (markdown(page))
        kva_table_markdown(table, page->out);
    else
        kva_table_text(table, page->style->colour, page->out);
    page->started = true;
}

void kva_page_section(struct kva_page *page, const struct kva_table *table, const char *heading, ...)
{
    va_list arguments;
    if (table->n_cells == 0 && !table->failed)
        return;
    va_start(arguments, heading);
    kva_page_heading(page, "%s", kva_page_format(page, heading, arguments));
    va_end(arguments);
    kva_page_table(page, table);
}

void kva_page_list(struct kva_page *page, const char *heading, const char *const *lines, size_t n)
{
    if (n == 0)
        return;
    kva_page_heading(page, "%s", heading);
    for (size_t i = 0; i < n; i++)
        kva_text_printf(page->out, "%s%s\n", markdown(page) ? "- " : "  - ", lines[i]);
}

struct kva_table kva_page_new_table(const struct kva_page *page)
{
    return (struct kva_table){.arena = page->arena};
}

const char *kva_page_bar(const struct kva_page *page, uint64_t value, uint64_t largest)
{
    static const char *const EIGHTHS[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    if (!page->style->terminal || markdown(page) || largest == 0)
        return "";
    double share = (double)value / (double)largest * BAR_CELLS;
    size_t eighths = (size_t)(share * 8 + 0.5);
    if (eighths == 0 && value > 0)
        eighths = 1;
    struct kva_text bar = {0};
    kva_text_printf(&bar, "%s", kva_colour(page->style->colour, KVA_CYAN));
    for (size_t i = 0; i < eighths / 8; i++)
        kva_text_printf(&bar, "█");
    kva_text_printf(&bar, "%s%s", EIGHTHS[eighths % 8], kva_colour(page->style->colour, KVA_PLAIN));
    const char *kept = bar.failed ? NULL : kva_arena_strdup(page->arena, bar.bytes);
    kva_text_free(&bar);
    return kept;
}

enum kva_status kva_page_write(const struct kva_report_style *style, struct kva_text *out,
                               enum kva_status (*write)(struct kva_page *, const void *, struct kva_error *),
                               const void *subject, struct kva_error *error)
{
    struct kva_page page = {.style = style, .out = out, .arena = kva_arena_new()};
    if (page.arena == NULL)
        return kva_fail_memory(error, sizeof page);
    enum kva_status status = write(&page, subject, error);
    kva_arena_free(page.arena);
    if (status == KVA_OK && out->failed)
        status = kva_fail_memory(error, out->length);
    return status;
}
