// One way to read a YAML file of data/: by a schema, with file, line and key in every complaint.
#include "model/yaml.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "model/schema_words.h"

const cyaml_schema_value_t kva_yaml_name = {CYAML_VALUE_STRING(CYAML_FLAG_POINTER, char, 1, MANY)};

// libcyaml says what went wrong and where only in its log: first the complaint, then a backtrace from the inside out.
struct complaint {
    char text[256], key[128];
    int line;
    bool unexpected;  // `line` is then that of the key before it
};

static void listen(cyaml_log_t level, void *context, const char *format, va_list arguments)
{
    struct complaint *complaint = context;
    char message[256];
    int length = vsnprintf(message, sizeof message, format, arguments);
    if (level < CYAML_LOG_WARNING || length < 0)
        return;
    message[strcspn(message, "\n")] = '\0';
    const char *text = strncmp(message, "Load: ", 6) == 0 ? message + 6 : message;
    const char *place = strstr(text, "(line: "), *field = strstr(text, "in mapping field '");
    if (place != NULL && complaint->line == 0)
        complaint->line = (int)strtol(place + strlen("(line: "), NULL, 10);
    if (field != NULL && complaint->key[0] == '\0') {
        field += strlen("in mapping field '");
        snprintf(complaint->key, sizeof complaint->key, "%.*s", (int)strcspn(field, "'"), field);
    }
    if (place != NULL || strcmp(text, "Backtrace:") == 0 || complaint->text[0] != '\0')
        return;
    snprintf(complaint->text, sizeof complaint->text, "%s", text);
    static const char *const NAMED[] = {
        "Unexpected key: ", "Missing required mapping field: ", "Mapping field already seen: "};
    for (size_t i = 0; i < sizeof NAMED / sizeof *NAMED; i++)
        if (strncmp(text, NAMED[i], strlen(NAMED[i])) == 0) {
            snprintf(complaint->key, sizeof complaint->key, "%s", text + strlen(NAMED[i]));
            snprintf(complaint->text, sizeof complaint->text, "%.*s", (int)strlen(NAMED[i]) - 2, NAMED[i]);
            complaint->unexpected = i == 0;
        }
}

// The line, from `line` on, where "key:" stands; `line` itself when it stands nowhere.
static int line_of_key(const struct kva_atlas_file *file, const char *key, int line)
{
    int at = 1;
    size_t length = strlen(key);
    for (const char *c = file->bytes; *c != '\0'; c++) {
        at += *c == '\n';
        bool starts = c == file->bytes || strchr(" \n{,", c[-1]) != NULL;
        if (at >= line && starts && strncmp(c, key, length) == 0 && c[length] == ':')
            return at;
    }
    return line;
}

static const cyaml_config_t *configuration(cyaml_config_t *config, struct complaint *complaint)
{
    *config = (cyaml_config_t){.log_fn = complaint != NULL ? listen : NULL,
                               .log_ctx = complaint,
                               .mem_fn = cyaml_mem,
                               .log_level = CYAML_LOG_ERROR,
                               .flags = CYAML_CFG_NO_ALIAS};
    return config;
}

enum kva_status kva_yaml_load(const struct kva_atlas_file *file, const cyaml_schema_value_t *schema, void **loaded,
                              struct kva_error *error)
{
    cyaml_config_t config;
    struct complaint complaint = {0};
    cyaml_data_t *data = NULL;
    *loaded = NULL;
    cyaml_err_t result = cyaml_load_data((const uint8_t *)file->bytes, file->length, configuration(&config, &complaint),
                                         schema, &data, NULL);
    // libyaml has no words for running out of memory
    if (result == CYAML_ERR_OOM || strcmp(complaint.text, "libyaml: (null)") == 0)
        return kva_fail_memory(error, file->length);
    if (result == CYAML_OK && data != NULL) {
        *loaded = data;
        return KVA_OK;
    }
    enum kva_status status = kva_fail(
        error, KVA_BAD_INPUT, file->name, complaint.key, "%s",
        complaint.text[0] != '\0' ? complaint.text : (result == CYAML_OK ? "is empty" : cyaml_strerror(result)));
    if (error != NULL)
        error->line = complaint.unexpected ? line_of_key(file, complaint.key, complaint.line) : complaint.line;
    return status;
}

void kva_yaml_free(const cyaml_schema_value_t *schema, void *loaded)
{
    cyaml_config_t config;
    if (loaded != NULL)
        cyaml_free(configuration(&config, NULL), schema, loaded, 0);
}

static bool is_word(const char *bytes, const char *at, size_t length)
{
    static const char EDGES[] = " \n\"'{}[],:";
    return (at == bytes || strchr(EDGES, at[-1]) != NULL) && (at[length] == '\0' || strchr(EDGES, at[length]) != NULL);
}

int kva_yaml_line(const struct kva_atlas_file *file, const char *section, const char *value)
{
    const char *from = file->bytes;
    size_t length = strlen(section);
    for (const char *c = from; length > 0 && (c = strstr(c, section)) != NULL; c++)
        if ((c == file->bytes || c[-1] == '\n') && c[length] == ':') {
            from = c;
            break;
        }
    length = strlen(value);
    for (const char *c = from; length > 0 && (c = strstr(c, value)) != NULL; c++)
        if (is_word(file->bytes, c, length)) {
            int line = 1;
            for (const char *d = file->bytes; d < c; d++)
                line += *d == '\n';
            return line;
        }
    return 0;
}

enum kva_status kva_yaml_wrong(const struct kva_atlas_file *file, const char *key, const char *what, const char *value,
                               struct kva_error *error)
{
    enum kva_status status = kva_fail(error, KVA_BAD_INPUT, file->name, key, "'%s' %s", value, what);
    if (error != NULL)
        error->line = kva_yaml_line(file, "", value);
    return status;
}
