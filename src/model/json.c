#include "model/json.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

static bool is_number_character(char c)
{
    return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

// Whether a number token fits what jansson reads: a 64-bit integer, or a finite double.
static bool fits(const char *token, size_t length)
{
    char digits[400];
    if (length >= sizeof digits)
        return false;
    memcpy(digits, token, length);
    digits[length] = '\0';
    errno = 0;
    if (strpbrk(digits, ".eE") != NULL)
        return isfinite(strtod(digits, NULL));
    strtoll(digits, NULL, 10);
    return errno != ERANGE;
}

static void add_quoted(struct kva_text *text, const char *token, size_t length)
{
    kva_text_add(text, "\"", 1);
    kva_text_add(text, token, length);
    kva_text_add(text, "\"", 1);
}

// Copies JSON with the tokens that jansson cannot hold put into quotes. Lines stay where they were.
static void quote_foreign(const char *bytes, size_t length, struct kva_text *out)
{
    static const char *const WORDS[] = {"NaN", "Infinity", "-Infinity"};
    size_t copied = 0, i = 0;
    while (i < length) {
        if (bytes[i] == '"') {
            for (i++; i < length && bytes[i] != '"'; i++)
                i += bytes[i] == '\\';
            i++;
            continue;
        }
        size_t token = 0;
        for (size_t w = 0; w < sizeof WORDS / sizeof *WORDS; w++)
            if (length - i >= strlen(WORDS[w]) && memcmp(bytes + i, WORDS[w], strlen(WORDS[w])) == 0)
                token = strlen(WORDS[w]);
        bool foreign = token > 0;
        if (!foreign && (bytes[i] == '-' || (bytes[i] >= '0' && bytes[i] <= '9'))) {
            while (i + token < length && is_number_character(bytes[i + token]))
                token++;
            foreign = !fits(bytes + i, token);
        }
        if (foreign) {
            kva_text_add(out, bytes + copied, i - copied);
            add_quoted(out, bytes + i, token);
            copied = i + token;
        }
        i += token > 0 ? token : 1;
    }
    kva_text_add(out, bytes + copied, length - copied);
}

// jansson names the duplicate only in its text: duplicate object key near '"name"'.
static void duplicate_name(const char *text, char *name, size_t size)
{
    const char *start = strstr(text, "near '\"");
    name[0] = '\0';
    if (start == NULL)
        return;
    start += strlen("near '\"");
    size_t length = strlen(start);
    while (length > 0 && (start[length - 1] == '\'' || start[length - 1] == '"'))
        length--;
    if (length >= size)
        length = size - 1;
    memcpy(name, start, length);
    name[length] = '\0';
}

static enum kva_status fail_parse(const json_error_t *problem, const char *file, struct kva_error *error)
{
    char name[128] = "";
    enum kva_status status;
    // jansson does not always say so when memory ran out, but then it says nothing else
    if (json_error_code(problem) == json_error_out_of_memory || problem->text[0] == '\0')
        return kva_fail_memory(error, 0);
    if (json_error_code(problem) == json_error_duplicate_key) {
        duplicate_name(problem->text, name, sizeof name);
        status = kva_fail(error, KVA_BAD_INPUT, file, name, "stands twice in one object");
    } else
        status = kva_fail(error, KVA_BAD_INPUT, file, NULL, "is not JSON: %s", problem->text);
    if (error != NULL)
        error->line = problem->line;
    return status;
}

enum kva_status kva_json_parse(const char *bytes, size_t length, const char *file, bool lenient, json_t **root,
                               struct kva_error *error)
{
    *root = NULL;
    json_error_t problem;
    json_t *parsed = json_loadb(bytes, length, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &problem);
    if (parsed == NULL && lenient) {  // rare: what needs quoting fails to parse as it stands
        struct kva_text quoted = {0};
        quote_foreign(bytes, length, &quoted);
        if (quoted.failed) {
            kva_text_free(&quoted);
            return kva_fail_memory(error, length);
        }
        parsed = json_loadb(quoted.bytes != NULL ? quoted.bytes : "", quoted.length,
                            JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &problem);
        kva_text_free(&quoted);
    }
    if (parsed == NULL)
        return fail_parse(&problem, file, error);
    if (!json_is_object(parsed)) {
        char found[KVA_JSON_FOUND];
        kva_json_found(parsed, found);
        json_decref(parsed);
        return kva_fail(error, KVA_BAD_INPUT, file, NULL, "holds %s, a JSON object was expected", found);
    }
    *root = parsed;
    return KVA_OK;
}

json_t *kva_json_at(const json_t *object, const char *path)
{
    for (const char *dot; (dot = strchr(path, '.')) != NULL; path = dot + 1)
        object = json_object_getn(object, path, (size_t)(dot - path));
    return json_object_get(object, path);
}

const char *kva_json_found(const json_t *value, char *buffer)
{
    const size_t size = KVA_JSON_FOUND;
    char number[32];
    switch (json_typeof(value)) {
    case JSON_STRING:
        snprintf(buffer, size, "the text \"%.60s\"", json_string_value(value));
        break;
    case JSON_INTEGER:
        snprintf(buffer, size, "the number %lld", (long long)json_integer_value(value));
        break;
    case JSON_REAL:
        // 4.0 is no integer, and should not look like one
        snprintf(number, sizeof number, "%g", json_real_value(value));
        snprintf(buffer, size, "the number %s%s", number, strpbrk(number, ".e") == NULL ? ".0" : "");
        break;
    case JSON_ARRAY:
        snprintf(buffer, size, "a list of %zu", json_array_size(value));
        break;
    case JSON_OBJECT:
        snprintf(buffer, size, "an object");
        break;
    default:
        snprintf(buffer, size, "%s", json_is_null(value) ? "null" : json_is_true(value) ? "true" : "false");
    }
    return buffer;
}
