// Tables that line up: one builder for text and Markdown.
#ifndef KVA_REPORT_TABLE_H
#define KVA_REPORT_TABLE_H

#include "base/arena.h"
#include "base/text.h"

#define KVA_TABLE_COLUMNS 10

// Zero-initialise and set `arena`; after a failed allocation `failed` stays set.
struct kva_table {
    struct kva_arena *arena;
    const char *titles[KVA_TABLE_COLUMNS];
    bool right[KVA_TABLE_COLUMNS];
    size_t n_columns;
    const char **cells;  // [rows, n_columns], row after row
    size_t n_cells, capacity;
    bool failed;
};

// Columns first, then cells, row after row.
void kva_table_column(struct kva_table *table, const char *title, bool right);
__attribute__((format(printf, 2, 3))) void kva_table_cell(struct kva_table *table, const char *format, ...);
void kva_table_bytes(struct kva_table *table, uint64_t bytes);  // "11,173,625,856 B"; "-" when 0
void kva_table_count(struct kva_table *table, uint64_t count);  // "131,072"; "-" when 0

// Text: two blanks before each column; no title line when no column has a title; dim titles with `colour`.
void kva_table_text(const struct kva_table *table, bool colour, struct kva_text *out);
void kva_table_markdown(const struct kva_table *table, struct kva_text *out);

#endif
