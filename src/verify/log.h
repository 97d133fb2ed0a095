// An engine's log, read once from its beginning in bounded memory: what it says of the engine, the model, the flags,
// and every number of the caches that it prints.
#ifndef KVA_VERIFY_LOG_H
#define KVA_VERIFY_LOG_H

#include <stdio.h>

#include "engine/engine.h"
#include "engine/line_match.h"
#include "verify/log_facts.h"
#include "verify/log_metadata.h"

#define KVA_LOG_LINE (64 * 1024)  // bytes of a line that are read; the rest of a longer one is skipped
#define KVA_LOG_MOST 1024         // different statements that are kept
#define KVA_LOG_TEXT 400          // bytes of a line that are kept to be shown
#define KVA_LOG_NOTES 24

// ---------------------------------------------------------------- lines of bytes (log_lines.c)

// Cuts a stream at line feeds and carriage returns. Bytes 0 (UTF-16, noise) and the escape sequences of terminals are
// left out, and a line of JSON is read as the text that its strings hold.
struct kva_log_stream {
    FILE *file;
    char *buffer;  // [KVA_LOG_LINE], what was read and not yet handed out
    char *line;    // [KVA_LOG_LINE + 1]
    size_t at, filled;
    uint64_t number;  // of the line handed out last, from 1: line feeds only, as editors count
    bool ended, fed;
};
enum kva_status kva_log_stream_open(const char *path, struct kva_log_stream *stream, struct kva_error *error);
void kva_log_stream_close(struct kva_log_stream *stream);
// The next line that is not empty, without its end; false: there is none, or reading failed (ferror).
bool kva_log_stream_next(struct kva_log_stream *stream, char **line, size_t *length);

// ---------------------------------------------------------------- what a line is matched with (log_known.c)

struct kva_log_known {
    size_t engine;                   // in kva_log.engines
    const char *id;                  // of the template
    const char *text;                // the template
    const struct kva_line_row *row;  // of data/engines; NULL: of data/logs.yaml
    bool tells;                      // how the engine was started, rather than a number
    struct kva_line_pattern pattern;
    uint32_t four;  // bytes of the anchor, at `four_at` in it
    size_t four_at;
    struct kva_log_known *next;  // in the same bucket of `four`
    uint64_t tried;              // the last look that tried it
    size_t seen;                 // 1 + the rank that printed it first, of lines that tell what was started
};

#define KVA_LOG_HASH_BITS 16
struct kva_log_vocabulary {
    struct kva_log_known *known;
    size_t n_known;
    uint64_t any[(1 << KVA_LOG_HASH_BITS) / 64];            // one bit a bucket: is something in it?
    struct kva_log_known *buckets[1 << KVA_LOG_HASH_BITS];  // by a hash of four bytes
};
static inline uint32_t kva_log_hash(uint32_t four)
{
    return (four * UINT32_C(2654435761)) >> (32 - KVA_LOG_HASH_BITS);
}

// ---------------------------------------------------------------- what was read

// Something between two values of a quantity that a line states.
struct kva_log_value {
    const char *name;
    uint64_t line;          // of the log
    const char *line_text;  // of that line, from where the template starts
    enum kva_place kind;
    int decimals;      // of the template
    const char *text;  // as printed
    uint64_t count;
    double real;
    unsigned parts;  // how many lines it is the sum of; 1 for nearly all
};

// One thing that the log says: a line, or several that one template writes.
struct kva_log_statement {
    const char *id;
    size_t rank;  // in kva_log.ranks
    struct kva_log_value values[KVA_MAX_PLACES];
    size_t n_values;
    bool tells;  // of the pool, in words of its own
};

struct kva_log_engine_part {
    const char *id, *name;
    const struct kva_engine *engine;  // NULL: kvatlas has no policy for it
    const struct kva_log_engine *facts;
    const struct kva_engine_file *file;
    struct kva_log_statement *statements;
    size_t n_statements, room;
    uint64_t told;        // lines that only this engine prints
    uint64_t first_line;  // the first of its lines; 0: none
    bool *versions;       // [file->n_versions] that print lines as they were read
    char version[64];     // as printed; "": not said
    char model[512];
    uint64_t version_line, model_line;
};

struct kva_log {
    struct kva_arena *arena;
    const struct kva_log_vocabulary *vocabulary;
    const struct kva_log_facts *facts;
    struct kva_log_engine_part *engines;
    size_t n_engines;
    struct kva_log_said {
        char value[128];
        uint64_t line;  // 0: not said
    } * settings;       // [facts->n_settings]
    const char **ranks;
    size_t n_ranks;
    struct kva_log_metadata metadata;  // of llama.cpp's model
    const char *notes[KVA_LOG_NOTES];
    size_t n_notes;
    uint64_t lines;  // how many there were
};

// Reads all of it. path: "-": standard input. Errors: KVA_BAD_INPUT (no such file; more statements than a log of one
// start can hold), KVA_MACHINE. Nothing recognised is no error here.
enum kva_status kva_log_read(struct kva_atlas *atlas, const char *path, struct kva_arena *arena, struct kva_log *log,
                             struct kva_error *error);
void kva_log_free(struct kva_log *log);  // what its arena does not hold

enum kva_status kva_log_vocabulary_make(struct kva_atlas *atlas, struct kva_log *log,
                                        struct kva_log_vocabulary *vocabulary, struct kva_error *error);

// ---------------------------------------------------------------- pieces (log_words.c)

// "TP0 PP1", "rank 3" of what stands before a message, or "": the process that says it. buffer: [KVA_LOG_RANK].
#define KVA_LOG_RANK 64
void kva_log_rank(const char *prefix, size_t length, char *buffer);

// Calls `visit` with each "key=value" and "'key': value" of Python's way to write objects and dictionaries; a key
// inside another value is called "outer.key". Values come without quotes and without "torch.".
typedef void (*kva_log_argument_visit)(void *user, const char *key, const char *value);
void kva_log_arguments(const char *text, size_t length, kva_log_argument_visit visit, void *user);

// Once each; beyond KVA_LOG_NOTES nothing is kept.
__attribute__((format(printf, 2, 3))) void kva_log_note(struct kva_log *log, const char *format, ...);

#endif
