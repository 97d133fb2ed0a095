// Reads a log: every line is looked at once, and what it states is kept.
#include <errno.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "verify/log.h"

struct reading {
    struct kva_log *log;
    struct kva_log_vocabulary *vocabulary;
    struct kva_error *error;
    const char *line;
    size_t length;
    uint64_t number, looks;
    size_t engine;  // whose arguments are read
    bool failed;    // out of memory
};

static const char *keep(struct reading *reading, const char *bytes, size_t length)
{
    const char *kept = kva_arena_strndup(reading->log->arena, bytes, length);
    reading->failed = reading->failed || kept == NULL;
    return kept;
}

// ---------------------------------------------------------------- ranks

static size_t rank_of(struct reading *reading, size_t start, bool processes)
{
    char rank[KVA_LOG_RANK];
    struct kva_log *log = reading->log;
    kva_log_rank(reading->line, start, rank);
    if (!processes && strncmp(rank, "pid", 3) == 0)
        rank[0] = '\0';
    for (size_t r = 0; r < log->n_ranks; r++)
        if (strcmp(log->ranks[r], rank) == 0)
            return r;
    if (log->n_ranks == KVA_LOG_MOST)
        return 0;
    log->ranks[log->n_ranks] = keep(reading, rank, strlen(rank));
    return reading->failed ? 0 : log->n_ranks++;
}

// ---------------------------------------------------------------- what was started, and how

// Notes it where the log says two things.
static void tell(struct reading *reading, const char *what, char *slot, size_t room, uint64_t *line, const char *value)
{
    if (*line > 0 && strcmp(slot, "auto") != 0 && strncmp(slot, value, room - 1) != 0)
        kva_log_note(reading->log, "line %llu says %s %s, line %llu said %s: the later counts",
                     (unsigned long long)reading->number, what, value, (unsigned long long)*line, slot);
    snprintf(slot, room, "%s", value);
    *line = reading->number;
}

// A line that tells what was started, twice from one process: what was printed before is of another start.
static void start(struct reading *reading, struct kva_log_known *known, size_t at)
{
    struct kva_log_engine_part *part = &reading->log->engines[known->engine];
    const size_t rank = rank_of(reading, at, false);
    const bool again = known->seen == rank + 1 && part->n_statements > 0;
    known->seen = known->seen > 0 ? known->seen : rank + 1;
    if (!again)
        return;
    kva_log_note(reading->log, "line %llu: %s starts once more; what was printed before is not compared",
                 (unsigned long long)reading->number, part->name);
    part->n_statements = 0;
    if (part->file != NULL)
        memset(part->versions, true, part->file->n_versions);
}

static bool says_nothing(const char *value)
{
    return *value == '\0' || strcmp(value, "None") == 0 || strcmp(value, "null") == 0;
}

static void take_setting(void *user, const char *key, const char *value)
{
    struct reading *reading = user;
    struct kva_log *log = reading->log;
    struct kva_log_engine_part *part = &log->engines[reading->engine];
    if (says_nothing(value))
        return;
    if (strcmp(key, "model") == 0 || strcmp(key, "model_path") == 0)
        tell(reading, "model", part->model, sizeof part->model, &part->model_line, value);
    for (unsigned s = 0; s < log->facts->n_settings; s++) {
        const struct kva_log_setting *setting = &log->facts->settings[s];
        if (strcmp(setting->key, key) == 0 && strcmp(setting->engine, part->id) == 0 &&
            (setting->is == NULL || strcmp(setting->is, value) == 0))
            tell(reading, key, log->settings[s].value, sizeof log->settings[s].value, &log->settings[s].line,
                 setting->set != NULL ? setting->set : value);
    }
}

// "- kv   4: llama.block_count u32 = 32": index, key, type, value.
static void take_metadata(struct reading *reading, const struct kva_line_value *values)
{
    char texts[3][256];
    for (size_t i = 0; i < 3; i++)
        snprintf(texts[i], sizeof texts[i], "%.*s", (int)values[i + 1].length, values[i + 1].bytes);
    kva_log_metadata_take(&reading->log->metadata, values[0].count, texts[0], texts[1], texts[2]);
}

static void take_told(struct reading *reading, struct kva_log_known *known, const struct kva_line_value *values,
                      size_t at)
{
    struct kva_log_engine_part *part = &reading->log->engines[known->engine];
    char text[512];
    reading->engine = known->engine;
    if (strcmp(known->id, "metadata") == 0) {
        take_metadata(reading, values);
        return;
    }
    for (size_t p = 0; p < known->pattern.n_places; p++) {
        const char *name = known->pattern.places[p].name;
        snprintf(text, sizeof text, "%s%.*s", strcmp(name, "build") == 0 ? "b" : "", (int)values[p].length,
                 values[p].bytes);
        if (strcmp(name, "version") == 0 || strcmp(name, "build") == 0) {
            start(reading, known, at);
            tell(reading, "version", part->version, sizeof part->version, &part->version_line, text);
        } else if (strcmp(name, "model") == 0)
            tell(reading, "model", part->model, sizeof part->model, &part->model_line, text);
        else if (strcmp(name, "arguments") == 0)
            kva_log_arguments(values[p].bytes, values[p].length, take_setting, reading);
        else if (strcmp(known->id, "start") != 0)
            take_setting(reading, name, text);
    }
}

// ---------------------------------------------------------------- numbers

static bool says(const struct kva_log_statement *statement, const struct kva_line_place *place,
                 const struct kva_line_value *value)
{
    for (size_t v = 0; v < statement->n_values; v++)
        if (strcmp(statement->values[v].name, place->name) == 0 && strlen(statement->values[v].text) == value->length &&
            memcmp(statement->values[v].text, value->bytes, value->length) == 0)
            return true;
    return false;
}

// Was all of it said before, by the same rank?
static bool known_already(const struct kva_log_engine_part *part, const struct kva_log_known *known,
                          const struct kva_line_value *values, size_t rank)
{
    for (size_t s = 0; s < part->n_statements; s++) {
        const struct kva_log_statement *statement = &part->statements[s];
        bool all = statement->rank == rank && strcmp(statement->id, known->id) == 0;
        for (size_t p = 0; all && p < known->pattern.n_places; p++)
            all = says(statement, &known->pattern.places[p], &values[p]);
        if (all)
            return true;
    }
    return false;
}

static bool names_any(const struct kva_log_statement *statement, const struct kva_log_statement *of)
{
    for (size_t a = 0; a < statement->n_values; a++)
        for (size_t b = 0; b < of->n_values; b++)
            if (strcmp(statement->values[a].name, of->values[b].name) == 0)
                return true;
    return false;
}

// Two lines of one template, one after the other, are one statement where neither repeats what the other names.
static bool join(struct kva_log_engine_part *part, const struct kva_log_statement *statement)
{
    for (size_t s = part->n_statements; s-- > 0;) {
        struct kva_log_statement *last = &part->statements[s];
        if (last->rank != statement->rank || strcmp(last->id, statement->id) != 0)
            continue;
        if (statement->n_values == 0 || names_any(statement, last) ||
            last->n_values + statement->n_values > KVA_MAX_PLACES)
            return false;
        memcpy(&last->values[last->n_values], statement->values, statement->n_values * sizeof *statement->values);
        last->n_values += statement->n_values;
        return true;
    }
    return false;
}

static enum kva_status grow(struct reading *reading, struct kva_log_engine_part *part)
{
    if (part->n_statements < part->room)
        return KVA_OK;
    if (part->room == KVA_LOG_MOST)
        return kva_fail(
            reading->error, KVA_BAD_INPUT, NULL, NULL,
            "line %llu: more than %d different lines tell of cache sizes; the log of one start was expected",
            (unsigned long long)reading->number, KVA_LOG_MOST);
    const size_t room = part->room == 0 ? 16 : part->room * 2;
    struct kva_log_statement *grown = kva_arena_alloc(reading->log->arena, room, sizeof *grown);
    if (grown == NULL)
        return kva_fail_memory(reading->error, room * sizeof *grown);
    if (part->n_statements > 0)
        memcpy(grown, part->statements, part->n_statements * sizeof *grown);
    part->statements = grown;
    part->room = room;
    return KVA_OK;
}

static enum kva_status take_numbers(struct reading *reading, const struct kva_log_known *known,
                                    const struct kva_line_value *values, size_t at)
{
    struct kva_log_engine_part *part = &reading->log->engines[known->engine];
    const size_t rank = rank_of(reading, at, true);
    if (known_already(part, known, values, rank))
        return KVA_OK;
    struct kva_log_statement statement = {
        .id = known->id, .rank = rank, .n_values = known->pattern.n_places, .tells = strcmp(known->id, "pool") == 0};
    const size_t shown = reading->length - at;
    const char *text = keep(reading, reading->line + at, kva_min(shown, KVA_LOG_TEXT));
    for (size_t p = 0; p < statement.n_values; p++) {
        const struct kva_line_place *place = &known->pattern.places[p];
        statement.values[p] = (struct kva_log_value){.name = place->name,
                                                     .line = reading->number,
                                                     .line_text = text,
                                                     .kind = place->kind,
                                                     .decimals = place->decimals,
                                                     .text = keep(reading, values[p].bytes, values[p].length),
                                                     .count = values[p].count,
                                                     .real = values[p].real,
                                                     .parts = 1};
    }
    if (reading->failed)
        return kva_fail_memory(reading->error, KVA_LOG_TEXT);
    if (join(part, &statement))
        return KVA_OK;
    enum kva_status status = grow(reading, part);
    if (status == KVA_OK)
        part->statements[part->n_statements++] = statement;
    return status;
}

// ---------------------------------------------------------------- lines

struct found {
    struct kva_log_known *known;
    struct kva_line_value values[KVA_MAX_PLACES];
    struct kva_line_found at;
    size_t weight;
};

enum { FOUND = 24, LETTER_WEIGHT = 2, WHOLE_WEIGHT = 8192, PLACE_WEIGHT = 2 * WHOLE_WEIGHT };

// More numbers tell more, then all of the template, then more letters; then a number whose thousands are separated as
// the template's.
static size_t weigh(const struct kva_line_pattern *pattern, const struct kva_line_value *values, bool whole)
{
    size_t letters = 0;
    bool alike = true;
    for (size_t i = 0; i <= pattern->n_places; i++)
        letters += pattern->literals[i].length;
    for (size_t i = 0; i < pattern->n_places; i++)
        alike = alike && (pattern->places[i].kind != KVA_PLACE_COUNT || values[i].count < 1000 ||
                          values[i].grouped == pattern->places[i].grouped);
    letters = kva_min(letters, WHOLE_WEIGHT / LETTER_WEIGHT - 1);
    return pattern->n_places * PLACE_WEIGHT + whole * WHOLE_WEIGHT + letters * LETTER_WEIGHT + alike;
}

// The patterns whose anchor holds the four bytes at `at`, where the line holds the whole anchor.
static void find_at(struct reading *reading, size_t at, uint32_t four, struct found *found, size_t *n)
{
    for (struct kva_log_known *known = reading->vocabulary->buckets[kva_log_hash(four)]; known != NULL;
         known = known->next) {
        const struct kva_line_pattern *pattern = &known->pattern;
        if (known->four != four || known->tried == reading->looks || at < known->four_at ||
            reading->length - (at - known->four_at) < pattern->anchor_length ||
            memcmp(reading->line + at - known->four_at, pattern->anchor, pattern->anchor_length) != 0)
            continue;
        known->tried = reading->looks;
        struct found *here = &found[*n];
        if (*n == FOUND || !kva_line_match(pattern, reading->line, reading->length, here->values, &here->at))
            continue;
        here->known = known;
        here->weight = weigh(pattern, here->values, here->at.whole);
        ++*n;
    }
}

// Do the versions that print the line as it was read hold `version`? Of several templates those count that tell most.
static bool printed_at(const struct kva_log_engine_part *part, const struct found *found, size_t n, size_t engine,
                       size_t most, size_t version)
{
    for (size_t f = 0; f < n; f++) {
        const struct kva_line_row *row = found[f].known->row;
        if (found[f].known->engine == engine && row != NULL && found[f].weight / WHOLE_WEIGHT == most / WHOLE_WEIGHT &&
            kva_range_holds(part->file, row->since, row->until, version))
            return true;
    }
    return false;
}

static void narrow(struct kva_log_engine_part *part, const struct found *found, size_t n, size_t engine, size_t most)
{
    bool any = false;
    for (size_t v = 0; v < part->file->n_versions; v++)
        any = any || (part->versions[v] && printed_at(part, found, n, engine, most, v));
    for (size_t v = 0; any && v < part->file->n_versions; v++)
        part->versions[v] = part->versions[v] && printed_at(part, found, n, engine, most, v);
}

// The pattern of an engine that says most: of those that tell how it was started, or of those that hold numbers.
static const struct found *best_of(const struct found *found, size_t n, size_t engine, bool telling)
{
    const struct found *best = NULL;
    for (size_t f = 0; f < n; f++)
        if (found[f].known->engine == engine && found[f].known->tells == telling &&
            (best == NULL || found[f].weight > best->weight))
            best = &found[f];
    return best;
}

static enum kva_status take(struct reading *reading, const struct found *found, size_t n)
{
    size_t n_engines = 0;
    enum kva_status status = KVA_OK;
    for (size_t e = 0; e < reading->log->n_engines && status == KVA_OK; e++) {
        struct kva_log_engine_part *part = &reading->log->engines[e];
        const struct found *told = best_of(found, n, e, true), *number = best_of(found, n, e, false);
        if (told == NULL && number == NULL)
            continue;
        part->first_line = part->first_line > 0 ? part->first_line : reading->number;
        n_engines++;
        if (told != NULL)
            take_told(reading, told->known, told->values, told->at.start);
        if (number != NULL)
            status = take_numbers(reading, number->known, number->values, number->at.start);
        const struct found *of_version = number != NULL ? number : told;
        if (of_version->known->row != NULL)
            narrow(part, found, n, e, of_version->weight);
    }
    if (n_engines == 1)
        reading->log->engines[found[0].known->engine].told++;
    return reading->failed && status == KVA_OK ? kva_fail_memory(reading->error, KVA_LOG_TEXT) : status;
}

static enum kva_status look(struct reading *reading)
{
    struct found found[FOUND + 1];
    size_t n = 0;
    uint32_t four;
    const uint64_t *any = reading->vocabulary->any;
    reading->looks++;
    for (size_t at = 0; at + sizeof four <= reading->length; at++) {
        memcpy(&four, reading->line + at, sizeof four);
        const uint32_t hash = kva_log_hash(four);
        if ((any[hash / 64] >> hash % 64 & 1) != 0)
            find_at(reading, at, four, found, &n);
    }
    return n > 0 ? take(reading, found, n) : KVA_OK;
}

void kva_log_free(struct kva_log *log)
{
    kva_log_metadata_free(&log->metadata);
}

enum kva_status kva_log_read(struct kva_atlas *atlas, const char *path, struct kva_arena *arena, struct kva_log *log,
                             struct kva_error *error)
{
    *log = (struct kva_log){.arena = arena};
    struct kva_log_vocabulary *vocabulary = kva_arena_alloc(arena, 1, sizeof *vocabulary);
    if (vocabulary == NULL)
        return kva_fail_memory(error, sizeof *vocabulary);
    log->vocabulary = vocabulary;
    enum kva_status status = kva_log_vocabulary_make(atlas, log, vocabulary, error);
    if (status != KVA_OK)
        return status;
    log->settings = kva_arena_alloc(arena, log->facts->n_settings + 1, sizeof *log->settings);
    log->ranks = kva_arena_alloc(arena, KVA_LOG_MOST, sizeof *log->ranks);
    if (log->settings == NULL || log->ranks == NULL)
        return kva_fail_memory(error, KVA_LOG_MOST * sizeof *log->ranks);
    struct kva_log_stream stream;
    status = kva_log_stream_open(path, &stream, error);
    if (status != KVA_OK)
        return status;
    struct reading reading = {.log = log, .vocabulary = vocabulary, .error = error};
    char *line;
    while (status == KVA_OK && kva_log_stream_next(&stream, &line, &reading.length)) {
        reading.line = line;
        reading.number = stream.number;
        status = look(&reading);
    }
    log->lines = stream.number;
    if (status == KVA_OK && ferror(stream.file))
        status = kva_fail(error, KVA_MACHINE, path, NULL, "cannot read: %s", strerror(errno));
    kva_log_stream_close(&stream);
    return status;
}
