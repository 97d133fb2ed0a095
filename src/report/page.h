// A page of a report for people: headings, tables and lists, as text or as Markdown.
#ifndef KVA_REPORT_PAGE_H
#define KVA_REPORT_PAGE_H

#include <stdarg.h>

#include "report/report.h"
#include "report/table.h"

struct kva_page {
    const struct kva_report_style *style;
    struct kva_text *out;
    struct kva_arena *arena;
    bool started;  // something was written: a heading leaves a blank line
};

__attribute__((format(printf, 2, 3))) void kva_page_title(struct kva_page *page, const char *format, ...);
__attribute__((format(printf, 2, 3))) void kva_page_heading(struct kva_page *page, const char *format, ...);
__attribute__((format(printf, 2, 3))) void kva_page_paragraph(struct kva_page *page, const char *format, ...);
void kva_page_table(struct kva_page *page, const struct kva_table *table);
// A heading and its table; nothing when the table has no rows.
__attribute__((format(printf, 3, 4))) void kva_page_section(struct kva_page *page, const struct kva_table *table,
                                                            const char *heading, ...);
// A heading and one line each; nothing when n is 0.
void kva_page_list(struct kva_page *page, const char *heading, const char *const *lines, size_t n);

struct kva_table kva_page_new_table(const struct kva_page *page);
// A bar of `value` against `largest`, on a terminal; "" elsewhere. In the page's arena; NULL: out of memory.
const char *kva_page_bar(const struct kva_page *page, uint64_t value, uint64_t largest);

// In the page's arena; "" and page->out->failed when out of memory.
const char *kva_page_format(struct kva_page *page, const char *format, va_list arguments);
__attribute__((format(printf, 2, 3))) const char *kva_page_words(struct kva_page *page, const char *format, ...);

// Runs `write` on a page over a fresh arena, and tells whether all of it fitted in memory.
enum kva_status kva_page_write(const struct kva_report_style *style, struct kva_text *out,
                               enum kva_status (*write)(struct kva_page *, const void *, struct kva_error *),
                               const void *subject, struct kva_error *error);

#endif
