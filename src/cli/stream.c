// kvatlas plan - --ndjson: one config a line in, one plan a line out. A line that cannot be planned becomes an error
// object and the stream goes on. What is held is one line and its plan.
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/cli.h"

enum { CHUNK = 1 << 16, OUT_CHUNK = 1 << 18, LINE_LIMIT = 16 << 20 };

enum line { LINE, LINE_TOO_LONG, LINES_END, LINES_FAILED };

// Standard input, cut at line ends.
struct reader {
    char *bytes;
    size_t start, end, capacity;  // what was read and not handed out yet
    bool ended;
    bool (*before_read)(void *user);  // false: give up
    void *user;
};

// Reads once more. False: nothing came, as `ended` or errno says.
static bool fill(struct reader *reader)
{
    if (reader->start > 0) {
        memmove(reader->bytes, reader->bytes + reader->start, reader->end - reader->start);
        reader->end -= reader->start;
        reader->start = 0;
    }
    if (reader->capacity - reader->end < CHUNK) {
        const size_t capacity = 2 * reader->capacity + 2 * CHUNK;
        char *grown = realloc(reader->bytes, capacity);
        if (grown == NULL)
            return false;
        reader->bytes = grown;
        reader->capacity = capacity;
    }
    if (!reader->before_read(reader->user))
        return false;
    ssize_t got;
    do
        got = read(STDIN_FILENO, reader->bytes + reader->end, CHUNK);
    while (got < 0 && errno == EINTR);
    reader->end += got > 0 ? (size_t)got : 0;
    reader->ended = got == 0;
    return got > 0;
}

// The next line, without its end; it stays until the next call.
static enum line next_line(struct reader *reader, const char **line, size_t *length)
{
    bool too_long = false;
    for (size_t looked = 0;;) {
        const char *from = reader->bytes + reader->start, *newline = NULL;
        if (reader->end > reader->start + looked)
            newline = memchr(from + looked, '\n', reader->end - reader->start - looked);
        if (newline != NULL || (reader->ended && reader->end > reader->start)) {
            *line = from;
            *length = newline != NULL ? (size_t)(newline - from) : reader->end - reader->start;
            reader->start += *length + (newline != NULL);
            return too_long || *length > LINE_LIMIT ? LINE_TOO_LONG : LINE;
        }
        if (reader->ended)
            return too_long ? LINE_TOO_LONG : LINES_END;
        looked = reader->end - reader->start;
        if (looked > LINE_LIMIT) {  // its rest is thrown away as it comes
            too_long = true;
            looked = reader->start = reader->end = 0;
        }
        if (!fill(reader) && !reader->ended)
            return LINES_FAILED;
    }
}

struct stream {
    const struct kva_options *options;
    struct kva_atlas *atlas;
    struct kva_model_options how;
    struct kva_report_style style;
    struct kva_text out;
    uint64_t line;
    bool all_planned;
    struct kva_error *error;
};

static enum kva_status flush(struct stream *stream)
{
    const enum kva_status status = kva_cli_write(stream->options, &stream->out, stream->error);
    stream->out.length = 0;
    return status;
}

// Who waits for a plan before sending the next config gets it.
static bool flush_before_read(void *user)
{
    struct stream *stream = user;
    return stream->out.length == 0 || flush(stream) == KVA_OK;
}

static enum kva_status plan_line(struct stream *stream, const char *line, size_t length, struct kva_error *bad)
{
    char id[32];
    struct kva_model *model = NULL;
    struct kva_cli_plans plans = {0};
    snprintf(id, sizeof id, "line %llu", (unsigned long long)stream->line);
    enum kva_status status = kva_model_from_json(stream->atlas, line, length, id, &stream->how, &model, bad);
    if (status == KVA_OK)
        status = kva_cli_plans(stream->options, stream->atlas, model, &plans, bad);
    const struct kva_plan_set set = kva_cli_plan_set(&plans);
    if (status == KVA_OK)
        status = kva_report_plans(&set, &stream->style, &stream->out, bad);
    kva_cli_plans_free(&plans);
    kva_model_close(model);
    return status;
}

static enum kva_status report_bad(struct stream *stream, const char *line, size_t length, const struct kva_error *bad)
{
    char number[32];
    json_t *root = length <= LINE_LIMIT ? json_loadb(line, length, 0, NULL) : NULL;
    const json_t *named = json_object_get(root, "id");
    const char *id = json_string_value(named);
    if (json_is_integer(named)) {
        snprintf(number, sizeof number, "%lld", (long long)json_integer_value(named));
        id = number;
    }
    stream->all_planned = false;
    const enum kva_status status = kva_report_bad_line(stream->line, id, bad, &stream->out, stream->error);
    json_decref(root);
    return status;
}

static bool is_blank(const char *line, size_t length)
{
    while (length > 0 && (line[length - 1] == ' ' || line[length - 1] == '\t' || line[length - 1] == '\r'))
        length--;
    return length == 0;
}

static enum kva_status run(struct stream *stream)
{
    struct reader reader = {.before_read = flush_before_read, .user = stream};
    enum kva_status status = KVA_OK;
    while (status == KVA_OK) {
        const char *line;
        size_t length;
        struct kva_error bad = {0};
        const enum line got = next_line(&reader, &line, &length);
        if (got == LINES_END)
            break;
        if (got == LINES_FAILED) {
            if (stream->error->status == KVA_OK)
                status =
                    kva_fail(stream->error, KVA_MACHINE, "standard input", NULL, "cannot be read: %s", strerror(errno));
            else
                status = stream->error->status;
            break;
        }
        stream->line++;
        if (got == LINE && is_blank(line, length))
            continue;
        if (got == LINE_TOO_LONG)
            kva_error_set(&bad, KVA_BAD_INPUT, NULL, NULL, "is longer than the %d bytes a line may have", LINE_LIMIT);
        else
            plan_line(stream, line, length, &bad);
        if (bad.status == KVA_MACHINE) {
            *stream->error = bad;
            status = KVA_MACHINE;
        } else if (bad.status != KVA_OK)
            status = report_bad(stream, got == LINE ? line : "", got == LINE ? length : 0, &bad);
        if (status == KVA_OK && stream->out.length >= OUT_CHUNK)
            status = flush(stream);
    }
    if (status == KVA_OK && stream->out.length > 0)
        status = flush(stream);
    free(reader.bytes);
    return status;
}

int kva_cli_stream(struct kva_options *options)
{
    struct kva_error error = {0};
    struct stream stream = {.options = options, .error = &error, .all_planned = true, .how = kva_cli_how(options)};
    enum kva_status status = KVA_OK;
    stream.how.no_tensors = true;
    stream.style = (struct kva_report_style){.format = KVA_FORMAT_JSON, .compact = true};
    if (strcmp(options->arguments[0], "-") != 0)
        status = kva_fail(&error, KVA_BAD_INPUT, NULL, "--ndjson", "reads standard input: kvatlas plan - --ndjson");
    else if (kva_given(options, KVA_FLAG_FORMAT) && options->format != KVA_FORMAT_JSON)
        status = kva_fail(&error, KVA_BAD_INPUT, NULL, "--format", "--ndjson writes json");
    else if (options->output != NULL)
        status = kva_fail(&error, KVA_BAD_INPUT, NULL, "--output",
                          "--ndjson writes to standard output as it goes: > FILE keeps it");
    if (status == KVA_OK)
        status = kva_atlas_open(options->data, &stream.atlas, &error);
    if (status == KVA_OK)
        status = run(&stream);
    if (status != KVA_OK)
        kva_cli_fail(&error);
    kva_text_free(&stream.out);
    kva_atlas_close(stream.atlas);
    return status == KVA_OK && !stream.all_planned ? (int)KVA_MISMATCH : (int)status;
}
