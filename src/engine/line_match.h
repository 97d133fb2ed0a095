// The inverse of kva_line_render: what a template's placeholders hold in a line that an engine printed.
//
// A log puts things before a line (times, ranks, the names of functions and containers) and sometimes after it, so a
// template may start anywhere in it. Blanks are alike, however many there are; thousands may be separated.
#ifndef KVA_ENGINE_LINE_MATCH_H
#define KVA_ENGINE_LINE_MATCH_H

#include "base/arena.h"
#include "kvatlas.h"

enum kva_place {
    KVA_PLACE_COUNT,  // {name:d}, {name:,}, {name:6d}
    KVA_PLACE_REAL,   // {name:.2f}, {name:8.2f}, {name:gib}
    KVA_PLACE_WORD,   // {name:s}, {name:10s}
    KVA_PLACE_TEXT,   // {name:q}
};

#define KVA_MAX_PLACES 16

struct kva_line_place {
    const char *name;  // in the pattern's arena
    enum kva_place kind;
    int decimals;  // KVA_PLACE_REAL
    bool grouped;  // {name:,}
};

// A template, taken apart once. literals[i] stands before places[i]; literals[n_places] after the last.
struct kva_line_pattern {
    struct {
        const char *bytes;  // in the template
        size_t length;
    } literals[KVA_MAX_PLACES + 1];
    struct kva_line_place places[KVA_MAX_PLACES];
    size_t n_places;
    const char *anchor;  // the longest piece of a literal without blanks: a line without it cannot match
    size_t anchor_length;
};

// What stands in the line for one placeholder.
struct kva_line_value {
    const char *bytes;  // in the line, as printed
    size_t length;
    uint64_t count;  // KVA_PLACE_COUNT; KVA_UNKNOWN: more than 64 bits hold
    double real;     // of every number
    bool grouped;    // its thousands are separated
};

// text must outlive the pattern. false: more than KVA_MAX_PLACES placeholders, or out of memory.
bool kva_line_compile(const char *text, struct kva_arena *arena, struct kva_line_pattern *pattern);

struct kva_line_found {
    size_t start;  // in the line
    bool whole;    // all of the template is there: what it says after the last number, too
};

// values: [pattern->n_places].
bool kva_line_match(const struct kva_line_pattern *pattern, const char *line, size_t length,
                    struct kva_line_value *values, struct kva_line_found *found);

#endif
