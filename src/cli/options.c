#include "cli/options.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/text.h"
#include "cli/cli.h"

enum value { SWITCH, COUNT, COUNT_OR_ZERO, TEXT, DTYPE, FORMAT, ENGINES, ASSUME };

#define MAX_NAMES 4

struct flag {
    const char *names[MAX_NAMES];
    enum value value;
    size_t field;  // offset in struct kva_options
    const char *shown;
    const char *help;
};

#define FIELD(name) offsetof(struct kva_options, name)
static const struct flag FLAGS[KVA_N_FLAGS] = {
    [KVA_FLAG_CONTEXT] = {{"--context", "-c", "--max-model-len", "--ctx-size"},
                          COUNT,
                          FIELD(context),
                          "N",
                          "tokens of each sequence (32k is 32768); without it what the prompt and --decode take"},
    [KVA_FLAG_SEQUENCES] = {{"--sequences", "--parallel", "--max-num-seqs"},
                            COUNT,
                            FIELD(sequences),
                            "N",
                            "sequences at a time; without it 1"},
    [KVA_FLAG_ENGINE] = {{"--engine", "--policy"},
                         ENGINES,
                         FIELD(engines),
                         "NAME",
                         "exact, full (all that run and verify take), vllm, vllm@0.19.1, ... (kvatlas engines); plan "
                         "and fit: with commas, or all"},
    [KVA_FLAG_DTYPE] = {{"--dtype"}, DTYPE, FIELD(dtype), "TYPE", "element type of the model; without it the config's"},
    [KVA_FLAG_FORMAT] = {{"--format"}, FORMAT, FIELD(format), "FORMAT", "text, json or md"},
    [KVA_FLAG_OUTPUT] = {{"--output", "-o"}, TEXT, FIELD(output), "FILE", "write the result there"},
    [KVA_FLAG_LAYERS] = {{"--layers"}, SWITCH, FIELD(layers), NULL, "each layer"},
    [KVA_FLAG_WHY] = {{"--why"}, SWITCH, FIELD(why), NULL, "every value, the key it was read from, and references"},
    [KVA_FLAG_DATA] =
        {{"--data"}, TEXT, FIELD(data), "DIR", "facts to use in place of the built-in ones (KVATLAS_DATA)"},
    [KVA_FLAG_NO_COLOR] = {{"--no-color", "--no-colour"}, SWITCH, FIELD(no_color), NULL, "no colour (NO_COLOR)"},
    [KVA_FLAG_BACKEND] =
        {{"--backend"}, TEXT, FIELD(backend), "NAME", "cpu or cuda; without it cuda when a GPU answers"},
    [KVA_FLAG_WEIGHTS] = {{"--weights"}, TEXT, FIELD(weights), "PATH", "safetensors to load, or random"},
    [KVA_FLAG_TOKENS] =
        {{"--tokens"}, TEXT, FIELD(tokens), "FILE", "token ids: text, or input_ids of a safetensors file"},
    [KVA_FLAG_PROMPT_LENGTH] = {{"--prompt-length"}, COUNT, FIELD(prompt_length), "N", "tokens of a made-up prompt"},
    [KVA_FLAG_PREFILL] =
        {{"--prefill"}, COUNT_OR_ZERO, FIELD(prefill), "N", "tokens to run before decoding one by one"},
    [KVA_FLAG_DECODE] = {{"--decode"}, COUNT_OR_ZERO, FIELD(decode), "N", "tokens to decode"},
    [KVA_FLAG_LOGITS] = {{"--logits"}, TEXT, FIELD(logits), "FILE", "write the logits there, as safetensors"},
    [KVA_FLAG_SEED] = {{"--seed"}, COUNT_OR_ZERO, FIELD(seed), "N", "seed of random weights and prompts"},
    [KVA_FLAG_CHUNK] = {{"--chunk"}, COUNT, FIELD(chunk), "N", "rows of one prefill pass"},
    [KVA_FLAG_NO_PRUNE] =
        {{"--no-prune"}, SWITCH, FIELD(no_prune), NULL, "send every prompt position through every layer"},
    [KVA_FLAG_PROFILE] = {{"--profile"}, SWITCH, FIELD(profile), NULL, "time each stage"},
    [KVA_FLAG_DEPTH] = {{"--depth"}, COUNT, FIELD(depth), "N", "use only the first N layers"},
    [KVA_FLAG_JSON] = {{"--json"}, TEXT, FIELD(json), "FILE", "write the result there, as JSON"},
    [KVA_FLAG_JUNIT] = {{"--junit"}, TEXT, FIELD(junit), "FILE", "write the result there, as JUnit XML"},
    [KVA_FLAG_REFERENCE] =
        {{"--reference"}, TEXT, FIELD(reference), "FILE", "logits of an independent implementation, as safetensors"},
    [KVA_FLAG_PLAN] =
        {{"--plan"}, TEXT, FIELD(plan), "FILE", "a saved plan (kvatlas plan --format json) to hold the run against"},
    [KVA_FLAG_ASSUME] = {{"--assume"},
                         ASSUME,
                         FIELD(assume),
                         "KEY=VALUE",
                         "read the config as if it said so; family=TYPE, mtp=on; may be given again"},
    [KVA_FLAG_FETCH] =
        {{"--fetch"}, SWITCH, FIELD(fetch), NULL, "ask huggingface.co for MODEL (HF_ENDPOINT, HF_TOKEN)"},
    [KVA_FLAG_NDJSON] =
        {{"--ndjson"}, SWITCH, FIELD(ndjson), NULL, "one config a line on standard input, one plan a line out"},
    [KVA_FLAG_FAMILY] = {{"--family"}, TEXT, FIELD(family), "NAME", "only models of this family: dense, swa, ..."},
    [KVA_FLAG_SWEEP] =
        {{"--sweep"}, SWITCH, FIELD(sweep), NULL, "a table over contexts: powers of two up to the model's limit"},
    [KVA_FLAG_CONTEXTS] = {{"--contexts"}, TEXT, FIELD(contexts), "LIST", "a table over these contexts: 8k,32k,128k"},
    [KVA_FLAG_DECODE_COST] =
        {{"--decode-cost"}, SWITCH, FIELD(decode_cost), NULL, "what a decoded token moves and computes"},
    [KVA_FLAG_MODEL] = {{"--model"}, TEXT, FIELD(model), "MODEL", "the model that the log is of; without it the log's"},
    [KVA_FLAG_TYPE] = {{"--type"}, TEXT, FIELD(type), "NAME", "only models of this model_type: llama, gemma3, ..."},
};

// ---------------------------------------------------------------- values

static enum kva_status bad(struct kva_error *error, const char *name, const char *format, const char *value)
{
    struct kva_text line = {0};
    kva_text_printf(&line, "'%s' %s", value, format);
    enum kva_status status = line.failed ? kva_fail_memory(error, strlen(value))
                                         : kva_fail(error, KVA_BAD_INPUT, NULL, name, "%s", line.bytes);
    kva_text_free(&line);
    return status;
}

static enum kva_status set_format(struct kva_options *options, const char *name, const char *value,
                                  struct kva_error *error)
{
    if (strcmp(value, "text") == 0)
        options->format = KVA_FORMAT_TEXT;
    else if (strcmp(value, "json") == 0)
        options->format = KVA_FORMAT_JSON;
    else if (strcmp(value, "md") == 0 || strcmp(value, "markdown") == 0)
        options->format = KVA_FORMAT_MARKDOWN;
    else
        return bad(error, name, "is not a format; text, json and md are", value);
    return KVA_OK;
}

// "exact,full": cut at the commas, in memory that the options own.
static enum kva_status add_engines(struct kva_options *options, const char *name, const char *value, char **memory,
                                   struct kva_error *error)
{
    for (;;) {
        size_t length = strcspn(value, ",");
        if (length == 0)
            return kva_fail(error, KVA_BAD_INPUT, NULL, name, "a name was expected, as in %s exact", name);
        if (options->n_engines == KVA_MAX_ENGINES)
            return kva_fail(error, KVA_BAD_INPUT, NULL, name, "more than %d engines", KVA_MAX_ENGINES);
        memcpy(*memory, value, length);
        (*memory)[length] = '\0';
        options->engines[options->n_engines++] = *memory;
        *memory += length + 1;
        if (value[length] == '\0')
            return KVA_OK;
        value += length + 1;
    }
}

static enum kva_status set(const struct flag *flag, const char *name, const char *value, struct kva_options *options,
                           char **memory, struct kva_error *error)
{
    void *field = (char *)options + flag->field;
    switch (flag->value) {
    case SWITCH:
        *(bool *)field = true;
        return KVA_OK;
    case COUNT:
    case COUNT_OR_ZERO:
        if (!kva_parse_count(value, field))
            return bad(error, name, "is not a count; write 32768 or 32k", value);
        if (flag->value == COUNT && *(uint64_t *)field == 0)
            return kva_fail(error, KVA_BAD_INPUT, NULL, name, "must be at least 1");
        return KVA_OK;
    case TEXT:
        if (*value == '\0')
            return kva_fail(error, KVA_BAD_INPUT, NULL, name, "a value was expected and is empty");
        *(const char **)field = value;
        return KVA_OK;
    case DTYPE:
        *(enum kva_dtype *)field = kva_dtype_parse(value);
        if (*(enum kva_dtype *)field == KVA_DTYPE_NONE && strcmp(value, "auto") != 0)
            return bad(error, name, "is not an element type; f32, f16, bf16, fp8, int8 and auto are", value);
        return KVA_OK;
    case FORMAT:
        return set_format(options, name, value, error);
    case ASSUME:
        if (options->n_assume == KVA_MAX_ASSUME)
            return kva_fail(error, KVA_BAD_INPUT, NULL, name, "is given more than %d times", KVA_MAX_ASSUME);
        options->assume[options->n_assume++] = value;
        return KVA_OK;
    case ENGINES:
        break;
    }
    return add_engines(options, name, value, memory, error);
}

// ---------------------------------------------------------------- flags

// The flag whose name is the first `length` bytes of `text`; NULL: none.
static const struct flag *find(const char *text, size_t length)
{
    for (size_t f = 0; f < KVA_N_FLAGS; f++)
        for (size_t n = 0; n < MAX_NAMES && FLAGS[f].names[n] != NULL; n++)
            if (strlen(FLAGS[f].names[n]) == length && strncmp(FLAGS[f].names[n], text, length) == 0)
                return &FLAGS[f];
    return NULL;
}

// Every spelling of every flag that the command takes. names: [MOST_NAMES]. Returns how many.
enum { MOST_NAMES = 512 };
static size_t all_names(const struct kva_command *command, const char **names)
{
    size_t n_names = 0;
    names[n_names++] = "--help";
    for (size_t f = 0; f < KVA_N_FLAGS; f++)
        for (size_t n = 0; n < MAX_NAMES && FLAGS[f].names[n] != NULL && n_names < MOST_NAMES; n++)
            if ((command->flags & KVA_FLAG_BIT(f)) != 0 && strlen(FLAGS[f].names[n]) > 2)
                names[n_names++] = FLAGS[f].names[n];
    if ((command->flags & KVA_FLAG_BIT(KVA_FLAG_DEPLOYMENT)) == 0)
        return n_names;
    for (size_t f = 0; f < kva_n_deployment_flags(); f++) {
        const struct kva_deployment_flag *flag = kva_deployment_flag(f);
        for (size_t n = 0; n < KVA_MAX_SPELLINGS && flag->names[n] != NULL && n_names < MOST_NAMES; n++)
            if (strncmp(flag->names[n], "--", 2) == 0)
                names[n_names++] = flag->names[n];
    }
    return n_names;
}

static enum kva_status unknown(const struct kva_command *command, const char *text, size_t length,
                               struct kva_error *error)
{
    const char *names[MOST_NAMES];
    char typed[128];
    const size_t n_names = all_names(command, names);
    if (length >= sizeof typed)
        length = sizeof typed - 1;
    memcpy(typed, text, length);
    typed[length] = '\0';
    const char *nearest = kva_nearest(typed, names, n_names);
    if (nearest != NULL)
        return kva_fail(error, KVA_BAD_INPUT, NULL, typed, "no such flag; did you mean %s?", nearest);
    return kva_fail(error, KVA_BAD_INPUT, NULL, typed, "no such flag; kvatlas %s --help lists them", command->name);
}

static bool is_switch_word(const char *text)
{
    return strcmp(text, "on") == 0 || strcmp(text, "off") == 0 || strcmp(text, "auto") == 0;
}

// A flag of the deployment: "--tp 8", "--swa-full", "--flash-attn off". *found false: it is none.
static enum kva_status parse_deployment_flag(int n, char **arguments, int *at, struct kva_options *options, bool *found,
                                             struct kva_error *error)
{
    char name[64];
    bool negated;
    const char *text = arguments[*at], *value = NULL;
    const size_t length = strncmp(text, "--", 2) == 0 ? strcspn(text, "=") : strlen(text);
    const int written = snprintf(name, sizeof name, "%.*s", (int)kva_min(length, sizeof name), text);
    const struct kva_deployment_flag *flag =
        written > 0 && (size_t)written < sizeof name ? kva_deployment_flag_find(name, &negated) : NULL;
    *found = flag != NULL;
    if (flag == NULL)
        return KVA_OK;
    const char *next = *at + 1 < n ? arguments[*at + 1] : NULL;
    if (text[length] == '=')
        value = text + length + 1;
    else if (flag->shown != NULL && (next == NULL || strncmp(next, "--", 2) == 0))
        return kva_fail(error, KVA_BAD_INPUT, NULL, name, "a value was expected, as in %s %s", name, flag->shown);
    else if (next != NULL && (flag->shown != NULL || is_switch_word(next)))
        value = arguments[++*at];
    return kva_deployment_set(&options->deployment, name, value, error);
}

static enum kva_status parse_flag(const struct kva_command *command, int n, char **arguments, int *at,
                                  struct kva_options *options, char **memory, struct kva_error *error)
{
    const char *text = arguments[*at], *value = "";
    size_t length = strncmp(text, "--", 2) == 0 ? strcspn(text, "=") : strlen(text);
    if ((command->flags & KVA_FLAG_BIT(KVA_FLAG_DEPLOYMENT)) != 0) {
        bool found;
        enum kva_status status = parse_deployment_flag(n, arguments, at, options, &found, error);
        if (found || status != KVA_OK)
            return status;
    }
    const struct flag *flag = find(text, length);
    if (flag == NULL)
        return unknown(command, text, length, error);
    const char *name = flag->names[0];
    for (size_t i = 0; i < MAX_NAMES && flag->names[i] != NULL; i++)
        if (strlen(flag->names[i]) == length && strncmp(flag->names[i], text, length) == 0)
            name = flag->names[i];
    if ((command->flags & KVA_FLAG_BIT(flag - FLAGS)) == 0)
        return kva_fail(error, KVA_BAD_INPUT, NULL, name, "kvatlas %s does not take it", command->name);
    if (flag->value == SWITCH && text[length] == '=')
        return kva_fail(error, KVA_BAD_INPUT, NULL, name, "takes no value");
    if (flag->value != SWITCH && text[length] == '=')
        value = text + length + 1;
    else if (flag->value != SWITCH) {
        if (*at + 1 >= n || strncmp(arguments[*at + 1], "--", 2) == 0)
            return kva_fail(error, KVA_BAD_INPUT, NULL, name, "a value was expected, as in %s %s", name, flag->shown);
        value = arguments[++*at];
    }
    options->given |= KVA_FLAG_BIT(flag - FLAGS);
    return set(flag, name, value, options, memory, error);
}

static enum kva_status parse(const struct kva_command *command, int n, char **arguments, struct kva_options *options,
                             const char **rest, char *memory, struct kva_error *error)
{
    bool only_arguments = false;
    for (int i = 0; i < n; i++) {
        if (!only_arguments && strcmp(arguments[i], "--") == 0)
            only_arguments = true;
        else if (only_arguments || arguments[i][0] != '-' || arguments[i][1] == '\0')
            rest[options->n_arguments++] = arguments[i];
        else {
            enum kva_status status = parse_flag(command, n, arguments, &i, options, &memory, error);
            if (status != KVA_OK)
                return status;
        }
    }
    if (options->n_arguments < command->min_arguments)
        return kva_fail(error, KVA_BAD_INPUT, NULL, command->name, "which %s? kvatlas %s %s",
                        strcmp(command->arguments, "LOG") == 0 ? "log" : "model", command->name, command->arguments);
    if (options->n_arguments > command->max_arguments)
        return kva_fail(error, KVA_BAD_INPUT, NULL, rest[command->max_arguments],
                        "one argument too many; kvatlas %s %s", command->name, command->arguments);
    return KVA_OK;
}

enum kva_status kva_options_parse(const struct kva_command *command, int n, char **arguments,
                                  struct kva_options *options, bool *help, struct kva_error *error)
{
    *options = (struct kva_options){.command = command};
    *help = false;
    size_t letters = 0;
    for (int i = 0; i < n; i++) {
        *help = *help || strcmp(arguments[i], "--help") == 0 || strcmp(arguments[i], "-h") == 0;
        letters += strlen(arguments[i]) + 1;
    }
    if (*help)
        return KVA_OK;
    // first the arguments' addresses, then the letters of engine names
    size_t addresses = ((size_t)n + 1) * sizeof(char *);
    options->memory = malloc(addresses + letters);
    if (options->memory == NULL)
        return kva_fail_memory(error, addresses + letters);
    options->arguments = options->memory;
    enum kva_status status =
        parse(command, n, arguments, options, options->memory, (char *)options->memory + addresses, error);
    if (status != KVA_OK)
        kva_options_free(options);
    return status;
}

void kva_options_free(struct kva_options *options)
{
    free(options->memory);
    *options = (struct kva_options){0};
}

static void help_line(const struct kva_text *names, const char *help, struct kva_text *out)
{
    enum { COLUMN = 34 };
    if (!names->failed && names->length > COLUMN)
        kva_text_printf(out, "  %s\n  %-*s  %s\n", names->bytes, COLUMN, "", help);
    else if (!names->failed)
        kva_text_printf(out, "  %-*s  %s\n", COLUMN, names->bytes, help);
    out->failed = out->failed || names->failed;
}

static void help_deployment(struct kva_text *out)
{
    kva_text_printf(out, "\nThe deployment, each flag in the spelling of any engine's users:\n");
    for (size_t f = 0; f < kva_n_deployment_flags(); f++) {
        const struct kva_deployment_flag *flag = kva_deployment_flag(f);
        struct kva_text names = {0};
        for (size_t n = 0; n < KVA_MAX_SPELLINGS && flag->names[n] != NULL; n++)
            kva_text_printf(&names, "%s%s", n > 0 ? ", " : "", flag->names[n]);
        if (flag->shown != NULL)
            kva_text_printf(&names, " %s", flag->shown);
        help_line(&names, flag->help, out);
        kva_text_free(&names);
    }
}

void kva_options_help(uint64_t flags, struct kva_text *out)
{
    for (size_t f = 0; f < KVA_N_FLAGS; f++) {
        const struct flag *flag = &FLAGS[f];
        if ((flags & KVA_FLAG_BIT(f)) == 0)
            continue;
        struct kva_text names = {0};
        for (size_t n = 0; n < MAX_NAMES && flag->names[n] != NULL; n++)
            kva_text_printf(&names, "%s%s", n > 0 ? ", " : "", flag->names[n]);
        if (flag->shown != NULL)
            kva_text_printf(&names, " %s", flag->shown);
        help_line(&names, flag->help, out);
        kva_text_free(&names);
    }
    if ((flags & KVA_FLAG_BIT(KVA_FLAG_DEPLOYMENT)) != 0)
        help_deployment(out);
}
