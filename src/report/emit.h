// JSON written straight into text, key after key: indented for people, or on one line for streams of millions.
#ifndef KVA_REPORT_EMIT_H
#define KVA_REPORT_EMIT_H

#include "base/text.h"

struct kva_emit {
    struct kva_text *out;  // `failed` when memory ran out
    bool compact;          // one line, no blanks
    unsigned depth;
    bool after;  // something stands before, in the same object or list
};

// key: NULL in lists and at the top. bracket: '{' or '['.
void kva_emit_open(struct kva_emit *emit, const char *key, char bracket);
void kva_emit_close(struct kva_emit *emit, char bracket);
void kva_emit_null(struct kva_emit *emit, const char *key);
// null for KVA_UNKNOWN, and beyond 2^63 - 1, which JSON readers cannot hold
void kva_emit_count(struct kva_emit *emit, const char *key, uint64_t count);
void kva_emit_integer(struct kva_emit *emit, const char *key, int64_t integer);
void kva_emit_known(struct kva_emit *emit, const char *key, uint64_t count);  // null for 0 too: it was not told
void kva_emit_figure(struct kva_emit *emit, const char *key, double figure);  // null unless it is above 0
void kva_emit_flag(struct kva_emit *emit, const char *key, bool flag);
void kva_emit_real(struct kva_emit *emit, const char *key, double real);
// null for NULL; bytes that are not UTF-8 (a path may hold them) become '?'
void kva_emit_text(struct kva_emit *emit, const char *key, const char *text);
void kva_emit_texts(struct kva_emit *emit, const char *key, const char *const *texts, size_t n);
void kva_emit_dtype(struct kva_emit *emit, const char *key, enum kva_dtype dtype);  // null when unknown
void kva_emit_layer(struct kva_emit *emit, const char *key, int32_t layer);         // null below 0
void kva_emit_gpu(struct kva_emit *emit, const char *key, const struct kva_gpu *gpu);

#endif
