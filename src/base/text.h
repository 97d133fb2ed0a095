// Text that grows, and numbers as people write them.
#ifndef KVA_BASE_TEXT_H
#define KVA_BASE_TEXT_H

#include "kvatlas.h"

// A growing string. Zero-initialise it; after a failed allocation `failed` stays set and further calls do nothing, so
// a writer checks once, at the end.
struct kva_text {
    char *bytes;  // always terminated once something was written
    size_t length, capacity;
    bool failed;
};

void kva_text_add(struct kva_text *text, const char *bytes, size_t length);
__attribute__((format(printf, 2, 3))) void kva_text_printf(struct kva_text *text, const char *format, ...);
void kva_text_free(struct kva_text *text);

#define KVA_HUMAN 40
// "10.41 GiB", "512 B": three or four significant digits, binary units. buffer: KVA_HUMAN bytes. Returns buffer.
const char *kva_human_bytes(uint64_t bytes, char *buffer);
// "11,173,625,856". buffer: KVA_HUMAN bytes. Returns buffer.
const char *kva_human_count(uint64_t count, char *buffer);

// "131072", "128k" (= 131072), "1m" (= 1048576), "131_072". False: not a count, negative, or beyond 2^63.
bool kva_parse_count(const char *text, uint64_t *count);

// The candidate that a person who typed `text` most likely meant; NULL when none is near.
const char *kva_nearest(const char *text, const char *const *candidates, size_t n);

#endif
