// What a decoded token costs, as a section of a page and as a key of JSON.
#ifndef KVA_REPORT_DECODE_H
#define KVA_REPORT_DECODE_H

#include "report/emit.h"
#include "report/page.h"

// Nothing where decode is NULL.
void kva_page_decode(struct kva_page *page, const struct kva_decode *decode);
// "decode": {...}; nothing where decode is NULL.
void kva_emit_decode(struct kva_emit *emit, const struct kva_decode *decode);

#endif
